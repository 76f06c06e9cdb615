"""Arrows in the hP-hR plane from a baseline prompt to others: paper 1's Figure 7."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from taxtune.report.drawing import CYCLE, INK, MARKER_CYCLE, PAPER, padded
from taxtune.report.isolines import draw_iso_lines
from taxtune.report.output import cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from taxtune.studies.prompts.study import Arrow

__all__ = ["draw_arrows"]

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
