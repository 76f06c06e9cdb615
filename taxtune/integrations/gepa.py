"""gepa.optimize as the search of a tuning run (Agrawal et al. 2025, https://github.com/gepa-ai/gepa).

    from taxtune.integrations import gepa

    result = gepa.optimize("openai/gpt-5", max_metric_calls=400, recipe="fieldguide")

gepa proposes templates by reflection on answers. Those that it keeps become the iterations of a run
like any other: the winner is chosen by the run's objective and judged once on the held-out images.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from taxtune.data import Example
from taxtune.errors import MissingExtraError, ModelError, ProposerError, TemplateError
from taxtune.metrics.hierarchical import overlap
from taxtune.metrics.table import ScoreTable, TemplateScores
from taxtune.models import (
    Answer,
    AnswerStore,
    Failure,
    FunctionModel,
    Model,
    ModelSettings,
    Request,
    RetryPolicy,
    ask,
    check_model,
    make_model,
)
from taxtune.objective import Objective
from taxtune.policies import PlacedAnswer
from taxtune.resources import prompts_dir
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.experiment import Experiment
from taxtune.tuning.proposers import Check, Goal, Proposal, ProposalFailed, Proposer
from taxtune.tuning.proposers.evidence import hidden_answers, relation
from taxtune.tuning.proposers.llm import spent_on
from taxtune.tuning.proposers.messages import Messages, unwrap_reply
from taxtune.tuning.proposers.pictures import contact_sheet, worst_failures
from taxtune.tuning.records import IterationRecord, SampleResult, TuneResult, Turn, Usage

if TYPE_CHECKING:
    from gepa import EvaluationBatch

    from taxtune.tuning.loop import Tuner

__all__ = [
    "COMPONENT",
    "REFUSED",
    "Adapter",
    "GepaProposer",
    "Log",
    "feedback",
    "image_value",
    "optimize",
]

COMPONENT = "template"
"""The one text of a gepa candidate."""
REFUSED = -math.inf
"""The score of a template that is refused without being asked: none is worse."""

_REMEDY = (
    "Continue with resume=True when the model answers again; answers and replies so far are saved."
)
#: The weight of a constraint that is promised with confidence, beside the aim's, which is 1.
#: With hP and hR it makes hP count four times hR. What matters is that it counts at all: in gepa
#: searches among 329 recorded templates of the field guide (800 calls, 40 images, templates drawn at
#: random in place of reflection) the winner kept a promised hP of .98 within .005 in 27 % of 30 runs
#: by hR alone, and in 90 % with a weight of 1, 4 or 16.
_PROMISED = 4.0
#: The weight of a mere floor; it makes the aim, hP, count four times the hR that is held.
_FLOOR = 0.25


def optimize(
    reflection_lm: str | Callable[[str], str] | Model,
    *,
    max_metric_calls: int,
    settings: Mapping[str, Any] | None = None,
    callbacks: Sequence[Any] = (),
    pictures: int = 0,
    **what: Any,
) -> TuneResult:
    """Tunes a template with gepa.

    Args:
        reflection_lm: The model that reads answers and writes templates: "PROVIDER/MODEL",
            "local:MODEL", a function (prompt) -> str, or a model of `taxtune.make_model` (for an
            address, a key or other settings).
        max_metric_calls: gepa's budget: pairs of a template and an image that it may score, those
            that the store answers included. The seed and every template that is kept take one for
            each tuning image of an iteration.
        settings: As in `taxtune.tune`.
        callbacks: As in `taxtune.tune`.
        pictures: Most failures of a minibatch that the reflection model is shown, on one sheet; at
            most 4, 0 for none.
        **what: The other arguments of `taxtune.tune`: recipe, or taxonomy, examples and vlm;
            objective, out, resume.

    Returns:
        The result. `best.parameters["parent"]` is the number of the template that gepa made it from.

    Raises:
        MissingExtraError: If gepa is not installed.
        TaxtuneError: If something is missing or wrong, or a model is out of reach; finished work is
            kept.
    """
    from taxtune.api import tune

    search = GepaProposer(reflection_lm, max_metric_calls=max_metric_calls, pictures=pictures)
    # Its own budget is what ends it: every template that it keeps may become an iteration.
    settings = {"iterations": max_metric_calls, **(settings or {})}
    return tune(**what, proposer=search, settings=settings, callbacks=[*callbacks, search])


class GepaProposer(Proposer):
    """Runs gepa's whole search in the first iteration, and proposes the templates that it kept.

    The arguments are those of `optimize`.
    """

    def __init__(
        self,
        reflection_lm: str | Callable[[str], str] | Model,
        *,
        max_metric_calls: int,
        pictures: int = 0,
    ) -> None:
        self.max_metric_calls = max_metric_calls
        self.pictures = pictures
        usual = ModelSettings(
            task="text-generation",
            max_tokens=4_000,
            temperature=1.0,
            retry=RetryPolicy(timeout=120),
        )
        self.model = make_model(reflection_lm, usual)
        self._tuner: Tuner | None = None
        self._kept: list[tuple[str, str]] | None = None
        self._spent: dict[str, Any] = {}

    def on_start(self, tuner: Tuner, done: Sequence[IterationRecord]) -> None:
        """Takes the run that it proposes for."""
        self._tuner = tuner

    def identity(self) -> dict[str, str | int | float | None]:
        """Returns the reflection model and a hash of its prompts."""
        digest = hashlib.sha256(_reflection_prompt().encode())
        identity: dict[str, str | int | float | None] = {"kind": "gepa"}
        for key, value in self.model.identity.items():
            identity[f"reflection.{key}"] = value
        identity["prompts_digest"] = Messages().digest + digest.hexdigest()[:16]
        if self.pictures:
            identity["reflection.pictures"] = self.pictures
        return identity

    def check(self) -> None:
        """Checks that gepa is installed and the reflection model can be asked.

        Raises:
            MissingExtraError: If gepa is not installed.
            TaxtuneError: If the model cannot be asked.
        """
        try:
            import gepa  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("gepa", "gepa", "Tuning with gepa") from error
        check_model(self.model)
        is_chat = getattr(self.model, "task", "") == "text-generation"
        takes_images = getattr(self.model, "takes_images", not is_chat)
        if self.pictures and not takes_images:
            remedy = (
                "Set pictures to 0, or give a model that takes images; "
                "a function takes (image, prompt)."
            )
            raise ProposerError("The reflection model takes no images.", remedy=remedy)

    def propose(
        self,
        history: Sequence[IterationRecord],
        goal: Goal,
        *,
        iteration: int,
        seed: int,
        check: Check,
    ) -> Proposal:
        """Returns the first template of gepa's that the run has not tried; see `Proposer.propose`."""
        tuner = self._tuner
        if tuner is None:
            raise ProposerError(
                "gepa has not been told its run.", remedy="Give this proposer as a callback, too."
            )
        if self._kept is None:
            self._kept = self._search(tuner, history[:1], goal, seed)
        # Not `check`, which knows what was proposed when the search began, and an earlier session may
        # have finished it.
        earlier = tuner.history.templates()
        spent = self._spent
        self._spent = {}
        for template, parent in self._kept:
            try:
                tuner.experiment.rules.check(template, earlier)
            except TemplateError:  # tried already
                continue
            return Proposal(template, {"parent": parent}, **spent)
        kept = f"gepa kept {len(self._kept)} templates within {self.max_metric_calls} metric calls"
        raise ProposalFailed(f"{kept}; all have been asked.", final=True, **spent)

    def _search(
        self, tuner: Tuner, history: Sequence[IterationRecord], goal: Goal, seed: int
    ) -> list[tuple[str, str]]:
        """Returns the templates that gepa kept but for the seed, each with its parents' numbers."""
        import gepa

        experiment = tuner.experiment
        rung = experiment.rungs[0]
        calls = self.max_metric_calls
        first_images = experiment.splits.tuning[: rung.images]
        if experiment.budget.vlm_calls is not None:
            calls = min(calls, rung.templates * rung.images)
        with AnswerStore(experiment.answers) as store:
            adapter = Adapter(experiment, store, pictures=self.pictures)
            messages = Messages().first(history, goal, budget=0, count=len)
            reflection = _Reflection(self.model, messages[0]["content"], store, adapter)
            perfect = None
            if not experiment.objective.needs:
                # A minibatch of exact answers teaches nothing.
                perfect = adapter.perfect()
            searched = gepa.optimize(
                adapter.seed,
                adapter.examples,
                first_images,
                adapter=adapter,
                reflection_lm=reflection,
                reflection_prompt_template=_reflection_prompt(),
                skip_perfect_score=perfect is not None,
                perfect_score=perfect,
                max_metric_calls=calls,
                stop_callbacks=[lambda _: reflection.error is not None],
                seed=seed,
                logger=Log(),
            )
        if reflection.error is not None:
            raise reflection.error
        templates = [candidate[COMPONENT] for candidate in searched.candidates]
        ids = [example.id for example in first_images]
        iterations = set(product(templates, ids))
        tried = len(set(adapter.asked) - iterations)
        self._spent = spent_on(reflection.replies)
        self._spent["trace"] = tuple(adapter.shown)
        self._spent["trials"] = replace(adapter.usage, tried=tried)
        parents = [", ".join(map(str, numbers)) for numbers in searched.parents]
        return list(zip(templates, parents, strict=True))[1:]


