"""A run's records for MLflow, within its limits: parameters, a few finite metrics, tables, files.

A metric is a column of MLflow's table of runs and a chart of its own, so that only counts and
headline scores are metrics: `heldout/...` of templates on the held-out images, then `tuning/...` of
iterations, then `usage/...`. All else (intervals, scores by rank, in bits, calls and tokens) is in
tables and JSON among the artifacts.
"""

from __future__ import annotations

import io
import json
import math
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from textwrap import wrap
from typing import Any

from taxtune.errors import command
from taxtune.metrics.names import metric_name
from taxtune.metrics.table import SCORES
from taxtune.recipe import flatten
from taxtune.report.formatting import Result, rows_by_image
from taxtune.report.gallery import small_jpeg
from taxtune.report.output import plain
from taxtune.report.summary import (
    account_lines,
    remarks,
    summarise,
)
from taxtune.report.tables import first_tables, rank_table, score_table
from taxtune.tables import split_cell
from taxtune.tuning.records import (
    HeldoutResult,
    IterationRecord,
    SampleResult,
    Usage,
    count_cut,
    outcomes_of,
)

__all__ = [
    "FIRST_METRICS",
    "PICTURES",
    "TABLES",
    "TAG_LIMIT",
    "UNFINISHED",
    "about_iteration",
    "about_result",
    "all_scores",
    "example_table",
    "finite",
    "headline_metrics",
    "heldout_metrics",
    "parameter_texts",
    "shorten",
    "tuning_metrics",
    "usage_metrics",
    "write_result",
]

#: Characters of a parameter; MLflow takes 6,000, and 500 before version 2.8.
PARAMETER_LIMIT = 500
#: Characters of a tag; MLflow takes 8,000, and 5,000 on some stores.
TAG_LIMIT = 4_500
#: Files of tables, which MLflow's pages show.
TABLES = ("examples.json", "heldout_images.json", "heldout.json", "ranks.json")
UNFINISHED = "*The run is not finished.*"
_WIDTH = 96  # characters of a line of a template
#: How many rows of an iteration's table have pictures.
PICTURES = 24
#: The same of the held-out images.
HELDOUT_PICTURES = 100
_SIDE = 128  # pixels of the longest side of a picture in a table
_LEADING = ("wrong", "right_but_general", "exact", "share_wrong", "hp", "hr")
#: What a tuning run's page begins with. MLflow shows metrics in the order in which they were first
#: logged, and none that is NaN; these are known last.
FIRST_METRICS = {f"heldout/{key}": math.nan for key in _LEADING}
#: The columns of every table of an iteration's images, but for the last ones.
_FIELDS = (
    "answer",
    "placement",
    "truth",
    "hp",
    "hr",
    "stage",
    "confidence",
    "doubtful",
    "ihp",
    "ihr",
    "abstained",
    "off_tree",
)
#: Columns by name, all of the same length.
Columns = dict[str, list[Any]]


def parameter_texts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields parameters with dotted keys, long values cut, passwords in addresses left out."""
    for name, value in flatten(plain(values)).items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield name, shorten(text, PARAMETER_LIMIT)


def shorten(text: str, limit: int) -> str:
    """Returns the text, or if it is too long its beginning with a note of its length."""
    note = f"… ({len(text)} characters)"
    return text if len(text) <= limit else text[: limit - len(note)] + note


def finite(values: Mapping[str, float | None]) -> dict[str, float]:
    """Returns the values that are known and finite."""
    known = {key: value for key, value in values.items() if value is not None}
    return {key: float(value) for key, value in known.items() if math.isfinite(value)}


def headline_metrics(template: IterationRecord | HeldoutResult) -> dict[str, float]:
    """Returns a template's counts, headline scores and those of the run's own measures, if any."""
    if template.scores is None:
        return {}
    outcomes = outcomes_of(template.rows)
    metrics: dict[str, float | None] = {
        "wrong": outcomes.wrong,
        "right_but_general": outcomes.general,
        "exact": outcomes.exact,
    }
    for name, count in outcomes.nothing.items():
        metrics[re.sub(r"\W+", "_", name)] = count
    if (share := outcomes.share_wrong) is not None:
        metrics["share_wrong"] = share.estimate
    for key, mean in template.scores.means.items():
        if key not in SCORES:
            metrics[_metric_key(key)] = mean
        elif SCORES[key].headline:
            metrics[key] = mean
    return finite(metrics)


def _metric_key(name: str) -> str:
    """Returns a name with dashes for the characters that MLflow's metrics cannot have."""
    return re.sub(r"[^\w. -]", "-", name)


