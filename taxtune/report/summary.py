"""The summary of a run with which terminal, report and MLflow begin: counts, scores, verdict, prompt, cost, next step.

The verdict has one wording everywhere, for each of three states: a winner is certified, passes alone, or is the best
estimate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from taxtune.errors import command
from taxtune.metrics.confidence import Doubt
from taxtune.metrics.names import meaning, metric_name
from taxtune.metrics.selective import Selective
from taxtune.metrics.statistics import PairedDifference
from taxtune.objective import Constraint, ObjectiveSpec
from taxtune.report.formatting import (
    Result,
    difference,
    longest_answer,
    number,
    paired,
    score_of,
    template_name,
)
from taxtune.report.output import Table
from taxtune.tuning.plan import PowerAnalysis
from taxtune.tuning.records import (
    Held,
    HeldoutResult,
    ModelUsage,
    SampleResult,
    Selection,
    TuneResult,
    Usage,
    cut_in_words,
)

__all__ = [
    "STATES",
    "Column",
    "Summary",
    "Winner",
    "account_lines",
    "doubt_in_words",
    "doubt_lines",
    "goal_in_words",
    "power_in_words",
    "selection_in_words",
    "shown_columns",
    "state_of",
    "summarise",
    "summary_table",
    "verdict",
]

EXACT, GENERAL, ABSTAINED, WRONG, OFF_TREE = (
    "exact",
    "right, but general",
    "abstained",
    "wrong",
    "off the tree",
)
MISSING = "missing"
#: The states of answers, in the order in which they are shown.
STATES = (WRONG, OFF_TREE, ABSTAINED, GENERAL, EXACT, MISSING)
#: The states that are shown even if no answer is in them.
_ALWAYS = (WRONG, GENERAL, EXACT)
#: The most templates that have a column each; of more, each has a row.
_COLUMNS = 4
_LONG = {
    "hp": "precision hP",
    "hr": "recall hR",
    "ihp": "precision ihP, in bits",
    "ihr": "recall ihR, in bits",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One template on the images that it is judged by.

    Attributes:
        name: Its name among the held-out results: "baseline", "winner", "accuracy".
        title: The name that it is shown by: "baseline", "tuned", "accuracy-tuned".
        counts: Images by the state of their answers, see `STATES`; they add up to all images.
        scores: The scores that matter, by key; None where there is none.
        changes: Their paired differences from the template's own baseline; empty for a baseline.
        doubt: What hangs on doubtful placements; None where the mapper gives no probability.
        selective: The worth of the answers' confidence; None where one has none.
        masked: Images that the checklist puts elsewhere.
        cut: How many answers were cut off and what to do about it, in words; empty if none was.
    """

    name: str
    title: str
    counts: dict[str, int]
    scores: dict[str, float | None]
    changes: dict[str, PairedDifference] = field(default_factory=dict)
    doubt: Doubt | None = None
    selective: Selective | None = None
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
        return (
            f"iteration {self.run.winner} of {len(self.run.iterations) - 1}"
            if self.run.winner
            else "the baseline"
        )

    @property
    def placed_by(self) -> str:
        """The policy that places its answers, or what the model's own probabilities would bring; else empty."""
        policy = {} if self.run.selection is None else self.run.selection.policy
        if policy.get("kind", "direct") == "direct":
            return self.run.where.get("probabilities", "")
        settings = ", ".join(
            f"{key} {value:.6g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in policy.items()
            if key != "kind"
        )
        kind = str(policy["kind"]).replace("_", "-")
        return f"Placed by {kind}{f' ({settings})' if settings else ''}."


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a tuning run, a comparison or an evaluation.

    Attributes:
        images: How many images the templates are judged by.
        split: Which images they are: "held-out" or "tuning".
        counts: The states of answers that are shown, in order.
        scores: The names of the scores that matter, by key, in order.
        columns: The templates, each baseline before the templates that are compared with it.
        winners: The winner of each tuning run; empty for an evaluation.
        cost: Calls, dollars and wall time in a line.
        report: The report's file, if known.
        next: The command to continue with, if any.
    """

    images: int
    split: str
    counts: tuple[str, ...]
    scores: dict[str, str]
    columns: tuple[Column, ...]
    winners: tuple[Winner, ...]
    cost: str
    report: str | None
    next: str | None


def state_of(row: SampleResult) -> str:
    """Returns an answer's state, one of `STATES`: an answer that is right, but not to the bottom, is general."""
    if row.hp is None or row.hr is None or row.placement is None:
        return MISSING
    if row.off_tree or row.abstained:
        return OFF_TREE if row.off_tree else ABSTAINED
    if row.exact:
        return EXACT
    return GENERAL if row.hp == 1 else WRONG


