"""Fine and coarse classes alone: the two-level form of paper 3 (Table 5) and the one of language only (Table 6).

The coarse class of an image is predicted directly from the coarse names, from the parent of the predicted fine class,
and from the average of the fine classes' text embeddings. With no image at all, the fine class's own text takes the
image's place: does the encoder of texts know what the fine name is a kind of?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taxtune.encoders.base import FloatMatrix, TextEncoder
from taxtune.errors import DataError
from taxtune.metrics.statistics import Interval, Sample, bootstrap
from taxtune.studies.granularity.label_prompts import LabelPrompts, label_texts, unit
from taxtune.studies.granularity.score_matrix import ScoreMatrix, at_leaves, check_vectors, shown_name
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["Grouping", "LanguageOnly", "TwoLevel", "coarse_cut", "language_only", "top_one", "two_level"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Grouping:
    """Fine classes and the coarse class of each.

    Attributes:
        fine: The leaves, shape (fine,).
        coarse: The coarse nodes, shape (coarse,).
        parent: The position in `coarse` of each fine class, shape (fine,).
        notes: Stated, counted exclusions.
    """

    fine: IntArray
    coarse: IntArray
    parent: IntArray
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TwoLevel:
    """Top-1 accuracies of one score matrix, in 0..1, with intervals (Table 5).

    Attributes:
        name: Where the scores are from.
        images: How many images were classified.
        accuracy: "FG direct", "CG direct", "CG FG-label", "Δ label", "CG FG-emb", "Δ emb"; the last two are NaN where
            there are no embeddings.
        notes: Stated, counted exclusions.
    """

    name: str
    images: int
    accuracy: dict[str, Interval]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LanguageOnly:
    """Accuracy of fine names sorted into coarse classes by their text (Table 6).

    Attributes:
        name: The encoder or the chat model.
        accuracy: The share of fine classes that are sorted right, with its interval over the fine classes.
        credit: 1 for each fine class sorted right, 0 if wrong, a share where coarse classes tie, NaN where a chat model
            gave no class; shape (fine,).
        chosen: The position of the coarse class chosen for each fine class, -1 where none was; shape (fine,).
        notes: What was left out, with counts.
    """

    name: str
    accuracy: Interval
    credit: FloatArray
    chosen: IntArray
    notes: tuple[str, ...] = ()


def coarse_cut(taxonomy: Taxonomy, *, level: int | None = None, labels: Sequence[str] = ()) -> Grouping:
    """Returns the leaves and the coarse class of each.

    Args:
        taxonomy: The tree.
        level: Take the nodes of this level, the root being level 0, that are no leaves themselves.
        labels: Or take these nodes: labels, aliases or paths.

    Returns:
        The grouping; leaves that are below no coarse class are left out and counted.

    Raises:
        DataError: If neither or both are given, the level is not on the tree, a coarse class is a leaf or lies below
            another, or fewer than two coarse classes are left.
        TaxonomyError: If a label is not on the tree.
    """
    if (level is None) == (not labels):
        raise DataError("Coarse classes are given by a level or by their labels, one of the two.")
    if labels:
        coarse = np.array(sorted({taxonomy.resolve(label) for label in labels}), dtype=np.int64)
    else:
        assert level is not None
        if taxonomy.height < 2:
            raise DataError("The taxonomy has no level between its root and its leaves.", value=level)
        if not 1 <= level < taxonomy.height:
            raise DataError(
                "The coarse level must lie below the root and above the lowest leaves.",
                value=level,
                remedy=f"Take 1 to {taxonomy.height - 1}.",
            )
        coarse = np.flatnonzero(taxonomy.depth == level)
        coarse = coarse[~np.isin(coarse, taxonomy.leaves)]
    bare = coarse[np.isin(coarse, taxonomy.leaves)]
    if bare.size:
        raise DataError("A coarse class has nothing below it.", value=taxonomy.labels[int(bare[0])])
    for node in coarse.tolist():
        above = np.intersect1d(taxonomy.ancestors(node)[:-1], coarse)
        if above.size:
            raise DataError(
                f"The coarse class {taxonomy.labels[node]!r} lies below another, {taxonomy.labels[int(above[0])]!r}.",
                remedy="Leave one of them out: a fine class belongs to one coarse class.",
            )
    if len(coarse) < 2:
        raise DataError("There must be at least two coarse classes.", value=[taxonomy.labels[i] for i in coarse])
    position = {node: i for i, node in enumerate(coarse.tolist())}
    leaves = taxonomy.leaves.tolist()
    parents = [next((position[a] for a in taxonomy.ancestors(v).tolist() if a in position), -1) for v in leaves]
    kept = np.array(parents) >= 0
    notes = []
    if not kept.all():
        notes.append(
            f"{int((~kept).sum()):,} of {len(leaves):,} fine classes left out: they are below no coarse class."
        )
    return Grouping(taxonomy.leaves[kept], coarse, np.array(parents, dtype=np.int64)[kept], tuple(notes))


def top_one(scores: NDArray[np.floating], right: IntArray, group: IntArray | None = None) -> FloatArray:
    """Returns the credit of each row for its highest score: 1 if it is the right column's, 0 if not.

    Where several columns share the highest score the credit is the share of them that are right, so that the order of
    the columns does not matter.

    Args:
        scores: Shape (rows, columns).
        right: The right class of each row, shape (rows,): a column, or a group of columns.
        group: The group of each column, shape (columns,); by default each column is its own.
    """
    of_column = np.arange(scores.shape[1]) if group is None else group
    best = scores == scores.max(axis=1, keepdims=True)
    hits = best & (of_column[np.newaxis, :] == right[:, np.newaxis])
    return np.asarray(hits.sum(axis=1) / best.sum(axis=1), dtype=np.float64)


def two_level(
    matrix: ScoreMatrix, taxonomy: Taxonomy, grouping: Grouping, *, resamples: int = 1000, seed: int = 0
) -> TwoLevel:
    """Returns the top-1 accuracies of fine and coarse classes (paper 3, Table 5).

    Args:
        matrix: The scores.
        taxonomy: The tree.
        grouping: The fine and the coarse classes; images of other classes are left out and counted.
        resamples: Bootstrap resamples of the images; 0 for no intervals.
        seed: Seed of the resampling.

    Raises:
        DataError: If no image shows a fine class.
    """
    matrix = at_leaves(matrix, taxonomy)
    place = np.full(len(taxonomy), -1, dtype=np.int64)
    place[grouping.fine] = np.arange(len(grouping.fine))
    fine = place[matrix.targets]
    kept = fine >= 0
    notes = [*matrix.notes, *grouping.notes]
    if not kept.any():
        raise DataError("No image shows a class that is below a coarse class.", file=matrix.name)
    if not kept.all():
        notes.append(f"{int((~kept).sum()):,} of {len(kept):,} images left out: they show none of the fine classes.")
    fine = fine[kept]
    coarse = grouping.parent[fine]
    of_fine, of_coarse = matrix.scores[kept][:, grouping.fine], matrix.scores[kept][:, grouping.coarse]
    credits = {
        "FG direct": top_one(of_fine, fine),
        "CG direct": top_one(of_coarse, coarse),
        "CG FG-label": top_one(of_fine, coarse, grouping.parent),
    }
    credits["Δ label"] = credits["CG FG-label"] - credits["CG direct"]
    if matrix.image_embeddings is not None and matrix.label_embeddings is not None:
        averaged = _averages(matrix.label_embeddings[grouping.fine], grouping)
        credits["CG FG-emb"] = top_one(matrix.image_embeddings[kept] @ averaged.T, coarse)
        credits["Δ emb"] = credits["CG FG-emb"] - credits["CG direct"]
    else:
        credits |= {name: np.full(len(fine), np.nan) for name in ("CG FG-emb", "Δ emb")}
        notes.append("No CG FG-emb: averaging the fine classes' embeddings needs a model, or embeddings in the file.")
    tied = int(((of_fine == of_fine.max(axis=1, keepdims=True)).sum(axis=1) > 1).sum())
    if tied:
        notes.append(f"{tied:,} images whose highest fine score is shared: each counts by the share that is right.")
    return TwoLevel(matrix.name, len(fine), bootstrap(Sample(credits), resamples=resamples, seed=seed), tuple(notes))


def language_only(
    encoder: TextEncoder,
    taxonomy: Taxonomy,
    grouping: Grouping,
    prompts: LabelPrompts,
    *,
    names: str = "common",
    resamples: int = 1000,
    seed: int = 0,
) -> LanguageOnly:
    """Returns how often a fine class's text is nearest to its coarse class's text (paper 3, Table 6).

    Args:
        encoder: An encoder of texts.
        taxonomy: The tree.
        grouping: The fine and the coarse classes.
        prompts: Prompt templates, for both; the embeddings of a label's prompts are averaged.
        names: Which name of a node stands in a prompt; see `label_texts`.
        resamples: Bootstrap resamples of the fine classes; 0 for no interval.
        seed: Seed of the resampling.

    Raises:
        ModelError: If the encoder gives no vector for a class.
    """
    texts = label_texts(taxonomy, names)
    fine = prompts.embed(encoder, [texts[i] for i in grouping.fine.tolist()])
    coarse = prompts.embed(encoder, [texts[i] for i in grouping.coarse.tolist()])
    check_vectors(encoder.name, {"fine classes": fine, "coarse classes": coarse})
    scores = fine @ coarse.T
    credit = top_one(scores, grouping.parent)
    accuracy = bootstrap(Sample({"": credit}), resamples=resamples, seed=seed)[""]
    return LanguageOnly(shown_name(encoder.name), accuracy, credit, scores.argmax(axis=1))


def _averages(fine: FloatMatrix, grouping: Grouping) -> FloatMatrix:
    """Returns the average embedding of the fine classes of each coarse class, at length 1: scores are cosines."""
    total = np.zeros((len(grouping.coarse), fine.shape[1]), dtype=np.float32)
    np.add.at(total, grouping.parent, fine)
    return unit(total / np.bincount(grouping.parent, minlength=len(grouping.coarse))[:, np.newaxis].clip(1))
