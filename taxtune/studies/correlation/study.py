"""Do text measures tell how near two labels are on the tree? Kendall's τ with hP and hR (paper 1, §5, Table 1).

Everything works on one frame of pairs: metric, leaf, node, distance, value of the metric, reference (the leaf's label),
answer (the other node's label), and a column of scores per measure. For hP the other node is 1 to 7 edges away; for hR
it is an ancestor of the leaf, so that hP = 1 and hR alone varies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from taxtune import atomic
from taxtune.errors import DataError
from taxtune.metrics.hierarchical import precision_recall
from taxtune.metrics.registry import Measure, split_spec
from taxtune.report.output import Cell, StudyReport, Table
from taxtune.studies.correlation.figure import draw_correlation
from taxtune.studies.correlation.pairs import PairSampler
from taxtune.studies.correlation.settings import CorrelationSettings
from taxtune.studies.output import frame_table
from taxtune.studies.published import published
from taxtune.studies.settings import needs_of
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["LEAST_P", "correlate", "correlation", "draw_pairs", "kendall", "score_pairs"]

FloatArray = NDArray[np.float64]

#: p-values that a double cannot hold are given as this, never as 0.
LEAST_P = 1e-300
_METRICS = {"hp": "hP", "hr": "hR"}
# Scores are compared at this many decimals: the rounding of single-precision arithmetic would put ties in order.
_DECIMALS = 6
# The time of the interval grows with the number of pairs times that of distinct values of the variable with fewer.
_MOST_VALUES = 5000


def correlation(settings: CorrelationSettings) -> StudyReport:
    """Draws the pairs, correlates the measures and returns the report; see `taxtune.studies.correlation.run`."""
    for spec in settings.measure:
        name, needs = spec if isinstance(spec, str) else spec.name, needs_of(spec)
        if "question" in needs:
            raise DataError("This measure judges answers to a question, but labels do not answer one.", value=name)
        if "image" in needs:
            raise DataError("This measure needs images, which labels do not have.", value=name)
    if settings.save_pairs is not None:
        atomic.check_folder(settings.save_pairs.parent)
    taxonomy, part = settings.read_tree(names=settings.names)
    measures = settings.measures(settings.measure)
    pairs = score_pairs(draw_pairs(taxonomy, settings), measures)
    if settings.save_pairs is not None:
        paths = {node: "/".join(taxonomy.path(node)) for node in pd.unique(pairs[["leaf", "node"]].to_numpy().ravel())}
        written = pairs.assign(leaf=pairs["leaf"].map(paths), node=pairs["node"].map(paths))
        atomic.make_folder(settings.save_pairs.parent)
        atomic.write_text(settings.save_pairs, written.to_csv(index=False, lineterminator="\n"))
    found = correlate(pairs, measures)
    labels = [measure.label for measure in measures]
    names = {m.name: m.label if labels.count(m.label) == 1 else m.name for m in measures}
    curves = {shown: _of(found, name) for name, shown in names.items() if any(one["curve"] for one in _of(found, name))}
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
        tables=_tables(taxonomy, pairs, measures, names, found),
        figures={"correlation": partial(draw_correlation, curves)} if curves else {},
        notes=_notes(pairs, measures, found),
        data={"correlations": found},
    )


def draw_pairs(taxonomy: Taxonomy, settings: CorrelationSettings) -> pd.DataFrame:
    """Returns the pairs drawn for hP and then those for hR: metric, leaf, node, distance, value, reference and answer.

    Raises:
        TaxonomyError: If a leaf has no node in the range of distances.
    """
    sampler, frames = PairSampler(taxonomy), []
    # A generator for each, so that neither set depends on how much the other draws.
    for metric, seed in zip(_METRICS, np.random.SeedSequence(settings.seed).spawn(2), strict=True):
        drawn = sampler.sample(
            settings.pairs,
            np.random.default_rng(seed),
            nearest=settings.nearest,
            farthest=settings.farthest,
            ancestors=metric == "hr",
            draw=settings.draw,
        )
        hp, hr = precision_recall(taxonomy, drawn["node"], drawn["leaf"])
        frames.append(drawn.assign(metric=metric, value=hp if metric == "hp" else hr))
    name = taxonomy.common_name if settings.labels == "common" else taxonomy.labels.__getitem__
    pairs = pd.concat(frames, ignore_index=True)
    labels = {node: name(node) for node in pd.unique(pairs[["leaf", "node"]].to_numpy().ravel()).tolist()}
    pairs = pairs.assign(reference=pairs["leaf"].map(labels), answer=pairs["node"].map(labels))
    return pairs[["metric", "leaf", "node", "reference", "answer", "distance", "value"]]


def score_pairs(pairs: pd.DataFrame, measures: Sequence[Measure]) -> pd.DataFrame:
    """Returns the pairs with a column of scores per measure; NaN is unscored. Equal pairs are scored once."""
    group = pairs.groupby(["answer", "reference"], sort=False)
    distinct = group.size().reset_index()
    scores = {
        measure.name: measure.scores(distinct["answer"].tolist(), distinct["reference"].tolist())
        for measure in measures
    }
    scored = pd.DataFrame(scores, dtype=float).round(_DECIMALS).iloc[group.ngroup()]
    return pd.concat([pairs, scored.set_axis(pairs.index)], axis=1)


def correlate(pairs: pd.DataFrame, measures: Sequence[Measure]) -> list[dict[str, Any]]:
    """Returns Kendall's τ, its interval and the curve of each measure and metric, over the pairs that are scored.

    The curve has the value of the metric, the number of pairs, and mean and standard deviation of their scores.
    """
    correlations = []
    for measure in measures:
        for metric in _METRICS:
            own = pairs.loc[pairs["metric"] == metric, ["value", measure.name]].set_axis(["value", "score"], axis=1)
            scored = own.dropna()
            tau = kendall(scored["value"], scored["score"])
            curve = scored.groupby("value")["score"].agg(n="count", mean="mean", std=partial(np.std, ddof=0))
            correlations.append(
                {"measure": measure.name, "metric": metric, **tau, "p_value_is_a_bound": tau["p_value"] <= LEAST_P}
                | {"unscored": len(own) - len(scored), "curve": curve.reset_index().to_dict("records")}
            )
    return correlations


def _of(correlations: Sequence[dict[str, Any]], measure: str) -> list[dict[str, Any]]:
    return [one for one in correlations if one["measure"] == measure]


# -- Kendall's τ ------------------------------------------------------------------------------------------------------


def kendall(x: ArrayLike, y: ArrayLike) -> dict[str, float]:
    """Returns Kendall's τ-b, its 95 % interval, its two-sided p-value (at least `LEAST_P`) and the number of pairs.

    τ and p are SciPy's. The interval is τ ± 1.96 standard errors of the delta method and supposes independent examples;
    it is NaN where both variables have more than 5,000 values. All is NaN where a variable is constant.

    Args:
        x: Values, shape (n,), none of them NaN.
        y: As many values.
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    n = len(x)
    if n < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return {**dict.fromkeys(("tau", "low", "high", "p_value"), np.nan), "n": n}
    from scipy.stats import kendalltau

    result = kendalltau(x, y, variant="b")
    tau, error = float(result.statistic), 1.959964 * _standard_error(x, y)
    low, high = max(-1.0, tau - error), min(1.0, tau + error)
    return {"tau": tau, "low": low, "high": high, "p_value": max(float(result.pvalue), LEAST_P), "n": n}


