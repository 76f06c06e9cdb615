"""What the readers of the sources give: rows whose labels are not looked up yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Record"]


@dataclass(frozen=True, slots=True)
class Record:
    """One row of a source, before its label is looked up.

    Attributes:
        image: The image's name as the source writes it.
        file: The image file.
        label: The label as the source writes it.
        where: The row, for messages ("row 12").
        references: What to look up on the taxonomy, a label or a path of labels, the first that is there counts.
    """

    image: str
    file: Path
    label: str
    where: str
    references: tuple[str | tuple[str, ...], ...]
