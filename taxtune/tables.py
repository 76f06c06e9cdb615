"""Reading text and CSV files as people have them: byte-order marks, any line ends, quotes, blank and ragged rows."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import itertools
import lzma
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, cast
from zipfile import ZipFile

from taxtune.errors import DataError, MissingExtraError, TaxonomyError, TaxtuneError

__all__ = [
    "MOST_UNPACKED",
    "Padding",
    "Row",
    "Table",
    "TableStream",
    "clean",
    "column_key",
    "csv_delimiter",
    "csv_text",
    "decode_text",
    "decoded_lines",
    "join_cell",
    "open_bytes",
    "other_names",
    "parse_table",
    "read_bytes",
    "read_rows",
    "read_text",
    "sheet_rows",
    "split_aliases",
    "split_cell",
    "stream_table",
    "unpacked",
]

#: Most bytes that are unpacked of any file; what is larger has to be unpacked by whoever knows what it is.
MOST_UNPACKED = 2**28
# How much of a packed file is unpacked at once.
_CHUNK = 2**18
# Rows of a sheet: as many as Excel has; a file of a hundred bytes may name any number.
_SHEET_ROWS = 2**20
# The longest field of a table that is not tidy: what the csv module can count.
_LONGEST = 2**31 - 1
_DELIMITERS = (",", "\t", ";")


@dataclass(frozen=True, slots=True)
class Row:
    """One record of a table.

    Attributes:
        line: The 1-based line of the file that it starts on.
        cells: Its cells; as many as it has, which may be fewer or more than there are columns.
    """

    line: int
    cells: tuple[str, ...]

    def cell(self, column: int | None) -> str:
        """Returns a cell; "" where the row is too short or there is no such column."""
        return self.cells[column] if column is not None and column < len(self.cells) else ""


@dataclass(frozen=True, slots=True)
class Table:
    """A CSV file.

    Attributes:
        file: Its name, for messages.
        header: Its column names: trimmed, lower case, spaces as underscores.
        header_line: The line that they are on.
        rows: Its records; blank lines are left out.
    """

    file: str
    header: tuple[str, ...]
    header_line: int
    rows: tuple[Row, ...]

    def column(self, *names: str) -> int | None:
        """Returns the position of the first of the named columns that there is."""
        return next((self.header.index(name) for name in names if name in self.header), None)


class Padding:
    """Counts the cells that rows lack, which records of them are filled up with.

    Args:
        file: The file, for messages.
    """

    # A sheet may have rows of one cell below a header of thousands.
    _FREE, _TIMES = 10_000_000, 10

    def __init__(self, file: str) -> None:
        self._file = file
        self._left = self._FREE

    def add(self, row: int, cells: int, columns: int) -> None:
        """Takes note of a row.

        Raises:
            DataError: If the rows so far lack many times the cells that they have.
        """
        self._left -= columns - cells * (self._TIMES + 1)
        if self._left < 0:
            raise DataError(
                f"The rows are far shorter than the header, which has {columns:,} columns.",
                file=self._file,
                row=row,
                value=cells,
                remedy="Remove the columns that are not needed.",
            )


def clean(text: str) -> str:
    """Returns text in Unicode's composed form (NFC), trimmed, with inner white space as single spaces."""
    return " ".join((text if text.isascii() else unicodedata.normalize("NFC", text)).split())


def column_key(name: str) -> str:
    """Returns a column name as it is compared: "Common Name" and "common_name" are one column."""
    return clean(name).lower().replace(" ", "_")


def csv_delimiter(header: str) -> str:
    """Returns the delimiter that a header line has most of: a comma, a tab or a semicolon."""
    return max(_DELIMITERS, key=header.count)


def split_cell(text: str, separators: str) -> list[str]:
    """Returns the parts of a cell.

    A backslash in front of a separator, or of another backslash, makes it a part of a name; elsewhere it is one itself.

    Args:
        text: The cell.
        separators: The characters that part names.
    """
    if "\\" not in text:
        return re.split(f"[{re.escape(separators)}]", text)
    parts = [""]
    escaped = False
    for character in text:
        if escaped:
            parts[-1] += character if character in f"{separators}\\" else f"\\{character}"
        elif character in separators:
            parts.append("")
        elif character != "\\":
            parts[-1] += character
        escaped = character == "\\" and not escaped
    if escaped:
        parts[-1] += "\\"
    return parts


def join_cell(parts: Iterable[str], separators: str) -> str:
    """Returns a cell that `split_cell` makes the same parts of; parts are parted by the first of the separators."""
    table = str.maketrans({character: f"\\{character}" for character in f"{separators}\\"})
    return separators[0].join(part.translate(table) for part in parts)


