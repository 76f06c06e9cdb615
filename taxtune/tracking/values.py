"""A run's records for MLflow, within its limits: flat parameters, a few finite metrics, tables and files.

A metric is a column of MLflow's table of runs and a chart of its own, so that only headline scores are metrics. All
else (intervals, scores by rank, in bits, calls and tokens) is in tables and JSON among the artifacts.
"""

from __future__ import annotations

import io
import json
import math
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from textwrap import wrap
from typing import Any

from taxtune.errors import command
from taxtune.metrics.table import SCORES
from taxtune.report.gallery import small_jpeg
from taxtune.report.output import plain
from taxtune.report.scores import Result, rank_table, score_of, score_table
from taxtune.report.summary import account_lines, doubt_lines, summarise, summary_table
from taxtune.tuning.records import (
    HeldoutResult,
    IterationRecord,
    SampleResult,
    TemplateScores,
    count_cut,
)

__all__ = [
    "HEADLINE",
    "PICTURES",
    "TABLES",
    "TAG_LIMIT",
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
    "iteration_metrics",
    "write_result",
    "write_table",
]

# MLflow's own limits are 6,000 characters for a parameter (500 before 2.8) and 8,000 for a tag (5,000 on some stores).
PARAMETER_LIMIT, TAG_LIMIT = 500, 4_500
#: Files of tables, which MLflow's pages show.
TABLES = ("examples.json", "heldout.json", "ranks.json", "heldout_images.json")
#: The scores that are metrics.
HEADLINE = ("hp", "hr", "hf", "accuracy", "off_tree", "abstained", "selective_hp")
UNFINISHED = "*The run is not finished.*"
_WIDTH = 96  # characters of a line of a template
#: How many rows of a table have pictures: the worst of an iteration, and of the held-out images what changed most.
PICTURES, HELDOUT_PICTURES = 24, 100
_SIDE = 128  # pixels of the longest side of a picture in a table
#: Columns by name, all of the same length.
Columns = dict[str, list[Any]]


