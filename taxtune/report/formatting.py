"""Scores, differences and templates of a result as text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from taxtune.metrics.names import metric_name
from taxtune.metrics.outcomes import WRONG, Outcomes
from taxtune.metrics.registry import MEASURES
from taxtune.metrics.statistics import Interval, PairedDifference
from taxtune.metrics.table import SCORES, TemplateScores
from taxtune.tuning.records import (
    OBJECTIVES_CHOICE,
    ComparisonResult,
    HeldoutResult,
    SampleResult,
    TuneResult,
)

__all__ = [
    "MINUS",
    "Result",
    "anchor",
    "counted",
    "difference",
    "failed_calls",
    "images_of_units",
    "interval",
    "longest_answer",
    "number",
    "per_unit",
    "result_runs",
    "role_of",
    "rows_by_image",
    "score_of",
    "share_wrong",
    "shortened",
    "signed",
    "spread_wrong",
    "template_name",
    "title",
    "wrong_labels",
]

Result = TuneResult | ComparisonResult
MINUS = "−"


def number(value: float | None, metric: str = "hp") -> str:
    """Returns a score with three digits (depth and bits: two), or a dash if there is none."""
    return "–" if value is None else f"{value:.{_digits(metric)}f}".replace("-", MINUS)


def signed(value: float, metric: str = "hp") -> str:
    """Returns a difference with its sign; one that rounds to zero has none."""
    text = f"{value:+.{_digits(metric)}f}"
    if not re.search("[1-9]", text):
        text = text[1:]
    return text.replace("-", MINUS)


def interval(value: Interval, metric: str = "hp") -> str:
    """Returns the ends of a score's interval, as "0.912 to 0.958"."""
    return f"{number(value.low, metric)} to {number(value.high, metric)}"


def difference(value: PairedDifference, metric: str = "hp") -> str:
    """Returns a paired difference with its interval, as "+0.056 (+0.031 to +0.082)"."""
    ends = f"{signed(value.low, metric)} to {signed(value.high, metric)}"
    return f"{signed(value.difference, metric)} ({ends})"


def share_wrong(outcomes: Outcomes) -> str:
    """Returns the share of the labels given that are wrong, as "2.0 %"; a dash without a label."""
    share = outcomes.share_wrong
    return "–" if share is None else f"{100 * share.estimate:.1f} %"


def spread_wrong(outcomes: Outcomes) -> str:
    """Returns the counts and the 95 % interval of that share, as "2 of 98 (0.6 to 7.1 %)"."""
    share = outcomes.share_wrong
    if share is None:
        return "no label was given"
    ends = f"{100 * share.low:.1f} to {100 * share.high:.1f} %"
    return f"{outcomes.count(WRONG):,} of {outcomes.labels:,} ({ends})"


def per_unit(unit: str) -> str:
    """Returns " per burst" for what counts once, "" for ""."""
    return f" per {unit}" if unit else ""


def images_of_units(images: int, kind: str, groups: int, unit: str) -> str:
    """Returns "160 tuning images", or where some belong together "160 tuning images of 41 bursts"."""
    text = counted(images, f"{kind} image")
    return f"{text} of {counted(groups, unit)}" if unit else text


def counted(count: int, noun: str) -> str:
    """Returns a count with its noun: "1 call", "2,000 calls"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def wrong_labels(outcomes: Outcomes) -> str:
    """Returns all three, as "2 of 98 (2.0 %, 0.6 to 7.1 %)"."""
    return spread_wrong(outcomes).replace("(", f"({share_wrong(outcomes)}, ")


def _digits(metric: str) -> int:
    return SCORES[metric].digits if metric in SCORES else 3


def score_of(scores: TemplateScores | None, key: str) -> float | None:
    """Returns a score, or None if there is none of that name."""
    return None if scores is None else scores.means.get(key)


def shortened(text: str, width: int) -> str:
    """Returns a text in one line of at most so many characters; where it is cut stands "…"."""
    line = " ".join(text.splitlines())
    return line if len(line) <= width else f"{line[: max(width - 1, 0)].rstrip()}…"


# A page asks per image, and listing the measures of installed packages takes 20 ms.
@lru_cache(maxsize=256)
def template_name(name: str) -> str:
    """Returns the name that a held-out result is shown by: "baseline", "winner", or "hP-tuned".

    A template that was evaluated under a name of its own keeps it.
    """
    shown = metric_name(name)
    is_metric = shown != name or name in SCORES or name in MEASURES
    return f"{shown.replace(' ', '-')}-tuned" if is_metric else name


def result_runs(result: Result) -> tuple[TuneResult, ...]:
    """Returns the tuning runs of a result: itself, or those compared."""
    return result.runs if isinstance(result, ComparisonResult) else (result,)


def role_of(run: TuneResult, iteration: int) -> str:
    """Returns the roles of an iteration among the candidates: "winner, boldest"; empty if it is none."""
    roles = ["winner"] if iteration == run.winner else []
    for candidate in run.shortlist:
        if candidate.iteration == iteration:
            if candidate.taken and not roles:
                roles.append(f"the {OBJECTIVES_CHOICE}")
            roles += candidate.roles
    return ", ".join(roles)


def anchor(result: Result, run: TuneResult, iteration: int) -> str:
    """Returns the id of an iteration's prompt in the report: "iteration-8", "iteration-2-8"."""
    runs = result_runs(result)
    parts = [iteration] if len(runs) == 1 else [runs.index(run) + 1, iteration]
    return "-".join(map(str, ("iteration", *parts)))


def rows_by_image(heldout: Sequence[HeldoutResult]) -> dict[str, dict[str, SampleResult]]:
    """Returns the templates' rows of each image: by example, then by the template's name."""
    images: dict[str, dict[str, SampleResult]] = {}
    for held in heldout:
        for row in held.rows:
            images.setdefault(row.example, {})[held.name] = row
    return images


def title(result: Result) -> str:
    """Returns the title of a result: its objectives, or the templates that were evaluated."""
    objectives = dict.fromkeys(metric_name(run.objective) for run in result_runs(result))
    if objectives:
        return f"{result.name}: tuning for {' and '.join(objectives)}"
    templates = " and ".join(map(template_name, result.contenders))
    return f"{result.name}: {templates} against the baseline"


def longest_answer(result: Result) -> int | None:
    """Returns the most tokens that an answer of a result could have, None if that is not known."""
    facts = result.provenance.facts.get("Model", {})
    limit = facts.get("max tokens") or facts.get("max new tokens") or ""
    return int(limit) if limit.isdecimal() else None


def failed_calls(result: Result) -> str | None:
    """Returns the counts of failed calls by kind, those made again included; None if none failed."""
    parts = []
    for model, counts in result.faults.items():
        kinds = [f"{kind.replace('_', ' ')} {count:,}" for kind, count in counts.items()]
        parts.append(f"{sum(counts.values()):,} of the {model} ({', '.join(kinds)})")
    return "; ".join(parts) or None
