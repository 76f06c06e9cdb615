"""Tables from frames, the table of both trees and marks of figures, for several studies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.metrics.hierarchical import flags, score
from taxtune.metrics.statistics import Interval
from taxtune.report.output import Cell, Table
from taxtune.taxonomy import Domain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["both_trees_table", "draw_intervals", "frame_table"]


def frame_table(
    name: str, title: str, frame: pd.DataFrame, *notes: str, digits: Mapping[str, int] | None = None
) -> Table:
    """Returns a frame's columns and rows as a `Table`; NaN and None are shown as a dash.

    Args:
        name: The stem of the table's files.
        title: Its title.
        frame: Its cells, in order; the index is left out.
        *notes: What stands below it.
        digits: Decimals by column, where they are not three.
    """
    rows = tuple(frame.itertuples(index=False, name=None))
    return Table(name, title, tuple(map(str, frame.columns)), rows, digits or {}, notes)


def both_trees_table(
    part: Domain,
    placed: Mapping[str, tuple[ArrayLike, ArrayLike]],
    what: str = "model",
    *,
    off_tree: Mapping[str, ArrayLike] | None = None,
) -> Table:
    """Returns hP, hR and hF of the same placements on a part of a taxonomy and on the whole of it.

    Args:
        part: The part.
        placed: Nodes of answers and of their targets on the part by name, each of shape (n,); -1 is no answer.
        what: Heading of the names.
        off_tree: Which answers are scored as a child of the root that is never right, by name, each of shape (n,).
    """
    rows: list[tuple[Cell, ...]] = []
    for name, (nodes, targets) in placed.items():
        predicted: NDArray[np.int64] = np.asarray(nodes, dtype=np.int64)
        known = predicted >= 0
        predicted, truth = predicted[known], np.asarray(targets, dtype=np.int64)[known]
        if not len(predicted):
            rows.append((name, 0, *(None,) * 6))
            continue
        off = flags(None if off_tree is None else off_tree.get(name), len(known))[known]
        here = score(part.tree, predicted, truth, off_tree=off)
        there = score(part.full, part.on_full(predicted), part.on_full(truth), off_tree=off)
        rows.append((name, len(predicted), here.hp, here.hr, here.hf, there.hp, there.hr, there.hf))
    columns = [f"{metric} on {label}" for label in (part.label, part.full_label) for metric in ("hP", "hR", "hF")]
    return Table(
        "both-trees",
        f"The same placements on {part.label} and on the whole taxonomy",
        (what, "answers", *columns),
        tuple(rows),
        notes=(
            f"In all other tables, hP, hR and hF are counted from {part.label}; counted from {part.full_label}, every "
            "path also includes the nodes above it, which all placements share.",
        ),
    )


def draw_intervals(
    axes: Axes, rows: Iterable[float], intervals: Sequence[Interval | None], *, scale: float = 1.0, **look: Any
) -> None:
    """Draws a dot with its interval in each row, and the dot alone where the interval has no ends.

    Args:
        axes: The axes.
        rows: The height of each dot.
        intervals: The estimates with their intervals; None and NaN are not drawn.
        scale: The factor of the values, such as 100 for %.
        **look: Passed to `Axes.errorbar`.
    """
    known = [(row, one) for row, one in zip(rows, intervals, strict=True) if one and np.isfinite(one.estimate)]
    if not known:
        return
    values = scale * np.array([[one.low, one.estimate, one.high] for _, one in known])
    ends = np.where(np.isfinite(values), values, values[:, 1:2])
    spread = np.abs(ends[:, [0, 2]] - ends[:, 1:2]).T
    axes.errorbar(ends[:, 1], [row for row, _ in known], xerr=spread, **look)
