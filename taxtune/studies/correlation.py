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
from taxtune.errors import DataError, TaxonomyError
from taxtune.metrics.hierarchical import precision_recall
from taxtune.metrics.registry import Measure, split_spec
from taxtune.options import EnglishNamesOption, SeedOption, measure_option
from taxtune.report.output import StudyReport, Table
from taxtune.studies.output import draw_curves, frame_table
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
    "PairSampler",
    "correlate",
    "kendall",
    "run",
    "score_pairs",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

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
        paths = {
            node: "/".join(taxonomy.path(node))
            for node in pd.unique(pairs[["leaf", "node"]].to_numpy().ravel())
        }
        written = pairs.assign(leaf=pairs["leaf"].map(paths), node=pairs["node"].map(paths))
        atomic.make_folder(settings.save_pairs.parent)
        atomic.write_text(settings.save_pairs, written.to_csv(index=False, lineterminator="\n"))
    taus, curves = correlate(pairs, measures), score_curves(pairs, measures)
    labels = [measure.label for measure in measures]
    names = {m.name: m.label if labels.count(m.label) == 1 else m.name for m in measures}
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
        tables=_tables(taxonomy, pairs, measures, names, taus),
        figures={"correlation": partial(_draw, curves, taus, names)} if len(curves) else {},
        notes=_notes(measures, taus),
        data={"correlations": taus.to_dict("records"), "curves": curves.to_dict("records")},
    )


# -- pairs ------------------------------------------------------------------------------------------------------------


class PairSampler:
    """Draws pairs of a leaf and another node from a tree of up to some million nodes (paper 1, §5).

    A leaf is drawn uniformly, then a distance uniformly among those at which it has a node, then a node at that
    distance: uniformly among all of them ("nodes"), or first the number of steps up and then a node ("steps"). The
    paper does not say which. In the order of a walk through the tree the nodes at one depth below one ancestor are a
    run, which two binary searches find; the nodes at distance d are d + 1 such runs, less the leaf's own branches.
    """

    def __init__(self, taxonomy: Taxonomy) -> None:
        self.taxonomy = taxonomy
        n = len(taxonomy)
        # Ancestors come before their descendants, because -1, which fills up a lineage, is the least.
        walk = np.lexsort(taxonomy.lineage.T[::-1])
        self._first = np.empty(n, dtype=np.int64)
        self._first[walk] = np.arange(n)
        below = sum(np.bincount(column[column >= 0], minlength=n) for column in taxonomy.lineage.T)
        self._last = self._first + below
        keys = taxonomy.depth * (n + 1) + self._first
        self._by_key = np.argsort(keys)
        self._keys = keys[self._by_key]

    def _run(self, ancestors: IntArray, depth: IntArray) -> tuple[IntArray, IntArray]:
        """Start and end of the run of descendants at a depth, among the nodes sorted by depth and walk."""
        base = depth * (len(self.taxonomy) + 1)
        first, last = (
            np.searchsorted(self._keys, base + ends[ancestors])
            for ends in (self._first, self._last)
        )
        return first, last

    def _runs(self, nodes: IntArray, distance: int) -> tuple[IntArray, IntArray]:
        """Start and length of the runs that hold the nodes at a distance, each of shape (nodes, 2 (distance + 1))."""
        depth, lineage = self.taxonomy.depth[nodes], self.taxonomy.lineage[nodes]
        # By steps up, the run before the node's own branch and the run after it.
        ends = np.zeros((len(nodes), distance + 1, 2, 2), dtype=np.int64)
        for up in range(distance + 1):
            rows = np.flatnonzero(depth >= up)
            level = depth[rows] + distance - 2 * up
            start, end = self._run(lineage[rows, depth[rows] - up], level)
            own = self._run(lineage[rows, depth[rows] - up + 1], level) if up else (end, end)
            ends[rows, up] = np.stack([start, *own, end], axis=1).reshape(-1, 2, 2)
        first, last = np.moveaxis(ends.reshape(len(nodes), -1, 2), -1, 0)
        return first, last - first

    def count(self, nodes: IntArray, distance: int) -> IntArray:
        """Returns the number of nodes that are `distance` edges away from each of `nodes`, shape (n,)."""
        counts: IntArray = self._runs(nodes, distance)[1].sum(axis=1)
        return counts

    def sample(
        self,
        n: int,
        rng: np.random.Generator,
        *,
        nearest: int = 1,
        farthest: int = 7,
        ancestors: bool = False,
        draw: Literal["nodes", "steps"] = "nodes",
    ) -> pd.DataFrame:
        """Draws n pairs with replacement: the columns leaf, node (numbers) and distance.

        Args:
            n: Number of pairs, at least 1.
            rng: The generator.
            nearest: Least distance in edges; 0 pairs a leaf with itself.
            farthest: Greatest distance, at least `nearest` and 1.
            ancestors: Whether to draw ancestors of the leaf only, so that hP = 1.
            draw: Whether to draw nodes uniformly, or first the steps up.

        Raises:
            TaxonomyError: If a leaf has no node in the range of distances.
        """
        leaves = rng.choice(self.taxonomy.leaves, n)
        distances = np.arange(nearest, farthest + 1)
        kinds, kind = np.unique(leaves, return_inverse=True)
        if ancestors:
            possible = distances <= self.taxonomy.depth[kinds][:, np.newaxis]
        else:
            possible = np.stack(
                [self.count(kinds, distance) > 0 for distance in distances.tolist()], axis=1
            )
        lonely = kinds[~possible.any(axis=1)]
        if len(lonely):
            what, leaf = "ancestor" if ancestors else "node", self.taxonomy.labels[lonely[0]]
            message = f"A leaf has no {what} at a distance of {nearest} to {farthest}."
            remedy = "Use a wider range of distances, or a larger tree."
            raise TaxonomyError(message, file=self.taxonomy.source, value=leaf, remedy=remedy)
        choice = rng.integers(0, possible.sum(axis=1)[kind])
        distance = distances[
            (np.cumsum(possible, axis=1)[kind] > choice[:, np.newaxis]).argmax(axis=1)
        ]
        if ancestors:
            nodes = self.taxonomy.lineage[leaves, self.taxonomy.depth[leaves] - distance]
        else:
            nodes = np.empty(n, dtype=np.int64)
            for steps in np.unique(distance).tolist():
                rows = distance == steps
                nodes[rows] = self._nodes(leaves[rows], steps, rng, draw)
        return pd.DataFrame({"leaf": leaves, "node": nodes, "distance": distance})

    def _nodes(
        self, leaves: IntArray, distance: int, rng: np.random.Generator, draw: str
    ) -> IntArray:
        """A node at a distance from each of the leaves."""
        starts, counts = self._runs(leaves, distance)
        row, ends = np.arange(len(leaves)), counts.cumsum(axis=1)
        if draw == "nodes":
            picked = rng.integers(0, ends[:, -1])
        else:
            # The two runs of each number of steps up follow one another.
            by_steps = np.diff(ends[:, 1::2], axis=1, prepend=0)
            ways = (by_steps > 0).cumsum(axis=1)
            up = (ways > rng.integers(0, ways[:, -1])[:, np.newaxis]).argmax(axis=1)
            picked = (ends[:, 1::2] - by_steps)[row, up] + rng.integers(0, by_steps[row, up])
        run = row, (ends > picked[:, np.newaxis]).argmax(axis=1)
        nodes: IntArray = self._by_key[starts[run] + picked - (ends - counts)[run]]
        return nodes


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
    labels = {
        node: name(node) for node in pd.unique(pairs[["leaf", "node"]].to_numpy().ravel()).tolist()
    }
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


