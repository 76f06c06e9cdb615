"""The figures of a run: the hP-hR plane (paper 1, Figure 6) and the scores by iteration, as PNG and SVG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from taxtune.report.curves import draw_curves
from taxtune.report.drawing import inline_svg, write_figure
from taxtune.report.plane import draw_plane
from taxtune.report.wording import Result

__all__ = ["history_figure", "history_svg", "hp_hr_figure", "hp_hr_svg", "section"]


def hp_hr_figure(result: Result, folder: str | Path) -> list[Path]:
    """Draws the hP-hR plane with every iteration, the winners and the baseline.

    Small markers are iterations, on the tuning split; large ones, with bars of their 95 % intervals, are the baseline
    and the winners on the held-out split. Grey curves join points of equal hF.

    Args:
        result: A tuning run, or several compared.
        folder: Where `hp_hr.png` (200 dpi) and `hp_hr.svg` are written.

    Returns:
        The two paths, the PNG first.

    Raises:
        TaxtuneError: If a file cannot be written.
    """
    return write_figure(draw_plane, result, Path(folder) / "hp_hr")


def history_figure(result: Result, folder: str | Path) -> list[Path]:
    """Draws the scores on the tuning split by iteration, with the best so far and what failed.

    Args:
        result: A tuning run, or several compared; one panel a run.
        folder: Where `history.png` (200 dpi) and `history.svg` are written.

    Returns:
        The two paths, the PNG first.

    Raises:
        TaxtuneError: If a file cannot be written.
    """
    return write_figure(draw_curves, result, Path(folder) / "history")


def hp_hr_svg(result: Result, drawn: Path | None = None) -> str:
    """Returns the hP-hR plane as an `<svg>` element for a page that defines the colours as CSS variables.

    Args:
        result: A tuning run, or several compared.
        drawn: The SVG file that `hp_hr_figure` has written of it, which need not be drawn again.
    """
    return inline_svg(draw_plane, result, "plane", drawn)


def history_svg(result: Result, drawn: Path | None = None) -> str:
    """Returns the scores by iteration as an `<svg>` element for a page that defines the colours as CSS variables.

    Args:
        result: A tuning run, or several compared.
        drawn: The SVG file that `history_figure` has written of it, which need not be drawn again.
    """
    return inline_svg(draw_curves, result, "history", drawn)


def section(result: Result, drawn: Path | None = None) -> dict[str, Any] | None:
    """Returns the hP-hR plane for the report, None where there is no template to draw.

    Args:
        result: A tuning run, or several compared.
        drawn: The SVG file that `hp_hr_figure` has written of it.
    """
    from markupsafe import Markup

    # Our own drawing, in which every text has become a path.
    return {
        "title": "Precision against recall",
        "plane": Markup(hp_hr_svg(result, drawn)),
        "split": result.heldout[0].split if result.heldout else "held-out",
    }
