"""A classifier's scores with a guarantee.

The threshold that a node needs is chosen on images with known labels.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.answers.classifier_scores import Scores, few, read_groups, read_scores, read_truth
from taxtune.answers.records import Source
from taxtune.classifier.classifier import Classification
from taxtune.classifier.truth import match_truth
from taxtune.errors import TaxtuneError
from taxtune.metrics.groups import Groups, unit_name
from taxtune.metrics.ranks import nodes_at
from taxtune.policies import (
    Paths,
    PlacedAnswer,
    RiskGuarantee,
    ThresholdLevel,
    threshold_levels,
    weighted_paths,
)
from taxtune.policies.paths import IntArray
from taxtune.policies.risk import CalibratedThreshold, Promise, last_kept
from taxtune.progress import note
from taxtune.taxonomy import Taxonomy, as_taxonomy
from taxtune.tuning.saved import tree_columns, tree_of_columns

__all__ = [
    "NO_SCORES",
    "GroupThreshold",
    "ScoreCalibration",
    "calibrate_scores",
    "guaranteed",
    "place_images",
    "scored_paths",
]

#: Thresholds that other programs take as they are, to compare with.
_CONSTANTS = {"SpeciesNet's 0.65": 0.65, "iNaturalist's 0.78": 0.78}
_ELSEWHERE = ""
#: Why an image has no label.
NO_SCORES = "There are no scores."
#: The columns of what an audit adds.
_ADDED: dict[str, str | None] = {"image": "image", "truth": "label"}


class GroupThreshold(NamedTuple):
    """The threshold of the images that are predicted below one node.

    Attributes:
        images: How many they are.
        level: The level of their own threshold.
    """

    images: int
    level: ThresholdLevel


@dataclass(frozen=True, kw_only=True)
class ScoreCalibration(CalibratedThreshold):
    """A threshold of a classifier's scores with a guarantee about new images of the same kind.

    Attributes:
        compared: What the images say of the label with the highest score ("argmax"), and of
            thresholds that others use.
        by: The rank or the depth at which images are grouped; None for one threshold for all.
        groups: The images of each group that has a threshold of its own, by the path of its node;
            "" are those of all other groups together. The guarantee holds for each group on its
            own. Other images take the common threshold.
        labels: The most scores of an image.
        taxonomy: The label tree, by column.
    """

    compared: dict[str, ThresholdLevel]
    by: str | None
    groups: dict[str, GroupThreshold]
    labels: int
    taxonomy: dict[str, Any]
    format: Literal["taxtune scores 3"] = "taxtune scores 3"
    _of: ClassVar[str] = " of a classifier's scores"

    @cached_property
    def tree(self) -> Taxonomy:
        """The label tree."""
        return tree_of_columns(self.taxonomy, None)

    @cached_property
    def nodes(self) -> dict[str, int]:
        """The number of each node, by its path."""
        numbers = range(len(self.tree))
        return {"/".join(self.tree.path(node)): node for node in numbers}

    def place(self, scores: Scores) -> tuple[Paths, IntArray]:
        """Returns the paths of scores, and the depth at which each is to end, shape (n,)."""
        paths = scored_paths(self.tree, scores, self.labels)
        depths = _depths(paths, self.threshold)
        if self.by is None:
            return paths, depths
        thresholds = {}
        for path, group in self.groups.items():
            thresholds[self.nodes.get(path, -1)] = group.level.threshold
        nodes = _grouped(self.tree, paths, self.by, thresholds)
        for node, threshold in thresholds.items():
            depths = np.where(nodes == node, _depths(paths, threshold), depths)
        return paths, depths

    def classify(
        self, scores: Source | Scores, columns: Mapping[str, str | None] | None = None
    ) -> list[Classification]:
        """Places images by their scores, in the order given.

        Those without scores come at the end and have a `failure`.

        Args:
            scores: As `read_scores` takes them.
            columns: Those of "image", "label" and "score" that cannot be told.

        Raises:
            DataError: If the scores cannot be read.
        """
        tree = self.tree
        if not isinstance(scores, Scores):
            group = None if self.unit == "image" else self.unit
            scores = read_scores(scores, tree, {**(columns or {}), "group": group})
        classified = place_images(tree, scores, *self.place(scores))
        for image in scores.missing:
            classified.append(Classification(image, failure=NO_SCORES))
        return classified


def scored_paths(tree: Taxonomy, scores: Scores, labels: int) -> Paths:
    """Returns the paths of scores; notes it if those of the calibration had another number of labels."""
    most = scores.nodes.shape[1] - 1
    if most != labels:
        note(
            f"the scores have up to {most:,} labels per image, those of the calibration "
            f"{labels:,}: the guarantee is for scores of the same kind"
        )
    return weighted_paths(tree, scores.nodes, scores.weights)


def place_images(
    tree: Taxonomy, scores: Scores, paths: Paths, depths: IntArray
) -> list[Classification]:
    """Returns images with scores at a depth of their paths, shape (n,)."""
    classified = []
    all_shares = paths.shares
    for i, image in enumerate(scores.images):
        length = depths[i] + 1
        path = paths.nodes[i, :length].tolist()
        shares = all_shares[i, :length].tolist()
        node = path[-1]
        placed = PlacedAnswer(
            answer=None,
            node=node,
            placement="/".join(tree.path(node)),
            off_tree=False,
            abstained=node == tree.root,
            stage="scores",
            confidence=shares[-1],
            path=tuple(path),
            probabilities=tuple(shares),
        )
        classified.append(Classification.of(image, placed, tree))
    return classified


def calibrate_scores(
    scores: Source,
    taxonomy: Taxonomy | str | Path | Mapping[str, object],
    truth: Source,
    *,
    risk: float,
    confidence_level: float | None = None,
    by: str | int | None = None,
    columns: Mapping[str, str | None] | None = None,
    promise: Promise = "hp",
    rank: str | None = None,
    group: str | None = None,
    group_pattern: str | None = None,
    add: Source | None = None,
) -> ScoreCalibration:
    """Chooses the threshold of a classifier's scores that keeps a promised risk.

    The promise is for new images of the same kind.

    Args:
        scores: The scores of images: a file (wide, long, or SpeciesNet's JSON), a `DataFrame` or
            records.
        taxonomy: The label tree.
        truth: The label of each image: a file, a `DataFrame` or records, with a column of images
            and one of labels.
        risk: What to keep, in (0, 1).
        confidence_level: How often that holds, in (0, 1); see `taxtune.calibrate`.
        by: A rank of the tree, or a depth below the root: groups of enough images get a threshold
            of their own.
        columns: Those of "image", "label", "score" and "truth" (the labels of `truth`) that cannot
            be told.
        promise: What is at most `risk`: "hp" or "labels".
        rank: The rank, or the depth, from which on a node is a label.
        group: A column of any of the tables with the group of each image: a burst, a patient, a
            product. Each group counts once; an image without one is a group of its own.
        group_pattern: In place of a column, a regular expression that finds the group in the name
            of each image: its first bracket, or all that it matches.
        add: Further truths, in the columns image, label and that of groups.

    Raises:
        DataError: If a file cannot be read, or there are too few images for the guarantee whatever
            the scores are.
        TaxtuneError: If the groups are not there, or the risk cannot be promised.
    """
    asked = RiskGuarantee.asked(risk, confidence_level, promise, rank)
    if group is not None and group_pattern is not None:
        raise TaxtuneError("Groups are in a column or in names, not in both.", value=group_pattern)
    tree = as_taxonomy(taxonomy)
    columns = {**(columns or {}), "group": group}
    found = read_scores(scores, tree, columns)
    labels = read_truth(truth, tree, columns)
    tables = [(scores, columns), (truth, columns)]
    if add is not None:
        labels |= read_truth(add, tree, _ADDED)
        tables.append((add, _ADDED))
    source = str(scores) if isinstance(scores, str | Path) else "scores given in Python"
    names = match_truth(found.images, labels, source)
    both = [i for i, image in enumerate(found.images) if image in names]
    without_scores = sorted(labels.keys() - names.values())
    unknown = [image for image in found.images if image not in names]
    _note_some(unknown, len(found.images), "images with scores have no label")
    _note_some(without_scores, len(labels), "images with a label have no scores")
    images = tuple(found.images[i] for i in both)
    target = np.array([labels[names[image]] for image in images])
    used = Scores(images, found.nodes[both], found.weights[both])
    groups = None
    if group is not None:
        of_images = _groups_in_tables(tables, group)
        groups = []
        for image in images:
            name = of_images.get(names[image])
            groups.append(name or of_images.get(image, ""))
        asked = replace(asked, unit=unit_name(group))
    elif group_pattern is not None:
        groups = _groups_in_names(images, group_pattern)
        asked = replace(asked, unit="group")
    if groups is not None:
        alone = [image for image, name in zip(images, groups, strict=True) if not name]
        _note_some(alone, len(images), f"images have no {asked.unit} and count by themselves")
    return guaranteed(tree, used, target, asked, by, groups, source, len(without_scores))


def _note_some(some: Sequence[str], of: int, what: str) -> None:
    """Notes what some of so many images are, if there are any."""
    if some:
        note(f"{len(some):,} of {of:,} {what}: {few(some)}")


def _groups_in_tables(
    tables: Iterable[tuple[Source, Mapping[str, str | None]]], column: str
) -> dict[str, str]:
    """Returns the groups of images of all tables that have the column."""
    groups: dict[str, str] = {}
    for table, columns in tables:
        groups |= read_groups(table, column, columns)
    if not groups:
        raise TaxtuneError("No file has the column of groups.", value=column)
    return groups


def _groups_in_names(images: Sequence[str], pattern: str) -> list[str]:
    """Returns the group of each image from its name.

    Raises:
        TaxtuneError: If the pattern is none, or some names do not match.
    """
    try:
        found = [re.search(pattern, image) for image in images]
    except re.error as error:
        message = f"The pattern of groups is no regular expression: {error}."
        raise TaxtuneError(message, value=pattern) from error
    unmatched = [image for image, match in zip(images, found, strict=True) if match is None]
    if unmatched:
        raise TaxtuneError(
            f"{len(unmatched):,} of {len(images):,} names do not match the pattern of groups: "
            f"{few(unmatched)}.",
            value=pattern,
            remedy="End it with | if these images are groups of their own.",
        )
    return [(match[1] if match.re.groups else match[0]) or "" for match in found if match]


def guaranteed(
    tree: Taxonomy,
    scores: Scores,
    target: IntArray,
    promise: RiskGuarantee,
    by: str | int | None = None,
    groups: ArrayLike | None = None,
    source: str = "scores",
    missing: int = 0,
) -> ScoreCalibration:
    """Returns the calibration of scores whose true nodes, shape (n,), are known.

    See `calibrate_scores`. The name of each image's group may be given, "" for a group of its own.
    """
    names = np.array([""] * len(target) if groups is None else groups)
    # Files are often sorted by class, and the tests take the images in the order in which they were
    # drawn.
    by_name = np.argsort(scores.images, kind="stable")
    order = np.random.default_rng(0).permutation(by_name)
    target = target[order]
    grouped = Groups.of(names[order].tolist())
    needed = promise.fewest(tree)
    promise.check_enough(grouped, needed, source)
    paths = weighted_paths(tree, scores.nodes[order], scores.weights[order])
    judge = partial(threshold_levels, tree, target=target, promise=promise, groups=grouped)
    levels = judge(paths)
    best = weighted_paths(tree, scores.best()[order, np.newaxis])
    compared = {"argmax": judge(best, thresholds=[1.0])[1]}
    for name, constant in _CONSTANTS.items():
        compared[name] = judge(paths, thresholds=[constant])[1]
    own = {}
    if by is not None:
        by = str(by)
        own = _own_thresholds(tree, paths, target, promise, names[order], by)
    promised = asdict(replace(promise, images=len(target)))
    threshold = last_kept(levels).threshold
    return ScoreCalibration(
        **promised,
        threshold=threshold,
        levels=levels,
        units=len(grouped),
        missing=missing,
        source=source,
        needed=needed,
        compared=compared,
        by=by,
        groups=own,
        labels=scores.nodes.shape[1] - 1,
        taxonomy=tree_columns(tree),
    )


def _own_thresholds(
    tree: Taxonomy,
    paths: Paths,
    target: IntArray,
    promise: RiskGuarantee,
    names: NDArray[np.str_],
    by: str,
) -> dict[str, GroupThreshold]:
    """Returns the thresholds of predicted groups of enough images, and of all others together."""
    needed = promise.fewest(tree)
    nodes = _grouped(tree, paths, by)
    large = []
    for node in np.unique(nodes[nodes >= 0]).tolist():
        if len(Groups.of(names[nodes == node].tolist())) >= needed:
            large.append(node)
    nodes = _grouped(tree, paths, by, large)
    thresholds = {}
    for node in np.unique(nodes).tolist():
        own = nodes == node
        groups = Groups.of(names[own].tolist())
        if len(groups) >= needed:
            paths_of_own = paths.select(own)
            levels = threshold_levels(tree, paths_of_own, target[own], promise, groups)
            name = _ELSEWHERE if node < 0 else "/".join(tree.path(node))
            thresholds[name] = GroupThreshold(groups.numbers.size, last_kept(levels))
    return thresholds


def _grouped(
    tree: Taxonomy, paths: Paths, by: str, among: Collection[int] | None = None
) -> IntArray:
    """Returns the node of a rank or a depth on each path, shape (n,), if it is among some; else -1."""
    is_group = (paths.nodes >= 0) & nodes_at(tree, by)[paths.nodes]
    nodes: IntArray = np.where(is_group, paths.nodes, -1).max(axis=1)
    if among is None:
        return nodes
    return np.where(np.isin(nodes, list(among)), nodes, -1)


def _depths(paths: Paths, threshold: float | None) -> IntArray:
    if threshold is None:
        return np.zeros(len(paths.nodes), dtype=np.int64)
    return paths.depths(threshold)
