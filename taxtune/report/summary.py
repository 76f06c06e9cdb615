"""What came of a run, as terminal, report and MLflow lead with it: counts, scores, verdict, prompt, cost, what is next.

The verdict has one wording everywhere, for each of three states: a winner is certified, passes alone, or is the best
estimate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from taxtune.metrics.bounds import ASSUMED_LOSS
from taxtune.metrics.statistics import PairedDifference
from taxtune.report.changes import EXACT, GENERAL, NOTHING, OFF, WRONG, state_of
from taxtune.report.pace import duration
from taxtune.report.wording import Result, metric_name, number, paired, score_of, template_name
from taxtune.shell import command
from taxtune.tuning.account import Account
from taxtune.tuning.objective import Constraint, ObjectiveSpec
from taxtune.tuning.power import images_to_certify
from taxtune.tuning.records import Finalist, HeldoutResult, IterationRecord, Selection, TuneResult
from taxtune.tuning.selection import values

__all__ = ["COUNTS", "Column", "Summary", "Winner", "selection_in_words", "summarise", "verdict"]

#: How the states of answers are called, in the order in which they are shown.
COUNTS = {
    WRONG: "wrong",
    OFF: "off the tree",
    NOTHING: "abstained",
    GENERAL: "right, but general",
    EXACT: "exact",
    None: "missing",
}
#: The states that are shown even if no answer is in them.
_ALWAYS = (WRONG, GENERAL, EXACT)
_LONG = {"hp": "precision hP", "hr": "recall hR", "ihp": "precision ihP, in bits", "ihr": "recall ihR, in bits"}


@dataclass(frozen=True, slots=True)
class Column:
    """One template on the images that it is judged by.

    Attributes:
        name: Its name among the held-out results: "baseline", "winner", "accuracy".
        title: What it is called here: "baseline", "tuned", "accuracy-tuned".
        counts: Images by the state of their answers, with the names of `COUNTS`; they add up to all images.
        scores: The scores that matter, by key; None where there is none.
        changes: Their paired differences from the template's own baseline; empty for a baseline.
    """

    name: str
    title: str
    counts: dict[str, int]
    scores: dict[str, float | None]
    changes: dict[str, PairedDifference] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Winner:
    """What a tuning run came to.

    Attributes:
        name: The winner's name among the held-out results.
        run: The run.
        aim: The score that it maximises or minimises, or the objective where there is none of its own.
        verdict: What is known of it, in a sentence.
        prompt: The prompt; with its variables unfilled where they are not known.
        file: The file that it is in; None where there is none.
    """

    name: str
    run: TuneResult
    aim: str
    verdict: str
    prompt: str
    file: Path | None


@dataclass(frozen=True, slots=True)
class Summary:
    """What came of a tuning run, a comparison or an evaluation.

    Attributes:
        images: How many images the templates are judged by.
        split: Which images they are: "held-out" or "tuning".
        counts: The states of answers that are shown, with the names of `COUNTS`, in order.
        scores: What the scores that matter are called, by key, in order.
        columns: The templates, each baseline before what is compared with it.
        winners: What each tuning run came to; empty for an evaluation.
        cost: Calls, dollars and wall time in a line.
        report: The report's file; None where it is not known.
        next: The command to go on with; None where there is none.
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


def summarise(result: Result) -> Summary:
    """Returns what came of a tuning run, a comparison or an evaluation."""
    runs = dict(result.named_runs)
    states = {held.name: Counter(map(state_of, held.rows)) for held in result.heldout}
    shown = [state for state in COUNTS if state in _ALWAYS or any(found[state] for found in states.values())]
    keys = _scores(result)
    first = next(iter(result.heldout), None)
    return Summary(
        images=0 if first is None else len(first.rows),
        split="held-out" if first is None else first.split,
        counts=tuple(COUNTS[state] for state in shown),
        scores=keys,
        columns=tuple(
            Column(
                held.name,
                "tuned" if held.name == "winner" else template_name(held.name),
                {COUNTS[state]: states[held.name][state] for state in shown},
                {key: score_of(held.scores, key) for key in keys},
                _changes(result, held, keys),
            )
            for held in result.heldout
        ),
        winners=tuple(
            Winner(
                name,
                run,
                _aim(run).measure or run.objective,
                verdict(run),
                run.best.prompt or run.best.template or "",
                _file(run),
            )
            for name, run in runs.items()
        ),
        cost=_cost(result.account),
        report=result.where.get("report"),
        next=next((command("classify", run.folder, "PHOTOS", "--out", "labels.csv") for run in runs.values()), None),
    )


def verdict(run: TuneResult) -> str:
    """Returns what is known of a run's winner, in a sentence; empty where it was not chosen yet."""
    if run.selection is None:
        return ""
    return selection_in_words(run.selection, replace(_aim(run), constraints=run.constraints), run.iterations)


