"""The tables of the correlation study: ours beside the paper's Table 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from taxtune.metrics.registry import Measure, split_spec
from taxtune.studies.correlation.kendall import p_text
from taxtune.studies.correlation.study import CorrelationSettings, MeasureCorrelation, PairSet
from taxtune.studies.output import Cell, StudyReport, Table
from taxtune.studies.published import published
from taxtune.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["correlation_report"]

_SHOWN = {"hp": "hP", "hr": "hR"}
_CONSTANT = "Where a measure or the metric itself has one value for all pairs there is no correlation (–)."


def correlation_report(
    taxonomy: Taxonomy,
    measures: Sequence[Measure],
    settings: CorrelationSettings,
    sets: Sequence[PairSet],
    found: Sequence[MeasureCorrelation],
    record: Mapping[str, Any],
) -> StudyReport:
    """Returns the study's tables, figure and notes.

    Args:
        taxonomy: The tree that the pairs are from.
        measures: The measures.
        settings: What was drawn.
        sets: The pairs.
        found: The correlations.
        record: What else is needed to run the study again.
    """
    by_key: dict[tuple[str, str], MeasureCorrelation] = {(one.measure, one.metric): one for one in found}
    figures: dict[str, Callable[[], Figure]] = {}
    drawn = [measure for measure in measures if any(by_key[measure.name, metric].curve for metric in _SHOWN)]
    if drawn:
        from taxtune.studies.correlation.figure import draw_correlation

        figures["correlation"] = partial(draw_correlation, _names(drawn), found)
    return StudyReport(
        study="correlation",
        title="Do text measures tell how near two labels are on the tree? (paper 1, §5)",
        settings={
            **record,
            "pairs": settings.pairs,
            "nearest": settings.nearest,
            "farthest": settings.farthest,
            "draw": settings.draw,
            "labels": settings.labels,
            "seed": settings.seed,
            "measures": [measure.identity() for measure in measures],
        },
        tables=(_table_1(measures, by_key), _details(measures, by_key), _drawn(taxonomy, sets)),
        figures=figures,
        notes=_notes(measures, sets, found),
        data={"correlations": [one.as_dict() for one in found]},
    )


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
        notes=("The intervals tell what other pairs of the same tree would give, not what another tree would.",),
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
                f"{shown} is {part.values[0]:.3f} for all pairs drawn, so that nothing can correlate with it: the tree "
                "is too small, or has no branches."
            ] = None
            continue
        for said, names in (
            ("gives all pairs one score", [one.measure for one in without if len(one.curve) > 1]),
            ("scores pairs of one value, or none", [one.measure for one in without if len(one.curve) < 2]),
        ):
            if names:
                notes[f"No correlation with {shown} where a measure {said}: {', '.join(names)}."] = None
    printed = {str(row["measure"]) for row in published("paper1-table1")}
    for measure in measures:
        kind, model = split_spec(measure.name)
        if measure.label in printed and kind.default_model is not None and model != kind.default_model:
            notes[f"{measure.label}: the paper's is of {kind.default_model}, ours of {model}."] = None
    return tuple(notes)
