"""A run's records as MLflow wants them: flat parameters, finite metrics and tables, within MLflow's limits."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from taxtune.report.wording import INFORMATION, METRICS, SHARES, redact, score_rows
from taxtune.tuning.records import ExampleRow, HeldoutResult, IterationRecord, TemplateScores, TuneResult

__all__ = [
    "best_metrics",
    "cut",
    "difference_metrics",
    "example_table",
    "flatten",
    "heldout_metrics",
    "heldout_table",
    "indented",
    "iteration_metrics",
    "metric_key",
    "plain",
    "result_metrics",
]

# MLflow's own limits are 6,000 characters for a parameter (500 before 2.8) and 8,000 for a tag (5,000 on some stores).
PARAMETER_LIMIT, TAG_LIMIT = 500, 4_500


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


def iteration_metrics(record: IterationRecord) -> dict[str, float]:
    """Returns an iteration's numbers by name; what is not known (a price, a failed iteration's hP) is left out."""
    costs = [cost for cost in (record.usage.proposer_cost_usd, record.usage.vlm_cost_usd) if cost is not None]
    values: dict[str, float | None] = {
        **({} if record.scores is None else _scores(record.scores)),
        **_judged(record),
        "value": record.value,
        "images": len(record.rows),
        "missing": record.missing,
        **_counts(asdict(record.usage)),
        "cost_usd": sum(costs) if costs else None,
    }
    return {key: float(value) for key, value in values.items() if value is not None and math.isfinite(value)}


def _scores(scores: TemplateScores) -> dict[str, float | None]:
    """Returns a template's scores by name, and its precision and recall at each rank."""
    values: dict[str, float | None] = {key: getattr(scores, key) for key in METRICS | INFORMATION | SHARES}
    values |= {metric_key(key): value for key, value in scores.measures.items()}
    for row in scores.ranks:
        values |= {f"precision.{metric_key(row.rank)}": row.precision, f"recall.{metric_key(row.rank)}": row.recall}
    return values


def metric_key(text: str) -> str:
    """Returns a text as a part of a metric's name; what MLflow does not take becomes a dash."""
    return re.sub(r"[^\w. -]", "-", text)


def _judged(record: IterationRecord) -> dict[str, float | None]:
    """Returns what a language model was asked about the answers, and what it cost; nothing where none was."""
    if record.judged is None:
        return {}
    return {f"judge_{key}": value for key, value in _counts(asdict(record.judged)).items()}


def _counts(usage: Mapping[str, Any]) -> dict[str, float | None]:
    """Returns what was consumed by name; calls that failed as `WHOSE_faults.KIND`."""
    return {
        name: number
        for key, value in usage.items()
        for name, number in (
            ((f"{key}.{kind}", count) for kind, count in value.items()) if isinstance(value, dict) else ((key, value),)
        )
    }


def best_metrics(best: IterationRecord | None) -> dict[str, float]:
    """Returns the curves of the best so far."""
    if best is None or best.scores is None or best.value is None:
        return {}
    return {"best.value": best.value, "best.hp": best.scores.hp, "best.hr": best.scores.hr, "best.hf": best.scores.hf}


def heldout_metrics(held: HeldoutResult) -> dict[str, float]:
    """Returns a template's held-out scores with the ends of their intervals, as `heldout.NAME.METRIC[.low|.high]`.

    For a run that is restricted to a part of the taxonomy, `heldout.NAME.full.METRIC` are those on the whole of it.
    """
    values: dict[str, float] = {f"heldout.{held.name}.images": float(held.scores.n)}
    for row in score_rows(held):
        name = f"heldout.{held.name}.{'full.' if row.whole else ''}{metric_key(row.key)}"
        if row.value is None:
            continue
        values[name] = row.value
        if row.ends is not None:
            values[f"{name}.low"], values[f"{name}.high"] = row.ends.low, row.ends.high
    for rank in held.ranks:
        for key, found in (("precision", rank.precision), ("recall", rank.recall)):
            if found is not None:
                name = f"heldout.{held.name}.{key}.{metric_key(rank.scores.rank)}"
                values |= {name: found.estimate, f"{name}.low": found.low, f"{name}.high": found.high}
    return values


def difference_metrics(prefix: str, differences: Mapping[str, Any]) -> dict[str, float]:
    """Returns paired differences as `PREFIX.METRIC[.low|.high|.p]`."""
    values: dict[str, float] = {}
    for metric, found in differences.items():
        key = metric_key(metric)
        values[f"{prefix}.{key}"] = found.difference
        values[f"{prefix}.{key}.low"] = found.low
        values[f"{prefix}.{key}.high"] = found.high
        values[f"{prefix}.{key}.p"] = found.p_value
    return values


def result_metrics(result: TuneResult) -> dict[str, float]:
    """Returns the numbers of a finished run."""
    values = {
        "winner.iteration": float(result.winner),
        "trivial.hp": result.trivial_hp,
        "trivial.hr": result.trivial_hr,
        "iterations": float(len(result.iterations)),
        "iterations.failed": float(sum(record.state != "complete" for record in result.iterations)),
    }
    winner = next((record for record in result.iterations if record.iteration == result.winner), None)
    if winner is not None and winner.scores is not None:
        values |= {f"tuning.winner.{key}": value for key, value in _scores(winner.scores).items() if value is not None}
    for held in result.heldout:
        values |= heldout_metrics(held)
    for found in result.differences:
        values |= difference_metrics("heldout.difference", found.metrics)
        values |= difference_metrics("heldout.difference.full", found.full)
    return values


def example_table(rows: Sequence[ExampleRow]) -> dict[str, list[Any]]:
    """Returns one row an image, as columns; what a failed call has not is None."""
    columns = {
        "image": "image",
        "answer": "answer",
        "placed node": "placed",
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


def heldout_table(heldout: Sequence[HeldoutResult]) -> dict[str, list[Any]]:
    """Returns one row a template and metric, as columns."""
    cells = [(held.name, row.name, row.value, row.ends, held.scores.n) for held in heldout for row in score_rows(held)]
    return {
        "template": [name for name, *_ in cells],
        "score": [shown for _, shown, *_ in cells],
        "value": [value for _, _, value, *_ in cells],
        "low": [None if found is None else found.low for *_, found, _ in cells],
        "high": [None if found is None else found.high for *_, found, _ in cells],
        "images": [n for *_, n in cells],
    }
