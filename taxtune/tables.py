"""The one reading of tables: CSV, JSON, XLSX and Parquet, plain or packed."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import re
import sys
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from taxtune.errors import DataError, MissingExtraError, TaxonomyError, TaxtuneError

#: Most bytes that are unpacked of any file; the user has to unpack what is larger.
MOST_UNPACKED = 2**28
# Bytes that a row and a cell count at least: to say nothing takes no room in a file and much in
# memory.
_ROW, _CELL = 64, 16
_PACKED = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
_FORMATS = {"tsv": "csv", "ndjson": "jsonl", "json": "jsonl"}

#: The row of each record, and its values by column.
Records = list[tuple[int, dict[str, Any]]]


class Row(NamedTuple):
    """One record of a CSV table, however many cells it has.

    Attributes:
        line: The 1-based line that it starts on.
        cells: Its cells.
    """

    line: int
    cells: Sequence[str]

    def cell(self, column: int | None) -> str:
        """Returns a cell; "" where the row is too short or there is no such column."""
        if column is None or column >= len(self.cells):
            return ""
        return self.cells[column]


class RawTable(NamedTuple):
    """A CSV table.

    Attributes:
        file: Its file, for messages.
        header: Its columns, see `column_key`.
        header_line: The 1-based line of the header.
        rows: Its records.
    """

    file: str
    header: tuple[str, ...]
    header_line: int
    rows: list[Row]

    def column(self, *names: str) -> int | None:
        """Returns the position of the first of the named columns that there is."""
        return next((self.header.index(name) for name in names if name in self.header), None)


def lost_to_pandas(source: object) -> str:
    """Returns a sentence on values that pandas took for missing ones, "" for other sources."""
    if not hasattr(source, "iloc"):
        return ""
    return (
        'pandas reads "None" and "NA" as missing values: read the file with keep_default_na=False. '
    )


# -- bytes and text --------------------------------------------------------------------------------


def read_bytes(path: Path, *, error: type[TaxtuneError] = DataError, what: str) -> bytes:
    """Returns the bytes of a file, unpacked where its content is packed with gzip, bzip2 or xz.

    Raises:
        TaxtuneError: As `error`, if the file cannot be read or unpacked, or unpacks to more than
            `MOST_UNPACKED`.
    """
    unpack = None
    try:
        with path.open("rb") as raw:
            start = raw.read(6)
            openers = [opener for magic, opener in _PACKED.items() if start.startswith(magic)]
            unpack = openers[0] if openers else None
            if unpack is None:
                return start + raw.read()
        with unpack(path) as stream:  # type: ignore[operator]
            data: bytes = stream.read(MOST_UNPACKED + 1)
    except FileNotFoundError:
        message = f"The {what} file does not exist."
        raise error(message, file=path, remedy="Check the path.") from None
    except IsADirectoryError:
        message = f"This is a folder and no {what} file."
        raise error(message, file=path, remedy="Give the file in it.") from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as problem:
        message = f"The {what} file cannot be read: {problem}."
        remedy = "The compressed data are damaged or incomplete." if unpack else None
        raise error(message, file=path, remedy=remedy) from None
    _check_room(
        f"{what} file",
        path,
        error,
        size=len(data),
        rows=data.count(b"\n"),
        cells=data.count(b","),
    )
    return data


def _check_room(
    what: str,
    file: str | Path,
    error: type[TaxtuneError] = DataError,
    *,
    size: int = 0,
    rows: int = 0,
    cells: int = 0,
    packed: int = 0,
) -> None:
    """Raises the error if a packed file, in whatever format, unpacks to more than there may be.

    Args:
        what: What the file holds, for messages.
        file: The file.
        error: The error.
        size: Its unpacked bytes.
        rows: Its rows.
        cells: Its cells.
        packed: Its own bytes, each of which may become four.
    """
    if max(size, rows * _ROW, cells * _CELL) > max(MOST_UNPACKED, 4 * packed):
        message = f"The {what} unpacks to more than {MOST_UNPACKED / 2**20:,.0f} MiB."
        raise error(message, file=file, remedy="Unpack it, or save it as CSV.")


def read_text(
    path: Path, *, error: type[TaxtuneError] = TaxonomyError, what: str = "taxonomy"
) -> str:
    """Returns the text of a file, plain or packed, in UTF-8, or in UTF-16 with a byte-order mark.

    Raises:
        TaxtuneError: As `error`, if it cannot be read, is empty or is not such text; it names the
            row of the first bad byte.
    """
    return _decoded(read_bytes(path, error=error, what=what), path, error, what)


def _decoded(
    data: bytes, file: str | Path, error: type[TaxtuneError], what: str, *, nul: bool = False
) -> str:
    is_utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if is_utf16 else "utf-8-sig")
    except UnicodeDecodeError as problem:
        raise error(
            f"The {what} file is not UTF-8 text.",
            file=file,
            row=data.count(b"\n", 0, problem.start) + 1,
            value=data[problem.start : problem.start + 8],
            remedy="Save it as UTF-8.",
        ) from None
    if not text.strip():
        raise error(f"The {what} file is empty.", file=file)
    if "\0" in text and not nul:
        row = text.count("\n", 0, text.index("\0")) + 1
        message = f"The {what} file contains a NUL character: it is not a text file."
        raise error(message, file=file, row=row)
    return text


def text_lines(text: str) -> Iterator[str]:
    """Yields the lines of a text without their ends, LF, CR or both.

    Other ends of a line that Unicode has may stand in a name.
    """
    return (line.removesuffix("\n") for line in io.StringIO(text, newline=None))


# -- CSV -------------------------------------------------------------------------------------------


def parse_table(
    text: str,
    file: str,
    *,
    error: type[TaxtuneError] = TaxonomyError,
    tidy: bool = True,
    none: bool = False,
) -> RawTable:
    """Returns the header and the rows of CSV text.

    The delimiter is the one that the header has most of: a comma, a tab or a semicolon.

    Args:
        text: The text; blank lines are left out.
        file: Its file's name, for messages.
        error: The error to raise.
        tidy: Whether to clean the cells (see `clean`); otherwise they stay as they are, line breaks
            included.
        none: Whether there may be no row below the header.

    Raises:
        TaxtuneError: As `error`, if a quote is never closed, two columns share a name or there is
            no row.
    """
    delimiter = csv_delimiter(first_line(text))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[Row] = []
    usual = csv.field_size_limit(2**31 - 1)
    start = 1
    try:
        for cells in reader:
            if tidy:
                cells = [clean(cell) for cell in cells]
            # "" alone is how CSV writes an empty cell of a table of one column; a blank line has no
            # cell.
            is_single = not tidy and cells == [""] and rows and len(rows[0].cells) == 1
            if is_single or any(map(str.strip, cells)):
                rows.append(Row(start, cells))
            start = reader.line_num + 1
    except csv.Error as problem:
        message = f"The row cannot be read as CSV: {problem}."
        remedy = "Close its quotes, and double any quote inside."
        raise error(message, file=file, row=start, remedy=remedy) from None
    finally:
        csv.field_size_limit(usual)
    return _table(rows, file, error, none)


def _table(rows: list[Row], file: str, error: type[TaxtuneError], none: bool = False) -> RawTable:
    if not rows:
        raise error("The file has no header.", file=file, row=1)
    first, *others = rows
    header = tuple(map(column_key, first.cells))
    twice = [name for name, count in Counter(header).items() if name and count > 1]
    if twice:
        message = "Two columns have the same name."
        raise error(message, file=file, row=first.line, value=twice[0], remedy="Rename one.")
    if not others and not none:
        cells = ",".join(first.cells)
        raise error("The file has a header but no rows.", file=file, row=first.line, value=cells)
    return RawTable(file, header, first.line, others)


def first_line(text: str) -> str:
    """Returns the first line of a text that is not blank; "" where there is none."""
    return next(filter(str.strip, text_lines(text)), "")


def header_of(text: str) -> tuple[str, ...]:
    """Returns the columns that the first line of a text would name as a CSV's header."""
    first = first_line(text)
    return tuple(column_key(cell.strip('"')) for cell in first.split(csv_delimiter(first)))


