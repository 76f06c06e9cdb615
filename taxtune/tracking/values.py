"""A run's records as MLflow wants them: flat parameters, a few finite metrics, and tables, within MLflow's limits.

A metric is a column of MLflow's table of runs and a chart of its own, so that only headline scores are metrics. All
else (intervals, scores by rank, in bits, what was consumed) is in tables and JSON among the artifacts.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from taxtune.report.wording import (
    INFORMATION,
    METRICS,
    SHARES,
    Result,
    difference_rows,
    rank_rows,
    score_of,
    score_rows,
)
from taxtune.tuning.records import HeldoutResult, IterationRecord, SampleResult, TemplateScores, TuneResult
from taxtune.untrusted import redact

__all__ = [
    "HEADLINE",
    "Table",
    "all_scores",
    "cut",
    "difference_table",
    "example_table",
    "finite",
    "flatten",
    "headline_metrics",
    "heldout_metrics",
    "heldout_table",
    "image_table",
    "indented",
    "iteration_metrics",
    "metric_key",
    "plain",
    "rank_table",
    "run_totals",
]

# MLflow's own limits are 6,000 characters for a parameter (500 before 2.8) and 8,000 for a tag (5,000 on some stores).
PARAMETER_LIMIT, TAG_LIMIT = 500, 4_500
#: The scores that are metrics.
HEADLINE = ("hp", "hr", "hf", "accuracy", "off_tree", "abstained")
#: Columns by name, all of the same length.
Table = dict[str, list[Any]]


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yields parameters with dotted keys, long values cut."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{name}.")
        else:
            text = redact(value) if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)
            yield name, cut(text, PARAMETER_LIMIT)


def plain(value: Any) -> Any:
    """Returns a value as JSON can hold it; what JSON does not know (a path, say) becomes its text.

    Passwords in addresses are left out: a record is meant to be shown.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (int, float, bool)):
        return value
    return redact(str(value))


def cut(text: str, limit: int) -> str:
    """Returns the text, or where it is too long its beginning with a note of its length."""
    note = f"… ({len(text)} characters)"
    return text if len(text) <= limit else text[: limit - len(note)] + note


def indented(text: str) -> str:
    """Returns a text as a Markdown code block, which shows anything in it as it is."""
    return "\n".join(f"    {line}" for line in text.splitlines())


def metric_key(text: str) -> str:
    """Returns a text as a part of a metric's name; what MLflow does not take becomes a dash."""
    return re.sub(r"[^\w. -]", "-", text)


def finite(values: Mapping[str, float | None]) -> dict[str, float]:
    """Returns the values that are known and finite."""
    return {key: float(value) for key, value in values.items() if value is not None and math.isfinite(value)}


# -- metrics ----------------------------------------------------------------------------------------------------------


def headline_metrics(scores: TemplateScores | None) -> dict[str, float]:
    """Returns the headline scores of a template and those of the run's own measures; nothing where there are none."""
    if scores is None:
        return {}
    own = {metric_key(key): value for key, value in scores.measures.items()}
    return finite({key: score_of(scores, key) for key in HEADLINE} | own)


def iteration_metrics(record: IterationRecord) -> dict[str, float]:
    """Returns an iteration's metrics; what is not known (a price, a failed iteration's hP) is left out."""
    costs = [cost for cost in (record.usage.proposer_cost_usd, record.usage.vlm_cost_usd) if cost is not None]
    return finite(
        {
            "objective": record.value,
            **headline_metrics(record.scores),
            "images": len(record.rows),
            "missing": record.missing,
            "seconds": record.usage.seconds,
            "cost_usd": sum(costs) if costs else None,
        }
    )


def heldout_metrics(held: HeldoutResult, name: str | None = None) -> dict[str, float]:
    """Returns a template's held-out headline scores as `heldout/SCORE`, or `heldout/SCORE/NAME`."""
    end = "" if name is None else f"/{metric_key(name)}"
    return {f"heldout/{key}{end}": value for key, value in headline_metrics(held.scores).items()}


def all_scores(record: IterationRecord) -> dict[str, float]:
    """Returns every number of an iteration by name, with precision and recall at each rank and what it consumed."""
    values: dict[str, float | None] = {**iteration_metrics(record)}
    if record.scores is not None:
        values |= {key: getattr(record.scores, key) for key in METRICS | INFORMATION | SHARES}
        for row in record.scores.ranks:
            values |= {f"precision.{row.rank}": row.precision, f"recall.{row.rank}": row.recall}
    values |= _counts(asdict(record.usage))
    if record.judged is not None:
        values |= {f"judge_{key}": value for key, value in _counts(asdict(record.judged)).items()}
    return finite(values)


