"""Readers of labelled images: tables, folders per class, iNaturalist's JSON, lists, data sets."""

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

from taxtune.data.columns import like_groups
from taxtune.data.labels import Reference, label_references, label_text
from taxtune.errors import DataError, shortened
from taxtune.images import IMAGE_SUFFIXES, is_image_data, lacking_decoder
from taxtune.progress import note
from taxtune.tables import column_key, lost_to_pandas, read_table, read_text

__all__ = [
    "LISTS",
    "Record",
    "Source",
    "checked_columns",
    "line_pattern",
    "read_folder",
    "read_inat21",
    "read_labelled",
    "walk_images",
]

#: What images are read from: a path, a list of (image, label), a pandas `DataFrame` or a Hugging
#: Face `Dataset`.
Source = object
#: The endings of lists of images.
LISTS = (".csv", ".tsv", ".xlsx", ".parquet", ".jsonl", ".ndjson")

_NO_COLUMNS = (
    "no columns: give a table of images; files tell exif:month, and groups by exif:burst and folder"
)
_NEEDED = frozenset({"id", "file_name", "image_id", "category_id"})
_RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "name")


class Record(NamedTuple):
    """One row of a source, before its label is looked up.

    Attributes:
        image: The image's name as the source writes it, relative to the folder of the images, or a
            function that returns an image that is in no file: a PIL image or the bytes of an image
            file.
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


class _Cells(NamedTuple):
    """The cells of a row as they stand in a source.

    Attributes:
        where: The row, for messages.
        image: A path, an image, or a function that returns either.
        label: The label.
        others: The other cells that are wanted, by column.
    """

    where: str
    image: object
    label: object
    others: Mapping[str, object]


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
        source: A path that ends in one of `LISTS`; a list of pairs (image, label); a pandas
            `DataFrame`; or a Hugging Face `Dataset`, in which a column of class labels gives the
            classes' names.
        image_column: Column (in JSONL: key) of the image. In CSV and XLSX case does not count.
        label_column: Column of the label.
        pattern: Instead of the columns, for a text file of any name: see `line_pattern`. The
            images' names get the ending .jpg.
        further: Columns (of a pattern: groups) whose cells come along; so do likely groups of images.

    Raises:
        DataError: If the source is missing, malformed, lacks a column, or rows lack a value; it
            names the rows.
    """
    name = str(source) if isinstance(source, Path) else type(source).__name__
    columns = (image_column, label_column, *further)
    if isinstance(source, Path) and pattern is not None:
        rows = _matched_rows(source, line_pattern(pattern), further)
    elif isinstance(source, Path):
        rows = _file_rows(source, columns)
    elif hasattr(source, "features") and hasattr(source, "column_names"):
        rows = _dataset_rows(source, columns, name)
    elif hasattr(source, "columns") and hasattr(source, "iloc"):
        rows = _frame_rows(source, columns, name)
    else:
        checked_columns(further, [], name)
        rows = _pairs(source, name)
    faults: list[str] = []
    for row in rows:
        cell = _without_reference(row.image)
        image = _named_image(cell)
        label = label_text(row.label)
        missing = []
        if image is None:
            missing.append(image_column)
        if not label:
            missing.append(label_column)
        if missing or image is None:
            odd = [value for value in (cell, row.label) if _is_odd(value)]
            got = f" (got {odd[0]!r:.60})" if odd else ""
            faults.append(f"  {row.where}: no {' and '.join(missing)}{got}")
        else:
            yield Record(image, label, row.where, label_references(label), row.others)
    if faults:
        count = "1 row lacks" if len(faults) == 1 else f"{len(faults)} rows lack"
        listed = "\n".join(shortened(faults, 20))
        raise DataError(
            f"{count} a value:\n{listed}\n{lost_to_pandas(source)}Fill in the values or remove the "
            "rows.",
            file=name,
        )


def _without_reference(image: object) -> object:
    """Returns a cell with an image; of a data set's reference to a file the file's path."""
    if isinstance(image, dict) and not is_image_data(image):
        return image.get("path")
    return image


