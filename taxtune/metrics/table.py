"""One table of scores: what the nodes of images are scored by, and what follows for a set of them.

A score is one entry of `SCORES`. Its means, intervals and differences, objectives, records, reports
and what MLflow is told follow from there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics.confidence import aurc_parts
from taxtune.metrics.groups import Groups
from taxtune.metrics.hierarchical import harmonic_mean, is_exact, overlap
from taxtune.metrics.information import Information, information_values
from taxtune.metrics.ranks import RankScores
from taxtune.metrics.statistics import (
    INFORMATION_METRICS,
    METRICS,
    Interval,
    PairedDifference,
    Sample,
    bootstrap,
    paired_bootstrap,
)

__all__ = [
    "CONFIDENCE",
    "PER_IMAGE",
    "SCORES",
    "Predictions",
    "Score",
    "ScoreTable",
    "TemplateScores",
    "is_mean",
    "with_derived",
]

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Of images that belong together, the names of the means over images beside those over groups.
PER_IMAGE = {"hp": "hP per image", "hr": "hR per image"}
#: The confidence among the values of an image: no name that a metric of one's own may have.
CONFIDENCE = "confidence of the answer"


@dataclass(frozen=True)
class Predictions:
    """The nodes that n images were placed on, and those that they belong to.

    Attributes:
        information: Weights of the nodes, with their tree.
        nodes: Node numbers, shape (n,).
        target: Node numbers, shape (n,).
        off_tree: Which nodes count as a child of the root that is never right, shape (n,).
    """

    information: Information
    nodes: IntArray
    target: IntArray
    off_tree: BoolArray

    @cached_property
    def lengths(self) -> tuple[IntArray, IntArray, IntArray]:
        """The sizes |anc(pred)|, |anc(pred) ∩ anc(gt)| and |anc(gt)|, shape (n,) each."""
        tree = self.information.taxonomy
        return overlap(tree, self.nodes, self.target, off_tree=self.off_tree)

    @property
    def hp(self) -> FloatArray:
        """The hP of each image, shape (n,)."""
        n_predicted, n_shared, _ = self.lengths
        return n_shared / n_predicted

    @property
    def hr(self) -> FloatArray:
        """The hR of each image, shape (n,)."""
        _, n_shared, n_target = self.lengths
        return n_shared / n_target

    @property
    def depth(self) -> FloatArray:
        """The depth of each node, shape (n,); 1 for one that counts as a child of the root."""
        n_predicted, _, _ = self.lengths
        return n_predicted.astype(np.float64) - 1

    @cached_property
    def bits(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """ihP, ihR, remaining uncertainty and misinformation, shape (n,) each."""
        return information_values(self.information, self.nodes, self.target, off_tree=self.off_tree)

    def table(self) -> ScoreTable:
        """Returns the table of the scores that nodes alone have, without confidences."""
        unknown = np.full(len(self.nodes), np.nan)
        return ScoreTable(self.scores(), confidence=unknown)

    def scores(self) -> dict[str, FloatArray]:
        """Returns every score that nodes alone have, by name, shape (n,) each."""
        columns = {}
        for name, score in SCORES.items():
            if score.of_nodes is not None:
                columns[name] = score.of_nodes(self)
        return columns


@dataclass(frozen=True)
class Score:
    """A score of images and of sets of them.

    A score without any formula is given with the answers.

    Attributes:
        label: What it is called in tables.
        meaning: What it is called in a sentence; the label where left out.
        title: What it is called in a summary, which has room for more than the label; the label
            where left out.
        headline: Whether it is one of the few that MLflow charts.
        digits: Decimals that are shown.
        of_nodes: The score of each image from its node, shape (n,).
        of_table: The score of each image from other columns of a table, shape (n,).
        harmonic: The two scores whose means have this one as their harmonic mean.
        fixed: Whether it follows from the images alone, so that it needs no interval.
    """

    label: str
    meaning: str | None = None
    title: str | None = None
    headline: bool = False
    digits: int = 3
    of_nodes: Callable[[Predictions], FloatArray] | None = None
    of_table: Callable[[ScoreTable], FloatArray] | None = None
    harmonic: tuple[str, str] | None = None
    fixed: bool = False


def _accuracy(table: ScoreTable) -> FloatArray:
    hp = table.columns["hp"]
    exact = is_exact(hp, table.columns["hr"])
    return np.where(np.isnan(hp), np.nan, exact)


def _selective_hp(table: ScoreTable) -> FloatArray:
    """Returns each image's part of the selective hP, see `aurc_parts`; NaN without confidence."""
    hp = table.columns["hp"]
    answered = ~np.isnan(hp)
    confidence = table.confidence[answered]
    parts = np.full(len(hp), np.nan)
    if answered.any() and not np.isnan(confidence).any():
        losses = aurc_parts(confidence, hp[answered])
        parts[answered] = 1 - losses
    return parts


