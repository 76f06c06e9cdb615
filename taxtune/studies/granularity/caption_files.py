"""Captions from the files that people keep them in, one at a time: text, CSV, JSON lines, or COCO's format."""

from __future__ import annotations

import csv
import difflib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from taxtune.errors import DataError, TaxonomyError
from taxtune.tables import column_key, csv_delimiter, read_text
from taxtune.taxonomy.sources.lines import OnBytes, lines

__all__ = ["read_captions"]

_PACKED = (".gz", ".bz2", ".xz")
# A quote that is never closed makes one cell of all that follows: beyond this it is an error and not a caption.
_LONGEST_CELL = 1 << 24
_ENDINGS = "Captions are read from .txt (one a line), .csv, .tsv, .jsonl, all these also packed, and COCO's .json."

Reader = Callable[[Path, str, OnBytes | None], Iterator[str]]


def read_captions(path: Path, *, column: str = "caption", on_bytes: OnBytes | None = None) -> Iterator[str]:
    """Yields the captions of a file as they come, so that it may be larger than the memory.

    Args:
        path: A text file with a caption a line; CSV or TSV with a header; JSON lines, where the column may hold one
            text or a list of them; each of these plain or packed with gzip, bzip2 or xz. Or a captions file in COCO's
            format (`annotations`, each with a `caption`), which is read whole.
        column: The column, or key, of the captions.
        on_bytes: Hears how many bytes of the file were read.

    Yields:
        The captions, empty ones included: an empty line, cell or text, null and an empty list are each one.

    Raises:
        DataError: If the file cannot be read, is empty, is not of a form above, or lacks the column; it names the row.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] in _PACKED
    ending = (suffixes[-2] if len(suffixes) > 1 else "") if packed else (suffixes[-1] if suffixes else "")
    readers: dict[str, Reader] = {
        ".txt": _plain,
        ".csv": _table,
        ".tsv": _table,
        ".jsonl": _json_lines,
        ".ndjson": _json_lines,
        ".json": _coco,
    }
    if ending not in readers or (packed and ending == ".json"):
        raise DataError("The captions file has an unknown ending.", file=path, value=path.name, remedy=_ENDINGS)
    rows = 0
    try:
        for caption in readers[ending](path, column, on_bytes):
            rows += 1
            yield caption
    except TaxonomyError as error:  # the reader of lines was written for graphs
        raise DataError(error.message, file=error.file, row=error.row, value=error.value, remedy=error.remedy) from None
    if not rows:
        raise DataError("The captions file is empty.", file=path)


def _text_lines(path: Path, on_bytes: OnBytes | None) -> Iterator[tuple[int, str]]:
    for number, line in lines(path, on_bytes=on_bytes):
        if "\0" in line:
            raise DataError("The captions file holds a NUL character: it is no text file.", file=path, row=number)
        yield number, line


def _plain(path: Path, column: str, on_bytes: OnBytes | None) -> Iterator[str]:
    for _, line in _text_lines(path, on_bytes):
        yield line


def _table(path: Path, column: str, on_bytes: OnBytes | None) -> Iterator[str]:
    source = _text_lines(path, on_bytes)
    first = next(((number, line) for number, line in source if line.strip()), None)
    if first is None:
        return
    start, head = first
    delimiter = csv_delimiter(head)
    try:
        header = next(csv.reader([head], delimiter=delimiter, strict=True))
    except csv.Error as problem:
        raise DataError(f"The header cannot be read as CSV: {problem}.", file=path, row=start) from None
    keys = [column_key(cell) for cell in header]
    if column_key(column) not in keys:
        raise _no_column(path, start, column, header, "The first line names the columns. ")
    if keys.count(column_key(column)) > 1:
        raise DataError("Two columns have the same name.", file=path, row=start, value=column, remedy="Rename one.")
    place = keys.index(column_key(column))
    # The module takes line ends off only between rows: a caption may hold one.
    reader = csv.reader((line + "\n" for _, line in source), delimiter=delimiter, strict=True)
    limit = csv.field_size_limit()
    row = start + 1
    try:
        csv.field_size_limit(max(limit, _LONGEST_CELL))  # a limit of the whole process
        for cells in reader:
            if len(cells) > len(header):
                raise DataError(
                    f"The row has {len(cells):,} cells, the header {len(header):,}.",
                    file=path,
                    row=row,
                    value=delimiter.join(cells),
                    remedy="Put captions that hold the delimiter in double quotes, or give a .txt with one a line.",
                )
            if cells:  # a blank line is no row
                yield cells[place] if place < len(cells) else ""
            row = start + 1 + reader.line_num
    except csv.Error as problem:
        raise DataError(
            f"The row cannot be read as CSV: {problem}.",
            file=path,
            row=row,
            remedy="Close its quotes, and double a quote that is part of a caption.",
        ) from None
    finally:
        csv.field_size_limit(limit)


def _json_lines(path: Path, column: str, on_bytes: OnBytes | None) -> Iterator[str]:
    for number, line in _text_lines(path, on_bytes):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"The line is not valid JSON: {error}.", file=path, row=number) from None
        if not isinstance(record, dict):
            raise DataError("The line is no JSON object.", file=path, row=number, value=record)
        if column not in record:
            raise _no_column(path, number, column, list(record))
        value = record[column]
        texts = value if isinstance(value, list) else [value]
        for text in texts or [None]:
            if text is not None and not isinstance(text, str):
                raise DataError("The caption is no text.", file=path, row=number, value=text)
            yield text or ""


def _coco(path: Path, column: str, on_bytes: OnBytes | None) -> Iterator[str]:
    text = read_text(path, error=DataError, what="captions")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = "A file with a JSON object a line ends in .jsonl." if text.count("\n{") else None
        raise DataError(f"The captions file is not valid JSON: {error}.", file=path, remedy=hint) from None
    annotations = data.get("annotations") if isinstance(data, dict) else None
    if not isinstance(annotations, list):
        raise DataError("The captions file has no list `annotations`: it is not in COCO's format.", file=path)
    for i, entry in enumerate(annotations):
        caption = entry.get("caption") if isinstance(entry, dict) else None
        if not isinstance(caption, str):
            hint = "Is this the instances file?" if isinstance(entry, dict) and "category_id" in entry else None
            raise DataError(f"annotations[{i}] has no `caption`.", file=path, value=entry, remedy=hint)
        yield caption
    if on_bytes is not None:
        size = path.stat().st_size
        on_bytes(size, size)


def _no_column(path: Path, row: int, column: str, names: list[str], before: str = "") -> DataError:
    near = difflib.get_close_matches(column.lower(), names, n=1)
    listed = ", ".join(map(repr, names[:20])) + (" …" if len(names) > 20 else "")
    return DataError(
        f"There is no column {column!r}.",
        file=path,
        row=row,
        remedy=f"{before}There {'is' if len(names) == 1 else 'are'} {listed or 'none'}; name one with --caption-column."
        + (f" Did you mean {near[0]!r}?" if near else ""),
    )
