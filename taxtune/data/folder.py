"""A folder per class: the images of a class lie in a folder that is named after its node."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from taxtune.data.images import IMAGE_SUFFIXES
from taxtune.errors import DataError
from taxtune.progress import note

__all__ = ["Record", "label_references", "read_folder", "walk_images"]

#: What may name a node: a label, alias or id, or a path of labels.
Reference = str | tuple[str, ...]


class Record(NamedTuple):
    """One row of a source, before its label is looked up.

    Attributes:
        image: The image's name as the source writes it, relative to the folder of the images, or a function that
            returns an image that is in no file: a PIL image or the bytes of an image file.
        label: The label as the source writes it.
        where: The row, for messages ("row 12").
        references: What to look up on the taxonomy; the first that is there counts.
    """

    image: str | Callable[[], object]
    label: str
    where: str
    references: tuple[Reference, ...]


def read_folder(path: Path) -> Iterator[Record]:
    """Yields the images of one folder for each class, ordered by path.

    The name of a class folder is a node's label, alias, id or, in nested folders, path; see `label_references`.

    Args:
        path: The folder that holds the class folders.

    Raises:
        DataError: If the folder is missing, or images lie in no class folder.
    """
    if not path.is_dir():
        raise DataError("The folder of the classes does not exist.", file=path, remedy="Check the path.")
    stray: list[str] = []
    others: Counter[str] = Counter()
    for label, images, rest in walk_images(path):
        others.update(Path(name).suffix.lower() or "no ending" for name in rest)
        if label == ".":
            stray = images
            continue
        references = label_references(label)
        for name in images:
            yield Record(f"{label}/{name}", label, f"{label}/{name}", references)
    if stray:
        raise DataError(
            f"{len(stray)} images are not in a class folder: "
            f"{', '.join(stray[:10])}{', …' if len(stray) > 10 else ''}.",
            file=path,
            remedy="Move each of them into a folder named after its class.",
        )
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


def label_references(label: str) -> tuple[str, ...]:
    """Returns the names on a taxonomy that a class folder may refer to, the most literal first.

    Underscores may stand for spaces, a leading number ("012.Black_footed_Albatross") is passed over, and an id may be
    filled up with zeros ("0817" for "817", as NABirds has it).
    """
    spaced = label.replace("_", " ").strip()
    bare = "/".join(re.sub(r"^\d+[.\s-]+", "", part) for part in spaced.split("/"))
    unfilled = (label.lstrip("0") or "0",) if label.isdecimal() else ()
    return tuple(dict.fromkeys((label, spaced, bare, *unfilled)))
