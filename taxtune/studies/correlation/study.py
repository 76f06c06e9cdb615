"""Do text measures tell how near two labels are on the tree? Kendall's τ with hP and hR (paper 1, §5, Table 1).

The reference is a leaf's label and the answer that of another node, so nothing need be placed. For hP the other
node lies at a distance of 1 to 7 edges; for hR it is an ancestor of the leaf, so that hP = 1 and hR alone varies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from taxtune import atomic
from taxtune.errors import DataError
from taxtune.metrics.hierarchical import precision_recall
from taxtune.metrics.registry import Measure, split_spec
from taxtune.progress import track_each
from taxtune.report.output import Cell, StudyReport, Table
from taxtune.studies.correlation import CorrelationSettings
from taxtune.studies.correlation.kendall import LEAST_P, Correlation, kendall, p_text
from taxtune.studies.correlation.pairs import Pairs, PairSampler
from taxtune.studies.embedding import images_by_node
from taxtune.studies.published import published
from taxtune.studies.settings import needs_of
from taxtune.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "METRICS",
    "MeasureCorrelation",
    "PairSet",
    "correlate",
    "correlation",
    "draw_pairs",
    "write_pairs",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Metric = Literal["hp", "hr"]

#: The metrics that measures are correlated with: hP of nodes anywhere, hR of ancestors.
METRICS: tuple[Metric, ...] = ("hp", "hr")
# Scores are compared at this many decimals: what lies below is the rounding of single-precision arithmetic, and would
# put pairs in order that are tied.
_DECIMALS = 6
# Images held in memory at a time.
_IMAGES = 256

_SHOWN = {"hp": "hP", "hr": "hR"}
_CONSTANT = "A measure or metric with the same value for all pairs has no correlation (–)."


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


def correlation(settings: CorrelationSettings) -> StudyReport:
    """Draws the pairs, correlates the measures and returns the report; see `taxtune.studies.correlation.run`."""
    # What is wrong is said before anything long is done.
    for spec in settings.measure:
        _check(spec, images=settings.images is not None)
    if settings.save_pairs is not None:
        atomic.check_folder(settings.save_pairs.parent)
    taxonomy, part = settings.read_tree(names=settings.names)
    measures = settings.measures(settings.measure)
    images = None
    if settings.images is not None:
        images = images_by_node(settings.images, taxonomy, root=settings.image_root, part=part)
    sets, found = correlate(taxonomy, measures, settings, images=images)
    if settings.save_pairs is not None:
        write_pairs(settings.save_pairs, taxonomy, settings, sets, found)
    by_key: dict[tuple[str, str], MeasureCorrelation] = {(one.measure, one.metric): one for one in found}
    figures: dict[str, Callable[[], Figure]] = {}
    drawn = [measure for measure in measures if any(by_key[measure.name, metric].curve for metric in _SHOWN)]
    if drawn:
        from taxtune.studies.correlation.figure import draw_correlation

        figures["correlation"] = partial(draw_correlation, _names(drawn), found)
    return StudyReport(
        study="correlation",
        title="Do text measures reflect how close two labels are on the tree? (paper 1, §5)",
        settings={
            **settings.record(),
            "root": None if part is None else "/".join(part.full.path(part.root)),
            "nodes": len(taxonomy),
            "leaves": len(taxonomy.leaves),
            "nodes_with_common_name": sum(len(taxonomy.names(v)) > 1 for v in range(len(taxonomy))),
            "measures": [measure.identity() for measure in measures],
        },
        tables=(_table_1(measures, by_key), _details(measures, by_key), _drawn(taxonomy, sets)),
        figures=figures,
        notes=_notes(measures, sets, found),
        data={"correlations": [one.as_dict() for one in found]},
    )


def _check(measure: str | Measure, *, images: bool) -> None:
    """Checks that a measure can score labels, before its model is loaded.

    Raises:
        DataError: If there is no such measure, or it needs questions, or images and there are none.
    """
    needs = needs_of(measure)
    name = measure if isinstance(measure, str) else measure.name
    if "question" in needs:
        raise DataError("This measure judges answers to a question, but labels do not answer one.", value=name)
    if "image" in needs and not images:
        raise DataError("This measure needs images.", value=name, remedy="Give them with --images.")


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


def correlate(
    taxonomy: Taxonomy,
    measures: Sequence[Measure],
    settings: CorrelationSettings,
    *,
    images: Mapping[int, Sequence[Path]] | None = None,
) -> tuple[tuple[PairSet, ...], tuple[MeasureCorrelation, ...]]:
    """Draws pairs and correlates every measure of their labels with hP and hR.

    Args:
        taxonomy: The tree.
        measures: The measures; judges, which need the question that was asked, have no place here.
        settings: What is drawn.
        images: Image files by node, for measures that need images; leaves without any are unscored by those.

    Returns:
        The pairs drawn, and a correlation for each measure and metric, in the order of the measures.

    Raises:
        TaxonomyError: If a leaf has no node in the range of distances.
    """
    sets = draw_pairs(taxonomy, settings)
    name = _naming(taxonomy, settings)
    found = []
    for measure in measures:
        if measure.needs_images:
            scores = _image_scores(measure, sets, name, images or {}, settings.seed)
        else:
            scores = _text_scores(measure, sets, name)
        found += [_correlation(measure, part, part_scores) for part, part_scores in zip(sets, scores, strict=True)]
    return sets, tuple(found)


def _naming(taxonomy: Taxonomy, settings: CorrelationSettings) -> Callable[[int], str]:
    return taxonomy.common_name if settings.labels == "common" else taxonomy.labels.__getitem__


def write_pairs(
    file: Path,
    taxonomy: Taxonomy,
    settings: CorrelationSettings,
    sets: Sequence[PairSet],
    found: Sequence[MeasureCorrelation],
) -> Path:
    """Writes every pair that was drawn, with its scores, as CSV: what τ is computed from.

    The columns are the metric that the pair is for, the paths of the leaf and of the other node, their labels as
    reference and answer, the distance, the metric's value, and one column for each measure; an empty cell is unscored.

    Args:
        file: The file.
        taxonomy: The tree.
        settings: What was drawn.
        sets: The pairs.
        found: The correlations.

    Raises:
        TaxtuneError: If the file cannot be written.
    """
    import pandas as pd

    name = _naming(taxonomy, settings)
    frames = []
    for part in sets:
        leaves, nodes = part.pairs.leaves.tolist(), part.pairs.nodes.tolist()
        path = {node: "/".join(taxonomy.path(node)) for node in {*leaves, *nodes}}
        columns: dict[str, Any] = {
            "metric": part.metric,
            "leaf": [path[leaf] for leaf in leaves],
            "node": [path[node] for node in nodes],
            "reference": [name(leaf) for leaf in leaves],
            "answer": [name(node) for node in nodes],
            "distance": part.pairs.distances,
            "value": part.values,
        }
        scores = {one.measure: one.scores for one in found if one.metric == part.metric}
        frames.append(pd.DataFrame(columns | scores))
    atomic.make_folder(file.parent)
    return atomic.write_text(file, pd.concat(frames).to_csv(index=False, lineterminator="\n"))


def _text_scores(measure: Measure, sets: Sequence[PairSet], name: Callable[[int], str]) -> list[FloatArray]:
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
    scores = measure.scores([answer for answer, _ in place], [reference for _, reference in place])
    return [scores[row] for row in rows]


def _image_scores(
    measure: Measure,
    sets: Sequence[PairSet],
    name: Callable[[int], str],
    images: Mapping[int, Sequence[Path]],
    seed: int,
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
    for start in track_each(range(0, len(files), _IMAGES), f"{measure.label}: batches of images"):
        block = [
            (i, answer, reference, image)
            for file in files[start : start + _IMAGES]
            for image in (load_image(file),)
            for i, answer, reference in by_image[file]
        ]
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


def _names(measures: Sequence[Measure]) -> dict[str, str]:
    """Returns the label of each measure; its specification where two have one label."""
    labels = [measure.label for measure in measures]
    return {m.name: m.label if labels.count(m.label) == 1 else m.name for m in measures}


def _table_1(measures: Sequence[Measure], found: Mapping[tuple[str, str], MeasureCorrelation]) -> Table:
    printed = {row["measure"]: row for row in published("paper1-table1")}
    rows = []
    for measure in measures:
        theirs = printed.get(measure.label, {})
        cells: list[Cell] = [_names(measures)[measure.name]]
        for metric in _SHOWN:
            cells += [found[measure.name, metric].correlation.tau, theirs.get(f"inat21_{metric}")]
            cells.append(theirs.get(f"oven_{metric}"))
        rows.append(tuple(cells))
    columns = ["measure"]
    for shown in _SHOWN.values():
        columns += [f"τ-{shown}", f"τ-{shown} paper, iNat21", f"τ-{shown} paper, OVEN"]
    constant = any(math.isnan(one.correlation.tau) for one in found.values())
    return Table(
        "correlation",
        "Kendall's τ of measures with hP and hR, and Table 1 of the paper",
        tuple(columns),
        tuple(rows),
        dict.fromkeys(columns[1:], 2),
        (_CONSTANT,) if constant else (),
    )


def _details(measures: Sequence[Measure], found: Mapping[tuple[str, str], MeasureCorrelation]) -> Table:
    rows = []
    for metric, shown in _SHOWN.items():
        for measure in measures:
            one = found[measure.name, metric]
            tau = one.correlation
            name = _names(measures)[measure.name]
            rows.append((shown, name, tau.tau, tau.low, tau.high, p_text(tau.p_value), tau.n, one.unscored))
    return Table(
        "intervals",
        "The same with 95 % intervals of the sampling and p-values",
        ("metric", "measure", "τ", "low", "high", "p", "pairs", "unscored"),
        tuple(rows),
        notes=("The intervals cover other draws of pairs from the same tree, not other trees.",),
    )


def _drawn(taxonomy: Taxonomy, sets: Sequence[PairSet]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for part in sets:
        hp_is_1 = taxonomy.is_ancestor(part.pairs.nodes, part.pairs.leaves)
        for distance in np.unique(part.pairs.distances).tolist():
            there = part.pairs.distances == distance
            nodes = part.pairs.leaves[there] * len(taxonomy) + part.pairs.nodes[there]
            rows.append(
                (
                    _SHOWN[part.metric],
                    distance,
                    int(there.sum()),
                    len(np.unique(nodes)),
                    float(hp_is_1[there].mean()),
                    float(part.values[there].mean()),
                )
            )
    return Table(
        "pairs",
        "The pairs drawn",
        ("for", "distance", "pairs", "different pairs", "share of ancestors", "mean hP or hR"),
        tuple(rows),
    )


def _notes(
    measures: Sequence[Measure], sets: Sequence[PairSet], found: Sequence[MeasureCorrelation]
) -> tuple[str, ...]:
    notes = dict.fromkeys(note for measure in measures for note in measure.notes)
    for one in found:
        if one.unscored:
            total = one.unscored + one.correlation.n
            left_out = f"{one.unscored:,} of {total:,} pairs for {_SHOWN[one.metric]} are unscored and left out."
            notes[f"{one.measure}: {left_out}"] = None
    for part in sets:
        shown = _SHOWN[part.metric]
        without = [one for one in found if one.metric == part.metric and math.isnan(one.correlation.tau)]
        if (part.values == part.values[0]).all():
            notes[
                f"{shown} is {part.values[0]:.3f} for all pairs drawn, so nothing can correlate with it: the tree "
                "is too small or has no branches."
            ] = None
            continue
        for said, names in (
            ("gives all pairs the same score", [one.measure for one in without if len(one.curve) > 1]),
            ("scores pairs of a single value only, or none", [one.measure for one in without if len(one.curve) < 2]),
        ):
            if names:
                notes[f"No correlation with {shown} where a measure {said}: {', '.join(names)}."] = None
    printed = {str(row["measure"]) for row in published("paper1-table1")}
    for measure in measures:
        kind, model = split_spec(measure.name)
        if measure.label in printed and kind.default_model is not None and model != kind.default_model:
            notes[f"{measure.label}: the paper used {kind.default_model}; this table uses {model}."] = None
    return tuple(notes)
