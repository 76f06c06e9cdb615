"""Labels of many images: from names of images, folders and tables to rows, and to files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune import atomic
from taxtune.classifier.classifier import COLUMNS, Classification, Classifier
from taxtune.data.names import find_file
from taxtune.data.sources import walk_images
from taxtune.errors import DataError, ModelError
from taxtune.images import IMAGE_SUFFIXES, lacking_decoder
from taxtune.progress import Display, note, showing, track
from taxtune.tables import read_table
from taxtune.untrusted import json_line, spreadsheet_cell

if TYPE_CHECKING:
    import pandas as pd

    from taxtune.models import AnswerStore

__all__ = [
    "COLUMNS",
    "FORMATS",
    "WORKING",
    "check_format",
    "csv_of",
    "jsonl_of",
    "label_cells",
    "label_images",
    "list_images",
    "write_labels",
]

#: Columns of labels that no file has.
WORKING = ("again", "why", "evidence")
#: The columns that come after `COLUMNS` and those of the tables that name the images.
_ENDS = ("nodes", *WORKING)
#: The columns of the images' files, and of why some are not to be asked about.
FILE = " file"
FAILURE = " failure"
#: The columns of the label of each image by a classifier's scores, and of what an answer may gain.
SCORES = " scores"
GAIN = " gain"
#: Why an image was not asked about.
UNPAID = "Not asked about: the budget is spent."
FORMATS = (".csv", ".jsonl")

_LOOKED_AT = 200  # rows of a table that tell its column of images; each may be looked for on disk
_BATCH = 512  # images that a model is given at a time
_STOPPED = 16  # failures in a batch without an answer after which the work ends
_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".xlsx")
_LISTS = (".txt", ".lst")
_ENDINGS = f"Images end in {', '.join(sorted(IMAGE_SUFFIXES))}."
#: Tells the column of a table that has the images, and the folder that their names are relative to.
Find = Callable[[Path, dict[str, list[str]]], tuple[str, Path]]


def list_images(names: Sequence[str], find: Find) -> pd.DataFrame:
    """Lists the images that names stand for, in the order given.

    One that is named twice has two rows.

    Args:
        names: Image files; folders, searched with all below them; tables (CSV, JSONL, Parquet,
            XLSX) with a column of images; text files (.txt) with one path per line; and "-", which
            is such a text on standard input.
        find: Tells which column of a table has the images, from the file and the values of its
            first rows by column.

    Returns:
        The columns image (as it was written), `FILE` (its path) and those that the tables have
        besides.

    Raises:
        DataError: If there is nothing of that name, a folder has no image, a table has no column of
            images or a column of one of the labels' names, or a row names no image.
    """
    import pandas as pd

    rows = []
    for name in names:
        rows += _rows_of(name, find)
    frame = pd.DataFrame(rows, dtype=object)
    if frame.empty:
        raise DataError(
            "The list of images is empty.",
            value=", ".join(names),
            remedy="Give at least one image.",
        )
    lacking = lacking_decoder(frame[FILE])
    if lacking:
        note(f"images of some formats cannot be read: {lacking}")
    return frame.where(frame.notna(), None)


def _rows_of(name: str, find: Find) -> list[dict[str, Any]]:
    path = Path(name)
    suffix = path.suffix.lower()
    if name == "-" or (suffix in _LISTS and path.is_file()):
        return _rows_of_list(name)
    if path.is_dir():
        return _rows_of_folder(path)
    if suffix in _TABLES and path.is_file():
        return _rows_of_table(path, find)
    if suffix in IMAGE_SUFFIXES:
        if not path.exists():
            raise DataError("The image does not exist.", file=path, remedy="Check the path.")
        return [{"image": name, FILE: path}]
    message = "There is no such file."
    if path.exists():
        message = "This is neither an image, nor a folder, nor a list of images."
    endings = ", ".join(sorted((*_TABLES, *_LISTS)))
    raise DataError(message, file=path, remedy=f"{_ENDINGS} Lists end in {endings}.")


def _rows_of_list(name: str) -> list[dict[str, Any]]:
    folder = Path() if name == "-" else Path(name).parent
    rows = []
    for number, line in read_table(name, "text", what="list of images"):
        if str(line["answer"]).strip():
            rows.append(_row(name, number, line, "answer", folder))
    return rows


def _rows_of_folder(folder: Path) -> list[dict[str, Any]]:
    rows = []
    for label, files, _ in walk_images(folder):
        for name in files:
            file = folder / label / name
            rows.append({"image": str(file), FILE: file})
    if not rows:
        message = "There is no image in the folder or below it."
        raise DataError(message, file=folder, remedy=_ENDINGS)
    return rows


def _rows_of_table(file: Path, find: Find) -> list[dict[str, Any]]:
    import pandas as pd

    records = read_table(file, what="list of images")
    first_records = [record for _, record in records[:_LOOKED_AT]]
    first = pd.DataFrame(first_records, dtype=object)
    columns = {}
    for column, cells in first.items():
        texts = [cell.strip() for cell in cells if isinstance(cell, str)]
        columns[str(column)] = [os.path.expanduser(text) for text in texts if text]
    column, folder = find(file, columns)
    return [_row(str(file), number, record, column, folder) for number, record in records]


def _row(
    file: str, number: int, record: dict[str, Any], column: str, folder: Path
) -> dict[str, Any]:
    others = dict(record)
    image = others.pop(column, None)
    if not isinstance(image, str) or not image.strip() or "\0" in image:
        raise DataError(
            "The row names no image.",
            file=file,
            row=number,
            value=image,
            remedy="Give a path, or remove the row.",
        )
    taken = others.keys() & {*COLUMNS, *_ENDS, FILE}
    if taken:
        message = f"The list of images has a column {min(taken)!r} already."
        raise DataError(message, file=file, remedy="Rename or remove it.")
    path = find_file(folder, os.path.expanduser(image))
    return {"image": image, FILE: path, **others}


def label_images(
    classifier: Classifier,
    images: pd.DataFrame,
    *,
    review_below: float,
    store: AnswerStore | None = None,
    write: Callable[[pd.DataFrame], None] | None = None,
) -> pd.DataFrame:
    """Labels images.

    Args:
        classifier: The classifier.
        images: See `list_images`, and `list_boxes`.
        review_below: Confidence in [0, 1] below which a label is unsure.
        store: Where answers are kept and looked for first.
        write: Called with the rows of each batch as they come.

    Returns:
        One row per image, in the order given: `COLUMNS`, of a cascade the source, the other columns
        of `images`, nodes (the path with the confidence of each node), again (whether the image may
        get an answer later), evidence (see `Classification`), and why the label should be reviewed:
        "not asked", "failed", "not the subject", "off the tree", "cut off", "no label", "doubtful"
        (see `Classification`), "unsure", or None.

    Raises:
        ModelError: If the model cannot answer at all, or has stopped answering.
    """
    import pandas as pd

    hidden = ("image", FILE, FAILURE, SCORES, GAIN)
    others = [column for column in images.columns if column not in hidden]
    batches: list[pd.DataFrame] = []
    answered = False
    size = max(_BATCH, int(getattr(classifier.model, "batch_size", 0)))
    with track("classifying", len(images)) as task:
        for start in range(0, len(images), size):
            batch = images.iloc[start : start + size]
            with showing(_Notes(task.display)):
                found = classifier.classify(batch.assign(image=batch[FILE]), store)
            for i, reason in enumerate(batch.get(FAILURE, ())):
                if reason:
                    found[i] = Classification(found[i].image, failure=reason)
            _check_answering(found, most=_STOPPED if answered else 2)
            answered |= any(result.failure is None for result in found)
            rows = [_cells(result, review_below) for result in found]
            labelled = pd.DataFrame(rows, index=batch.index, dtype=object)
            labelled["image"] = batch["image"]
            ends = labelled[list(_ENDS)]
            parts = [labelled.drop(columns=list(_ENDS)), batch[others], ends]
            batches.append(pd.concat(parts, axis=1))
            if write is not None:
                write(batches[-1])
            task.advance(len(batch))
    return pd.concat(batches)


def _check_answering(found: Sequence[Classification], most: int) -> None:
    """Raises a `ModelError` if all of a batch may be asked again, and they are no few.

    A few images that a model never gets done with must not keep the labels of all others from being
    written.
    """
    asked = [result for result in found if result.failure is None or result.again]
    if len(asked) >= most and all(result.again for result in asked):
        raise ModelError(
            f"The model has stopped answering: {asked[0].failure}",
            remedy="Run the same command again when it answers; answers so far are saved.",
        )


class _Notes(Display):
    """Passes notes on and shows no progress: the answers of a batch are not those of all images."""

    def __init__(self, display: Display) -> None:
        self.note = display.note  # type: ignore[method-assign]


def _cells(found: Classification, review_below: float) -> dict[str, Any]:
    reasons = {
        "not asked": found.failure == UNPAID,
        "failed": found.failure is not None,
        "not the subject": found.not_subject,
        "off the tree": found.off_tree,
        "cut off": found.cut > 0,
        "no label": len(found.path) == 1 and bool(found.evidence),
        "doubtful": found.doubtful,
        "unsure": found.confidence is not None and found.confidence < review_below,
    }
    holding = [reason for reason, holds in reasons.items() if holds]
    row = label_cells(found)
    row["again"] = found.again
    row["evidence"] = found.evidence
    row["why"] = holding[0] if holding else None
    return row


def label_cells(found: Classification) -> dict[str, Any]:
    """Returns the row of an image, its confidences rounded."""
    row = found.as_row()
    for cells in (row, *row["nodes"]):
        if cells["confidence"] is not None:
            cells["confidence"] = round(cells["confidence"], 4)
    return row


def check_format(path: Path) -> None:
    """Raises a DataError if the name of a file of labels does not tell its format."""
    if path.suffix.lower() not in FORMATS:
        message = "The name of the file does not tell its format."
        raise DataError(message, file=path, remedy=f"Use {', '.join(FORMATS)}.")


def csv_of(labels: pd.DataFrame, *, header: bool = True) -> str:
    """Returns labels as CSV, without the nodes.

    Cells that a spreadsheet would take for a formula are made harmless.
    """
    cells = labels.drop(columns="nodes", errors="ignore").map(_cell)
    text: str = cells.to_csv(index=False, header=header, lineterminator="\n")
    return text


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return spreadsheet_cell(value)


def jsonl_of(labels: pd.DataFrame) -> str:
    """Returns labels as JSON lines."""
    return "".join(f"{json_line(row)}\n" for row in labels.to_dict("records"))


def write_labels(labels: pd.DataFrame, path: Path) -> None:
    """Writes labels in the format that the name of the file tells.

    Raises:
        TaxtuneError: If the file cannot be written whole.
    """
    is_csv = path.suffix.lower() == ".csv"
    text = csv_of(labels) if is_csv else jsonl_of(labels)
    atomic.write_bytes(path, text.encode("utf-8", "backslashreplace"))