def tuning_metrics(record: IterationRecord) -> dict[str, float]:
    """Returns an iteration's metrics, without unknown values (a failed one's hP)."""
    return {f"tuning/{key}": value for key, value in _iteration_values(record).items()}


def _iteration_values(record: IterationRecord) -> dict[str, float]:
    cut, _ = count_cut(record.rows)
    further = {
        "objective": record.value,
        "images": len(record.rows),
        "missing": record.missing,
        "cut": cut or None,
    }
    return headline_metrics(record) | finite(further)


def usage_metrics(usage: Usage) -> dict[str, float]:
    """Returns the seconds, and the price where it is known."""
    return finite({"usage/seconds": usage.seconds, "usage/cost_usd": usage.cost_usd})


def heldout_metrics(held: HeldoutResult, name: str | None = None) -> dict[str, float]:
    """Returns a template's counts and headline scores, as `heldout/SCORE` or `heldout/SCORE/NAME`."""
    end = "" if name is None else f"/{_metric_key(name)}"
    return {f"heldout/{key}{end}": value for key, value in headline_metrics(held).items()}


def all_scores(record: IterationRecord) -> dict[str, float]:
    """Returns every number of an iteration: scores, also by rank, calls, tokens and faults."""
    values: dict[str, Any] = {**_iteration_values(record)}
    if record.scores is not None:
        for key, mean in record.scores.means.items():
            # What follows from the images alone says nothing of the template.
            if key in SCORES and not SCORES[key].fixed:
                values[key] = mean
        for row in record.scores.ranks:
            values[f"precision.{row.rank}"] = row.precision
            values[f"recall.{row.rank}"] = row.recall
    values |= flatten(asdict(record.usage))
    return finite({key: value for key, value in values.items() if value != {}})


def write_iteration(folder: Path, record: IterationRecord, images: Mapping[str, Path]) -> None:
    """Writes the files of an iteration.

    They are the template, every number, the refused templates, the proposer's turns, and the table
    of the images.
    """
    if record.template is not None:
        (folder / "template.j2").write_text(record.template, encoding="utf-8")
    _write_json(folder / "scores.json", all_scores(record))
    if record.rejected:
        refused = [{"template": template, "reason": reason} for template, reason in record.rejected]
        _write_json(folder / "rejected.json", {"rejected": refused})
    if record.trace:
        _write_json(folder / "trace.json", {"trace": [asdict(turn) for turn in record.trace]})
    table = example_table(record.rows)
    _write_table(folder, "examples.json", table, images=images, pictures=PICTURES)


