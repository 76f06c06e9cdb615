"""Labels in a file: a row an image as CSV, JSON lines or Parquet, and the rows that somebody should look at."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from taxtune.atomic import writing
from taxtune.classifier.classifier import Classification, Classifier
from taxtune.classifier.images import Images, Item
from taxtune.errors import DataError, ModelError
from taxtune.progress import Display, Task, showing, track
from taxtune.untrusted import spreadsheet_cell

if TYPE_CHECKING:
    from taxtune.models import AnswerStore

__all__ = ["COLUMNS", "FORMATS", "Labelled", "Review", "format_of", "label_images"]

#: The columns of a row, after which come those of the tables that named the images.
COLUMNS = ("image", "placement", "rank", "confidence", "answer", "off_tree", "not_subject", "failure")
#: The formats of files of labels, by suffix.
FORMATS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}

_BATCH = 512  # images that a model is given at a time; what the interpreter holds of them is small
_STOPPED = 16  # failures in a batch without an answer after which there is no point in going on
_SURE_DIGITS = 4

Row = dict[str, Any]
Write = Callable[[Sequence[Row]], None]


@dataclass(frozen=True)
class Review:
    """Which labels somebody should look at, and why.

    Attributes:
        below: The confidence below which a label is unsure, in [0, 1]; the root is none.
    """

    below: float

    def why(self, found: Classification) -> str | None:
        """Returns why a label should be looked at; None if it need not.

        "failed", "not the subject", "off the tree", "no label" or "unsure".
        """
        if found.failure is not None:
            return "failed"
        if found.not_subject:
            return "not the subject"
        if found.off_tree:
            return "off the tree"
        if len(found.path) == 1:
            return "no label"
        return "unsure" if found.confidence is not None and found.confidence < self.below else None


@dataclass
class Labelled:
    """What came of images.

    Attributes:
        images: How many there were.
        ranks: How many went to each rank, the broadest first; to a level where the tree has no ranks.
        reasons: How many are to be looked at, by why.
        again: How many have no answer for a reason that may pass.
        unknown: How many are somewhere below the root with no confidence known.
    """

    images: int = 0
    ranks: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    again: int = 0
    unknown: int = 0


def format_of(path: Path) -> str:
    """Returns the format that a file of labels is to be written in.

    Raises:
        DataError: If its name does not say.
    """
    found = FORMATS.get(path.suffix.lower())
    if found is None:
        raise DataError(
            "The name of the file does not tell its format.", file=path, remedy=f"Use {', '.join(FORMATS)}."
        )
    return found


def label_images(
    classifier: Classifier,
    images: Images,
    *,
    out: Path | None,
    stdout: str = "csv",
    review: Review,
    review_out: Path | None,
    store: AnswerStore | None,
) -> Labelled:
    """Labels images and writes a row for each, in their order; rows are written as they come.

    A file takes its place when all rows are written: if the work ends before, it is not there, and the same call goes
    on with the answers in the store.

    Args:
        classifier: What labels them.
        images: The images.
        out: The file of all labels, in the format that its name tells; None for standard output.
        stdout: The format of standard output: "csv" or "jsonl".
        review: Which labels are written to the second file.
        review_out: That file, the least sure first; None for none.
        store: Where answers are kept and looked for first.

    Raises:
        DataError: If tables of images have a column of the same name as one of the labels'.
        ModelError: If the model cannot answer at all, or has stopped answering.
        TaxtuneError: If a file cannot be written whole.
    """
    total, others = images.count, images.columns
    taken = next((name for name in others if name in (*COLUMNS, "nodes", "why")), None)
    if taken is not None:
        raise DataError(f"The list of images has a column {taken!r} already.", remedy="Rename or remove it.")
    columns = (*COLUMNS, *others)
    done = Labelled()
    with ExitStack() as open_files:
        write = open_files.enter_context(_writer(out, stdout, columns))
        # Rows to be looked at are sorted at the end; there may be too many for the memory.
        kept = None if review_out is None else open_files.enter_context(closing(_Sorted()))
        task = open_files.enter_context(track("classifying", total))
        for batch in _batches(images):
            with _within(task, classifier.policy.calls, len(batch)):
                found = classifier.classify([item.file for item in batch], store)
            _check_answering(found, before=done.images > done.reasons["failed"])
            rows = []
            for item, one in zip(batch, found, strict=True):
                why = review.why(one)
                _count(done, classifier, one, why)
                rows.append(_row(item, one))
                if kept is not None and why is not None:
                    sure = one.confidence if why == "unsure" else None
                    kept.add(-1.0 if sure is None else sure, {**rows[-1], "why": why})
            write(rows)
        if kept is not None and review_out is not None:
            with _writer(review_out, stdout, ("why", *columns)) as write_review:
                for some in kept.rows():
                    write_review(some)
    return done


def _batches(images: Iterable[Item]) -> Iterator[list[Item]]:
    batch: list[Item] = []
    for item in images:
        batch.append(item)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


@contextmanager
def _within(task: Task, calls: int, images: int) -> Iterator[None]:
    """Shows what is asked within the block as progress of one task, which counts images."""
    start, stored = task.done, task.stored
    with showing(_Images(task, calls)):
        yield
    task.advance(start + images - task.done, stored=max(task.stored, stored) - task.stored)


class _Images(Display):
    """Turns the answers of a batch into images of a task."""

    def __init__(self, task: Task, calls: int) -> None:
        self._task, self._calls, self._start, self._stored = task, calls, task.done, task.stored

    def note(self, text: str) -> None:
        self._task.display.note(text)

    def update(self, task: Task) -> None:
        if task.what != "answers":
            self._task.display.update(task)
            return
        done, stored = task.done // self._calls, task.stored // self._calls
        self._task.advance(
            max(0, self._start + done - self._task.done), stored=max(0, self._stored + stored - self._task.stored)
        )


def _check_answering(found: Sequence[Classification], *, before: bool) -> None:
    """Raises an error where a model answers nothing of a batch, for reasons that may pass, or nothing at all.

    A few images that a model never gets done with must not keep the labels of all others from being written.

    Args:
        found: The batch.
        before: Whether the model has answered anything before it.
    """
    asked = [one for one in found if one.failure is None or one.again]
    if all(one.again for one in asked) and len(asked) >= (_STOPPED if before else 2):
        raise ModelError(
            f"The model has stopped answering: {asked[0].failure}",
            remedy="Run the same command again when it answers; answers so far are saved.",
        )


def _count(done: Labelled, classifier: Classifier, one: Classification, why: str | None) -> None:
    done.images += 1
    done.again += one.again
    if why is not None:
        done.reasons[why] += 1
    if len(one.path) > 1:
        done.ranks[one.rank or f"level {len(one.path) - 1}"] += 1
        done.unknown += one.confidence is None


def _row(item: Item, one: Classification) -> Row:
    nodes = [{**asdict(step), "confidence": _rounded(step.confidence)} for step in one.path]
    return {
        "image": item.image,
        "placement": one.placement,
        "rank": one.rank,
        "confidence": _rounded(one.confidence),
        "answer": one.answer,
        "off_tree": one.off_tree,
        "not_subject": one.not_subject,
        "failure": one.failure,
        **item.others,
        "nodes": nodes,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _SURE_DIGITS)


class _Sorted:
    """Rows sorted on disk, in a file that nobody else sees."""

    def __init__(self) -> None:
        self._base = sqlite3.connect("")
        self._base.execute("CREATE TABLE kept (place INTEGER PRIMARY KEY, key REAL, row TEXT)")

    def add(self, key: float, row: Row) -> None:
        self._base.execute("INSERT INTO kept (key, row) VALUES (?, ?)", (key, json.dumps(row, default=str)))

    def rows(self) -> Iterator[list[Row]]:
        """Yields the rows by key, those of one key in the order in which they came, some at a time."""
        cursor = self._base.execute("SELECT row FROM kept ORDER BY key, place")
        while some := cursor.fetchmany(_BATCH):
            yield [json.loads(row) for (row,) in some]

    def close(self) -> None:
        self._base.close()


# -- formats -----------------------------------------------------------------------------------------------------------


def _writer(path: Path | None, stdout: str, columns: Sequence[str]) -> AbstractContextManager[Write]:
    """Opens a file of rows, or standard output in a format; yields what writes some rows."""
    format = stdout if path is None else format_of(path)
    if path is not None and format == "parquet":
        return _parquet(path, columns)
    return (_csv if format == "csv" else _jsonl)(path, columns)


@contextmanager
def _text(path: Path | None) -> Iterator[TextIO]:
    """Opens a file in UTF-8, or standard output; what of a file's name is no text is written with a backslash."""
    with nullcontext() if path is None else writing(path) as file:
        if file is None:
            yield sys.stdout
            return
        stream = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="\n")
        yield stream
        stream.detach()


