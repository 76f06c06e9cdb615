"""JSON that people give to studies: what is wrong with it is said with file and row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from taxtune.errors import DataError

__all__ = ["parse_json", "parse_object"]


def parse_json(text: str, path: Path, *, what: str, remedy: str | None = None) -> Any:
    """Returns the content of a JSON file.

    Args:
        text: The file's text.
        path: The file, for messages.
        what: What it holds, for messages.
        remedy: What to do where it is none.

    Raises:
        DataError: If it is not valid JSON, or nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise DataError(f"The {what} file is nested too deeply.", file=path) from None
    except ValueError as error:
        raise DataError(f"The {what} file is not valid JSON: {error}.", file=path, remedy=remedy) from None


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
        raise DataError("The line is no JSON object.", file=path, row=row, value=record)
    return record
