"""Which images belong together: by a column, by their folder, by when a camera took them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path, PurePath

from taxtune.data.columns import like_groups
from taxtune.data.labels import LabelFinder, label_references, label_text
from taxtune.data.sources import Record
from taxtune.errors import TaxonomyError
from taxtune.images import Shot, read_shot
from taxtune.metrics.groups import Groups

__all__ = ["BURST", "FOLDER", "find_bursts", "likely_groups", "with_groups"]

#: Settings of `data.group` that are no column.
FOLDER = "folder"
BURST = "exif:burst"
# A camera that is triggered again soon shows the same animal; tools for camera traps end a sequence
# after a minute.
_PAUSE = timedelta(seconds=60)


def with_groups(
    records: Sequence[Record], group: str | None, finder: LabelFinder | None = None
) -> list[Record]:
    """Returns records with the groups of their images, but for bursts, for which files are read.

    Args:
        records: The rows of a source, with the cells of a column.
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
        group = record.label.removeprefix(label).strip("/")
        references = label_references(label)
        placed.append(record._replace(label=label, references=references, group=group))
    return placed


def find_bursts(files: Sequence[Path]) -> list[str]:
    """Returns the burst of each image file, named after its camera and start; "" without a time."""
    shots = []
    for place, file in enumerate(files):
        shot = read_shot(file)
        if shot is not None:
            shots.append((shot, place))
    shots.sort()
    names = [""] * len(files)
    start = before = Shot("", datetime.min)
    for shot, place in shots:
        if shot.camera != before.camera or shot.taken - before.taken > _PAUSE:
            start = shot
        names[place] = f"{start.camera} {start.taken}".strip()
        before = shot
    return names


def likely_groups(
    cells: Sequence[Mapping[str, object]], files: Sequence[Path]
) -> tuple[str, list[str]] | None:
    """Returns a setting `data.group` under which images belong together, and the groups' names.

    Of several columns it is the one with the most groups; None where no two images have one.

    Args:
        cells: The cells of each image, by column.
        files: The images.
    """
    found = {}
    for column in like_groups(cells[0] if cells else ()):
        found[column] = [label_text(row.get(column)) for row in cells]
    repeating = {name: names for name, names in found.items() if _repeats(names)}
    if not repeating and _repeats(bursts := find_bursts(files)):
        repeating[BURST] = bursts
    return max(repeating.items(), key=lambda one: len(Groups.of(one[1])), default=None)


def _repeats(names: Sequence[str]) -> bool:
    """Tells whether there are several groups, and groups of several images."""
    return 1 < len(Groups.of(names)) < len(names)
