"""The summary of a run with which terminal, report and MLflow begin.

It has counts, scores, verdict, prompt, cost and the next step. The verdict has one wording
everywhere, for each of three states: a winner is certified, passes alone, or is the best estimate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from taxtune.errors import command
from taxtune.metrics.doubt import Doubt
from taxtune.metrics.names import meaning, metric_name
from taxtune.metrics.outcomes import EXACT, GENERAL, LABELS_WRONG, SHOWN, WRONG, Outcomes
from taxtune.metrics.statistics import PairedDifference
from taxtune.metrics.table import PER_IMAGE, SCORES
from taxtune.objective import Constraint, ObjectiveSpec
from taxtune.report.formatting import (
    Result,
    counted,
    difference,
    images_of_units,
    longest_answer,
    number,
    per_unit,
    score_of,
    share_wrong,
    spread_wrong,
    template_name,
)
from taxtune.report.output import Table
from taxtune.tuning.plan import PowerAnalysis
from taxtune.tuning.records import (
    Candidate,
    Held,
    HeldoutResult,
    ModelUsage,
    Selection,
    TuneResult,
    Usage,
    cut_in_words,
    outcomes_of,
)

__all__ = [
    "Column",
    "Summary",
    "Winner",
    "account_lines",
    "goal_in_words",
    "power_in_words",
    "proof_in_words",
    "remarks",
    "selection_in_words",
    "summarise",
    "summary_table",
    "verdict",
]

#: The states that are shown even if no answer is in them.
_ALWAYS = (WRONG, GENERAL, EXACT)
#: The most templates that have a column each; of more, each has a row.
_COLUMNS = 4
# Photos to label are no advice from so many times the tuning images on.
_TOO_MANY = 5


@dataclass(frozen=True, slots=True)
class Column:
    """One template on the images that it is judged by.

    Attributes:
        name: Its name among the held-out results: "baseline", "winner", "accuracy".
        title: The name that it is shown by: "baseline", "winner", "accuracy-tuned".
        outcomes: What became of its answers.
        scores: The scores that matter, by key; None where there is none.
        changes: Their paired differences from the template's own baseline; empty for a baseline.
        doubt: What hangs on doubtful placements; None where the mapper gives no probability.
        masked: Images that the checklist puts elsewhere.
        cut: How many answers were cut off and what to do about it, in words; empty if none was.
    """

    name: str
    title: str
    outcomes: Outcomes
    scores: dict[str, float | None]
    changes: dict[str, PairedDifference] = field(default_factory=dict)
    doubt: Doubt | None = None
    masked: int = 0
    cut: str = ""


@dataclass(frozen=True, slots=True)
class Winner:
    """The winner of a tuning run.

    Attributes:
        name: Its name among the held-out results.
        heading: The heading of its prompt: "Prompt", or its objective where there are several.
        run: The run.
        aim: The score that the run maximises, or the objective where there is none of its own.
        verdict: What is known of it, in a sentence.
        prompt: The prompt; the template where its variables are not known.
        file: The file that holds it, if any.
    """

    name: str
    heading: str
    run: TuneResult
    aim: str
    verdict: str
    prompt: str
    file: Path | None

    @property
    def where(self) -> str:
        """Its iteration: "iteration 3 of 8"."""
        if not self.run.winner:
            return "the baseline"
        return f"iteration {self.run.winner} of {len(self.run.iterations) - 1}"

    @property
    def placed_by(self) -> str:
        """The policy that places its answers; empty where each is placed as it is."""
        policy: dict[str, Any] = {}
        if self.run.selection is not None:
            policy = dict(self.run.selection.policy)
        kind = str(policy.pop("kind", "direct"))
        if kind == "direct":
            return ""
        settings = []
        for key, value in policy.items():
            text = f"{value:.6g}" if isinstance(value, float) else str(value)
            settings.append(f"{key} {text}")
        shown = f" ({', '.join(settings)})" if settings else ""
        return f"Placed by {kind.replace('_', '-')}{shown}."

    @property
    def offer(self) -> str:
        """What the model's own probabilities would bring; empty where that is not known."""
        return "" if self.run.is_chosen else self.run.where.get("probabilities", "")


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a tuning run, a comparison or an evaluation.

    Attributes:
        images: How many images the templates are judged by.
        split: Which images they are: "held-out" or "tuning".
        states: The states of answers that are shown, in order, of `taxtune.metrics.outcomes.SHOWN`.
        scores: The names of the scores that matter, by key, in order.
        columns: The templates, each baseline before the templates that are compared with it.
        winners: The winner of each tuning run; empty for an evaluation.
        cost: Calls, dollars and wall time in a line.
        report: The report's file, if known.
        next: The command to continue with, if any.
    """

    images: int
    split: str
    states: tuple[str, ...]
    scores: dict[str, str]
    columns: tuple[Column, ...]
    winners: tuple[Winner, ...]
    cost: str
    report: str | None
    next: str | None


def summarise(result: Result) -> Summary:
    """Returns the summary of a tuning run, a comparison or an evaluation."""
    outcomes = {held.name: outcomes_of(held.rows) for held in result.heldout}
    given = set(_ALWAYS)
    for each in outcomes.values():
        given |= each.counts.keys()
    states = tuple(state for state in SHOWN if state in given)
    scores = _scores(result)
    limit = longest_answer(result)
    columns = []
    for held in result.heldout:
        column = Column(
            name=held.name,
            title=template_name(held.name),
            outcomes=outcomes[held.name],
            scores={key: score_of(held.scores, key) for key in scores},
            changes=_changes(result, held, scores),
            doubt=held.doubt,
            masked=sum(row.masked is not None for row in held.rows),
            cut=cut_in_words(held.rows, limit),
        )
        columns.append(column)
    winners = tuple(_winner(result, name, run) for name, run in result.named_runs)
    following = None
    if winners:
        folder = winners[0].run.folder
        following = command("classify", folder, "PHOTOS", "--out", "labels.csv")
    images = len(result.heldout[0].rows) if result.heldout else 0
    return Summary(
        images=images,
        split=result.split,
        states=states,
        scores=scores,
        columns=tuple(columns),
        winners=winners,
        cost=cost_line(result.usage),
        report=result.where.get("report"),
        next=following,
    )


def _winner(result: Result, name: str, run: TuneResult) -> Winner:
    heading = "Prompt"
    if not isinstance(result, TuneResult):
        heading = f"Prompt tuned for {metric_name(run.objective)}"
    folder = Path(run.folder)
    files = [folder / "winner.txt", folder / "winner.j2"]
    return Winner(
        name=name,
        heading=heading,
        run=run,
        aim=_aim(run).measure or run.objective,
        verdict=verdict(run),
        prompt=run.best.prompt or run.best.template or "",
        file=next(filter(Path.exists, files), None),
    )


def summary_table(summary: Summary) -> Table:
    """Returns the counts and scores: a column per template, or of many templates a row each.

    Of one template the difference from its baseline is a column too; beside the share of its labels
    that are wrong it has the counts and the 95 % interval.
    """
    columns = summary.columns
    images = "held-out images"
    if summary.split == "tuning":
        images = "tuning images"
    elif summary.winners:
        images = "images the search never saw"
    head = f"On {summary.images:,} {images}"
    cells = {}
    for column in columns:
        counts = [f"{column.outcomes.count(state):,}" for state in summary.states]
        scores = [number(column.scores[key], key) for key in summary.scores]
        cells[column.title] = [*counts, share_wrong(column.outcomes), *scores]
    if len(columns) > _COLUMNS:
        names = ["labels wrong", *(metric_name(key) for key in summary.scores)]
        rows = [(f"  {title}", *values) for title, values in cells.items()]
        states = ["general" if state == GENERAL else state for state in summary.states]
        return Table(name="summary", title="", columns=(head, *states, *names), rows=tuple(rows))
    if len(columns) == 2 and columns[1].changes:
        changes = [""] * len(summary.states) + [spread_wrong(columns[1].outcomes)]
        for key in summary.scores:
            change = columns[1].changes.get(key)
            changes.append("" if change is None else difference(change, key))
        cells[" "] = changes
    names = [f"  {name}" for name in (*summary.states, LABELS_WRONG, *summary.scores.values())]
    return Table(
        name="summary",
        title="",
        columns=(head, *cells),
        rows=tuple(zip(names, *cells.values(), strict=True)),
    )


def remarks(summary: Summary) -> list[str]:
    """Returns the remarks that call for an action, on each template of `summary_table`.

    Such are answers that were cut off, and images that a checklist moves.
    """
    lines = []
    for column in summary.columns:
        if column.cut:
            lines.append(f"{column.title}: {column.cut}")
        if column.masked:
            moved = f"{column.masked:,} of {summary.images:,}"
            lines.append(f"{column.title}: {moved} placed elsewhere by the checklist")
    return lines


def verdict(run: TuneResult) -> str:
    """Returns the verdict on a run's winner, in a sentence; empty where none was chosen yet."""
    if run.selection is None:
        return ""
    if run.is_chosen:
        own = _proof_of(run, run.winner)
        its = _proof_of(run, run.selection.winner)
        return (
            f"Chosen by a person after looking at the results{own}; the run chose iteration "
            f"{run.selection.winner}{its}."
        )
    return selection_in_words(run.selection, _aim(run))


