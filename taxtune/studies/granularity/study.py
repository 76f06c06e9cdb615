"""Does a model know coarse labels as well as the fine labels below them? Paper 3, §4, Table 2, Figures 2 and 3.

Every image is positive for its leaf and for all ancestors of it, in a graph of labels those on any path. Every label is
a binary task of its own, scored by average precision. An ancestor's scores are those of its own name (raw), the largest
raw score of its direct children (eq. 2), or the largest score of a leaf below it (eq. 3); what the last two gain over
the first is the model's discrepancy Δ. All tables and figures come from one frame with a row per label. The other forms
of the study are in `classes` and `frequency`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taxtune.answers import AnswerTable, Excluded
from taxtune.answers.matching import excluded_records
from taxtune.errors import DataError
from taxtune.metrics.average_precision import average_precision, bootstrap_average_precision, resample_counts
from taxtune.metrics.statistics import Interval, percentiles
from taxtune.report.output import StudyReport, intervals_table, numbered
from taxtune.studies.granularity.classes import coarse_cut, language_report, two_level, two_level_report
from taxtune.studies.granularity.frequency import count_captions, frequency_report, read_captions
from taxtune.studies.granularity.scores import ScoreMatrix, all_scores, at_leaves, check_targets, label_frame
from taxtune.studies.granularity.settings import GranularitySettings
from taxtune.studies.output import frame_table
from taxtune.taxonomy import Domain
from taxtune.taxonomy.label_graph import LabelGraph, read_label_graph
from taxtune.taxonomy.names import attach_english_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["QUANTITIES", "Granularity", "from_children", "from_leaves", "granularity", "hierarchy", "hierarchy_report"]

FloatArray = NDArray[np.float64]
Scores = NDArray[np.floating]

#: What is estimated, as paper 3, Table 2, names it.
QUANTITIES = ("Leaves", "Anc raw", "Anc child", "Δ child", "Anc leaf", "Δ leaf")
# Average precisions that differ by less are equal: the same ranks summed in another order.
_TIE = 1e-9


def granularity(settings: GranularitySettings) -> StudyReport:
    """Runs the chosen form and returns its report; see `taxtune.studies.granularity.run`."""
    if settings.graph:
        graph, part = read_label_graph(settings.taxonomy, settings.format), None
        graph = replace(graph, tree=attach_english_names(graph.tree)) if settings.names else graph
    else:
        taxonomy, part = settings.read_tree(names=settings.names)
        graph = LabelGraph.of(taxonomy)
    taxonomy, record = graph.tree, settings.record()
    if len(graph.leaves) < 2:
        raise DataError("The taxonomy needs at least two leaves.", file=record["taxonomy"], value=len(graph.leaves))
    grouping = None
    if settings.form in ("two-level", "language"):
        grouping = coarse_cut(taxonomy, level=settings.coarse_level, labels=settings.coarse)
        if settings.form == "language":
            return language_report(settings, taxonomy, grouping)
    # What is wrong with a file or a setting is said before a model is asked about every image.
    counts = None
    if settings.captions:
        captions = [text for path in settings.captions for text in read_captions(path, column=settings.caption_column)]
        counts = count_captions(captions, graph, part, source=", ".join(map(str, settings.captions)))
        if settings.form == "frequency":
            return frequency_report(counts, graph, record)
    answers = None if settings.answers is None else _read_answers(settings, settings.answers, graph, part)
    matrices = all_scores(settings, graph, part, answers)
    if grouping is not None:
        report = two_level_report([two_level(matrix, graph, grouping) for matrix in matrices], grouping, settings)
    else:
        how: dict[str, Any] = {key: getattr(settings, key) for key in ("trivial", "resamples", "seed")}
        results = [hierarchy(matrix, graph, **how) for matrix in matrices]
        report = hierarchy_report(results, record)
        if counts is not None:
            more = frequency_report(counts, graph, record, results)
            report = replace(
                report,
                tables=report.tables + more.tables,
                figures={**report.figures, **more.figures},
                notes=report.notes + more.notes,
                data={**report.data, **more.data},
            )
    if answers is None:
        return report
    return replace(report, data={**report.data, "excluded": excluded_records([answers])})


def _read_answers(settings: GranularitySettings, path: str, graph: LabelGraph, part: Domain | None) -> AnswerTable:
    """Returns the answers that can be embedded: an empty text has no direction."""
    answers = settings.read_answers(path, graph.tree, part)
    kept = tuple(row for row in answers.rows if (row.answer or "").strip())
    empty = tuple(
        Excluded(row.row, row.id, "the answer is empty") for row in answers.rows if not (row.answer or "").strip()
    )
    if not kept:
        raise DataError("All answers are empty.", file=answers.file)
    check_targets(np.array([row.target for row in kept]), graph, answers.file)
    if not empty:
        return answers
    note = f"{answers.file}: {len(empty):,} of {len(answers.rows):,} rows are left out: their text is empty"
    return replace(answers, rows=kept, excluded=answers.excluded + empty, notes=(*answers.notes, note))


# -- average precision ------------------------------------------------------------------------------------------------


class Granularity(NamedTuple):
    """Average precisions of every label of one score matrix.

    Attributes:
        name: Where the scores are from.
        images: Number of images that are ranked.
        labels: A row per node: path, level, kind ("leaf" or "ancestor"), images (that show it), in_mean (whether it
            enters the means), and the average precision in 0..1 by the scores of its own name (raw), of its direct
            children (child) and of the leaves below it (leaf); NaN where no image shows it.
        intervals: The means and gaps, in 0..1, with 95 % bootstrap intervals over the images, by `QUANTITIES`.
        notes: Stated, counted exclusions.
    """

    name: str
    images: int
    labels: pd.DataFrame
    intervals: dict[str, Interval]
    notes: list[str]

    def averaged(self, kind: str) -> pd.DataFrame:
        """Returns the rows of a kind that enter the means, with `gain`, by how much the leaves exceed the own name."""
        some = self.labels[self.labels["in_mean"] & (self.labels["kind"] == kind)]
        return some.assign(gain=some["leaf"] - some["raw"])


def hierarchy(
    matrix: ScoreMatrix, graph: LabelGraph, *, trivial: str = "keep", resamples: int = 500, seed: int = 0
) -> Granularity:
    """Returns the average precisions of all labels, and their means over leaves and ancestors.

    Args:
        matrix: The scores; images whose label is not a leaf are left out and counted.
        graph: The labels; `LabelGraph.of` makes it of a tree.
        trivial: "keep" or "leave-out" ancestors that every image shows, such as the root, whose average precision is 1
            for any scores. The paper keeps its level 0.
        resamples: Bootstrap resamples of the images; 0 for no intervals.
        seed: Seed of the resampling.

    Raises:
        DataError: If no image shows a leaf, or all show the same.
    """
    matrix = at_leaves(matrix, graph)
    truth = np.asarray(graph.above[matrix.targets].toarray(), dtype=bool)
    is_leaf, shown, everywhere = graph.is_leaf, truth.any(axis=0), truth.all(axis=0)
    labels = label_frame(graph).assign(images=truth.sum(axis=0))
    labels["in_mean"] = np.asarray(shown if trivial == "keep" else shown & ~everywhere)
    sources = {
        "raw": matrix.scores,
        "child": from_children(matrix.scores, graph),
        "leaf": from_leaves(matrix.scores, graph),
    }
    for rule, scores in sources.items():
        wanted = shown if rule == "raw" else shown & ~is_leaf
        values = np.full(len(graph), np.nan)
        values[wanted] = average_precision(scores[:, wanted], truth[:, wanted])
        # A leaf has nothing below it: its scores are its own by every rule.
        labels[rule] = values if rule == "raw" else np.where(is_leaf, labels["raw"], values)
    averaged = [("raw", is_leaf & labels["in_mean"]), *((rule, ~is_leaf & labels["in_mean"]) for rule in sources)]
    estimate = _quantities([labels.loc[nodes, [rule]].to_numpy() for rule, nodes in averaged])[:, 0]
    ends = np.full((len(QUANTITIES), 2), np.nan)
    if resamples:
        counts = resample_counts(len(matrix.targets), resamples, seed)
        drawn = _quantities(
            [bootstrap_average_precision(sources[rule][:, some], truth[:, some], counts) for rule, some in averaged]
        )
        # Resamples hold fewer different images, which shifts them a little: their spread is taken about the estimate.
        # Where no ancestor is left, as in a flat tree without its root, there is nothing to spread.
        some = np.isfinite(drawn).any(axis=1)
        drawn[some] += (estimate[some] - np.nanmean(drawn[some], axis=1))[:, np.newaxis]
        ends = np.array([percentiles(row) for row in drawn])
    intervals = {name: Interval(float(estimate[i]), *ends[i].tolist()) for i, name in enumerate(QUANTITIES)}
    notes = [*matrix.notes, *_notes(matrix, labels, graph, trivial)]
    return Granularity(matrix.name, len(matrix.targets), labels, intervals, notes)


def _quantities(values: Sequence[FloatArray]) -> FloatArray:
    """Returns the six quantities of Table 2, shape (6, resamples), as means over the labels that a resample shows.

    Args:
        values: Of leaves, and of ancestors by the three rules; each of shape (labels, resamples).
    """
    means = []
    for some in values:
        there = np.isfinite(some)
        count = there.sum(axis=0)
        means.append(np.where(count > 0, np.where(there, some, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan))
    leaves, raw, child, leaf = means
    return np.stack([leaves, raw, child, child - raw, leaf, leaf - raw])


def _notes(matrix: ScoreMatrix, labels: pd.DataFrame, graph: LabelGraph, trivial: str) -> Iterator[str]:
    """Yields what a reader must know of labels of which there is no ranking, or only one."""
    shown, everywhere = labels["images"] > 0, (labels["images"] == len(matrix.targets)) & ~graph.is_leaf
    level = shown & ~everywhere & (matrix.scores.max(axis=0) == matrix.scores.min(axis=0))

    def named(nodes: pd.Series) -> str:
        names = [graph.tree.labels[i] for i in labels.index[nodes]]
        return ", ".join(names[:5]) + (" …" if len(names) > 5 else "")

    if not shown.all():
        yield (
            f"{(~shown).sum():,} of {len(labels):,} labels left out of the means: no image shows them. Their scores "
            "are still propagated."
        )
    if level.any():
        yield (
            f"{level.sum():,} of {shown.sum():,} labels have the same score for all images ({named(level)}): their "
            "average precision is the share of images that show them."
        )
    if everywhere.any():
        kept = "kept in the means, as in the paper" if trivial == "keep" else "left out of the means"
        yield (
            f"Ancestors that every image shows ({named(everywhere)}): average precision is 1 for any scores; {kept}."
        )


def from_children(scores: Scores, graph: LabelGraph) -> Scores:
    """Returns the scores with every ancestor's replaced by the largest *raw* score of its direct children (eq. 2).

    Args:
        scores: Raw scores, shape (images, nodes): column v is node v; leaves keep theirs.
        graph: The labels.
    """
    return _raised(scores, scores.copy(), graph)


def from_leaves(scores: Scores, graph: LabelGraph) -> Scores:
    """Returns the scores with every ancestor's replaced by the largest score of a leaf below it on any path (eq. 3).

    Args:
        scores: Raw scores, shape (images, nodes): column v is node v; leaves keep theirs.
        graph: The labels.
    """
    result = scores.copy()
    # The edges go from the bottom up: a child is final before it is passed to a parent.
    return _raised(result, result, graph)


def _raised(source: Scores, result: Scores, graph: LabelGraph) -> Scores:
    """Sets each ancestor's column of `result` to the maximum over its children's columns of `source`."""
    begun = np.zeros(len(graph), dtype=bool)
    for child, parent in zip(graph.child.tolist(), graph.parent.tolist(), strict=True):
        column = source[:, child]
        result[:, parent] = np.maximum(result[:, parent], column) if begun[parent] else column
        begun[parent] = True
    return result


# -- the report -------------------------------------------------------------------------------------------------------


def hierarchy_report(results: Sequence[Granularity], settings: dict[str, Any]) -> StudyReport:
    """Returns the tables, figures and numbers of one or more score matrices.

    Args:
        results: One per score matrix, at least one.
        settings: What is needed to run the study again.
    """
    summary, levels = [], []
    for result in results:
        leaves, ancestors = result.averaged("leaf"), result.averaged("ancestor")
        cells = {"scores": result.name, "images": result.images, "n leaves": len(leaves), "n anc": len(ancestors)}
        means = {name: 100 * result.intervals[name].estimate for name in QUANTITIES}
        summary.append({**cells, **means, "improved": int((ancestors["gain"] > _TIE).sum())})
        for level in sorted({*leaves["level"], *ancestors["level"]}):
            fine, coarse = leaves[leaves["level"] == level], ancestors[ancestors["level"] == level]
            cells = {"scores": result.name, "level": level, "n leaves": len(fine), "Leaves": 100 * fine["raw"].mean()}
            rules = {"Anc raw": "raw", "Anc child": "child", "Anc leaf": "leaf", "Δ leaf": "gain"}
            means = {name: 100 * coarse[column].mean() for name, column in rules.items()}
            levels.append({**cells, "n anc": len(coarse), **means, "improved": int((coarse["gain"] > _TIE).sum())})
    digits = dict.fromkeys(QUANTITIES, 2)
    intervals = [((r.name, name), interval) for r in results for name, interval in r.intervals.items()]
    stems = numbered("granularity-levels", len(results))
    return StudyReport(
        study="granularity",
        title="Does a model know coarse labels as well as the fine labels below them?",
        settings=settings,
        tables=(
            frame_table(
                "granularity",
                "Mean average precision of leaves and of ancestors, in % (paper 3, Table 2)",
                pd.DataFrame(summary),
                "Anc raw: an ancestor scored by its own name; Anc child: by its best direct child (eq. 2); Anc leaf: "
                "by the best leaf below it (eq. 3); Δ: gain over raw.",
                "Improved: ancestors whose average precision rises when they are scored by the leaves.",
                digits=digits,
            ),
            intervals_table(
                ("scores", "quantity"),
                intervals,
                f"Bootstrap over the images, {settings.get('resamples', 0):,} resamples, percentiles shifted so that "
                "the mean of the resamples equals the estimate; gaps are paired. A label absent from a resample is "
                "left out of that resample's mean.",
            ),
            frame_table(
                "levels",
                "The same by level, the root being level 0 (paper 3, Figure 3)",
                pd.DataFrame(levels),
                digits=digits,
            ),
        ),
        figures={stem: partial(draw_levels, result) for stem, result in zip(stems, results, strict=True)},
        notes=tuple(dict.fromkeys(n if len(results) == 1 else f"{r.name}: {n}" for r in results for n in r.notes)),
        data={"labels": {result.name: result.labels.to_dict("records") for result in results}},
    )


def draw_levels(result: Granularity) -> Figure:
    """Draws average precision over the level in the tree: leaves, ancestors, and what ancestors gain by the leaves."""
    from matplotlib.figure import Figure

    from taxtune.report.drawing import CYCLE, GREY

    figure = Figure(figsize=(10.5, 3.5), layout="constrained")
    panels = figure.subplots(1, 3)
    leaves, ancestors = result.averaged("leaf"), result.averaged("ancestor")
    _boxes(panels[0], leaves, "raw", CYCLE[0], "Leaves")
    _boxes(panels[1], ancestors, "raw", CYCLE[1], "Ancestors, own name")
    _boxes(panels[2], ancestors, "gain", CYCLE[2], "Ancestors, gain by leaves")
    for panel in panels[:2]:
        panel.set(ylim=(-3, 103), ylabel="average precision (%)")
    panels[2].axhline(0, color=GREY, linewidth=0.8, zorder=0)
    panels[2].set_ylabel("gain in average precision (points)")
    return figure


def _boxes(axes: Axes, labels: pd.DataFrame, column: str, colour: str, title: str) -> None:
    from taxtune.report.drawing import FAINT, GREY, INK

    axes.set_title(title, loc="left", fontsize=10)
    if labels.empty:
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", color=GREY)
        axes.set_xticks([])
        return
    levels = sorted(set(labels["level"].tolist()))
    groups = [100 * labels.loc[labels["level"] == level, column].to_numpy() for level in levels]
    line = {"color": INK, "linewidth": 0.9}  # copied for each part: matplotlib adds to what it is given
    boxes = axes.boxplot(
        groups,
        positions=levels,
        widths=0.62,
        patch_artist=True,
        medianprops={"color": INK, "linewidth": 1.6},
        whiskerprops=dict(line),
        capprops=dict(line),
        boxprops=dict(line),
        flierprops={"marker": "o", "markersize": 2.5, "markerfacecolor": "none", "markeredgecolor": GREY},
    )
    for box in boxes["boxes"]:
        box.set(facecolor=colour, alpha=0.75)
    # Of a deep tree the numbers of labels would run into each other; the table of levels has them.
    few = len(levels) <= 10
    axes.set_xticks(
        levels, [f"{level}\n({len(group)})" if few else f"{level}" for level, group in zip(levels, groups, strict=True)]
    )
    axes.set_xlabel("level in the tree (labels)" if few else "level in the tree")
    axes.tick_params(axis="x", labelsize=8)
    axes.set_xlim(levels[0] - 0.7, levels[-1] + 0.7)
    axes.grid(axis="y", color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)
