"""Do text measures tell how near two labels are on the tree? Kendall's τ with hP and hR (paper 1, §5, Table 1).

Everything works on one frame of pairs: metric, leaf, node, distance, value of the metric, reference (the leaf's label),
answer (the other node's label), and a column of scores per measure. For hP the other node is 1 to 7 edges away; for hR
it is an ancestor of the leaf, so that hP = 1 and hR alone varies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pydantic import model_validator
from typer import Option

from taxtune import atomic
from taxtune.errors import DataError
from taxtune.metrics.hierarchical import precision_recall
from taxtune.metrics.registry import Measure, split_spec
from taxtune.options import EnglishNamesOption, SeedOption, measure_option
from taxtune.report.output import StudyReport, Table
from taxtune.studies.frames import groups, records
from taxtune.studies.output import draw_curves, frame_table, node_paths, part_path
from taxtune.studies.pairs import PairSampler
from taxtune.studies.published import published
from taxtune.studies.settings import (
    NOT_RECORDED,
    BatchSize,
    ModelSettings,
    TreeSettings,
    check_inputs,
)
from taxtune.taxonomy import Taxonomy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "LEAST_P",
    "CorrelationSettings",
    "correlate",
    "kendall",
    "run",
    "score_pairs",
]

FloatArray = NDArray[np.float64]

#: p-values that a double cannot hold are given as this, never as 0.
LEAST_P = 1e-300
_DEFAULT = ("exact-match", "contained", "bleu-2", "rouge-1", "meteor")
_METRICS = {"hp": "hP", "hr": "hR"}
# Scores are compared at this many decimals: the rounding of single-precision arithmetic would put ties in order.
_DECIMALS = 6
# The time of the interval grows with the number of pairs times that of distinct values of the variable with fewer.
_MOST_VALUES = 5000


class CorrelationSettings(ModelSettings, TreeSettings):
    """The pairs and measures: see `taxtune study correlation --help`."""

    root: Annotated[
        str | None,
        Option(
            metavar="NODE",
            help="Draw pairs below this node (a label or path), which becomes the root.",
        ),
    ] = None
    measure: Annotated[
        tuple[Any, ...], measure_option(f"Default: {', '.join(_DEFAULT)}."), NOT_RECORDED
    ] = _DEFAULT
    pairs: Annotated[
        int, Option("-n", "--pairs", min=2, help="Number of pairs to draw for each of hP and hR.")
    ] = 100_000
    labels: Annotated[
        Literal["common", "canonical"],
        Option(help="Which name of a node to use: common (the first) or canonical."),
    ] = "common"
    nearest: Annotated[
        int, Option(min=0, help="Smallest distance in edges; 0 pairs leaves with themselves.")
    ] = 1
    farthest: Annotated[int, Option(min=1, help="Largest distance of a pair, in edges.")] = 7
    draw: Annotated[
        Literal["nodes", "steps"],
        Option(
            help="How to draw a node for hP: uniformly among the nodes at the distance, or first the steps up."
        ),
    ] = "nodes"
    names: EnglishNamesOption = True
    seed: SeedOption = 0
    batch_size: BatchSize = 64
    save_pairs: Annotated[
        Path | None,
        Option(metavar="FILE.csv", dir_okay=False, help="Write all pairs with their scores."),
        NOT_RECORDED,
    ] = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.farthest < self.nearest:
            message = "The largest distance must be at least the smallest."
            raise DataError(message, value=(self.nearest, self.farthest))
        return self


def run(settings: CorrelationSettings) -> StudyReport:
    """Correlate measures of labels with hP and hR over drawn pairs of nodes (paper 1, Table 1 and Figure 8).

    The reference is a leaf's label, the answer that of a node 1 to 7 edges away (for hP) or of an ancestor (for hR).
    Prints Kendall's τ beside the paper's, with intervals and p-values; with --out also draws the figure.

    Raises:
        DataError: If a measure needs questions or images.
        TaxonomyError: If the taxonomy cannot be read, or a leaf has no node in the range of distances.
    """
    check_inputs(settings.measure, "labels")
    if settings.save_pairs is not None:
        atomic.check_folder(settings.save_pairs.parent)
    taxonomy, part = settings.read_tree(names=settings.names)
    measures = settings.measures(settings.measure)
    pairs = score_pairs(draw_pairs(taxonomy, settings), measures)
    if settings.save_pairs is not None:
        _write_pairs(pairs, taxonomy, settings.save_pairs)
    taus = correlate(pairs, measures)
    curves = score_curves(pairs, measures)
    labels = [measure.label for measure in measures]
    names = {}
    for measure in measures:
        is_alone = labels.count(measure.label) == 1
        names[measure.name] = measure.label if is_alone else measure.name
    record = settings.record()
    record["root"] = part_path(part)
    record["nodes"] = len(taxonomy)
    record["leaves"] = len(taxonomy.leaves)
    counts = [len(taxonomy.names(node)) for node in range(len(taxonomy))]
    record["nodes_with_common_name"] = sum(count > 1 for count in counts)
    record["measures"] = [measure.identity() for measure in measures]
    paper = _paper_table(taus, names, labels)
    intervals = _intervals_table(taus, names)
    figures = {}
    if len(curves):
        figures["correlation"] = partial(_draw, curves, taus, names)
    return StudyReport(
        study="correlation",
        title="Do text measures reflect how close two labels are on the tree? (paper 1, §5)",
        settings=record,
        tables=(paper, intervals, _pairs_table(taxonomy, pairs)),
        figures=figures,
        notes=_notes(measures, taus),
        data={"correlations": records(taus), "curves": records(curves)},
    )


def draw_pairs(taxonomy: Taxonomy, settings: CorrelationSettings) -> pd.DataFrame:
    """Returns the pairs drawn for hP and then those for hR: metric, leaf, node, distance, value, reference and answer.

    Raises:
        TaxonomyError: If a leaf has no node in the range of distances.
    """
    sampler = PairSampler(taxonomy)
    frames = []
    # A generator for each, so that neither set depends on how much the other draws.
    seeds = np.random.SeedSequence(settings.seed).spawn(len(_METRICS))
    for metric, seed in zip(_METRICS, seeds, strict=True):
        rng = np.random.default_rng(seed)
        drawn = sampler.sample(
            settings.pairs,
            rng,
            nearest=settings.nearest,
            farthest=settings.farthest,
            ancestors=metric == "hr",
            draw=settings.draw,
        )
        drawn["metric"] = metric
        hp, hr = precision_recall(taxonomy, drawn["node"], drawn["leaf"])
        drawn["value"] = hp if metric == "hp" else hr
        frames.append(drawn)
    pairs = pd.concat(frames, ignore_index=True)
    names = pd.Series(taxonomy.labels)
    if settings.labels == "common":
        names = pd.Series([taxonomy.common_name(node) for node in range(len(taxonomy))])
    pairs["reference"] = pairs["leaf"].map(names)
    pairs["answer"] = pairs["node"].map(names)
    return pairs[["metric", "leaf", "node", "reference", "answer", "distance", "value"]]


def _write_pairs(pairs: pd.DataFrame, taxonomy: Taxonomy, path: Path) -> None:
    """Writes the pairs with their scores as CSV, nodes as paths."""
    written = pairs.copy()
    for column in ("leaf", "node"):
        written[column] = node_paths(taxonomy, pairs[column])
    atomic.make_folder(path.parent)
    atomic.write_text(path, written.to_csv(index=False, lineterminator="\n"))


def score_pairs(pairs: pd.DataFrame, measures: Sequence[Measure]) -> pd.DataFrame:
    """Returns the pairs with a column of scores per measure; NaN is unscored. Equal pairs are scored once."""
    same = pairs.groupby(["answer", "reference"], sort=False)
    distinct = same.size().reset_index()
    answers, references = distinct["answer"].tolist(), distinct["reference"].tolist()
    scored = pairs.copy()
    for measure in measures:
        scores = np.round(np.asarray(measure.scores(answers, references), float), _DECIMALS)
        scored[measure.name] = scores[same.ngroup()]
    return scored


def correlate(pairs: pd.DataFrame, measures: Sequence[Measure]) -> pd.DataFrame:
    """Returns measure, metric, the columns of `kendall` over the scored pairs, and the number of unscored ones."""
    rows = []
    for measure in measures:
        for metric, of_metric in groups(pairs, "metric").items():
            scored = of_metric.dropna(subset=measure.name)
            row: dict[str, Any] = {"measure": measure.name, "metric": metric}
            row |= kendall(scored["value"], scored[measure.name])
            row["unscored"] = len(of_metric) - len(scored)
            rows.append(row)
    return pd.DataFrame(rows)


def score_curves(pairs: pd.DataFrame, measures: Sequence[Measure]) -> pd.DataFrame:
    """Returns n, mean and standard deviation of the scores by measure, metric and value of the metric."""
    names = [measure.name for measure in measures]
    scores = pairs.melt(["metric", "value"], names, var_name="measure", value_name="score")
    scores = scores.dropna(subset="score")
    by_value = scores.groupby(["measure", "metric", "value"], sort=False)["score"]
    curves = by_value.agg(n="count", mean="mean", std=partial(np.std, ddof=0))
    return curves.reset_index().sort_values("value", kind="stable")


# -- Kendall's τ ------------------------------------------------------------------------------------------------------


def kendall(x: ArrayLike, y: ArrayLike) -> dict[str, float]:
    """Returns Kendall's τ-b of n pairs of values, its 95 % interval, its two-sided p-value (at least `LEAST_P`) and n.

    τ and p are SciPy's. The interval is τ ± 1.96 standard errors of the delta method and supposes independent examples;
    it is NaN where both variables have more than 5,000 values. All is NaN where a variable is constant.
    """
    from scipy.stats import kendalltau

    x = np.asarray(x, dtype=np.float64)
    y = np.asarray(y, dtype=np.float64)
    tau = error = p_value = np.nan
    if len(x) > 1 and np.ptp(x) and np.ptp(y):
        result = kendalltau(x, y, variant="b")
        tau = float(result.statistic)
        error = 1.959964 * _standard_error(x, y)
        p_value = max(float(result.pvalue), LEAST_P)
    low, high = np.clip([tau - error, tau + error], -1.0, 1.0).tolist()
    return {"tau": tau, "low": low, "high": high, "p_value": p_value, "n": len(x)}


def _standard_error(x: FloatArray, y: FloatArray) -> float:
    """Returns the asymptotic standard error of τ-b; NaN where it would take too long."""
    n = len(x)
    if len(np.unique(x)) > len(np.unique(y)):
        x, y = y, x
    _, x_code, x_counts = np.unique(x, return_inverse=True, return_counts=True)
    _, y_code, y_counts = np.unique(y, return_inverse=True, return_counts=True)
    if len(x_counts) > _MOST_VALUES:
        return float("nan")
    # For each example: the number of examples that it agrees with in order, less those that it disagrees with.
    agreed = np.zeros(n)
    for value in range(len(x_counts)):
        counts = np.bincount(y_code[x_code == value], minlength=len(y_counts))
        below_less_above = 2 * counts.cumsum() - counts - counts.sum()
        agreed += np.sign(x_code - value) * below_less_above[y_code]
    agreement = agreed / n
    mean = agreement.mean()
    apart_x = 1 - x_counts[x_code] / n
    apart_y = 1 - y_counts[y_code] / n
    root = np.sqrt(apart_x.mean() * apart_y.mean())
    spread = apart_x / apart_x.mean() + apart_y / apart_y.mean() - 2
    influence = (2 * (agreement - mean) - mean * spread) / root
    return float(np.sqrt((influence**2).mean() / n))


def _p_text(p: float) -> str | None:
    if np.isnan(p):
        return None
    if p <= LEAST_P:
        return f"< {LEAST_P:.0e}"
    return f"{p:.1e}" if p < 0.001 else f"{p:.3f}"


# -- tables and the figure --------------------------------------------------------------------------------------------


def _paper_table(taus: pd.DataFrame, names: Mapping[str, str], labels: list[str]) -> Table:
    """Returns the correlations beside those of the paper's Table 1."""
    printed = published("paper1-table1").set_index("measure").reindex(labels)
    by_metric = taus.pivot(index="measure", columns="metric", values="tau").loc[list(names)]
    cells = pd.DataFrame({"measure": names.values()})
    for metric, shown in _METRICS.items():
        cells[f"τ-{shown}"] = by_metric[metric].to_numpy()
        cells[f"τ-{shown} paper, iNat21"] = printed[f"inat21_{metric}"].to_numpy()
        cells[f"τ-{shown} paper, OVEN"] = printed[f"oven_{metric}"].to_numpy()
    notes = []
    if taus["tau"].isna().any():
        notes.append(
            "A measure or metric with the same value for all pairs has no correlation (–)."
        )
    title = "Kendall's τ of measures with hP and hR, and Table 1 of the paper"
    return frame_table("correlation", title, cells, *notes, digits=2)


