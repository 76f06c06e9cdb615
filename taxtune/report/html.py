"""The report of a run: one HTML file with the first screen, scores, confusions, curves, account, and all images.

A section is a function of a result that returns the values of its partial template `templates/sections/NAME.html.j2`,
its `title` among them, or None where there is nothing to show. The one script of a page, `templates/report.js`, only
filters the images: without it everything is shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from taxtune import atomic
from taxtune.progress import track
from taxtune.report import confusion, gallery
from taxtune.report.account import account_lines
from taxtune.report.curves import draw_curves, iteration_table
from taxtune.report.drawing import inline_svg, save_figure
from taxtune.report.outcome import first_screen
from taxtune.report.page import page
from taxtune.report.plane import draw_plane
from taxtune.report.scores import Result, failed_calls, rank_table, result_runs, score_table, title

__all__ = ["ReportCallback", "page", "render_report", "save_report", "write_report"]


def write_report(result: Result, folder: str | Path) -> Path:
    """Writes `report.html` and the figures (`hp_hr` and `history`, as PNG and SVG) into a folder.

    Args:
        result: A tuning run, or several compared.
        folder: Where to write.

    Returns:
        The report's path.

    Raises:
        TaxtuneError: If a file cannot be written.
    """
    folder = Path(folder)
    plane = save_figure(lambda: draw_plane(result), folder / "hp_hr")[1]
    history = save_figure(lambda: draw_curves(result), folder / "history")[1] if result_runs(result) else None
    return atomic.write_text(folder / "report.html", render_report(result, plane=plane, history=history))


class ReportCallback:
    """Writes the report of a run, a comparison or an evaluation into its folder."""

    def on_result(self, result: Result) -> None:
        """Writes `report.html` and the figures."""
        with track("writing the report"):
            write_report(result, result.folder)


def save_report(result: Result, path: str | Path | None = None) -> Path:
    """Writes the report as one HTML file that needs no network and no other file.

    Args:
        result: A tuning run, or several compared.
        path: The file; `report.html` in the run's folder where left out.

    Raises:
        TaxtuneError: If it cannot be written.
    """
    file = Path(result.folder) / "report.html" if path is None else Path(path)
    return atomic.write_text(file, render_report(result))


def render_report(result: Result, *, plane: Path | None = None, history: Path | None = None) -> str:
    """Returns the report as HTML.

    Args:
        result: A tuning run, or several compared.
        plane: The SVG file of the hP-hR plane, where it is drawn already.
        history: The SVG file of the scores by iteration, where it is drawn already.
    """
    sections = {
        "scores": _scores(result),
        "confusion": confusion.section(result),
        "curves": _curves(result, plane, history),
        "account": _account(result),
        "gallery": gallery.section(result),  # last, since it is as long as there are images
    }
    return page(
        "report.html.j2",
        title=title(result),
        first=first_screen(result),
        sections={name: section for name, section in sections.items() if section is not None},
    )


def _scores(result: Result) -> dict[str, Any] | None:
    if not result.heldout:
        return None
    first = result.heldout[0]
    return {
        "title": f"{first.split.capitalize()} scores",
        "tables": [table for table in (score_table(result), rank_table(result)) if table.rows],
        "off_tree_as": first.off_tree_as,
    }


def _curves(result: Result, plane: Path | None, history: Path | None) -> dict[str, Any]:
    from markupsafe import Markup

    runs = result_runs(result)
    # Our own drawings, in which every text has become a path.
    drawn = Markup(inline_svg(lambda: draw_curves(result), "history", history)) if runs else None
    return {
        "title": "Curves",
        "plane": Markup(inline_svg(lambda: draw_plane(result), "plane", plane)),
        "history": drawn,
        "tables": [iteration_table(run) for run in runs],
        "split": result.heldout[0].split if result.heldout else "held-out",
    }


def _account(result: Result) -> dict[str, Any]:
    facts = {"Calls": dict(account_lines(result.usage)), **result.provenance.facts}
    facts.pop("Effort", None)  # the account of the time when the run was finished
    failed = failed_calls(result)
    if failed is not None:
        facts["Calls"]["failed, those made again included"] = failed
    return {"title": "Account", "facts": facts, "provenance": result.provenance}
