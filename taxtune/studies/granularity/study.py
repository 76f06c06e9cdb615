"""Does a model know coarse labels as well as the fine ones below them? Paper 3, §4, Table 2, Figures 2 and 3.

Every image is positive for its leaf and for all ancestors of it; every label is a binary task of its own, scored by
average precision. An ancestor's scores are those of its own name (raw), the largest raw score of its direct children,
or the largest score of a leaf below it; what the last two gain over the first is the model's discrepancy Δ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics.average_precision import average_precision, bootstrap_average_precision, resample_counts
from taxtune.metrics.statistics import Interval, percentiles
from taxtune.studies.granularity.propagation import from_children, from_leaves, positives
from taxtune.studies.granularity.score_matrix import ScoreMatrix, at_leaves
from taxtune.studies.output import Cell, StudyReport, Table
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["QUANTITIES", "Granularity", "granularity", "granularity_report", "steps"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Progress = Callable[[int], object]

#: What is estimated, as paper 3, Table 2, names it.
QUANTITIES = ("Leaves", "Anc raw", "Anc child", "Δ child", "Anc leaf", "Δ leaf")
_CONFIDENCE = 0.95
# Average precisions that differ by less are equal: the same ranks summed in another order.
_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class Granularity:
    """Average precisions of every label of one score matrix.

    Attributes:
        name: Where the scores are from.
        images: How many images were ranked.
        raw: Average precision of each node by the scores of its own name, shape (nodes,); NaN where no image shows it.
        child: The same with the scores of ancestors taken from their direct children.
        leaf: The same with the scores of ancestors taken from the leaves below them.
        shown: How many images show each node, shape (nodes,).
        leaves: Which nodes are leaves and enter the mean, shape (nodes,).
        ancestors: Which nodes are ancestors and enter the mean, shape (nodes,).
        intervals: The means and gaps, in 0..1, with bootstrap intervals over the images, by `QUANTITIES`.
        notes: Stated, counted exclusions.
    """

    name: str
    images: int
    raw: FloatArray
    child: FloatArray
    leaf: FloatArray
    shown: NDArray[np.int64]
    leaves: BoolArray
    ancestors: BoolArray
    intervals: dict[str, Interval]
    notes: tuple[str, ...]


def granularity(
    matrix: ScoreMatrix,
    taxonomy: Taxonomy,
    *,
    trivial: str = "keep",
    resamples: int = 500,
    seed: int = 0,
    on_progress: Progress | None = None,
) -> Granularity:
    """Returns the average precisions of all labels, and their means over leaves and ancestors.

    Args:
        matrix: The scores; images whose label is no leaf are left out and counted.
        taxonomy: The tree.
        trivial: "keep" or "leave-out": what becomes of ancestors that every image shows, such as the root, whose
            average precision is 1 whatever the scores. The paper keeps its level 0.
        resamples: Bootstrap resamples of the images; 0 for no intervals.
        seed: Seed of the resampling.
        on_progress: Called with 1 after each of `steps(taxonomy, resamples)` labels.

    Raises:
        DataError: If no image shows a leaf, or all show the same.
        ValueError: If a setting is out of range.
    """
    if trivial not in ("keep", "leave-out"):
        raise ValueError(f"trivial must be 'keep' or 'leave-out', not {trivial!r}")
    if resamples < 0:
        raise ValueError(f"resamples must not be negative, not {resamples}")
    matrix = at_leaves(matrix, taxonomy)
    truth = positives(taxonomy, matrix.targets)
    shown = truth.sum(axis=0)
    is_leaf = np.zeros(len(taxonomy), dtype=bool)
    is_leaf[taxonomy.leaves] = True
    everywhere = shown == len(matrix.targets)
    defined = shown > 0
    leaves = is_leaf & defined
    ancestors = ~is_leaf & defined
    if trivial == "leave-out":
        ancestors &= ~everywhere

    sources = {
        "raw": matrix.scores,
        "child": from_children(matrix.scores, taxonomy),
        "leaf": from_leaves(matrix.scores, taxonomy),
    }
    found: dict[str, FloatArray] = {}
    for kind, scores in sources.items():
        wanted = defined if kind == "raw" else defined & ~is_leaf
        values = np.full(len(taxonomy), np.nan)
        values[wanted] = average_precision(scores[:, wanted], truth[:, wanted], on_progress=on_progress)
        # A leaf has nothing below it: its scores are its own by every rule.
        found[kind] = values if kind == "raw" else np.where(is_leaf, found["raw"], values)

    estimate = _quantities(
        found["raw"][leaves], *(found[kind][ancestors] for kind in ("raw", "child", "leaf")), axis=None
    )
    low = high = np.full(len(QUANTITIES), np.nan)
    if resamples:
        counts = resample_counts(len(matrix.targets), resamples, seed)
        drawn = [
            bootstrap_average_precision(scores[:, nodes], truth[:, nodes], counts, on_progress=on_progress)
            for scores, nodes in [(matrix.scores, leaves), *((sources[kind], ancestors) for kind in sources)]
        ]
        resampled = _quantities(*drawn, axis=0)
        # Resamples hold fewer different images, which shifts them a little: their spread is taken about the estimate.
        # Where no ancestor is left, as in a flat tree without its root, there is nothing to spread.
        some = np.isfinite(resampled).any(axis=1)
        resampled[some] += (estimate[some] - np.nanmean(resampled[some], axis=1))[:, np.newaxis]
        low, high = np.array([percentiles(row, _CONFIDENCE) for row in resampled]).T
    intervals = {name: Interval(float(estimate[i]), float(low[i]), float(high[i])) for i, name in enumerate(QUANTITIES)}
    notes = [*matrix.notes]
    hidden = int((~defined).sum())
    if hidden:
        notes.append(
            f"{hidden:,} of {len(taxonomy):,} labels left out of the means: no image shows them, so that their average "
            "precision is undefined. Their scores still take part in the propagation."
        )
    level = defined & ~everywhere & (matrix.scores.max(axis=0) == matrix.scores.min(axis=0))
    if level.any():
        named = ", ".join(taxonomy.labels[i] for i in np.flatnonzero(level)[:5].tolist())
        notes.append(
            f"{int(level.sum()):,} of {int(defined.sum()):,} labels have one score for all images ({named}"
            f"{' …' if level.sum() > 5 else ''}): no ranking, and their average precision is the share of images that "
            "show them."
        )
    always = np.flatnonzero(everywhere & ~is_leaf)
    if always.size:
        names = ", ".join(taxonomy.labels[i] for i in always[:5].tolist()) + (" …" if always.size > 5 else "")
        kept = "kept in the means, as in the paper" if trivial == "keep" else "left out of the means"
        notes.append(
            f"{always.size} ancestor{'s' if always.size > 1 else ''} that every image shows ({names}): average "
            f"precision 1 whatever the scores; {kept}."
        )
    return Granularity(
        matrix.name,
        len(matrix.targets),
        found["raw"],
        found["child"],
        found["leaf"],
        shown,
        leaves,
        ancestors,
        intervals,
        tuple(notes),
    )


def steps(taxonomy: Taxonomy, resamples: int) -> int:
    """Returns at most how many labels `granularity` reports as done."""
    nodes, leaves = len(taxonomy), len(taxonomy.leaves)
    once = nodes + 2 * (nodes - leaves)
    return once + (leaves + 3 * (nodes - leaves) if resamples else 0)


def _quantities(
    leaves: FloatArray, raw: FloatArray, child: FloatArray, leaf: FloatArray, *, axis: int | None
) -> FloatArray:
    """Returns the six quantities of Table 2; a label that a resample does not show is left out of its means."""
    of_leaves, of_raw, of_child, of_leaf = (_mean(values, axis) for values in (leaves, raw, child, leaf))
    return np.stack([of_leaves, of_raw, of_child, of_child - of_raw, of_leaf, of_leaf - of_raw])


def _mean(values: FloatArray, axis: int | None) -> FloatArray:
    there = np.isfinite(values)
    count = there.sum(axis=axis)
    total = np.where(there, values, 0.0).sum(axis=axis)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan), dtype=np.float64)


# -- the report --------------------------------------------------------------------------------------------------------


def granularity_report(results: Sequence[Granularity], taxonomy: Taxonomy, settings: dict[str, Any]) -> StudyReport:
    """Returns the tables, figures and numbers of the study.

    Args:
        results: One a score matrix, at least one.
        taxonomy: The tree.
        settings: What is needed to run the study again.
    """
    from taxtune.studies.granularity.figure import draw_levels

    figures = {}
    for i, result in enumerate(results, start=1):
        stem = "granularity-levels" if len(results) == 1 else f"granularity-levels-{i}"
        figures[stem] = _drawer(draw_levels, result, taxonomy)
    notes = tuple(
        dict.fromkeys(
            note if len(results) == 1 else f"{result.name}: {note}" for result in results for note in result.notes
        )
    )
    return StudyReport(
        study="granularity",
        title="Does a model know coarse labels as well as the fine ones below them?",
        settings=settings,
        tables=(_summary(results), _intervals(results, settings), _levels(results, taxonomy)),
        figures=figures,
        notes=notes,
        data={"labels": {result.name: _labels(result, taxonomy) for result in results}},
    )


def _drawer(draw: Callable[[Granularity, Taxonomy], Any], result: Granularity, taxonomy: Taxonomy) -> Callable[[], Any]:
    return lambda: draw(result, taxonomy)


def _summary(results: Sequence[Granularity]) -> Table:
    columns = ("scores", "images", "n leaves", "n anc", *QUANTITIES, "improved")
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        gain = (result.leaf - result.raw)[result.ancestors]
        rows.append(
            (
                result.name,
                result.images,
                int(result.leaves.sum()),
                int(result.ancestors.sum()),
                *(100 * result.intervals[name].estimate for name in QUANTITIES),
                int((gain > _TIE).sum()),
            )
        )
    return Table(
        "granularity",
        "Mean average precision of leaves and of ancestors, in % (paper 3, Table 2)",
        columns,
        tuple(rows),
        digits=dict.fromkeys(QUANTITIES, 2),
        notes=(
            "Anc raw: an ancestor scored by its own name; Anc child: by its best direct child (eq. 2); Anc leaf: by "
            "the best leaf below it (eq. 3); Δ: the gain over raw.",
            "Improved: ancestors whose average precision rises when they are scored by the leaves.",
        ),
    )


def _intervals(results: Sequence[Granularity], settings: dict[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (result.name, name, 100 * interval.estimate, 100 * interval.low, 100 * interval.high)
        for result in results
        for name, interval in result.intervals.items()
    ]
    notes = (
        f"Bootstrap over the images, {settings.get('resamples', 0):,} resamples, the percentiles moved so that the "
        "resamples' mean is the estimate; the gaps are paired. A label that a resample does not show is left out of "
        "that resample's mean.",
    )
    return Table(
        "intervals",
        f"The same with {_CONFIDENCE:.0%} intervals".replace("%", " %"),
        ("scores", "quantity", "estimate", "low", "high"),
        tuple(rows),
        digits={"estimate": 2, "low": 2, "high": 2},
        notes=notes,
    )


def _levels(results: Sequence[Granularity], taxonomy: Taxonomy) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        for level in range(taxonomy.height + 1):
            here = taxonomy.depth == level
            leaves, ancestors = result.leaves & here, result.ancestors & here
            if not (leaves.any() or ancestors.any()):
                continue
            raw, child, leaf = (values[ancestors] for values in (result.raw, result.child, result.leaf))
            means = [100 * float(_mean(values, None)) for values in (result.raw[leaves], raw, child, leaf, leaf - raw)]
            improved = int((leaf - raw > _TIE).sum())
            rows.append((result.name, level, int(leaves.sum()), means[0], int(ancestors.sum()), *means[1:], improved))
    columns = ("scores", "level", "n leaves", "Leaves", "n anc", "Anc raw", "Anc child", "Anc leaf", "Δ leaf")
    return Table(
        "levels",
        "The same by level, the root being level 0 (paper 3, Figure 3)",
        (*columns, "improved"),
        tuple(rows),
        digits=dict.fromkeys(columns[3:], 2),
    )


def _labels(result: Granularity, taxonomy: Taxonomy) -> list[dict[str, Any]]:
    leaves = set(taxonomy.leaves.tolist())
    return [
        {
            "path": "/".join(taxonomy.path(node)),
            "level": int(taxonomy.depth[node]),
            "kind": "leaf" if node in leaves else "ancestor",
            "images": int(result.shown[node]),
            "in_mean": bool(result.leaves[node] or result.ancestors[node]),
            "raw": float(result.raw[node]),
            "child": float(result.child[node]),
            "leaf": float(result.leaf[node]),
        }
        for node in range(len(taxonomy))
    ]
