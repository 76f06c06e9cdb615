"""Reading the records of a file of answers, in whatever format they are; what its columns mean is not known here.

Tables are CSV (comma, tab or semicolon), XLSX and Parquet; records JSON lines or one JSON list; text has an answer a
line. Runs of taxtune are their folders, and other harnesses' files are known by their columns (`harnesses`). A value
stays the text that it is: "001", "NA" and "null" are answers. An empty cell is no value.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

from taxtune.answers.harnesses import HARNESSES, eval_samples, harness_of, harness_records
from taxtune.answers.runs import read_run_rows, split_run
from taxtune.errors import DataError
from taxtune.tables import Padding, decode_text, decoded_lines, open_bytes, sheet_rows, stream_table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FORMATS", "Again", "Records", "Source", "open_table", "read_records"]

#: What a file may be said to be; "auto" goes by its name and its content.
FORMATS = ("auto", "text", "csv", "jsonl", "json", "xlsx", "parquet", *HARNESSES)

Row = TypeVar("Row")
Record = dict[str, Any]
#: A file, "-" or a run; or the records themselves.
Source: TypeAlias = "str | Path | pd.DataFrame | Iterable[Mapping[str, Any]]"

_BY_NAME = {
    ".txt": "text",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".xlsx": "xlsx",
    ".parquet": "parquet",
    ".eval": "eval",
}
_PACKED = (".gz", ".bz2", ".xz")
# How much of a file tells what it is, and how many rows of Parquet are read at once.
_START = 2**16
_PARQUET_ROWS = 10_000
# The first bytes of Parquet, and of ZIP, which XLSX and inspect_ai's .eval are.
_MAGIC = {b"PAR1": "parquet", b"PK\x03\x04": "xlsx"}


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a file.

    Attributes:
        file: The file, for messages.
        rows: The row of each record (the 1-based line of a text file and of a sheet, else its number), and the record;
            can be gone through more than once. What is wrong with a row is raised when it is reached.
        notes: What the user should know.
    """

    file: str
    rows: Iterable[tuple[int, Record]]
    notes: tuple[str, ...] = ()


def read_records(source: str | Path, *, what: str = "answers") -> list[tuple[int, Record]]:
    """Returns the row and the record of each line that is not blank, with the file's own columns alone.

    Args:
        source: The file, or the folder of a run.
        what: What it holds, for messages.

    Raises:
        DataError: If it cannot be read or a row is no record.
    """
    return [(row, record) for row, record in open_table(source, what=what, harnesses=False).rows if record]


def open_table(
    source: Source, *, format: str = "auto", what: str = "answers", text: bool = False, harnesses: bool = True
) -> Records:
    """Opens the records of a file, or of a run of taxtune.

    Text, CSV and JSON lines are read anew, line by line, whenever somebody goes through the records; Parquet, a batch
    of rows at a time. Other formats, and what other harnesses write, are read here as a whole.

    Args:
        source: The file; "-" for standard input; the folder of a run, as RUN, RUN:winner, RUN:baseline or RUN:N; or a
            DataFrame or list of records.
        format: One of `FORMATS`.
        what: What the file holds, for messages.
        text: Whether a file with an unknown suffix is text with one answer per line; otherwise it is CSV or JSON lines.
            A blank line is an empty record, for there it may be an answer.
        harnesses: Whether "auto" looks for other harnesses' columns.

    Raises:
        DataError: If it cannot be read or a row is no record.
        MissingExtraError: If what reads the format is not installed.
    """
    if format not in FORMATS:
        raise DataError("Unknown input format.", value=format, remedy=f"Use {', '.join(FORMATS)}.")
    if not isinstance(source, str | Path):
        return _given(source, format, harnesses=harnesses)
    run = split_run(source)
    if run is not None:
        return _run(*run)
    content = _Content(source, what)
    with content.opened() as stream:
        start = stream.read(_START)
    container = _container(source, start, "auto" if format in HARNESSES else format, text=text)
    rows: Iterable[tuple[int, Record]]
    if container == "eval":
        rows = list(enumerate(eval_samples(Path(source)), start=1))
    elif container in ("xlsx", "json"):
        with content.opened() as stream:
            data = stream.read()
        found = sheet_rows(data, content.file) if container == "xlsx" else _json_document(data, content.file, what)
        rows = Again(partial(_json_lines, content, blank=text)) if found is None else found
    else:
        reader = {"text": _text_rows, "csv": _csv, "jsonl": _json_lines, "parquet": _parquet}[container]
        rows = Again(partial(reader, content, blank=text))
    return _translated(rows, content.file, format, harnesses=harnesses)


def _translated(rows: Iterable[tuple[int, Record]], file: str, format: str, *, harnesses: bool) -> Records:
    found = format if format in HARNESSES else None
    if format == "auto" and harnesses:
        found = harness_of(record for _, record in rows)
    return Records(file, rows) if found is None else Records(file, *harness_records(found, [*rows], file))


def _given(source: pd.DataFrame | Iterable[Mapping[str, Any]], format: str, *, harnesses: bool) -> Records:
    if hasattr(source, "to_dict"):
        frame = cast("pd.DataFrame", source)
        # What pandas has for none is a number, and no answer.
        source = cast("list[Record]", frame.astype(object).where(frame.notna(), None).to_dict("records"))
    rows: list[tuple[int, Record]] = [(row, {**record}) for row, record in enumerate(source, start=1)]
    return _translated(rows, "<records>", format, harnesses=harnesses)


class Again(Generic[Row]):
    """What a function yields, which is called again whenever somebody begins to go through it."""

    def __init__(self, rows: Callable[[], Iterator[Row]]) -> None:
        self._rows = rows

    def __iter__(self) -> Iterator[Row]:
        return self._rows()


