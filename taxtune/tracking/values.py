"""A run's records for MLflow, within its limits: flat parameters, a few finite metrics, tables and files.

A metric is a column of MLflow's table of runs and a chart of its own, so that only headline scores are metrics. All
else (intervals, scores by rank, in bits, calls and tokens) is in tables and JSON among the artifacts.
"""

from __future__ import annotations

import io
import json
import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from taxtune.metrics.names import INFORMATION, METRICS, SHARES
from taxtune.report.scores import Result, rank_table, score_of, score_table
from taxtune.tuning.records import HeldoutResult, IterationRecord, SampleResult, TemplateScores
from taxtune.untrusted import redact

__all__ = [
    "HEADLINE",
    "Files",
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
]

# MLflow's own limits are 6,000 characters for a parameter (500 before 2.8) and 8,000 for a tag (5,000 on some stores).
PARAMETER_LIMIT, TAG_LIMIT = 500, 4_500
#: The scores that are metrics.
HEADLINE = ("hp", "hr", "hf", "accuracy", "off_tree", "abstained")
#: Longest side of a picture in a table in pixels, and its WebP quality.
_SIDE, _QUALITY = 128, 80
#: Columns by name, all of the same length.
Columns = dict[str, list[Any]]


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
    end = "" if name is None else "/" + re.sub(r"[^\w. -]", "-", name)
    return {f"heldout/{key}{end}": value for key, value in headline_metrics(held.scores).items()}


def all_scores(record: IterationRecord) -> dict[str, float]:
    """Returns every number of an iteration by name, with scores by rank, calls and tokens."""
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
    """Returns counts by name; calls that failed as `WHOSE_faults.KIND`."""
    return {
        name: number
        for key, value in usage.items()
        for name, number in (
            ((f"{key}.{kind}", count) for kind, count in value.items()) if isinstance(value, dict) else ((key, value),)
        )
    }


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


class Files:
    """Files that are put among a run's artifacts in one call; files of the same names are replaced.

    MLflow's own `log_table` takes a call for each of two copies of each picture, and appends to a table that is there.

    Args:
        images: Image files by example id, for the pictures of tables.
    """

    def __init__(self, images: Mapping[str, Path]) -> None:
        self._images = images
        self._files: dict[str, bytes] = {}
        self._tables: list[str] = []

    def text(self, name: str, text: str) -> None:
        """Adds a text file."""
        self._files[name] = text.encode("utf-8")

    def json(self, name: str, value: Any) -> None:
        """Adds a JSON file; passwords in addresses are left out."""
        self.text(name, json.dumps(plain(value), ensure_ascii=False, indent=2))

    def copy(self, file: Path, folder: str = "") -> None:
        """Adds a copy of a file, if there is one."""
        if file.exists():
            self._files[f"{folder}/{file.name}"] = file.read_bytes()

    def table(self, name: str, columns: Columns, *, pictures: int = 0) -> None:
        """Adds a table, if it has rows.

        Args:
            name: The file's name; it ends in .json.
            columns: The columns; pictures need one called "example".
            pictures: How many rows have the image's small copy in a first column; the others have a grey square, since
                MLflow shows a column as pictures only where all of its cells are some.
        """
        if not any(columns.values()):
            return
        if pictures:
            cells = []
            for number, example in enumerate(columns["example"]):
                path = f"table_images/{Path(name).stem}/{f'{number:03d}' if number < pictures else 'none'}.webp"
                if path not in self._files:
                    self._files[path] = _picture(self._images.get(example) if number < pictures else None)
                cells.append({"type": "image", "filepath": path, "compressed_filepath": path})
            columns = {"picture": cells, **columns}
        rows = [
            [None if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in row]
            for row in zip(*columns.values(), strict=True)
        ]
        self.text(name, json.dumps({"columns": list(columns), "data": rows}, ensure_ascii=False, default=float))
        self._tables.append(name)

    def log(self, mlflow: Any, run: str) -> None:
        """Logs all files, and the tag by which MLflow's pages find the tables, to the active run."""
        with tempfile.TemporaryDirectory(prefix="taxtune-") as folder:
            for name, content in self._files.items():
                file = Path(folder, name.lstrip("/"))
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            mlflow.log_artifacts(folder, run_id=run)
        if self._tables:
            tables = [{"path": name, "type": "table"} for name in self._tables]
            mlflow.set_tag("mlflow.loggedArtifacts", json.dumps(tables))


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
