"""Do text measures tell how near two labels are on the tree? Kendall's τ with hP and hR (paper 1, §5, Table 1).

The reference is a leaf's label and the answer that of another node, so that nothing need be placed. For hP the other
node lies at a distance of 1 to 7 edges; for hR it is an ancestor of the leaf, so that hP = 1 and hR alone varies.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from taxtune import atomic
from taxtune.errors import DataError
from taxtune.metrics.hierarchical import precision_recall
from taxtune.metrics.registry import Measure, split_spec
from taxtune.studies.correlation.kendall import LEAST_P, Correlation, kendall
from taxtune.studies.correlation.pairs import DRAWS, FARTHEST, Draw, Pairs, PairSampler, check_range
from taxtune.studies.relay import ProgressRelay
from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "LABELS",
    "METRICS",
    "CorrelationSettings",
    "MeasureCorrelation",
    "PairSet",
    "check_measures",
    "correlate",
    "draw_pairs",
    "write_pairs",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Metric = Literal["hp", "hr"]

#: The metrics that measures are correlated with: hP of nodes anywhere, hR of ancestors.
METRICS: tuple[Metric, ...] = ("hp", "hr")
#: Which name of a node is its label: the first common name where it has one, or the canonical (Latin) one.
LABELS = ("common", "canonical")

# Scores are compared at this many decimals: what lies below is the rounding of single-precision arithmetic, and would
# put pairs in order that are tied.
_DECIMALS = 6
# Images held in memory at a time.
_IMAGES = 256


@dataclass(frozen=True, slots=True)
class CorrelationSettings:
    """What is drawn.

    Attributes:
        pairs: Pairs drawn for each of hP and hR, at least 2.
        nearest: The least distance between the nodes of a pair, in edges.
        farthest: The greatest.
        draw: One of `DRAWS`: how the node for hP is drawn among those at its distance.
        labels: One of `LABELS`.
        seed: Seed of the pairs and, for measures of images, of the images.
    """

    pairs: int = 100_000
    nearest: int = 1
    farthest: int = FARTHEST
    draw: Draw = "nodes"
    labels: Literal["common", "canonical"] = "common"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.labels not in LABELS:
            raise DataError("There are no such labels.", value=self.labels, remedy=f"Use {' or '.join(LABELS)}.")
        if self.draw not in DRAWS:
            raise DataError("Nodes are not drawn so.", value=self.draw, remedy=f"Use {' or '.join(DRAWS)}.")
        if self.pairs < 2:
            raise DataError("A correlation needs at least two pairs.", value=self.pairs)
        check_range(self.pairs, self.nearest, self.farthest)


@dataclass(frozen=True, slots=True)
class PairSet:
    """The pairs drawn for one metric.

    Attributes:
        metric: "hp" or "hr".
        pairs: The nodes.
        values: hP or hR of the candidate node given the leaf, shape (n,).
    """

    metric: Metric
    pairs: Pairs
    values: FloatArray


@dataclass(frozen=True, slots=True)
class MeasureCorrelation:
    """One measure on one set of pairs.

    Attributes:
        measure: The measure's specification.
        metric: "hp" or "hr".
        correlation: Kendall's τ, over the pairs that are scored.
        unscored: Pairs without a score, which are left out.
        curve: For each value of the metric: the value, the number of scored pairs, and the mean and standard deviation
            of their scores.
        scores: The score of each pair, shape (n,), as it is compared; NaN is unscored.
    """

    measure: str
    metric: Metric
    correlation: Correlation
    unscored: int
    curve: tuple[tuple[float, int, float, float], ...]
    scores: FloatArray = field(repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Returns the correlation for JSON."""
        return {
            "measure": self.measure,
            "metric": self.metric,
            **asdict(self.correlation),
            "p_value_is_a_bound": self.correlation.p_value <= LEAST_P,
            "unscored": self.unscored,
            "curve": [dict(zip(("value", "n", "mean", "std"), point, strict=True)) for point in self.curve],
        }