def _proof_of(run: TuneResult, iteration: int) -> str:
    """Returns the proof of an iteration as a remark: " (certified)"; empty where nothing is to be proven."""
    for candidate in run.shortlist:
        if candidate.iteration == iteration:
            proof = proof_in_words(candidate)
            return f" ({proof})" if proof else ""
    return " (not among the candidates)" if run.shortlist else ""


def proof_in_words(candidate: Candidate) -> str:
    """Returns "certified", or the parts that are missing, as "proves hP 0.962 of 0.980"."""
    if candidate.certified:
        return "certified"
    missing = []
    for held in candidate.held:
        if held.missed:
            proves = "proves " if held.confidence > 0.5 else ""
            low = number(held.low, held.measure)
            goal = number(held.goal, held.measure)
            missing.append(f"{proves}{metric_name(held.measure)} {low} of {goal}")
    if candidate.certified is False and not missing:
        missing.append("not certified")
    return ", ".join(missing)


def selection_in_words(selection: Selection, aim: ObjectiveSpec) -> str:
    """Returns the standing of a winner: certified, passing alone, a best estimate, or the best.

    Of a best estimate it says what would prove more, the cheapest first.

    Args:
        selection: The choice.
        aim: The objective of the run.
    """
    images = _seen_in_words(selection)
    if selection.chose_threshold and selection.status == "estimate":
        return (
            f"Best estimate, not certified: its threshold was chosen on the {images}, which cannot "
            "test it as well; taxtune calibrate can."
        )
    if selection.status in ("certified", "passes-alone"):
        return _proven(selection, images)
    missed = [held for held in selection.held if held.missed]
    if selection.status == "estimate" and missed:
        return _wanting(missed[0], selection)
    goals = []
    for held in missed or selection.held:
        goals.append(f"{metric_name(held.measure)} at least {number(held.goal, held.measure)}")
    goal = " and ".join(goals)
    if missed:
        return f"No prompt has {goal} on average; this one comes nearest ({images})."
    name = metric_name(aim.measure or aim.objective)
    among = f", among those with {goal} on average" if goal else ""
    return f"Chosen for the highest {name}, less a margin for luck{among} ({images})."


