"""The rank-shift ("bump") chart of paper 1's Figure 5: models by rank under each measure, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

from taxtune.report.drawing import CYCLE, FAINT, GREY, MARKER_CYCLE, PAPER
from taxtune.report.output import cut

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["draw_bump"]

_SPREAD = 0.16  # of a column on either side of the mark, within which bars stand beside each other
_TIED = 0.36  # between tied models, in ranks
_LEAD = 0.3  # from the outermost marks to the names, in columns
_LONGEST = 34
_FITS = 11  # the longest name of a measure that is not slanted
_PER_INCH = 13  # characters of a note


def draw_bump(ranks: pd.DataFrame, over: str | None = None, notes: Sequence[str] = ()) -> Figure:
    """Draws the rank of each model under each measure, the best on top, with the models' names at both ends.

    Args:
        ranks: A row per measure and model: measure, model, rank (NaN where it has none) and, where they are known, the
            ends of its interval ("2.5 %", "97.5 %"), drawn as a faint bar.
        over: What the ranks are over, such as "837 examples", for the line below the chart; or None.
        notes: Further lines below it.
    """
    from matplotlib.figure import Figure

    models, measures = list(ranks["model"].unique()), list(ranks["measure"].unique())
    tied = ranks.groupby(["measure", "rank"])["rank"]
    apart = (tied.cumcount() - (tied.transform("size") - 1) / 2) * _TIED
    wide = ranks.assign(height=ranks["rank"] + apart).pivot(index="model", columns="measure").reindex(index=models)
    heights = wide["height"][measures]
    ranked = heights.dropna(how="all")
    figure = Figure(figsize=(max(4.6, 0.92 * len(measures) + 0.6), max(2.4, 0.46 * len(ranked) + 0.9)))
    axes = figure.add_subplot()
    for i, model in enumerate(heights[measures[0]].sort_values(kind="stable").index):
        j = models.index(model)
        # Models beyond the palette differ in their marker and in the line.
        colour, marker = CYCLE[j % len(CYCLE)], MARKER_CYCLE[(j + j // len(CYCLE)) % len(MARKER_CYCLE)]
        style = ("-", (0, (5, 1.5)), (0, (1.5, 1.5)))[j // len(CYCLE) % 3]
        if "2.5 %" in ranks:
            beside = (i / max(1, len(models) - 1) - 0.5) * 2 * _SPREAD
            low, high = (wide[end].loc[model, measures] for end in ("2.5 %", "97.5 %"))
            at = [x + beside for x in range(len(measures))]
            axes.vlines(at, low, high, color=colour, alpha=0.3, lw=4.5, capstyle="round", zorder=1)
        size, own = 13 if marker == "*" else 8.5, heights.loc[model].to_numpy()
        axes.plot(own, color=colour, lw=1.8, ls=style, zorder=3)
        axes.plot(own, ls="none", marker=marker, ms=size, mfc=colour, mec=PAPER, mew=1.1, zorder=4)
    for measure, x, align, side in ((measures[0], 0.0, "right", -1), (measures[-1], len(measures) - 1.0, "left", 1)):
        for row, (model, height) in enumerate(heights[measure].dropna().sort_values(kind="stable").items(), start=1):
            # Tied models stand closer than a row apart: a thin line leads from the name to the mark.
            axes.plot([x, x + side * _LEAD], [height, row], color=GREY, lw=0.6, clip_on=False, zorder=0)
            beyond: dict[str, Any] = {"xytext": (3 * side, 0), "textcoords": "offset points", "annotation_clip": False}
            axes.annotate(cut(str(model), _LONGEST), (x + side * _LEAD, row), ha=align, va="center", **beyond)
    axes.set(xlim=(-0.35, len(measures) - 0.65), ylim=(len(ranked) + 0.5, 0.5))
    slanted: dict[str, Any] = {"rotation": 35, "ha": "left", "rotation_mode": "anchor"}
    names = [cut(name, _LONGEST) for name in measures]
    axes.set_xticks(range(len(names)), names, **slanted if max(map(len, measures)) > _FITS else {})
    axes.xaxis.tick_top()
    axes.set_yticks(range(1, len(ranked) + 1), [])
    axes.tick_params(axis="both", length=0)
    axes.grid(axis="y", color=FAINT, lw=0.6, zorder=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    bars = "faint bars: 95 % bootstrap interval of the rank" if "2.5 %" in ranks else None
    unranked = ", ".join(cut(model, _LONGEST) for model in models if model not in ranked.index)
    lines = ["; ".join(part for part in ("rank 1 on top", bars, over) if part is not None)]
    lines += [f"unscored and unranked: {unranked}"] if unranked else []
    lines += [fill(line, int(figure.get_figwidth() * _PER_INCH)) for line in notes]
    below: dict[str, Any] = {"xytext": (0, -10), "xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate("\n".join(lines), (0.5, 0), ha="center", va="top", color=GREY, fontsize=8.5, **below)
    return figure
