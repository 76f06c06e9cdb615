"""Does a model know coarse labels as well as the fine labels below them? Paper 3, §4, Table 2, Figures 2 and 3.

Every image is positive for its leaf and for all ancestors of it. Labels may form a graph in which they have several
parents, as WordNet's do, and ancestors are then those on any path; a tree is treated as the graph that it is. Every
label is a binary task of its own, scored by average precision. An ancestor's scores are those of its own name (raw),
the largest raw score of its direct children (eq. 2), or the largest score of a leaf below it (eq. 3); what the last two
gain over the first is the model's discrepancy Δ. The other forms of the study are in `classes` and `frequency`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taxtune.answers import AnswerTable, Excluded
from taxtune.answers.matching import excluded_records
from taxtune.errors import DataError
from taxtune.metrics.average_precision import average_precision, bootstrap_average_precision, resample_counts
from taxtune.metrics.statistics import Interval, percentiles
from taxtune.report.output import Cell, StudyReport, Table, intervals_table, numbered
from taxtune.studies.embedding import (
    distinct_names,
    embed_labels,
    label_texts,
    make_clip,
    make_encoder,
    read_images,
    read_label_prompts,
    shown_name,
)
from taxtune.studies.granularity import GranularitySettings
from taxtune.studies.granularity.captions import CaptionCounts, count_captions, read_captions
from taxtune.studies.granularity.classes import (
    Grouping,
    coarse_cut,
    language_chat,
    language_only,
    language_report,
    two_level,
    two_level_report,
)
from taxtune.studies.granularity.figure import draw_levels
from taxtune.studies.granularity.frequency import frequency_report
from taxtune.studies.granularity.scores import (
    ScoreMatrix,
    at_leaves,
    check_targets,
    matched,
    read_scores,
    write_scores,
)
from taxtune.taxonomy import Domain, Taxonomy
from taxtune.taxonomy.label_graph import LabelGraph, read_label_graph
from taxtune.taxonomy.names import attach_english_names

__all__ = [
    "QUANTITIES",
    "Granularity",
    "from_children",
    "from_leaves",
    "granularity",
    "hierarchy",
    "hierarchy_report",
    "positives",
]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Scores = NDArray[np.floating]

#: What is estimated, as paper 3, Table 2, names it.
QUANTITIES = ("Leaves", "Anc raw", "Anc child", "Δ child", "Anc leaf", "Δ leaf")
_CONFIDENCE = 0.95
# Average precisions that differ by less are equal: the same ranks summed in another order.
_TIE = 1e-9


def granularity(settings: GranularitySettings) -> StudyReport:
    """Runs the form that is asked for and returns its report; see `taxtune.studies.granularity.run`."""
    graph, part = _read_labels(settings)
    taxonomy = graph.tree
    if len(graph.leaves) < 2:
        file = settings.record()["taxonomy"]
        raise DataError("The taxonomy needs at least two leaves.", file=file, value=len(graph.leaves))
    record = settings.record()
    grouping = None
    if settings.form in ("two-level", "language"):
        grouping = coarse_cut(taxonomy, level=settings.coarse_level, labels=settings.coarse)
        if settings.form == "language":
            return _language(settings, taxonomy, grouping, record)
    # What is wrong with a file or a setting is said before a model is asked about every image.
    counts = _count_captions(settings, taxonomy, part) if settings.captions else None
    if settings.form == "frequency":
        assert counts is not None
        return frequency_report(counts, graph, record)
    answers = _read_answers(settings, graph, part)
    matrices = _matrices(settings, graph, part, answers)
    drawn: dict[str, Any] = {"resamples": settings.resamples, "seed": settings.seed}
    if grouping is not None:
        results = [two_level(matrix, taxonomy, grouping, **drawn) for matrix in matrices]
        report = two_level_report(results, taxonomy, grouping, record)
    else:
        found = []
        for matrix in matrices:
            found.append(hierarchy(matrix, graph, trivial=settings.trivial, **drawn))
        report = hierarchy_report(found, graph, record)
        if counts is not None:
            more = frequency_report(counts, graph, record, found)
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


# -- where scores are from --------------------------------------------------------------------------------------------


def _read_labels(settings: GranularitySettings) -> tuple[LabelGraph, Domain | None]:
    """Returns the labels, and what a tree of them is a part of, or None where it is the whole taxonomy."""
    if settings.graph:
        graph = read_label_graph(settings.taxonomy, settings.format)
        return (replace(graph, tree=attach_english_names(graph.tree)) if settings.names else graph), None
    taxonomy, part = settings.read_tree(names=settings.names)
    return LabelGraph.of(taxonomy), part


def _count_captions(settings: GranularitySettings, taxonomy: Taxonomy, part: Domain | None) -> CaptionCounts:
    read = (read_captions(path, column=settings.caption_column) for path in settings.captions)
    captions = itertools.chain.from_iterable(read)
    return count_captions(captions, taxonomy, part, source=", ".join(map(str, settings.captions)))


def _read_answers(settings: GranularitySettings, graph: LabelGraph, part: Domain | None) -> AnswerTable | None:
    """Returns the answers that can be embedded: an empty text has no direction."""
    if settings.answers is None:
        return None
    answers = settings.read_answers(settings.answers, graph.tree, part)
    empty = [row for row in answers.rows if not (row.answer or "").strip()]
    if len(empty) == len(answers.rows):
        raise DataError("All answers are empty.", file=answers.file)
    if empty:
        note = f"{len(empty):,} of {len(answers.rows):,} rows are left out: their text is empty"
        answers = replace(
            answers,
            rows=tuple(row for row in answers.rows if (row.answer or "").strip()),
            excluded=answers.excluded + tuple(Excluded(row.row, row.id, "the answer is empty") for row in empty),
            notes=(*answers.notes, f"{answers.file}: {note}"),
        )
    check_targets(np.array([row.target for row in answers.rows]), graph, answers.file)
    return answers


def _matrices(
    settings: GranularitySettings, graph: LabelGraph, part: Domain | None, answers: AnswerTable | None
) -> list[ScoreMatrix]:
    """Returns the scores of every file and model, under names that tell them apart."""
    taxonomy = graph.tree
    matrices = [read_scores(path, taxonomy, part) for path in settings.scores]
    if settings.model:
        score = _score_images(settings, graph, part) if answers is None else _score_texts(settings, taxonomy, answers)
        matrices += map(score, settings.model)
    if settings.save_scores is not None:
        write_scores(settings.save_scores, matrices[-1], taxonomy)
    names = distinct_names([matrix.name for matrix in matrices])
    return [replace(matrix, name=name) for matrix, name in zip(matrices, names, strict=True)]


def _score_texts(
    settings: GranularitySettings, taxonomy: Taxonomy, answers: AnswerTable
) -> Callable[[str], ScoreMatrix]:
    templates = read_label_prompts(settings.templates or "label")
    names = label_texts(taxonomy, settings.label_names)
    row = {text: i for i, text in enumerate(dict.fromkeys(one.answer or "" for one in answers.rows))}

    def score(spec: str) -> ScoreMatrix:
        encoder = make_encoder(spec, settings)
        labels = embed_labels(encoder, templates, names)
        texts = encoder.texts(list(row))[[row[one.answer or ""] for one in answers.rows]]
        ids, targets = [one.id for one in answers.rows], [one.target for one in answers.rows]
        matrix = matched(encoder, ids, targets, texts, labels, "texts")
        return replace(matrix, notes=(*answers.notes, *matrix.notes))

    return score


def _score_images(
    settings: GranularitySettings, graph: LabelGraph, part: Domain | None
) -> Callable[[str], ScoreMatrix]:
    """Embeddings of images are kept on disk by content."""
    from taxtune.encoders.vectors import stored_images

    assert settings.data is not None
    path = settings.data
    templates = read_label_prompts(settings.templates or "photos")
    names = label_texts(graph.tree, settings.label_names)
    read: list[Any] = []

    def score(spec: str) -> ScoreMatrix:
        encoder = make_clip(spec, settings)
        if not read:  # a model is loaded in less time than many images are checked: what it lacks is said first
            read.extend(read_images(path, graph.tree, part, settings.images))
            check_targets(np.array([one.target for one in read]), graph, str(path))
        labels = embed_labels(encoder, templates, names)
        hashes = [one.sha256 or "" for one in read]
        images = stored_images(encoder, [one.image for one in read], sha256=hashes)
        return matched(encoder, [one.id for one in read], [one.target for one in read], images, labels, "images")

    return score


def _language(
    settings: GranularitySettings, taxonomy: Taxonomy, grouping: Grouping, record: dict[str, Any]
) -> StudyReport:
    """Returns how encoders and chat models sort fine names into coarse classes."""
    names, templates = label_texts(taxonomy, settings.label_names), read_label_prompts(settings.templates or "label")
    drawn: dict[str, Any] = {"resamples": settings.resamples, "seed": settings.seed}
    found = []
    for spec in settings.model:
        if not spec.startswith("llm:"):
            found.append(language_only(make_encoder(spec, settings), names, grouping, templates, **drawn))
            continue
        from taxtune.models import ModelSettings, check_model, make_model, open_replies

        shared = {name: getattr(settings, name) for name in ("api_base", "concurrency", "device")}
        llm = make_model(spec.removeprefix("llm:"), ModelSettings(task="text-generation", **shared, max_tokens=64))
        check_model(llm)
        with open_replies(settings.cache_dir) as store:
            found.append(language_chat(llm, shown_name(spec), names, grouping, store=store, **drawn))
    return language_report(found, taxonomy, grouping, names, record)


# -- average precision by level ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Granularity:
    """Average precisions of every label of one score matrix.

    Attributes:
        name: Where the scores are from.
        images: How many images were ranked.
        raw: Average precision of each node by the scores of its own name, shape (nodes,); NaN where no image shows it.
        child: The same with the scores of ancestors taken from their direct children.
        leaf: The same with the scores of ancestors taken from the leaves below them.
        shown: How many images show each node, shape (nodes,).
        leaves: Which nodes are leaves and enter the mean, shape (nodes,).
        ancestors: Which nodes are ancestors and enter the mean, shape (nodes,).
        intervals: The means and gaps, in 0..1, with bootstrap intervals over the images, by `QUANTITIES`.
        notes: Stated, counted exclusions.
    """

    name: str
    images: int
    raw: FloatArray
    child: FloatArray
    leaf: FloatArray
    shown: NDArray[np.int64]
    leaves: BoolArray
    ancestors: BoolArray
    intervals: dict[str, Interval]
    notes: tuple[str, ...]


def hierarchy(
    matrix: ScoreMatrix,
    graph: LabelGraph,
    *,
    trivial: str = "keep",
    resamples: int = 500,
    seed: int = 0,
) -> Granularity:
    """Returns the average precisions of all labels, and their means over leaves and ancestors.

    Args:
        matrix: The scores; images whose label is not a leaf are left out and counted.
        graph: The labels; `LabelGraph.of` makes it of a tree.
        trivial: "keep" or "leave-out": what becomes of ancestors that every image shows, such as the root, whose
            average precision is 1 for any scores. The paper keeps its level 0.
        resamples: Bootstrap resamples of the images; 0 for no intervals.
        seed: Seed of the resampling.

    Raises:
        DataError: If no image shows a leaf, or all show the same.
    """
    matrix = at_leaves(matrix, graph)
    truth = positives(graph, matrix.targets)
    shown = truth.sum(axis=0)
    is_leaf = graph.is_leaf
    everywhere = shown == len(matrix.targets)
    defined = shown > 0
    leaves = is_leaf & defined
    ancestors = ~is_leaf & defined
    if trivial == "leave-out":
        ancestors &= ~everywhere

    sources = {
        "raw": matrix.scores,
        "child": from_children(matrix.scores, graph),
        "leaf": from_leaves(matrix.scores, graph),
    }
    found: dict[str, FloatArray] = {}
    for kind, scores in sources.items():
        wanted = defined if kind == "raw" else defined & ~is_leaf
        values = np.full(len(graph), np.nan)
        values[wanted] = average_precision(scores[:, wanted], truth[:, wanted])
        # A leaf has nothing below it: its scores are its own by every rule.
        found[kind] = values if kind == "raw" else np.where(is_leaf, found["raw"], values)

    estimate = _quantities(
        found["raw"][leaves], *(found[kind][ancestors] for kind in ("raw", "child", "leaf")), axis=None
    )
    low = high = np.full(len(QUANTITIES), np.nan)
    if resamples:
        counts = resample_counts(len(matrix.targets), resamples, seed)
        drawn = [
            bootstrap_average_precision(scores[:, nodes], truth[:, nodes], counts)
            for scores, nodes in [(matrix.scores, leaves), *((sources[kind], ancestors) for kind in sources)]
        ]
        resampled = _quantities(*drawn, axis=0)
        # Resamples hold fewer different images, which shifts them a little: their spread is taken about the estimate.
        # Where no ancestor is left, as in a flat tree without its root, there is nothing to spread.
        some = np.isfinite(resampled).any(axis=1)
        resampled[some] += (estimate[some] - np.nanmean(resampled[some], axis=1))[:, np.newaxis]
        low, high = np.array([percentiles(row, _CONFIDENCE) for row in resampled]).T
    intervals = {name: Interval(float(estimate[i]), float(low[i]), float(high[i])) for i, name in enumerate(QUANTITIES)}
    notes = (*matrix.notes, *_notes(matrix, graph, shown, trivial))
    return Granularity(
        matrix.name,
        len(matrix.targets),
        found["raw"],
        found["child"],
        found["leaf"],
        shown,
        leaves,
        ancestors,
        intervals,
        notes,
    )


def _notes(matrix: ScoreMatrix, graph: LabelGraph, shown: NDArray[np.int64], trivial: str) -> Iterator[str]:
    """Yields what a reader must know of labels of which there is no ranking, or only one."""
    everywhere, defined = shown == len(matrix.targets), shown > 0
    everywhere[graph.leaves] = False
    level = defined & ~everywhere & (matrix.scores.max(axis=0) == matrix.scores.min(axis=0))

    def named(nodes: BoolArray) -> str:
        names = [graph.tree.labels[i] for i in np.flatnonzero(nodes).tolist()]
        return ", ".join(names[:5]) + (" …" if len(names) > 5 else "")

    if not defined.all():
        yield (
            f"{int((~defined).sum()):,} of {len(graph):,} labels left out of the means: no image shows them, so "
            "their average precision is undefined. Their scores are still propagated."
        )
    if level.any():
        yield (
            f"{int(level.sum()):,} of {int(defined.sum()):,} labels have the same score for all images "
            f"({named(level)}): this gives no ranking, and their average precision is the share of images that show "
            f"them."
        )
    if everywhere.any():
        n = int(everywhere.sum())
        kept = "kept in the means, as in the paper" if trivial == "keep" else "left out of the means"
        yield (
            f"{n} ancestor{'s' if n > 1 else ''} that every image shows ({named(everywhere)}): average precision is "
            f"1 for any scores; {kept}."
        )


def _quantities(
    leaves: FloatArray, raw: FloatArray, child: FloatArray, leaf: FloatArray, *, axis: int | None
) -> FloatArray:
    """Returns the six quantities of Table 2; a label that a resample does not show is left out of its means."""
    of_leaves, of_raw, of_child, of_leaf = (_mean(values, axis) for values in (leaves, raw, child, leaf))
    return np.stack([of_leaves, of_raw, of_child, of_child - of_raw, of_leaf, of_leaf - of_raw])


def _mean(values: FloatArray, axis: int | None) -> FloatArray:
    there = np.isfinite(values)
    count = there.sum(axis=axis)
    total = np.where(there, values, 0.0).sum(axis=axis)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan), dtype=np.float64)


def from_children(scores: Scores, graph: LabelGraph) -> Scores:
    """Returns the scores with every ancestor's replaced by the largest *raw* score of its direct children (eq. 2).

    Args:
        scores: Raw scores, shape (images, nodes): column v is node v; leaves keep theirs.
        graph: The labels.
    """
    return _raised(scores, scores.copy(), graph)


def from_leaves(scores: Scores, graph: LabelGraph) -> Scores:
    """Returns the scores with every ancestor's replaced by the largest score of a leaf below it (eq. 3).

    The paper writes it as a recursion over the children; its solution is the maximum over all leaves below, on whatever
    path.

    Args:
        scores: Raw scores, shape (images, nodes): column v is node v; leaves keep theirs.
        graph: The labels.
    """
    result = scores.copy()
    # The edges go from the bottom up: a child is final before it is passed to a parent.
    return _raised(result, result, graph)


def positives(graph: LabelGraph, targets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Returns which labels each image shows: its own node and every node above it; shape (images, nodes)."""
    return np.asarray(graph.above[targets].toarray(), dtype=bool)