def _seen_in_words(selection: Selection) -> str:
    """Returns the images that the winner was chosen by, as "49 tuning images with 1 wrong answer"."""
    images = images_of_units(selection.images, "tuning", selection.groups, selection.unit)
    outcomes = selection.outcomes
    if outcomes is None:
        return images
    wrong = f"with {counted(outcomes.wrong, 'wrong answer')}"
    return f"{images} {wrong if outcomes.wrong else 'without a wrong answer'}"


def _proven(selection: Selection, images: str) -> str:
    bounds = []
    for held in selection.held:
        if held.confidence > 0.5:
            low = number(held.low, held.measure)
            confidence = f"{100 * held.confidence:g} % confidence"
            name = metric_name(held.measure) + per_unit(selection.unit)
            bounds.append(f"{name} is at least {low} with {confidence}")
    proven = " and ".join(bounds)
    if selection.status == "certified":
        return f"Certified: {proven} ({images})."
    return (
        f"Passes alone, not certified: by its own images {proven} ({images}), but a more careful "
        "prompt failed the test before it."
    )


def _wanting(held: Held, selection: Selection) -> str:
    """Returns the verdict on a winner that misses a goal, with its remedies, the cheapest first."""
    name = metric_name(held.measure) + per_unit(selection.unit)
    goal = number(held.goal, held.measure)
    low = number(held.low, held.measure)
    images = _seen_in_words(selection)
    lacks = f"{images} prove {name} {low} with {100 * held.confidence:g} % confidence, not {goal}"
    if held.mean < held.goal - 1e-9:
        lacks = f"its {name} is {number(held.mean, held.measure)}, short of the goal {goal} "
        lacks += f"({images})"
    seen = selection.groups or selection.images
    unasked = max(selection.there - seen, 0)
    unit = selection.unit
    remedies = _remedies(held.measure, held.low, held.more, seen, unasked, unit)
    return f"Best estimate, not certified: {lacks}.{_advice(remedies)}"