class Adapter:
    """gepa's `GEPAAdapter` for an experiment: candidates are templates, and examples its tuning images.

    A template that the run would refuse scores `REFUSED` without being asked. gepa needs a number for
    every image: one without an answer gets the mean of the others in its batch, which leaves it out
    of the batch's mean; if none was answered it is NaN, by which gepa accepts nothing.

    Args:
        experiment: The experiment that is tuned.
        store: The store of the answers; None asks again.
        pictures: How many of the worst failures of a minibatch are on its contact sheet.
    """

    propose_new_texts = None  # gepa's own, which asks its reflection model

    def __init__(
        self, experiment: Experiment, store: AnswerStore | None, *, pictures: int = 0
    ) -> None:
        self.experiment = experiment
        self.examples = list(experiment.splits.tuning)
        self.seed = {COMPONENT: experiment.recipe.prompt.baseline}
        #: Pairs of a template and an image's id that have an answer, and the usage.
        self.asked: list[tuple[str, str]] = []
        self.usage = Usage()
        #: The sheet of the latest minibatch, which gepa asks about before it takes the next.
        self.sheet: Path | None = None
        #: The tiles of all sheets.
        self.shown: list[Turn] = []
        self._pictures = min(pictures, 4)
        self._evaluator = experiment.evaluator(store)
        self._numbers = {example.id: number for number, example in enumerate(self.examples, 1)}

    def value(self, row: SampleResult) -> float:
        """Returns an answer's value for the experiment's objective (`image_value`)."""
        return image_value(self.experiment.objective, row)

    def perfect(self) -> float:
        """Returns the value of an exact answer."""
        target = self.examples[0].target
        exact = PlacedAnswer(
            answer="",
            node=target,
            placement="",
            off_tree=False,
            abstained=False,
            stage="",
            confidence=None,
        )
        row = SampleResult(example="", image="", target=target, truth="", placed=exact)
        return self.value(*self._evaluator.scored([row]))

    def evaluate(
        self, batch: list[Example], candidate: Mapping[str, str], capture_traces: bool = False
    ) -> EvaluationBatch[SampleResult, str | None]:
        """Returns the answers to a template and the value of each.

        Raises:
            ModelError: If the model cannot be asked, or answers none of the images for a reason that
                may pass.
        """
        from gepa import EvaluationBatch

        template = candidate[COMPONENT]
        try:
            self.experiment.rules.check(template)
        except TemplateError as error:
            reason = f"Refused: {error}"
            refused = []
            for example in batch:
                image = example.name
                row = SampleResult(example.id, image, example.target, "", failure=reason)
                refused.append(row)
            return EvaluationBatch(
                outputs=[None] * len(batch),
                scores=[REFUSED] * len(batch),
                trajectories=refused,
                num_metric_calls=0,
            )
        parsed = self.experiment.rules.parse(template)
        evaluation = self._evaluator.evaluate(parsed, batch)
        rows = list(evaluation.rows)
        self.usage += evaluation.usage.new()
        for row in rows:
            if row.answer is not None:
                self.asked.append((template, row.example))
        values = [self.value(row) if _is_rated(row) else None for row in rows]
        known = [value for value in values if value is not None]
        if not known and evaluation.retryable:
            first = evaluation.failures[0]
            message = f"None of {len(batch)} images has an answer; the first: {first}"
            raise ModelError(message, remedy=_REMEDY)
        mean = fmean(known) if known else math.nan
        scores = [mean if value is None else value for value in values]
        return EvaluationBatch(
            outputs=[row.answer for row in rows],
            scores=scores,
            trajectories=rows if capture_traces else None,
        )

    def make_reflective_dataset(
        self,
        candidate: Mapping[str, str],
        eval_batch: EvaluationBatch[SampleResult, str | None],
        components_to_update: Sequence[str],
    ) -> dict[str, list[dict[str, str]]]:
        """Returns the answers, names hidden, each with feedback; failed calls are left out."""
        pairs = zip(eval_batch.trajectories or (), eval_batch.scores, strict=True)
        answered = [(row, value) for row, value in pairs if row.node is not None]
        rows = [row for row, _ in answered]
        goal = self.experiment.goal()
        rules = self.experiment.rules
        prompt = rules.prompt(rules.parse(candidate[COMPONENT]))
        tiles = self._show_failures(rows, goal, prompt)
        records = []
        hidden = hidden_answers(rows, goal, template=prompt)
        for (row, value), answer in zip(answered, hidden, strict=True):
            image = f"{self._numbers[row.example]} of {len(self.examples)}"
            record = {"Image": image + tiles.get(row.example, "")}
            record["Answer"] = answer.text
            record["Feedback"] = feedback(self.experiment.taxonomy, self.experiment.domain, row)
            record["Score"] = f"{value:.2f}"
            records.append(record)
        return dict.fromkeys(components_to_update, records)

    def _show_failures(
        self, rows: Sequence[SampleResult], goal: Goal, prompt: str
    ) -> dict[str, str]:
        """Makes the sheet of a minibatch's worst failures; returns words for each one's tile."""
        # gepa fills up its last minibatch with images that are in it.
        different = {row.example: row for row in rows}
        batch = IterationRecord(0, "complete", prompt, rows=tuple(different.values()))
        shown = worst_failures(batch, goal, self._pictures)
        self.sheet = None
        tiles = {}
        for number, picture in enumerate(shown, 1):
            tiles[picture.example] = f", tile {number} of the picture"
        if shown:
            self.sheet = contact_sheet(shown, self.experiment.folder / "pictures")
            self.shown.append(Turn("pictures", "", ", ".join(tiles)))
        return tiles


