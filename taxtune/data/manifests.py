"""Manifests: an image and a label a row, as CSV, TSV or JSONL."""

from __future__ import annotations

import csv
import difflib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from taxtune.errors import DataError

if TYPE_CHECKING:
    from taxtune.data.examples import Record

__all__ = ["read_manifest"]

Row = tuple[int, dict[str, object]]


def read_manifest(
    path: Path, *, images: Path | None = None, image_column: str = "image", label_column: str = "label"
) -> list[Record]:
    """Reads a manifest.

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
    from taxtune.data.examples import Record

    folder = path.parent if images is None else images
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        rows = _csv_rows(path, "," if suffix == ".csv" else "\t", (image_column, label_column))
    elif suffix in (".jsonl", ".ndjson"):
        rows = _jsonl_rows(path, (image_column, label_column))
    else:
        raise DataError(
            f"A manifest ends in .csv, .tsv or .jsonl, not in {suffix or 'nothing'!r}.", file=path, remedy="Rename it."
        )
    records: list[Record] = []
    empty: list[str] = []
    try:
        for number, row in rows:
            image, label = (_text(row.get(column)) for column in (image_column, label_column))
            if not image or not label:
                missing = " and ".join(c for c, v in ((image_column, image), (label_column, label)) if not v)
                empty.append(f"  row {number}: no {missing}")
                continue
            records.append(Record(image, folder / image, label, f"row {number}", (label,)))
    except FileNotFoundError:
        raise DataError("The manifest does not exist.", file=path, remedy="Check the path.") from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"The manifest is not UTF-8 text: {error.reason}.", file=path, remedy="Save it as UTF-8."
        ) from None
    except OSError as error:
        raise DataError(f"The manifest cannot be read: {error.strerror or error}.", file=path) from error
    if empty:
        raise DataError(
            f"{len(empty)} rows lack a value:\n" + "\n".join(empty) + "\nFill them in or remove them.", file=path
        )
    return records


def _text(value: object) -> str:
    # A number is a legitimate label ("12"); a list, an object, true and null are not.
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return ""
    return str(value).strip()


def _csv_rows(path: Path, delimiter: str, columns: tuple[str, str]) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream, delimiter=delimiter, strict=True)
        try:
            names = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = names
            for column in columns:
                if column not in names:
                    raise _no_column(path, column, names)
            for row in reader:
                if None in row:
                    raise DataError(
                        f"The row has more values than the {len(names)} columns.",
                        file=path,
                        row=reader.line_num,
                        remedy="Put values that hold the separator in double quotes.",
                    )
                yield reader.line_num, dict(row)
        except csv.Error as error:
            raise DataError(f"The row is not valid CSV: {error}.", file=path, row=reader.line_num) from None


def _jsonl_rows(path: Path, columns: tuple[str, str]) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig") as stream:
        for number, line in enumerate(stream, start=1):
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
            yield number, row


def _no_column(path: Path, column: str, names: list[str], row: int | None = None) -> DataError:
    near = difflib.get_close_matches(column, names, n=1)
    remedy = f"There {'is' if len(names) == 1 else 'are'} {', '.join(map(repr, names)) or 'none'}."
    if near:
        remedy += f" Did you mean {near[0]!r}?"
    return DataError(f"There is no column {column!r}.", file=path, row=row, remedy=remedy)