def _intervals_table(taus: pd.DataFrame, names: Mapping[str, str]) -> Table:
    cells = taus.copy()
    cells["measure"] = cells["measure"].map(names)
    cells["metric"] = cells["metric"].map(_METRICS)
    cells["p_value"] = cells["p_value"].map(_p_text)
    cells = cells.sort_values("metric", kind="stable")
    return frame_table(
        "intervals",
        "The same with 95 % intervals of the sampling and p-values",
        cells.rename(columns={"tau": "τ", "p_value": "p", "n": "pairs"}),
        "The intervals cover other draws of pairs from the same tree, not other trees.",
    )


def _pairs_table(taxonomy: Taxonomy, pairs: pd.DataFrame) -> Table:
    drawn = pairs[["distance", "value"]].copy()
    drawn["metric"] = pairs["metric"].map(_METRICS)
    drawn["above"] = taxonomy.is_ancestor(pairs["node"], pairs["leaf"])
    drawn["pair"] = pairs["leaf"] * len(taxonomy) + pairs["node"]
    by_distance = drawn.groupby(["metric", "distance"])
    cells = pd.DataFrame({"pairs": by_distance.size()})
    cells["different pairs"] = by_distance["pair"].nunique()
    cells["share of ancestors"] = by_distance["above"].mean()
    cells["mean hP or hR"] = by_distance["value"].mean()
    return frame_table("pairs", "The pairs drawn", cells.reset_index())