def _is_rated(row: SampleResult) -> bool:
    return row.node is not None and not row.unrated


class _Reflection:
    """Asks the reflection model.

    Replies are kept in the answer store, so that a search begun again is the same one.
    """

    def __init__(self, model: Model, system: str, store: AnswerStore, adapter: Adapter) -> None:
        self._model = model
        self._system = system
        self._store = store
        self._adapter = adapter
        #: Why the model cannot be asked; gepa swallows what its reflection model raises.
        self.error: ProposerError | None = None
        #: Replies that did not come from the store.
        self.replies: list[Answer] = []

    def __call__(self, prompt: str) -> str:
        """Returns the template of the reply in a fence, or nothing, which is refused as empty."""
        if self.error is not None:
            raise self.error
        request = Request(f"{self._system}\n\n{prompt}", self._adapter.sheet)
        try:
            (reply,) = ask(self._model, [request], self._store, what="reflection")
            if isinstance(reply, Failure) and reply.retryable:
                message = f"The reflection model gave no answer: {reply.reason}"
                raise ModelError(message, remedy=_REMEDY)
        except ModelError as error:
            self.error = ProposerError(error.message, value=error.value, remedy=error.remedy)
            raise self.error from None
        if isinstance(reply, Failure):
            return ""
        if not reply.cached:
            self.replies.append(reply)
        if isinstance(self._model, FunctionModel) and "```" not in reply.text:
            # A function returns the template itself.
            return f"```\n{reply.text}\n```"
        try:
            return f"```\n{unwrap_reply(reply.text)}\n```"
        except TemplateError:
            return ""