def _counts(usage: Mapping[str, Any]) -> dict[str, float | None]:
    """Returns what was consumed by name; calls that failed as `WHOSE_faults.KIND`."""
    return {
        name: number
        for key, value in usage.items()
        for name, number in (
            ((f"{key}.{kind}", count) for kind, count in value.items()) if isinstance(value, dict) else ((key, value),)
        )
    }


# -- tables -----------------------------------------------------------------------------------------------------------


def example_table(rows: Sequence[SampleResult]) -> Table:
    """Returns one row an image, as columns, the worst first; what a failed call has not is None."""
    rows = sorted(rows, key=_worth)
    columns = {
        "image": "image",
        "answer": "answer",
        "placement": "placement",
        "truth": "truth",
        "stage": "stage",
        "hP": "hp",
        "hR": "hr",
        "ihP": "ihp",
        "ihR": "ihr",
        "abstained": "abstained",
        "off the tree": "off_tree",
        "from store": "from_store",
        "failure": "failure",
        "example": "example",
    }
    table = {name: [getattr(row, field) for row in rows] for name, field in columns.items()}
    own = dict.fromkeys(key for row in rows for key in row.measures)
    return table | {key: [row.measures.get(key) for row in rows] for key in own}


def _worth(row: SampleResult) -> float:
    """Returns hP and hR together; what has neither, since the call failed, is below all others."""
    return -1.0 if row.hp is None or row.hr is None else row.hp + row.hr


def image_table(heldout: Sequence[HeldoutResult]) -> Table:
    """Returns one row a held-out image, with what came of each template side by side, what changed most first."""
    found = [{row.example: row for row in held.rows} for held in heldout]
    each: dict[str, list[SampleResult]] = {}
    for rows in found:
        for example, row in rows.items():
            each.setdefault(example, []).append(row)

    def change(example: str) -> tuple[float, float]:
        worth = [_worth(row) for row in each[example]]
        return min(worth) - max(worth), min(worth)

    examples = sorted(each, key=change)
    table: Table = {
        "image": [each[example][0].image for example in examples],
        "truth": [each[example][0].truth for example in examples],
    }
    for held, rows in zip(heldout, found, strict=True):
        for name, field in (("answer", "answer"), ("placement", "placement"), ("hP", "hp"), ("hR", "hr")):
            table[f"{held.name}: {name}"] = [getattr(rows.get(example), field, None) for example in examples]
    return table | {"example": examples}


def heldout_table(heldout: Sequence[HeldoutResult]) -> Table:
    """Returns one row a template and score with the ends of its interval, as columns."""
    cells = [(held.name, row.name, row.value, row.ends, held.scores.n) for held in heldout for row in score_rows(held)]
    return {
        "template": [name for name, *_ in cells],
        "score": [shown for _, shown, *_ in cells],
        "value": [value for _, _, value, *_ in cells],
        "low": [None if found is None else found.low for *_, found, _ in cells],
        "high": [None if found is None else found.high for *_, found, _ in cells],
        "images": [n for *_, n in cells],
    }


def difference_table(result: Result) -> Table:
    """Returns one row a pair of templates and score with the interval of the paired difference, as columns."""
    cells = [
        (pair, shown, found)
        for _, shown, pairs in difference_rows(result)
        for pair, found in pairs.items()
        if found is not None
    ]
    return {
        "templates": [pair for pair, *_ in cells],
        "score": [shown for _, shown, _ in cells],
        "difference": [found.difference for *_, found in cells],
        "low": [found.low for *_, found in cells],
        "high": [found.high for *_, found in cells],
        "p": [found.p_value for *_, found in cells],
    }


def rank_table(heldout: Sequence[HeldoutResult]) -> Table:
    """Returns one row a template and rank with precision and recall and their intervals, as columns."""
    cells = [
        (held.name, rank, found)
        for rank, each in rank_rows(heldout)
        for held, found in zip(heldout, each, strict=True)
        if found is not None
    ]
    table: Table = {"template": [name for name, *_ in cells], "rank": [rank for _, rank, _ in cells]}
    for key in ("precision", "recall"):
        ends = [getattr(found, key) for *_, found in cells]
        table[key] = [None if each is None else each.estimate for each in ends]
        table[f"{key} low"] = [None if each is None else each.low for each in ends]
        table[f"{key} high"] = [None if each is None else each.high for each in ends]
    return table


def run_totals(result: TuneResult) -> dict[str, float]:
    """Returns what a run took in all."""
    account = result.account
    return finite({"seconds": account.seconds, "cost_usd": account.usd})
