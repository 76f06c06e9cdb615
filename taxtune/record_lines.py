"""Reading `history.jsonl`, the finished iterations of a run: one line each, or several, of which the last counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["read_lines"]


def read_lines(file: Path) -> dict[int, dict[str, Any]]:
    """Returns the record of each iteration in the file, by its number, ascending.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is not a file of iterations.
    """
    content = file.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]  # a process that was killed may leave half a line
    records = [json.loads(line) for line in whole.split(b"\n") if line.strip()]
    try:
        found = {int(record["iteration"]): record for record in records}
    except (KeyError, TypeError) as error:
        raise ValueError(f"a line is not an iteration: {error}") from error
    return dict(sorted(found.items()))