def _write_json(file: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(plain(content), ensure_ascii=False, indent=2)
    file.write_text(text, encoding="utf-8")


def write_result(folder: Path, result: Result, images: Mapping[str, Path]) -> None:
    """Writes the tables of a result, and copies of the files in its folder.

    The tables are the held-out scores with intervals and differences, the scores by rank, and the
    held-out images.
    """
    for name, table in (("heldout.json", score_table(result)), ("ranks.json", rank_table(result))):
        if table.rows:
            _write_rows(folder / name, table.columns, table.rows)
    by_image = image_table(result.heldout)
    _write_table(folder, "heldout_images.json", by_image, images=images, pictures=HELDOUT_PICTURES)
    source = Path(result.folder)
    # With result.json and provenance.json `load_run` reads the run where its folder is not there.
    for name in ("report.html", "result.json", "provenance.json", "winner.txt", "winner.j2"):
        if (source / name).exists():
            shutil.copy(source / name, folder)
    figures = folder / "figures"
    for file in (*source.glob("*.png"), *source.glob("*.svg")):
        figures.mkdir(exist_ok=True)
        shutil.copy(file, figures)


def example_table(rows: Sequence[SampleResult]) -> Columns:
    """Returns a row per image, as columns, the costliest first; a failed call lacks most values."""
    rows = sorted(rows, key=_cost)
    shown = [*_FIELDS]
    if any(row.masked for row in rows):
        shown.append("masked")
    if any(row.cut for row in rows):
        shown.append("cut")
    shown += ["from_store", "failure", "image", "example"]
    table: Columns = {}
    flat = [row.as_row() for row in rows]
    for field in shown:
        table[_heading(field)] = [_cell(row, field) for row in flat]
    for key in dict.fromkeys(key for row in rows for key in row.measures):
        table[key] = [row.measures.get(key) for row in rows]
    return table


def _heading(field: str) -> str:
    return metric_name(field).replace("_", " ")


def _cell(row: Mapping[str, Any], field: str) -> Any:
    """Returns a value of an image; of a node first its name, since MLflow cuts off what is long."""
    value = row.get(field)
    if field not in ("placement", "truth") or not value:
        return value
    *above, name = split_cell(value, "/")
    return f"{name} ({'/'.join(above)})" if above else name


def image_table(heldout: Sequence[HeldoutResult]) -> Columns:
    """Returns a row per held-out image, as columns, the costliest for the last template first."""
    images = rows_by_image(heldout)
    names = [held.name for held in reversed(heldout)]
    examples = sorted(images, key=lambda example: _cost(images[example][names[0]]))
    flat = {name: [images[example][name].as_row() for example in examples] for name in names}
    first = flat[names[0]] if names else []
    table: Columns = {"truth": [_cell(row, "truth") for row in first]}
    for name, rows in flat.items():
        for field in ("answer", "placement", "hp", "hr"):
            table[f"{name}: {_heading(field)}"] = [_cell(row, field) for row in rows]
    return table | {"image": [row["image"] for row in first], "example": examples}


def _cost(row: SampleResult) -> tuple[bool, float, float]:
    """Returns a key that sorts by hP and then hR, the costliest first, and failed calls last."""
    if row.hp is None or row.hr is None:
        return True, 0.0, 0.0
    return False, row.hp, row.hr


def _write_table(
    folder: Path,
    name: str,
    columns: Columns,
    *,
    images: Mapping[str, Path],
    pictures: int,
) -> None:
    """Writes a table with pictures, if it has rows, as MLflow's pages show it.

    MLflow's own `log_table` takes a call for each of two copies of each picture, and appends to a
    table that is there.

    Args:
        folder: A folder that becomes a run's artifacts.
        name: The file's name; it ends in .json.
        columns: The columns, one of them called "example".
        images: Image files by example id.
        pictures: How many rows have the image's small copy in a first column; the others have a grey
            square, since MLflow shows a column as pictures only if all of its cells are some.
    """
    examples = columns["example"]
    if not examples:
        return
    beside = Path("table_images", Path(name).stem)
    (folder / beside).mkdir(parents=True, exist_ok=True)
    cells = []
    for number, example in enumerate(examples):
        file = images.get(example) if number < pictures else None
        picture = None if file is None else small_jpeg(file, _SIDE)
        stem = "none" if picture is None else f"{number:03d}"
        path = (beside / f"{stem}.jpg").as_posix()
        (folder / path).write_bytes(picture or _grey_square())
        cells.append({"type": "image", "filepath": path, "compressed_filepath": path})
    rows = zip(cells, *columns.values(), strict=True)
    _write_rows(folder / name, ["picture", *columns], rows)


def _write_rows(file: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    data = {"columns": list(columns), "data": plain(list(rows))}
    file.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")


@cache
def _grey_square() -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (_SIDE // 4, _SIDE // 4), "lightgrey").save(buffer, "JPEG")
    return buffer.getvalue()


# -- descriptions, as Markdown ---------------------------------------------------------------------


def about_iteration(record: IterationRecord) -> str:
    """Returns an iteration's template, and the reason for having no scores if it has none."""
    why = "" if record.reason is None else f"**{record.state}**: {record.reason}"
    return _joined(why, _code(record.template or ""))


def about_result(result: Result, page: str) -> str:
    """Returns the winners with verdicts, the report's first table, the cost, and next commands.

    The first line has links to the run's pages; `page` is the address of the first one.
    """
    summary = summarise(result)
    photos = f"[Held-out photos, the costliest first]({page}/artifacts/heldout_images.json)"
    parts = [f"[Report]({page}/artifacts/report.html) · {photos} · [Traces]({page}/traces)"]
    for winner in summary.winners:
        parts.append(f"### {winner.heading} ({winner.where})")
        parts.append(_code(winner.prompt))
        parts.append(f"**{winner.verdict}**" if winner.verdict else "")
    parts += [table.markdown() for table in first_tables(result)]
    parts.append("\n".join(f"- {text}" for text in remarks(summary)))
    parts.append("### Cost")
    parts.append("\n".join(f"- {name}: {text}" for name, text in account_lines(result.usage)))
    parts.append("### Next steps")
    classify = command("classify", result.folder, "IMAGES")
    report = command("report", result.folder)
    parts.append(_code(f"{classify}\n{report}"))
    return _joined(*parts)


def _code(text: str) -> str:
    """Returns a text as a Markdown code block, which shows it as it is, in lines that fit the page."""
    lines = []
    for line in text.splitlines():
        lines += wrap(line, _WIDTH) or [""]
    return "\n".join(f"    {line}" for line in lines)


def _joined(*parts: str) -> str:
    return shorten("\n\n".join(filter(None, parts)), TAG_LIMIT)
