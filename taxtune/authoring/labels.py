"""A flat list of labels: from a text file, a CSV, or a folder of images with one sub-folder for each label."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from taxtune.data.sources import label_references
from taxtune.errors import DataError
from taxtune.tables import clean, header_of, read_rows, read_text, text_lines

__all__ = ["Label", "as_labels", "read_labels"]

# What data sets put in front of their labels: "012.Black_footed_Albatross".
_NUMBER = re.compile(r"\d+\.\s*(?=\D)")
_TABLES = (".csv", ".tsv")


@dataclass(frozen=True, slots=True)
class Label:
    """A label.

    Attributes:
        name: As people read it: spaces for underscores, no number in front.
        written: As the data have it, each way once.
        aliases: What of this the tree has to know as another name. A folder's name does not need it where only
            underscores or a number in front tell it from the label: whoever reads the images passes over these.
    """

    name: str
    written: tuple[str, ...]
    aliases: tuple[str, ...] = ()


def read_labels(path: Path) -> list[Label]:
    """Returns the labels of a file or folder, each once, in their order.

    Labels that differ in upper and lower case, underscores or a leading number only are one.

    Args:
        path: A text file with one label per line; a CSV with a column label; or a folder, whose sub-folders are called
            as the labels of the images in them.

    Raises:
        DataError: If there is no such file or folder, no column label, an empty label, or no label at all.
    """
    if path.is_dir():
        with os.scandir(path) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
        if not names:
            raise DataError(
                "The folder has no sub-folders to use as labels.",
                file=path,
                remedy="Give a folder with one sub-folder for each label, or a file with one label per line.",
            )
        return as_labels(names, folders=True)
    text = read_text(path, error=DataError, what="labels")
    if path.suffix.lower() not in _TABLES and "label" not in header_of(text):
        return as_labels(filter(str.strip, text_lines(text)))
    remedy = "Rename the column with the labels to label, or give a text file with one label per line."
    rows = read_rows(path, ("label",), what="labels", remedy=remedy)
    for line, cells in rows:
        if not cells["label"]:
            raise DataError("The row has no label.", file=path, row=line, remedy="Fill it in, or remove the row.")
    return as_labels(cells["label"] for _, cells in rows)


def as_labels(written: Iterable[str], *, folders: bool = False) -> list[Label]:
    """Returns labels as they are written as `Label`s, those that are read alike as one.

    Args:
        written: The labels.
        folders: Whether they are names of folders of images.
    """
    found: dict[str, Label] = {}
    for text in map(clean, written):
        name = clean(
            _NUMBER.sub("", text.replace("_", " "), count=1) if _NUMBER.match(text) else text.replace("_", " ")
        )
        name = name or text
        known = found.get(name.casefold(), Label(name, ()))
        every = tuple(dict.fromkeys((*known.written, text)))
        aliases = [one for one in every if not (folders and known.name in label_references(one))]
        aliases = [one for one in aliases if one.casefold() != known.name.casefold()]
        found[name.casefold()] = Label(known.name, every, tuple(aliases))
    return list(found.values())
