"""A classifier's scores with a guarantee.

The threshold that a node needs is chosen on images with known labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from taxtune.answers.classifier_scores import Scores, few, read_scores, read_truth
from taxtune.answers.records import Source
from taxtune.classifier.classifier import Classification
from taxtune.data.names import match_names
from taxtune.errors import DataError, TaxtuneError
from taxtune.policies import (
    Paths,
    PlacedAnswer,
    ThresholdLevel,
    images_needed,
    threshold_levels,
    weighted_paths,
    worst_loss,
)
from taxtune.policies.paths import IntArray
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
    """A threshold of a classifier's scores with a guarantee.

    On new images of the same kind the mean of 1 - hP is kept.

    Attributes:
        threshold: The share of the scores that a node needs. It is None if only always answering
            the root keeps the risk.
        risk: The mean of 1 - hP that is guaranteed.
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
            scores = read_scores(scores, tree, columns)
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
) -> ScoreCalibration:
    """Chooses the threshold of a classifier's scores that keeps a promised risk.

    The promise is for new images of the same kind.

    Args:
        scores: The scores of images: a file (wide, long, or SpeciesNet's JSON), a `DataFrame` or
            records.
        taxonomy: The label tree.
        truth: The label of each image: a file, a `DataFrame` or records, with a column of images
            and one of labels.
        risk: The mean of 1 - hP to keep, in (0, 1).
        confidence_level: How often that holds, in (0, 1); in expectation where left out.
        by: A rank of the tree, or a depth below the root: groups of enough images get a threshold
            of their own.
        columns: Those of "image", "label", "score" and "truth" (the labels of `truth`) that cannot
            be told.

    Raises:
        DataError: If a file cannot be read, or there are too few images for the guarantee whatever
            the scores are.
    """
    tree = as_taxonomy(taxonomy)
    found = read_scores(scores, tree, columns)
    labels = read_truth(truth, tree, columns)
    names = match_names(found.images, labels)
    both = [i for i, image in enumerate(found.images) if image in names]
    if not both:
        raise DataError(
            "No image has both scores and a label: they are called differently.",
            value=(found.images[0], next(iter(labels))),
            remedy="The names of the images must be the same in both files.",
        )
    unknown = [image for image in found.images if image not in names]
    without_scores = sorted(labels.keys() - names.values())
    if unknown:
        counts = f"{len(unknown):,} of {len(found.images):,}"
        note(f"{counts} images with scores have no label: {few(unknown)}")
    if without_scores:
        counts = f"{len(without_scores):,} of {len(labels):,}"
        note(f"{counts} images with a label have no scores: {few(without_scores)}")
    images = tuple(found.images[i] for i in both)
    target = np.array([labels[names[image]] for image in images])
    used = Scores(images, found.nodes[both], found.weights[both])
    source = str(scores) if isinstance(scores, str | Path) else "scores given in Python"
    return guaranteed(
        tree,
        used,
        target,
        risk,
        confidence_level,
        by,
        source=source,
        missing=len(without_scores),
    )


def guaranteed(
    tree: Taxonomy,
    scores: Scores,
    target: IntArray,
    risk: float,
    confidence_level: float | None = None,
    by: str | int | None = None,
    source: str = "scores",
    missing: int = 0,
) -> ScoreCalibration:
    """Returns the calibration of scores whose true nodes, shape (n,), are known.

    See `calibrate_scores`.
    """
    for name, value in {"risk": risk, "confidence": confidence_level}.items():
        if value is not None and not 0 < value < 1:
            raise TaxtuneError(f"The {name} must be between 0 and 1.", value=value)
    needed = images_needed(risk, confidence_level, worst=worst_loss(tree))
    n = len(target)
    if n < needed:
        raise DataError(
            f"{n:,} images cannot show that the risk is kept: even if every answer were right, it "
            f"takes {needed:,}.",
            file=source,
            remedy="Label more images, or allow more risk or less confidence.",
        )
    # Files are often sorted by class, and the tests take the images in the order in which they were
    # drawn.
    by_name = np.argsort(scores.images, kind="stable")
    order = np.random.default_rng(0).permutation(by_name)
    target = target[order]
    paths = weighted_paths(tree, scores.nodes[order], scores.weights[order])
    best = scores.best()[order]
    best_paths = weighted_paths(tree, best[:, np.newaxis])
    judge = partial(threshold_levels, tree, risk=risk, confidence=confidence_level)
    levels = judge(paths, target)
    compared = {"argmax": judge(best_paths, target, thresholds=[1.0])[1]}
    for name, threshold in _CONSTANTS.items():
        compared[name] = judge(paths, target, thresholds=[threshold])[1]
    groups: dict[str, GroupThreshold] = {}
    if by is not None:
        nodes = _grouped(tree, paths, str(by))
        own, counts = np.unique(nodes, return_counts=True)
        large = own[(own >= 0) & (counts >= needed)]
        nodes = _known(nodes, large.tolist())
        for node in np.unique(nodes).tolist():
            members = nodes == node
            images = int(members.sum())
            if images >= needed:
                name = _ELSEWHERE if node < 0 else "/".join(tree.path(node))
                level = _last_kept(judge(paths.select(members), target[members]))
                groups[name] = GroupThreshold(images, level)
    return ScoreCalibration(
        threshold=_last_kept(levels).threshold,
        risk=risk,
        confidence_level=confidence_level,
        images=n,
        missing=missing,
        source=source,
        needed=needed,
        levels=levels,
        compared=compared,
        by=None if by is None else str(by),
        groups=groups,
        labels=scores.nodes.shape[1] - 1,
        taxonomy=tree_columns(tree),
    )


def _grouped(tree: Taxonomy, paths: Paths, by: str) -> IntArray:
    """Returns the group of each image, shape (n,): the node of a rank or a depth on its path.

    It is -1 if there is none.
    """
    if by.isdecimal() and 0 < int(by) <= tree.height:
        return paths.nodes[:, int(by)]
    wanted = by.casefold()
    has_rank = np.array([(rank or "").casefold() == wanted for rank in tree.ranks])
    if not has_rank.any():
        ranks = ", ".join(dict.fromkeys(filter(None, tree.ranks))) or "none"
        raise TaxtuneError(
            "The tree has no such rank.",
            value=by,
            remedy=f"Its ranks: {ranks}; or give a depth, 1 to {tree.height}.",
        )
    is_group = (paths.nodes >= 0) & has_rank[paths.nodes]
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
