"""The tables of the mapping study: scores, intervals, what Algorithm 1 adds, styles, agreement, the paper's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics.hierarchical import HierarchicalScores, score
from taxtune.metrics.statistics import Interval, bootstrap, hierarchical_sample, paired_bootstrap
from taxtune.studies.both_trees import both_trees_table
from taxtune.studies.mapping.agreement import agreement_matrix
from taxtune.studies.mapping.annotated import AnnotatedAnswers
from taxtune.studies.mapping.nearest import UNPLACED
from taxtune.studies.mapping.study import ALGORITHM, ALONE, DEFAULT, MappingSettings, Placed, place_all
from taxtune.studies.output import Cell, StudyReport, Table
from taxtune.studies.published import published
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    from taxtune.metrics.registry import MeasureSettings

__all__ = ["run_mapping"]

FloatArray = NDArray[np.float64]

#: The scores with intervals, as they are printed.
_SHOWN = {"hp": "hP", "hr": "hR", "hf": "hF", "accuracy": "accuracy", "acceptable": "acceptable"}


def run_mapping(
    taxonomy: Taxonomy,
    answers: AnnotatedAnswers,
    settings: MappingSettings | None = None,
    measure_settings: MeasureSettings | None = None,
    node_images: Mapping[int, Path] | None = None,
    part: Domain | None = None,
) -> StudyReport:
    """Places the answers in every way and returns the report.

    Args:
        taxonomy: The tree.
        answers: Answers that people have placed on it.
        settings: What to compare.
        measure_settings: Device, batches and caches of measures with models.
        node_images: An image of each node that has one, for clip-i2t.
        part: What the tree is a part of; the scores on the whole are then added. None where it is the whole.

    Raises:
        TaxtuneError: As `taxtune.studies.mapping.study.place_all`.
    """
    from taxtune.studies.mapping.figure import draw_agreement, draw_scores

    settings = settings or MappingSettings()
    placed, notes, identities = place_all(taxonomy, answers, settings, measure_settings, node_images)
    target = np.array(answers.targets, dtype=np.int64)
    good = {p.name: _acceptable(answers, p.nodes) for p in placed}
    intervals = {p.name: _intervals(taxonomy, p, target, good[p.name], settings) for p in placed}
    styles = _styles(taxonomy, placed, answers, target, good)
    # By way, so that what the ways have in common stands together.
    by_way = sorted(placed, key=lambda p: (ALONE, ALGORITHM, DEFAULT).index(p.way))
    agreement = agreement_matrix({p.name: p.nodes for p in by_way})
    tables = [
        _scores_table(taxonomy, placed, intervals, good),
        _intervals_table(placed, intervals, settings),
        *([] if part is None else [both_trees_table(part, {p.name: (p.nodes, target) for p in placed}, "mapper")]),
        _differences(taxonomy, placed, target, settings),
        *(_style_table(placed, answers, styles, metric) for metric in ("hf", "accuracy", "acceptable")),
        _agreement_table(by_way, agreement),
        _paper_table(placed, intervals, len(answers)),
    ]
    return StudyReport(
        study="mapping",
        title="How well measures place answers on the taxonomy, alone and with Algorithm 1",
        settings={
            "file": answers.file,
            "taxonomy": taxonomy.source,
            "root": None if part is None else "/".join(part.full.path(part.root)),
            "n": len(answers),
            **settings.as_dict(),
            "identities": identities,
        },
        tables=tuple(table for table in tables if table.rows),
        figures={
            "mapping-scores": partial(draw_scores, placed, intervals, settings.confidence),
            "mapping-agreement": partial(draw_agreement, [p.name for p in by_way], agreement),
        },
        notes=(*answers.notes, *notes),
        data={
            "excluded": answers.excluded_records(),
            "scores": {name: {metric: asdict(i) for metric, i in found.items()} for name, found in intervals.items()},
            "styles": [
                {"style": style, "mapper": name, "acceptable": share, **found.as_dict()}
                for style, row in styles.items()
                for name, (found, share) in row.items()
            ],
            "answers": [
                {
                    "row": row,
                    "answer": answers.answers[i],
                    "target": "/".join(taxonomy.path(answers.targets[i])),
                    "placed": {
                        p.name: "/".join(taxonomy.path(int(p.nodes[i]))) if p.nodes[i] >= 0 else None for p in placed
                    },
                }
                for i, row in enumerate(answers.rows)
            ],
        },
    )


def _acceptable(answers: AnnotatedAnswers, nodes: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.array([node in allowed for node, allowed in zip(nodes.tolist(), answers.acceptable, strict=True)])


def _intervals(
    taxonomy: Taxonomy,
    placed: Placed,
    target: NDArray[np.int64],
    good: NDArray[np.bool_],
    settings: MappingSettings,
) -> dict[str, Interval]:
    """Returns the scores of the answers that are placed; none where no answer is."""
    there = placed.nodes != UNPLACED
    if not there.any():
        return {}
    found = bootstrap(
        hierarchical_sample(taxonomy, placed.nodes[there], target[there]),
        resamples=settings.resamples,
        confidence=settings.confidence,
        seed=settings.seed,
    )
    found["acceptable"] = _share(good[there], settings)
    return found


def _share(good: NDArray[np.bool_], settings: MappingSettings) -> Interval:
    """Returns a share with its bootstrap interval: of n resampled answers a binomial number is good."""
    n, tail = len(good), (1 - settings.confidence) / 2
    share = float(good.mean())
    draws = np.random.default_rng(settings.seed).binomial(n, share, size=settings.resamples) / n
    low, high = np.quantile(draws, [tail, 1 - tail])
    return Interval(share, float(low), float(high))


def _estimates(found: dict[str, Interval]) -> list[Cell]:
    return [found[metric].estimate if found else None for metric in _SHOWN]


def _scores_table(
    taxonomy: Taxonomy,
    placed: Sequence[Placed],
    intervals: dict[str, dict[str, Interval]],
    good: dict[str, NDArray[np.bool_]],
) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for p in placed:
        there = p.nodes != UNPLACED
        rows.append(
            (
                p.name,
                int(there.sum()),
                *_estimates(intervals[p.name]),
                None if p.tied is None else int((p.tied > 1).sum()),
                int((p.nodes == taxonomy.root).sum()),
                None if p.abstained is None else int(p.abstained.sum()),
                None if p.off_tree is None else int(p.off_tree.sum()),
                int((~there).sum()),
            )
        )
    return Table(
        "mapping",
        "Placements against those of people",
        ("mapper", "n", *_SHOWN.values(), "tied", "on the root", "abstained", "off the tree", "unscored"),
        tuple(rows),
        notes=(
            "tied: answers for which several nodes shared the highest score; unscored: answers that the measure gave "
            "no score, which count nowhere.",
            "An answer off the tree counts as placed on the root, as people place what the tree lacks: here it is the "
            "mapper that is judged, and not the answer.",
        ),
    )


def _intervals_table(
    placed: Sequence[Placed], intervals: dict[str, dict[str, Interval]], settings: MappingSettings
) -> Table:
    columns = [f"{shown} {end}" for shown in _SHOWN.values() for end in ("low", "high")]
    rows = []
    for p in placed:
        found = intervals[p.name]
        ends = [(found[m].low, found[m].high) if found else (None, None) for m in _SHOWN]
        rows.append((p.name, *(end for pair in ends for end in pair)))
    return Table(
        "mapping-intervals",
        f"{settings.confidence:.0%} bootstrap intervals".replace("%", " %"),
        ("mapper", *columns),
        tuple(rows),
        notes=(f"{settings.resamples:,} resamples of the answers, percentiles.",),
    )


def _differences(
    taxonomy: Taxonomy, placed: Sequence[Placed], target: NDArray[np.int64], settings: MappingSettings
) -> Table:
    """What Algorithm 1 adds to each measure, and what the default mapper adds to each with Algorithm 1."""
    by = {(p.base, p.way): p for p in placed}
    pairs = [(p, by[p.base, ALONE]) for p in placed if p.way == ALGORITHM and (p.base, ALONE) in by]
    pairs += [(d, p) for d in placed if d.way == DEFAULT for p in placed if p.way == ALGORITHM]
    rows: list[tuple[Cell, ...]] = []
    for a, b in pairs:
        both = (a.nodes != UNPLACED) & (b.nodes != UNPLACED)
        if not both.any():
            continue
        first, second = (hierarchical_sample(taxonomy, placed.nodes[both], target[both]) for placed in (a, b))
        found = paired_bootstrap(
            (first, second),
            confidence=settings.confidence,
            resamples=settings.resamples,
            seed=settings.seed,
        )
        hf, accuracy = found["hf"], found["accuracy"]
        rows.append(
            (
                a.name,
                b.name,
                int(both.sum()),
                hf.difference,
                hf.low,
                hf.high,
                hf.p_value,
                accuracy.difference,
                accuracy.low,
                accuracy.high,
                accuracy.p_value,
            )
        )
    return Table(
        "mapping-differences",
        "Paired differences, first minus second, on the same answers",
        ("first", "second", "n", "hF", "low", "high", "p", "accuracy", "acc. low", "acc. high", "acc. p"),
        tuple(rows),
        digits={"p": 4, "acc. p": 4},
    )


def _styles(
    taxonomy: Taxonomy,
    placed: Sequence[Placed],
    answers: AnnotatedAnswers,
    target: NDArray[np.int64],
    good: dict[str, NDArray[np.bool_]],
) -> dict[str, dict[str, tuple[HierarchicalScores, float]]]:
    """Returns the scores by style and mapper; a style of which a mapper placed nothing lacks it."""
    if not any(answers.styles):
        return {}
    found: dict[str, dict[str, tuple[HierarchicalScores, float]]] = {}
    for style, positions in answers.groups().items():
        found[style] = {}
        for p in placed:
            chosen = [i for i in positions if p.nodes[i] != UNPLACED]
            if chosen:
                share = float(good[p.name][chosen].mean())
                found[style][p.name] = (score(taxonomy, p.nodes[chosen], target[chosen]), share)
    return found


def _style_table(
    placed: Sequence[Placed],
    answers: AnnotatedAnswers,
    styles: dict[str, dict[str, tuple[HierarchicalScores, float]]],
    metric: str,
) -> Table:
    sizes = answers.groups()
    rows: list[tuple[Cell, ...]] = []
    for style, row in styles.items():
        cells: list[Cell] = []
        for p in placed:
            found = row.get(p.name)
            if found is None:
                cells.append(None)
            else:
                cells.append(found[1] if metric == "acceptable" else found[0].as_dict()[metric])
        rows.append((style, len(sizes[style]), *cells))
    shown = _SHOWN[metric]
    return Table(
        f"mapping-styles-{metric}",
        f"{shown} by answer style",
        ("style", "n", *(p.name for p in placed)),
        tuple(rows),
        digits={p.name: 2 for p in placed},
        notes=("Scores of a handful of answers say little; the number stands beside them.",),
    )


def _agreement_table(placed: Sequence[Placed], agreement: FloatArray) -> Table:
    return Table(
        "mapping-agreement",
        "Share of answers that two mappers place on the same node (paper 1, Figure 4)",
        ("mapper", *(p.name for p in placed)),
        tuple((p.name, *row) for p, row in zip(placed, agreement.tolist(), strict=True)),
        digits={p.name: 2 for p in placed},
    )


def _paper_table(placed: Sequence[Placed], intervals: dict[str, dict[str, Interval]], n: int) -> Table:
    metrics = ("hp", "hr", "hf", "accuracy")
    ours: dict[tuple[Any, Any], str] = {}
    for p in placed:
        ours.setdefault((p.kind, p.way), p.name)
    rows: list[tuple[Cell, ...]] = []
    for row in published("paper1-table2"):
        name = ours.get((row["measure"], row["way"]))
        found = intervals[name] if name else {}
        printed = [row[column] for column in ("hP", "hR", "hF", "accuracy")]
        rows.append(
            (
                f"{row['label']}{' + Alg. 1' if row['way'] == ALGORITHM else ''}",
                *printed,
                name,
                *(found[m].estimate if found else None for m in metrics),
            )
        )
    columns = ("paper's row", "hP, paper", "hR, paper", "hF, paper", "acc., paper", "our row", "hP", "hR", "hF", "acc.")
    return Table(
        "mapping-paper",
        "The paper's Table 2 beside these answers",
        columns,
        tuple(rows),
        digits={"hP, paper": 2, "hR, paper": 2, "hF, paper": 2},
        notes=(
            f"Not comparable: the paper placed 416 answers of its own, which are unpublished; these are {n:,} others.",
            "In the paper's rows of BLEU and CLIP-i2t, hF as printed is not the harmonic mean of hP and hR as printed.",
        ),
    )
