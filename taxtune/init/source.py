"""Labelled images as people have them: what the columns hold, where the images are."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from taxtune.data.boxes import Box
from taxtune.data.columns import BOXES, IMAGES, LABELS, find_column, like_groups, named
from taxtune.data.names import find_file
from taxtune.data.sources import LISTS, read_folder, read_labelled, walk_images
from taxtune.errors import DataError, ImageError, Problems
from taxtune.images import IMAGE_SUFFIXES
from taxtune.progress import Display, showing
from taxtune.tables import read_table

__all__ = ["Source", "find_images", "find_source"]

#: Folders of these names hold parts of a data set.
_PARTS = frozenset({"train", "training", "val", "valid", "validation", "test", "testing"})
# How many rows are read to tell what a column holds.
_SAMPLED_ROWS = 200
Columns = dict[str, list[str]]


@dataclass(frozen=True)
class Source:
    """Labelled images on the disk, as a recipe describes them.

    Attributes:
        kind: "folder" for one sub-folder for each label, "manifest" for a file with a row for each
            image.
        path: The folder or the file.
        image_column: The column of the images, in a manifest.
        label_column: The column of the labels, in a manifest.
        images: The folder that the images' names are relative to; None for the file's own.
        groups: Columns that may tell which images belong together.
        box: The column of the boxes, in a manifest that has one.
        notes: What was found out, in sentences.
    """

    kind: Literal["folder", "manifest"]
    path: Path
    image_column: str = "image"
    label_column: str = "label"
    images: Path | None = None
    groups: tuple[str, ...] = ()
    box: str | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def labels(self) -> Counter[str]:
        """How many images have each label, in their order; no image is read.

        Raises:
            DataError: If no row has a label, or all images lie in no sub-folder.
        """
        if self.kind == "folder":
            records = read_folder(self.path)
        else:
            records = read_labelled(
                self.path, image_column=self.image_column, label_column=self.label_column
            )
        counted: Counter[str] = Counter()
        problems = Problems()
        # Notes and problems come again when the images are read.
        with showing(_Silent()), problems.gathered():
            counted.update(record.label for record in records)
        if not counted:
            problems.tell()
        return counted


class _Silent(Display):
    def note(self, text: str) -> None:
        """Drops the note."""


def find_source(
    path: Path, *, image_column: str | None = None, label_column: str | None = None
) -> Source:
    """Returns the labelled images of a folder or a file.

    Args:
        path: A folder with a sub-folder for each label, or a CSV, TSV, XLSX or JSONL file.
        image_column: The column of the images; None to look for it.
        label_column: The column of the labels; None to find it by its name.

    Raises:
        DataError: If there are no labels, or it cannot be told where they are; the message says what to do.
    """
    if not path.exists():
        raise DataError("There is no such file or folder.", file=path, remedy="Check the path.")
    if path.is_dir():
        if image_column or label_column:
            raise DataError(
                "A folder of images has no columns; its sub-folders are the labels.", file=path
            )
        return _folder(path)
    if path.suffix.lower() not in LISTS:
        remedy = (
            "Give a folder with one sub-folder for each label, "
            f"or a file that ends in {', '.join(LISTS)}."
        )
        raise DataError("This is neither a folder nor a list of images.", file=path, remedy=remedy)
    return _manifest(path, image_column, label_column)


def _folder(path: Path) -> Source:
    images = {folder: files for folder, files, _ in walk_images(path)}
    loose = images.pop(".", [])
    folders = sorted({folder.split("/")[0] for folder in images})
    filled = {folder.split("/")[0] for folder, files in images.items() if files}
    if not filled and loose:
        label = f"{path.name}/LABEL/{loose[0]}"
        raise DataError(
            f"The images in the folder ({len(loose):,}) have no labels: "
            "nothing says what they show.",
            file=path,
            remedy=f"Sort them into sub-folders, one for each label ({label}), or list them in a "
            "CSV file with the columns image and label, and give that file with --data.",
        )
    if not filled:
        remedy = f"Names of images end in {', '.join(sorted(IMAGE_SUFFIXES))}."
        raise DataError(
            "There are no images in the folder or its sub-folders.", file=path, remedy=remedy
        )
    if not loose and {folder.lower() for folder in folders} <= _PARTS:
        part = shlex.quote(str(path / folders[0]))
        raise DataError(
            f"The sub-folders are called {', '.join(folders)}, "
            "which are parts of a data set and not labels.",
            file=path,
            remedy=f"Give one of them: --data {part}. taxtune splits its images itself.",
        )
    notes = []
    empty = [folder for folder in folders if folder not in filled]
    if empty:
        notes.append(f"Sub-folders without images are left out ({len(empty)}): {', '.join(empty)}.")
    return Source(kind="folder", path=path, notes=tuple(notes))


def _manifest(path: Path, image_column: str | None, label_column: str | None) -> Source:
    columns: Columns = {}
    for _, record in read_table(path, what="manifest")[:_SAMPLED_ROWS]:
        for name, value in record.items():
            values = columns.setdefault(name, [])
            if isinstance(value, list):  # such as a box, in JSON
                value = str(value)
            if isinstance(value, str) and value.strip():
                values.append(value.strip())
    image, folder = find_images(path, columns, image_column)
    others = [name for name in columns if name != image]
    label = find_column("label", label_column, others, LABELS, others, path)
    notes = []
    if (image, label) != ("image", "label"):
        notes.append(
            f"The images are taken from the column {image!r} and the labels from {label!r}."
        )
    boxes = [name for name in named(others, BOXES) if _are_boxes(columns[name])]
    if boxes:
        notes.append(f"Each box of the column {boxes[0]!r} is cut out and asked about.")
    images = None if folder == path.parent else folder
    if images is not None:
        notes.append(f"The images' names are relative to {images}.")
    return Source(
        kind="manifest",
        path=path,
        image_column=image,
        label_column=label,
        images=images,
        groups=tuple(like_groups(name for name in others if name != label)),
        box=boxes[0] if boxes else None,
        notes=tuple(notes),
    )


def _are_boxes(values: list[str]) -> bool:
    try:
        boxes = [Box.parse(value) for value in values]
    except ImageError:
        return False
    return any(boxes)


def find_images(path: Path, columns: Columns, image_column: str | None = None) -> tuple[str, Path]:
    """Returns the column of a list that has the images, and the folder of their names.

    The names are relative to the folder. It is the file's, one at most two levels below it, the
    one above it, or the current one: the one that has most of the images, and the file's own if
    none has more than half of them.

    Args:
        path: The file.
        columns: The values of some of its rows by column.
        image_column: The column; if None, the one whose values are files, or else by its name.

    Raises:
        DataError: If it cannot be told which column it is.
    """
    base = path.parent
    near = [base, *sorted(base.glob("*/")), *sorted(base.glob("*/*/")), base.parent, Path()]
    folders = {}
    for name, values in columns.items():
        # The first values tell which folders are worth the look-up of all.
        likely = [folder for folder in near if _count_files(folder, values[:5])]
        counts = [_count_files(folder, values) for folder in likely]
        if counts and 2 * max(counts) > len(values):
            folders[name] = likely[counts.index(max(counts))]
    image = find_column("image", image_column, list(columns), IMAGES, folders, path)
    return image, folders.get(image, base)


def _count_files(folder: Path, names: list[str]) -> int:
    return sum(os.path.isfile(find_file(folder, name)) for name in names)