def _named_image(image: object) -> str | Callable[[], object] | None:
    """Returns the name of an image, or a function that returns it. None where there is no image."""
    if callable(image):
        return image
    if is_image_data(image):
        return lambda: image
    return (str(image) if isinstance(image, Path) else label_text(image)) or None


def _is_odd(value: object) -> bool:
    """Returns whether a value is there and of no use."""
    if value is None or isinstance(value, str | float) or callable(value):
        return False
    return not label_text(value) and not is_image_data(value)


# -- in memory -------------------------------------------------------------------------------------


def _pairs(source: Any, name: str) -> Iterator[_Cells]:
    if isinstance(source, dict) or not isinstance(source, Iterable):
        remedy = "Give a path, a list of (image, label), a DataFrame or a Dataset."
        if isinstance(source, dict):
            remedy = f"Choose one of its splits: {', '.join(map(repr, source))}."
        raise DataError(f"A {name} cannot be used as a source of images.", remedy=remedy)
    for number, pair in enumerate(source):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            message = f"Item {number} is not a pair of an image and a label."
            raise DataError(message, file=name, value=pair, remedy="Give both.")
        yield _Cells(f"item {number}", pair[0], pair[1], {})


def _frame_rows(frame: Any, columns: Sequence[str], name: str) -> Iterator[_Cells]:
    columns = checked_columns(columns, list(frame.columns), name)
    cells = frame[list(columns)].itertuples(index=False, name=None)
    for index, (image, label, *others) in zip(frame.index, cells, strict=True):
        yield _Cells(f"row {index}", image, label, dict(zip(columns[2:], others, strict=True)))


def _dataset_rows(dataset: Any, columns: Sequence[str], name: str) -> Iterator[_Cells]:
    if not hasattr(dataset, "__len__"):
        remedy = "Load it without streaming=True."
        raise DataError("A streamed data set can be read only once.", file=name, remedy=remedy)
    columns = checked_columns(columns, list(dataset.column_names), name)
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
            if names is None or not isinstance(cell, int):
                yield cell
            else:  # a class label is a number, and one that is missing is -1
                yield names[cell] if 0 <= cell < len(names) else None

    for number, (label, *rest) in enumerate(zip(*map(cells, others), strict=True)):
        # Fetched one by one when they are needed: all together may be more than fits in memory.
        image = partial(fetch, number) if hasattr(feature, "decode") else fetch(number)
        yield _Cells(f"row {number}", image, label, dict(zip(others[1:], rest, strict=True)))


# -- files -----------------------------------------------------------------------------------------


def _file_rows(path: Path, columns: Sequence[str]) -> Iterator[_Cells]:
    if path.is_file() and path.suffix.lower() not in LISTS:
        raise DataError(
            f"The name of a manifest must end in {', '.join(LISTS)}, not in {path.suffix or 'nothing'!r}.",
            file=path,
            remedy="Rename it, or say with `pattern` where image and label stand in its lines.",
        )
    records = read_table(path, what="manifest")
    there = list(dict.fromkeys(name for _, record in records for name in record))
    keys = [column if column in there else column_key(column) for column in columns]
    keys = checked_columns(keys, there, path)
    columns = [*columns, *keys[len(columns) :]]
    for number, record in records:
        image, label, *cells = map(record.get, keys)
        yield _Cells(f"row {number}", image, label, dict(zip(columns[2:], cells, strict=True)))