class Log:
    """gepa's log as Python's: a run prints nothing of its own accord."""

    def log(self, message: str) -> None:
        """Logs a line."""
        logging.getLogger("taxtune.gepa").info(message)


def _reflection_prompt() -> str:
    """Returns the prompt that presents a template, in gepa's placeholders."""
    return (prompts_dir() / "gepa" / "reflection.txt").read_text(encoding="utf-8")


def image_value(objective: Objective, row: SampleResult) -> float:
    """Returns one answer's value for an objective; larger is better.

    Without constraints it is the objective of this answer alone. A constraint holds for a mean and
    says nothing of one image, so its measure is added with a fixed weight (a Lagrangian relaxation):
    for `hp` and `hr_at_hp` the value is (4 hP + hR) / 5. The constraint itself is held where the
    winner is chosen.

    Raises:
        TaxtuneError: If the objective is not a finite number.
    """
    table = ScoreTable.of_rows([row.values])
    scores = TemplateScores(n=1, means=table.means())
    total = objective.aimed(scores)
    weights = 1.0
    for constraint in objective.constraints:
        weight = _PROMISED if constraint.confidence > 0.5 else _FLOOR
        total += weight * scores.get(constraint.measure)
        weights += weight
    return total / weights


def feedback(taxonomy: Taxonomy, domain: int, row: SampleResult) -> str:
    """Returns feedback on how much of an answer about `domain` is right, in words without labels."""
    assert row.node is not None  # a failed call has no feedback
    if row.off_tree:
        return (
            "The answer names something that the taxonomy does not have, "
            "so nothing that it says is right."
        )
    counts = overlap(taxonomy, [row.node], [row.target])
    n_predicted, n_right, n_relevant = (int(count[0]) for count in counts)
    given = f"{n_right} of the {n_relevant} true labels are given (hR {n_right / n_relevant:.2f})"
    if row.abstained:
        return f"The answer says nothing about what the image shows: {given}."
    right = (
        f"{n_right} of its {n_predicted} labels from the root down are right "
        f"(hP {n_right / n_predicted:.2f})"
    )
    where = relation(taxonomy, domain, row.node, row.target)
    return f"The answer is {where}: {right}, and {given}."
