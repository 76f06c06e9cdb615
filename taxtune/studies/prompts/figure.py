"""Figures of prompts: arrows in the hP-hR plane (paper 1, Figure 7), and gains of measures over the baseline prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from taxtune.metrics.statistics import Interval
from taxtune.report.drawing import CYCLE, GREY, INK, MARKER_CYCLE, PAPER, draw_iso_lines, padded
from taxtune.report.output import cut
from taxtune.studies.drawing import draw_intervals

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from taxtune.studies.prompts.gains import Gain
    from taxtune.studies.prompts.study import Arrow

__all__ = ["draw_arrows", "draw_gains"]

_LONGEST = 40


def draw_arrows(arrows: Sequence[Arrow]) -> Figure:
    """Draws an arrow for each model and prompt, over lines of equal hF, with 95 % intervals as faint crosses.

    Args:
        arrows: The arrows; the start of a model's arrows is drawn hollow. Where a model has several, each end is a
            scored prompt of its own, distinguished in the legend.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(5.6, 4.8))
    axes = figure.add_subplot()
    ends = [interval for arrow in arrows for interval in (arrow.at_start, arrow.at_end)]
    axes.set_xlim(*padded([value for end in ends for value in (end["hr"].low, end["hr"].high)]))
    axes.set_ylim(*padded([value for end in ends for value in (end["hp"].low, end["hp"].high)]))
    draw_iso_lines(axes)
    models = list(dict.fromkeys(arrow.model for arrow in arrows))
    prompts = list(dict.fromkeys(arrow.end for arrow in arrows))
    for arrow in arrows:
        # The one start of a single model's arrows belongs to none of them.
        _draw(axes, arrow, *_look(models, prompts, arrow), start_colour=INK if len(models) == 1 else None)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
        axis.set_major_formatter("{x:.2f}")
    axes.set_xlabel("hierarchical recall, hR")
    axes.set_ylabel("hierarchical precision, hP")
    _legend(axes, arrows, models, prompts)
    return figure


def _look(models: Sequence[str], prompts: Sequence[str], arrow: Arrow) -> tuple[str, str]:
    """Returns colour and marker: the colour tells models apart, the marker prompts; with one of either, both tell."""
    model, prompt = models.index(arrow.model), prompts.index(arrow.end)
    colour = model if len(models) > 1 else prompt
    marker = prompt if len(prompts) > 1 else model
    return CYCLE[colour % len(CYCLE)], MARKER_CYCLE[marker % len(MARKER_CYCLE)]


def _draw(axes: Axes, arrow: Arrow, colour: str, marker: str, start_colour: str | None) -> None:
    start = (arrow.at_start["hr"].estimate, arrow.at_start["hp"].estimate)
    end = (arrow.at_end["hr"].estimate, arrow.at_end["hp"].estimate)
    for point, at, ink in ((start, arrow.at_start, start_colour or colour), (end, arrow.at_end, colour)):
        axes.hlines(point[1], at["hr"].low, at["hr"].high, color=ink, lw=1.0, alpha=0.35, zorder=2)
        axes.vlines(point[0], at["hp"].low, at["hp"].high, color=ink, lw=1.0, alpha=0.35, zorder=2)
    axes.annotate(
        "",
        end,
        start,
        arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.5, "shrinkA": 4, "shrinkB": 5, "mutation_scale": 12},
        zorder=4,
    )
    axes.plot(*start, marker="o", ms=6.5, mfc=PAPER, mec=start_colour or colour, mew=1.5, ls="none", zorder=5)
    axes.plot(*end, marker=marker, ms=11 if marker == "*" else 8, mfc=colour, mec=PAPER, mew=0.9, ls="none", zorder=6)


def _legend(axes: Axes, arrows: Sequence[Arrow], models: Sequence[str], prompts: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    starts = list(dict.fromkeys(arrow.start for arrow in arrows))
    hollow = Line2D([], [], marker="o", ms=6.5, mfc=PAPER, mec=INK, mew=1.5, ls="none")
    entries = [(hollow, cut("from: " + " / ".join(starts), _LONGEST))]
    for arrow in arrows:
        colour, marker = _look(models, prompts, arrow)
        name = arrow.end if len(models) == 1 else arrow.model if len(prompts) == 1 else f"{arrow.model}: {arrow.end}"
        hp, hr = arrow.at_end["hp"].estimate, arrow.at_end["hr"].estimate
        entries.append(
            (
                Line2D([], [], marker=marker, ms=11 if marker == "*" else 8, color=colour, mec=PAPER, lw=1.5),
                f"{cut(name, _LONGEST)}\nhP {hp:.3f}, hR {hr:.3f}",
            )
        )
    several = f"to: {prompts[0]}" if len(prompts) == 1 else "model: prompt"
    title = models[0] if len(models) == 1 else several
    axes.legend(
        [handle for handle, _ in entries],
        [label for _, label in entries],
        title=cut(title, _LONGEST),
        alignment="left",
        loc="upper left",
        bbox_to_anchor=(1.13, 1.02),
        borderaxespad=0,
        labelspacing=0.75,
    )


def draw_gains(gains: Sequence[Gain]) -> Figure:
    """Draws a panel for each measure: the gain of every prompt over the baseline with its interval, in points.

    Args:
        gains: The gains; those of the baseline prompts, which are none, are not drawn.
    """
    import numpy as np
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    measures = list(dict.fromkeys(one.measure for one in gains))
    found = {(one.model, one.prompt, one.measure): one.gain for one in gains if one.gain is not None}
    prompts = list(dict.fromkeys((model, prompt) for model, prompt, _ in found))
    rows = np.arange(len(prompts))
    width = 1.6 + 1.75 * len(measures)
    figure = Figure(figsize=(width, 0.42 * len(prompts) + 1.1), layout="constrained")
    panels = figure.subplots(1, len(measures), sharey=True, squeeze=False)[0]
    for place, (axes, measure) in enumerate(zip(panels, measures, strict=True)):
        these = [found.get((*prompt, measure)) for prompt in prompts]
        ends = [None if one is None else Interval(one.difference, one.low, one.high) for one in these]
        colour = INK if measure in ("hP", "hR") else CYCLE[0]
        draw_intervals(axes, rows, ends, scale=100, fmt="o", color=colour, elinewidth=1.4, markersize=5)
        axes.axvline(0, color=GREY, lw=0.8, zorder=0)
        axes.set_title(measure, fontsize=10)
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        axes.margins(x=0.12)
        if place == 0:
            several = len({model for model, _ in prompts}) > 1
            axes.set_yticks(rows, [cut(f"{m}: {p}" if several else p, _LONGEST) for m, p in prompts])
            axes.set_ylim(len(prompts) - 0.5, -0.5)
    figure.supxlabel("gain over the baseline prompt, in points of 100", fontsize=10)
    return figure