def _notes(measures: Sequence[Measure], taus: pd.DataFrame) -> tuple[str, ...]:
    notes = [note for measure in measures for note in measure.notes]
    for row in records(taus[taus["unscored"] > 0]):
        total = row["unscored"] + row["n"]
        counts = f"{row['unscored']:,} of {total:,} pairs for {_METRICS[row['metric']]}"
        notes.append(f"{row['measure']}: {counts} are unscored and left out.")
    printed = set(published("paper1-table1")["measure"])
    for measure in measures:
        kind, model = split_spec(measure.name)
        if measure.label in printed and kind.default_model not in (None, model):
            models = f"the paper used {kind.default_model}; this table uses {model}."
            notes.append(f"{measure.label}: {models}")
    return tuple(dict.fromkeys(notes))


def _draw(curves: pd.DataFrame, taus: pd.DataFrame, names: Mapping[str, str]) -> Figure:
    """Draws the mean of each measure over hP and over hR, with a fifth of the standard deviation as in the paper."""
    by_metric = taus.pivot(index="measure", columns="metric", values="tau")
    texts = by_metric.map(lambda tau: "–" if np.isnan(tau) else f"{tau:.2f}")
    series = {}
    for name, label in names.items():
        series[name] = f"{label}  τ-hP {texts['hp'][name]}, τ-hR {texts['hr'][name]}"
    panels = {"hp": "hP (any node)", "hr": "hR (ancestors only, hP = 1)"}
    drawn = curves.rename(columns={"value": "x", "mean": "estimate"}).assign(way="")
    drawn["panel"] = drawn["metric"].map(panels)
    drawn["series"] = drawn["measure"].map(series)
    drawn["low"] = drawn["estimate"] - drawn["std"] / 5
    drawn["high"] = drawn["estimate"] + drawn["std"] / 5
    return draw_curves(drawn, "score: mean, bars ± std/5")