def _advice(remedies: list[str]) -> str:
    if not remedies:
        return ""
    first = "Cheapest first" if len(remedies) > 1 else "What helps"
    return f" {first}: {'; '.join(remedies)}."


def _remedies(
    measure: str, low: float, more: int | None, seen: int, unasked: int = 0, unit: str = ""
) -> list[str]:
    """Returns the remedies for a goal that is not proven, the cheapest first.

    Args:
        measure: The score that is held.
        low: The mean that is proven.
        more: How many more would prove the goal; None if no number would do.
        seen: How many tuning images were asked about, or groups of them.
        unasked: How many others there are.
        unit: What a group is called; "" where all are single images.
    """
    remedies = []
    if unasked and more is not None:
        others = counted(unasked, f"other {unit or 'tuning image'}")
        remedies.append(f"ask about the {others} (--resume with a larger --effort or budget)")
    provable = _rounded_down(low)
    if provable > 0:
        remedies.append(f"a goal that these photos can prove, {metric_name(measure)} {provable:g}")
    photos = (more or 0) - unasked
    if 0 < photos < _TOO_MANY * (seen + unasked):
        new = counted(_rounded(photos), f"more {unit or 'photo'}")
        remedies.append(f"about {new} for tuning")
    return remedies


def _rounded_down(mean: float) -> float:
    """Returns a goal that is proven: the bound with two digits, close to 1 with three."""
    digits = 1000 if mean >= 0.99 else 100
    return math.floor(mean * digits + 1e-9) / digits


def _rounded(count: int) -> int:
    """Returns a count with one significant digit, or two of what begins with a 1."""
    step: int = 10 ** max(len(str(count)) - 1 - str(count).startswith("1"), 0)
    return round(count / step) * step


def _scores(result: Result) -> dict[str, str]:
    """Returns the names of the scores that matter, by key.

    They are hP, hR, and what the runs hold, with its goal, and aim at.
    """
    runs = [run for _, run in result.named_runs]
    held = [key for run in runs for key in run.bounds]
    objectives = [run.objective for run in runs]
    aims = [_aim(run).measure for run in runs]
    known = {key for scored in result.heldout for key in scored.scores.means}
    names = {}
    unit = result.heldout[0].unit if result.heldout else ""
    keys = ["hp", "hr", *held, *objectives, *aims]
    keys += PER_IMAGE.values()
    for key in dict.fromkeys(keys):
        if key is None or key not in known:
            continue
        name = metric_name(key)
        if key in SCORES:
            name = SCORES[key].title or name
            name += per_unit(unit)
        goals = {number(run.bounds[key], key) for run in runs if run.bounds.get(key)}
        if len(goals) == 1:
            name += f" (goal {goals.pop()})"
        names[key] = name
    return names


def _aim(run: TuneResult) -> ObjectiveSpec:
    return run.spec or ObjectiveSpec(run.objective, None)