def _raised(source: Scores, result: Scores, graph: LabelGraph) -> Scores:
    """Writes to each parent's column of `result` the maximum over its children's columns of `source`."""
    begun = np.zeros(len(graph), dtype=bool)
    for child, parent in zip(graph.child.tolist(), graph.parent.tolist(), strict=True):
        column = source[:, child]
        result[:, parent] = np.maximum(result[:, parent], column) if begun[parent] else column
        begun[parent] = True
    return result


# -- the report of the levels -----------------------------------------------------------------------------------------


def hierarchy_report(results: Sequence[Granularity], graph: LabelGraph, settings: dict[str, Any]) -> StudyReport:
    """Returns the tables, figures and numbers of the study.

    Args:
        results: One a score matrix, at least one.
        graph: The labels.
        settings: What is needed to run the study again.
    """
    stems = numbered("granularity-levels", len(results))
    notes = tuple(
        dict.fromkeys(
            note if len(results) == 1 else f"{result.name}: {note}" for result in results for note in result.notes
        )
    )
    return StudyReport(
        study="granularity",
        title="Does a model know coarse labels as well as the fine labels below them?",
        settings=settings,
        tables=(_summary(results), _intervals(results, settings), _levels(results, graph.tree)),
        figures={stem: partial(draw_levels, result, graph.tree) for stem, result in zip(stems, results, strict=True)},
        notes=notes,
        data={"labels": {result.name: _labels(result, graph) for result in results}},
    )


