"""The output of a study: tables, figures and numbers, on the terminal, as JSON, and as files with a page."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.progress import note
from taxtune.report.table import Cell, Table, plain_cell
from taxtune.untrusted import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from taxtune.metrics.statistics import Interval
    from taxtune.taxonomy import Taxonomy

__all__ = ["Cell", "StudyReport", "Table", "cut", "intervals_table", "node_name", "numbered", "publish"]


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

        folder = atomic.make_folder(out)
        # Drawing is what may fail, so it comes first; study.json comes last: where it is, all is.
        for stem, draw in self.figures.items():
            save_figure(draw, folder / stem)
        for table in self.tables:
            atomic.write_text(folder / f"{table.name}.csv", table.csv())
            atomic.write_text(folder / f"{table.name}.md", table.markdown())
        atomic.write_text(folder / "report.html", self._page(folder))
        atomic.write_json(folder / "study.json", self.as_json())
        return folder

    def as_json(self) -> dict[str, Any]:
        """Returns the report as `--json` prints it."""
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

    def _page(self, folder: Path) -> str:
        """Returns the page of the study, whose figures lie in the folder."""
        from markupsafe import Markup

        import taxtune
        from taxtune.report.drawing import inline_svg
        from taxtune.report.page import page

        settings = {name: value for name, value in self.settings.items() if value not in (None, (), [], {}, "")}
        texts = {
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            for name, value in settings.items()
        }
        return page(
            "study.html.j2",
            title=self.title,
            headline=f"taxtune study {self.study}",
            notes=self.notes,
            figures=[  # our own drawings, in which every text has become a path
                {"name": stem, "svg": Markup(inline_svg(draw, stem, folder / f"{stem}.svg"))}
                for stem, draw in self.figures.items()
            ],
            tables=self.tables,
            settings={"taxtune": taxtune.__version__, **texts},
        )


def cut(name: str, longest: int) -> str:
    """Returns a name for a figure: of a long one the middle is left out, where names differ least.

    Control characters are spelled out, and dollar signs stand for themselves and not for a formula.
    """
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
        heads: The headings of the columns that say which share it is.
        rows: These columns' cells, and the interval, in 0..1.
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
    from rich.console import Console

    console = Console()
    # A pipe has no width: nothing is wrapped or cut.
    width = console.width if console.is_terminal else None
    for table in report.tables:
        for line in [*table.lines(width), *(f"  {text}" for text in table.notes)]:
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    for text in report.notes:
        note(text)
    if out is None and report.figures:
        note("with --out FOLDER the tables and figures are written to files.")


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
    return plain_cell(value)