def summarise(result: Result) -> Summary:
    """Returns the summary of a tuning run, a comparison or an evaluation."""
    runs = dict(result.named_runs)
    states = {held.name: Counter(map(state_of, held.rows)) for held in result.heldout}
    shown = tuple(
        state
        for state in STATES
        if state in _ALWAYS or any(counts[state] for counts in states.values())
    )
    keys = _scores(result)
    first = next(iter(result.heldout), None)
    limit = longest_answer(result)
    return Summary(
        images=0 if first is None else len(first.rows),
        split="held-out" if first is None else first.split,
        counts=shown,
        scores=keys,
        columns=tuple(
            Column(
                held.name,
                "tuned" if held.name == "winner" else template_name(held.name),
                {state: states[held.name][state] for state in shown},
                {key: score_of(held.scores, key) for key in keys},
                _changes(result, held, keys),
                held.doubt,
                held.selective,
                sum(row.masked is not None for row in held.rows),
                cut_in_words(held.rows, limit),
            )
            for held in result.heldout
        ),
        winners=tuple(
            Winner(
                name,
                _heading(result, run),
                run,
                _aim(run).measure or run.objective,
                verdict(run),
                run.best.prompt or run.best.template or "",
                next(
                    (
                        file
                        for end in ("txt", "j2")
                        if (file := Path(run.folder) / f"winner.{end}").exists()
                    ),
                    None,
                ),
            )
            for name, run in runs.items()
        ),
        cost=cost_line(result.usage),
        report=result.where.get("report"),
        next=next(
            (
                command("classify", run.folder, "PHOTOS", "--out", "labels.csv")
                for run in runs.values()
            ),
            None,
        ),
    )


def summary_table(summary: Summary) -> Table:
    """Returns the counts and scores: a column per template, or a row per template where there are many.

    Of a front, which may be long, the winner alone is shown. Of one template the difference from its baseline is a
    column too.
    """
    columns = shown_columns(summary)
    where = "tuning images" if summary.split == "tuning" else "images the search never saw"
    head = f"On {summary.images:,} {where if summary.winners or summary.split == 'tuning' else 'held-out images'}"
    cells = {
        column.title: [
            *(f"{column.counts[state]:,}" for state in summary.counts),
            *(number(column.scores[key], key) for key in summary.scores),
        ]
        for column in columns
    }
    if len(columns) > _COLUMNS:
        heads = (head, *summary.counts, *(metric_name(key) for key in summary.scores))
        return Table(
            "summary", "", heads, tuple((f"  {title}", *values) for title, values in cells.items())
        )
    if len(columns) == 2 and (change := columns[1].changes):
        changes = [difference(change[key], key) if key in change else "" for key in summary.scores]
        cells[" "] = [*[""] * len(summary.counts), *changes]
    names = [f"  {name}" for name in (*summary.counts, *summary.scores.values())]
    return Table("summary", "", (head, *cells), tuple(zip(names, *cells.values(), strict=True)))


def shown_columns(summary: Summary) -> list[Column]:
    """Returns the templates that `summary_table` shows."""
    winners = {winner.name for winner in summary.winners}
    return [
        column
        for column in summary.columns
        if not winners or column.name in winners or not column.changes
    ]


def doubt_in_words(doubt: Doubt) -> str:
    """Returns the influence of doubtful placements: "hP 0.950, hR 0.720 without them; 0.890, 0.690 if wrong"."""
    sure = (
        doubt.without
        and f"hP {number(doubt.without['hp'])}, hR {number(doubt.without['hr'])} without them; "
    )
    return f"{sure or 'hP, hR '}{number(doubt.wrong['hp'])}, {number(doubt.wrong['hr'])} if wrong"