def _summary(results: Sequence[Granularity]) -> Table:
    columns = ("scores", "images", "n leaves", "n anc", *QUANTITIES, "improved")
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        gain = (result.leaf - result.raw)[result.ancestors]
        rows.append(
            (
                result.name,
                result.images,
                int(result.leaves.sum()),
                int(result.ancestors.sum()),
                *(100 * result.intervals[name].estimate for name in QUANTITIES),
                int((gain > _TIE).sum()),
            )
        )
    return Table(
        "granularity",
        "Mean average precision of leaves and of ancestors, in % (paper 3, Table 2)",
        columns,
        tuple(rows),
        digits=dict.fromkeys(QUANTITIES, 2),
        notes=(
            "Anc raw: an ancestor scored by its own name; Anc child: by its best direct child (eq. 2); Anc leaf: by "
            "the best leaf below it (eq. 3); Δ: gain over raw.",
            "Improved: ancestors whose average precision rises when they are scored by the leaves.",
        ),
    )


def _intervals(results: Sequence[Granularity], settings: dict[str, Any]) -> Table:
    return intervals_table(
        ("scores", "quantity"),
        (((result.name, name), found) for result in results for name, found in result.intervals.items()),
        f"Bootstrap over the images, {settings.get('resamples', 0):,} resamples, percentiles shifted so that the "
        "mean of the resamples equals the estimate; gaps are paired. A label absent from a resample is left out of "
        "that resample's mean.",
    )


