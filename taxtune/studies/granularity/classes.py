"""Fine and coarse classes alone: the two-level form of paper 3 (Table 5).

The coarse class of an image is predicted directly from the coarse names, from the parent of the predicted fine class,
and from the average of the fine classes' text embeddings.

Two direct answers about an image may contradict each other. *Full path* is the share of images for which both are right
(hierarchical consistent accuracy: Tan, Qing and Gong 2025, arXiv 2505.24840; full-path accuracy: Park et al. 2025,
arXiv 2406.11608), *inconsistent* the share whose fine class does not belong to the coarse one, right or wrong (the
tree-based inconsistency error of the latter).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taxtune.errors import DataError
from taxtune.metrics.statistics import Interval, Sample, bootstrap
from taxtune.report.output import StudyReport
from taxtune.studies.embedding import label_texts, rounded, unit
from taxtune.studies.granularity.matrices import ScoreMatrix, at_leaves
from taxtune.studies.granularity.settings import GranularitySettings
from taxtune.studies.output import draw_dots, frame_table, intervals_table
from taxtune.studies.placements import interval_frame
from taxtune.taxonomy import Taxonomy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Classified",
    "Grouping",
    "coarse_cut",
    "draw_accuracies",
    "top_one",
    "two_level",
    "two_level_report",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Grouping(NamedTuple):
    """Fine classes, the leaves, shape (fine,); the coarse nodes, shape (coarse,); and how they belong together.

    Attributes:
        parent: The position in `coarse` of each fine class, shape (fine,).
        names: The name of each node in a prompt, shape (nodes,).
        notes: Stated, counted exclusions.
    """

    fine: IntArray
    coarse: IntArray
    parent: IntArray
    names: NDArray[np.object_]
    notes: list[str]


def coarse_cut(
    taxonomy: Taxonomy, *, level: int | None = None, labels: Sequence[str] = ()
) -> Grouping:
    """Returns the leaves and the coarse class of each; leaves that are below none are left out and counted.

    Args:
        taxonomy: The tree.
        level: Take the nodes of this level that are no leaves; the root is level 0.
        labels: Or take these nodes: labels, aliases or paths.

    Raises:
        DataError: If not exactly one of the two is given, a class has nothing below it or lies below another, or there
            are fewer than two coarse classes.
        TaxonomyError: If a label is not on the tree.
    """
    if (level is None) == (not labels):
        raise DataError("Give coarse classes either by a level or by their labels, not both.")
    leaves = np.asarray(taxonomy.leaves)
    if level is None:
        coarse = np.array(sorted({taxonomy.resolve(label) for label in labels}), dtype=np.int64)
    else:
        coarse = np.setdiff1d(np.flatnonzero(taxonomy.depth == level), leaves)
    shown = [taxonomy.labels[node] for node in coarse]
    if np.isin(coarse, leaves).any():
        raise DataError("A coarse class has nothing below it.", value=shown)
    if len(coarse) < 2:
        remedy = "Take a level below the root and above the lowest leaves, or two labels."
        raise DataError("There must be at least two coarse classes.", value=shown, remedy=remedy)
    below = taxonomy.is_ancestor(coarse[:, np.newaxis], leaves)
    if (below.sum(axis=0) > 1).any():
        remedy = "Remove one of them: a fine class belongs to only one coarse class."
        raise DataError("A coarse class is below another.", value=shown, remedy=remedy)
    kept = below.any(axis=0)
    notes = []
    if not kept.all():
        left_out = f"{(~kept).sum():,} of {kept.size:,} fine classes left out"
        notes.append(f"{left_out}: they are not below a coarse class.")
    return Grouping(
        fine=leaves[kept],
        coarse=coarse,
        parent=below[:, kept].argmax(axis=0),
        names=np.array(label_texts(taxonomy), dtype=object),
        notes=notes,
    )


def top_one(
    scores: NDArray[np.floating], right: IntArray, group: IntArray | None = None
) -> FloatArray:
    """Returns 1 for each row whose highest score is the right column's, 0 if not, and where columns tie their share.

    Args:
        scores: Shape (rows, columns).
        right: The right class of each row, shape (rows,): a column, or a group of columns.
        group: The group of each column, shape (columns,); by default each column is its own.
    """
    of_column = np.arange(scores.shape[1]) if group is None else group
    best = _best(scores)
    hits = best & (of_column == right[:, np.newaxis])
    return np.asarray(hits.sum(axis=1) / best.sum(axis=1), dtype=np.float64)


def _best(scores: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Returns which columns have the highest score of their row."""
    return np.asarray(scores == scores.max(axis=1, keepdims=True))


class Classified(NamedTuple):
    """Classes chosen by one score matrix, encoder or chat model.

    Attributes:
        name: Where the choices are from.
        credit: A row per image or fine class; by column, 1 where it is classified right, 0 where wrong, a share where
            classes tie, NaN where there is no choice.
        notes: Stated, counted exclusions.
        chosen: In language only, the position of the coarse class of each fine class, -1 for none; shape (fine,).
    """

    name: str
    credit: pd.DataFrame
    notes: list[str]
    chosen: IntArray = np.empty(0, dtype=np.int64)

    def intervals(self, settings: GranularitySettings) -> dict[str, Interval]:
        """Returns the mean of each column, in 0..1, with its 95 % bootstrap interval."""
        columns = {str(name): self.credit[name].to_numpy(dtype=float) for name in self.credit}
        return bootstrap(Sample(columns), resamples=settings.resamples, seed=settings.seed)


