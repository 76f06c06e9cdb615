"""Images with captions, object labels and long narratives, from COCO's files and Localized Narratives."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, Field, ValidationError

from taxtune.errors import DataError
from taxtune.tables import read_text

__all__ = ["Image", "read_coco"]

T = TypeVar("T", bound=BaseModel)


class Image(NamedTuple):
    """An image with its distinct captions, object labels and long narratives."""

    id: str
    file: str
    captions: tuple[str, ...]
    labels: tuple[str, ...]
    narratives: tuple[str, ...] = ()


class _Entry(BaseModel, coerce_numbers_to_str=True, str_strip_whitespace=True):
    """An entry of a file; ids may be numbers or texts."""


class _File(_Entry):
    id: str
    file_name: str = Field(min_length=1)


class _Category(_Entry):
    id: str
    name: str = Field(min_length=1)


class _Caption(_Entry):
    image_id: str
    caption: str


class _Object(_Entry):
    image_id: str
    category_id: str


class _Captions(BaseModel):
    images: list[_File]
    annotations: list[_Caption]


class _Instances(BaseModel):
    categories: list[_Category] = Field(min_length=2)
    annotations: list[_Object]


def read_coco(
    captions: Path, instances: Path, narratives: Path | None = None
) -> tuple[list[Image], list[str], list[str]]:
    """Joins COCO captions, COCO objects and Localized Narratives by image.

    Returns:
        The images that have captions and labels, the names of all categories, and notes on what was left out.

    Raises:
        DataError: If a file is not of its format, an id is unknown or repeated, or fewer than two images have both.
    """
    text_file = _parse(captions, _Captions)
    object_file = _parse(instances, _Instances)
    ids = [image.id for image in text_file.images]
    names = {category.id: category.name for category in object_file.categories}
    _check_unique(captions, ids)
    _check_unique(instances, [category.id for category in object_file.categories])
    _check_unique(instances, [category.name for category in object_file.categories])
    _check_known(captions, "image_id", [c.image_id for c in text_file.annotations], ids)
    _check_known(instances, "category_id", [o.category_id for o in object_file.annotations], names)
    texts = _by_image((entry.image_id, entry.caption) for entry in text_file.annotations)
    objects = object_file.annotations
    labels = _by_image((entry.image_id, names[entry.category_id]) for entry in objects)
    stories = {} if narratives is None else _read_narratives(narratives, ids)
    images = []
    for image in text_file.images:
        if image.id in texts and image.id in labels:
            joined = Image(
                id=image.id,
                file=image.file_name,
                captions=texts[image.id],
                labels=labels[image.id],
                narratives=stories.get(image.id, ()),
            )
            images.append(joined)
    if len(images) < 2:
        message = "At least two images need both captions and object labels."
        remedy = f"Check that {instances} is from the same split."
        raise DataError(message, file=captions, remedy=remedy)
    notes = []
    dropped = len(ids) - len(images)
    if dropped:
        count = f"{dropped:,} of {len(ids):,} images"
        notes.append(f"Left out: {count}, without caption or object label.")
    strangers = (labels.keys() | stories.keys()) - set(ids)
    if strangers:
        what = f"objects or narratives of {len(strangers):,} images"
        notes.append(f"Left out: {what} that are not in the captions file.")
    return images, list(names.values()), notes


def _check_unique(path: Path, entries: Sequence[str]) -> None:
    repeated = [entry for entry, count in Counter(entries).items() if count > 1]
    if repeated:
        message = "The file repeats an id or a category's name."
        raise DataError(message, file=path, value=repeated[0])


def _check_known(path: Path, key: str, values: Sequence[str], known: Iterable[str]) -> None:
    """Checks that each annotation refers to an entry of its file."""
    there = set(known)
    for i, value in enumerate(values):
        if value not in there:
            message = f"annotations[{i}]: its {key} is not in the file."
            raise DataError(message, file=path, value=value)


def _read_narratives(path: Path, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Returns the narratives of each image."""
    listed = set(ids)
    text = read_text(path, error=DataError, what="narratives")
    pairs = []
    for row, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            entry = _parse(path, _Caption, line, row)
            # Localized Narratives write some ids with leading zeros.
            image = entry.image_id if entry.image_id in listed else entry.image_id.lstrip("0")
            pairs.append((image, entry.caption))
    narratives = _by_image(pairs)
    if narratives.keys().isdisjoint(listed):
        raise DataError("No narrative describes an image in the captions file.", file=path)
    return narratives


def _parse(path: Path, kind: type[T], line: str | None = None, row: int | None = None) -> T:
    """Returns the content of a JSON file, or of one line of a file of JSON lines."""
    text = read_text(path, error=DataError, what="JSON") if line is None else line
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"]]
        place = "".join(parts).lstrip(".")
        message = f"{place or 'JSON'}: {problem['msg']}."
        value = problem["input"] if place else None
        remedy = "Check that it is the right one of COCO's files: captions, or instances."
        raise DataError(message, file=path, row=row, value=value, remedy=remedy) from None


def _by_image(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Returns the distinct texts of each image, with single spaces; images without any are not in it."""
    by_image: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for image, text in pairs:
        if text.strip():
            by_image[image][" ".join(text.split())] = None
    return {image: tuple(texts) for image, texts in by_image.items()}