def _levels(results: Sequence[Granularity], taxonomy: Taxonomy) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        for level in range(taxonomy.height + 1):
            here = taxonomy.depth == level
            leaves, ancestors = result.leaves & here, result.ancestors & here
            if not (leaves.any() or ancestors.any()):
                continue
            raw, child, leaf = (values[ancestors] for values in (result.raw, result.child, result.leaf))
            means = [100 * float(_mean(values, None)) for values in (result.raw[leaves], raw, child, leaf, leaf - raw)]
            improved = int((leaf - raw > _TIE).sum())
            rows.append((result.name, level, int(leaves.sum()), means[0], int(ancestors.sum()), *means[1:], improved))
    columns = ("scores", "level", "n leaves", "Leaves", "n anc", "Anc raw", "Anc child", "Anc leaf", "Δ leaf")
    return Table(
        "levels",
        "The same by level, the root being level 0 (paper 3, Figure 3)",
        (*columns, "improved"),
        tuple(rows),
        digits=dict.fromkeys(columns[3:], 2),
    )


def _labels(result: Granularity, graph: LabelGraph) -> list[dict[str, Any]]:
    taxonomy = graph.tree
    return [
        {
            "path": "/".join(taxonomy.path(node)),
            "level": int(taxonomy.depth[node]),
            "kind": "leaf" if graph.is_leaf[node] else "ancestor",
            "images": int(result.shown[node]),
            "in_mean": bool(result.leaves[node] or result.ancestors[node]),
            "raw": float(result.raw[node]),
            "child": float(result.child[node]),
            "leaf": float(result.leaf[node]),
        }
        for node in range(len(taxonomy))
    ]
