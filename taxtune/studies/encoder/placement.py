"""Placing texts by every encoder: what the study of encoders compares.

Every text of `taxtune.studies.encoder.texts` is placed by each encoder in two ways: on the node with the nearest name,
which is the encoder's own merit, and by taxtune's default mapper with the encoder as its similarity, which is what a
recipe's `mapper.similarity` changes. And as in paper 3 (Appendix B, Table 6) a leaf's name is classified as its
ancestor at each level above, by the nearest name of that level ("language only").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError
from taxtune.mapping import Mapper
from taxtune.progress import track
from taxtune.studies.encoder import EncoderSettings
from taxtune.studies.encoder.texts import (
    Levels,
    TextSet,
    annotated_set,
    held_out_set,
    template_sets,
    tree_levels,
)
from taxtune.studies.mapping.annotated import AnnotatedAnswers
from taxtune.studies.mapping.nearest import NodeNames, nearest_nodes, node_names, score_table, tree_names
from taxtune.studies.mapping.scorers import Scorer, similarity_scorer, split_name, unique_names
from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "MAPPER",
    "NEAREST",
    "LanguageTask",
    "Place",
    "PlacedTexts",
    "language_only",
    "language_tasks",
    "place_texts_by_encoder",
    "without_names",
]

IntArray = NDArray[np.int64]

#: The ways of placing.
NEAREST, MAPPER = "nearest name", "default mapper"
_BATCH = 256


@dataclass(frozen=True, slots=True)
class PlacedTexts:
    """One set of texts, placed by every encoder in one way.

    Attributes:
        texts: The texts.
        way: `NEAREST` or `MAPPER`.
        nodes: The node of each text, by the encoder's name.
    """

    texts: TextSet
    way: str
    nodes: dict[str, IntArray]


@dataclass(frozen=True, slots=True)
class LanguageTask:
    """Leaves to be classified as their ancestors of one level.

    Attributes:
        level: The level.
        names: "common name" or "label": what of the leaf is classified.
        classes: The nodes of the level, shape (classes,).
        texts: The leaves' names.
        targets: The ancestor of each leaf, shape (texts,).
        nodes: The class chosen for each, by the encoder's name.
    """

    level: str
    names: str
    classes: IntArray
    texts: tuple[str, ...]
    targets: IntArray
    nodes: dict[str, IntArray]


def place_texts_by_encoder(
    taxonomy: Taxonomy, settings: EncoderSettings, answers: AnnotatedAnswers | None = None
) -> tuple[Levels, list[PlacedTexts], list[LanguageTask], dict[str, str]]:
    """Draws the texts and places them; returns the levels, the placements, and each encoder's name and specification.

    Args:
        taxonomy: The tree.
        settings: What to compare.
        answers: Answers that people have placed, or None.

    Raises:
        DataError: If a setting is none or the tree has nothing to draw.
        MapperError: If there is no such similarity.
        ModelError: If a model cannot be loaded.
    """
    if len(taxonomy) == 1:
        raise DataError("The taxonomy has only a root.", file=taxonomy.source)
    levels = tree_levels(taxonomy, settings.by)
    drawing, choosing, leafing = np.random.default_rng(settings.seed).spawn(3)
    held_out = held_out_set(taxonomy, levels, settings.per_level, drawing)
    sets = [held_out] if held_out.texts else []
    sets += template_sets(taxonomy, levels, settings.template, settings.per_level, choosing)
    if answers is not None:
        sets.append(annotated_set(answers, levels))
    reduced = without_names(taxonomy, held_out.hidden)
    tasks = language_tasks(taxonomy, levels, settings.per_level, leafing)
    names = tree_names(taxonomy)
    placed = [(PlacedTexts(texts, NEAREST, {}), PlacedTexts(texts, MAPPER, {})) for texts in sets]
    for spec in settings.encoder:
        if split_name(spec)[1].startswith("clip-i2t:"):
            raise DataError("The encoder needs images, but the texts have none.", value=spec)
    # All of them before the first has worked for minutes: one may not be there.
    scorers = [
        similarity_scorer(spec, names.vocabulary, device=settings.device, cache_dir=settings.cache_dir)
        for spec in settings.encoder
    ]
    unique_names(scorers)
    for scorer in scorers:
        whole = Place(taxonomy, scorer, names)
        part = Place(reduced, *_without(scorer, reduced, names)) if held_out.texts else whole
        for nearest, mapped in placed:
            place = part if nearest.texts.hidden else whole
            nearest.nodes[scorer.name], mapped.nodes[scorer.name] = place(nearest.texts.texts)
        chosen = language_only(taxonomy, scorer, names, tasks, settings.seed)
        for task, nodes in zip(tasks, chosen, strict=True):
            task.nodes[scorer.name] = nodes
    return levels, [one for pair in placed for one in pair], tasks, {scorer.name: scorer.spec for scorer in scorers}


class Place:
    """Places texts by the nearest name and by the default mapper, from one table of scores.

    Args:
        taxonomy: The tree.
        scorer: The encoder.
        names: The tree's names as columns of what the encoder scores.
    """

    def __init__(self, taxonomy: Taxonomy, scorer: Scorer, names: NodeNames) -> None:
        self.taxonomy, self.scorer, self.names = taxonomy, scorer, names
        self.mapper = Mapper(taxonomy, scorer.similarity)

    def __call__(self, texts: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Returns the node of each text by the nearest name and by the mapper; a blank text is on the root."""
        distinct = sorted(set(texts))
        found: dict[str, tuple[int, int]] = {}
        with track(self.scorer.name, len(distinct)) as task:
            for start in range(0, len(distinct), _BATCH):
                batch = distinct[start : start + _BATCH]
                table = score_table(self.scorer.score, self.names, batch, advance=task.advance)
                nearest, _ = nearest_nodes(self.taxonomy, table)
                for text, row, node in zip(batch, table, nearest.tolist(), strict=True):
                    blank = not any(character.isalnum() for character in text)
                    found[text] = (0 if blank else node, self.mapper.place_scored(text, row).node)
        nodes = np.array([found[text] for text in texts], dtype=np.int64).reshape(-1, 2)
        return nodes[:, 0], nodes[:, 1]


