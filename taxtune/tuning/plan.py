"""The plan of a run for `--dry-run`: calls, what its images can prove, and what stands in its way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from taxtune.atomic import check_folder
from taxtune.data import Example
from taxtune.data.splits import Splits, split_sizes
from taxtune.errors import TaxtuneError
from taxtune.metrics.bounds import errorless_images, highest_provable
from taxtune.metrics.groups import unit_of
from taxtune.models import AnswerStore, Model
from taxtune.models.arbiter import ChatArbiter, estimated_calls, offer
from taxtune.objective import Objective, ObjectiveSpec, asks_a_model
from taxtune.policies import Policy
from taxtune.progress import note
from taxtune.recipe import Recipe
from taxtune.settings import EFFORTS, ChatProposerSettings, FragmentsProposerSettings
from taxtune.taxonomy import Domain, Taxonomy
from taxtune.tuning.build import (
    LabelledData,
    Setup,
    build_with,
    lacks_arbiter,
    make_data,
    make_mapper,
    make_measure,
    make_objective,
    make_policy,
    make_proposer,
    make_splits,
    make_taxonomy,
    make_vlm,
    make_weights,
    trivial_node,
    tuned_for,
    with_arbiter,
)
from taxtune.tuning.costs import CallCost, Spending, call_cost
from taxtune.tuning.experiment import Experiment, checklist_notes, make_checklist, make_rungs
from taxtune.tuning.history import check_resumable, is_begun
from taxtune.tuning.proposers import Proposer
from taxtune.tuning.records import groups_of
from taxtune.tuning.rules import TemplateRules, baseline_notes, label_names
from taxtune.tuning.run_folder import answers_of, check_run_folder, identity_of
from taxtune.tuning.selection import Rung, most_questions

__all__ = ["Plan", "PowerAnalysis", "analyse_power", "make_plan", "note_reading_alone"]

T = TypeVar("T")

_NAME_ONE = "mapper.arbiter: PROVIDER/MODEL"
_UNKNOWN = 1000  # images where what is wrong with them is told; their number sizes the splits


@dataclass(frozen=True, slots=True)
class PowerAnalysis:
    """What the tuning images can prove of a score that an objective holds with a confidence above 0.5.

    If no answer loses anything, `provable` is the highest mean that they prove, and `needed` groups
    prove the goal. Each of the `groups` counts once; `unit` is what one is called, "" where all are
    single images.
    """

    measure: str
    goal: float
    confidence: float
    images: int
    provable: float
    needed: int
    groups: int
    unit: str


def analyse_power(
    objective: Objective, tuning: Sequence[Example], group: str | None
) -> tuple[PowerAnalysis, ...]:
    """Returns the bound that images, by `data.group`, prove of each score held with a confidence."""
    groups = groups_of(tuning)
    analyses = []
    for held in objective.constraints:
        if held.confidence > 0.5 and held.of is None and held.least < 1:
            provable = highest_provable(len(groups), held.confidence)
            needed = errorless_images(held.least, held.confidence)
            analysis = PowerAnalysis(
                measure=held.measure,
                goal=held.least,
                confidence=held.confidence,
                images=len(tuning),
                provable=provable,
                needed=needed,
                groups=len(groups),
                unit=unit_of(group, groups),
            )
            analyses.append(analysis)
    return tuple(analyses)


@dataclass(frozen=True, slots=True)
class Plan:
    """A run before it is run.

    Attributes:
        name: The recipe's name.
        goals: What is tuned for, one tuning run each.
        problems: Everything that is missing or wrong; empty where the run can start.
        notes: Remarks that need no action, such as weights that will be downloaded.
        nodes: Nodes of the taxonomy.
        images: Labelled images that the recipe's data has.
        tuning_images: Size of the tuning split.
        heldout_images: Size of the held-out split.
        rungs: How many templates are asked about how many of the tuning images.
        power: What the tuning images can prove.
        vlm: The model's kind and name.
        vlm_calls: Most calls of the model; answers in the store and repeated questions make it
            fewer.
        call: What a call of it takes.
        spending: What the run may spend with each effort, or as iterations and budget say.
        llm_calls: Most calls of the proposer's model.
        judge_calls: Most calls of the judge.
        judge: The language model that rates the answers; None where none is asked.
        arbiter: The chat model that reads answers; None where none is asked.
        max_off_tree: As in the recipe.
    """

    name: str
    goals: tuple[ObjectiveSpec, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    nodes: int | None
    images: int | None
    tuning_images: int
    heldout_images: int
    rungs: tuple[Rung, ...]
    power: tuple[PowerAnalysis, ...]
    vlm: dict[str, Any]
    vlm_calls: int
    call: CallCost
    spending: tuple[Spending, ...]
    llm_calls: int
    judge_calls: int
    judge: str | None
    arbiter: str | None
    max_off_tree: float


def make_plan(
    setup: Setup,
    objectives: Sequence[str] = (),
    *,
    resume: bool = False,
    anew: str = "out=",
    checks: Sequence[Callable[[], object]] = (),
) -> Plan:
    """Returns the plan of a tuning run, or of a run for each objective; asks no model anything.

    Args:
        setup: The recipe and the folder of the run. Each part is tried.
        objectives: The objectives of a comparison; empty for a tuning run.
        resume: Whether the run may go on with one that is in the folder.
        anew: How a new run is begun where that one cannot go on.
        checks: What else is to be tried, such as whether results can be recorded.
    """
    attempts = _Attempts()
    is_alone = lacks_arbiter(setup)
    recipe = attempts.attempt(with_arbiter, setup) or setup.recipe
    setup = replace(setup, recipe=recipe)
    policy = make_policy(recipe) if setup.policy is None else setup.policy
    names = tuple(objectives) or (recipe.objective.kind,)
    goals = [make_objective(recipe, name, setup.metrics) for name in names]
    images = _try_images(setup, attempts)
    models = _try_models(setup, names, images, attempts)
    attempts.attempt(check_folder, setup.folder)
    answers = answers_of(setup.folder, setup.answers)
    attempts.attempt(lambda: AnswerStore(answers).close())
    attempts.attempt(partial(check_run_folder, setup.folder, objectives, resume=resume))
    for check in checks:
        attempts.attempt(check)
    if resume:
        _try_resuming(setup, objectives, images, anew, attempts)

    found = _UNKNOWN if images.data is None else len(images.data.examples)
    sizes = split_sizes(found, recipe.data.tuning, recipe.data.heldout)
    if images.splits is not None:  # groups may leave fewer
        sizes = (len(images.splits.tuning), len(images.splits.heldout))
    tuning, heldout = sizes
    described: dict[str, Any] = {} if models.proposer is None else models.proposer.identity()
    calls = _count_calls(recipe, policy, goals, sizes, described)
    picture_note = getattr(models.proposer, "picture_note", None)
    if picture_note is not None and described.get("pictures"):
        proposals = calls.rungs[0].templates - 1
        attempts.notes.append(picture_note(proposals * len(names)))
    cost = _try_cost(setup, policy, images, models, attempts)
    spending = []
    for effort, one in _efforts(recipe).items():
        counted = _count_calls(one, policy, goals, sizes, described)
        chosen = one.limits() == recipe.limits()
        spending.append(_spending(effort, counted.vlm, cost, models, chosen=chosen))
    if is_alone:
        attempts.notes.append(offer(calls.vlm, _NAME_ONE))
    power: list[PowerAnalysis] = []
    if images.splits is not None:
        for goal in goals:
            power += analyse_power(goal, images.splits.tuning, recipe.data.group)
    specs = [goal.spec for goal in goals]
    return Plan(
        name=recipe.name,
        goals=tuple(specs),
        problems=tuple(attempts.problems),
        notes=tuple(attempts.notes),
        nodes=None if images.taxonomy is None else len(images.taxonomy),
        images=None if images.data is None else len(images.data.examples),
        tuning_images=tuning,
        heldout_images=heldout,
        rungs=calls.rungs,
        power=tuple(power),
        vlm={"kind": recipe.vlm.kind, "model": recipe.vlm.model},
        vlm_calls=calls.vlm,
        call=cost,
        spending=tuple(spending),
        llm_calls=calls.llm,
        judge_calls=calls.judge,
        judge=recipe.judge.model if recipe.judge is not None and calls.judge else None,
        arbiter=None if models.arbiter is None else recipe.mapper.arbiter or "given in Python",
        max_off_tree=recipe.max_off_tree,
    )


def _spending(
    effort: str | None, calls: int, cost: CallCost, models: _Models, *, chosen: bool
) -> Spending:
    """Returns the price and the time of so many calls, as far as those of one are known."""
    minutes = None
    if cost.seconds is not None:
        minutes = calls * cost.seconds / getattr(models.vlm, "concurrency", 1) / 60
    asked = 0
    price = None
    if models.arbiter is not None:
        asked = estimated_calls(calls)
        price = models.arbiter.price()
    return Spending(
        effort=effort,
        chosen=chosen,
        vlm_calls=calls,
        usd=None if cost.usd is None else calls * cost.usd,
        minutes=minutes,
        arbiter_calls=asked,
        arbiter_usd=None if price is None else asked * price,
    )


def note_reading_alone(setup: Setup, experiments: Sequence[Experiment]) -> None:
    """Notes what a chat model would be asked in runs that have none to read answers.

    Nothing is noted if the recipe says that none is wanted.
    """
    if not lacks_arbiter(setup):
        return
    first = experiments[0]
    goals = [experiment.objective for experiment in experiments]
    sizes = (len(first.splits.tuning), len(first.splits.heldout))
    calls = _count_calls(first.recipe, first.policy, goals, sizes, first.proposer.identity())
    note(offer(calls.vlm, _NAME_ONE))


class _Calls(NamedTuple):
    """The most calls of a run, and its rungs."""

    rungs: tuple[Rung, ...]
    vlm: int
    llm: int
    judge: int


def _count_calls(
    recipe: Recipe,
    policy: Policy,
    goals: Sequence[Objective],
    sizes: tuple[int, int],
    described: Mapping[str, Any],
) -> _Calls:
    """Returns the most calls of runs for goals, with so many images and a proposer's identity."""
    tuning, heldout = sizes
    ladders = [make_rungs(recipe, policy, goal, tuning) for goal in goals]
    searched = [most_questions(goal, ladder) for goal, ladder in zip(goals, ladders, strict=True)]
    first = ladders[0][0]
    proposals = first.templates - 1
    drafts = 0
    if recipe.limits(policy.samples)[1].vlm_calls is None:  # of a budget, drafts take their place
        drafts = described.get("trial_images", 0) * proposals
    replies = described.get("max_turns", 3 if described.get("kind") == "llm" else 0)
    judged = sum(asks_a_model(goal.name) for goal in goals)
    in_the_end = heldout * (1 + len(goals))
    # Runs that are compared ask about the baseline once.
    saved = (len(goals) - 1) * first.images
    asked = sum(searched) + drafts * len(goals) - saved + in_the_end
    return _Calls(
        rungs=ladders[0],
        vlm=asked * policy.samples,
        llm=replies * proposals * len(goals),
        # The runs that are tuned for a rating, and every template on the held-out images.
        judge=judged * (max(searched) + drafts + in_the_end),
    )


