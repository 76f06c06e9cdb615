"""iNaturalist 2021's COCO-style JSON: `images`, `annotations` and `categories`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from taxtune.data.sources import Record
from taxtune.errors import DataError
from taxtune.progress import note

__all__ = ["read_inat21"]

_RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "name")


def read_inat21(path: Path) -> Iterator[Record]:
    """Yields the images of an iNaturalist JSON (`train.json`, `val.json`) with their categories.

    The label of an image is its category's path from the kingdom down to the species, so that names which occur twice
    on the tree are no trouble. A category without ranks, as in other COCO files, is looked up by its name.

    Args:
        path: The JSON file.

    Yields:
        One record an image, in the order of the annotations.

    Raises:
        DataError: If the file is missing or malformed, an annotation refers to what is not there, or an image has
            annotations of two categories.
    """
    data = _read_json(path)
    try:
        names: dict[Any, str] = {row["id"]: str(row["file_name"]) for row in data["images"]}
        categories: dict[Any, tuple[str, tuple[str | tuple[str, ...], ...]]] = {
            row["id"]: _category(row) for row in data["categories"]
        }
        pairs = [(row["image_id"], row["category_id"]) for row in data["annotations"]]
    except (KeyError, TypeError) as error:
        raise DataError(
            f"The file lacks {error} in one of images, annotations and categories."
            if isinstance(error, KeyError)
            else "images, annotations and categories must be lists of objects.",
            file=path,
            remedy="Give iNaturalist's train.json or val.json.",
        ) from None

    del data
    chosen: dict[Any, Any] = {}
    for number, (image, category) in enumerate(pairs, start=1):
        if image not in names or category not in categories:
            what = "image_id" if image not in names else "category_id"
            raise DataError(
                f"Annotation {number} refers to an {what} that is not in the file."
                if what == "image_id"
                else f"Annotation {number} refers to a {what} that is not in the file.",
                file=path,
                value=image if what == "image_id" else category,
            )
        if image in chosen:
            if chosen[image] != category:
                raise DataError(
                    f"The image {names[image]!r} has annotations of two categories, "
                    f"{categories[chosen[image]][0]!r} and {categories[category][0]!r}.",
                    file=path,
                    remedy="Keep one category per image.",
                )
            continue
        chosen[image] = category
        label, references = categories[category]
        yield Record(names[image], label, f"annotation {number}", references)
    if len(chosen) < len(names):
        note(f"{len(names) - len(chosen)} of {len(names)} images have no annotation and are left out.")


def _category(row: Mapping[str, Any]) -> tuple[str, tuple[str | tuple[str, ...], ...]]:
    name = str(row["name"])
    if all(isinstance(row.get(rank), str) and row[rank] for rank in _RANKS):
        parts = tuple(str(row[rank]) for rank in _RANKS)
        return "/".join(parts), (parts, name)
    return name, (name,)


def _needed(row: dict[str, Any]) -> dict[str, Any]:
    """Returns what is needed of an object, as soon as it is read: an image has ten members, of which one is used."""
    for name in ("file_name", "category_id"):
        if name in row:
            return {key: row[key] for key in ("id", "file_name", "image_id", "category_id") if key in row}
    return row


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        with path.open(encoding="utf-8") as stream:
            data = json.load(stream, object_hook=_needed)
    except FileNotFoundError:
        raise DataError("The JSON file does not exist.", file=path, remedy="Check the path.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"The file is not valid JSON: {error}.", file=path) from None
    except OSError as error:
        raise DataError(f"The JSON file cannot be read: {error.strerror or error}.", file=path) from error
    if not isinstance(data, dict):
        raise DataError(
            "The file contains no JSON object.", file=path, remedy="Give iNaturalist's train.json or val.json."
        )
    return data
