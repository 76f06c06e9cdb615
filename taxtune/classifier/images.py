"""Images without labels: files, folders, patterns, tables with a column of images, and lists on standard input."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from glob import glob, has_magic
from itertools import islice
from pathlib import Path
from typing import Any

from taxtune.answers.records import Records, open_table
from taxtune.data.folder import walk_images
from taxtune.data.images import IMAGE_SUFFIXES
from taxtune.errors import DataError

__all__ = ["Images", "Item"]

#: Tells the column of a table that has the images, and the folder that their names are relative to.
Find = Callable[[Path, dict[str, list[str]]], tuple[str, Path]]

_COLUMN = "image"
# Rows of a table that are looked at to tell its column of images.
_LOOKED_AT = 200
_TABLES = frozenset((".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".xlsx"))
_LISTS = frozenset((".txt", ".lst"))


@dataclass(frozen=True, slots=True)
class Item:
    """An image to be labelled.

    Attributes:
        image: The image as it was written.
        file: Its file, which need not be there.
        others: What else a table says of it, by column.
    """

    image: str
    file: Path
    others: dict[str, Any]


@dataclass(frozen=True)
class Images:
    """The images that somebody names, in the order given, which can be gone through more than once.

    An image that is named several times is there as often.

    Attributes:
        given: Image files; folders, which are searched with all that is below them; patterns with `*`, `?`, `[...]` and
            `**`; tables (CSV, JSONL, Parquet, XLSX) with a column of images; text files (.txt) with a path a line; and
            "-", which is such a text on standard input.
        find: Tells which column of a table has the images, from the file and the values of its first rows by column,
            and the folder that their names are relative to; by default the column "image", relative to the table.

    Raises:
        DataError: If there is nothing of that name, a pattern or folder has no image, or a table no column of images.
    """

    given: Sequence[str]
    find: Find | None = None

    @cached_property
    def _sources(self) -> list[Iterable[Item]]:
        """The images of each name; a folder or a table is read once."""
        return [source for name in self.given for source in _sources(name, self.find)]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that tables have besides the images, in the order in which they are met."""
        self.count  # noqa: B018 - found while counting
        return tuple(self._columns)

    @cached_property
    def _columns(self) -> dict[str, None]:
        return {}

    @cached_property
    def count(self) -> int:
        """How many images there are; what is wrong with a table is told here, before anything long."""
        total = 0
        for item in self:
            total += 1
            self._columns.update(dict.fromkeys(item.others))
        return total

    def __iter__(self) -> Iterator[Item]:
        for source in self._sources:
            yield from source


def _sources(name: str, find: Find | None) -> list[Iterable[Item]]:
    path = Path(name)
    if name == "-":
        return [_listed(open_table("-", format="text", what="list of images", harnesses=False), find)]
    if path.is_dir():
        found = list(_below(path))
        if not found:
            raise DataError("There is no image in the folder or below it.", file=path, remedy=_ENDINGS)
        return [found]
    if has_magic(name) and not path.exists():
        matches = sorted(glob(name, recursive=True))
        if not matches:
            raise DataError("No file matches this.", value=name, remedy="Check the pattern; ** stands for any folders.")
        return [source for match in matches for source in _sources(match, find)]
    suffix = path.suffix.lower()
    if suffix in _LISTS or suffix in _TABLES:
        return [_listed(open_table(path, what="list of images", text=suffix in _LISTS, harnesses=False), find)]
    if suffix in IMAGE_SUFFIXES:
        if not path.exists():
            raise DataError("The image does not exist.", file=path, remedy="Check the path.")
        return [[_item(path)]]
    raise DataError(
        "This is neither an image, nor a folder, nor a list of images." if path.exists() else "There is no such file.",
        file=path,
        remedy=_ENDINGS + f" Lists end in {', '.join(sorted(_TABLES | _LISTS))}.",
    )


_ENDINGS = f"Images end in {', '.join(sorted(IMAGE_SUFFIXES))}."


def _item(path: Path) -> Item:
    return Item(str(path), path, {})


def _below(folder: Path) -> Iterator[Item]:
    for label, files, _ in walk_images(folder):
        yield from (_item(folder / label / file) for file in files)


def _listed(records: Records, find: Find | None) -> Iterable[Item]:
    text = records.file == "<stdin>" or Path(records.file).suffix.lower() in _LISTS
    column, folder = _COLUMN, Path() if records.file == "<stdin>" else Path(records.file).parent
    values: dict[str, list[str]] = {}
    if find is not None and not text:
        for _, record in islice(records.rows, _LOOKED_AT):
            for name, value in record.items():
                known = values.setdefault(name, [])
                if isinstance(value, str) and value.strip():
                    known.append(os.path.expanduser(value.strip()))
        if values:
            column, folder = find(Path(records.file), values)
    return list(_rows(records, None if text else column, folder))


def _rows(records: Records, column: str | None, folder: Path) -> Iterator[Item]:
    """Yields the images of a table, or of a text with a path a line (no column), whose blank lines say nothing."""
    for row, record in records.rows:
        if not record:
            continue
        if column is None:
            written: Any = str(record["answer"]).strip("\r\n")
            if not written.strip():
                continue
            others: dict[str, Any] = {}
        else:
            if column not in record:
                raise DataError(
                    f"There is no column {column!r}.",
                    file=records.file,
                    row=row,
                    remedy=f"There {'is' if len(record) == 1 else 'are'} {', '.join(map(repr, record))}.",
                )
            others = dict(record)
            written = others.pop(column)
        if not isinstance(written, str) or not written.strip() or "\0" in written:
            raise DataError(
                "The row names no image.",
                file=records.file,
                row=row,
                value=written,
                remedy="Give a path, or remove it.",
            )
        yield Item(written, folder / os.path.expanduser(written), others)
