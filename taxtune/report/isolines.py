"""Lines of equal hF in the hP-hR plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from taxtune.report.drawing import FAINT, GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_iso_lines"]


def draw_iso_lines(axes: Axes) -> None:
    """Draws the curves on which hF is constant, each named at the frame: hR across, hP up, limits already set."""
    import numpy as np

    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
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
        if seen.sum() < 2:
            continue
        axes.plot(x[seen], y[seen], color=FAINT, lw=0.8, zorder=0)
        exit_y = f * x1 / (2 * x1 - f) if 2 * x1 > f else np.inf
        style: dict[str, Any] = {
            "color": GREY,
            "fontsize": 7.5,
            "annotation_clip": False,
            "textcoords": "offset points",
        }
        if y0 <= exit_y <= y1:
            axes.annotate(f"hF {f:.2f}", (x1, exit_y), xytext=(3, 0), va="center", **style)
        elif x0 <= (exit_x := f * y1 / (2 * y1 - f)) <= x1:
            axes.annotate(f"hF {f:.2f}", (exit_x, y1), xytext=(0, 3), ha="center", **style)
        elif 2 * x0 > f and y0 <= (entry_y := f * x0 / (2 * x0 - f)) <= y1:
            # From the left frame to the lower one, where the axes have their numbers: the name stands inside.
            axes.annotate(f"hF {f:.2f}", (x0, entry_y), xytext=(5, 1), ha="left", va="bottom", **style)