def other_names(text: str, label: str) -> tuple[str, ...]:
    """Returns the names in a cell as `split_aliases` does, without one that is the label to the letter."""
    return tuple(name for name in split_aliases(text) if name != label)


def split_aliases(text: str, latin: str = "") -> tuple[str, ...]:
    """Returns the names in a cell, separated by ";" or "|", without repeats and without the label itself.

    Args:
        text: The cell; in a name that holds a separator a backslash stands in front of it.
        latin: The node's label; a common name that merely repeats it, upper and lower case alike, is dropped.
    """
    names = dict.fromkeys(clean(name) for name in split_cell(text, ";|"))
    return tuple(name for name in names if name and name.casefold() != latin.casefold())


def unpacked(raw: IO[bytes]) -> IO[bytes]:
    """Returns the stream of what a stream packs with gzip, bzip2 or xz, which is told by content; else the stream."""
    start = raw.read(6)
    raw.seek(0)
    if start.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
    if start.startswith(b"BZh"):
        return cast("IO[bytes]", bz2.BZ2File(raw))
    if start.startswith(b"\xfd7zXZ\x00"):
        return cast("IO[bytes]", lzma.LZMAFile(raw))
    return raw


def read_text(path: Path, *, error: type[TaxtuneError] = TaxonomyError, what: str = "taxonomy") -> str:
    """Returns the text of a file in UTF-8, or in UTF-16 with a byte-order mark.

    Args:
        path: The file, plain or packed with gzip, bzip2 or xz.
        error: The error to raise.
        what: What the file is, for messages.

    Raises:
        TaxtuneError: As `error`, if there is no such file, it cannot be read or unpacked, is empty or is not text in
            those encodings; the row is that of the first bad byte.
    """
    text = decode_text(read_bytes(path, error=error, what=what), path, error=error, what=what)
    if not text.strip():
        raise error(f"The {what} file is empty.", file=path)
    return text


def read_bytes(path: Path, *, error: type[TaxtuneError], what: str) -> bytes:
    """Returns the bytes of a file, unpacked where it is packed with gzip, bzip2 or xz.

    Raises:
        TaxtuneError: As `error`, if there is no such file, or it cannot be read or unpacked.
    """
    with open_bytes(path, error=error, what=what) as stream:
        return stream.read()


@contextmanager
def open_bytes(path: Path, *, error: type[TaxtuneError], what: str) -> Iterator[IO[bytes]]:
    """Opens a file to read its bytes, unpacked where it is packed with gzip, bzip2 or xz.

    Raises:
        TaxtuneError: As `error`, if there is no such file, or, here or while the stream is read, if it cannot be read
            or unpacked.
    """
    try:
        with path.open("rb") as raw:
            stream = unpacked(raw)
            if stream is raw:
                yield raw
            else:
                packed = _Unpacking(cast("io.RawIOBase", stream), partial(error, file=path), what)
                yield io.BufferedReader(packed, _CHUNK)
    except FileNotFoundError:
        raise error(f"The {what} file does not exist.", file=path, remedy="Check the path.") from None
    except IsADirectoryError:
        raise error(
            f"This is a folder, not {_article(what)} {what} file.", file=path, remedy="Give the file in it."
        ) from None
    except OSError as problem:
        raise error(f"The {what} file cannot be read: {problem.strerror or problem}.", file=path) from None


class _Unpacking(io.RawIOBase):
    """What a stream unpacks, until it is more than `MOST_UNPACKED`; see `open_bytes`."""

    def __init__(self, stream: io.RawIOBase, error: Callable[..., TaxtuneError], what: str) -> None:
        self._stream, self._left, self._error, self._what = stream, MOST_UNPACKED, error, what

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer)) or b""
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as problem:
            raise self._error(
                f"The {self._what} file is compressed, but its data are damaged or incomplete: {problem}.",
                remedy="Download the file again.",
            ) from None
        self._left -= len(data)
        if self._left < 0:
            raise self._error(
                f"The {self._what} file unpacks to more than {MOST_UNPACKED / 2**20:,.0f} MiB.",
                remedy="If the file is as it should be, unpack it first.",
            )
        buffer[: len(data)] = data
        return len(data)