def correlate(pairs: pd.DataFrame, measures: Sequence[Measure]) -> pd.DataFrame:
    """Returns measure, metric, the columns of `kendall` over the scored pairs, and the number of unscored ones."""
    rows = []
    for measure in measures:
        for metric, own in pairs.groupby("metric", sort=False):
            scored = own.dropna(subset=measure.name)
            tau = kendall(scored["value"], scored[measure.name])
            rows.append(
                {
                    "measure": measure.name,
                    "metric": metric,
                    **tau,
                    "unscored": len(own) - len(scored),
                }
            )
    return pd.DataFrame(rows)


def score_curves(pairs: pd.DataFrame, measures: Sequence[Measure]) -> pd.DataFrame:
    """Returns n, mean and standard deviation of the scores by measure, metric and value of the metric."""
    names = [measure.name for measure in measures]
    scores = pairs.melt(["metric", "value"], names, var_name="measure", value_name="score").dropna(
        subset="score"
    )
    by = scores.groupby(["measure", "metric", "value"], sort=False)["score"]
    return (
        by.agg(n="count", mean="mean", std=partial(np.std, ddof=0))
        .reset_index()
        .sort_values("value", kind="stable")
    )


def _draw(curves: pd.DataFrame, taus: pd.DataFrame, names: Mapping[str, str]) -> Figure:
    """The mean of each measure over hP and over hR, with a fifth of the standard deviation as in the paper."""
    by = taus.set_index(["measure", "metric"])["tau"].unstack().reindex(columns=list(_METRICS))
    texts = by.map(lambda tau: "–" if np.isnan(tau) else f"{tau:.2f}")
    shown = {
        name: f"{label}  τ-hP {texts['hp'][name]}, τ-hR {texts['hr'][name]}"
        for name, label in names.items()
    }
    panels = {"hp": "hP (any node)", "hr": "hR (ancestors only, hP = 1)"}
    drawn = curves.assign(
        panel=curves["metric"].map(panels), series=curves["measure"].map(shown), way=""
    )
    ends = {"low": drawn["mean"] - drawn["std"] / 5, "high": drawn["mean"] + drawn["std"] / 5}
    return draw_curves(
        drawn.assign(x=drawn["value"], estimate=drawn["mean"], **ends), "score: mean, bars ± std/5"
    )


