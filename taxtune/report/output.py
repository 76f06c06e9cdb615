"""Tables of results, the output of a study, and HTML pages: on the terminal, as JSON, and as files."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from taxtune import atomic
from taxtune.progress import note
from taxtune.resources import version
from taxtune.tables import csv_text
from taxtune.untrusted import redact, spreadsheet_cell, visible

if TYPE_CHECKING:
    import pandas as pd
    from jinja2 import Environment
    from matplotlib.figure import Figure

    from taxtune.taxonomy import Taxonomy

__all__ = [
    "Cell",
    "StudyReport",
    "Table",
    "cut",
    "node_name",
    "numbered",
    "page",
    "plain",
    "publish",
]

_TEMPLATES = Path(__file__).parent / "templates"

Cell = str | int | float | None
#: The fewest characters to which a column of text is folded.
_LEAST_TEXT = 8


@dataclass(frozen=True, slots=True)
class Table:
    """A table of results.

    Attributes:
        name: The stem of its files.
        title: What it shows.
        columns: The headings.
        rows: The cells; None and NaN mean that there is no value and are shown as a dash, never as
            0.
        digits: Decimals by column; three for a column that is not named.
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
                cells = f"{len(row)} cells for {len(self.columns)} columns"
                raise ValueError(f"Table {self.name}: {cells}: {row!r}")

    @classmethod
    def from_records(
        cls,
        name: str,
        title: str,
        records: Sequence[Mapping[str, Cell]],
        *,
        digits: Mapping[str, int] = MappingProxyType({}),
        notes: Sequence[str] = (),
    ) -> Table:
        """Returns a table of mappings; the columns are their keys, in the order of appearance."""
        columns = dict.fromkeys(column for record in records for column in record)
        rows = [tuple(map(record.get, columns)) for record in records]
        return cls(
            name=name,
            title=title,
            columns=tuple(columns),
            rows=tuple(rows),
            digits=digits,
            notes=tuple(notes),
        )

    def records(self) -> list[dict[str, Cell]]:
        """Returns a mapping per row, unrounded; NaN and infinities, which JSON lacks, as None."""
        return [dict(zip(self.columns, map(plain, row), strict=True)) for row in self.rows]

    def to_frame(self) -> pd.DataFrame:
        """Returns the rows as a data frame, unrounded."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=list(self.columns))

    def shown(self) -> list[list[str]]:
        """Returns the cells as text, rounded."""
        digits = [self.digits.get(column, 3) for column in self.columns]
        return [list(map(_text, row, digits)) for row in self.rows]

    @property
    def numeric(self) -> list[bool]:
        """Whether each column holds numbers; one without rows does not."""
        if not self.rows:
            return [False] * len(self.columns)
        columns = zip(*self.rows, strict=True)
        return [all(isinstance(cell, int | float | None) for cell in cells) for cells in columns]

    def lines(self, width: int | None = None, *, right: bool = False) -> list[str]:
        """Returns the table as lines of text: its title, if it has one, and the rows.

        Text is folded into `width` cells; numbers are never broken. Control characters are spelled
        out.

        Args:
            width: Cells of the terminal; None for no limit, as in a file.
            right: Whether every column but the first is aligned to the right, as ready-made numbers
                are.
        """
        from rich import box
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text

        cells = self.shown()
        widest = [max(map(len, column), default=0) for column in zip(*cells, strict=True)]
        widest = widest or [0] * len(self.columns)
        natural = sum(map(max, map(len, self.columns), widest)) + 2 * len(self.columns)
        is_narrow = width is not None and natural > width
        frame = None if right else box.SIMPLE_HEAD
        drawn = RichTable(box=frame, pad_edge=not right, title=self.title or None)
        drawn.title_justify = "left"
        if is_narrow and not right:
            drawn.padding = (0, 1, 0, 0)
        least = []
        for i, (column, is_number) in enumerate(zip(self.columns, self.numeric, strict=True)):
            if not is_number and (i == 0 or not right):
                least.append(min(widest[i], _LEAST_TEXT))
                drawn.add_column(Text(column), overflow="fold", min_width=least[i])
                continue
            head = column
            if is_narrow:
                # A number that is cut short would be another number: its heading is folded instead.
                folded = textwrap.wrap(column, max(6, widest[i]), break_long_words=False)
                head = "\n".join(folded)
            least.append(max(widest[i], *map(len, head.split("\n"))))
            drawn.add_column(Text(head), justify="right", min_width=widest[i], no_wrap=True)
        for row in cells:
            drawn.add_row(*(Text(visible(cell)) for cell in row))
        # A column that has no room would not be there at all: then lines are longer.
        room = max(width or 10_000, sum(least) + 2 * len(least) + 1)
        buffer = io.StringIO()
        console = Console(file=buffer, width=room, color_system=None, force_terminal=False)
        console.print(drawn, crop=False)
        lines = buffer.getvalue().splitlines()
        return [line.rstrip() for line in lines] if right else lines

    def markdown(self) -> str:
        """Returns the table as Markdown, with its title above and its notes below."""
        ruler = ["---:" if is_number else "---" for is_number in self.numeric]
        head, *rows = [list(map(_escaped, row)) for row in [self.columns, *self.shown()]]
        lines = [f"**{self.title}**", ""] if self.title else []
        lines += [f"| {' | '.join(row)} |" for row in [head, ruler, *rows]]
        lines.append("")
        lines += [f"- {note}" for note in self.notes]
        return "\n".join(lines).rstrip() + "\n"

    def html(self) -> str:
        """Returns the table as HTML for a notebook: every text is escaped, long ones are cut."""
        import pandas as pd

        rows = []
        for row in self.shown():
            rows.append([textwrap.shorten(cell, 80, placeholder="…") for cell in row])
        frame = pd.DataFrame(rows, columns=list(self.columns))
        return f"<p>{escape(self.title)}</p>{frame.to_html(index=False)}"

    def csv(self) -> str:
        """Returns the table as CSV, unrounded; a missing value is an empty cell."""
        rows = [[spreadsheet_cell(plain(cell)) for cell in row] for row in self.rows]
        return csv_text(self.columns, rows)


def _text(cell: Cell, digits: int) -> str:
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return "–"
    if isinstance(cell, float):
        text = f"{cell:.{digits}f}"
        # -0.000 is a number that is zero to a reader.
        return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")
    if isinstance(cell, int) and not isinstance(cell, bool):
        return f"{cell:,}".replace("-", "−")
    return str(cell)


def _escaped(cell: str) -> str:
    """Returns a cell of a Markdown table: one line that has neither a column's edge nor HTML."""
    return re.sub(r"([|<])", r"\\\1", visible(" ".join(cell.split())))


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
        """Writes the report's files, and returns the folder.

        They are `study.json`, `report.html`, the tables as CSV and Markdown, and the figures as PNG
        and SVG.

        Raises:
            TaxtuneError: If a file cannot be written.
        """
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
        notes = {table.name: list(table.notes) for table in self.tables if table.notes}
        return {
            "study": self.study,
            "title": self.title,
            "taxtune": version(),
            "settings": plain(self.settings),
            "tables": {table.name: table.records() for table in self.tables},
            "table_notes": notes,
            "notes": list(self.notes),
            **plain(self.data),
        }

    def _page(self, folder: Path) -> str:
        """Returns the page of the study, whose figures lie in the folder."""
        from markupsafe import Markup

        from taxtune.report.drawing import inline_svg

        settings = {"taxtune": version()}
        for name, value in self.settings.items():
            if isinstance(value, str) and value:
                settings[name] = value
            elif value not in (None, (), [], {}, ""):
                settings[name] = json.dumps(value, ensure_ascii=False, default=str)
        figures = []
        for stem, draw in self.figures.items():
            # Our own drawing, in which every text has become a path.
            svg = Markup(inline_svg(draw, stem, folder / f"{stem}.svg"))
            figures.append({"name": stem, "svg": svg})
        return page(
            "study.html.j2",
            title=self.title,
            headline=f"taxtune study {self.study}",
            notes=self.notes,
            figures=figures,
            tables=self.tables,
            settings=settings,
        )


