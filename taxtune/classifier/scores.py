"""A classifier's scores with a guarantee.

The threshold that a node needs is chosen on images with known labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from taxtune.answers.classifier_scores import (
    Scores,
    few,
    read_groups,
    read_scores,
    read_truth,
)
from taxtune.answers.records import Source
from taxtune.classifier.classifier import Classification
from taxtune.data.names import match_names
from taxtune.errors import DataError, TaxtuneError
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
from taxtune.policies.risk import Promise
from taxtune.progress import note
from taxtune.taxonomy import Taxonomy, as_taxonomy
from taxtune.tuning.saved import tree_columns, tree_of_columns

__all__ = ["GroupThreshold", "ScoreCalibration", "calibrate_scores", "guaranteed"]

#: Thresholds that other programs take as they are, to compare with.
_CONSTANTS = {"SpeciesNet's 0.65": 0.65, "iNaturalist's 0.78": 0.78}
_ELSEWHERE = ""
_AGAIN = "Write it with `taxtune calibrate SCORES`."


class GroupThreshold(NamedTuple):
    """The threshold of the images that are predicted below one node.

    Attributes:
        images: How many they are.
        level: The level of their own threshold.
    """

    images: int
    level: ThresholdLevel


class ScoreCalibration(BaseModel):
    """A threshold of a classifier's scores with a guarantee about new images; see `RiskGuarantee`.

    Attributes:
        threshold: The share of the scores that a node needs. It is None if only always answering
            the root keeps the risk.
        risk: What is guaranteed: the mean of 1 - hP, or the share of the labels that are wrong.
        confidence_level: How often that holds; None for in expectation.
        images: How many images it was calibrated on.
        missing: How many more had a label and no scores.
        source: Which images these are, in words.
        needed: How many images it takes at best.
        levels: What the images say of each threshold, the most cautious first.
        compared: What they say of the label with the highest score ("argmax"), and of thresholds
            that others use.
        by: The rank or the depth at which images are grouped; None for one threshold for all.
        groups: The images of each group that has a threshold of its own, by the path of its node;
            "" are those of all other groups together. The guarantee holds for each group on its
            own. Other images take the common threshold.
        labels: The most scores of an image.
        taxonomy: The label tree, by column.
        promise: What has the risk, see `RiskGuarantee`; as well `rank` and `unit`.
        units: How many groups the images are; None in files of earlier versions.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    format: Literal["taxtune scores 3"] = "taxtune scores 3"
    threshold: float | None
    risk: float
    confidence_level: float | None
    images: int
    missing: int
    source: str
    needed: int
    levels: tuple[ThresholdLevel, ...]
    compared: dict[str, ThresholdLevel]
    by: str | None
    groups: dict[str, GroupThreshold]
    labels: int
    taxonomy: dict[str, Any]
    promise: Promise = "hp"
    rank: str | None = None
    unit: str = "image"
    units: int | None = None

    @classmethod
    def read(cls, file: str | Path) -> ScoreCalibration:
        """Reads a calibration that `taxtune calibrate` wrote.

        Raises:
            DataError: If it cannot be read, or was written by another version of taxtune.
        """
        try:
            calibration = cls.model_validate_json(Path(file).read_bytes())
            for path in calibration.groups:
                _ = path == _ELSEWHERE or calibration.nodes[path]
        except OSError as error:
            raise DataError(f"The file cannot be read: {error.strerror}.", file=file) from error
        except (ValidationError, DataError, KeyError) as error:
            problem = str(error).splitlines()[0].rstrip(".")
            raise DataError(
                f"The file is no calibration of a classifier's scores: {problem}.",
                file=file,
                remedy=_AGAIN,
            ) from error
        return calibration

    @property
    def chosen(self) -> ThresholdLevel:
        """The level of the common threshold."""
        return next(level for level in self.levels if level.threshold == self.threshold)

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
        most = scores.nodes.shape[1] - 1
        if most != self.labels:
            note(
                f"the scores have up to {most:,} labels per image, those of the calibration "
                f"{self.labels:,}: the guarantee is for scores of the same kind"
            )
        paths = weighted_paths(self.tree, scores.nodes, scores.weights)
        depths = _depths(paths, self.threshold)
        if self.by is None:
            return paths, depths
        thresholds = {}
        for path, group in self.groups.items():
            thresholds[self.nodes.get(path, -1)] = group.level.threshold
        nodes = _grouped(self.tree, paths, self.by)
        nodes = _known(nodes, list(thresholds))
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
        paths, depths = self.place(scores)
        classified = []
        for i, image in enumerate(scores.images):
            length = depths[i] + 1
            path = paths.nodes[i, :length].tolist()
            shares = paths.shares[i, :length].tolist()
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
        for image in scores.missing:
            classified.append(Classification(image, failure="There are no scores."))
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
        confidence_level: How often that holds, in (0, 1); in expectation where left out, and 0.9
            for labels.
        by: A rank of the tree, or a depth below the root: groups of enough images get a threshold
            of their own.
        columns: Those of "image", "label", "score" and "truth" (the labels of `truth`) that cannot
            be told.
        promise: What is at most `risk`: "hp", the mean of 1 - hP; or "labels", the share of wrong
            labels among those below the root.
        rank: The rank, or the depth, from which on a node is a label.
        group: A column of either table with the group of each image: a burst, a patient, a product.
            Each group counts once; an image without one is a group of its own.
        group_pattern: In place of a column, a regular expression that finds the group in the name
            of each image: its first bracket, or all that it matches.
        add: Further truths, in the columns image and label.

    Raises:
        DataError: If a file cannot be read, or there are too few images for the guarantee whatever
            the scores are.
        TaxtuneError: If the groups are not there, or the risk cannot be promised.
    """
    asked = RiskGuarantee.asked(risk, confidence_level, promise, rank)
    tree = as_taxonomy(taxonomy)
    columns = {**(columns or {}), "group": group}
    found = read_scores(scores, tree, columns)
    labels = read_truth(truth, tree, columns)
    if add is not None:
        labels |= read_truth(add, tree, {"image": "image", "truth": "label"})
    names = match_names(found.images, labels)
    both = [i for i, image in enumerate(found.images) if image in names]
    if not both:
        message = "No image has both scores and a label: they are called differently."
        remedy = "The names of the images must be the same in both files."
        names_of_both = found.images[0], next(iter(labels))
        raise DataError(message, value=names_of_both, remedy=remedy)
    without_scores = sorted(labels.keys() - names.values())
    _note_unmatched(found.images, names, labels, without_scores)
    images = tuple(found.images[i] for i in both)
    target = np.array([labels[names[image]] for image in images])
    used = Scores(images, found.nodes[both], found.weights[both])
    source = str(scores) if isinstance(scores, str | Path) else "scores given in Python"
    groups = None
    if group is not None:
        of_images = _groups_in_tables((truth, scores), group, columns)
        groups = [of_images.get(names[image]) or of_images.get(image, "") for image in images]
        asked = replace(asked, unit=unit_name(group))
    elif group_pattern is not None:
        groups = _groups_in_names(images, group_pattern)
        asked = replace(asked, unit="group")
    return guaranteed(
        tree, used, target, asked, by, groups, source=source, missing=len(without_scores)
    )


def _note_unmatched(
    images: Sequence[str],
    names: Mapping[str, str],
    labels: Mapping[str, int],
    without_scores: Sequence[str],
) -> None:
    """Notes the images that are in one of the files alone."""
    unknown = [image for image in images if image not in names]
    if unknown:
        counts = f"{len(unknown):,} of {len(images):,}"
        note(f"{counts} images with scores have no label: {few(unknown)}")
    if without_scores:
        counts = f"{len(without_scores):,} of {len(labels):,}"
        note(f"{counts} images with a label have no scores: {few(without_scores)}")


def _groups_in_tables(
    tables: Sequence[Source], column: str, columns: Mapping[str, str | None]
) -> dict[str, str]:
    """Returns the group of each image of the first table that has the column."""
    for table in tables:
        found = read_groups(table, column, columns)
        if found:
            return found
    raise TaxtuneError("Neither file has the column of groups.", value=column)


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
    groups: Sequence[str] | None = None,
    source: str = "scores",
    missing: int = 0,
) -> ScoreCalibration:
    """Returns the calibration of scores whose true nodes, shape (n,), are known.

    See `calibrate_scores`. The name of each image's group may be given, "" for a group of its own.
    """
    n = len(target)
    names = np.array([""] * n if groups is None else groups)
    counted = Groups.of(names.tolist())
    needed = promise.needed(tree)
    if len(counted) < needed:
        what = "images" if counted.single else f"groups ({promise.unit})"
        raise DataError(
            f"{len(counted):,} {what} cannot show that the risk is kept: even if every answer were "
            f"right, it takes {needed:,}.",
            file=source,
            remedy="Label more images, or allow more risk or less confidence.",
        )
    # Files are often sorted by class, and the tests take the images in the order in which they were
    # drawn.
    by_name = np.argsort(scores.images, kind="stable")
    order = np.random.default_rng(0).permutation(by_name)
    target = target[order]
    names = names[order]
    paths = weighted_paths(tree, scores.nodes[order], scores.weights[order])
    best = scores.best()[order]
    best_paths = weighted_paths(tree, best[:, np.newaxis])
    counted = Groups.of(names.tolist())
    judge = partial(threshold_levels, tree, target=target, promise=promise, groups=counted)
    levels = judge(paths)
    compared = {"argmax": judge(best_paths, thresholds=[1.0])[1]}
    for name, threshold in _CONSTANTS.items():
        compared[name] = judge(paths, thresholds=[threshold])[1]
    own_thresholds: dict[str, GroupThreshold] = {}
    if by is not None:
        nodes = _grouped(tree, paths, str(by))
        pairs = np.unique([nodes, counted.numbers], axis=1)
        own, counts = np.unique(pairs[0], return_counts=True)
        large = own[(own >= 0) & (counts >= needed)]
        nodes = _known(nodes, large.tolist())
        for node in np.unique(nodes).tolist():
            members = nodes == node
            own_groups = Groups.of(names[members].tolist())
            if len(own_groups) >= needed:
                name = _ELSEWHERE if node < 0 else "/".join(tree.path(node))
                judged = judge(paths.select(members), target=target[members], groups=own_groups)
                images = int(members.sum())
                own_thresholds[name] = GroupThreshold(images, _last_kept(judged))
    return ScoreCalibration(
        threshold=_last_kept(levels).threshold,
        **asdict(replace(promise, images=n)),
        missing=missing,
        source=source,
        needed=needed,
        levels=levels,
        compared=compared,
        by=None if by is None else str(by),
        groups=own_thresholds,
        labels=scores.nodes.shape[1] - 1,
        taxonomy=tree_columns(tree),
        units=len(counted),
    )


def _grouped(tree: Taxonomy, paths: Paths, by: str) -> IntArray:
    """Returns the group of each image, shape (n,): the node of a rank or a depth on its path.

    It is -1 if there is none.
    """
    is_group = (paths.nodes >= 0) & nodes_at(tree, by)[paths.nodes]
    groups = np.where(is_group, paths.nodes, -1)
    nodes: IntArray = groups.max(axis=1)
    return nodes


def _known(nodes: IntArray, groups: list[int]) -> IntArray:
    """Returns nodes, -1 for those that are no group, shape (n,)."""
    return np.where(np.isin(nodes, groups), nodes, -1)


def _depths(paths: Paths, threshold: float | None) -> IntArray:
    if threshold is None:
        return np.zeros(len(paths.nodes), dtype=np.int64)
    return paths.depths(threshold)


def _last_kept(levels: tuple[ThresholdLevel, ...]) -> ThresholdLevel:
    return [level for level in levels if level.kept][-1]