def flatten(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields parameters with dotted keys, long values cut, passwords in addresses left out."""
    for name, value in _dotted(plain(values)).items():
        yield (
            name,
            cut(
                value if isinstance(value, str) else json.dumps(value, ensure_ascii=False),
                PARAMETER_LIMIT,
            ),
        )


def cut(text: str, limit: int) -> str:
    """Returns the text, or where it is too long its beginning with a note of its length."""
    note = f"… ({len(text)} characters)"
    return text if len(text) <= limit else text[: limit - len(note)] + note


def finite(values: Mapping[str, float | None]) -> dict[str, float]:
    """Returns the values that are known and finite."""
    return {
        key: float(value)
        for key, value in values.items()
        if value is not None and math.isfinite(value)
    }


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
            "cut": count_cut(record.rows)[0] or None,
            "seconds": record.usage.seconds,
            "cost_usd": record.usage.cost_usd,
        }
    )


def heldout_metrics(held: HeldoutResult, name: str | None = None) -> dict[str, float]:
    """Returns a template's held-out headline scores as `heldout/SCORE`, or `heldout/SCORE/NAME`.

    Beside them are the share of doubtful placements, hP and hR without these and with all of them wrong, and the worth
    of the confidence.
    """
    end = "" if name is None else "/" + re.sub(r"[^\w. -]", "-", name)
    doubts = {} if held.doubt is None else {"doubtful": held.doubt.n / held.scores.n}
    for how in ("without", "wrong") if held.doubt else ():
        doubts |= {
            f"{key}_doubtful_{how}": value
            for key, value in (getattr(held.doubt, how) or {}).items()
        }
    worth = {
        key: getattr(held.selective, key, None) for key in ("aurc", "calibration_error", "brier")
    }
    worth["haurc"] = getattr(held.selective and held.selective.curve, "area", None)
    found = headline_metrics(held.scores) | doubts | finite(worth)
    return {f"heldout/{key}{end}": value for key, value in found.items()}


def all_scores(record: IterationRecord) -> dict[str, float]:
    """Returns every number of an iteration by name, with scores by rank, calls, tokens and faults by kind."""
    values: dict[str, Any] = {**iteration_metrics(record)}
    if record.scores is not None:
        values |= {key: mean for key, mean in record.scores.means.items() if key in SCORES}
        for row in record.scores.ranks:
            values |= {f"precision.{row.rank}": row.precision, f"recall.{row.rank}": row.recall}
    values |= _dotted(asdict(record.usage))
    return finite({key: value for key, value in values.items() if value != {}})


def _dotted(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested values by dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= (
            _dotted(value, f"{prefix}{key}.")
            if isinstance(value, Mapping) and value
            else {f"{prefix}{key}": value}
        )
    return flat


def write_iteration(folder: Path, record: IterationRecord, images: Mapping[str, Path]) -> None:
    """Writes the template, every number, the refused templates, the proposer's turns, and the table of the images."""
    if record.template is not None:
        (folder / "template.j2").write_text(record.template, encoding="utf-8")
    data: dict[str, Any] = {"scores": all_scores(record)}
    if record.rejected:
        refused = [{"template": template, "reason": reason} for template, reason in record.rejected]
        data["rejected"] = {"rejected": refused}
    if record.trace:
        data["trace"] = {"trace": [asdict(turn) for turn in record.trace]}
    for stem, content in data.items():
        text = json.dumps(plain(content), ensure_ascii=False, indent=2)
        (folder / f"{stem}.json").write_text(text, encoding="utf-8")
    write_table(
        folder, "examples.json", example_table(record.rows), images=images, pictures=PICTURES
    )


def write_result(folder: Path, result: Result, images: Mapping[str, Path]) -> None:
    """Writes the tables of a result, and copies of the files in its folder.

    The tables are the held-out scores with intervals and differences, the scores by rank, and the held-out images.
    """
    for name, table in {
        "heldout.json": score_table(result),
        "ranks.json": rank_table(result),
    }.items():
        columns = zip(table.columns, zip(*table.rows, strict=True), strict=False)
        write_table(folder, name, {column: list(cells) for column, cells in columns})
    by_image = image_table(result.heldout)
    write_table(folder, "heldout_images.json", by_image, images=images, pictures=HELDOUT_PICTURES)
    source, figures = Path(result.folder), folder / "figures"
    # With result.json and provenance.json `load_run` reads the run where its folder is not there.
    for name in ("report.html", "result.json", "provenance.json", "winner.txt", "winner.j2"):
        if (source / name).exists():
            shutil.copy(source / name, folder)
    for file in (*source.glob("*.png"), *source.glob("*.svg")):
        figures.mkdir(exist_ok=True)
        shutil.copy(file, figures)


def example_table(rows: Sequence[SampleResult]) -> Columns:
    """Returns one row per image, as columns, the worst first; the values that a failed call lacks are None."""
    rows = sorted(rows, key=_worth)
    fields = [
        "image",
        "answer",
        "placement",
        "truth",
        "stage",
        "confidence",
        "doubtful",
        "hp",
        "hr",
        "ihp",
        "ihr",
    ]
    fields += ["abstained", "off_tree", *["masked"] * any(row.masked for row in rows)]
    fields += ["cut"] * any(row.cut for row in rows)
    fields += ["from_store", "failure", "example"]
    named = {
        "hp": "hP",
        "hr": "hR",
        "ihp": "ihP",
        "ihr": "ihR",
        "off_tree": "off the tree",
        "from_store": "from store",
    }
    flat = [row.as_row() for row in rows]
    table = {named.get(field, field): [row.get(field) for row in flat] for field in fields}
    own = dict.fromkeys(key for row in rows for key in row.measures)
    return table | {key: [row.measures.get(key) for row in rows] for key in own}


def image_table(heldout: Sequence[HeldoutResult]) -> Columns:
    """Returns one row per held-out image, with every template's answer side by side, what changed most first."""
    rows = [{row.example: row for row in held.rows} for held in heldout]
    images = {
        example: [by[example] for by in rows if example in by] for by in rows for example in by
    }

    def change(example: str) -> tuple[float, float]:
        worth = [_worth(row) for row in images[example]]
        return min(worth) - max(worth), min(worth)

    examples = sorted(images, key=change)
    table: Columns = {
        name: [getattr(images[example][0], name) for example in examples]
        for name in ("image", "truth")
    }
    for held, by in zip(heldout, rows, strict=True):
        for name, field in (
            ("answer", "answer"),
            ("placement", "placement"),
            ("hP", "hp"),
            ("hR", "hr"),
        ):
            table[f"{held.name}: {name}"] = [
                getattr(by.get(example), field, None) for example in examples
            ]
    return table | {"example": examples}


def _worth(row: SampleResult) -> float:
    """Returns hP and hR together; a row without them, since the call failed, is below all others."""
    return -1.0 if row.hp is None or row.hr is None else row.hp + row.hr


def write_table(
    folder: Path,
    name: str,
    columns: Columns,
    *,
    images: Mapping[str, Path] | None = None,
    pictures: int = 0,
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
            file = (images or {}).get(example) if number < pictures else None
            picture = None if file is None else small_jpeg(file, _SIDE)
            path = f"table_images/{Path(name).stem}/{'none' if picture is None else f'{number:03d}'}.jpg"
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(picture or _grey_square())
            cells.append({"type": "image", "filepath": path, "compressed_filepath": path})
        columns = {"picture": cells, **columns}
    data = {"columns": list(columns), "data": plain(list(zip(*columns.values(), strict=True)))}
    (folder / name).write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")


@cache
def _grey_square() -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (_SIDE // 4, _SIDE // 4), "lightgrey").save(buffer, "JPEG")
    return buffer.getvalue()


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
    parts += [summary_table(summary).markdown()] if summary.columns else []
    parts += ["\n".join(f"- {text}" for text in doubt_lines(summary))]
    parts += [
        "### Cost",
        "\n".join(f"- {name}: {text}" for name, text in account_lines(result.usage)),
    ]
    commands = (command("classify", result.folder, "IMAGES"), command("report", result.folder))
    return _joined(*parts, "### Next steps", _code("\n".join(commands)))


def _code(text: str) -> str:
    """Returns a text as a Markdown code block, which shows it as it is, in lines that fit the page."""
    lines = (part for line in text.splitlines() for part in wrap(line, _WIDTH) or [""])
    return "\n".join(f"    {line}" for line in lines)


def _joined(*parts: str) -> str:
    return cut("\n\n".join(part for part in parts if part), TAG_LIMIT)
