"""Do models miss coarse names because captions seldom have them? Paper 3, §4.2, "Granularity Bias", Figure 4.

The paper counts how often the captions that a model was trained on have each class name, and compares, ancestor by
ancestor, how far the leaves below it are named more often than itself with what it gains when it is scored by them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taxtune.report.output import Cell, StudyReport, Table, node_name, numbered
from taxtune.studies.granularity.captions import CaptionCounts
from taxtune.taxonomy import Taxonomy
from taxtune.taxonomy.label_graph import LabelGraph

if TYPE_CHECKING:
    from taxtune.studies.granularity.study import Granularity

__all__ = ["Correlation", "compared", "correlate", "frequency_gaps", "frequency_report", "mean_of_leaves"]

FloatArray = NDArray[np.float64]

_FEWEST = 3  # ancestors that a correlation takes
# Values that differ by less are equal: the same number summed in another order.
_SAME = 1e-9
_ENDS = 10  # rows at either end of the table of gaps


@dataclass(frozen=True, slots=True)
class Correlation:
    """How the frequency gap of ancestors goes with what they gain by their leaves.

    Attributes:
        scores: Where the scores are from.
        ancestors: How many ancestors are compared.
        pearson: Pearson's r; NaN where it is not defined.
        pearson_p: Its two-sided p-value.
        spearman: Spearman's ρ; NaN where it is not defined.
        spearman_p: Its two-sided p-value.
        undefined: Why there is no coefficient, or None.
    """

    scores: str
    ancestors: int
    pearson: float
    pearson_p: float
    spearman: float
    spearman_p: float
    undefined: str | None = None


def mean_of_leaves(graph: LabelGraph, counts: NDArray[np.int64]) -> FloatArray:
    """Returns the mean count of the leaves below each node, shape (nodes,); that of a leaf is its own.

    A leaf counts once for a node, however many paths lead to it.
    """
    above = graph.above[graph.leaves].T
    totals = above @ counts[graph.leaves].astype(np.float64)
    return np.asarray(totals / (above @ np.ones(len(graph.leaves))), dtype=np.float64)


def frequency_gaps(graph: LabelGraph, counts: NDArray[np.int64]) -> FloatArray:
    """Returns the frequency gap Δ_freq of every ancestor: log10(mean count of its leaves + 1) − log10(own count + 1).

    The paper plots the gap "between ancestor class names and their leaf children" and gives no formula; this one is
    ours. Counts of names spread over orders of magnitude, hence the logarithm, and many are 0, hence the 1.

    Args:
        graph: The labels.
        counts: Captions that name each node, shape (nodes,).

    Returns:
        Shape (nodes,), positive where the leaves are named more often; NaN for leaves.
    """
    gaps = np.log10(mean_of_leaves(graph, counts) + 1) - np.log10(counts + 1)
    gaps[graph.leaves] = np.nan
    return np.asarray(gaps, dtype=np.float64)


def compared(result: Granularity) -> NDArray[np.bool_]:
    """Tells which ancestors are compared: those with an average precision, but for those that every image shows.

    Of the latter, such as the root, the average precision is 1 and the gain 0 by any scores.
    """
    return np.asarray(result.ancestors & (result.shown < result.images))


def correlate(result: Granularity, graph: LabelGraph, counts: CaptionCounts) -> Correlation:
    """Returns the correlation of the frequency gap with Δ_leaf over the ancestors.

    Args:
        result: Average precisions; Δ_leaf is that by leaves minus that by the ancestor's own name.
        graph: The labels.
        counts: Captions that name each node.
    """
    chosen = compared(result)
    gaps = frequency_gaps(graph, counts.counts)[chosen]
    gains = (result.leaf - result.raw)[chosen]
    n = int(chosen.sum())
    if n < _FEWEST:
        reason = f"{n} ancestor{'' if n == 1 else 's'} with an average precision, and it takes {_FEWEST}"
    elif np.ptp(gaps) < _SAME:
        reason = "the frequency gap is the same for all ancestors"
    elif np.ptp(gains) < _SAME:
        reason = "all ancestors gain the same"
    else:
        from scipy.stats import pearsonr, spearmanr

        linear, ranked = pearsonr(gaps, gains), spearmanr(gaps, gains)
        values = [float(value) for found in (linear, ranked) for value in (found.statistic, found.pvalue)]
        return Correlation(result.name, n, values[0], values[1], values[2], values[3])
    return Correlation(result.name, n, math.nan, math.nan, math.nan, math.nan, reason)


# -- the report -------------------------------------------------------------------------------------------------------


def frequency_report(
    counts: CaptionCounts, graph: LabelGraph, settings: dict[str, Any], results: Sequence[Granularity] = ()
) -> StudyReport:
    """Returns how often captions name the labels of each level, and how that goes with what ancestors gain.

    Args:
        counts: Captions that name each node.
        graph: The labels.
        settings: What is needed to run the study again.
        results: One a score matrix, if there are any.
    """
    from taxtune.studies.granularity.figure import draw_frequency

    found = [correlate(result, graph, counts) for result in results]
    stems = numbered("granularity-frequency", max(1, len(results)))
    drawn: list[tuple[Any, Any]] = list(zip(results, found, strict=True)) or [(None, None)]
    notes = _notes(counts, graph)
    for result, correlation in zip(results, found, strict=True):
        prefix = "" if len(results) == 1 else f"{result.name}: "
        left_out = int((result.ancestors & ~compared(result)).sum())
        if left_out:
            notes.append(
                f"{prefix}{left_out:,} ancestor{'' if left_out == 1 else 's'} left out of the correlation: an ancestor "
                "that every image shows cannot gain anything."
            )
        if correlation.undefined is not None:
            notes.append(f"{prefix}No correlation: {correlation.undefined}.")
    labels = _labels(counts, graph)
    record = {key: value for key, value in asdict(counts).items() if key not in ("counts", "inside")}
    return StudyReport(
        study="granularity",
        title="How often do captions name coarse labels compared with the fine labels below them?",
        settings=settings,
        tables=(
            _levels(counts, graph),
            *([_correlations(found)] if found else []),
            _gaps(labels, graph.tree, results),
        ),
        figures={stem: partial(draw_frequency, counts, graph, *one) for stem, one in zip(stems, drawn, strict=True)},
        notes=tuple(notes),
        data={"frequency": {**record, "correlations": [asdict(one) for one in found], "labels": labels}},
    )


def _labels(counts: CaptionCounts, graph: LabelGraph) -> list[dict[str, Any]]:
    taxonomy = graph.tree
    gaps, means = frequency_gaps(graph, counts.counts), mean_of_leaves(graph, counts.counts)
    return [
        {
            "path": "/".join(taxonomy.path(node)),
            "level": int(taxonomy.depth[node]),
            "kind": "leaf" if graph.is_leaf[node] else "ancestor",
            "captions": int(counts.counts[node]),
            "inside_longer_names": int(counts.inside[node]),
            "mean_of_leaves": float(means[node]),
            "gap": float(gaps[node]),
        }
        for node in range(len(taxonomy))
    ]


def _levels(counts: CaptionCounts, graph: LabelGraph) -> Table:
    taxonomy = graph.tree
    rows: list[tuple[Cell, ...]] = []
    for level in range(taxonomy.height + 1):
        here = np.flatnonzero(taxonomy.depth == level)
        own = counts.counts[here]
        shares = (float(own.mean()), float(np.median(own)), int(own.max()), 100 * float((own == 0).mean()))
        leaves = int(graph.is_leaf[here].sum())
        rows.append((level, len(here), leaves, *shares, float(counts.inside[here].mean())))
    columns = ("level", "labels", "leaves", "mean", "median", "most", "never named (%)", "inside longer names")
    return Table(
        "frequency-levels",
        f"How many of {counts.captions:,} captions name a label, by level, the root being level 0 "
        "(paper 3, Figure 4 left)",
        columns,
        tuple(rows),
        digits=dict.fromkeys(columns[3:], 1),
        notes=(
            "A caption counts once for a label if it contains one of the label's names as whole words, singular or "
            "plural; the senses of a name are not distinguished.",
            "Inside longer names: the mean number of captions in which a label's name occurs only inside a longer "
            "name on the tree (tiger in tiger shark); these do not count.",
        ),
    )


def _correlations(found: Sequence[Correlation]) -> Table:
    def shown(p: float) -> str | None:
        return None if math.isnan(p) else f"{p:.2g}"

    return Table(
        "frequency-correlation",
        "Frequency gap and gain by leaves over the ancestors (paper 3, Figure 4 right: 0.43, p = 3.4e-39)",
        ("scores", "n anc", "Pearson r", "p of r", "Spearman ρ", "p of ρ"),
        tuple(
            (one.scores, one.ancestors, one.pearson, shown(one.pearson_p), one.spearman, shown(one.spearman_p))
            for one in found
        ),
        notes=(
            "Frequency gap: log10(mean count of the leaves below + 1) − log10(own count + 1), our definition, since "
            "the paper gives no formula. Gain: Δ leaf.",
            "The p-values assume independent ancestors; nested ancestors share leaves, so the p-values are too small.",
        ),
    )


def _gaps(labels: Sequence[dict[str, Any]], taxonomy: Taxonomy, results: Sequence[Granularity]) -> Table:
    ordered = sorted(
        (node for node, label in enumerate(labels) if label["kind"] == "ancestor"),
        key=lambda node: float(-labels[node]["gap"]),
    )
    which, shown = "All ancestors", ordered
    if len(ordered) > 2 * _ENDS:
        which = f"The {_ENDS} ancestors at either end of {len(ordered):,}"
        shown = ordered[:_ENDS] + ordered[-_ENDS:]
    gains = {("Δ leaf" if len(results) == 1 else f"Δ leaf, {r.name}"): 100 * (r.leaf - r.raw) for r in results}
    kept = ("level", "captions", "mean_of_leaves", "gap")
    return Table(
        "frequency-gaps",
        f"{which} by frequency gap, the largest first",
        ("ancestor", "level", "captions", "mean of its leaves", "gap", *gains),
        tuple(
            (
                node_name(taxonomy, node),
                *(labels[node][key] for key in kept),
                *(float(gain[node]) for gain in gains.values()),
            )
            for node in shown
        ),
        digits={"mean of its leaves": 1, "gap": 2, **dict.fromkeys(gains, 2)},
        notes=("Positive: captions name the leaves below more often than the ancestor itself.",),
    )


def _notes(counts: CaptionCounts, graph: LabelGraph) -> list[str]:
    notes = [
        f"{counts.naming:,} of {counts.captions:,} captions name a label; "
        f"{int((counts.counts == 0).sum()):,} of {len(graph):,} labels are never named."
    ]
    if counts.empty:
        one = counts.empty == 1
        notes.append(f"{counts.empty:,} caption{'' if one else 's'} left out: {'it is' if one else 'they are'} empty.")
    if counts.shared_names:
        notes.append(
            f"{counts.shared_names:,} of {counts.names:,} names belong to several labels and count for each of them: "
            f"{counts.shared_labels:,} labels and {counts.captions_with_shared_names:,} captions are affected."
        )
    if counts.labels_without_words:
        notes.append(
            f"{counts.labels_without_words:,} labels have no name with a letter or digit, so no caption can name them "
            "and their count is 0."
        )
    return notes
