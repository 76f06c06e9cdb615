"""The style of every figure, and figures as files and as parts of a page.

Colours are those of Okabe and Ito (2008), which people with any common colour vision can
distinguish. Every objective has its own marker too, so that the figures survive a black-and-white
printer. The same result gives the same SVG, byte by byte.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from taxtune import atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

__all__ = [
    "CYCLE",
    "FAINT",
    "GREY",
    "INK",
    "LOOKS",
    "MARKER_CYCLE",
    "PAPER",
    "Look",
    "draw_iso_lines",
    "inline_svg",
    "look_of",
    "padded",
    "save_figure",
]

INK = "#1b1b1b"
GREY = "#707070"
FAINT = "#cfcfcf"
PAPER = "#ffffff"


class Look(NamedTuple):
    """The colour and the marker of a series."""

    colour: str
    marker: str


LOOKS = {
    "hp": Look("#0072b2", "o"),
    "accuracy": Look("#d55e00", "^"),
    "hf": Look("#009e73", "s"),
    "hr": Look("#cc79a7", "v"),
    "ihp": Look("#56b4e9", "h"),
    "ihf": Look("#000000", "P"),
}
#: For an objective of the run's own: a measure of text, or a function.
_OWN_LOOK = Look("#e69f00", "D")
#: For series without a meaning of their own: Okabe and Ito's colours, the readable ones first, and
#: as many markers.
CYCLE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#1b1b1b", "#707070")
MARKER_CYCLE = ("o", "^", "s", "v", "D", "P", "X", "*")
#: For SVG inside a page: each colour becomes a CSS variable, so that the page can follow the
#: reader's dark mode.
_VARIABLES = {
    INK: "ink",
    GREY: "grey",
    FAINT: "faint",
    PAPER: "paper",
    **{look.colour: objective for objective, look in LOOKS.items()},
    _OWN_LOOK.colour: "own",
}
_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "text.color": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.hashsalt": "taxtune",
    "svg.fonttype": "path",
    "path.simplify": False,
}


def look_of(objective: str) -> Look:
    """Returns the look of an objective or a score."""
    return LOOKS.get(objective, _OWN_LOOK)


def _style() -> AbstractContextManager[None]:
    import matplotlib as mpl

    # The reader's own matplotlibrc must not change the figure.
    settings = {**mpl.rcParamsDefault, **_STYLE, "backend": "agg"}
    style: AbstractContextManager[None] = mpl.rc_context(settings)
    return style


def save_figure(draw: Callable[[], Figure], stem: Path) -> list[Path]:
    """Writes a figure in taxtune's style as `STEM.png` (200 dpi) and `STEM.svg`; returns the paths.

    Raises:
        TaxtuneError: If a file cannot be written.
    """
    with _style():
        figure = draw()
        frame = _frame(figure)
        png = _render(figure, "png", frame, dpi=200)
        svg = _render(figure, "svg", frame, metadata={"Date": None})
    return [
        atomic.write_bytes(stem.with_suffix(".png"), png),
        atomic.write_bytes(stem.with_suffix(".svg"), svg),
    ]


def inline_svg(draw: Callable[[], Figure], prefix: str, drawn: Path | None = None) -> str:
    """Returns a figure as an `<svg>` element whose colours are CSS variables.

    Args:
        draw: Draws the figure.
        prefix: What the ids begin with, to keep them apart from those of the page's other figures.
        drawn: The SVG file of the same figure, if there is one: drawing takes most of a report's
            time.
    """
    if drawn is None:
        with _style():
            figure = draw()
            text = _render(figure, "svg", _frame(figure), metadata={"Date": None}).decode("utf-8")
    else:
        text = drawn.read_text("utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # Two figures in one page must not share ids.
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'href="#', f'href="#{prefix}-', text).replace("url(#", f"url(#{prefix}-")
    for colour, name in _VARIABLES.items():
        text = re.sub(colour, f"var(--{name})", text, flags=re.IGNORECASE)
    # The page sets the size and describes the figure.
    text = re.sub(r'(<svg\b[^>]*?) width="[^"]*"', r'\1 aria-hidden="true"', text, count=1)
    return text.replace(' height="', ' data-height="', 1)


def _frame(figure: Figure) -> Bbox:
    """Returns the frame of all that is drawn, in inches; "tight" would find it for each format."""
    figure.draw_without_rendering()
    return figure.get_tightbbox().padded(0.12)


def _render(figure: Figure, kind: str, frame: Bbox, **options: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, bbox_inches=frame, **options)
    return buffer.getvalue()


def padded(values: Sequence[float], least: float = 0.12) -> tuple[float, float]:
    """Returns the ends of an axis for scores in [0, 1], at least `least` apart and with a margin."""
    low = min(values)
    high = max(values)
    if high - low < least:
        middle = (low + high) / 2
        low = middle - least / 2
        high = middle + least / 2
    margin = 0.05 * (high - low)
    # A score is never above 1 or below 0; the frame goes a little further, so that a marker there
    # is not cut.
    return max(low - margin, -0.02), min(high + margin, 1 + 0.25 * margin)


def draw_iso_lines(axes: Axes) -> None:
    """Draws the curves of equal hF into a plane of hR (x) and hP (y) whose limits are set."""
    import numpy as np

    x0, x1 = axes.get_xlim()
    y0, y1 = axes.get_ylim()
    corner = 2 * x1 * y1 / (x1 + y1)
    origin = 2 * max(x0, 0) * max(y0, 0) / max(max(x0, 0) + max(y0, 0), 1e-9)
    step = 0.05 if corner - origin < 0.4 else 0.1
    for f in np.arange(step, 1.0, step):
        # hF = 2 hP hR / (hP + hR) solved for hP; below hR = f / 2 no hP is enough.
        # Evenly along both axes: a line may be steep, and must reach the frame on either side.
        across = np.linspace(max(f / 2 + 1e-4, x0, 1e-4), x1, 200)
        up = np.linspace(max(f / 2 + 1e-4, y0, 1e-4), y1, 200)
        x = np.unique(np.concatenate([across, f * up / (2 * up - f)]))
        y = f * x / (2 * x - f)
        seen = (x >= x0) & (x <= x1) & (y >= y0 - 1e-9) & (y <= y1 + 1e-9)
        if seen.sum() >= 2:
            axes.plot(x[seen], y[seen], color=FAINT, lw=0.8, zorder=0)
            _name_iso_line(axes, f)


def _name_iso_line(axes: Axes, f: float) -> None:
    """Writes the name of the curve of one hF where it meets the frame."""
    x0, x1 = axes.get_xlim()
    y0, y1 = axes.get_ylim()

    def other(score: float) -> float:
        return f * score / (2 * score - f) if 2 * score > f else float("inf")

    if y0 <= other(x1) <= y1:
        point = (x1, other(x1))
        offset = (3, 0)
        alignment = ("left", "center")
    elif x0 <= other(y1) <= x1:
        point = (other(y1), y1)
        offset = (0, 3)
        alignment = ("center", "baseline")
    elif y0 <= other(x0) <= y1:
        # From the left frame to the lower one, where the axes have their numbers: the name stands
        # inside.
        point = (x0, other(x0))
        offset = (5, 1)
        alignment = ("left", "bottom")
    else:
        return
    axes.annotate(
        f"hF {f:.2f}",
        point,
        xytext=offset,
        ha=alignment[0],
        va=alignment[1],
        color=GREY,
        fontsize=7.5,
        annotation_clip=False,
        textcoords="offset points",
    )
