"""A table of results: on the terminal, in a page, as CSV, Markdown, JSON and as a data frame."""

from __future__ import annotations

import csv
import io
import math
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from taxtune.untrusted import spreadsheet_cell, visible

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Cell", "Table", "plain_cell"]

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table of results.

    Attributes:
        name: The stem of its files.
        title: What it shows.
        columns: The headings.
        rows: The cells; None and NaN mean that there is no value and are shown as a dash, never as 0.
        digits: Decimals by column; three where a column is not named.
        notes: What a reader must know: exclusions with their counts, how a value was made.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    digits: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"Table {self.name}: {len(row)} cells for {len(self.columns)} columns: {row!r}")

    def records(self) -> list[dict[str, Cell]]:
        """Returns a mapping per row, unrounded; NaN and infinities, which JSON lacks, as None."""
        return [dict(zip(self.columns, map(plain_cell, row), strict=True)) for row in self.rows]

    def to_frame(self) -> pd.DataFrame:
        """Returns the rows as a data frame, unrounded."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=list(self.columns))

    def shown(self) -> list[list[str]]:
        """Returns the cells as text, rounded."""
        return [
            [_text(cell, self.digits.get(column, 3)) for column, cell in zip(self.columns, row, strict=True)]
            for row in self.rows
        ]

    @property
    def numeric(self) -> list[bool]:
        """Whether each column holds numbers; one without rows does not."""
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.columns)
        return [
            bool(cells) and all(cell is None or isinstance(cell, int | float) for cell in cells) for cells in columns
        ]

    def lines(self, width: int | None = None, *, right: bool = False) -> list[str]:
        """Returns the table as lines of text: its title, where it has one, and the rows.

        Text is folded into `width` cells, where given; numbers are never broken. Control characters are spelled out.

        Args:
            width: Cells of the terminal; None for no limit, as in a file.
            right: Whether every column but the first is aligned to the right, as ready-made numbers are.
        """
        from rich import box
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text

        cells = self.shown()
        drawn = RichTable(box=None if right else box.SIMPLE_HEAD, pad_edge=not right, title=self.title or None)
        drawn.title_justify = "left"
        widest = [max((len(row[i]) for row in cells), default=0) for i in range(len(self.columns))]
        natural = sum(max(len(name), cell) + 2 for name, cell in zip(self.columns, widest, strict=True))
        for i, (column, numbers) in enumerate(zip(self.columns, self.numeric, strict=True)):
            if numbers or (right and i > 0):
                # A number that is cut short would be another number: its heading is folded instead.
                folded = width is not None and natural > width
                head = "\n".join(textwrap.wrap(column, max(9, widest[i]))) if folded else column
                drawn.add_column(Text(head), justify="right", min_width=widest[i], no_wrap=True)
            else:
                drawn.add_column(Text(column), overflow="fold")
        for row in cells:
            drawn.add_row(*(Text(visible(cell)) for cell in row))
        console = Console(file=io.StringIO(), width=width or 10_000, color_system=None, force_terminal=False)
        console.print(drawn, crop=False)
        lines: list[str] = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        return [line.rstrip() for line in lines] if right else lines

    def markdown(self) -> str:
        """Returns the table as Markdown, with its title above and its notes below."""
        rows = [[_escaped(cell) for cell in row] for row in [list(self.columns), *self.shown()]]
        ruler = ["---:" if number else "---" for number in self.numeric]
        lines = ["| " + " | ".join(row) + " |" for row in [rows[0], ruler, *rows[1:]]]
        return "\n".join([f"**{self.title}**", "", *lines, "", *(f"- {note}" for note in self.notes)]).rstrip() + "\n"

    def csv(self) -> str:
        """Returns the table as CSV, unrounded; a missing value is an empty cell."""
        buffer = io.StringIO()
        rows = ([spreadsheet_cell(plain_cell(cell)) for cell in row] for row in self.rows)
        csv.writer(buffer, lineterminator="\n").writerows([self.columns, *rows])
        return buffer.getvalue()


def plain_cell(cell: Any) -> Any:
    """Returns a cell that JSON can hold: NaN and infinities become None."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def _text(cell: Cell, digits: int) -> str:
    cell = plain_cell(cell)
    if cell is None:
        return "–"
    if isinstance(cell, float):
        text = f"{cell:.{digits}f}"
        # -0.000 is a number that is zero to a reader.
        return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")
    if isinstance(cell, int) and not isinstance(cell, bool):
        return f"{cell:,}".replace("-", "−")
    return str(cell)


def _escaped(cell: str) -> str:
    """Returns a cell of a Markdown table: on one line, and neither a column's edge nor HTML in it."""
    return re.sub(r"([|<])", r"\\\1", visible(" ".join(cell.split())))
