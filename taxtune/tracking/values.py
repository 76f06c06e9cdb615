"""A run's records for MLflow, within its limits: flat parameters, a few finite metrics, tables and files.

A metric is a column of MLflow's table of runs and a chart of its own, so that only headline scores are metrics. All
else (intervals, scores by rank, in bits, calls and tokens) is in tables and JSON among the artifacts.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import wrap
from typing import Any

from taxtune.errors import command
from taxtune.metrics.names import INFORMATION, METRICS, SHARES
from taxtune.report.account import account_lines
from taxtune.report.outcome import EXPLAINED, change_in_words
from taxtune.report.scores import Result, number, rank_table, score_of, score_table
from taxtune.report.summary import Summary, summarise
from taxtune.report.table import Table
from taxtune.tuning.records import HeldoutResult, IterationRecord, SampleResult, TemplateScores
from taxtune.untrusted import redact

__all__ = [
    "HEADLINE",
    "TABLES",
    "UNFINISHED",
    "about_iteration",
    "about_result",
    "all_scores",
    "cut",
    "example_table",
    "finite",
    "flatten",
    "headline_metrics",
    "heldout_metrics",
    "image_table",
    "iteration_metrics",
    "plain",
    "result_tables",
    "write_json",
    "write_table",
]

# MLflow's own limits are 6,000 characters for a parameter (500 before 2.8) and 8,000 for a tag (5,000 on some stores).
PARAMETER_LIMIT, TAG_LIMIT = 500, 4_500
#: Files of tables, which MLflow's pages show.
TABLES = ("examples.json", "heldout.json", "ranks.json", "heldout_images.json")
#: The scores that are metrics.
HEADLINE = ("hp", "hr", "hf", "accuracy", "off_tree", "abstained")
UNFINISHED = "*The run is not finished.*"
_WIDTH = 96  # characters of a line of a template
#: Longest side of a picture in a table in pixels, and its WebP quality.
_SIDE, _QUALITY = 128, 80
#: Columns by name, all of the same length.
Columns = dict[str, list[Any]]


def flatten(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields parameters with dotted keys, long values cut."""
    for name, value in _dotted(values).items():
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


def finite(values: Mapping[str, float | None]) -> dict[str, float]:
    """Returns the values that are known and finite."""
    return {key: float(value) for key, value in values.items() if value is not None and math.isfinite(value)}


def headline_metrics(scores: TemplateScores | None) -> dict[str, float]:
    """Returns the headline scores of a template and those of the run's own measures; nothing where there are none."""
    if scores is None:
        return {}
    own = {re.sub(r"[^\w. -]", "-", key): value for key, value in scores.measures.items()}
    return finite({key: score_of(scores, key) for key in HEADLINE} | own)


def iteration_metrics(record: IterationRecord) -> dict[str, float]:
    """Returns an iteration's metrics; those that are unknown (a price, a failed iteration's hP) are left out."""
    return finite(
        {
            "objective": record.value,
            **headline_metrics(record.scores),
            "images": len(record.rows),
            "missing": record.missing,
            "seconds": record.usage.seconds,
            "cost_usd": record.usage.cost_usd,
        }
    )


def heldout_metrics(held: HeldoutResult, name: str | None = None) -> dict[str, float]:
    """Returns a template's held-out headline scores as `heldout/SCORE`, or `heldout/SCORE/NAME`."""
    end = "" if name is None else "/" + re.sub(r"[^\w. -]", "-", name)
    return {f"heldout/{key}{end}": value for key, value in headline_metrics(held.scores).items()}


def all_scores(record: IterationRecord) -> dict[str, float]:
    """Returns every number of an iteration by name, with scores by rank, calls, tokens and faults by kind."""
    values: dict[str, Any] = {**iteration_metrics(record)}
    if record.scores is not None:
        values |= {key: getattr(record.scores, key) for key in METRICS | INFORMATION | SHARES}
        for row in record.scores.ranks:
            values |= {f"precision.{row.rank}": row.precision, f"recall.{row.rank}": row.recall}
    values |= _dotted(asdict(record.usage))
    return finite({key: value for key, value in values.items() if value != {}})