def draw_pairs(taxonomy: Taxonomy, settings: CorrelationSettings) -> tuple[PairSet, ...]:
    """Draws the pairs for hP and for hR.

    Raises:
        TaxonomyError: If a leaf has no node in the range of distances.
    """
    sampler = PairSampler(taxonomy)
    sets = []
    # A generator for each, so that neither set depends on how much the other draws.
    for metric, seed in zip(METRICS, np.random.SeedSequence(settings.seed).spawn(2), strict=True):
        pairs = sampler.sample(
            settings.pairs,
            np.random.default_rng(seed),
            nearest=settings.nearest,
            farthest=settings.farthest,
            ancestors=metric == "hr",
            draw=settings.draw,
        )
        hp, hr = precision_recall(taxonomy, pairs.nodes, pairs.leaves)
        sets.append(PairSet(metric, pairs, hp if metric == "hp" else hr))
    return tuple(sets)


def check_measures(specs: Sequence[str], *, images: bool) -> None:
    """Checks that measures can score labels, before the model of any is loaded.

    Args:
        specs: The measures' specifications.
        images: Whether there are images.

    Raises:
        DataError: If there is no such measure, or it needs questions, or images and there are none.
    """
    for spec in specs:
        needs = split_spec(spec)[0].needs
        _check(spec, questions="question" in needs, images="image" in needs and not images)


def _check(name: str, *, questions: bool, images: bool) -> None:
    if questions:
        raise DataError("This measure judges answers to a question, and labels answer none.", value=name)
    if images:
        raise DataError("This measure compares with images.", value=name, remedy="Name them with --images.")


def correlate(
    taxonomy: Taxonomy,
    measures: Sequence[Measure],
    settings: CorrelationSettings,
    *,
    images: Mapping[int, Sequence[Path]] | None = None,
    relay: ProgressRelay | None = None,
) -> tuple[tuple[PairSet, ...], tuple[MeasureCorrelation, ...]]:
    """Draws pairs and correlates every measure of their labels with hP and hR.

    Args:
        taxonomy: The tree.
        measures: The measures; judges, which need the question that was asked, have no place here.
        settings: What is drawn.
        images: Image files by node, for measures that need images; leaves without any are unscored by those.
        relay: What the measures report their progress to.

    Returns:
        The pairs drawn, and a correlation for each measure and metric, in the order of the measures.

    Raises:
        DataError: If a measure needs questions, or images and there are none.
        TaxonomyError: If a leaf has no node in the range of distances.
    """
    for measure in measures:
        _check(measure.name, questions=measure.needs_questions, images=measure.needs_images and not images)
    sets = draw_pairs(taxonomy, settings)
    relay = relay or ProgressRelay()
    name = _naming(taxonomy, settings)
    found = []
    for measure in measures:
        if measure.needs_images:
            scores = _image_scores(measure, sets, name, images or {}, settings.seed, relay)
        else:
            scores = _text_scores(measure, sets, name, relay)
        found += [_correlation(measure, part, part_scores) for part, part_scores in zip(sets, scores, strict=True)]
    return sets, tuple(found)


def _naming(taxonomy: Taxonomy, settings: CorrelationSettings) -> Callable[[int], str]:
    return taxonomy.common_name if settings.labels == "common" else taxonomy.labels.__getitem__


def write_pairs(
    path: Path,
    taxonomy: Taxonomy,
    settings: CorrelationSettings,
    sets: Sequence[PairSet],
    found: Sequence[MeasureCorrelation],
) -> Path:
    """Writes every pair that was drawn, with its scores, as CSV: what τ is computed from.

    The columns are the metric that the pair is for, the paths of the leaf and of the other node, their labels as
    reference and answer, the distance, the metric's value, and a column a measure; an empty cell is unscored.

    Args:
        path: The file.
        taxonomy: The tree.
        settings: What was drawn.
        sets: The pairs.
        found: The correlations.

    Raises:
        TaxtuneError: If the file cannot be written.
    """
    name = _naming(taxonomy, settings)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    measures = list(dict.fromkeys(one.measure for one in found))
    scores = {(one.metric, one.measure): one.scores for one in found}
    writer.writerow(["metric", "leaf", "node", "reference", "answer", "distance", "value", *measures])
    paths = {
        node: "/".join(taxonomy.path(node))
        for part in sets
        for node in np.union1d(part.pairs.leaves, part.pairs.nodes).tolist()
    }
    for part in sets:
        pairs = part.pairs
        columns = [scores[part.metric, measure].tolist() for measure in measures]
        for leaf, node, distance, value, *row in zip(
            pairs.leaves.tolist(),
            pairs.nodes.tolist(),
            pairs.distances.tolist(),
            part.values.tolist(),
            *columns,
            strict=True,
        ):
            cells = ["" if math.isnan(score) else score for score in row]
            writer.writerow([part.metric, paths[leaf], paths[node], name(leaf), name(node), distance, value, *cells])
    atomic.make_folder(path.parent)
    return atomic.write_text(path, buffer.getvalue())


