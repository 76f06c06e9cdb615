"""Reading `history.jsonl`, the finished iterations of a run: one line each, or several, of which the last counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["current_row", "parsed", "read_lines", "whole_lines"]


def read_lines(file: Path) -> dict[int, dict[str, Any]]:
    """Returns what the file says of each iteration, by its number, ascending.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is not a file of iterations.
    """
    found = dict(parsed(whole_lines(file.read_bytes())))
    return dict(sorted(found.items()))


def whole_lines(content: bytes) -> bytes:
    """Returns what ends with a newline; a process that was killed may leave half a line."""
    return content[: content.rfind(b"\n") + 1]


def parsed(lines: bytes) -> list[tuple[int, dict[str, Any]]]:
    """Returns the iteration of each line, and what the line says of it.

    Raises:
        ValueError: If a line is not an iteration.
    """
    records = [json.loads(line) for line in lines.split(b"\n") if line.strip()]
    try:
        return [(int(record["iteration"]), record) for record in records]
    except (KeyError, TypeError) as error:
        raise ValueError(f"a line is not an iteration: {error}") from error


def current_row(row: Any) -> Any:
    """Returns the row of an image as this version has it: earlier ones called the placement "placed"."""
    if isinstance(row, dict) and {"example", "placed"} <= row.keys():
        return {"placement" if key == "placed" else key: value for key, value in row.items()}
    return row
