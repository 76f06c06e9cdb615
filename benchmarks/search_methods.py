"""The ways to search that `optimizers.py` compares, each on a recorded landscape and with a budget of answers.

Every one asks the baseline about 20 images first. A method never sees a held-out image, and what it has asked before is
not counted again, as in a run with its answer store.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from landscapes.landscape import FloatArray, IntArray, Landscape
from numpy.typing import NDArray

from taxtune.metrics.table import TemplateScores, with_derived
from taxtune.objective import Aims, Constraint, make_objective
from taxtune.tuning.proposers.base import Check, Goal, Proposal, ProposalFailed, Proposer
from taxtune.tuning.proposers.fragments import FragmentsProposer
from taxtune.tuning.records import IterationRecord, SampleResult
from taxtune.tuning.selection import choose, next_steps, rungs

#: Images of an iteration in the paper's loop, and those that every method asks the baseline about.
PAPER_IMAGES = 20
#: Images that the package first asks each template about.
BLOCK = 20


@dataclass(frozen=True)
class Aim:
    """What is searched for.

    Attributes:
        name: "hp": the highest hP among templates whose hR is at least `floor` times the
            baseline's, ties by hR; "hr_at_hp": the highest hR among templates whose hP is at least
            `target`.
        target: The hP that "hr_at_hp" holds.
        floor: The share of the baseline's hR that "hp" holds.
    """

    name: Literal["hp", "hr_at_hp"]
    target: float = 0.98
    floor: float = 0.8

    def missed(self, hp: Any, hr: Any, baseline_hr: Any) -> Any:
        """Returns by how much means miss what is held; 0 and below where they do not."""
        return self.target - hp if self.name == "hr_at_hp" else self.floor * baseline_hr - hr

    def aimed(self, hp: Any, hr: Any) -> Any:
        """Returns the mean that is to be high."""
        return hr if self.name == "hr_at_hp" else hp

    def value(self, hp: Any, hr: Any, baseline_hr: Any) -> Any:
        """Returns the sort key of the plain rule: the mean that is to be high, ties by the other, or minus the miss."""
        missed = self.missed(hp, hr, baseline_hr)
        tied = self.aimed(hp, hr) + 1e-6 * (hp if self.name == "hr_at_hp" else hr)
        return np.where(missed > 1e-12, -missed, tied)


@dataclass(frozen=True)
class Task:
    """One search: the landscape, the tuning images in the order in which they may be asked, the aim and the seed."""

    landscape: Landscape
    tuning: IntArray
    aim: Aim
    seed: int

    def rows(self, template: int) -> tuple[SampleResult, ...]:
        """Returns the records of a template's answers about the tuning images, in their order."""
        rows = self.landscape.rows(template)
        return tuple(rows[image] for image in self.tuning.tolist())

    def rng(self, *parts: int) -> np.random.Generator:
        """Returns a generator of the search's own."""
        return np.random.default_rng([self.seed, *parts])


@dataclass(frozen=True)
class Chosen:
    """What a search comes to.

    Attributes:
        template: Number of the template that it chose.
        calls: Answers that it asked for.
        hp: The chosen template's mean hP on the images that the search asked it about.
        hr: Its mean hR there.
        promised: Whether the search says that the template holds what is to be held: for the
            package by its bound, for the others by these means.
    """

    template: int
    calls: int
    hp: float
    hr: float
    promised: bool