# -- Kendall's τ ------------------------------------------------------------------------------------------------------


def kendall(x: ArrayLike, y: ArrayLike) -> dict[str, float]:
    """Returns Kendall's τ-b of n pairs of values, its 95 % interval, its two-sided p-value (at least `LEAST_P`) and n.

    τ and p are SciPy's. The interval is τ ± 1.96 standard errors of the delta method and supposes independent examples;
    it is NaN where both variables have more than 5,000 values. All is NaN where a variable is constant.
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    n = len(x)
    if n < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return {**dict.fromkeys(("tau", "low", "high", "p_value"), np.nan), "n": n}
    from scipy.stats import kendalltau

    result = kendalltau(x, y, variant="b")
    tau, error = float(result.statistic), 1.959964 * _standard_error(x, y)
    low, high = max(-1.0, tau - error), min(1.0, tau + error)
    return {
        "tau": tau,
        "low": low,
        "high": high,
        "p_value": max(float(result.pvalue), LEAST_P),
        "n": n,
    }


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
    share = 2 * (agreement - mean) / root - mean / root * (
        (apart_x - mean_x) / mean_x + (apart_y - mean_y) / mean_y
    )
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
    taus: pd.DataFrame,
) -> tuple[Table, ...]:
    printed = (
        published("paper1-table1")
        .set_index("measure")
        .reindex([measure.label for measure in measures])
    )
    by = taus.set_index(["measure", "metric"])["tau"]
    beside = pd.DataFrame({"measure": names.values()})
    for metric, shown in _METRICS.items():
        beside[f"τ-{shown}"] = [by[name, metric] for name in names]
        for data, column in (("iNat21", f"inat21_{metric}"), ("OVEN", f"oven_{metric}")):
            beside[f"τ-{shown} paper, {data}"] = printed[column].to_numpy()
    cells = taus.assign(measure=taus["measure"].map(names), metric=taus["metric"].map(_METRICS))
    cells["p_value"] = [_p_text(p) for p in taus["p_value"]]
    above, pair = (
        taxonomy.is_ancestor(pairs["node"], pairs["leaf"]),
        pairs["leaf"] * len(taxonomy) + pairs["node"],
    )
    drawn = pairs.assign(above=above, pair=pair, metric=pairs["metric"].map(_METRICS)).groupby(
        ["metric", "distance"]
    )
    shown_pairs = {
        "pairs": ("value", "size"),
        "different pairs": ("pair", "nunique"),
        "share of ancestors": ("above", "mean"),
        "mean hP or hR": ("value", "mean"),
    }
    undefined = "A measure or metric with the same value for all pairs has no correlation (–)."
    return (
        frame_table(
            "correlation",
            "Kendall's τ of measures with hP and hR, and Table 1 of the paper",
            beside,
            *([undefined] if taus["tau"].isna().any() else []),
            digits=dict.fromkeys(beside.columns[1:], 2),
        ),
        frame_table(
            "intervals",
            "The same with 95 % intervals of the sampling and p-values",
            cells.sort_values("metric", kind="stable").rename(
                columns={"tau": "τ", "p_value": "p", "n": "pairs"}
            ),
            "The intervals cover other draws of pairs from the same tree, not other trees.",
        ),
        frame_table("pairs", "The pairs drawn", drawn.agg(**shown_pairs).reset_index()),
    )


def _notes(measures: Sequence[Measure], taus: pd.DataFrame) -> tuple[str, ...]:
    notes = [note for measure in measures for note in measure.notes]
    for one in taus[taus["unscored"] > 0].to_dict("records"):
        pairs_of = f"{one['unscored']:,} of {one['unscored'] + one['n']:,} pairs for {_METRICS[one['metric']]}"
        notes.append(f"{one['measure']}: {pairs_of} are unscored and left out.")
    printed = set(published("paper1-table1")["measure"])
    for measure in measures:
        kind, model = split_spec(measure.name)
        if measure.label in printed and kind.default_model not in (None, model):
            notes.append(
                f"{measure.label}: the paper used {kind.default_model}; this table uses {model}."
            )
    return tuple(dict.fromkeys(notes))
