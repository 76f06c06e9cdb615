"""The kinds of sources of labelled images, and the one form in which their readers hand over what they find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from taxtune.errors import DataError

__all__ = ["KINDS", "Kind", "Record", "Source", "find_kind", "source_name"]

Kind = Literal["manifest", "folder", "inat21"]

#: The kinds of sources that lie on the disk.
KINDS: tuple[Kind, ...] = ("manifest", "folder", "inat21")

#: What images are read from: a path, a list of (image, label), a pandas `DataFrame` or a Hugging Face `Dataset`.
Source = object


@dataclass(frozen=True, slots=True)
class Record:
    """One row of a source, before its label is looked up.

    Attributes:
        image: The image's name as the source writes it, relative to the folder of the images, or a function that
            returns an image that is in no file: a PIL image or the bytes of an image file.
        label: The label as the source writes it.
        where: The row, for messages ("row 12").
        references: What to look up on the taxonomy, a label or a path of labels, the first that is there counts.
    """

    image: str | Callable[[], object]
    label: str
    where: str
    references: tuple[str | tuple[str, ...], ...]


def find_kind(path: Path, kind: str | None) -> Kind:
    """Returns the kind of a source on the disk: the one asked for, else the one that its name tells.

    Raises:
        DataError: If there is no such kind.
    """
    if kind is None:
        return "folder" if path.is_dir() else "inat21" if path.suffix.lower() == ".json" else "manifest"
    for known in KINDS:
        if kind == known:
            return known
    raise DataError("There is no such kind of data.", value=kind, remedy="Use 'manifest', 'folder' or 'inat21'.")


def source_name(source: Source) -> str:
    """Returns how messages call a source: its path, or what it is."""
    return str(source) if isinstance(source, (str, Path)) else type(source).__name__
