"""Scores as text, and the held-out scores, differences and scores by rank of a result as tables."""

from __future__ import annotations

import re
from functools import lru_cache

from taxtune.mapping.config import DOUBTFUL
from taxtune.metrics.confidence import COVERAGES
from taxtune.metrics.names import metric_name
from taxtune.metrics.registry import MEASURES
from taxtune.metrics.statistics import Interval, PairedDifference
from taxtune.metrics.table import SCORES
from taxtune.report.output import Cell, Table
from taxtune.tuning.records import ComparisonResult, TemplateScores, TuneResult, cut_in_words

__all__ = [
    "Result",
    "difference",
    "doubt_table",
    "failed_calls",
    "interval",
    "iteration_table",
    "longest_answer",
    "number",
    "paired",
    "rank_table",
    "result_runs",
    "score_of",
    "score_table",
    "selective_table",
    "signed",
    "template_name",
    "title",
]

Result = TuneResult | ComparisonResult
_MINUS = "−"


def number(value: float | None, metric: str = "hp") -> str:
    """Returns a score with three digits (depth and bits: two), or a dash where there is none."""
    return "–" if value is None else f"{value:.{_digits(metric)}f}".replace("-", _MINUS)


def signed(value: float, metric: str = "hp") -> str:
    """Returns a difference with its sign; one that rounds to zero has none."""
    text = f"{value:+.{_digits(metric)}f}"
    return (text if re.search("[1-9]", text) else text[1:]).replace("-", _MINUS)


def interval(value: Interval, metric: str = "hp") -> str:
    """Returns the ends of a score's interval, as "0.912 to 0.958"."""
    return f"{number(value.low, metric)} to {number(value.high, metric)}"


def difference(value: PairedDifference, metric: str = "hp") -> str:
    """Returns a paired difference with its interval, as "+0.056 (+0.031 to +0.082)"."""
    return f"{signed(value.difference, metric)} ({signed(value.low, metric)} to {signed(value.high, metric)})"


def score_of(scores: TemplateScores | None, key: str) -> float | None:
    """Returns a score, or None if there is none of that name."""
    return None if scores is None else scores.means.get(key)


@lru_cache(
    maxsize=256
)  # a page asks per image, and listing the measures of installed packages takes 20 ms
def template_name(name: str) -> str:
    """Returns the name that a held-out result is shown by: "baseline", "winner", or "hP-tuned".

    A template that was evaluated under a name of its own keeps it.
    """
    shown = metric_name(name)
    known = shown != name or name in SCORES or name in MEASURES
    return f"{shown.replace(' ', '-')}-tuned" if known else name


def result_runs(result: Result) -> tuple[TuneResult, ...]:
    """Returns the tuning runs of a result: itself, or those compared."""
    return result.runs if isinstance(result, ComparisonResult) else (result,)


def title(result: Result) -> str:
    """Returns the title of a result: what was tuned for, or which templates were evaluated."""
    objectives = dict.fromkeys(metric_name(run.objective) for run in result_runs(result))
    if objectives:
        return f"{result.name}: tuning for {' and '.join(objectives)}"
    return (
        f"{result.name}: {' and '.join(map(template_name, result.contenders))} against the baseline"
    )


def paired(result: Result, name: str, other: str, metric: str) -> PairedDifference | None:
    """Returns the paired difference `name` minus `other` of a metric, in whichever order it is kept, or None."""
    kept, swapped = result.against(name, other), result.against(other, name)
    if kept is not None:
        return kept.metrics.get(metric)
    value = None if swapped is None else swapped.metrics.get(metric)
    return None if value is None else -value


def longest_answer(result: Result) -> int | None:
    """Returns the most tokens that an answer of a result could have, None if that is not known."""
    facts = result.provenance.facts.get("Model", {})
    limit = facts.get("max tokens") or facts.get("max new tokens") or ""
    return int(limit) if limit.isdecimal() else None


def failed_calls(result: Result) -> str | None:
    """Returns the counts of failed calls by kind, those that were made again included; None where none failed."""
    parts = []
    for who, counts in result.faults.items():
        kinds = ", ".join(f"{kind.replace('_', ' ')} {count:,}" for kind, count in counts.items())
        parts.append(f"{sum(counts.values()):,} of the {who} ({kinds})")
    return "; ".join(parts) or None


def score_table(result: Result) -> Table:
    """Returns every held-out score of each template and every paired difference, with 95 % intervals and p values."""
    rows: list[tuple[Cell, ...]] = []
    keys = dict.fromkeys(key for held in result.heldout for key in held.scores.means)
    for key in keys:
        if key in SCORES and SCORES[key].fixed:
            continue
        name = metric_name(key)
        for held in result.heldout:
            ends = held.intervals.get(key)
            rows.append(
                (name, template_name(held.name), score_of(held.scores, key), *_ends(ends), None)
            )
        for pair in result.differences:
            if (change := pair.metrics.get(key)) is not None:
                names = f" {_MINUS} ".join(map(template_name, pair.key.split(" - ")))
                rows.append(
                    (name, names, change.difference, change.low, change.high, change.p_value)
                )
    counted = (
        f": {result.heldout[0].scores.n:,} {result.heldout[0].split} images"
        if result.heldout
        else ""
    )
    notes = [
        "Differences are paired over the same images; bootstrap intervals and two-sided p values."
    ]
    if missing := {
        row.example for held in result.heldout for row in held.rows if row.failure is not None
    }:
        notes.append(
            f"{len(missing):,} images without an answer to some template count for none of its scores."
        )
    columns = ("score", "template", "value", "95 % low", "95 % high", "p")
    return Table("scores", f"Scores{counted}", columns, tuple(rows), {"p": 4}, tuple(notes))


