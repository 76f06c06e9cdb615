"""What a study hands out: tables, figures and numbers, on the terminal, as JSON, and as files."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.progress import note
from taxtune.untrusted import spreadsheet_cell

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from taxtune.metrics.statistics import Interval
    from taxtune.taxonomy import Taxonomy

__all__ = ["Cell", "StudyReport", "Table", "cut", "intervals_table", "node_name", "numbered", "publish"]

Cell = str | int | float | None

_NOTHING = "–"


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
        """Returns a mapping for each row, unrounded; NaN and infinities, which JSON has none of, as None."""
        return [dict(zip(self.columns, map(_plain, row), strict=True)) for row in self.rows]

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
        return [_is_numeric([row[i] for row in self.rows]) for i in range(len(self.columns))]

    def markdown(self) -> str:
        """Returns the table as Markdown, with its title above and its notes below."""
        rows = [[_escaped(cell) for cell in row] for row in [list(self.columns), *self.shown()]]
        ruler = ["---:" if number else "---" for number in self.numeric]
        lines = ["| " + " | ".join(row) + " |" for row in [rows[0], ruler, *rows[1:]]]
        return "\n".join([f"**{self.title}**", "", *lines, "", *(f"- {note}" for note in self.notes)]).rstrip() + "\n"

    def csv(self) -> str:
        """Returns the table as CSV, unrounded; no value is an empty cell."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(["" if _plain(cell) is None else spreadsheet_cell(cell) for cell in row] for row in self.rows)
        return buffer.getvalue()


@dataclass(frozen=True, slots=True)
class StudyReport:
    """The result of a study.

    Attributes:
        study: Its name on the command line.
        title: What it asks.
        settings: Everything that is needed to run it again, the seed included.
        tables: The tables, the main one first.
        figures: What draws each figure, by file stem.
        notes: Stated, counted exclusions and other things to know.
        data: Further numbers for `--json`, not shown as a table.
    """

    study: str
    title: str
    settings: Mapping[str, Any]
    tables: tuple[Table, ...]
    figures: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)

    def table(self, name: str) -> Table:
        """Returns a table by the stem of its files.

        Raises:
            KeyError: If there is none of that name.
        """
        return {table.name: table for table in self.tables}[name]

    def write(self, out: Path) -> Path:
        """Writes `study.json`, `report.html`, tables as CSV and Markdown, figures as PNG and SVG; returns the folder.

        Raises:
            TaxtuneError: If a file cannot be written.
        """
        from taxtune import atomic
        from taxtune.report.drawing import save_figure
        from taxtune.report.study_page import render_study

        folder = atomic.make_folder(out)
        # Drawing is what may fail, so it comes first; study.json comes last: where it is, all is.
        for stem, draw in self.figures.items():
            save_figure(draw, folder / stem)
        for table in self.tables:
            atomic.write_text(folder / f"{table.name}.csv", table.csv())
            atomic.write_text(folder / f"{table.name}.md", table.markdown())
        atomic.write_text(folder / "report.html", render_study(self, folder))
        atomic.write_json(folder / "study.json", self.as_json())
        return folder

    def as_json(self) -> dict[str, Any]:
        """Returns what `--json` prints."""
        import taxtune

        return {
            "study": self.study,
            "title": self.title,
            "taxtune": taxtune.__version__,
            "settings": _clean(self.settings),
            "tables": {table.name: table.records() for table in self.tables},
            "table_notes": {table.name: list(table.notes) for table in self.tables if table.notes},
            "notes": list(self.notes),
            **_clean(self.data),
        }


def cut(name: str, longest: int) -> str:
    """Returns a name as a figure shows it: of a long one the middle is left out, where names differ least.

    Control characters are spelled out, and dollar signs stand for themselves and not for a formula.
    """
    from taxtune.report.wording import visible

    name = visible(" ".join(name.split()))
    if len(name) > longest:
        tail = longest // 2
        name = f"{name[: longest - tail - 1].rstrip()}…{name[-tail:].lstrip()}"
    return name.replace("$", r"\$")


