"""The report of a study: its figures and tables on one page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.report.drawing import inline_svg
from taxtune.report.html import page

if TYPE_CHECKING:
    from markupsafe import Markup

    from taxtune.report.output import StudyReport

__all__ = ["render_study"]


def render_study(report: StudyReport, folder: Path) -> str:
    """Returns a study's report as HTML.

    Args:
        report: The study.
        folder: Where its figures are drawn already.
    """
    import taxtune

    return page(
        "study.html.j2",
        title=report.title,
        headline=f"taxtune study {report.study}",
        notes=report.notes,
        figures=[{"name": stem, "svg": _drawn(report, stem, folder)} for stem in report.figures],
        tables=[
            {
                "title": table.title,
                "columns": list(zip(table.columns, table.numeric, strict=True)),
                "rows": table.shown(),
                "notes": table.notes,
            }
            for table in report.tables
        ],
        settings={"taxtune": taxtune.__version__, **{name: _text(value) for name, value in _set(report).items()}},
    )


def _drawn(report: StudyReport, stem: str, folder: Path) -> Markup:
    from markupsafe import Markup

    # Our own drawing, in which every text has become a path.
    return Markup(inline_svg(lambda given: given.figures[stem](), report, stem, folder / f"{stem}.svg"))


def _set(report: StudyReport) -> dict[str, Any]:
    return {name: value for name, value in report.settings.items() if value not in (None, (), [], {}, "")}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