def _dotted(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested values by dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _dotted(value, f"{prefix}{key}.") if isinstance(value, Mapping) and value else {f"{prefix}{key}": value}
    return flat


def result_tables(result: Result) -> dict[str, Columns]:
    """Returns the held-out scores with intervals and differences, and the scores by rank, by file name."""
    tables = {"heldout.json": score_table(result), "ranks.json": rank_table(result)}
    return {
        name: {column: list(cells) for column, cells in zip(table.columns, zip(*table.rows, strict=True), strict=True)}
        for name, table in tables.items()
        if table.rows
    }


def example_table(rows: Sequence[SampleResult]) -> Columns:
    """Returns one row per image, as columns, the worst first; the values that a failed call lacks are None."""
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


def image_table(heldout: Sequence[HeldoutResult]) -> Columns:
    """Returns one row per held-out image, with every template's answer side by side, what changed most first."""
    rows = [{row.example: row for row in held.rows} for held in heldout]
    images = {example: [by[example] for by in rows if example in by] for by in rows for example in by}

    def change(example: str) -> tuple[float, float]:
        worth = [_worth(row) for row in images[example]]
        return min(worth) - max(worth), min(worth)

    examples = sorted(images, key=change)
    table: Columns = {name: [getattr(images[example][0], name) for example in examples] for name in ("image", "truth")}
    for held, by in zip(heldout, rows, strict=True):
        for name, field in (("answer", "answer"), ("placement", "placement"), ("hP", "hp"), ("hR", "hr")):
            table[f"{held.name}: {name}"] = [getattr(by.get(example), field, None) for example in examples]
    return table | {"example": examples}


def _worth(row: SampleResult) -> float:
    """Returns hP and hR together; a row without them, since the call failed, is below all others."""
    return -1.0 if row.hp is None or row.hr is None else row.hp + row.hr


def write_json(file: Path, value: Any) -> None:
    """Writes a JSON file; passwords in addresses are left out."""
    file.write_text(json.dumps(plain(value), ensure_ascii=False, indent=2), encoding="utf-8")


def write_table(
    folder: Path, name: str, columns: Columns, *, images: Mapping[str, Path] | None = None, pictures: int = 0
) -> None:
    """Writes a table with pictures, if it has rows, as MLflow's pages show it.

    MLflow's own `log_table` takes a call for each of two copies of each picture, and appends to a table that is there.

    Args:
        folder: A folder that becomes a run's artifacts.
        name: The file's name; it ends in .json.
        columns: The columns; pictures need one called "example".
        images: Image files by example id.
        pictures: How many rows have the image's small copy in a first column; the others have a grey square, since
            MLflow shows a column as pictures only where all of its cells are some.
    """
    if not any(columns.values()):
        return
    if pictures:
        cells = []
        for number, example in enumerate(columns["example"]):
            shown = number < pictures
            path = f"table_images/{Path(name).stem}/{f'{number:03d}' if shown else 'none'}.webp"
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.exists():
                file.write_bytes(_picture((images or {}).get(example) if shown else None))
            cells.append({"type": "image", "filepath": path, "compressed_filepath": path})
        columns = {"picture": cells, **columns}
    rows = [
        [None if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in row]
        for row in zip(*columns.values(), strict=True)
    ]
    text = json.dumps({"columns": list(columns), "data": rows}, ensure_ascii=False, default=float)
    (folder / name).write_text(text, encoding="utf-8")


def _picture(file: Path | None) -> bytes:
    """Returns a small copy of an image as WebP; a grey square where there is none."""
    from PIL import Image, ImageOps

    small = Image.new("RGB", (_SIDE // 4, _SIDE // 4), "lightgrey")
    if file is not None:
        try:
            with Image.open(file) as picture:
                picture.draft("RGB", (2 * _SIDE, 2 * _SIDE))  # a large JPEG is decoded at a fraction of its size
                picture.thumbnail((2 * _SIDE, 2 * _SIDE))
                small = ImageOps.exif_transpose(picture).convert("RGB")
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            pass  # the run has read it before, and the table is true without it
    small.thumbnail((_SIDE, _SIDE))
    written = io.BytesIO()
    small.save(written, "WEBP", quality=_QUALITY)
    return written.getvalue()


# -- descriptions, as Markdown ----------------------------------------------------------------------------------------


def about_iteration(record: IterationRecord) -> str:
    """Returns an iteration's template, and why it has no scores where it has none."""
    why = "" if record.reason is None else f"**{record.state}**: {record.reason}"
    return _joined(why, _code(record.template or ""))


def about_result(result: Result) -> str:
    """Returns the winners with verdicts, the report's first table, the cost, and the commands to continue with."""
    summary, parts = summarise(result), []
    for winner in summary.winners:
        parts += [f"### {winner.heading} ({winner.where})", _code(winner.prompt)]
        parts += [f"**{winner.verdict}**" if winner.verdict else ""]
    parts += [_table(summary)] if summary.columns else []
    parts += ["### Cost", "\n".join(f"- {name}: {text}" for name, text in account_lines(result.usage))]
    commands = (command("classify", result.folder, "IMAGES"), command("report", result.folder))
    return _joined(*parts, "### Next steps", _code("\n".join(commands)))


def _table(summary: Summary) -> str:
    rows = [(words, *(f"{column.counts[words]:,}" for column in summary.columns)) for words in summary.counts]
    for key, name in summary.scores.items():
        cells = []
        for column in summary.columns:
            change = change_in_words(column, key)
            cells.append(number(column.scores[key], key) + (f", {change[0]} ({change[1]})" if change else ""))
        rows.append((f"{name}: {EXPLAINED[key]}" if key in EXPLAINED else name, *cells))
    head = (f"{summary.images:,} {summary.split} images", *(column.title for column in summary.columns))
    return Table("summary", "Counts of answers and scores", head, tuple(rows)).markdown().strip()


def _code(text: str) -> str:
    """Returns a text as a Markdown code block, which shows it as it is, in lines that fit the page."""
    lines = (part for line in text.splitlines() for part in wrap(line, _WIDTH) or [""])
    return "\n".join(f"    {line}" for line in lines)


def _joined(*parts: str) -> str:
    return cut("\n\n".join(part for part in parts if part), TAG_LIMIT)