def _standard_error(x: FloatArray, y: FloatArray) -> float:
    """Returns the asymptotic standard error of τ-b; NaN where it would take too long."""
    n = len(x)
    sides = [np.unique(side, return_inverse=True, return_counts=True)[1:] for side in (x, y)]
    (x_code, x_counts), (y_code, y_counts) = sorted(sides, key=lambda side: len(side[1]))
    if len(x_counts) > _MOST_VALUES:
        return float("nan")
    # For each example: the number of examples that it agrees with in order, less those that it disagrees with.
    agreed = np.zeros(n)
    for value in range(len(x_counts)):
        counts = np.bincount(y_code[x_code == value], minlength=len(y_counts))
        up_to = counts.cumsum()
        agreed += np.sign(x_code - value) * (2 * up_to - counts - counts.sum())[y_code]
    agreement = agreed / n
    apart_x, apart_y = 1 - x_counts[x_code] / n, 1 - y_counts[y_code] / n
    mean, mean_x, mean_y = agreement.mean(), apart_x.mean(), apart_y.mean()
    root = np.sqrt(mean_x * mean_y)
    share = 2 * (agreement - mean) / root - mean / root * ((apart_x - mean_x) / mean_x + (apart_y - mean_y) / mean_y)
    return float(np.sqrt((share**2).mean() / n))