def _text_scores(
    measure: Measure, sets: Sequence[PairSet], name: Callable[[int], str], relay: ProgressRelay
) -> list[FloatArray]:
    """Returns the scores of each set; a pair of labels that is drawn often is scored once, for both sets together."""
    place: dict[tuple[str, str], int] = {}
    rows = [
        np.array(
            [
                place.setdefault((name(node), name(leaf)), len(place))
                for leaf, node in zip(part.pairs.leaves.tolist(), part.pairs.nodes.tolist(), strict=True)
            ]
        )
        for part in sets
    ]
    with relay.shown(len(place), measure.label):
        scores = measure.scores([answer for answer, _ in place], [reference for _, reference in place])
    return [scores[row] for row in rows]


def _image_scores(
    measure: Measure,
    sets: Sequence[PairSet],
    name: Callable[[int], str],
    images: Mapping[int, Sequence[Path]],
    seed: int,
    relay: ProgressRelay,
) -> list[FloatArray]:
    """Returns the scores of each set, with an image of the leaf drawn for each pair."""
    from taxtune.data.images import load_image

    place: dict[tuple[Path, str, str], int] = {}
    rows = []
    # The third of the seeds spawned; the first two draw the pairs.
    rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(3)[2])
    for part in sets:
        drawn = rng.random(len(part.values)).tolist()
        row = np.full(len(part.values), -1)
        for i, (leaf, node) in enumerate(zip(part.pairs.leaves.tolist(), part.pairs.nodes.tolist(), strict=True)):
            files = images.get(leaf, ())
            if files:
                file = files[int(drawn[i] * len(files))]
                row[i] = place.setdefault((file, name(node), name(leaf)), len(place))
        rows.append(row)
    # The last entry is that of pairs without an image.
    scores = np.full(len(place) + 1, np.nan)
    by_image: dict[Path, list[tuple[int, str, str]]] = {}
    for (file, answer, reference), i in place.items():
        by_image.setdefault(file, []).append((i, answer, reference))
    files = sorted(by_image)
    for start in range(0, len(files), _IMAGES):
        block = [
            (i, answer, reference, image)
            for file in files[start : start + _IMAGES]
            for image in (load_image(file),)
            for i, answer, reference in by_image[file]
        ]
        with relay.shown(len(block), f"{measure.label}, images {start + 1:,} of {len(files):,}"):
            indices, answers, references, pictures = map(list, zip(*block, strict=True))
            scores[indices] = measure.scores(answers, references, pictures)
    return [scores[row] for row in rows]


def _correlation(measure: Measure, part: PairSet, scores: FloatArray) -> MeasureCorrelation:
    scored, scores = ~np.isnan(scores), np.round(scores, _DECIMALS)
    values, rounded = part.values[scored], scores[scored]
    levels, level = np.unique(values, return_inverse=True)
    counts = np.bincount(level, minlength=len(levels))
    means = np.bincount(level, rounded, minlength=len(levels)) / counts
    spread = np.sqrt(np.bincount(level, (rounded - means[level]) ** 2, minlength=len(levels)) / counts)
    curve = zip(levels.tolist(), counts.tolist(), means.tolist(), spread.tolist(), strict=True)
    tau = kendall(values, rounded)
    return MeasureCorrelation(measure.name, part.metric, tau, int((~scored).sum()), tuple(curve), scores)
