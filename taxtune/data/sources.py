"""Readers of labelled images: tables, text lines, a folder per class, iNaturalist's JSON, lists, frames, data sets."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from taxtune.data.images import IMAGE_SUFFIXES, is_image_data, lacking_decoder
from taxtune.data.labels import Reference, label_references, label_text
from taxtune.errors import DataError, shortened
from taxtune.progress import note
from taxtune.tables import column_key, lost_to_pandas, read_table, read_text

__all__ = [
    "LISTS",
    "Record",
    "Source",
    "line_pattern",
    "read_folder",
    "read_inat21",
    "read_labelled",
    "refuse_columns",
    "walk_images",
]

#: What images are read from: a path, a list of (image, label), a pandas `DataFrame` or a Hugging Face `Dataset`.
Source = object
#: The endings of lists of images.
LISTS = (".csv", ".tsv", ".xlsx", ".parquet", ".jsonl", ".ndjson")

_RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "name")


class Record(NamedTuple):
    """One row of a source, before its label is looked up.

    Attributes:
        image: The image's name as the source writes it, relative to the folder of the images, or a function that
            returns an image that is in no file: a PIL image or the bytes of an image file.
        label: The label as the source writes it.
        where: The row, for messages ("row 12").
        references: What to look up on the taxonomy; the first that is there counts.
        cells: What else is wanted of the row, by column.
    """

    image: str | Callable[[], object]
    label: str
    where: str
    references: tuple[Reference, ...]
    cells: Mapping[str, object] = {}


# A row's place for messages, its image (a path, an image, or a function that returns either), its label and the rest.
Row = tuple[str, object, object, Mapping[str, object]]


def read_labelled(
    source: Source,
    *,
    image_column: str = "image",
    label_column: str = "label",
    pattern: str | None = None,
    further: Sequence[str] = (),
) -> Iterator[Record]:
    """Yields rows of an image and a label, in order.

    Args:
        source: A path that ends in one of `LISTS`; a list of pairs (image, label); a pandas `DataFrame`; or a Hugging
            Face `Dataset`, in which a column of class labels gives the classes' names.
        image_column: Column (in JSONL: key) of the image; in CSV and XLSX upper and lower case do not count.
        label_column: Column of the label.
        pattern: Instead of the columns, for a text file of any name: see `line_pattern`. The images' names get the
            ending .jpg.
        further: Columns (of a pattern: groups) whose cells come along, which may be empty.

    Raises:
        DataError: If the source is missing, malformed, lacks a column, or rows lack a value; it names the rows.
    """
    name = str(source) if isinstance(source, Path) else type(source).__name__
    columns = (image_column, label_column, *further)
    if isinstance(source, Path):
        rows = (
            _file_rows(source, columns)
            if pattern is None
            else _matched_rows(source, line_pattern(pattern), further)
        )
    elif hasattr(source, "features") and hasattr(source, "column_names"):
        rows = _dataset_rows(source, columns, name)
    elif hasattr(source, "columns") and hasattr(source, "iloc"):
        rows = _frame_rows(source, columns, name)
    else:
        refuse_columns(further, name)
        rows = _pairs(source, name)
    faults: list[str] = []
    for where, image, written, cells in rows:
        label, held = label_text(written), is_image_data(image)
        if isinstance(image, dict) and not held:  # a data set's reference to a file
            image = image.get("path")
        file = str(image) if isinstance(image, Path) else label_text(image)
        missing = [] if held or callable(image) or file else [image_column]
        missing += [] if label else [label_column]
        if missing:
            said = next(
                (f" (got {value!r:.60})" for value in (image, written) if _is_odd(value)), ""
            )
            faults.append(f"  {where}: no {' and '.join(missing)}{said}")
            continue
        references = label_references(label)
        stored = image if callable(image) else (lambda image=image: image) if held else file
        yield Record(stored, label, where, references, cells)
    if faults:
        raise DataError(
            f"{len(faults)} {'row lacks' if len(faults) == 1 else 'rows lack'} a value:\n"
            + "\n".join(shortened(faults, 20))
            + f"\n{lost_to_pandas(source)}Fill in the values or remove the rows.",
            file=name,
        )


def _is_odd(value: object) -> bool:
    """Tells whether a value is there and of no use."""
    there = value is not None and not isinstance(value, str | float) and not callable(value)
    return there and not label_text(value) and not is_image_data(value)


# -- in memory ---------------------------------------------------------------------------------------------------------


def _pairs(source: Any, name: str) -> Iterator[Row]:
    if isinstance(source, dict) or not isinstance(source, Iterable):
        splits = (
            f"Choose one of its splits: {', '.join(map(repr, source))}."
            if isinstance(source, dict)
            else ""
        )
        remedy = splits or "Give a path, a list of (image, label), a DataFrame or a Dataset."
        raise DataError(f"A {name} cannot be used as a source of images.", remedy=remedy)
    for number, pair in enumerate(source):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            message = f"Item {number} is not a pair of an image and a label."
            raise DataError(message, file=name, value=pair, remedy="Give both.")
        yield f"item {number}", pair[0], pair[1], {}


def _frame_rows(frame: Any, columns: Sequence[str], name: str) -> Iterator[Row]:
    _check_columns(columns, list(frame.columns), name)
    for index, image, label, *cells in zip(
        frame.index, *(frame[column] for column in columns), strict=True
    ):
        yield f"row {index}", image, label, dict(zip(columns[2:], cells, strict=True))


def _dataset_rows(dataset: Any, columns: Sequence[str], name: str) -> Iterator[Row]:
    if not hasattr(dataset, "__len__"):
        remedy = "Load it without streaming=True."
        raise DataError("A streamed data set can be read only once.", file=name, remedy=remedy)
    _check_columns(columns, list(dataset.column_names), name)
    image_column, *others = columns
    images = dataset.with_format(None).select_columns([image_column])
    feature = dataset.features[image_column]
    if hasattr(feature, "decode"):  # the stored bytes need not be encoded again
        images = images.cast_column(image_column, type(feature)(decode=False))

    def fetch(number: int) -> object:
        return images[number][image_column]

    def cells(column: str) -> Iterator[object]:
        names: list[str] | None = getattr(dataset.features[column], "names", None)
        for cell in dataset.with_format(None)[column]:
            known = names is None or not isinstance(cell, int)
            yield (
                cell if known or names is None else names[cell] if 0 <= cell < len(names) else None
            )

    for number, (label, *rest) in enumerate(zip(*map(cells, others), strict=True)):
        # Fetched one by one when they are needed: all together may be more than fits in memory.
        image = partial(fetch, number) if hasattr(feature, "decode") else fetch(number)
        yield f"row {number}", image, label, dict(zip(others[1:], rest, strict=True))


# -- files -------------------------------------------------------------------------------------------------------------


def _file_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    if path.is_file() and path.suffix.lower() not in LISTS:
        raise DataError(
            f"The name of a manifest must end in {', '.join(LISTS)}, not in {path.suffix or 'nothing'!r}.",
            file=path,
            remedy="Rename it, or say with `pattern` where image and label stand in its lines.",
        )
    records = read_table(path, what="manifest")
    there = list(dict.fromkeys(name for _, record in records for name in record))
    keys = [column if column in there else column_key(column) for column in columns]
    _check_columns(keys, there, path)
    for number, record in records:
        image, label, *cells = map(record.get, keys)
        yield f"row {number}", image, label, dict(zip(columns[2:], cells, strict=True))


def line_pattern(pattern: str) -> re.Pattern[str]:
    """The regular expression that finds the image and the label in a line.

    Raises:
        DataError: If it is none, or lacks one of the two groups.
    """
    example = r"For lines such as '0034309 707-320': (?P<image>\d+) (?P<label>.+)"
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise DataError(
            f"The pattern is not a regular expression: {error}.", value=pattern, remedy=example
        ) from None
    for group in ("image", "label"):
        if group not in expression.groupindex:
            raise DataError(f"The pattern has no group {group!r}.", value=pattern, remedy=example)
    return expression


def _matched_rows(path: Path, pattern: re.Pattern[str], further: Sequence[str]) -> Iterator[Row]:
    _check_columns(further, [*pattern.groupindex], path)
    lines = enumerate(read_text(path, error=DataError, what="manifest").split("\n"), start=1)
    matches = [
        (number, line.strip(), pattern.fullmatch(line.strip()))
        for number, line in lines
        if line.strip()
    ]
    for number, _, match in matches:
        if match:
            cells = {name: match[name] for name in further}
            yield f"row {number}", match["image"] and f"{match['image']}.jpg", match["label"], cells
    faults = [f"  row {number}: {line[:60]!r}" for number, line, match in matches if not match]
    if faults:
        raise DataError(
            f"The pattern {pattern.pattern!r} does not match {len(faults)} {'line' if len(faults) == 1 else 'lines'}:\n"
            + "\n".join(shortened(faults, 20))
            + "\nIt must match each line that is not blank from its start to its end.",
            file=path,
        )


def _check_columns(
    columns: Iterable[str], names: list[str], file: str | Path, row: int | None = None
) -> None:
    for column in columns:
        if column not in names:
            near = difflib.get_close_matches(column.lower(), list(map(str, names)), n=1)
            remedy = f"There {'is' if len(names) == 1 else 'are'} {', '.join(map(repr, names)) or 'none'}."
            remedy += f" Did you mean {near[0]!r}?" if near else ""
            raise DataError(f"There is no column {column!r}.", file=file, row=row, remedy=remedy)


def refuse_columns(columns: Iterable[str], name: str) -> None:
    """Raises a DataError if columns are wanted of a source that has none."""
    for column in columns:
        remedy = "Give a table or a data frame with one row per image; from image files come exif:month and the like."
        raise DataError(
            f"There is no column {column!r}: this source has no columns.", file=name, remedy=remedy
        )


def read_inat21(path: Path) -> Iterator[Record]:
    """Yields the images of iNaturalist 2021's COCO-style JSON (`train.json`, `val.json`) with their categories.

    The label of an image is its category's path from the kingdom down to the species, so that names which occur twice
    on the tree are no trouble. A category without ranks, as in other COCO files, is looked up by its name.
    """
    remedy = "Give iNaturalist's train.json or val.json."
    try:
        data = json.loads(read_text(path, error=DataError, what="JSON"), object_hook=_needed)
        names: dict[Any, str] = {row["id"]: str(row["file_name"]) for row in data["images"]}
        categories = {row["id"]: _category(row) for row in data["categories"]}
        pairs = [(row["image_id"], row["category_id"]) for row in data["annotations"]]
    except (KeyError, TypeError) as error:
        message = f"images, annotations and categories must be lists of objects; there is a problem with {error}."
        raise DataError(message, file=path, remedy=remedy) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"The file is not valid JSON: {error}.", file=path, remedy=remedy) from None
    chosen: dict[Any, Any] = {}
    for number, (image, category) in enumerate(pairs, start=1):
        for key, value, known in (
            ("image_id", image, names),
            ("category_id", category, categories),
        ):
            if value not in known:
                raise DataError(
                    f"Annotation {number} has an unknown {key}.", file=path, value=value
                )
        first = chosen.setdefault(image, category)
        if first != category:
            message = f"The image has two categories, {categories[first][0]!r} and {categories[category][0]!r}."
            raise DataError(
                message, file=path, value=names[image], remedy="Keep one category per image."
            )
    for image, category in chosen.items():
        label, references = categories[category]
        yield Record(names[image], label, f"image {image}", references)
    if len(chosen) < len(names):
        note(
            f"{len(names) - len(chosen)} of {len(names)} images have no annotation and are left out."
        )


def _category(row: Mapping[str, Any]) -> tuple[str, tuple[Reference, ...]]:
    name = str(row["name"])
    if all(isinstance(row.get(rank), str) and row[rank] for rank in _RANKS):
        path = tuple(str(row[rank]) for rank in _RANKS)
        return "/".join(path), (path, name)
    return name, (name,)


def _needed(row: dict[str, Any]) -> dict[str, Any]:
    """The needed members of an object as soon as it is read: an image has ten, of which two are used."""
    for name in ("file_name", "category_id"):
        if name in row:
            return {
                key: row[key]
                for key in ("id", "file_name", "image_id", "category_id")
                if key in row
            }
    return row


# -- one folder for each class -----------------------------------------------------------------------------------------


def read_folder(path: Path) -> Iterator[Record]:
    """Yields the images of one folder for each class, ordered by path.

    The name of a class folder is a node's label, alias, id or, in nested folders, path; see `label_references`.

    Args:
        path: The folder that holds the class folders.

    Raises:
        DataError: If the folder is missing, or images lie in no class folder.
    """
    if not path.is_dir():
        raise DataError(
            "The folder of the classes does not exist.", file=path, remedy="Check the path."
        )
    stray: list[str] = []
    unread: list[str] = []
    others: Counter[str] = Counter()
    for label, images, rest in walk_images(path):
        others.update(Path(name).suffix.lower() or "no ending" for name in rest)
        if label == ".":
            stray = images
            continue
        references = label_references(label)
        for name in images:
            if lacking_decoder([name]):
                unread.append(name)
            else:
                yield Record(f"{label}/{name}", label, f"{label}/{name}", references)
    if stray:
        raise DataError(
            f"{len(stray)} images are not in a class folder: "
            f"{', '.join(stray[:10])}{', …' if len(stray) > 10 else ''}.",
            file=path,
            remedy="Move each of them into a folder named after its class.",
        )
    if unread:
        note(f"{len(unread):,} images are left out: {lacking_decoder(unread)}")
    if others:
        kinds = ", ".join(f"{count} × {suffix}" for suffix, count in sorted(others.items()))
        note(f"{others.total()} files are left out because they are not images: {kinds}.")


def walk_images(path: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yields for a folder and each folder below it: its path from there, its images and its other files.

    What is hidden is passed over, and links are followed, but to no folder twice. All is sorted by name.
    """
    seen: set[str] = set()
    for current, folders, files in os.walk(path, followlinks=True):
        real = os.path.realpath(current)
        if real in seen:  # a link that leads back up
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        shown = sorted(name for name in files if not name.startswith("."))
        images = [name for name in shown if Path(name).suffix.lower() in IMAGE_SUFFIXES]
        others = [name for name in shown if Path(name).suffix.lower() not in IMAGE_SUFFIXES]
        yield Path(current).relative_to(path).as_posix(), images, others