def line_pattern(pattern: str) -> re.Pattern[str]:
    """Returns the regular expression that finds the image and the label in a line.

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


def _matched_rows(path: Path, pattern: re.Pattern[str], further: Sequence[str]) -> Iterator[_Cells]:
    further = checked_columns(further, [*pattern.groupindex], path)
    text = read_text(path, error=DataError, what="manifest")
    faults = []
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.strip()
        if not line:
            continue
        match = pattern.fullmatch(line)
        if match is None:
            faults.append(f"  row {number}: {line[:60]!r}")
            continue
        image = match["image"] and f"{match['image']}.jpg"
        cells = {name: match[name] for name in further}
        yield _Cells(f"row {number}", image, match["label"], cells)
    if faults:
        count = "1 line" if len(faults) == 1 else f"{len(faults)} lines"
        listed = "\n".join(shortened(faults, 20))
        raise DataError(
            f"The pattern {pattern.pattern!r} does not match {count}:\n{listed}\nIt must match each "
            "line that is not blank from its start to its end.",
            file=path,
        )


def checked_columns(columns: Sequence[str], names: list[str], file: str | Path) -> list[str]:
    """Returns the columns that are wanted of all that there are, and others that look like groups."""
    for column in columns:
        if column not in names:
            verb = "is" if len(names) == 1 else "are"
            remedy = f"There {verb} {', '.join(map(repr, names)) or _NO_COLUMNS}."
            near = difflib.get_close_matches(column.lower(), list(map(str, names)), n=1)
            if near:
                remedy += f" Did you mean {near[0]!r}?"
            raise DataError(f"There is no column {column!r}.", file=file, remedy=remedy)
    others = [name for name in like_groups(map(str, names)) if name not in columns]
    return [*columns, *others]


def read_inat21(path: Path) -> Iterator[Record]:
    """Yields the images of iNaturalist 2021's COCO-style JSON with their categories.

    The label of an image is its category's path from the kingdom down to the species, so that names
    which occur twice on the tree are no trouble. A category without ranks, as in other COCO files,
    is looked up by its name.
    """
    remedy = "Give iNaturalist's train.json or val.json."
    try:
        data = json.loads(read_text(path, error=DataError, what="JSON"), object_hook=_needed)
        names: dict[Any, str] = {row["id"]: str(row["file_name"]) for row in data["images"]}
        categories = {row["id"]: _category(row) for row in data["categories"]}
        pairs = [(row["image_id"], row["category_id"]) for row in data["annotations"]]
    except (KeyError, TypeError) as error:
        message = (
            "images, annotations and categories must be lists of objects; there is a problem with "
            f"{error}."
        )
        raise DataError(message, file=path, remedy=remedy) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"The file is not valid JSON: {error}.", file=path, remedy=remedy) from None
    chosen: dict[Any, Any] = {}
    for number, (image, category) in enumerate(pairs, start=1):
        message = f"Annotation {number} has an unknown"
        if image not in names:
            raise DataError(f"{message} image_id.", file=path, value=image)
        if category not in categories:
            raise DataError(f"{message} category_id.", file=path, value=category)
        first = chosen.setdefault(image, category)
        if first != category:
            labels = f"{categories[first][0]!r} and {categories[category][0]!r}"
            message = f"The image has two categories, {labels}."
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
    """Returns the needed members of an object: an image has ten, of which two are used."""
    if "file_name" not in row and "category_id" not in row:
        return row
    return {key: row[key] for key in row.keys() & _NEEDED}


# -- one folder for each class ---------------------------------------------------------------------


def read_folder(path: Path) -> Iterator[Record]:
    """Yields the images of one folder for each class, ordered by path.

    The name of a class folder is a node's label, alias, id or, in nested folders, path; see
    `label_references`.

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
        more = ", …" if len(stray) > 10 else ""
        raise DataError(
            f"{len(stray)} images are not in a class folder: {', '.join(stray[:10])}{more}.",
            file=path,
            remedy="Move each of them into a folder named after its class.",
        )
    if unread:
        note(f"{len(unread):,} images are left out: {lacking_decoder(unread)}")
    if others:
        kinds = ", ".join(f"{count} × {suffix}" for suffix, count in sorted(others.items()))
        note(f"{others.total()} files are left out because they are not images: {kinds}.")


def walk_images(path: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yields the path, the images and the other files of a folder and each folder below it.

    What is hidden is passed over, and links are followed, but to no folder twice. All is sorted by
    name.
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