#: The scores of every template in the order in which they are shown.
SCORES: dict[str, Score] = {
    "hp": Score(
        label="hP",
        meaning="hierarchical precision (hP)",
        title="precision hP",
        headline=True,
        of_nodes=lambda predictions: predictions.hp,
    ),
    "hr": Score(
        label="hR",
        meaning="hierarchical recall (hR)",
        title="recall hR",
        headline=True,
        of_nodes=lambda predictions: predictions.hr,
    ),
    "hf": Score(
        label="hF",
        meaning="hierarchical F (hF)",
        headline=True,
        harmonic=("hp", "hr"),
    ),
    "accuracy": Score(
        label="accuracy",
        meaning="exact accuracy",
        headline=True,
        of_table=_accuracy,
    ),
    "depth": Score(
        label="depth",
        digits=2,
        of_nodes=lambda predictions: predictions.depth,
    ),
    "ihp": Score(
        label="ihP",
        meaning="information-weighted hierarchical precision (ihP)",
        title="precision ihP, in bits",
        of_nodes=lambda predictions: predictions.bits[0],
    ),
    "ihr": Score(
        label="ihR",
        meaning="information-weighted hierarchical recall (ihR)",
        title="recall ihR, in bits",
        of_nodes=lambda predictions: predictions.bits[1],
    ),
    "ihf": Score(
        label="ihF",
        meaning="information-weighted hierarchical F (ihF)",
        harmonic=("ihp", "ihr"),
    ),
    "remaining_uncertainty": Score(
        label="remaining uncertainty, bits",
        digits=2,
        of_nodes=lambda predictions: predictions.bits[2],
    ),
    "misinformation": Score(
        label="misinformation, bits",
        digits=2,
        of_nodes=lambda predictions: predictions.bits[3],
    ),
    "target_bits": Score(
        label="bits of the targets",
        digits=2,
        of_nodes=lambda predictions: predictions.information.content[predictions.target],
        fixed=True,
    ),
    "abstained": Score(label="abstained", headline=True),
    "off_tree": Score(label="off the tree", headline=True),
    "selective_hp": Score(
        label="selective hP",
        meaning="hP of the surest answers, averaged over all coverages (1 − AURC)",
        headline=True,
        of_table=_selective_hp,
    ),
}


def is_mean(name: str) -> bool:
    """Returns whether a score of several images is a mean over them, as one's own metrics are."""
    return name not in SCORES or SCORES[name].harmonic is None


def with_derived(means: Mapping[str, float]) -> dict[str, float]:
    """Returns means with the harmonic means that follow from them, in the order of `SCORES`."""
    derived = {}
    for name, score in SCORES.items():
        if score.harmonic is None:
            if name in means:
                derived[name] = means[name]
        elif means.keys() >= set(score.harmonic):
            first, second = score.harmonic
            derived[name] = harmonic_mean(means[first], means[second])
    own = {name: mean for name, mean in means.items() if name not in SCORES}
    return derived | own