def _changes(
    result: Result, held: HeldoutResult, keys: Iterable[str]
) -> dict[str, PairedDifference]:
    kept = result.against(held.name, "baseline")
    if kept is None:
        return {}
    return {key: kept.metrics[key] for key in keys if key in kept.metrics}


# -- goal, power and cost --------------------------------------------------------------------------


def _duration(seconds: float) -> str:
    """Returns a time in its largest unit: "12 s", "3 min", "2.5 h"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def cost_line(usage: Usage) -> str:
    """Returns the calls of a run, their price and the time in a line."""
    parts = [counted(usage.vlm.calls, "call")]
    if usage.vlm.from_store:
        parts.append(f"{counted(usage.vlm.from_store, 'answer')} kept from before")
    others = _other_models(usage)
    parts += [counted(other.calls, f"{name} call") for name, other in others.items()]
    models = (usage.vlm, *others.values())
    unknown = any(model.cost_usd is None and model.calls for model in models)
    usd = usage.cost_usd or 0.0
    price = "under $0.01" if 0 < usd < 0.005 else f"${usd:,.2f}"
    if unknown:
        price = "price unknown" if usage.cost_usd is None else f"{price} and more"
    return ", ".join([*parts, price, _duration(usage.seconds)])


def account_lines(usage: Usage) -> list[tuple[str, str]]:
    """Returns the calls of a run and their cost as named lines, one per model."""
    models = {"VLM": usage.vlm} | _other_models(usage)
    lines = [(f"{name} calls", _asked(model)) for name, model in models.items()]
    return [*lines, ("time", _duration(usage.seconds))]


def _other_models(usage: Usage) -> dict[str, ModelUsage]:
    """Returns the models that were asked besides the vision-language model, by name."""
    models = {"LLM": usage.proposer, "judge and arbiter": usage.judge}
    return {name: model for name, model in models.items() if model != ModelUsage()}


def _asked(usage: ModelUsage) -> str:
    parts = [f"{usage.calls:,}"]
    if usage.from_store:
        parts.append(f"{usage.from_store:,} more kept from before")
    if usage.tokens:
        parts.append(f"{usage.tokens:,} tokens")
    if usage.cost_usd is None and usage.calls:
        parts.append("price unknown")
    elif usage.cost_usd:
        parts.append(f"${usage.cost_usd:,.2f}" if usage.cost_usd >= 0.01 else "less than $0.01")
    return ", ".join(parts)


def goal_in_words(spec: ObjectiveSpec) -> str:
    """Returns the goal in words: "the highest hR, with hP at least 0.980 (90 % confidence)"."""
    aim = meaning(spec.objective) if spec.measure is None else metric_name(spec.measure)
    parts = [f"the highest {aim}"]
    parts += [f"with {_held(constraint)}" for constraint in spec.constraints]
    return ", ".join(parts)


def power_in_words(powers: Iterable[PowerAnalysis]) -> list[str]:
    """Returns the bounds that the tuning images can prove, of scores that are held with a confidence."""
    lines = []
    for power in dict.fromkeys(powers):
        unit = power.unit
        images = images_of_units(power.images, "tuning", power.groups, unit)
        provable = f"{metric_name(power.measure)} {number(power.provable, power.measure)}"
        text = f"without a single error, {images} prove {provable}{per_unit(unit)} with "
        text += f"{100 * power.confidence:g} % confidence"
        more = power.needed - power.groups
        if more > 0:
            remedies = _remedies(power.measure, power.provable, more, power.groups, unit=unit)
            text += f", not {number(power.goal, power.measure)}."
            text += _advice(["raise data.tuning", *remedies])
        lines.append(text)
    return lines


def _held(constraint: Constraint) -> str:
    name = metric_name(constraint.measure)
    if constraint.of is not None:
        return f"{name} at least {100 * constraint.least:.0f} % of the baseline's"
    goal = f"{name} at least {number(constraint.least)}"
    if constraint.confidence == 0.5:
        return goal
    return f"{goal} ({100 * constraint.confidence:.0f} % confidence)"
