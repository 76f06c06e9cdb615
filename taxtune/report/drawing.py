"""The style of every figure, and figures as files and as parts of a page.

Colours are those of Okabe and Ito (2008), which people with any common colour vision can
distinguish. Every series has its own marker too, so that the figures survive a black-and-white
printer. The same result gives the same SVG, byte by byte.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from taxtune import atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox
    from numpy.typing import ArrayLike

__all__ = [
    "CYCLE",
    "FAINT",
    "GREY",
    "INK",
    "MARKER_CYCLE",
    "PAGE",
    "PAPER",
    "NamedPoint",
    "inline_svg",
    "name_points",
    "padded",
    "render",
    "save_figure",
    "style",
]

INK = "#1b1b1b"
GREY = "#707070"
FAINT = "#cfcfcf"
PAPER = "#ffffff"
#: The page beside a figure's file, which marks of the figure lead to.
PAGE = "report.html"


class NamedPoint(NamedTuple):
    """A point of a plane, and what is written beside it."""

    x: float
    y: float
    name: str
    is_bold: bool = False


#: The colours of series, the readable ones first, and as many markers.
CYCLE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#1b1b1b", "#707070")
MARKER_CYCLE = ("o", "^", "s", "v", "D", "P", "X", "*")
#: For SVG inside a page: each colour becomes a CSS variable, so that the page can follow the
#: reader's dark mode.
_VARIABLES = {
    INK: "ink",
    GREY: "grey",
    FAINT: "faint",
    PAPER: "paper",
    "#0072b2": "blue",
    "#d55e00": "vermilion",
    "#009e73": "green",
    "#cc79a7": "purple",
    "#56b4e9": "sky",
    "#e69f00": "orange",
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


def style() -> AbstractContextManager[None]:
    """Returns a context in which figures are drawn in taxtune's style."""
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
    with style():
        figure = draw()
        png = render(figure, "png", dpi=200)
        svg = render(figure, "svg", metadata={"Date": None})
    return [
        atomic.write_bytes(stem.with_suffix(".png"), png),
        atomic.write_bytes(stem.with_suffix(".svg"), svg),
    ]


def inline_svg(
    draw: Callable[[], Figure],
    prefix: str,
    drawn: Path | None = None,
    links: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Returns a figure as an `<svg>` element whose colours are CSS variables.

    Args:
        draw: Draws the figure.
        prefix: What the ids begin with, to keep them apart from those of the page's other figures.
        drawn: The SVG file of the same figure, if there is one: drawing takes most of a report's
            time.
        links: What the page's elements are that marks of the figure lead to, by their ids. A figure
            without links is not read aloud: the page describes it.
    """
    if drawn is None:
        with style():
            text = render(draw(), "svg", metadata={"Date": None}).decode("utf-8")
    else:
        text = drawn.read_text("utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # Two figures in one page must not share ids.
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'href="#', f'href="#{prefix}-', text).replace("url(#", f"url(#{prefix}-")
    for colour, name in _VARIABLES.items():
        text = re.sub(colour, f"var(--{name})", text, flags=re.IGNORECASE)
    # The page sets the size.
    spoken = ' role="group"' if links else ' aria-hidden="true"'
    text = re.sub(r'(<svg\b[^>]*?) width="[^"]*"', rf"\1{spoken}", text, count=1)
    text = text.replace(' height="', ' data-height="', 1)
    for target, name in links.items():
        said = escape(name).replace("\\", r"\\")
        link = f'<a href="#{target}" aria-label="{said}"><title>{said}</title>'
        text = re.sub(rf'<a xlink:href="{PAGE}#{target}"[^>]*>', link, text)
    return text


def render(figure: Figure, kind: str, **options: Any) -> bytes:
    """Returns a figure as a file, "png" or "svg", with all that is drawn and a margin."""
    figure.draw_without_rendering()
    # In inches; "tight" would find it for each format.
    frame = figure.get_tightbbox().padded(0.12)
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


def name_points(
    axes: Axes, points: Sequence[NamedPoint], marks: Sequence[tuple[float, float]]
) -> None:
    """Writes the names of points beside them: on no other name, and on few marks.

    Args:
        axes: The axes, laid out: where a name fits depends on the pixels.
        points: The points, the most important first.
        marks: Where marks are, in the units of the axes.
    """
    pixel = axes.figure.dpi / 72
    frame = axes.get_window_extent()
    centres = axes.transData.transform(marks)
    corners = [(x * pixel, y * pixel) for x in (-5, 0, 5) for y in (-5, 0, 5)]
    covered = [centre + corner for centre in centres for corner in corners]
    names: list[Bbox] = []
    for point in points:
        name = axes.annotate(
            point.name,
            (point.x, point.y),
            xytext=(0, 0),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=8.5,
            fontweight="bold" if point.is_bold else "normal",
            arrowprops={"arrowstyle": "-", "lw": 0.7, "color": GREY, "shrinkA": 0, "shrinkB": 3},
            bbox={"facecolor": PAPER, "edgecolor": "none", "alpha": 0.8, "pad": 0.5},
            zorder=8,
        )
        name.set_in_layout(False)
        box = name.get_window_extent()
        shift = _free_place(box, frame, names, covered)
        name.set_position((shift[0] / pixel, shift[1] / pixel))
        names.append(box.translated(*shift))


def _free_place(
    box: Bbox, frame: Bbox, names: Sequence[Bbox], marks: ArrayLike
) -> tuple[float, float]:
    """Returns the nearest shift of a box, in pixels, that keeps it in a frame and off the rest.

    Where there is none, it is the one that hides least, other names above all.
    """
    best = (0.0, 0.0)
    least = math.inf
    for reach in range(8, 160, 8):
        for angle in range(0, 360, 15):
            x = math.cos(math.radians(angle)) * (reach + box.width / 2)
            y = math.sin(math.radians(angle)) * (reach + box.height / 2)
            moved = box.translated(x, y)
            crossed = sum(map(moved.overlaps, names))
            outside = 4 - frame.count_contains(moved.corners())
            hidden = 100 * (crossed + outside) + moved.count_contains(marks)
            if hidden < least:
                best = (x, y)
                least = hidden
        if least == 0:
            break
    return best
