"""Which images belong together: by a column, their folder, or when they were taken; and copies always."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path, PurePath

from taxtune.atomic import write_text
from taxtune.data.columns import like_groups
from taxtune.data.copies import find_copies
from taxtune.data.example import Example
from taxtune.data.labels import LabelFinder, label_references, label_text
from taxtune.data.sources import Record
from taxtune.errors import DataError, shortened
from taxtune.images import read_exif
from taxtune.metrics.groups import Groups
from taxtune.progress import note
from taxtune.tables import csv_text

__all__ = [
    "BURST",
    "FOLDER",
    "at_class",
    "class_of",
    "find_bursts",
    "grouped",
    "joined",
    "likely_group",
    "list_copies",
    "note_copies",
]

#: Settings of `data.group` that are no column.
FOLDER = "folder"
BURST = "exif:burst"
# A camera that is triggered again soon shows the same animal; tools for camera traps end a sequence
# after a minute.
_PAUSE = timedelta(seconds=60)


def grouped(examples: Sequence[Example], group: str | None, source: str) -> list[Example]:
    """Returns examples in groups by the setting `data.group`, and with copies of a photo in one.

    Parts of one photo are in the group of its first row. Groups and copies are noted, and without a
    setting the one that would make groups.

    Raises:
        DataError: If bursts are wanted, and no file says when it was taken.
    """
    names = [""] * len(examples) if group is None else _names(examples, group)
    if group == BURST and not any(names):
        message = "No photo says in its EXIF when it was taken."
        remedy = "Name a column of the data with the bursts, or leave out data.group."
        raise DataError(message, file=source, value=BURST, remedy=remedy)
    known: dict[Path, str] = {}
    found = []
    for example, name in zip(examples, names, strict=True):
        own = known.setdefault(example.photo, name or example.group)
        found.append(replace(example, group=own) if own else example)
    found = joined(found)
    setting, count = group, len(Groups.of([example.group for example in found]))
    advice = ""
    if group is None and all(example.sha256 for example in examples):
        setting, count = likely_group(examples)
        advice = f"; `data.group: {setting}` has each in one split and counts it once"
    if setting is not None:
        note(f"{len(found):,} images are of {count:,} groups by {setting!r}{advice}.")
    note_copies(found)
    return found


def likely_group(examples: Sequence[Example]) -> tuple[str | None, int]:
    """Returns the setting `data.group` that makes most groups, and how many; None where none does.

    Columns whose name says so come before bursts. They make groups if some image is not alone, and
    not all are together.
    """
    for settings in (like_groups(examples[0].context), [BURST]):
        counts = {group: len(Groups.of(_names(examples, group))) for group in settings}
        likely = {group: count for group, count in counts.items() if 1 < count < len(examples)}
        if likely:
            return max(likely.items(), key=lambda one: one[1])
    return None, 0


def _names(examples: Sequence[Example], group: str) -> list[str]:
    """Returns the name of each example's group by a setting; "" for one of its own."""
    if group == BURST:
        return find_bursts([example.photo for example in examples])
    if group == FOLDER:
        return [_folder(example) for example in examples]
    return [label_text(example.context.get(group)) for example in examples]


def _folder(example: Example) -> str:
    """Returns the folder of an image, below that of its class: of one deployment it has one name."""
    folder = PurePath(example.id).parent
    if folder.is_relative_to(example.label):
        folder = folder.relative_to(example.label)
    return "" if folder == PurePath() else folder.as_posix()


def at_class(record: Record, finder: LabelFinder) -> Record:
    """Returns a record with the lowest folder that is a class; those below it are of a group."""
    label = class_of(record.label, finder)
    return record._replace(label=label, references=label_references(label))


def class_of(label: str, finder: LabelFinder) -> str:
    """Returns of the folders of an image, "wren/site 1", the lowest that is a class, with those above."""
    while "/" in label and not finder.kind(label)[0]:
        if finder.node(label_references(label)) is not None:
            break
        label = label.rpartition("/")[0]
    return label


def find_bursts(files: Sequence[Path]) -> list[str]:
    """Returns the burst of each image file, named after its camera and start; "" without a time."""
    shots = []
    for place, file in enumerate(files):
        told = read_exif(file)
        if "taken" in told:
            shots.append((told["camera"], told["taken"], place))
    names = [""] * len(files)
    name = last_camera = ""
    last = datetime.min
    for camera, taken, place in sorted(shots):
        if camera != last_camera or taken - last > _PAUSE:
            name = f"{camera} {taken}".strip()
        names[place] = name
        last_camera, last = camera, taken
    return names


def joined(examples: Sequence[Example]) -> list[Example]:
    """Returns examples with the copies of a photo in one group, named after the first image's."""
    from networkx.utils import UnionFind

    photos: dict[Path, Example] = {}
    for example in examples:
        if example.thumbnail:
            photos.setdefault(example.photo, example)
    first = list(photos.values())
    copies = {}
    groups = UnionFind()
    thumbnails = [example.thumbnail for example in first]
    found_copies = find_copies(thumbnails, [example.taken for example in first])
    for copy, original in found_copies.items():
        copies[first[copy].id] = first[original].id
        groups.union(_name(first[original]), _name(first[copy]))
    names: dict[str, str] = {}
    found = []
    for example in examples:
        name = _name(example)
        if name in groups.parents:
            name = names.setdefault(groups[name], name)
            example = replace(example, group=name, copy_of=copies.get(example.id, ""))
        found.append(example)
    return found


def _name(example: Example) -> str:
    return example.group or example.id


def _copies(examples: Iterable[Example]) -> list[tuple[Example, Example]]:
    """Returns the copies of photos, each with the image that it is a copy of."""
    known = {example.id: example for example in examples}
    return [(copy, known[copy.copy_of]) for copy in known.values() if copy.copy_of]


def note_copies(examples: Iterable[Example]) -> None:
    """Notes how many images are copies of others, and which have another label than these."""
    copies = _copies(examples)
    if copies:
        note(f"Copies of other images: {len(copies):,}; a run lists them in its copies.csv.")
    found = []
    for copy, first in copies:
        if copy.target != first.target and not copy.box:
            found.append(f"{first.id} is {first.label!r} and its copy {copy.id} {copy.label!r}")
    if found:
        named = "; ".join(shortened(found, 5))
        note(f"Copies of a photo have different labels: {named}. Correct one of each two.")


def list_copies(examples: Iterable[Example], file: Path) -> None:
    """Writes a table of the copies of photos, each with what it is a copy of, if there are any."""
    rows = [(copy.id, copy.label, first.id, first.label) for copy, first in _copies(examples)]
    if rows:
        write_text(file, csv_text(("image", "label", "copy_of", "label_of_first"), rows))
