"""Texts in the cells of a terminal, of which letters of some scripts take two."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["cut", "fitted", "wrapped"]


def cut(text: str, cells: int) -> str:
    """Returns what there is room for of a text, with an ellipsis where that is not all of it."""
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= cells else f"{set_cell_size(text, max(cells - 1, 0)).rstrip()}…"


def fitted(parts: Sequence[str], cells: int) -> str:
    """Returns the first of some texts in a line, as many as there is room for: none is cut, since they hold numbers."""
    from rich.cells import cell_len

    line, *rest = [part for part in parts if part] or [""]
    for part in rest:
        if cell_len(f"{line}  {part}") > cells:
            break
        line = f"{line}  {part}"
    return line


def wrapped(text: str, cells: int) -> str:
    """Returns a text in lines of so many cells, broken at blanks alone: a longer path is whole when it is copied."""
    from rich.cells import cell_len

    lines: list[str] = []
    for line in text.split("\n"):
        if cell_len(line) <= cells:
            lines.append(line)
            continue
        indent = " " * (len(line) - len(line.lstrip(" ")))
        room = ""
        for word in line.split():
            if room.strip() and cell_len(f"{room} {word}") > cells:
                lines.append(room)
                room = f"{indent}  {word}"
            else:
                room = f"{room} {word}" if room else f"{indent}{word}"
        lines.append(room)
    return "\n".join(lines)