class Questions:
    """Answers about tuning images, each counted when it is first asked for."""

    def __init__(self, task: Task, budget: int) -> None:
        self.hp = task.landscape.hp[:, task.tuning]
        self.hr = task.landscape.hr[:, task.tuning]
        self.aim = task.aim
        self.budget = budget
        self.asked: NDArray[np.bool_] = np.zeros(self.hp.shape, dtype=bool)
        self.calls = 0
        #: Images of an iteration in the paper's loop.
        self.few = min(PAPER_IMAGES, len(task.tuning))

    @property
    def left(self) -> int:
        """Answers that may still be asked for."""
        return self.budget - self.calls

    def ask(self, template: int, images: int | Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """Returns hP and hR of a template on the first so many tuning images, or on those of these numbers."""
        chosen: Any = slice(images) if isinstance(images, int) else list(images)
        self.calls += int((~self.asked[template, chosen]).sum())
        if self.calls > self.budget:
            raise RuntimeError(f"{self.calls} answers were asked for, {self.budget} are allowed")
        self.asked[template, chosen] = True
        return self.hp[template, chosen], self.hr[template, chosen]

    def means(self, template: int) -> tuple[float, float]:
        """Returns mean hP and hR of a template over the answered images."""
        asked = self.asked[template]
        return float(self.hp[template, asked].mean()), float(self.hr[template, asked].mean())

    def value(self, template: int) -> float:
        """Returns the plain rule's key of a template over the answered images."""
        return float(self.aim.value(*self.means(template), self.means(0)[1]))

    def best(self, templates: Sequence[int], among: int = 1) -> list[int]:
        """Returns the best of some templates by the plain rule, the best first, the earlier of equals first."""
        return sorted(templates, key=self.value, reverse=True)[:among]

    def chosen(self, template: int, promised: bool | None = None) -> Chosen:
        """Returns a template as the search's choice.

        What it promises is that which its means say where left out.
        """
        if promised is None:
            promised = self.value(template) > 0
        return Chosen(template, self.calls, *self.means(template), promised)


#: From a search and several budgets to what it comes to with each.
Method = Callable[[Task, Sequence[int]], list[Chosen]]


def _each(search: Callable[[Task, int], Chosen]) -> Method:
    """A method that plans by its budget: one search for each."""
    return lambda task, budgets: [search(task, budget) for budget in budgets]


# -- one template after another, each on the same 20 images ----------------------------------------


def neighbours(
    landscape: Landscape, template: int, tried: Sequence[int], slots: int = 2
) -> IntArray:
    """Returns untried templates that differ from one in at most so many slots.

    All untried ones where none does.
    """
    untried = np.ones(len(landscape.templates), dtype=bool)
    untried[list(tried)] = False
    near = untried & (landscape.differences[template] <= slots)
    found: IntArray = np.flatnonzero(near if near.any() else untried)
    return found


#: From the templates that were tried and their values to the next.
_Propose = Callable[[list[int], list[float]], int]


def _in_turn(task: Task, budgets: Sequence[int], propose: _Propose) -> list[Chosen]:
    """Asks one template after another.

    What smaller budgets would have come to is read off on the way.
    """
    questions = Questions(task, max(budgets))
    tried: list[int] = []
    values: list[float] = []
    found: dict[int, Chosen] = {}
    while len(found) < len(set(budgets)):
        over = len(tried) == len(task.landscape.templates)
        for budget in budgets:
            if budget not in found and (over or questions.calls + questions.few > budget):
                found[budget] = questions.chosen(questions.best(tried)[0])
        if len(found) == len(set(budgets)):
            break
        template = propose(tried, values) if tried else 0
        questions.ask(template, questions.few)
        tried.append(template)
        values.append(questions.value(template))
    return [found[budget] for budget in budgets]


def paper(task: Task, budgets: Sequence[int]) -> list[Chosen]:
    """The paper's loop: what comes next differs in one or two slots from the best so far.

    This stands in for the chat model, which sees the templates tried so far with their scores and
    improves the best.
    """
    rng = task.rng(1)

    def propose(tried: list[int], values: list[float]) -> int:
        best = tried[int(np.argmax(values))]
        return int(rng.choice(neighbours(task.landscape, best, tried)))

    return _in_turn(task, budgets, propose)


def random(task: Task, budgets: Sequence[int]) -> list[Chosen]:
    """Templates at random, and the paper's rule."""
    order = iter(1 + task.rng(2).permutation(len(task.landscape.templates) - 1))
    return _in_turn(task, budgets, lambda tried, values: int(next(order)))


def tpe(task: Task, budgets: Sequence[int]) -> list[Chosen]:
    """Optuna's multivariate TPE over the slots (Bergstra et al. 2011.

    Akiba et al. 2019), and the paper's rule.

    The first eight templates are drawn at random. A composition that contradicts itself or was
    tried is drawn again, at most 20 times, and then replaced with a random one.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    landscape = task.landscape
    rng = task.rng(3)
    slots = sorted({slot for each in landscape.parameters for slot in each})
    choices = {}
    for slot in slots:
        choices[slot] = sorted({each[slot] for each in landscape.parameters if slot in each})
    space = {
        slot: optuna.distributions.CategoricalDistribution(ids) for slot, ids in choices.items()
    }
    number = {tuple(sorted(each.items())): i for i, each in enumerate(landscape.parameters) if each}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "multivariate" is marked experimental
        sampler = optuna.samplers.TPESampler(seed=task.seed, n_startup_trials=4, multivariate=True)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    told = 1  # the baseline has no parameters

    def propose(tried: list[int], values: list[float]) -> int:
        nonlocal told
        for template, value in zip(tried[told:], values[told:], strict=True):
            known = landscape.parameters[template]
            study.add_trial(
                optuna.trial.create_trial(params=known, distributions=space, value=value)
            )
        told = len(tried)
        if len(tried) > 8:
            for _ in range(20):
                trial = study.ask(fixed_distributions=space)
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
                template = number.get(tuple(sorted(trial.params.items())))
                if template is not None and template not in tried:
                    return template
        untried = np.setdiff1d(np.arange(1, len(landscape.templates)), tried)
        return int(rng.choice(untried))

    return _in_turn(task, budgets, propose)


# -- fewer and fewer templates on more and more images ---------------------------------------------

_Stages = list[tuple[int, int]]


def _staged(task: Task, stages: _Stages, budget: int) -> Chosen:
    """Asks some templates about some images, the best of them by the plain rule about more, and so on."""
    questions = Questions(task, budget)
    questions.ask(0, questions.few)
    left = [0, *(1 + task.rng(4).permutation(len(task.landscape.templates) - 1)).tolist()]
    for stage, (templates, images) in enumerate(stages):
        left = questions.best(left, templates) if stage else left[:templates]
        for template in left:
            questions.ask(template, images)
    return questions.chosen(questions.best(left)[0])


def _largest(task: Task, budget: int, stages: Callable[[int], _Stages]) -> _Stages:
    """Returns the stages for as many templates as the budget allows."""
    for n in range(len(task.landscape.templates), 0, -1):
        made = [(templates, min(images, len(task.tuning))) for templates, images in stages(n)]
        before = [0, *(images for _, images in made)]
        few = min(PAPER_IMAGES, len(task.tuning))
        if few + sum(t * (i - b) for (t, i), b in zip(made, before, strict=False)) <= budget:
            return made
    raise SystemExit(f"A budget of {budget} answers is too small. Give at least 100.")


@_each
def halving(task: Task, budget: int) -> Chosen:
    """Successive halving (Jamieson and Talwalkar 2016): a third goes on, to three times as many images."""
    return _staged(
        task,
        _largest(task, budget, lambda n: [(n, 10), (math.ceil(n / 3), 30), (math.ceil(n / 9), 90)]),
        budget,
    )


@_each
def three_stages(task: Task, budget: int) -> Chosen:
    """Simple successive halving: of 40 templates on 10 images 12 go on to 40 images and 5 to 160, by the budget."""

    def stages(n: int) -> _Stages:
        made = [(n, 10), (max(1, round(0.3 * n)), 40), (max(1, round(0.125 * n)), 160)]
        return made if n >= 8 else made[:2]

    return _staged(task, _largest(task, budget, stages), budget)


def everything(margin: float) -> Method:
    """Returns the method that asks all templates about all tuning images: what more calls could not improve.

    Of the templates whose mean hP lies so many standard errors above the target it chooses the one with the highest hR.
    """

    def search(task: Task, budget: int) -> Chosen:
        questions = Questions(task, budget)
        images = len(task.tuning)
        for template in range(len(questions.hp)):
            questions.ask(template, images)
        if task.aim.name == "hp":
            return questions.chosen(questions.best(range(len(questions.hp)))[0])
        low = questions.hp.mean(axis=1) - margin * questions.hp.std(axis=1, ddof=1) / math.sqrt(
            images
        )
        held = low >= task.aim.target
        ranked = np.where(held, 1 + questions.hr.mean(axis=1), low)
        return questions.chosen(int(ranked.argmax()), bool(held.any()))

    return _each(search)


# -- GEPA ------------------------------------------------------------------------------------------


@_each
def gepa(task: Task, budget: int) -> Chosen:
    """`gepa.optimize` (Agrawal et al. 2025) with its defaults: a Pareto front over the images of a validation set.

    What its reflection would write is drawn from the templates that differ from the candidate in one or two slots. GEPA
    maximises a mean over images, so it gets what `taxtune.integrations.gepa` gives it where an objective holds hP or
    hR: (4 hP + hR) / 5, which does better for "hp" than hP itself, too. Of what it accepted the plain rule chooses.
    """
    from gepa import optimize
    from gepa.core.adapter import EvaluationBatch

    landscape = task.landscape
    rng = task.rng(5)
    number = {template: i for i, template in enumerate(landscape.templates)}
    questions = Questions(task, budget)
    validation = list(range(min(len(task.tuning), max(PAPER_IMAGES, budget // 20))))
    proposed = [0]

    class Adapter:
        def evaluate(
            self, batch: list[int], candidate: dict[str, str], capture_traces: bool = False
        ) -> Any:
            hp, hr = questions.ask(number[candidate["template"]], batch)
            scores = ((4 * hp + hr) / 5).tolist()
            return EvaluationBatch(list(batch), scores, list(batch) if capture_traces else None)

        def make_reflective_dataset(
            self, candidate: dict[str, str], batch: Any, components: list[str]
        ) -> Any:
            return {name: [{"Feedback": ""}] for name in components}

        def propose_new_texts(
            self, candidate: dict[str, str], dataset: Any, components: list[str]
        ) -> dict[str, str]:
            proposed.append(
                int(rng.choice(neighbours(landscape, number[candidate["template"]], proposed)))
            )
            return {"template": landscape.templates[proposed[-1]]}

    class Silent:
        def log(self, message: str) -> None:
            return

    step = (
        3 + 3 + len(validation)
    )  # the most that an iteration can ask: parent and child on three images, and all
    result = optimize(
        seed_candidate={"template": landscape.templates[0]},
        trainset=list(range(len(task.tuning))),
        valset=validation,
        adapter=Adapter(),  # type: ignore[arg-type]
        stop_callbacks=lambda state: (
            questions.left < step or len(proposed) >= len(landscape.templates)
        ),
        skip_perfect_score=False,
        logger=Silent(),
        seed=task.seed,
    )
    accepted = [number[candidate["template"]] for candidate in result.candidates]
    return questions.chosen(questions.best(accepted)[0])


# -- taxtune's own parts ---------------------------------------------------------------------------


class Untried(Proposer):
    """Proposes an untried template of the landscape at random: for landscapes that are no whole set of fragments."""

    def __init__(self, landscape: Landscape) -> None:
        self.landscape = landscape

    def propose(
        self,
        history: Sequence[IterationRecord],
        goal: Goal,
        *,
        iteration: int,
        seed: int,
        check: Check,
    ) -> Proposal:
        """Returns an untried template."""
        tried = {record.template for record in history}
        left = [i for i, template in enumerate(self.landscape.templates) if template not in tried]
        if not left:
            raise ProposalFailed("All templates of the landscape have been tried.", final=True)
        chosen = int(np.random.default_rng([seed, iteration]).choice(left))
        return Proposal(self.landscape.templates[chosen], dict(self.landscape.parameters[chosen]))


class Replay:
    """A tuning run of the package on a landscape: its records, and the proposer's next template.

    Args:
        task: The search.
        budget: Answers that it may ask for.
    """

    def __init__(self, task: Task, budget: int) -> None:
        landscape = task.landscape
        self.task, self.questions = task, Questions(task, budget)
        self.number = {template: i for i, template in enumerate(landscape.templates)}
        aims = Aims(Constraint("hr", task.aim.floor, of="baseline"), hp_target=task.aim.target)
        self.objective = make_objective(task.aim.name, aims=aims)
        self.proposer = (
            Untried(landscape)
            if landscape.fragments is None
            else FragmentsProposer(landscape.fragments)
        )
        self.records: list[IterationRecord] = []

    @property
    def goal(self) -> Goal:
        """What the proposer is told."""
        return Goal(
            objective=self.objective,
            trivial_hp=1.0,
            trivial_hr=self.task.landscape.trivial_hr,
            domain="bird",
            question="What bird is this?",
            ranks=["order", "family", "species"],
            tuning_images=len(self.task.tuning),
        )

    def propose(self) -> Proposal | None:
        """Returns the next iteration's template, the baseline first.

        None where there is none left.
        """
        if not self.records:
            return Proposal(self.task.landscape.templates[0])
        try:
            return self.proposer.propose(
                self.records,
                self.goal,
                iteration=len(self.records),
                seed=self.task.seed,
                check=lambda template: None,
            )
        except ProposalFailed:
            return None

    def ask(self, proposal: Proposal, iteration: int, images: int) -> IterationRecord:
        """Asks with an iteration's template about the first so many tuning images, and keeps the record."""
        hp, hr = self.questions.ask(self.number[proposal.template], images)
        means = {"hp": float(hp.mean()), "hr": float(hr.mean())}
        means["accuracy"] = float(((hp == 1) & (hr == 1)).mean())
        scores = TemplateScores(n=images, means=with_derived(means))
        baseline = self.records[0].scores if self.records else scores
        record = IterationRecord(
            iteration,
            "complete",
            proposal.template,
            scores=scores,
            value=self.objective.value(scores, baseline),
            feasible=self.objective.feasible(scores, baseline),
            parameters=proposal.parameters,
            rows=self.task.rows(self.number[proposal.template])[:images],
        )
        self.records[iteration : iteration + 1] = [record]
        return record


def fragments(task: Task, budgets: Sequence[int]) -> list[Chosen]:
    """The package's `fragments` proposer, each template on 20 images, and the paper's rule."""
    replay = Replay(task, max(budgets))

    def propose(tried: list[int], values: list[float]) -> int:
        for template in tried[len(replay.records) :]:
            known = task.landscape.parameters[template]
            replay.ask(
                Proposal(task.landscape.templates[template], known),
                len(replay.records),
                replay.questions.few,
            )
        proposal = replay.propose()
        assert proposal is not None  # there are untried templates
        return replay.number[proposal.template]

    return _in_turn(task, budgets, propose)


def taxtune(task: Task, budgets: Sequence[int]) -> list[Chosen]:
    """The package: its `fragments` proposer, its successive halving, and its choice of the winner."""
    images = len(task.tuning)
    found = []
    templates = len(task.landscape.templates)
    floored = int(task.aim.name == "hp")
    stages = {
        budget: rungs(min(BLOCK, images), images, templates, budget, always=floored)
        for budget in budgets
    }
    # A proposal depends on earlier questions alone, so that the search of a small budget is the
    # beginning of that of a large one.
    search = Replay(task, BLOCK * len(task.landscape.templates))
    proposals: list[Proposal] = []
    while len(proposals) < max(made[0].templates for made in stages.values()):
        proposal = search.propose()
        if proposal is None:
            break
        search.ask(proposal, len(proposals), min(BLOCK, images))
        proposals.append(proposal)
    for budget in budgets:
        replay = Replay(task, budget)
        first, *_ = made = stages[budget]
        for iteration, proposal in enumerate(proposals[: first.templates]):
            replay.ask(proposal, iteration, first.images)
        while steps := next_steps(replay.records, replay.objective, made):
            for iteration, images in steps:
                replay.ask(proposals[iteration], iteration, images)
        selection = choose(replay.records, replay.objective)
        assert selection is not None  # every iteration was scored
        winner = replay.number[proposals[selection.winner].template]
        found.append(replay.questions.chosen(winner, selection.reached))
    return found


#: The methods by name, in the order of the tables.
METHODS: dict[str, Method] = {
    "paper": paper,
    "random": random,
    "fragments": fragments,
    "halving": halving,
    "three stages": three_stages,
    "gepa": gepa,
    "taxtune": taxtune,
}
#: What takes long, or more answers than any search may ask for.
SLOW: dict[str, Method] = {"tpe": tpe}
SLOW |= {f"all {margin:g}": everything(margin) for margin in (0.0, 1.0, 1.3, 1.6, 2.0)}
