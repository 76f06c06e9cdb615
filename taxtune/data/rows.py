"""Rows of an image and a label: from CSV, XLSX, JSONL and other text files, lists, data frames and data sets."""

from __future__ import annotations

import difflib
import json
import numbers
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from taxtune.data.folder import label_references
from taxtune.data.images import is_image_data
from taxtune.data.sources import Record, Source, source_name
from taxtune.errors import DataError, shortened
from taxtune.tables import column_key, decoded_lines, open_bytes, sheet_rows, stream_table

__all__ = ["LISTS", "file_records", "line_pattern", "read_rows"]

#: What the names of lists of images end in.
LISTS = (".csv", ".tsv", ".xlsx", ".jsonl", ".ndjson")

Columns = tuple[str, str]
# A row's place for messages, its image (a path, an image, or a function that returns either) and its label.
Row = tuple[str, object, object]


def read_rows(
    source: Source,
    *,
    image_column: str = "image",
    label_column: str = "label",
    pattern: str | None = None,
    image_suffix: str = "",
) -> Iterator[Record]:
    """Yields rows of an image and a label.

    A CSV file may have commas, semicolons or tabs between its values, whichever its header has most of; upper and lower
    case in its column names do not count. In a data set of Hugging Face a column of class labels gives the classes'
    names.

    Args:
        source: A path that ends in .csv, .tsv, .jsonl or .ndjson; a list of pairs (image, label); a pandas
            `DataFrame`; or a Hugging Face `Dataset`. Images that are not in a file may be PIL images, bytes, or
            objects with the key "bytes", as data sets store them.
        image_column: Column (in JSONL: key) of the image.
        label_column: Column of the label.
        pattern: For a text file of any name, in place of the columns: a regular expression that matches every line that
            is not blank, with the groups `image` and `label`, one of which may be within the other. In the label,
            which is often a part of the image's name, underscores may stand for spaces, as in the names of folders.
        image_suffix: What is added to the images' names: ".jpg" where a file has them without.

    Yields:
        One record a row, in order.

    Raises:
        DataError: If the source is missing, malformed, lacks a column, or rows lack a value (all are listed).
    """
    name = source_name(source)
    columns = (image_column, label_column)
    if isinstance(source, Path):
        rows = _file_rows(source, columns) if pattern is None else _matched_rows(source, line_pattern(pattern))
    elif hasattr(source, "features") and hasattr(source, "column_names"):
        rows = _dataset_rows(source, columns, name)
    elif hasattr(source, "columns") and hasattr(source, "iloc"):
        rows = _frame_rows(source, columns, name)
    else:
        rows = _pairs(source, name)
    faults: list[str] = []
    for where, image, written in rows:
        label = _text(written)
        record = _record(image, label, where, image_suffix, label_references(label) if pattern else (label,))
        missing = [column for column, value in zip(columns, (record, label), strict=True) if not value]
        if missing:
            given = [value for value in (image, written) if not _text(value) and not _is_nothing(value)]
            said = f" (got {_shown(given[0])})" if given and not callable(given[0]) else ""
            faults.append(f"  {where}: no {' and '.join(missing)}{said}")
        elif record is not None:
            yield record
    if faults:
        raise DataError(
            f"{len(faults)} {'row lacks' if len(faults) == 1 else 'rows lack'} a value:\n"
            + "\n".join(shortened(faults))
            + "\nFill in the values or remove the rows.",
            file=name,
        )


def _record(image: object, label: str, where: str, suffix: str, references: tuple[str, ...]) -> Record | None:
    if callable(image):
        return Record(image, label, where, references)
    if is_image_data(image):
        return Record(lambda: image, label, where, references)
    if isinstance(image, dict):  # a data set's reference to a file
        image = image.get("path")
    name = str(image) if isinstance(image, Path) else _text(image)
    return Record(name + suffix, label, where, references) if name else None


def _text(value: object) -> str:
    # A number is a legitimate label ("12"); a list, an object, true and null are not.
    if isinstance(value, bool) or value != value or not isinstance(value, (str, numbers.Real)):
        return ""
    return str(value).strip()


def _is_nothing(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip()) or isinstance(value, float)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


# -- in memory ---------------------------------------------------------------------------------------------------------


def _pairs(source: Any, name: str) -> Iterator[Row]:
    if isinstance(source, dict) or not isinstance(source, Iterable):
        splits = f" Choose one of its splits: {', '.join(map(repr, source))}." if isinstance(source, dict) else ""
        raise DataError(
            f"A {name} cannot be used as a source of images.",
            remedy=splits.strip() or "Give a path, a list of (image, label), a DataFrame or a Dataset.",
        )
    for number, pair in enumerate(source):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise DataError(
                f"Item {number} is not a pair of an image and a label.", file=name, value=pair, remedy="Give both."
            )
        yield f"item {number}", pair[0], pair[1]


def _frame_rows(frame: Any, columns: Columns, name: str) -> Iterator[Row]:
    _check_columns(columns, list(frame.columns), name)
    for index, image, label in zip(frame.index, *(frame[column] for column in columns), strict=True):
        yield f"row {index}", image, label