def doubt_lines(summary: Summary) -> list[str]:
    """Returns the influence of doubtful placements, a line for each template of `summary_table` that has some.

    Where the confidence is known at each node, the worth of it follows; and so do images that a checklist moves, and
    answers that were cut off.
    """
    lines = []
    for column in shown_columns(summary):
        if column.cut:
            lines.append(f"{column.title}: {column.cut}")
        if column.masked:
            lines.append(
                f"{column.title}: {column.masked:,} of {summary.images:,} placed elsewhere by the checklist"
            )
        if (doubt := column.doubt) and doubt.n:
            lines.append(f"{column.title}, {doubt.n:,} doubtful: {doubt_in_words(doubt)}")
        if (one := column.selective) and one.calibration_error is not None:
            worth = f"AURC {number(one.aurc)}, calibration error {number(one.calibration_error)}"
            lines.append(f"{column.title}, confidence: {worth}")
    return lines


def _heading(result: Result, run: TuneResult) -> str:
    return (
        "Prompt"
        if isinstance(result, TuneResult)
        else f"Prompt tuned for {metric_name(run.objective)}"
    )


def verdict(run: TuneResult) -> str:
    """Returns the verdict on a run's winner, in a sentence; empty where none was chosen yet."""
    if run.selection is None:
        return ""
    return selection_in_words(run.selection, _aim(run))


def selection_in_words(selection: Selection, aim: ObjectiveSpec) -> str:
    """Returns the standing of a winner: certified, passing alone, a best estimate, or the best.

    Args:
        selection: The choice.
        aim: The objective of the run.
    """
    images = _tuning_images(selection.images)
    if selection.chose_threshold and selection.status == "estimate":
        return (
            f"Best estimate, not certified: its threshold was chosen on the {images}; "
            "taxtune calibrate makes a promise."
        )
    proven = " and ".join(
        f"{metric_name(held.measure)} is at least {number(held.low, held.measure)} with "
        f"{100 * held.confidence:g} % confidence"
        for held in selection.held
        if held.confidence > 0.5
    )
    if selection.status == "certified":
        return f"Certified: {proven} ({images})."
    if selection.status == "passes-alone":
        return (
            "Passes alone, but a more cautious prompt failed first: "
            f"that {proven} ({images}) is not certified."
        )
    missed = [held for held in selection.held if held.missed]
    if selection.status == "estimate" and missed:
        return f"Best estimate, not certified: {_wanting(missed[0], images)}."
    goal = " and ".join(
        f"{metric_name(held.measure)} at least {number(held.goal, held.measure)}"
        for held in missed or selection.held
    )
    if missed:
        return f"No prompt has {goal} on average; this one comes nearest ({images})."
    name = metric_name(aim.measure or aim.objective)
    among = f", among those with {goal} on average" if goal else ""
    return f"Chosen for the highest {name}, less a margin for luck{among} ({images})."


def _wanting(held: Held, images: str) -> str:
    """Returns the remedy for a winner that misses a constraint with a confidence."""
    name = metric_name(held.measure)
    goal = number(held.goal, held.measure)
    bound = number(held.low, held.measure)
    proven = f"{images} prove {bound} with {100 * held.confidence:g} % confidence"
    if held.more is None:
        mean = number(held.mean, held.measure)
        near = "short of" if held.mean < held.goal - 1e-9 else "too close to"
        return f"its {name} is {mean} on {images}, {near} the goal {goal} ({proven})"
    photos = f"{held.more:,} more photo{'' if held.more == 1 else 's'}"
    return f"label {photos} for tuning to prove {name} {goal} ({proven})"


def _scores(result: Result) -> dict[str, str]:
    """Returns the names of the scores that matter: hP, hR, and what the runs aim at and hold, with its goal."""
    runs = [run for _, run in result.named_runs]
    aims = [measure for run in runs if (measure := _aim(run).measure)]
    held = [key for run in runs for key in run.bounds]
    names = {}
    for key in dict.fromkeys(("hp", "hr", *held, *(run.objective for run in runs), *aims)):
        if any(score_of(scored.scores, key) is not None for scored in result.heldout):
            goals = {number(run.bounds[key], key) for run in runs if run.bounds.get(key)}
            names[key] = _LONG.get(key, metric_name(key)) + (
                f" (goal {goals.pop()})" if len(goals) == 1 else ""
            )
    return names


