"""The report of a run: one HTML file with its outcome, scores, confusions, curves, account and images.

A section is a function of a result that returns the values of its partial template
`templates/sections/NAME.html.j2`, its `title` among them, or None if there is nothing to show. The
one script of a page, `templates/report.js`, only filters the images: without it everything is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune import atomic
from taxtune.metrics.outcomes import EXACT, GENERAL, OFF_TREE, UNTRUE, WRONG
from taxtune.progress import track
from taxtune.report import gallery
from taxtune.report.candidates import candidate_table, choose_command
from taxtune.report.drawing import inline_svg, save_figure
from taxtune.report.figures import draw_curves, draw_plane, selective_figure
from taxtune.report.formatting import (
    Result,
    failed_calls,
    number,
    result_runs,
    rows_by_image,
    share_wrong,
    signed,
    spread_wrong,
    template_name,
    title,
)
from taxtune.report.output import page
from taxtune.report.summary import LABELS_WRONG, account_lines, summarise
from taxtune.report.tables import (
    doubt_table,
    iteration_table,
    rank_table,
    score_table,
    selective_table,
)
from taxtune.tuning.records import SampleResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ReportCallback", "render_report", "save_report", "write_report"]

#: What the scores are, in half a sentence.
_EXPLAINED = {
    "hp": "how much of what the answers say is true",
    "hr": "how much of what is true the answers say",
}
#: A sign for each state of an answer, so that none is told by its colour alone, and its class in
#: the page.
_SIGNS = {
    WRONG: ("✕", "worse"),
    OFF_TREE: ("✕", "worse"),
    GENERAL: ("✓", "better"),
    EXACT: ("✓", "better"),
}
_SIDE = 320  # pixels of the first screen's image


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
    _, plane = save_figure(lambda: draw_plane(result), folder / "hp_hr")
    history = None
    if result_runs(result):
        _, history = save_figure(lambda: draw_curves(result), folder / "history")
    page = render_report(result, plane=plane, history=history)
    return atomic.write_text(folder / "report.html", page)


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
        path: The file; None for `report.html` in the run's folder.

    Raises:
        TaxtuneError: If it cannot be written.
    """
    file = Path(result.folder) / "report.html" if path is None else Path(path)
    return atomic.write_text(file, render_report(result))


def render_report(result: Result, *, plane: Path | None = None, history: Path | None = None) -> str:
    """Returns the report as HTML.

    Args:
        result: A tuning run, or several compared.
        plane: The SVG file of the hP-hR plane, if it is drawn already.
        history: The SVG file of the scores by iteration, if it is drawn already.
    """
    sections = {
        "scores": _scores(result),
        "confusion": gallery.confused_pairs(result),
        "curves": _curves(result, plane, history),
        "account": _account(result),
        "gallery": gallery.all_images(result),  # last, since it is as long as there are images
    }
    shown = {name: section for name, section in sections.items() if section is not None}
    first = _first_screen(result)
    return page("report.html.j2", title=title(result), first=first, sections=shown)


def _first_screen(result: Result) -> dict[str, Any] | None:
    """Returns the values of the first screen; None if nothing was asked about held-out images."""
    if not result.heldout:
        return None
    return {
        "summary": summarise(result),
        "example": _example(result),
        "subjects": {name: subject for subject, name in enumerate(result.contenders)},
        "signs": _SIGNS,
        "explained": _EXPLAINED,
        "number": number,
        "signed": signed,
        "labels_wrong": LABELS_WRONG,
        "share_wrong": share_wrong,
        "spread_wrong": spread_wrong,
        "candidate_table": candidate_table,
        "choose_command": choose_command,
    }


def backed_off(result: Result) -> list[SampleResult]:
    """Returns answers that are right and general where the baseline's are wrong.

    They are those of the first template that has any, the most specific first.
    """
    baseline = result.heldout_baseline
    if baseline is None:
        return []
    # The hP of the baseline's wrong answers.
    wrong = {row.example: row.hp or 0 for row in baseline.rows if row.state in UNTRUE}
    for held in result.heldout:
        rows = [row for row in held.rows if row.example in wrong and row.state == GENERAL]
        if rows:
            # Of those the ones first that the baseline all but knew.
            return sorted(rows, key=lambda row: (-(row.hr or 0), -wrong[row.example]))
    return []


def _example(result: Result) -> dict[str, Any] | None:
    """Returns an image on which a template backed off rightly, with the answers of all templates.

    It is the first that has a picture; None if there is no such image.
    """
    rows = backed_off(result)
    if not rows:
        return None
    shown = rows[0]
    picture = None
    files = result.provenance.images
    for row in rows:
        file = files.get(row.example)
        picture = None if file is None else gallery.thumbnail(Path(file), _SIDE)
        if picture is not None:
            shown = row
            break
    answers = rows_by_image(result.heldout)[shown.example]
    return {"truth": shown.truth.split("/"), "picture": picture, "answers": answers}


def _scores(result: Result) -> dict[str, Any] | None:
    if not result.heldout:
        return None
    first = result.heldout[0]
    tables = [score_table(result), doubt_table(result), selective_table(result), rank_table(result)]
    return {
        "title": f"{first.split.capitalize()} scores",
        "tables": [table for table in tables if table.rows],
        "off_tree_as": first.off_tree_as,
    }


def _curves(result: Result, plane: Path | None, history: Path | None) -> dict[str, Any]:
    runs = result_runs(result)
    curves = None
    if runs:
        curves = _drawing(lambda: draw_curves(result), "history", history)
    return {
        "title": "Curves",
        "plane": _drawing(lambda: draw_plane(result), "plane", plane),
        "history": curves,
        "selective": _selective(result),
        "tables": [iteration_table(run) for run in runs],
        "split": result.heldout[0].split if result.heldout else "held-out",
    }


def _selective(result: Result) -> str | None:
    """Returns the drawing of precision against coverage; None where no curve is known."""
    curves = {}
    points = {}
    ends = {}
    for held in result.heldout:
        if held.selective is None or held.selective.curve is None:
            continue
        curve = held.selective.curve
        name = template_name(held.name)
        curves[name] = (curve.hr, curve.hp)
        points[f"{name}: as it answers"] = (held.scores.hr, held.scores.hp)
        ends[f"{name}: the deepest nodes"] = (curve.hr[-1], curve.hp[-1])
    if not curves:
        return None
    return _drawing(lambda: selective_figure(curves, points | ends), "selective")


def _drawing(draw: Callable[[], Figure], prefix: str, drawn: Path | None = None) -> str:
    """Returns one of our own drawings, in which every text has become a path, as safe HTML."""
    from markupsafe import Markup

    return Markup(inline_svg(draw, prefix, drawn))


def _account(result: Result) -> dict[str, Any]:
    calls = dict(account_lines(result.usage))
    failed = failed_calls(result)
    if failed is not None:
        calls["failed, those made again included"] = failed
    facts = {"Calls": calls, **result.provenance.facts}
    facts.pop("Effort", None)  # the account of the time when the run was finished
    return {"title": "Account", "facts": facts, "provenance": result.provenance}