def csv_delimiter(header: str) -> str:
    """Returns the delimiter that a header line has most of: a comma, a tab or a semicolon."""
    return max((",", "\t", ";"), key=header.count)


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns rows below a header as CSV with commas and line feeds."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    return text.getvalue()


def read_rows(
    path: Path,
    needed: Sequence[str],
    others: Sequence[str] = (),
    *,
    what: str,
    remedy: str,
    none: bool = False,
) -> list[tuple[int, dict[str, str]]]:
    """Returns the line and the tidy cells, by column, of each row of a CSV file with certain columns.

    Args:
        path: The file.
        needed: Columns that it must have.
        others: Columns that it may have; the cells of one that is not there are "".
        what: What the file holds, for messages.
        remedy: What to do where a column is missing.
        none: Whether it may have a header and no rows.

    Raises:
        DataError: If it cannot be read, lacks a column, or has no row and must have one.
    """
    text = read_text(path, error=DataError, what=what)
    table = parse_table(text, str(path), error=DataError, none=none)
    missing = [name for name in needed if name not in table.header]
    if missing:
        raise DataError(
            f"The {what} file has no column {' and no column '.join(missing)}.",
            file=path,
            row=table.header_line,
            value=",".join(table.header),
            remedy=remedy,
        )
    columns = {name: table.column(name) for name in (*needed, *others)}
    rows = []
    for row in table.rows:
        rows.append((row.line, {name: row.cell(column) for name, column in columns.items()}))
    return rows