def _aim(run: TuneResult) -> ObjectiveSpec:
    return run.spec or ObjectiveSpec(run.objective, None)


def _changes(
    result: Result, held: HeldoutResult, keys: Iterable[str]
) -> dict[str, PairedDifference]:
    baseline = result.heldout_baseline
    if baseline is None or baseline is held:
        return {}
    changes = {key: paired(result, held.name, baseline.name, key) for key in keys}
    return {key: change for key, change in changes.items() if change is not None}


def _tuning_images(count: int) -> str:
    return f"{count:,} tuning image{'' if count == 1 else 's'}"


# -- goal, power and cost ----------------------------------------------------------------------------------------------


def _duration(seconds: float) -> str:
    """Returns a time in its largest unit: "12 s", "3 min", "2.5 h"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def cost_line(usage: Usage) -> str:
    """Returns the calls of a run, their price and the time in a line."""
    asked = {"": usage.vlm, "LLM ": usage.proposer, "judge ": usage.judge}
    asked = {who: each for who, each in asked.items() if not who or each != ModelUsage()}
    parts = [
        f"{each.calls:,} {who}call{'' if each.calls == 1 else 's'}" for who, each in asked.items()
    ]
    parts.insert(1, f"{usage.vlm.from_store:,} cached")
    unknown = any(each.cost_usd is None and each.calls for each in asked.values())
    if usage.cost_usd is not None or not unknown:
        usd = usage.cost_usd or 0.0
        parts.append(
            ("under $0.01" if 0 < usd < 0.005 else f"${usd:,.2f}")
            + (" and more" if unknown else "")
        )
    else:
        parts.append("price unknown")
    return ", ".join([*parts, _duration(usage.seconds)])


def account_lines(usage: Usage) -> list[tuple[str, str]]:
    """Returns the calls of a run and their cost as named lines, one per model."""
    lines = [("VLM calls", _asked(usage.vlm))]
    others = (("LLM calls", usage.proposer), ("judge calls", usage.judge))
    lines += [(name, _asked(each)) for name, each in others if each != ModelUsage()]
    return [*lines, ("time", _duration(usage.seconds))]


def _asked(usage: ModelUsage) -> str:
    parts = [f"{usage.calls:,}"]
    if usage.from_store:
        parts.append(f"{usage.from_store:,} more from the store")
    if usage.tokens:
        parts.append(f"{usage.tokens:,} tokens")
    if usage.cost_usd is None:
        parts.append("price unknown")
    elif usage.cost_usd:
        parts.append(f"${usage.cost_usd:,.2f}" if usage.cost_usd >= 0.01 else "less than $0.01")
    return ", ".join(parts)


def goal_in_words(spec: ObjectiveSpec) -> str:
    """Returns the goal in words: "the highest hR, with hP at least 0.980 (90 % confidence)"."""
    what = meaning(spec.objective) if spec.measure is None else metric_name(spec.measure)
    return ", ".join([f"the highest {what}", *(f"with {_held(each)}" for each in spec.constraints)])


def power_in_words(powers: Iterable[PowerAnalysis]) -> list[str]:
    """Returns the bound that the tuning images can prove of each score that is held with a confidence."""
    lines = []
    for power in dict.fromkeys(powers):
        name, images = (
            metric_name(power.measure),
            f"{power.images:,} image{'' if power.images == 1 else 's'}",
        )
        text = (
            f"without a single error, {images} prove {name} {number(power.provable, power.measure)} with "
            f"{100 * power.confidence:g} % confidence"
        )
        if (more := power.needed - power.images) > 0:
            text += f": label {more:,} more photo{'' if more == 1 else 's'}, or raise data.tuning, to prove "
            text += number(power.goal, power.measure)
        lines.append(text)
    return lines


def _held(constraint: Constraint) -> str:
    name = metric_name(constraint.measure)
    if constraint.of is not None:
        return f"{name} at least {constraint.least:.0%}".replace("%", " %") + " of the baseline's"
    sure = (
        ""
        if constraint.confidence == 0.5
        else f" ({constraint.confidence:.0%} confidence)".replace("%", " %")
    )
    return f"{name} at least {number(constraint.least)}{sure}"
