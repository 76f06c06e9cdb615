"""The price list of a cascade: what its points cost and are worth, as a table and as a picture."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from taxtune.classifier.cascade import IMAGES, Cascade, CascadeRun
from taxtune.report.drawing import CYCLE, FAINT, GREY, INK, PAPER, NamedPoint, name_points, padded
from taxtune.report.output import Cell, Table
from taxtune.tuning.costs import CallCost

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_prices", "price_table", "share_table"]

_PER = f"for {IMAGES:,} images"
_ASKED = "asked, %"
_WRONG = "wrong, %"
_DIGITS = {"first": 3, "second": 3, _ASKED: 1, "usd": 2, "min": 1, _WRONG: 1}


def share_table(work: CascadeRun) -> Table:
    """Returns a table of the cost of first thresholds, which scores tell before anything is asked."""
    rows = []
    call = work.call
    for first, asked in work.asked().items():
        costs = _costs(asked, work.policy.samples, call)
        rows.append({"first": first, **costs})
    title = f"Costs {_PER}"
    return Table.from_records("shares", title, rows, digits=_DIGITS)


def price_table(cascade: Cascade, notes: list[str]) -> Table:
    """Returns the price list: the scores alone, points between, and the model alone."""
    rows = []
    for place, point in enumerate(cascade.points):
        row: dict[str, Cell] = {"by": "both"}
        if point.second is None:
            row["by"] = "scores"
        elif point.first is None:
            row["by"] = "model"
        row["first"] = point.first
        row["second"] = point.second
        row |= _costs(point.asked, cascade.samples, cascade.call)
        row["hR"] = point.hr if point.kept else None
        wrong = point.wrong if point.kept else None
        row[_WRONG] = None if wrong is None else 100 * wrong
        level = point.level
        is_hp = cascade.promise == "hp"
        row["at most"] = level.bound if is_hp else level.labels_bound
        row["verdict"] = "kept" if point.kept else ""
        if place == cascade.place:
            row["verdict"] = "chosen"
        rows.append(row)
    return Table.from_records("prices", f"Prices {_PER}", rows, digits=_DIGITS, notes=notes)


def draw_prices(cascade: Cascade) -> Figure:
    """Draws hR against the share of images that is asked about, and above it what that costs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 4.2), layout="constrained")
    axes = figure.add_subplot(xlabel="images that the model is asked about, %")
    axes.set_ylabel("hR: how much of the truth is said")
    x = np.array([100 * point.asked for point in cascade.points])
    y = np.array([point.hr for point in cascade.points])
    kept = np.array([point.kept for point in cascade.points])
    low, high = padded(y[kept].tolist() or y.tolist())
    y[~kept] = low  # of thresholds that are not kept there are no labels
    axes.plot(x[kept], y[kept], color=FAINT, lw=1.2, zorder=1)
    axes.scatter(x[kept], y[kept], s=42, color=CYCLE[0], zorder=3, label="the promise is kept")
    if not kept.all():
        hollow = axes.scatter(x[~kept], y[~kept], s=42, color=PAPER, label="it is not")
        hollow.set(edgecolor=GREY, clip_on=False, zorder=3)
    if cascade.place is not None:
        chosen = cascade.place
        ring = axes.scatter(x[chosen], y[chosen], s=160, edgecolor=INK, label="chosen")
        ring.set_facecolor("none")
    axes.set_xlim(-4, 104)
    axes.set_ylim(low, high)
    axes.grid(color=FAINT, lw=0.5)
    axes.set_axisbelow(True)
    costs = _costs(0.01, cascade.samples, cascade.call)
    for unit, name in (("usd", "dollars"), ("min", "minutes")):
        if costs[unit]:
            scale = partial(np.multiply, costs[unit]), partial(np.multiply, 1 / costs[unit])
            axes.secondary_xaxis("top", functions=scale).set_xlabel(f"{name} {_PER}")
            break
    figure.legend(loc="outside lower left", ncols=3)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    ends = [NamedPoint(x[0], y[0], "scores alone"), NamedPoint(x[-1], y[-1], "model alone")]
    name_points(axes, ends, list(zip(x, y, strict=True)))
    return figure


def _costs(asked: float, samples: int, call: CallCost) -> dict[str, Any]:
    """Returns the cells of asking about a share of the images."""
    calls = round(IMAGES * asked * samples)
    usd, seconds = call.usd, call.seconds
    return {
        _ASKED: 100 * asked,
        "calls": calls,
        "usd": None if usd is None else calls * usd,
        "min": None if seconds is None else calls * seconds / 60,
    }