# -- records of any format -------------------------------------------------------------------------


def read_table(
    path: str | Path, format: str | None = None, *, what: str = "answers", other: str = "csv"
) -> Records:
    """Returns the records of a file.

    A row is the 1-based line of a text file or a sheet, else the number of the record. A value of
    CSV or XLSX stays the text that it is ("001", "NA"), and an empty cell is None. One JSON
    document is a list of objects.

    Args:
        path: The file, or "-" for standard input.
        format: "csv", "jsonl", "xlsx", "parquet" or "text" (an answer a line); None goes by name,
            then by content.
        what: What the file holds, for messages.
        other: The format of what neither name nor content tells.

    Raises:
        DataError: If it cannot be read, is empty, or a row is no record.
        MissingExtraError: If it is XLSX and openpyxl is not installed.
    """
    if str(path) != "-":
        file = str(path)
        data = read_bytes(Path(path), what=what)
    elif sys.stdin is not None:
        file = "<stdin>"
        data = sys.stdin.buffer.read()
    else:
        remedy = "Give a file, or pipe the answers to standard input."
        raise DataError("Standard input is closed.", remedy=remedy)
    format = format or table_format(file) or _format_of(data, other)
    if format == "xlsx":
        return _records(_read_sheet(data, file))
    if format == "parquet":
        return _parquet_records(data, file)
    if format == "text":
        return _line_records(data, file, what)
    text = _decoded(data, file, DataError, what)
    if format == "csv":
        return _records(parse_table(text, file, error=DataError, tidy=False))
    return _json_records(text, file)


def table_format(name: str | Path) -> str | None:
    """Returns the format that the name of a file tells, packed or not; None where it tells none."""
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    suffixes = [suffix[1:] for suffix in suffixes if suffix not in (".gz", ".bz2", ".xz")]
    format = _FORMATS.get(suffixes[-1], suffixes[-1]) if suffixes else None
    return format if format in ("csv", "jsonl", "xlsx", "parquet") else None


def _format_of(data: bytes, other: str) -> str:
    """Returns the format that the content of a file tells, else the other one."""
    if data.startswith(b"PAR1"):
        return "parquet"
    if data.startswith(b"PK\x03\x04"):
        return "xlsx"
    if other == "csv" and data.lstrip()[:1] in (b"{", b"["):
        return "jsonl"
    return other


