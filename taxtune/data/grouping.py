"""Which images belong together: by a column, by their folder, by when a camera took them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path, PurePath

from taxtune.data.labels import LabelFinder, label_references, label_text
from taxtune.data.sources import Record
from taxtune.errors import DataError, TaxonomyError
from taxtune.images import Shot, read_shot
from taxtune.progress import note

__all__ = ["BURST", "FOLDER", "find_bursts", "group_columns", "with_groups"]

#: Settings of `data.group` that are no column.
FOLDER = "folder"
BURST = "exif:burst"
# A camera that is triggered again soon shows the same animal; tools for camera traps end a sequence
# after a minute.
_PAUSE = timedelta(seconds=60)


def group_columns(group: str | None) -> tuple[str, ...]:
    """Returns the columns that have the groups of a setting.

    Raises:
        DataError: If the setting is of EXIF, and not `BURST`.
    """
    if group in (None, FOLDER, BURST):
        return ()
    if group.startswith("exif:"):
        remedy = f"From image files come only bursts: {BURST}."
        raise DataError("Images cannot be grouped by this.", value=group, remedy=remedy)
    return (group,)


def with_groups(
    records: Sequence[Record], group: str | None, finder: LabelFinder | None = None
) -> list[Record]:
    """Returns records with the groups of their images, as far as files need not be read.

    Args:
        records: The rows of a source, with the cells of `group_columns`.
        group: The setting `data.group`.
        finder: For folders of classes: what tells which folders are classes.
    """
    if group in (None, BURST):
        return list(records)
    if group != FOLDER:
        return [row._replace(group=label_text(row.cells.get(group))) for row in records]
    if finder is not None:
        return _below_classes(records, finder)
    return [row._replace(group=_folder(row.image)) for row in records]


def _folder(image: object) -> str:
    """Returns the folder of an image's name; "" for an image that is in no file."""
    return PurePath(image).parent.as_posix() if isinstance(image, str) else ""


def _below_classes(records: Sequence[Record], finder: LabelFinder) -> list[Record]:
    """Returns records whose label is the lowest folder that names a node, and whose group is below.

    The folders of one deployment have one name, whatever was seen there.
    """

    @cache
    def is_class(label: str) -> bool:
        try:
            node = finder.node(label_references(label))
        except TaxonomyError:  # several nodes have the name, which is told where nodes are found
            return True
        return node is not None or finder.unnamed(label) is not None

    placed = []
    for record in records:
        parts = record.label.split("/")
        labels = ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]
        label = next(filter(is_class, labels), record.label)
        placed.append(
            record._replace(
                label=label,
                references=label_references(label),
                group=record.label.removeprefix(label).strip("/"),
            )
        )
    return placed


def find_bursts(files: Sequence[Path]) -> list[str]:
    """Returns the burst of each image file, named after its camera and start; "" without a time.

    Raises:
        DataError: If no file says when it was taken.
    """
    shots: dict[int, Shot] = {}
    for place, file in enumerate(files):
        shot = read_shot(file)
        if shot is not None:
            shots[place] = shot
    if not shots:
        remedy = "Name a column of the data with the bursts, or leave out data.group."
        raise DataError("No photo says in its EXIF when it was taken.", value=BURST, remedy=remedy)
    if len(shots) < len(files):
        lacking = len(files) - len(shots)
        note(f"{lacking:,} of {len(files):,} photos do not say when they were taken: in no burst")
    names = [""] * len(files)
    start = before = None
    for place in sorted(shots, key=lambda place: (shots[place], place)):
        shot = shots[place]
        goes_on = (
            before is not None
            and shot.camera == before.camera
            and shot.taken - before.taken <= _PAUSE
        )
        if start is None or not goes_on:
            start = shot
        names[place] = f"{start.camera} {start.taken}".strip()
        before = shot
    return names