def decode_text(data: bytes, path: str | Path, *, error: type[TaxtuneError], what: str, allow_nul: bool = False) -> str:
    """Returns bytes as text: UTF-8, or UTF-16 with a byte-order mark.

    Raises:
        TaxtuneError: As `error`, if they are neither, or hold a NUL where none is allowed; the row is that of the first
            bad byte.
    """
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as problem:
        raise error(
            f"The {what} file is not UTF-8 text.",
            file=path,
            row=data.count(b"\n", 0, problem.start) + 1,
            value=data[problem.start : problem.start + 8],
            remedy="Save it as UTF-8.",
        ) from None
    if "\0" in text and not allow_nul:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise error(f"The {what} file contains a NUL character: it is not a text file.", file=path, row=line)
    return text


def decoded_lines(
    stream: IO[bytes], path: str | Path, *, error: type[TaxtuneError], what: str, allow_nul: bool = False
) -> Iterator[str]:
    """Yields the lines of a stream as text, each with the line feed that ends it, as they are read.

    Raises:
        TaxtuneError: As `decode_text`, when the bad line is reached.
    """
    start = stream.readline()
    decode = partial(decode_text, path=path, error=error, what=what, allow_nul=allow_nul)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield from io.StringIO(decode(start + stream.read()), newline="\n")
        return
    for row, line in enumerate(itertools.chain([start.removeprefix(codecs.BOM_UTF8)] if start else [], stream)):
        try:
            text = line.decode()
        except UnicodeDecodeError:
            text = ""
        if not text or (not allow_nul and "\0" in text):
            # The message names the row in the file, and the first bad bytes.
            decode(b"\n" * row + line + stream.read(8))
        yield text


def parse_table(
    text: str,
    file: str,
    *,
    error: type[TaxtuneError] = TaxonomyError,
    tidy: bool = True,
    blank: bool = False,
    none: bool = False,
) -> Table:
    """Returns the header and the rows of CSV text; the delimiter is the one the header has most of: "," tab or ";".

    Args:
        text: The text.
        file: Its file's name, for messages.
        error: The error to raise.
        tidy: Whether to clean the cells (see `clean`); otherwise they stay as they are, line breaks included, and may
            be of any length: an answer can be of a megabyte, a name cannot.
        blank: Whether a blank line below the header is a row without cells; otherwise it is none.
        none: Whether there may be no row below the header.

    Raises:
        TaxtuneError: As `error`, if a quote is never closed, a tidy table's field is larger than 128 KiB, two columns
            share a name or there is no row below the header.
    """
    table = stream_table(io.StringIO(text, newline="\n"), file, error=error, tidy=tidy, blank=blank, none=none)
    return Table(file, table.header, table.header_line, tuple(table.rows))


@dataclass(frozen=True, slots=True)
class TableStream:
    """A CSV file that is read row by row; see `Table`.

    Attributes:
        header: Its column names.
        header_line: The line that they are on.
        rows: Its records, once.
    """

    header: tuple[str, ...]
    header_line: int
    rows: Iterator[Row]


def stream_table(
    lines: Iterable[str],
    file: str,
    *,
    error: type[TaxtuneError] = TaxonomyError,
    tidy: bool = True,
    blank: bool = False,
    none: bool = False,
) -> TableStream:
    """Returns the header of CSV text and its rows as they are read; see `parse_table`.

    Args:
        lines: The lines of the text, each with the line feed that ends it.
        file: Their file's name, for messages.
        error: The error to raise.
        tidy: Whether to clean the cells.
        blank: Whether a blank line below the header is a row without cells.
        none: Whether there may be no row below the header.

    Raises:
        TaxtuneError: As `parse_table`; what is wrong with a row is raised when it is reached.
    """
    lines = iter(lines)
    above: list[str] = []
    for line in lines:
        above.append(line)
        if line.strip():
            break
    first = next((part for line in above for part in line.splitlines() if part.strip()), "")
    delimiter = csv_delimiter(first)
    records = _records(itertools.chain(above, lines), file, delimiter, error, tidy=tidy, blank=blank)
    header_line, cells = next(records, (0, ()))
    if not header_line:
        raise error("The file has no header.", file=file, row=1)
    header = tuple(column_key(cell) for cell in cells)
    repeated = sorted(name for name, count in Counter(header).items() if name and count > 1)
    if repeated:
        raise error(
            "Two columns have the same name.", file=file, row=header_line, value=repeated[0], remedy="Rename one."
        )

    def rows() -> Iterator[Row]:
        found = none
        for line, row in records:
            found = True
            yield Row(line, tuple(map(clean, row) if tidy else row))
        if not found:
            raise error("The file has a header but no rows.", file=file, row=header_line, value=delimiter.join(cells))

    return TableStream(header, header_line, rows())


