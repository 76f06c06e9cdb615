"""Manifests: an image and a label a row, as CSV, TSV or JSONL."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from pathlib import Path

from taxtune.data.source import Record
from taxtune.errors import DataError, shortened
from taxtune.tables import column_key, parse_table, read_text

__all__ = ["read_manifest"]

Row = tuple[int, tuple[object, ...]]


def read_manifest(
    path: Path, *, images: Path | None = None, image_column: str = "image", label_column: str = "label"
) -> list[Record]:
    """Reads a manifest.

    A CSV file may have commas, semicolons or tabs between its values, whichever its header has most of; upper and lower
    case in column names do not count.

    Args:
        path: A file that ends in .csv, .tsv, .jsonl or .ndjson.
        images: The folder that image names are relative to; by default the manifest's.
        image_column: Column (in JSONL: key) of the image's name.
        label_column: Column of the label.

    Returns:
        One record a row, in order.

    Raises:
        DataError: If the file is missing, malformed, lacks a column, or rows lack a value (all are listed).
    """
    folder = path.parent if images is None else images
    text = read_text(path, error=DataError, what="manifest")
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        rows = _csv_rows(text, path, (image_column, label_column))
    elif suffix in (".jsonl", ".ndjson"):
        rows = _jsonl_rows(text, path, (image_column, label_column))
    else:
        raise DataError(
            f"A manifest ends in .csv, .tsv or .jsonl, not in {suffix or 'nothing'!r}.", file=path, remedy="Rename it."
        )
    records: list[Record] = []
    empty: list[str] = []
    for number, values in rows:
        image, label = map(_text, values)
        if not image or not label:
            missing = " and ".join(c for c, v in ((image_column, image), (label_column, label)) if not v)
            empty.append(f"  row {number}: no {missing}")
            continue
        if "\0" in image:
            raise DataError("The image's name holds a NUL character.", file=path, row=number, value=image)
        records.append(Record(image, folder / image, label, f"row {number}", (label,)))
    if empty:
        raise DataError(
            f"{len(empty)} {'row lacks' if len(empty) == 1 else 'rows lack'} a value:\n"
            + "\n".join(shortened(empty))
            + "\nFill them in or remove them.",
            file=path,
        )
    return records


def _text(value: object) -> str:
    # A number is a legitimate label ("12"); a list, an object, true and null are not.
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return ""
    return str(value).strip()


def _csv_rows(text: str, path: Path, columns: tuple[str, str]) -> Iterator[Row]:
    table = parse_table(text, str(path), error=DataError, tidy=False)
    places: list[int] = []
    for column in columns:
        place = table.column(column_key(column))
        if place is None:
            raise _no_column(path, column, [name for name in table.header if name], row=table.header_line)
        places.append(place)
    for row in table.rows:
        if any(cell.strip() for cell in row.cells[len(table.header) :]):
            raise DataError(
                f"The row has {len(row.cells)} values, more than the {len(table.header)} columns.",
                file=path,
                row=row.line,
                remedy="Put values that hold the separator in double quotes.",
            )
        yield row.line, tuple(row.cell(place) for place in places)


def _jsonl_rows(text: str, path: Path, columns: tuple[str, str]) -> Iterator[Row]:
    # Not splitlines(): it also splits at characters that may stand unescaped inside a JSON text.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DataError(f"The line is not valid JSON: {error}.", file=path, row=number) from None
        except RecursionError:
            raise DataError("The line is nested too deeply.", file=path, row=number) from None
        if not isinstance(row, dict):
            raise DataError("The line is no JSON object.", file=path, row=number, value=row)
        for column in columns:
            if column not in row:
                raise _no_column(path, column, list(row), row=number)
        yield number, tuple(row[column] for column in columns)


def _no_column(path: Path, column: str, names: list[str], row: int | None = None) -> DataError:
    near = difflib.get_close_matches(column.lower(), names, n=1)
    remedy = f"There {'is' if len(names) == 1 else 'are'} {', '.join(map(repr, names)) or 'none'}."
    if near:
        remedy += f" Did you mean {near[0]!r}?"
    return DataError(f"There is no column {column!r}.", file=path, row=row, remedy=remedy)
