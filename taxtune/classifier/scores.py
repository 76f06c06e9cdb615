"""A classifier's scores with a guarantee: the threshold that a node needs, chosen on images with known labels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from taxtune.answers.classifier_scores import Scores, few, read_scores, read_truth
from taxtune.answers.records import Source
from taxtune.classifier.classifier import Classification, tree_columns, tree_of_columns
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
from taxtune.progress import note
from taxtune.taxonomy import Taxonomy, as_taxonomy

__all__ = ["Group", "ScoreCalibration", "calibrate_scores", "guaranteed"]

#: Thresholds that other programs take as they are, to compare with.
_CONSTANTS = {"SpeciesNet's 0.65": 0.65, "iNaturalist's 0.78": 0.78}
_ELSEWHERE = ""
_AGAIN = "Write it with `taxtune calibrate SCORES`."


class Group(NamedTuple):
    """The images that are predicted below one node: how many they are, and the level of their own threshold."""

    images: int
    level: ThresholdLevel


class ScoreCalibration(BaseModel):
    """A threshold of a classifier's scores with a guarantee: on new images of the same kind the mean of 1 - hP is kept.

    Attributes:
        threshold: The share of the scores that a node needs; None where only always answering the root keeps the risk.
        risk: The mean of 1 - hP that is guaranteed.
        confidence_level: How often that holds; None for in expectation.
        images: How many images it was calibrated on.
        missing: How many more had a label and no scores.
        source: Which images these are, in words.
        needed: How many images it takes at best.
        levels: What the images say of each threshold, the most cautious first.
        compared: What they say of the label with the highest score ("argmax"), and of thresholds that others use.
        by: The rank or the depth at which images are grouped; None for one threshold for all.
        groups: The images of each group that has a threshold of its own, by the path of its node; "" are those of all
            other groups together. The guarantee holds for each group on its own. Other images take the common one.
        labels: The most scores of an image.
        taxonomy: The label tree, by column.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    format: Literal["taxtune scores 2"] = "taxtune scores 2"
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
    groups: dict[str, Group]
    labels: int
    taxonomy: dict[str, Any]

    @classmethod
    def read(cls, file: str | Path) -> ScoreCalibration:
        """Reads a calibration that `taxtune calibrate` wrote.

        Raises:
            DataError: If it cannot be read, or was written by another version of taxtune.
        """
        try:
            found = cls.model_validate_json(Path(file).read_bytes())
            _ = [found.nodes[path] for path in found.groups if path != _ELSEWHERE]
        except OSError as error:
            raise DataError(f"The file cannot be read: {error.strerror}.", file=file) from error
        except (ValidationError, DataError, KeyError) as error:
            said = str(error).splitlines()[0].rstrip(".")
            message = f"The file is no calibration of a classifier's scores: {said}."
            raise DataError(message, file=file, remedy=_AGAIN) from error
        return found

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
        return {"/".join(self.tree.path(node)): node for node in range(len(self.tree))}

    def place(self, scores: Scores) -> tuple[Paths, NDArray[np.int64]]:
        """Returns the paths of scores, and the depth at which each is to end, shape (n,)."""
        if (most := scores.nodes.shape[1] - 1) != self.labels:
            note(
                f"the scores have up to {most:,} labels per image, those of the calibration {self.labels:,}: "
                "the guarantee is for scores of the same kind"
            )
        paths = weighted_paths(self.tree, scores.nodes, scores.weights)
        depths = _depths(paths, self.threshold)
        if self.by is not None:
            own = {
                self.nodes.get(path, -1): level.threshold
                for path, (_, level) in self.groups.items()
            }
            nodes = _grouped(self.tree, paths, self.by, [*own])
            for node, threshold in own.items():
                depths = np.where(nodes == node, _depths(paths, threshold), depths)
        return paths, depths

    def classify(
        self, scores: Source | Scores, columns: Mapping[str, str | None] | None = None
    ) -> list[Classification]:
        """Places images by their scores, in the order given; those without scores, at the end, have a `failure`.

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
        found = []
        for i, image in enumerate(scores.images):
            path = paths.nodes[i, : depths[i] + 1].tolist()
            shares = paths.shares[i, : depths[i] + 1].tolist()
            placed = PlacedAnswer(
                answer=None,
                node=path[-1],
                placement="/".join(tree.path(path[-1])),
                off_tree=False,
                abstained=path[-1] == tree.root,
                stage="scores",
                confidence=shares[-1],
                path=tuple(path),
                probabilities=tuple(shares),
            )
            found.append(Classification.of(image, placed, tree))
        for image in scores.missing:
            found.append(Classification(image, failure="There are no scores."))
        return found


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
    """Chooses the threshold of a classifier's scores at which it keeps a promised risk on new images of the same kind.

    Args:
        scores: The scores of images: a file (wide, long, or SpeciesNet's JSON), a `DataFrame` or records.
        taxonomy: The label tree.
        truth: The label of each image: a file, a `DataFrame` or records, with a column of images and one of labels.
        risk: The mean of 1 - hP to keep, in (0, 1).
        confidence_level: How often that holds, in (0, 1); in expectation where left out.
        by: A rank of the tree, or a depth below the root: groups of enough images get a threshold of their own.
        columns: Those of "image", "label", "score" and "truth" (the labels of `truth`) that cannot be told.

    Raises:
        DataError: If a file cannot be read, or there are too few images for the guarantee whatever the scores are.
    """
    tree = as_taxonomy(taxonomy)
    found, labels = read_scores(scores, tree, columns), read_truth(truth, tree, columns)
    meant = match_names(found.images, labels)
    both = [i for i, image in enumerate(found.images) if image in meant]
    if not both:
        message = "No image has both scores and a label: they are called differently."
        remedy = "The names of the images must be the same in both files."
        raise DataError(message, value=(found.images[0], next(iter(labels))), remedy=remedy)
    unknown = [image for image in found.images if image not in meant]
    silent = sorted(labels.keys() - meant.values())
    if unknown:
        note(
            f"{len(unknown):,} of {len(found.images):,} images with scores have no label: {few(unknown)}"
        )
    if silent:
        note(
            f"{len(silent):,} of {len(labels):,} images with a label have no scores: {few(silent)}"
        )
    found = Scores(tuple(found.images[i] for i in both), found.nodes[both], found.weights[both])
    name = str(scores) if isinstance(scores, str | Path) else "scores given in Python"
    target = np.array([labels[meant[image]] for image in found.images])
    return guaranteed(tree, found, target, risk, confidence_level, by, name, len(silent))


def guaranteed(
    tree: Taxonomy,
    scores: Scores,
    target: NDArray[np.int64],
    risk: float,
    confidence_level: float | None = None,
    by: str | int | None = None,
    source: str = "scores",
    missing: int = 0,
) -> ScoreCalibration:
    """Returns the calibration of scores whose true nodes, shape (n,), are known; see `calibrate_scores`."""
    for value, what in ((risk, "risk"), (confidence_level, "confidence")):
        if value is not None and not 0 < value < 1:
            raise TaxtuneError(f"The {what} must be between 0 and 1.", value=value)
    needed, n = images_needed(risk, confidence_level, worst=worst_loss(tree)), len(target)
    if n < needed:
        said = f"{n:,} images cannot show that the risk is kept: even if every answer were right, it takes {needed:,}."
        raise DataError(
            said, file=source, remedy="Label more images, or allow more risk or less confidence."
        )
    # Files are often sorted by class, and the tests take the images in the order in which they were drawn.
    order = np.random.default_rng(0).permutation(np.argsort(scores.images, kind="stable"))
    nodes, weights, target, best = (
        scores.nodes[order],
        scores.weights[order],
        target[order],
        scores.best()[order],
    )
    paths = weighted_paths(tree, nodes, weights)
    judge = partial(threshold_levels, tree, risk=risk, confidence=confidence_level)
    levels, argmax = (
        judge(paths, target),
        judge(weighted_paths(tree, best[:, np.newaxis]), target, thresholds=[1.0])[1],
    )
    groups: dict[str, Group] = {}
    if by is not None:
        own, counts = np.unique(_grouped(tree, paths, str(by)), return_counts=True)
        grouped = _grouped(tree, paths, str(by), own[(own >= 0) & (counts >= needed)].tolist())
        for node in np.unique(grouped).tolist():
            if (some := grouped == node).sum() >= needed:
                name = _ELSEWHERE if node < 0 else "/".join(tree.path(node))
                level = _last_kept(judge(paths.select(some), target[some]))
                groups[name] = Group(int(some.sum()), level)
    return ScoreCalibration(
        threshold=_last_kept(levels).threshold,
        risk=risk,
        confidence_level=confidence_level,
        images=n,
        missing=missing,
        source=source,
        needed=needed,
        levels=levels,
        compared={"argmax": argmax}
        | {k: judge(paths, target, thresholds=[v])[1] for k, v in _CONSTANTS.items()},
        by=None if by is None else str(by),
        groups=groups,
        labels=nodes.shape[1] - 1,
        taxonomy=tree_columns(tree),
    )


def _grouped(
    tree: Taxonomy, paths: Paths, by: str, own: list[int] | None = None
) -> NDArray[np.int64]:
    """The group of each image: the node of a rank or a depth on its path, shape (n,); -1 for none, or none of `own`."""
    if by.isdecimal() and 0 < int(by) <= tree.height:
        nodes = paths.nodes[:, int(by)]
    else:
        ranked = np.array([(rank or "").casefold() == by.casefold() for rank in tree.ranks])
        if not ranked.any():
            ranks = ", ".join(dict.fromkeys(filter(None, tree.ranks))) or "none"
            remedy = f"Its ranks: {ranks}; or give a depth, 1 to {tree.height}."
            raise TaxtuneError("The tree has no such rank.", value=by, remedy=remedy)
        nodes = np.where((paths.nodes >= 0) & ranked[paths.nodes], paths.nodes, -1).max(axis=1)
    return nodes if own is None else np.where(np.isin(nodes, own), nodes, -1)


def _depths(paths: Paths, threshold: float | None) -> NDArray[np.int64]:
    if threshold is None:
        return np.zeros(len(paths.nodes), dtype=np.int64)
    return paths.depths(threshold)


def _last_kept(levels: tuple[ThresholdLevel, ...]) -> ThresholdLevel:
    return [level for level in levels if level.kept][-1]
