"""The figure of prompts: arrows in the hP-hR plane (paper 1, Figure 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from taxtune.report.drawing import CYCLE, INK, MARKER_CYCLE, PAPER, draw_iso_lines, padded
from taxtune.report.output import cut

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["draw_arrows"]

_LONGEST = 40


def draw_arrows(arrows: pd.DataFrame) -> Figure:
    """Draws an arrow for each model and prompt, over lines of equal hF, with 95 % intervals as faint crosses.

    Args:
        arrows: A row per model, prompt and metric, as `compare_prompts` makes it. The start of a model's arrows is
            drawn hollow; the colour tells models apart and the marker prompts; with one of either, both tell the other.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(5.6, 4.8))
    axes = figure.add_subplot()
    hp, hr = (arrows[arrows["metric"] == metric].reset_index(drop=True) for metric in ("hp", "hr"))
    bounds = ["start_low", "start_high", "end_low", "end_high"]
    axes.set_xlim(*padded(hr[bounds].to_numpy().ravel().tolist()))
    axes.set_ylim(*padded(hp[bounds].to_numpy().ravel().tolist()))
    draw_iso_lines(axes)
    models, prompts = list(hp["model"].unique()), list(hp["to"].unique())
    starts = " / ".join(hp["from"].unique())
    handles = [Line2D([], [], marker="o", ms=6.5, mfc=PAPER, mec=INK, mew=1.5, ls="none")]
    labels = [cut(f"from: {starts}", _LONGEST)]
    for (_, y), (_, x) in zip(hp.iterrows(), hr.iterrows(), strict=True):
        model, prompt = models.index(y["model"]), prompts.index(y["to"])
        colour = CYCLE[(model if len(models) > 1 else prompt) % len(CYCLE)]
        marker = MARKER_CYCLE[(prompt if len(prompts) > 1 else model) % len(MARKER_CYCLE)]
        hollow = INK if len(models) == 1 else colour  # the one start of a single model's arrows belongs to none of them
        for end, ink in (("start", hollow), ("end", colour)):
            axes.hlines(y[end], x[f"{end}_low"], x[f"{end}_high"], color=ink, lw=1.0, alpha=0.35, zorder=2)
            axes.vlines(x[end], y[f"{end}_low"], y[f"{end}_high"], color=ink, lw=1.0, alpha=0.35, zorder=2)
        look = {"arrowstyle": "-|>", "color": colour, "lw": 1.5, "shrinkA": 4, "shrinkB": 5, "mutation_scale": 12}
        axes.annotate("", (x["end"], y["end"]), (x["start"], y["start"]), arrowprops=look, zorder=4)
        axes.plot(x["start"], y["start"], marker="o", ms=6.5, mfc=PAPER, mec=hollow, mew=1.5, ls="none", zorder=5)
        size = 11 if marker == "*" else 8
        axes.plot(x["end"], y["end"], marker=marker, ms=size, mfc=colour, mec=PAPER, mew=0.9, ls="none", zorder=6)
        handles.append(Line2D([], [], marker=marker, ms=size, color=colour, mec=PAPER, lw=1.5))
        name = cut(f"{y['model']}: {y['to']}", _LONGEST)
        labels.append(f"{name}\nhP {y['end']:.3f}, hR {x['end']:.3f}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
        axis.set_major_formatter("{x:.2f}")
    axes.set_xlabel("hierarchical recall, hR")
    axes.set_ylabel("hierarchical precision, hP")
    axes.legend(handles, labels, alignment="left", loc="upper left", bbox_to_anchor=(1.13, 1.02), labelspacing=0.75)
    return figure
