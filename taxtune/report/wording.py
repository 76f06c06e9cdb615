"""How scores are written: names, digits and intervals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from taxtune.metrics.ranks import OFF_TREE_RANK, RankIntervals
from taxtune.metrics.statistics import Interval, PairedDifference
from taxtune.tuning.records import ComparisonResult, HeldoutResult, IterationRecord, TemplateScores, TuneResult
from taxtune.untrusted import visible

__all__ = [
    "INFORMATION",
    "METRICS",
    "SHARES",
    "ScoreRow",
    "best_so_far",
    "difference",
    "difference_rows",
    "failed_calls",
    "interval",
    "meaning",
    "metric_name",
    "metrics_of",
    "number",
    "p_value",
    "pair_name",
    "paired",
    "placed_by",
    "rank_rows",
    "result_runs",
    "run_titles",
    "score_of",
    "score_rows",
    "signed",
    "template_name",
    "title",
    "visible",
]

#: The scores in the order in which they are shown, with the names that they are shown by.
METRICS = {"hp": "hP", "hr": "hR", "hf": "hF", "accuracy": "accuracy", "depth": "depth"}
#: The information-weighted scores.
INFORMATION = {
    "ihp": "ihP",
    "ihr": "ihR",
    "ihf": "ihF",
    "remaining_uncertainty": "remaining uncertainty, bits",
    "misinformation": "misinformation, bits",
}
#: Shares of the answers: those that say nothing, and those that assert something the tree lacks.
SHARES = {"abstained": "abstained", "off_tree": "off the tree"}
#: The objectives that are no score of their own.
OBJECTIVES = {"hr_at_hp": "hR at hP", "ihr_at_ihp": "ihR at ihP", "f_beta": "Fβ", "pareto": "hP and hR"}
_NAMES = {**METRICS, **INFORMATION, **SHARES, **OBJECTIVES}
_MEANING = {
    "hp": "hierarchical precision (hP)",
    "hr": "hierarchical recall (hR)",
    "hf": "hierarchical F (hF)",
    "ihp": "information-weighted hierarchical precision (ihP)",
    "ihr": "information-weighted hierarchical recall (ihR)",
    "ihf": "information-weighted hierarchical F (ihF)",
    "accuracy": "exact accuracy",
    "hr_at_hp": "hierarchical recall (hR) at a held hierarchical precision (hP)",
    "ihr_at_ihp": "information-weighted recall (ihR) at a held precision (ihP)",
    "f_beta": "Fβ of hP and hR",
    "pareto": "the front of hP and hR",
}
#: The scores that depend on what the root is; whether an answer is exactly right does not.
_ROOTED = ("hp", "hr", "hf", "depth")
_MINUS = "−"
Result = TuneResult | ComparisonResult
Paired = PairedDifference | None


def metric_name(key: str) -> str:
    """Returns the name that a metric is shown by: its own, a measure's as the papers print it, or the key."""
    from taxtune.metrics.registry import MEASURES

    return _NAMES.get(key) or (MEASURES[key].label if key in MEASURES else key)


def meaning(key: str) -> str:
    """Returns what a metric is called in a sentence."""
    from taxtune.metrics.registry import MEASURES

    return _MEANING.get(key) or (f"the mean {MEASURES[key].label}" if key in MEASURES else f"{key!r}")


def number(value: float | None, metric: str = "hp") -> str:
    """Returns a score with three digits (depth: two), or a dash where there is none."""
    return "–" if value is None else f"{value:.{_digits(metric)}f}".replace("-", _MINUS)


def placed_by(run: TuneResult) -> str | None:
    """Returns how several answers of a run's winner make one place, as a sentence; None where one answer is placed."""
    policy = {} if run.selection is None else run.selection.policy
    if policy.get("kind", "direct") == "direct":
        return None
    settings = ", ".join(f"{key} {value}" for key, value in policy.items() if key != "kind")
    return f"Placed by {policy['kind']}{f' ({settings})' if settings else ''}."


def signed(value: float, metric: str = "hp") -> str:
    """Returns a difference with its sign; what rounds to zero has none."""
    text = f"{value:+.{_digits(metric)}f}"
    return (text if re.search("[1-9]", text) else text[1:]).replace("-", _MINUS)


def interval(value: Interval, metric: str = "hp") -> str:
    """Returns the ends of a score's interval, as "0.912 to 0.958"."""
    return f"{number(value.low, metric)} to {number(value.high, metric)}"


def difference(value: PairedDifference, metric: str = "hp") -> str:
    """Returns a paired difference with its interval, as "+0.056 (+0.031 to +0.082)"."""
    return f"{signed(value.difference, metric)} ({signed(value.low, metric)} to {signed(value.high, metric)})"