def _efforts(recipe: Recipe) -> dict[str | None, Recipe]:
    """Returns the recipe with each effort; as it is where iterations or calls are given."""
    if recipe.iterations is not None or recipe.budget.vlm_calls is not None:
        return {None: recipe}
    return {effort: recipe.changed({"effort": effort}) for effort in EFFORTS}


class _Attempts:
    """Tries the steps of a run and collects what is wrong, and what there is to remark."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.notes: list[str] = []

    def attempt(self, step: Callable[..., T], *arguments: Any) -> T | None:
        """Returns the result of a step, None if it fails."""
        try:
            return step(*arguments)
        except TaxtuneError as error:
            # A later step that needs an earlier one fails with the same words; say them once.
            if str(error) not in self.problems:
                self.problems.append(str(error))
            return None

    def add_notes(self, step: Callable[..., Any], *arguments: Any) -> None:
        """Adds the notes of a step."""
        notes: Iterable[str] | None = self.attempt(step, *arguments)
        self.notes += notes or ()


@dataclass(frozen=True, slots=True)
class _Images:
    """What could be read of the label tree and of the images."""

    taxonomy: Taxonomy | None = None
    part: Domain | None = None
    data: LabelledData | None = None
    splits: Splits | None = None
    rules: TemplateRules | None = None


class _Models(NamedTuple):
    """The models that could be made; `arbiter` is the chat model that the mapper asks."""

    vlm: Model | None
    proposer: Proposer | None
    arbiter: ChatArbiter | None


def _try_images(setup: Setup, attempts: _Attempts) -> _Images:
    """Tries the label tree, the images and what depends on both."""
    recipe = setup.recipe
    tree = attempts.attempt(make_taxonomy, recipe, setup.taxonomy)
    if tree is None:  # there are no labels to look up
        return _Images()
    taxonomy, part = tree
    data = attempts.attempt(make_data, recipe, taxonomy, part, setup.examples, setup.folder)
    if data is None:
        return _Images(taxonomy, part)
    splits = attempts.attempt(make_splits, recipe, data.examples)
    if splits is None:
        return _Images(taxonomy, part, data)
    domain = trivial_node(recipe, taxonomy, data.examples)
    labels = label_names(taxonomy, domain, splits.tuning)
    rules = TemplateRules.of(recipe.prompt, data.variables, splits, labels)
    attempts.add_notes(baseline_notes, recipe, rules)
    allowed = attempts.attempt(make_checklist, recipe, taxonomy, part)
    attempts.add_notes(checklist_notes, allowed, splits)
    known = ", ".join(f"{variable.name} ({variable.kind})" for variable in data.variables)
    if known:
        attempts.notes.append(f"templates may know of each image: {known}")
    attempts.attempt(make_weights, recipe, taxonomy, part, splits)
    return _Images(taxonomy, part, data, splits, rules)


def _try_models(
    setup: Setup, names: Sequence[str], images: _Images, attempts: _Attempts
) -> _Models:
    """Tries the models, and returns those that could be made."""
    recipe = setup.recipe
    arbiter = None
    if images.taxonomy is not None:
        mapper = attempts.attempt(make_mapper, recipe, images.taxonomy, setup.mapper)
        # A function of the user's own costs what it costs.
        given = getattr(mapper, "arbiter", None)
        arbiter = given if isinstance(given, ChatArbiter) else None
    vlm = attempts.attempt(make_vlm, recipe) if setup.vlm is None else setup.vlm
    proposer = setup.proposer
    context = recipe.data.context
    # Fragments may use variables that only the images tell.
    waits = isinstance(recipe.proposer, FragmentsProposerSettings)
    waits = waits and images.data is None and bool(context.columns or context.candidates)
    if proposer is None and not waits:
        variables = images.data.variables if images.data else ()
        proposer = attempts.attempt(make_proposer, recipe, variables)
    # A recipe without a judge says so when it is read; a comparison may ask for one that it does
    # not name.
    judged = [name for name in names if asks_a_model(name)]
    measures = [attempts.attempt(make_measure, recipe, name, setup.folder) for name in judged]
    asked: list[object] = [vlm, proposer, *measures]
    if not _is_asked_anyway(setup, judges=bool(measures)):
        asked.append(arbiter)
    for model in asked:
        attempts.add_notes(getattr(model, "check", tuple))
    return _Models(vlm, proposer, arbiter)


def _is_asked_anyway(setup: Setup, *, judges: bool) -> bool:
    """Tells whether the proposer, or a judge that is asked, is the chat model that reads answers."""
    recipe = setup.recipe
    models = []
    if setup.proposer is None and isinstance(recipe.proposer, ChatProposerSettings):
        models.append((recipe.proposer.model, recipe.proposer.api_base))
    if judges and recipe.judge is not None:
        models.append((recipe.judge.model, recipe.judge.api_base))
    return (recipe.mapper.arbiter, recipe.mapper.api_base) in models


def _try_cost(
    setup: Setup, policy: Policy, images: _Images, models: _Models, attempts: _Attempts
) -> CallCost:
    """Returns the cost of a call, by stored answers or by the baseline about the first image."""
    if models.vlm is None:
        return CallCost()
    request = None
    if images.taxonomy and images.splits and images.rules and not attempts.problems:
        example = images.splits.tuning[0]
        template = images.rules.parse(setup.recipe.prompt.baseline)
        variables = setup.recipe.prompt.variables
        (prompt,), _ = template.render_each(variables, [example.context])
        request = policy.requests(images.taxonomy, prompt, example.image, example.sha256)[0]
    is_local = setup.vlm is None and setup.recipe.vlm.kind == "local"
    price = partial(
        call_cost, models.vlm, request, answers_of(setup.folder, setup.answers), is_local=is_local
    )
    return attempts.attempt(price) or CallCost()


def _try_resuming(
    setup: Setup, objectives: Sequence[str], images: _Images, anew: str, attempts: _Attempts
) -> None:
    """Tries whether the runs in the folder can go on, where all that they are about is there."""
    folders = [setup.folder / name for name in objectives] or [setup.folder]
    if images.taxonomy is None or images.data is None or attempts.problems:
        return
    if not any(map(is_begun, folders)):
        return
    whole = attempts.attempt(build_with, setup, images.taxonomy, images.part, images.data)
    if whole is None:
        return
    experiments = [tuned_for(whole, name) for name in objectives] or [whole]
    for experiment, folder in zip(experiments, folders, strict=True):
        if not attempts.problems:  # of several runs one says it
            attempts.attempt(check_resumable, folder, identity_of(experiment), anew)