# -- two levels (Table 5) ---------------------------------------------------------------------------------------------


def two_level(matrix: ScoreMatrix, tree: Taxonomy, grouping: Grouping) -> Classified:
    """Classifies the images into fine and coarse classes; images of other classes are left out and counted.

    Raises:
        DataError: If no image shows a fine class.
    """
    matrix = at_leaves(matrix, tree)
    kept = np.isin(matrix.targets, grouping.fine)
    if not kept.any():
        raise DataError("No image shows a class that is below a coarse class.", file=matrix.name)
    notes = [*matrix.notes, *grouping.notes]
    if not kept.all():
        left_out = f"{int((~kept).sum()):,} of {len(kept):,} images left out"
        notes.append(f"{left_out}: they show none of the fine classes.")
    matrix = matrix.of(kept)
    fine = np.searchsorted(grouping.fine, matrix.targets)
    coarse = grouping.parent[fine]
    of_fine = matrix.scores[:, grouping.fine]
    of_coarse = matrix.scores[:, grouping.coarse]
    credit = pd.DataFrame({"FG direct": top_one(of_fine, fine)})
    credit["CG direct"] = top_one(of_coarse, coarse)
    credit["CG FG-label"] = top_one(of_fine, coarse, grouping.parent)
    # Classes that tie are drawn from alike, fine and coarse ones independently.
    chances = _chances(of_fine) @ np.eye(len(grouping.coarse))[grouping.parent]
    credit["full path"] = credit["FG direct"] * credit["CG direct"]
    credit["inconsistent"] = 1 - (chances * _chances(of_coarse)).sum(axis=1)
    credit["Δ label"] = credit["CG FG-label"] - credit["CG direct"]
    credit["CG FG-emb"] = np.nan
    if matrix.image_embeddings is not None and matrix.label_embeddings is not None:
        # The average embedding of the fine classes of each coarse class, at length 1: scores are cosines.
        vectors = pd.DataFrame(matrix.label_embeddings[grouping.fine])
        sums = vectors.groupby(grouping.parent).sum()
        means = unit(sums.to_numpy(dtype=np.float32))
        credit["CG FG-emb"] = top_one(rounded(matrix.image_embeddings @ means.T), coarse)
    else:
        notes.append(
            "No CG FG-emb: averaging the fine classes' embeddings needs a model or embeddings in the file."
        )
    credit["Δ emb"] = credit["CG FG-emb"] - credit["CG direct"]
    return Classified(matrix.name, credit, notes)


def _chances(scores: NDArray[np.floating]) -> FloatArray:
    """Returns the probability of each column, where columns of a row's highest score are drawn from alike."""
    best = _best(scores)
    return np.asarray(best / best.sum(axis=1, keepdims=True))


def two_level_report(
    results: Sequence[Classified], grouping: Grouping, settings: GranularitySettings
) -> StudyReport:
    """Returns the report of the two-level form."""
    rows = []
    parts = {}
    for result in results:
        intervals = interval_frame(result.intervals(settings))
        row = {"scores": result.name, "images": len(result.credit)}
        rows.append(row | (100 * intervals["estimate"]).to_dict())
        parts[result.name] = intervals
    table = pd.DataFrame(rows)
    quantities = pd.concat(parts, names=["scores", "quantity"]).reset_index()
    is_accuracy = quantities["quantity"].str.startswith(("FG", "CG"))
    accuracies = quantities[is_accuracy].rename(columns={"scores": "name", "quantity": "series"})
    accuracy_table = frame_table(
        "two-level",
        "Top-1 accuracy on fine (FG) and coarse (CG) classes, in % (paper 3, Table 5)",
        table,
        f"{len(grouping.fine):,} fine and {len(grouping.coarse):,} coarse classes. CG FG-label: the coarse "
        "class of the predicted fine class; CG FG-emb: by the average of the fine classes' text embeddings; "
        "Δ: the gain over CG direct; full path: FG and CG direct are both right; inconsistent: the "
        "fine class does not belong to the coarse one. Classes that share the highest score share the credit.",
        digits=2,
    )
    note = f"Percentile bootstrap over the images, {settings.resamples:,} resamples."
    return StudyReport(
        study="granularity",
        title="Are coarse classes recognised as well directly as through their fine classes?",
        settings=settings.record(),
        tables=(accuracy_table, intervals_table(quantities, note)),
        figures={"two-level": partial(draw_accuracies, accuracies)},
        notes=tuple(dict.fromkeys(note for result in results for note in result.notes)),
    )


def draw_accuracies(accuracies: pd.DataFrame) -> Figure:
    """Draws accuracies with their intervals: columns name, series, estimate, low and high."""
    return draw_dots(accuracies.assign(panel=""), "top-1 accuracy, %", scale=100)