def p_value(value: float) -> str:
    """Returns a p value to three digits; smaller ones as "< 0.001"."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


@lru_cache(maxsize=256)  # a page asks for each image, and the measures of installed packages take 20 ms to list
def template_name(name: str) -> str:
    """Returns how a held-out result is called: "baseline", "winner", "hP-tuned", or "birds: winner" of several runs.

    A template that was evaluated under a name of its own keeps it.
    """
    from taxtune.metrics.registry import MEASURES

    run, colon, rest = name.rpartition(": ")
    if rest in _NAMES or rest in MEASURES:
        rest = f"{metric_name(rest).replace(' ', '-')}-tuned"
    return run + colon + rest


def pair_name(pair: str) -> str:
    """Returns how a pair "a - b" of held-out results is called: "hP-tuned − baseline"."""
    return f" {_MINUS} ".join(template_name(name) for name in pair.split(" - "))


def metrics_of(scored: HeldoutResult | TuneResult) -> dict[str, str]:
    """Returns what a template's result or a run has: `METRICS`, `INFORMATION`, its own metrics, `SHARES`.

    Records of versions that lacked the information-weighted scores are without them.
    """
    if isinstance(scored, TuneResult):
        scores = [record.scores for record in scored.iterations if record.scores is not None]
    else:
        scores = [scored.scores]
    weighed = any(found.ihp is not None for found in scores)
    own = {key: metric_name(key) for found in scores for key in found.measures}
    return METRICS | (INFORMATION if weighed else {}) | own | SHARES


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """A held-out score as it is shown.

    Attributes:
        key: The metric.
        name: What it is called; with the tree that it is on where there are two ("hP on Aves", "hP on life").
        value: The score.
        ends: Its interval, if there is one.
        whole: Whether it is on the whole taxonomy of a run that is restricted to a part.
    """

    key: str
    name: str
    value: float | None
    ends: Interval | None
    whole: bool = False


def score_rows(held: HeldoutResult) -> list[ScoreRow]:
    """Returns a template's held-out scores in order: for a restricted run on the domain, then on the whole taxonomy."""
    rows = [
        ScoreRow(key, _on(key, held, whole=False), score_of(held.scores, key), held.intervals.get(key))
        for key in metrics_of(held)
    ]
    if held.full is not None:
        rows += [
            ScoreRow(
                key, _on(key, held, whole=True), getattr(held.full.scores, key), held.full.intervals.get(key), True
            )
            for key in _ROOTED
        ]
    return rows


def score_of(scores: TemplateScores | None, key: str) -> float | None:
    """Returns a score, or None if there is none of that name."""
    return scores.get(key) if scores is not None and key in scores.keys() else None  # noqa: SIM118 - not a mapping


def rank_rows(heldout: Sequence[HeldoutResult]) -> list[tuple[str, list[RankIntervals | None]]]:
    """Returns what is said at each rank with each template, the broadest rank first; None where nobody speaks of it."""
    names = dict.fromkeys(row.scores.rank for held in heldout for row in held.ranks)
    ordered = sorted(names, key=lambda name: name == OFF_TREE_RANK)
    found = [{row.scores.rank: row for row in held.ranks} for held in heldout]
    return [(name, [rows.get(name) for rows in found]) for name in ordered]


def difference_rows(result: Result) -> list[tuple[str, str, dict[str, PairedDifference | None]]]:
    """Returns the paired differences by score: its key, its name as in `score_rows`, and each pair's difference."""
    held = result.heldout[0] if result.heldout else None
    found = result.differences
    rows = [
        (key, _on(key, held, whole=False), {each.key: each.metrics.get(key) for each in found})
        for key in (METRICS | SHARES if held is None else metrics_of(held))
    ]
    if any(each.full for each in found):
        rows += [(key, _on(key, held, whole=True), {each.key: each.full.get(key) for each in found}) for key in _ROOTED]
    return rows


def _on(key: str, held: HeldoutResult | None, *, whole: bool) -> str:
    if held is None or held.full is None or key not in _ROOTED:
        return metric_name(key)
    return f"{METRICS[key]} on {visible(held.full.root if whole else held.full.domain)}"


def result_runs(result: Result) -> tuple[TuneResult, ...]:
    """Returns the tuning runs of a result: itself, or those compared."""
    return result.runs if isinstance(result, ComparisonResult) else (result,)


def run_titles(result: Result) -> list[str]:
    """Returns what each tuning run of a result is called: what it was tuned for, of joined runs after its name."""
    titles = []
    for name, run in result.named_runs:
        label, colon, _ = name.rpartition(": ")
        titles.append(f"{label}{colon}{'tuned' if colon else 'Tuned'} for {metric_name(run.objective)}")
    return titles


def best_so_far(iterations: Iterable[IterationRecord]) -> list[IterationRecord | None]:
    """Returns, for each iteration, the best one up to then: the first of the highest value, where the floor holds."""
    best, highest = None, float("-inf")
    path = []
    for record in iterations:
        if record.feasible and record.value is not None and record.value > highest:
            best, highest = record, record.value
        path.append(best)
    return path


def paired(result: Result, name: str, other: str, metric: str) -> Paired:
    """Returns the paired difference `name` minus `other` of a metric, whichever way round it is kept, or None."""
    found = result.against(name, other)
    if found is not None:
        return found.metrics.get(metric)
    found = result.against(other, name)
    value = None if found is None else found.metrics.get(metric)
    return None if value is None else -value


def title(result: Result) -> str:
    """Returns what a result is called: what was tuned for, or which templates were evaluated."""
    objectives = dict.fromkeys(metric_name(run.objective) for run in result_runs(result))
    if objectives:
        return f"{result.name}: tuning for {' and '.join(objectives)}"
    return f"{result.name}: {' and '.join(map(template_name, result.contenders))} against the baseline"


def failed_calls(result: Result) -> str | None:
    """Returns how many calls failed in which way, those that were made again included; None where none did."""
    found = []
    for who, counts in result.faults.items():
        kinds = ", ".join(f"{kind.replace('_', ' ')} {count:,}" for kind, count in counts.items())
        found.append(f"{sum(counts.values()):,} of the {who} ({kinds})")
    return "; ".join(found) or None


def _digits(metric: str) -> int:
    return 2 if metric in ("depth", "remaining_uncertainty", "misinformation") else 3
