"""JSON that people give to studies: what is wrong with it is said with file and row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from taxtune.errors import DataError
from taxtune.tables import read_text

__all__ = ["coco_caption", "parse_object", "read_coco"]


def read_coco(path: Path, what: str, lists: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Returns lists of objects from a file in COCO's format.

    Args:
        path: The file.
        what: What it holds, for messages.
        lists: The names of the lists.

    Raises:
        DataError: If it cannot be read, is not valid JSON, lacks a list or has an entry that is not an object.
    """
    text = read_text(path, error=DataError, what=what)
    try:
        data = json.loads(text)
    except RecursionError:
        raise DataError(f"The {what} file is nested too deeply.", file=path) from None
    except ValueError as error:
        hint = "A file with one JSON object per line ends in .jsonl." if text.count("\n{") else None
        raise DataError(f"The {what} file is not valid JSON: {error}.", file=path, remedy=hint) from None
    for name in lists:
        if not isinstance(data, dict) or not isinstance(data.get(name), list):
            raise DataError(f"The {what} file has no list `{name}`.", file=path, remedy="It must be in COCO's format.")
        wrong = next((i for i, entry in enumerate(data[name]) if not isinstance(entry, dict)), None)
        if wrong is not None:
            raise DataError(f"{name}[{wrong}] is not an object.", file=path, value=data[name][wrong])
    return dict(data)


def coco_caption(entry: dict[str, Any], i: int, path: Path) -> str:
    """Returns the caption of an entry of `annotations`.

    Raises:
        DataError: If it has none.
    """
    caption = entry.get("caption")
    if not isinstance(caption, str):
        hint = "Check that this is not the instances file." if "category_id" in entry else None
        raise DataError(f"annotations[{i}] has no `caption`.", file=path, value=entry, remedy=hint)
    return caption


def parse_object(line: str, path: Path, row: int) -> dict[str, Any]:
    """Returns the object in a line of a file of JSON lines.

    Raises:
        DataError: If the line is not valid JSON, or no object.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"The line is not valid JSON: {error}.", file=path, row=row) from None
    if not isinstance(record, dict):
        raise DataError("The line is not a JSON object.", file=path, row=row, value=record)
    return record