def read_rows(
    path: Path, needed: Sequence[str], others: Sequence[str] = (), *, what: str, remedy: str, none: bool = False
) -> list[tuple[int, dict[str, str]]]:
    """Returns the rows of a CSV file that has certain columns: the line of each, and its tidy cells by column.

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
    table = parse_table(read_text(path, error=DataError, what=what), str(path), error=DataError, none=none)
    missing = [name for name in needed if table.column(name) is None]
    if missing:
        raise DataError(
            f"The {what} file has no column {' and no column '.join(missing)}.",
            file=path,
            row=table.header_line,
            value=",".join(table.header),
            remedy=remedy,
        )
    places = {name: table.column(name) for name in (*needed, *others)}
    return [(row.line, {name: row.cell(place) for name, place in places.items()}) for row in table.rows]


def sheet_rows(data: bytes, file: str | Path) -> list[tuple[int, dict[str, str | None]]]:
    """Returns the rows of the first sheet of an XLSX file: the number of each, and its cells by column.

    The header is row 1. A blank row is left out, and an empty cell is None.

    Args:
        data: The file's bytes.
        file: Its name, for messages.

    Raises:
        DataError: If it cannot be read, has no row, or is larger than is read.
        MissingExtraError: If openpyxl is not installed.
    """
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise MissingExtraError("openpyxl", "xlsx", "Reading an XLSX file") from None
    rows: list[tuple[int, dict[str, str | None]]] = []
    try:
        with ZipFile(io.BytesIO(data)) as parts:
            if sum(part.file_size for part in parts.infolist()) > MOST_UNPACKED:
                raise DataError(
                    f"The workbook unpacks to more than {MOST_UNPACKED / 2**20:,.0f} MiB.",
                    file=file,
                    remedy="Save the sheet as CSV.",
                )
        book = load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
        sheet = book.worksheets[0]
        sheet.reset_dimensions()
        header: list[str] = []
        padding = Padding(str(file))
        for row, values in enumerate(sheet.iter_rows(values_only=True), start=1):
            if row > _SHEET_ROWS:
                raise DataError(f"The sheet has more than {_SHEET_ROWS:,} rows.", file=file)
            cells = {place: text for place, value in enumerate(values) if (text := _sheet_text(value)).strip()}
            padding.add(row, len(cells), max(len(header) if cells else 0, len(values)))
            if row == 1:  # the header
                header = [column_key(cells.get(place, f"Unnamed: {place}")) for place in range(len(values))]
                if twice := [name for name, count in Counter(header).items() if count > 1]:
                    message, remedy = "Two columns have the same name.", "Rename one."
                    raise DataError(message, file=file, row=row, value=twice[0], remedy=remedy)
            elif cells:  # a blank row is no record
                names = {place: header[place] if place < len(header) else f"unnamed:_{place}" for place in cells}
                rows.append((row, dict.fromkeys(header) | {names[place]: text for place, text in cells.items()}))
    except DataError:
        raise
    except Exception as error:  # damage shows as whatever zipfile, the XML parser and openpyxl raise
        raise DataError("The sheet cannot be read.", file=file, value=str(error)) from None
    if not rows:
        raise DataError("The sheet has no rows.", file=file)
    return rows


def _sheet_text(value: object) -> str:
    """Returns a cell as its sheet shows it: 1 and not 1.0."""
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns rows below a header as CSV with commas and line feeds."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    return text.getvalue()


def _article(noun: str) -> str:
    return "an" if noun[:1] in "aeiou" else "a"


def _records(
    lines: Iterable[str], file: str, delimiter: str, error: type[TaxtuneError], *, tidy: bool, blank: bool
) -> Iterator[tuple[int, Sequence[str]]]:
    reader = csv.reader(_csv_lines(lines), delimiter=delimiter, strict=True)
    start, header = 1, False
    usual = csv.field_size_limit()
    while True:
        try:
            # The limit is one of the whole process, so it is lifted for no longer than a row takes.
            csv.field_size_limit(usual if tidy else max(usual, _LONGEST))
            cells = next(reader, None)
        except csv.Error as problem:
            raise error(
                f"The row cannot be read as CSV: {problem}.",
                file=file,
                row=start,
                remedy="Close its quotes, and double any quote inside a name.",
            ) from None
        finally:
            csv.field_size_limit(usual)
        if cells is None:
            return
        if any(cell.strip() for cell in cells) or (blank and header):
            header = True
            yield start, cells
        start = reader.line_num + 1


def _csv_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yields lines as the csv module takes them: it knows LF, CRLF and CR, and must see where each of them is."""
    for line in lines:
        if "\r" in line:
            yield from io.StringIO(line, newline="")
        else:
            yield line