def _line_records(data: bytes, file: str, what: str) -> Records:
    """Returns an answer for each line."""
    text = data.decode("utf-8-sig")
    if data.strip():
        text = _decoded(data, file, DataError, what, nul=True)
    # Lines end in LF alone: a model may say any other end of a line.
    lines = text.removesuffix("\n").split("\n") if text else []
    return [(row, {"answer": line.removesuffix("\r")}) for row, line in enumerate(lines, start=1)]


def _records(table: RawTable) -> Records:
    width = len(table.header)
    for row in table.rows:
        if any(map(str.strip, row.cells[width:])):
            message = f"The row has {len(row.cells)} cells, the header {width}."
            remedy = "Put text that contains the delimiter in double quotes."
            raise DataError(
                message, file=table.file, row=row.line, value=row.cells[width], remedy=remedy
            )
    records = []
    for row in table.rows:
        record = {}
        for name, cell in zip_longest(table.header, row.cells):
            if name:
                record[name] = cell if cell and cell.strip() else None
        records.append((row.line, record))
    return records


def _json_records(text: str, file: str) -> Records:
    document = _json_value(text)
    is_list = isinstance(document, list)
    if is_list:
        records = list(enumerate(document, start=1))
    else:
        # Lines end in LF alone: other ends may stand unescaped in a JSON text.
        lines = enumerate(text.split("\n"), start=1)
        records = [(row, _json_value(line, line.strip())) for row, line in lines if line.strip()]
    for row, record in records:
        if not isinstance(record, dict):
            entry = f"Entry {row} of the list" if is_list else "The line"
            message = f"{entry} is not a JSON object."
            remedy = "JSONL has one object per line, JSON one list of objects."
            raise DataError(message, file=file, row=row, value=record, remedy=remedy)
    return records


def _json_value(text: str, default: object = None) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return default


def _read_sheet(data: bytes, file: str) -> RawTable:
    """Returns the first sheet of an XLSX file."""
    import pandas as pd

    try:
        _check_sheet(data, file)
        # An error such as #N/A is no value, and a day that a spreadsheet knows as one has no time.
        sheet = pd.read_excel(io.BytesIO(data), header=None, dtype=str, na_filter=False).fillna("")
        sheet = sheet.replace(r"^(\d{4}-\d\d-\d\d) 00:00:00$", r"\1", regex=True)
    except TaxtuneError:
        raise
    except ImportError:
        raise MissingExtraError("openpyxl", "xlsx", "Reading an XLSX file") from None
    except (
        Exception
    ) as error:  # damage shows as whatever zipfile, the XML parser and openpyxl raise
        raise DataError("The sheet cannot be read.", file=file, value=str(error)) from None
    rows = []
    for line, cells in enumerate(sheet.itertuples(index=False, name=None), start=1):
        filled = [column for column, cell in enumerate(cells, start=1) if cell.strip()]
        if filled:  # pandas makes all rows as wide as the widest
            rows.append(Row(line, cells[: filled[-1]]))
    return _table(rows, file, DataError)


def _parquet_records(data: bytes, file: str) -> Records:
    try:
        return list(enumerate(_parquet_rows(data, file), start=1))
    except TaxtuneError:
        raise
    except Exception as error:  # damage shows as whatever pyarrow raises
        raise DataError("The Parquet file cannot be read.", file=file, value=str(error)) from None