def selection_in_words(selection: Selection, aim: ObjectiveSpec, records: Sequence[IterationRecord]) -> str:
    """Returns what is known of a winner: certified, passing alone, a best estimate, or best where nothing is certified.

    Args:
        selection: The choice.
        aim: What was tuned for.
        records: Every iteration, the baseline first.
    """
    images = _tuning_images(selection.images)
    winner = next(
        each for each in selection.finalists if each.iteration == selection.winner and each.policy == selection.policy
    )
    sure = [each for each in aim.constraints if each.confidence > 0.5 and each.measure in winner.bounds]
    proven = " and ".join(
        f"{metric_name(each.measure)} is at least {number(winner.bounds[each.measure], each.measure)} with "
        f"{100 * each.confidence:g} % confidence"
        for each in sure
    )
    if selection.status == "certified":
        return f"Certified: {proven} ({images})."
    if selection.status == "passes-alone":
        return f"Passes alone, but a more cautious prompt failed first: that {proven} ({images}) is not certified."
    baseline = records[0].scores if records else None
    missed = [each for each in aim.constraints if winner.bounds.get(each.measure, 1.0) < each.bound(baseline) - 1e-12]
    if selection.status == "estimate" and missed:
        return f"Best estimate, not certified: {_wanting(missed[0], winner, selection, records)}."
    goal = " and ".join(
        f"{metric_name(each.measure)} at least {number(each.bound(baseline), each.measure)}"
        for each in missed or aim.constraints
    )
    if missed:
        return f"No prompt has {goal} on average; this one comes nearest ({images})."
    best, margin = ("highest", "less") if aim.direction == "maximize" else ("lowest", "plus")
    among = f", among those with {goal} on average" if goal else ""
    return f"Chosen for the {best} {_aim_name(aim)}, {margin} a margin for luck{among} ({images})."


def _wanting(missed: Constraint, winner: Finalist, selection: Selection, records: Sequence[IterationRecord]) -> str:
    """Returns what it takes to certify a winner that is not."""
    name, images = metric_name(missed.measure), _tuning_images(selection.images)
    least = missed.bound(records[0].scores)
    bound, goal = (number(value, missed.measure) for value in (winner.bounds[missed.measure], least))
    proven = f"{images} prove {bound} with {100 * missed.confidence:g} % confidence"
    finalists = {each.iteration for each in selection.finalists}
    losses = {each.iteration: 1 - values(each, missed.measure) for each in records if each.iteration in finalists}
    own = losses[winner.iteration][~np.isnan(losses[winner.iteration])]
    if winner.policy != next(each.policy for each in records if each.iteration == winner.iteration):
        return f"label more photos to prove {name} {goal} ({proven})"  # the record has what another policy lost
    lost = np.concatenate([each[each > 0] for each in losses.values()])
    typical = float((lost**2).sum() / lost.sum()) if lost.size else ASSUMED_LOSS
    needed = images_to_certify(own, least, missed.confidence, typical=typical)
    if needed is None:
        mean = number(1 - float(own.mean()), missed.measure)
        near = "short of" if own.mean() > 1 - least + 1e-9 else "too close to"
        return f"its {name} is {mean} on {images}, {near} the goal {goal} ({proven})"
    more = max(1, needed - own.size)
    return f"label {more:,} more photo{'' if more == 1 else 's'} for tuning to prove {name} {goal} ({proven})"


def _scores(result: Result) -> dict[str, str]:
    """Returns what the scores that matter are called: hP, hR, and what the runs aim at and hold, with its goal."""
    runs = [run for _, run in result.named_runs]
    aims = [run.spec.measure for run in runs if run.spec is not None]
    held = [key for run in runs for key in run.bounds]
    wanted = dict.fromkeys(("hp", "hr", *held, *(run.objective for run in runs), *filter(None, aims)))
    names = {}
    for key in wanted:
        if not any(score_of(each.scores, key) is not None for each in result.heldout):
            continue
        goals = {number(run.bounds[key], key) for run in runs if run.bounds.get(key)}
        names[key] = _LONG.get(key, metric_name(key)) + (f" (goal {goals.pop()})" if len(goals) == 1 else "")
    return names


def _aim(run: TuneResult) -> ObjectiveSpec:
    return run.spec or ObjectiveSpec(run.objective, None)


def _changes(result: Result, held: HeldoutResult, keys: Iterable[str]) -> dict[str, PairedDifference]:
    baseline = result.baseline_of(held.name)
    if baseline is None or baseline is held:
        return {}
    found = {key: paired(result, held.name, baseline.name, key) for key in keys}
    return {key: value for key, value in found.items() if value is not None}


def _file(run: TuneResult) -> Path | None:
    files = (Path(run.folder) / name for name in ("winner.txt", "winner.j2"))
    return next((file for file in files if file.exists()), None)


def _cost(account: Account) -> str:
    """Returns what a run asked, what that cost and how long it took, in a line."""
    asked = {"": account.model, "LLM ": account.proposer, "judge ": account.judge}
    parts = [f"{each.calls:,} {who}call{'' if each.calls == 1 else 's'}" for who, each in asked.items() if each]
    parts.insert(1, f"{account.model.from_store:,} cached")
    unknown = any(each.usd is None and each.calls for each in asked.values() if each)
    if account.usd is not None or not unknown:
        usd = account.usd or 0.0
        parts.append(("under $0.01" if 0 < usd < 0.005 else f"${usd:,.2f}") + (" and more" if unknown else ""))
    else:
        parts.append("price unknown")
    if account.seconds is not None:
        parts.append(duration(account.seconds))
    return ", ".join(parts)


def _aim_name(aim: ObjectiveSpec) -> str:
    if aim.objective == "pareto":
        return "hP × hR"
    return metric_name(aim.objective if aim.measure is None else aim.measure)


def _tuning_images(count: int) -> str:
    return f"{count:,} tuning image{'' if count == 1 else 's'}"