class _Content:
    """The bytes of a file, or of standard input, which is read to its end at once."""

    def __init__(self, source: str | Path, what: str) -> None:
        self.file, self.what = str(source), what
        self._given: bytes | None = None
        if self.file == "-":
            if sys.stdin is None:
                raise DataError(
                    "Standard input is closed.", remedy="Give a file, or pipe the answers to standard input."
                )
            self.file, self._given = "<stdin>", sys.stdin.buffer.read()

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """Opens them, unpacked; a seekable stream where they are not packed."""
        if self._given is not None:
            yield io.BytesIO(self._given)
        else:
            with open_bytes(Path(self.file), error=DataError, what=self.what) as stream:
                yield stream

    def lines(self, *, allow_nul: bool = False) -> Iterator[str]:
        """Yields them as lines of text, each with the line feed that ends it."""
        with self.opened() as stream:
            yield from decoded_lines(stream, self.file, error=DataError, what=self.what, allow_nul=allow_nul)

    def filled_lines(self) -> Iterator[str]:
        """Yields the lines, one of which must not be blank."""
        blank = True
        for line in self.lines():
            blank = blank and not line.strip()
            yield line
        if blank:
            raise DataError(f"The {self.what} file is empty.", file=self.file)


def _container(source: str | Path, start: bytes, format: str, *, text: bool) -> str:
    """Returns how the records are written: one of the values of `_BY_NAME`."""
    if format != "auto":
        return format
    suffixes = [suffix.lower() for suffix in PurePath(source).suffixes]
    if suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    named = _BY_NAME.get(suffixes[-1]) if suffixes else None
    if named is not None and not (named == "text" and not text):
        return named
    magic = next((found for magic, found in _MAGIC.items() if start.startswith(magic)), None)
    if magic is not None or text:
        return magic or "text"
    return "json" if start.lstrip()[:1] in (b"{", b"[") else "csv"


def _run(folder: Path, evaluation: str | None) -> Records:
    run = read_run_rows(folder, evaluation)
    rows = [{**row, "id": str(row["example"]), "reference": str(row["truth"]).rpartition("/")[2]} for row in run.rows]
    for row in rows:
        # Answers are placed again; and the nodes' numbers are the run's own: another tree has others.
        del row["placement"], row["target"]
    return Records(
        str(run.file),
        list(enumerate(rows, start=1)),
        (f"{folder}: the answers are those of {run.evaluation} on the {run.split} images",),
    )


def _text_rows(content: _Content, *, blank: bool) -> Iterator[tuple[int, Record]]:
    # A model says anything, NUL among it.
    for row, line in enumerate(content.lines(allow_nul=True), start=1):
        yield row, {"answer": line.removesuffix("\n").removesuffix("\r")}


def _csv(content: _Content, *, blank: bool) -> Iterator[tuple[int, Record]]:
    table = stream_table(content.filled_lines(), content.file, error=DataError, tidy=False, blank=blank)
    padding = Padding(content.file)
    for row in table.rows:
        if any(cell.strip() for cell in row.cells[len(table.header) :]):
            raise DataError(
                f"The row has {len(row.cells)} cells, the header {len(table.header)}.",
                file=content.file,
                row=row.line,
                value=row.cells[len(table.header)],
                remedy="Put text that contains a comma in double quotes.",
            )
        padding.add(row.line, len(row.cells), len(table.header))
        # An empty cell is no value: CSV cannot tell an empty text from none.
        yield row.line, {name: row.cell(i) if row.cell(i).strip() else None for i, name in enumerate(table.header)}


def _json_lines(content: _Content, *, blank: bool) -> Iterator[tuple[int, Record]]:
    # Lines end in LF alone: other ends may stand unescaped in a JSON text.
    for line, source in enumerate(content.lines() if blank else content.filled_lines(), start=1):
        try:
            record = json.loads(source) if source.strip() else {}
        except (json.JSONDecodeError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise DataError(
                "The line is not a JSON object.",
                file=content.file,
                row=line,
                value=source.strip(),
                remedy="JSONL has one object per line.",
            )
        yield line, record


def _json_document(data: bytes, file: str, what: str) -> list[tuple[int, Record]] | None:
    """Returns the records of one JSON document: a list of them, or a log of inspect_ai; None if it is JSON lines."""
    text = decode_text(data, file, error=DataError, what=what)
    if not text.strip():
        raise DataError(f"The {what} file is empty.", file=file)
    try:
        document = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return None
    if isinstance(document, dict) and "eval" in document and "version" in document:
        if not isinstance(document.get("samples"), list):
            raise DataError("The log of inspect_ai has no samples.", file=file, remedy="Log them with --log-samples.")
        document = document["samples"]
    if not isinstance(document, list):
        return None  # one line of JSON lines
    wrong = next((i for i, item in enumerate(document, 1) if not isinstance(item, dict)), None)
    if wrong is not None:
        raise DataError(f"Entry {wrong} of the list is not a JSON object.", file=file, value=document[wrong - 1])
    return list(enumerate(document, start=1))


def _parquet(content: _Content, *, blank: bool) -> Iterator[tuple[int, Record]]:
    from pyarrow import parquet

    try:
        with content.opened() as stream:
            table = parquet.ParquetFile(stream if stream.seekable() else io.BytesIO(stream.read()))
            records = (record for batch in table.iter_batches(_PARQUET_ROWS) for record in batch.to_pylist())
            yield from enumerate(records, start=1)
    except Exception as error:  # as for a sheet
        raise DataError("The Parquet file cannot be read.", file=content.file, value=str(error)) from None