@dataclass(frozen=True)
class ScoreTable:
    """The scores of n images, or of n groups of images.

    Attributes:
        columns: By name the score of each image, shape (n,). NaN where an image has none.
        confidence: The confidence of each answer, shape (n,). NaN where it has none.
    """

    columns: Mapping[str, FloatArray]
    confidence: FloatArray

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, float | None]]) -> ScoreTable:
        """Returns the table of images with the values of each, one of them `CONFIDENCE`.

        Args:
            rows: The values of each image by name. None, or a name left out, is no value.
        """
        columns = {}
        names = itertools.chain(["hp", "hr", CONFIDENCE], *rows)
        for name in dict.fromkeys(names):
            values = [row.get(name) for row in rows]
            columns[name] = np.array(values, dtype=np.float64)
        confidence = columns.pop(CONFIDENCE)
        return cls(columns, confidence)

    def __len__(self) -> int:
        """Returns the number of images, or of groups."""
        return len(self.confidence)

    @property
    def names(self) -> list[str]:
        """The names of all scores, those of `SCORES` first; some may have no value."""
        return list(dict.fromkeys((*SCORES, *self.columns)))

    def column(self, name: str) -> FloatArray:
        """Returns the part of each image in the mean of a score, shape (n,); NaN for none.

        A harmonic mean of two means is no mean. Its column is the linear approximation around the
        two: the mean is the same, and so is the spread to first order.
        """
        score = SCORES.get(name)
        if score is not None and score.harmonic is not None:
            return self._linear(*score.harmonic)
        if name in self.columns:
            return self.columns[name]
        if score is not None and score.of_table is not None:
            return score.of_table(self)
        return np.full(len(self), np.nan)

    def _linear(self, first: str, second: str) -> FloatArray:
        precision = self.column(first)
        recall = self.column(second)
        if np.isnan(precision).all():
            return precision
        p = float(np.nanmean(precision))
        r = float(np.nanmean(recall))
        total = p + r
        if total == 0:
            return np.zeros(len(self))
        by_precision = r * r * (precision - p)
        by_recall = p * p * (recall - r)
        return 2 * (p * r * total + (by_precision + by_recall)) / total**2

    def grouped(self, groups: Groups) -> ScoreTable:
        """Returns the table of groups of the images, each of which has the means of its images."""
        if groups.single:
            return self
        columns = {}
        for name in filter(is_mean, self.names):
            columns[name] = groups.mean(self.column(name))
        return ScoreTable(columns, groups.mean(self.confidence))

    def part(self, images: BoolArray | slice) -> ScoreTable:
        """Returns the table of some of the images."""
        columns = {name: values[images] for name, values in self.columns.items()}
        return ScoreTable(columns, self.confidence[images])

    def means(self) -> dict[str, float]:
        """Returns the mean of each score over the images that have a value, if any has."""
        means = {}
        for name in self.names:
            values = self.column(name)
            if not np.isnan(values).all():
                means[name] = float(np.nanmean(values))
        return with_derived(means)

    def intervals(self, seed: int, resamples: int = 2000) -> dict[str, Interval]:
        """Returns the 95 % bootstrap interval of each score that has a value."""
        intervals = {}
        drawn = bootstrap(*self._samples(), resamples=resamples, seed=seed)
        for name, interval in drawn.items():
            if not np.isnan(interval.estimate):
                intervals[name] = interval
        return intervals

    def differences(self, other: ScoreTable, seed: int) -> dict[str, PairedDifference]:
        """Returns the paired differences, this table minus another one of the same images.

        A score that images lack is compared over those that have it in both tables.
        """
        pairs = []
        samples = zip(self._samples(), other._samples(), strict=True)
        for own, others in samples:
            if len(own.parts) > 1:
                pairs.append((own, others))
                continue
            (name,) = own.parts
            values = own.parts[name]
            other_values = others.parts[name]
            both = ~np.isnan(values) & ~np.isnan(other_values)
            if both.any():
                first = Sample.mean(name, values[both])
                second = Sample.mean(name, other_values[both])
                pairs.append((first, second))
        return paired_bootstrap(*pairs, seed=seed)

    def _samples(self) -> list[Sample]:
        """Returns the samples to draw from: paths together, bits together, each other score alone."""
        paths = {name: self.column(name) for name in METRICS if name != "hf"}
        bits = {name: self.column(name) for name in INFORMATION_METRICS if name != "ihf"}
        # Of the same depth and hP, a lower hR is a longer path of the truth: with these keys the
        # order is that of the three lengths. Of groups, they do not tell who is exact.
        keys = (paths["depth"], paths["hp"])
        rest = (-paths["hr"], paths["accuracy"])
        samples = [Sample(paths, names=METRICS, keys=keys, rest=rest)]
        in_bits = Sample(bits, names=INFORMATION_METRICS, keys=list(bits.values()))
        samples.append(in_bits)
        for name in self.names:
            is_fixed = name in SCORES and SCORES[name].fixed
            if not is_fixed and name not in (*METRICS, *INFORMATION_METRICS):
                samples.append(Sample.mean(name, self.column(name)))
        return samples


@dataclass(frozen=True)
class TemplateScores:
    """The scores of a template. Each of them is an attribute, too: `scores.hp`.

    Attributes:
        n: Number of images that were answered.
        means: The mean of each score by name, see `SCORES`, and of each of
            the run's own metrics over the answers that have a value. Where images belong together,
            each group counts once, and the means of `PER_IMAGE` stand beside.
        ranks: Precision and recall at each rank, the broadest rank first.
    """

    n: int
    means: dict[str, float] = field(hash=False)
    ranks: tuple[RankScores, ...] = field(default=(), repr=False)

    def __getattr__(self, name: str) -> float:
        """Returns the mean of a score of `SCORES`."""
        if name not in SCORES or name not in self.means:
            raise AttributeError(f"the scores hold no {name!r}")
        return self.means[name]

    @property
    def selective_hp(self) -> float | None:
        """The selective hP, see `SCORES`; None if an answer has no confidence."""
        return self.means.get("selective_hp")

    @property
    def measures(self) -> dict[str, float]:
        """The means of the run's own metrics and measures, by name."""
        return {name: mean for name, mean in self.means.items() if name not in SCORES}

    def get(self, key: str) -> float:
        """Returns a score by name.

        Raises:
            ValueError: If there is none.
        """
        if key not in self.means:
            raise ValueError(f"the scores hold no {key!r}")
        return self.means[key]

    def changed(self, means: Mapping[str, float]) -> TemplateScores:
        """Returns the scores with other means, and with what follows from them."""
        return replace(self, means=with_derived({**self.means, **means}))
