"""Images with captions and object labels, from files in COCO's format, and with Localized Narratives (paper 3, §5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taxtune.errors import DataError, shortened
from taxtune.studies.json_files import coco_caption, parse_object, read_coco
from taxtune.tables import read_text

__all__ = ["CaptionData", "CaptionedImage", "read_caption_data"]


@dataclass(frozen=True, slots=True)
class CaptionedImage:
    """An image and what is said about it.

    Attributes:
        id: Its id in the files.
        file_name: Its file, relative to the folder of the images.
        captions: Its captions, at least one; each once.
        labels: The names of the object categories that are in it, at least one; each once, in the order of the file of
            instances.
        narratives: Long descriptions of it; often none.
    """

    id: str
    file_name: str
    captions: tuple[str, ...]
    labels: tuple[str, ...]
    narratives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CaptionData:
    """The images of a study of captions.

    Attributes:
        images: The images that have captions and labels, in the order of the captions file.
        categories: All object categories, whether in an image or not.
        notes: Stated, counted exclusions.
    """

    images: tuple[CaptionedImage, ...]
    categories: tuple[str, ...]
    notes: tuple[str, ...]


def read_caption_data(captions: Path, instances: Path, narratives: Path | None = None) -> CaptionData:
    """Reads captions, object labels and, if there are any, long narratives, and joins them by the id of the image.

    Args:
        captions: COCO's captions file: `images` (id, file_name) and `annotations` (image_id, caption).
        instances: COCO's instances file: `categories` (id, name) and `annotations` (image_id, category_id).
        narratives: Localized Narratives, one JSON object per line (image_id, caption), or None.

    Raises:
        DataError: If a file is not of this form, an annotation names an image or a category that is not there, or no
            image has both captions and labels.
    """
    names, of_images, notes = _read_captions(captions)
    categories, of_objects, others = _read_instances(instances, names)
    told: dict[str, list[str]] = {}
    strangers = 0
    if narratives is not None:
        told, strangers = _read_narratives(narratives, names)
        if not told:
            raise DataError(
                "No narrative describes an image in the captions file.",
                file=narratives,
                remedy="Check that both are from the same split.",
            )
    for n, what in ((strangers, "narrative"), (others, "object")):
        if n:
            notes.append(f"Left out: {_counted(n, what)} of images that are not in the captions file.")
    kept = [image for image in names if of_images[image] and image in of_objects]
    bare = sum(not texts for texts in of_images.values())
    for n, what in ((bare, "no caption"), (len(names) - bare - len(kept), "captions and no object label")):
        if n:
            notes.append(f"Left out: {n:,} of {len(names):,} images, with {what}.")
    if not kept:
        raise DataError(
            "No image has both captions and object labels.",
            file=captions,
            remedy=f"Check that {instances} belongs to it.",
        )
    images = tuple(
        CaptionedImage(
            image,
            names[image],
            tuple(of_images[image]),
            tuple(categories[i] for i in of_objects[image]),
            tuple(dict.fromkeys(told.get(image, ()))),
        )
        for image in kept
    )
    return CaptionData(images, tuple(categories.values()), tuple(notes))


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _read_captions(path: Path) -> tuple[dict[str, str], dict[str, list[str]], list[str]]:
    """Returns the file of each image, its captions, by image, and what was left out."""
    data = read_coco(path, "captions", ("images", "annotations"))
    names = _named(data, "images", "file_name", path)
    if not names:
        raise DataError("The file has no images.", file=path)
    captions: dict[str, list[str]] = {image: [] for image in names}
    wrong: list[str] = []
    left_out = {"empty": 0, "already said about the image": 0}
    for i, entry in enumerate(data["annotations"]):
        image = _id(entry, "image_id", path, f"annotations[{i}]")
        text = " ".join(coco_caption(entry, i, path).split())
        if image not in captions:
            wrong.append(f"  annotations[{i}]: image {image}")
        elif text and text not in captions[image]:
            captions[image].append(text)
        else:
            left_out["already said about the image" if text else "empty"] += 1
    if wrong:
        raise DataError(
            f"Captions of images that are not in the file ({len(wrong):,}):\n" + "\n".join(shortened(wrong, 20)),
            file=path,
        )
    if not any(captions.values()):
        raise DataError(
            "All captions are empty." if left_out["empty"] else "There are no captions in the file.",
            file=path,
            value=_counted(len(data["annotations"]), "annotation"),
        )
    return names, captions, [f"Left out: {_counted(n, 'caption')}, {why}." for why, n in left_out.items() if n]


def _read_instances(path: Path, names: Mapping[str, str]) -> tuple[dict[str, str], dict[str, list[str]], int]:
    """Returns the categories by id, the ids of those in each image, and how many objects are of other images."""
    data = read_coco(path, "instances", ("categories", "annotations"))
    categories = {key: name.strip() for key, name in _named(data, "categories", "name", path).items()}
    repeated = [name for name, count in Counter(categories.values()).items() if count > 1]
    if repeated:
        raise DataError("Two categories have the same name.", file=path, value=repeated[0])
    if len(categories) < 2:
        raise DataError("At least two categories are needed to swap objects.", file=path)
    found: dict[str, list[str]] = {}
    others = 0
    for i, entry in enumerate(data["annotations"]):
        image = _id(entry, "image_id", path, f"annotations[{i}]")
        if "category_id" not in entry:
            hint = "Check that this is not the captions file." if "caption" in entry else None
            raise DataError(f"annotations[{i}] has no `category_id`.", file=path, value=entry, remedy=hint)
        category = _id(entry, "category_id", path, f"annotations[{i}]")
        if category not in categories:
            raise DataError(f"annotations[{i}] has a category that is not in the file.", file=path, value=category)
        if image not in names:
            others += 1
        elif category not in found.setdefault(image, []):
            found[image].append(category)
    if not found:
        raise DataError(
            "No object is in an image from the captions file.",
            file=path,
            remedy="Check that both files are from the same split.",
        )
    return categories, found, others


def _read_narratives(path: Path, names: Mapping[str, str]) -> tuple[dict[str, list[str]], int]:
    told: dict[str, list[str]] = {}
    strangers = 0
    for row, line in enumerate(read_text(path, error=DataError, what="narratives").split("\n"), start=1):
        if not line.strip():
            continue
        entry = parse_object(line, path, row)
        if not isinstance(entry.get("caption"), str) or "image_id" not in entry:
            raise DataError("A narrative needs `image_id` and `caption`.", file=path, row=row)
        # Localized Narratives write the ids of COCO as text, some with leading zeros.
        image = str(entry["image_id"]).strip()
        image = image if image in names else image.lstrip("0") or image
        text = " ".join(entry["caption"].split())
        if image not in names:
            strangers += 1
        elif text:
            told.setdefault(image, []).append(text)
    return told, strangers


def _named(data: Mapping[str, Any], what: str, key: str, path: Path) -> dict[str, str]:
    """Returns the names of a list's entries by id."""
    names: dict[str, str] = {}
    for i, entry in enumerate(data[what]):
        number, name = _id(entry, "id", path, f"{what}[{i}]"), entry.get(key)
        if not isinstance(name, str) or not name.strip():
            raise DataError(f"{what}[{i}] has no `{key}`.", file=path, value=entry)
        if number in names:
            raise DataError(f"{what}[{i}] repeats an id.", file=path, value=number)
        names[number] = name
    return names


def _id(entry: Mapping[str, Any], key: str, path: Path, where: str) -> str:
    value = entry.get(key)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # as tables with gaps write whole numbers
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
        raise DataError(f"{where} has no usable `{key}`.", file=path, value=value if key in entry else dict(entry))
    return str(value)