def _parquet_rows(data: bytes, file: str) -> list[dict[str, Any]]:
    """Returns the rows of a Parquet file, read bit by bit: one text may stand for many cells."""
    from pyarrow import parquet

    metadata = parquet.read_metadata(io.BytesIO(data))
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    size = sum(chunk.total_uncompressed_size for chunk in chunks)
    cells = sum(chunk.num_values for chunk in chunks)
    check = partial(_check_room, "Parquet file", file, packed=len(data))
    check(size=size, rows=metadata.num_rows, cells=cells)
    texts = {chunk.path_in_schema for chunk in chunks if chunk.physical_type == "BYTE_ARRAY"}
    # Such a text comes once with the places where it stands; of others no value is larger than all
    # of them together.
    is_nested = any("." in chunk.path_in_schema for chunk in chunks)
    is_shared = not (is_nested or any("DELTA_BYTE_ARRAY" in chunk.encodings for chunk in chunks))
    step = 4096
    if not is_shared:
        step = min(max(2**25 // max(size, 1), 16), 4096)
    dictionaries = texts if is_shared else None
    source = parquet.ParquetFile(io.BytesIO(data), metadata=metadata, read_dictionary=dictionaries)
    rows: list[dict[str, Any]] = []
    read = 0
    for batch in source.iter_batches(step):
        taken = sum(map(_unpacked_size, batch.columns))
        check(size=read + taken)
        some = batch.to_pylist()
        read += taken if is_shared else max(taken, sum(map(_length, some)))
        rows += some
    return rows


def _unpacked_size(column: Any) -> int:
    """Returns the bytes of a column of Arrow's where each of its texts stands for itself."""
    import pyarrow as pa
    from pyarrow import compute

    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    if pa.types.is_primitive(column.type.value_type):
        return 8 * len(column)
    lengths = compute.binary_length(column.dictionary.cast(pa.large_binary()))
    return compute.sum(lengths.take(column.indices)).as_py() or 0


def _length(value: Any) -> int:
    """Returns the length of all texts in a cell."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return sum(map(_length, value))
    return len(value) if isinstance(value, str | bytes) else 0


def _check_sheet(data: bytes, file: str) -> None:
    """Checks the room of the first sheet of an XLSX file, a table as wide as its widest row."""
    from openpyxl import load_workbook

    check = partial(_check_room, "XLSX file", file, packed=len(data))
    with zipfile.ZipFile(io.BytesIO(data)) as parts:
        check(size=sum(part.file_size for part in parts.infolist()))
    sheet = load_workbook(io.BytesIO(data), read_only=True).worksheets[0]
    sheet.reset_dimensions()  # as the file states them
    sheet.calculate_dimension(force=True)
    rows = sheet.max_row or 0
    check(rows=rows, cells=rows * (sheet.max_column or 0))


def read_iterations(file: Path) -> dict[int, dict[str, Any]]:
    """Returns the records of a run's `history.jsonl` by the number of the iteration, ascending.

    Of several records of one iteration the last one counts.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is not a file of iterations.
    """
    content = file.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]  # a process that was killed may leave half a line
    records = [json.loads(line) for line in whole.split(b"\n") if line.strip()]
    try:
        return dict(sorted({int(record["iteration"]): record for record in records}.items()))
    except (KeyError, TypeError) as error:
        raise ValueError(f"a line is not an iteration: {error}") from error


# -- cells of label trees --------------------------------------------------------------------------


def clean(text: str) -> str:
    """Returns text in Unicode's composed form (NFC), its white space as single spaces."""
    composed = text if text.isascii() else unicodedata.normalize("NFC", text)
    return " ".join(composed.split())


def column_key(name: str) -> str:
    """Returns a column name as it is compared: "Common Name" and "common_name" are one column."""
    return clean(name).lower().replace(" ", "_")


def split_cell(text: str, separators: str) -> list[str]:
    """Returns the parts of a cell between separators. One after a backslash belongs to its part."""
    if "\\" not in text:
        return re.split(f"[{separators}]", text)
    parts = re.split(rf"(?<!\\)[{separators}]", text.replace("\\\\", "\0"))
    return [re.sub(rf"\\([{separators}])", r"\1", part).replace("\0", "\\") for part in parts]


def join_cell(parts: Iterable[str], separators: str) -> str:
    """Returns a cell that `split_cell` splits into these parts, at the first of the separators."""
    table = str.maketrans({character: f"\\{character}" for character in f"{separators}\\"})
    return separators[0].join(part.translate(table) for part in parts)