def node_name(taxonomy: Taxonomy, node: int) -> str:
    """Returns a node's label, with its common name where it has another."""
    label, common = taxonomy.labels[node], taxonomy.common_name(node)
    return label if common == label else f"{label} ({common})"


def intervals_table(
    heads: tuple[str, ...], rows: Iterable[tuple[tuple[Cell, ...], Interval]], note: str, *, value: str = "estimate"
) -> Table:
    """Returns the table of the intervals that go with a table of shares, in %.

    Args:
        heads: The headings of what the intervals are of.
        rows: What each interval is of, and the interval, in 0..1.
        note: How the intervals were made.
        value: The heading of the share itself.
    """
    columns = (*heads, value, "low", "high")
    cells = tuple((*of, *(100 * end for end in (one.estimate, one.low, one.high))) for of, one in rows)
    title = "The same with 95 % intervals"
    return Table("intervals", title, columns, cells, digits=dict.fromkeys(columns[-3:], 2), notes=(note,))


def numbered(stem: str, n: int) -> list[str]:
    """Returns the stems of n figures of one kind: the stem itself where there is one, else "stem-1" and so on."""
    return [stem] if n == 1 else [f"{stem}-{i}" for i in range(1, n + 1)]


def publish(report: StudyReport, *, out: Path | None, as_json: bool) -> None:
    """Prints a report, and writes its files where a folder is given.

    Args:
        report: The report.
        out: A folder for `study.json`, tables and figures; None for none.
        as_json: Whether to print one JSON object instead of tables.

    Raises:
        TaxtuneError: If a file cannot be written.
    """
    if out is not None:
        print(f"taxtune: written to {report.write(out)}", file=sys.stderr)
    if as_json:
        print(json.dumps(report.as_json(), ensure_ascii=False, indent=2, allow_nan=False))
        return
    _print(report)
    if out is None and report.figures:
        note("with --out FOLDER the tables and figures are written to files.")


def _print(report: StudyReport) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    from taxtune.report.wording import visible

    console = Console()
    if not console.is_terminal:
        # A pipe has no width: nothing is wrapped or cut.
        console = Console(width=10_000, no_color=True)
    for table in report.tables:
        shown = RichTable(box=box.SIMPLE_HEAD, title=table.title, title_justify="left", title_style="bold")
        cells = table.shown()
        for i, (column, numbers) in enumerate(zip(table.columns, table.numeric, strict=True)):
            # On a narrow terminal text is folded; a number that is cut short would be another number.
            width = max((len(row[i]) for row in cells), default=0) if numbers else None
            shown.add_column(Text(column), justify="right" if numbers else "left", min_width=width, overflow="fold")
        for row in cells:
            # Text, not markup: names may hold square brackets. And what answers hold is not for the terminal to obey.
            shown.add_row(*(Text(visible(cell)) for cell in row))
        console.print(shown, crop=False)
        for text in table.notes:
            console.print(Text(f"  {text}"))
    for text in report.notes:
        note(text)


def _is_numeric(cells: Sequence[Cell]) -> bool:
    return bool(cells) and all(cell is None or isinstance(cell, int | float) for cell in cells)


def _plain(cell: Any) -> Any:
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def _clean(value: Any) -> Any:
    """Returns a value that JSON can hold: no NaN, no NumPy scalar, no path."""
    if isinstance(value, Mapping):
        return {str(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return _clean(value.tolist())
    return _plain(value)


def _text(cell: Cell, digits: int) -> str:
    cell = _plain(cell)
    if cell is None:
        return _NOTHING
    if isinstance(cell, float):
        text = f"{cell:.{digits}f}"
        # -0.000 is a number that is zero to a reader.
        return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")
    if isinstance(cell, int) and not isinstance(cell, bool):
        return f"{cell:,}".replace("-", "−")
    return str(cell)


def _escaped(cell: str) -> str:
    """Returns a cell of a Markdown table: on one line, and neither a column's edge nor HTML in it."""
    from taxtune.report.wording import visible

    return re.sub(r"([|<])", r"\\\1", visible(" ".join(cell.split())))