def without_names(taxonomy: Taxonomy, hidden: Mapping[int, frozenset[str]]) -> Taxonomy:
    """Returns the tree without some aliases and leads of some nodes."""

    def left(names: Sequence[Sequence[str]]) -> list[list[str]]:
        return [[name for name in some if name not in hidden.get(v, frozenset())] for v, some in enumerate(names)]

    return taxonomy.with_names(aliases=left(taxonomy.aliases), leads=left(taxonomy.leads))


def language_tasks(taxonomy: Taxonomy, levels: Levels, per_level: int, rng: np.random.Generator) -> list[LanguageTask]:
    """Draws leaves and returns what they are to be classified as, level by level, by common name and by label.

    A level with a single node is left out: there is nothing to choose.
    """
    leaves = taxonomy.leaves
    if len(leaves) > per_level:
        leaves = np.sort(rng.choice(leaves, size=per_level, replace=False))
    tasks: list[LanguageTask] = []
    named = [len(taxonomy.names(v)) > 1 for v in range(len(taxonomy))]
    for kind in ("common name", "label") if any(named) else ("label",):
        for level in levels.names:
            classes = np.array(levels.nodes(level), dtype=np.int64)
            pairs: list[tuple[int, int]] = []
            for leaf in leaves.tolist():
                above = [v for v in taxonomy.ancestors(leaf)[:-1].tolist() if levels.of[v] == level]
                if above and (kind == "label" or named[leaf]):
                    pairs.append((leaf, above[-1]))
            if pairs and len(classes) > 1:
                texts = [taxonomy.labels[v] if kind == "label" else taxonomy.common_name(v) for v, _ in pairs]
                target = np.array([v for _, v in pairs], dtype=np.int64)
                tasks.append(LanguageTask(level, kind, classes, tuple(texts), target, {}))
    return tasks


def language_only(
    taxonomy: Taxonomy,
    scorer: Scorer,
    names: NodeNames,
    tasks: Sequence[LanguageTask],
    seed: int = 0,
) -> list[IntArray]:
    """Returns, task by task, the class with the most similar name for each text.

    Of equally similar ones one is drawn: the first would often be the largest, whose gain would be nobody's merit.

    Args:
        taxonomy: The tree.
        scorer: The encoder.
        names: The tree's names.
        tasks: The texts and the classes.
        seed: Seeds the drawing.
    """
    rng = np.random.default_rng(seed)
    distinct = sorted({text for task in tasks for text in task.texts})
    chosen: list[dict[str, int]] = [{} for _ in tasks]
    with track(scorer.name, len(distinct)) as progress:
        for start in range(0, len(distinct), _BATCH):
            batch = distinct[start : start + _BATCH]
            table = score_table(scorer.score, names, batch, advance=progress.advance)
            for task, found in zip(tasks, chosen, strict=True):
                best, _ = nearest_nodes(taxonomy, table[:, task.classes], ties="random", rng=rng)
                found.update(zip(batch, task.classes[best].tolist(), strict=True))
    return [
        np.array([found[text] for text in task.texts], dtype=np.int64)
        for task, found in zip(tasks, chosen, strict=True)
    ]


def _without(scorer: Scorer, reduced: Taxonomy, names: NodeNames) -> tuple[Scorer, NodeNames]:
    """Returns the encoder and the names for a tree from which names are taken.

    An encoder's score of two texts depends on these alone, so that a column is passed over; lexical weighs n-grams by
    the names that it knows, and must not know those that were taken.
    """
    if scorer.spec != "lexical":
        return scorer, node_names([reduced.names(v) for v in range(len(reduced))], names.vocabulary)
    left = tree_names(reduced)
    return similarity_scorer(f"{scorer.name}={scorer.spec}", left.vocabulary), left