def _dataset_rows(dataset: Any, columns: Columns, name: str) -> Iterator[Row]:
    if not hasattr(dataset, "__len__"):
        raise DataError(
            "A streamed data set can be read only once.", file=name, remedy="Load it without streaming=True."
        )
    image_column, label_column = columns
    _check_columns(columns, list(dataset.column_names), name)
    names: list[str] | None = getattr(dataset.features[label_column], "names", None)
    dataset = dataset.with_format(None)
    stored = dataset.select_columns([image_column])
    feature = dataset.features[image_column]
    if not hasattr(feature, "decode"):
        images = iter(stored[image_column])
    else:
        # The stored bytes rather than decoded pixels need not be encoded again. They are fetched one by one when they
        # are needed: all together may be more than fits in memory.
        stored = stored.cast_column(image_column, type(feature)(decode=False))
        images = (lambda number=number: stored[number][image_column] for number in range(len(stored)))
    for number, (image, label) in enumerate(zip(images, dataset[label_column], strict=True)):
        if names is not None and isinstance(label, int):
            label = names[label] if 0 <= label < len(names) else None
        yield f"row {number}", image, label


# -- files -------------------------------------------------------------------------------------------------------------


def file_records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the rows of a list of images: the line or row of each, and what stands in it, by column.

    Raises:
        DataError: If the file is missing, malformed or empty, or its name does not end in one of `LISTS`.
        MissingExtraError: If it is XLSX and openpyxl is not installed.
    """
    suffix = path.suffix.lower()
    with open_bytes(path, error=DataError, what="manifest") as stream:
        if suffix not in LISTS:
            raise DataError(
                f"The name of a manifest must end in {', '.join(LISTS)}, not in {suffix or 'nothing'!r}.",
                file=path,
                remedy="Rename it, or say with `pattern` where image and label stand in its lines.",
            )
        if suffix == ".xlsx":
            yield from sheet_rows(stream.read(), path)
        elif suffix in (".csv", ".tsv"):
            yield from _csv_records(_filled(stream, path), path)
        else:
            yield from _json_records(_filled(stream, path), path)


def _file_rows(path: Path, columns: Columns) -> Iterator[Row]:
    lines = path.suffix.lower() in (".jsonl", ".ndjson")
    for number, record in file_records(path):
        keys = [column if column in record else column_key(column) for column in columns]
        _check_columns(keys, list(record), path, row=number if lines else 1)
        image, label = (record[key] for key in keys)
        if "\0" in str(image):
            raise DataError("The image's name holds a NUL character.", file=path, row=number, value=image)
        yield f"row {number}", image, label


def line_pattern(pattern: str) -> re.Pattern[str]:
    """Returns the regular expression that finds the image and the label in a line.

    Raises:
        DataError: If it is none, or lacks one of the two groups.
    """
    example = r"For lines such as '0034309 707-320': (?P<image>\d+) (?P<label>.+)"
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise DataError(f"The pattern is not a regular expression: {error}.", value=pattern, remedy=example) from None
    for group in ("image", "label"):
        if group not in expression.groupindex:
            raise DataError(f"The pattern has no group {group!r}.", value=pattern, remedy=example)
    return expression


def _matched_rows(path: Path, pattern: re.Pattern[str]) -> Iterator[Row]:
    faults: list[str] = []
    with open_bytes(path, error=DataError, what="manifest") as stream:
        for number, line in enumerate(_filled(stream, path), start=1):
            found = pattern.fullmatch(text := line.strip())
            if found is not None:
                yield f"row {number}", found["image"], found["label"]
            elif text:
                faults.append(f"  row {number}: {_shown(text)}")
    if faults:
        raise DataError(
            f"The pattern {pattern.pattern!r} does not match {len(faults)} {'line' if len(faults) == 1 else 'lines'}:\n"
            + "\n".join(shortened(faults))
            + "\nIt must match each line that is not blank from its start to its end.",
            file=path,
        )


def _filled(stream: IO[bytes], path: Path) -> Iterator[str]:
    """Yields the lines of a manifest, one of which must not be blank."""
    blank = True
    for line in decoded_lines(stream, path, error=DataError, what="manifest"):
        blank = blank and not line.strip()
        yield line
    if blank:
        raise DataError("The manifest file is empty.", file=path)


def _csv_records(lines: Iterable[str], path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    table = stream_table(lines, str(path), error=DataError, tidy=False)
    for row in table.rows:
        if any(cell.strip() for cell in row.cells[len(table.header) :]):
            raise DataError(
                f"The row has {len(row.cells)} values, more than the {len(table.header)} columns.",
                file=path,
                row=row.line,
                remedy="Put values that contain the separator in double quotes.",
            )
        yield row.line, {name: row.cell(place) for place, name in enumerate(table.header) if name}


def _json_records(lines: Iterable[str], path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    # Lines end in LF alone: other ends may stand unescaped inside a JSON text.
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.removesuffix("\n"))
        except ValueError as error:
            raise DataError(f"The line is not valid JSON: {error}.", file=path, row=number) from None
        except RecursionError:
            raise DataError("The line is nested too deeply.", file=path, row=number) from None
        if not isinstance(row, dict):
            raise DataError("The line is not a JSON object.", file=path, row=number, value=row)
        yield number, row


def _check_columns(columns: Iterable[str], names: list[str], file: str | Path, row: int | None = None) -> None:
    for column in columns:
        if column not in names:
            raise _no_column(column, names, file, row)


def _no_column(column: str, names: list[str], file: str | Path, row: int | None = None) -> DataError:
    near = difflib.get_close_matches(column.lower(), list(map(str, names)), n=1)
    remedy = f"There {'is' if len(names) == 1 else 'are'} {', '.join(map(repr, names)) or 'none'}."
    if near:
        remedy += f" Did you mean {near[0]!r}?"
    return DataError(f"There is no column {column!r}.", file=file, row=row, remedy=remedy)