def cut(name: str, longest: int) -> str:
    """Returns a name for a figure; a long one lacks its middle, where names differ least.

    Control characters are spelled out, and dollar signs stand for themselves and not for a formula.
    """
    name = visible(" ".join(name.split()))
    if len(name) > longest:
        tail = longest // 2
        head = longest - tail - 1
        name = f"{name[:head].rstrip()}…{name[-tail:].lstrip()}"
    return name.replace("$", r"\$")


def node_name(taxonomy: Taxonomy, node: int) -> str:
    """Returns a node's label, with its common name where it has another."""
    label = taxonomy.labels[node]
    common = taxonomy.common_name(node)
    return label if common == label else f"{label} ({common})"


def numbered(stem: str, n: int) -> list[str]:
    """Returns the stems of n figures of one kind: the stem itself for one, else "stem-1" and so on."""
    return [stem] if n == 1 else [f"{stem}-{i}" for i in range(1, n + 1)]


def publish(report: StudyReport, *, out: Path | None, as_json: bool) -> None:
    """Prints a report, and writes its files if a folder is given.

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
        notes = [f"  {text}" for text in table.notes]
        for line in [*table.lines(width), *notes]:
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    for text in report.notes:
        note(text)
    if out is None and report.figures:
        note("with --out FOLDER the tables and figures are written to files.")


def plain(value: Any) -> Any:
    """Returns a value that JSON can hold.

    NaN and infinities become None, NumPy's values Python's, and paths text. Passwords in addresses
    are left out: results are meant to be shown.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, int) else redact(str(value))


def page(template: str, *, sections: dict[str, dict[str, Any]] | None = None, **values: Any) -> str:
    """Returns one of the pages in `templates/` as HTML.

    Every value that is not marked as safe is escaped, and the page forbids itself all foreign
    resources and every script but its own.

    Args:
        template: The page's template.
        sections: The values of its sections by name; each has a partial template and a `title`.
        **values: The values of the template itself; `title`, and `headline` if it has no first
            screen of its own.
    """
    from markupsafe import Markup

    environment = _environment()
    script = (_TEMPLATES / "report.js").read_text("utf-8")
    css = (_TEMPLATES / "report.css").read_text("utf-8")
    digest = hashlib.sha256(script.encode()).digest()
    bodies = []
    for name, section in (sections or {}).items():
        partial = environment.get_template(f"sections/{name}.html.j2")
        body = Markup(partial.render(**section))
        bodies.append({"name": name, "title": section["title"], "body": body})
    return environment.get_template(template).render(
        # Script and style are our own, so that they need no escaping.
        css=Markup(css),
        script=Markup(script),
        script_hash=f"sha256-{base64.b64encode(digest).decode('ascii')}",
        sections=bodies,
        **values,
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from taxtune.metrics.names import metric_name  # which loads NumPy

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["metric"] = metric_name
    environment.filters["visible"] = visible
    return environment