def _p_text(p: float) -> str | None:
    if np.isnan(p):
        return None
    return f"< {LEAST_P:.0e}" if p <= LEAST_P else f"{p:.1e}" if p < 0.001 else f"{p:.3f}"


# -- the report -------------------------------------------------------------------------------------------------------


def _tables(
    taxonomy: Taxonomy,
    pairs: pd.DataFrame,
    measures: Sequence[Measure],
    names: Mapping[str, str],
    found: Sequence[dict[str, Any]],
) -> tuple[Table, ...]:
    printed = {row["measure"]: row for row in published("paper1-table1")}
    columns = [f"τ-{metric}{of}" for metric in _METRICS.values() for of in ("", " paper, iNat21", " paper, OVEN")]
    taus: list[tuple[Cell, ...]] = []
    for measure in measures:
        paper = printed.get(measure.label, {})
        cells: list[Cell] = [names[measure.name]]
        for one in _of(found, measure.name):
            cells += [one["tau"], paper.get(f"inat21_{one['metric']}"), paper.get(f"oven_{one['metric']}")]
        taus.append(tuple(cells))
    intervals: list[tuple[Cell, ...]] = [
        (
            _METRICS[one["metric"]],
            names[one["measure"]],
            *(one["tau"], one["low"], one["high"], _p_text(one["p_value"]), one["n"], one["unscored"]),
        )
        for one in sorted(found, key=lambda one: list(_METRICS).index(one["metric"]))
    ]
    above, pair = taxonomy.is_ancestor(pairs["node"], pairs["leaf"]), pairs["leaf"] * len(taxonomy) + pairs["node"]
    by = pairs.assign(above=above, pair=pair, **{"for": pairs["metric"].map(_METRICS)}).groupby(["for", "distance"])
    shown = {
        "pairs": ("value", "size"),
        "different pairs": ("pair", "nunique"),
        "share of ancestors": ("above", "mean"),
    }
    drawn = by.agg(**shown, **{"mean hP or hR": ("value", "mean")}).reset_index()
    undefined = "A measure or metric with the same value for all pairs has no correlation (–)."
    return (
        Table(
            "correlation",
            "Kendall's τ of measures with hP and hR, and Table 1 of the paper",
            ("measure", *columns),
            tuple(taus),
            dict.fromkeys(columns, 2),
            (undefined,) if any(np.isnan(one["tau"]) for one in found) else (),
        ),
        Table(
            "intervals",
            "The same with 95 % intervals of the sampling and p-values",
            ("metric", "measure", "τ", "low", "high", "p", "pairs", "unscored"),
            tuple(intervals),
            notes=("The intervals cover other draws of pairs from the same tree, not other trees.",),
        ),
        frame_table("pairs", "The pairs drawn", drawn),
    )


def _notes(pairs: pd.DataFrame, measures: Sequence[Measure], found: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    notes = [note for measure in measures for note in measure.notes]
    for one in found:
        if one["unscored"]:
            pairs_of = f"{one['unscored']:,} of {one['unscored'] + one['n']:,} pairs for {_METRICS[one['metric']]}"
            notes.append(f"{one['measure']}: {pairs_of} are unscored and left out.")
    for metric, values in pairs.groupby("metric")["value"]:
        constant = [one["measure"] for one in found if one["metric"] == metric and np.isnan(one["tau"])]
        shown = _METRICS[str(metric)]
        if values.nunique() == 1:
            notes.append(f"{shown} is {values.iloc[0]:.3f} for all pairs drawn, so nothing can correlate with it.")
        elif constant:
            notes.append(f"No correlation with {shown}: all pairs have the same score under {', '.join(constant)}.")
    printed = {row["measure"] for row in published("paper1-table1")}
    for measure in measures:
        kind, model = split_spec(measure.name)
        if measure.label in printed and kind.default_model not in (None, model):
            notes.append(f"{measure.label}: the paper used {kind.default_model}; this table uses {model}.")
    return tuple(dict.fromkeys(notes))