@contextmanager
def _csv(path: Path | None, columns: Sequence[str]) -> Iterator[Write]:
    with _text(path) as stream:
        table = csv.DictWriter(stream, columns, lineterminator="\n", extrasaction="ignore")
        table.writeheader()
        yield lambda rows: table.writerows(map(_flat, rows))


def _flat(row: Row) -> Row:
    return {key: _cell(value) for key, value in row.items() if key != "nodes"}


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    nested = isinstance(value, list | dict)
    return json.dumps(value, ensure_ascii=False, default=str) if nested else spreadsheet_cell(value)


@contextmanager
def _jsonl(path: Path | None, columns: Sequence[str]) -> Iterator[Write]:
    with _text(path) as stream:

        def write(rows: Sequence[Row]) -> None:
            for row in rows:
                line = json.dumps(row, ensure_ascii=False, default=str)
                # Unicode's own line ends are legal inside JSON and would still part the line for many readers.
                stream.write(line.translate({0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}) + "\n")

        yield write


@contextmanager
def _parquet(path: Path, columns: Sequence[str]) -> Iterator[Write]:
    import pyarrow as pa
    from pyarrow import parquet

    types = {"confidence": pa.float64(), "off_tree": pa.bool_(), "not_subject": pa.bool_()}
    step = pa.struct([("label", pa.string()), ("rank", pa.string()), ("confidence", pa.float64())])
    # What a table says besides may be of another type in every row.
    schema = pa.schema([(name, types.get(name, pa.string())) for name in columns] + [("nodes", pa.list_(step))])

    def plain(row: Mapping[str, Any], name: str) -> Any:
        value = row.get(name)
        if name in types or name == "nodes" or value is None:
            return value
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        return text.encode("utf-8", "backslashreplace").decode()

    with writing(path) as file, parquet.ParquetWriter(file, schema) as table:
        yield lambda rows: table.write_table(
            pa.table({name: [plain(row, name) for row in rows] for name in schema.names}, schema)
        )
