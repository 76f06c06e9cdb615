"""The report that can be shown: one HTML file that needs no network and no other file.

A section is a function of a result that returns what its partial template `templates/sections/NAME.html.j2` shows, its
`title` among it, or None where there is nothing to show. `SECTIONS` has them in order. The one script of a page,
`templates/report.js`, only filters what is there: without it everything is shown.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune import atomic
from taxtune.progress import track
from taxtune.report import (
    confusion,
    descent,
    figures,
    gallery,
    heldout,
    iterations,
    provenance,
    spend,
    tree_view,
    winners,
    wording,
)
from taxtune.report.figures import history_figure, hp_hr_figure
from taxtune.report.outcome import first_screen
from taxtune.report.pictures import PICTURE_BYTES
from taxtune.report.wording import Result

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["SECTIONS", "ReportCallback", "page", "render_report", "save_report", "write_report"]

Section = Callable[..., dict[str, Any] | None]

#: The sections of a report in order, by the name of their partial template, which is their address in the page too.
SECTIONS: dict[str, Section] = {
    "heldout": heldout.section,
    "tree": tree_view.section,
    "confusion": confusion.section,
    "plane": figures.section,
    "winners": winners.section,
    "descent": descent.section,
    "iterations": iterations.section,
    "spend": spend.section,
    "provenance": provenance.section,
    "gallery": gallery.section,  # last, since it is as long as there are images
}
_TEMPLATES = Path(__file__).parent / "templates"


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
    _, plane = hp_hr_figure(result, folder)
    history = history_figure(result, folder)[1] if wording.result_runs(result) else None
    return atomic.write_text(Path(folder) / "report.html", render_report(result, plane=plane, history=history))


class ReportCallback:
    """Writes the report of a run, a comparison or an evaluation into its folder."""

    def on_written(self, result: Result) -> None:
        """Writes `report.html` and the figures."""
        with track("writing the report"):
            write_report(result, result.folder)


def save_report(result: Result, path: str | Path | None = None, *, picture_bytes: int | None = PICTURE_BYTES) -> Path:
    """Writes the report as one HTML file that needs no network and no other file.

    Args:
        result: A tuning run, or several compared.
        path: The file; `report.html` in the run's folder where left out.
        picture_bytes: Bytes that the pictures of images may take together; the images whose answers changed have theirs
            first. None for no limit.

    Raises:
        TaxtuneError: If it cannot be written.
    """
    file = Path(result.folder) / "report.html" if path is None else Path(path)
    return atomic.write_text(file, render_report(result, picture_bytes=picture_bytes))


def render_report(
    result: Result,
    *,
    plane: Path | None = None,
    history: Path | None = None,
    picture_bytes: int | None = PICTURE_BYTES,
) -> str:
    """Returns the report as HTML.

    Args:
        result: A tuning run, or several compared.
        plane: The SVG file of the hP-hR plane, where it is drawn already.
        history: The SVG file of the scores by iteration, where it is drawn already.
        picture_bytes: Bytes that the pictures of images may take together; None for no limit.
    """
    # What some sections are given besides the result.
    given = {"plane": plane, "iterations": history, "gallery": picture_bytes}
    shown = {
        name: section(result, given[name]) if name in given else section(result) for name, section in SECTIONS.items()
    }
    return page(
        "report.html.j2",
        title=wording.title(result),
        first=first_screen(result),
        sections={name: found for name, found in shown.items() if found is not None},
    )


def page(template: str, *, sections: dict[str, dict[str, Any]] | None = None, **values: Any) -> str:
    """Returns one of the pages in `templates/` as HTML.

    Every value that is not marked as safe is escaped, and the page forbids itself all foreign resources and every
    script but its own.

    Args:
        template: The page's template.
        sections: What each of its sections shows, by name.
        **values: What the template itself shows; `title`, and `headline` where it has no first screen of its own.
    """
    from markupsafe import Markup

    environment = _environment()
    # Of our own making, so that they need no escaping.
    script = Markup((_TEMPLATES / "report.js").read_text("utf-8"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    bodies = [
        {
            "name": name,
            "title": found["title"],
            "body": Markup(environment.get_template(f"sections/{name}.html.j2").render(**found)),
        }
        for name, found in (sections or {}).items()
    ]
    return environment.get_template(template).render(
        css=Markup("".join((_TEMPLATES / name).read_text("utf-8") for name in ("report.css", "sections.css"))),
        script=script,
        script_hash=f"sha256-{digest}",
        sections=bodies,
        **values,
    )


def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = wording.number
    environment.filters["metric"] = wording.metric_name
    environment.filters["signed"] = wording.signed
    environment.filters["visible"] = wording.visible
    environment.filters["steps"] = lambda path: path.replace("/", " › ")
    return environment