def doubt_table(result: Result) -> Table:
    """Returns hP and hR of each template as they are, without doubtful placements, and with all of these wrong."""
    rows: list[tuple[Cell, ...]] = []
    for held in result.heldout:
        if held.doubt is not None:
            scores = held.doubt.without or {}, held.doubt.wrong
            cells = (
                value
                for key in ("hp", "hr")
                for value in (score_of(held.scores, key), *(s.get(key) for s in scores))
            )
            rows.append(
                (template_name(held.name), held.doubt.n, held.doubt.n / held.scores.n, *cells)
            )
    columns = ["template", "doubtful", "share"]
    columns += [
        f"{name}{how}"
        for name in ("hP", "hR")
        for how in ("", " without them", " if all are wrong")
    ]
    notes = (
        f"Doubtful: the mapper's confidence, the probability that a placement is acceptable, is below {DOUBTFUL:g}; of "
        "several answers, the majority vote comes out elsewhere without such answers.",
    )
    return Table("doubtful", "Doubtful placements", tuple(columns), tuple(rows), notes=notes)


def selective_table(result: Result) -> Table:
    """Returns the worth of each template's confidence: of its answers' nodes, and where it is known at each rank."""
    rows: list[tuple[Cell, ...]] = []
    for held in result.heldout:
        if (one := held.selective) is not None:
            name, area = template_name(held.name), None if one.curve is None else one.curve.area
            rows.append(
                (
                    name,
                    "answers",
                    held.scores.n,
                    one.calibration_error,
                    one.brier,
                    one.aurc,
                    area,
                    *one.risks,
                )
            )
            rows += [
                (name, rank.rank, rank.n, rank.calibration_error, rank.brier) for rank in one.ranks
            ]
    columns = ["template", "at", "of", "calibration error", "Brier score", "AURC", "hAURC"]
    columns += [f"risk at {coverage:.0%}".replace("%", " %") for coverage in COVERAGES]
    rows = [(*row, *[None] * (len(columns) - len(row))) for row in rows]
    note = (
        "Risk: the mean of 1 - hP of the surest answers, and AURC its mean over all shares that are kept; of single "
        "answers, sure means that the mapper understood them. hAURC: the share of wrong nodes, over all coverages."
    )
    return Table("selective", "Confidence", tuple(columns), tuple(rows), notes=(note,))


def rank_table(result: Result) -> Table:
    """Returns precision and recall at each rank of each template, with counts and 95 % intervals."""
    rows: list[tuple[Cell, ...]] = []
    ranks = dict.fromkeys(row.scores.rank for held in result.heldout for row in held.ranks)
    for rank in ranks:
        for held in result.heldout:
            for row in held.ranks:
                if row.scores.rank == rank:
                    for kind, share, count in (
                        ("precision", row.precision, row.scores.n_predicted),
                        ("recall", row.recall, row.scores.n_relevant),
                    ):
                        value = None if share is None else share.estimate
                        rows.append(
                            (rank, template_name(held.name), kind, value, *_ends(share), count)
                        )
    columns = ("rank", "template", "share", "value", "95 % low", "95 % high", "of")
    note = "Precision is of the answers that name the rank, recall of the images that have it."
    return Table("ranks", "Precision and recall at each rank", columns, tuple(rows), notes=(note,))


def iteration_table(run: TuneResult) -> Table:
    """Returns every iteration of a run with its scores on the tuning images and its template."""
    own = dict.fromkeys(
        key for record in run.iterations if record.scores for key in record.scores.measures
    )
    keys = ("hp", "hr", "hf", "accuracy", *own)
    limit = longest_answer(run)
    rows: list[tuple[Cell, ...]] = []
    for record in run.iterations:
        remarks = ["winner"] if record.iteration == run.winner else []
        remarks += [] if record.feasible or record.cut_short else ["misses a constraint"]
        remarks += [cut] if (cut := cut_in_words(record.rows, limit)) else []
        remarks += [] if record.reason is None else [f"{record.state}: {record.reason}"]
        remarks += [f"{record.missing} without an answer"] if record.missing else []
        images = None if record.scores is None else record.scores.n
        scores = (score_of(record.scores, key) for key in keys)
        rows.append((record.iteration, *scores, images, "; ".join(remarks), record.template or ""))
    failed = sum(record.state != "complete" for record in run.iterations)
    title = f"Tuning for {metric_name(run.objective)}: {len(run.iterations):,} iterations"
    columns = ("iteration", *map(metric_name, keys), "images", "remarks", "template")
    return Table(
        "iterations",
        title + (f", {failed:,} of them failed or void" if failed else ""),
        columns,
        tuple(rows),
    )


def _ends(ends: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if ends is None else (ends.low, ends.high)


def _digits(metric: str) -> int:
    return SCORES[metric].digits if metric in SCORES else 3
