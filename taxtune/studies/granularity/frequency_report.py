"""Tables, figures and numbers of how often captions name the labels of a tree (paper 3, Figure 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from taxtune.studies.granularity.caption_counts import CaptionCounts
from taxtune.studies.granularity.frequency import Correlation, compared, correlate, frequency_gaps, mean_of_leaves
from taxtune.studies.granularity.study import Granularity
from taxtune.studies.output import Cell, StudyReport, Table
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["frequency_report", "with_frequencies"]

_ENDS = 10  # rows at either end of the table of gaps


def frequency_report(counts: CaptionCounts, taxonomy: Taxonomy, settings: dict[str, Any]) -> StudyReport:
    """Returns how often captions name the labels of each level, without any scores.

    Args:
        counts: Captions that name each node.
        taxonomy: The tree.
        settings: What is needed to run the study again.
    """
    return StudyReport(
        study="granularity",
        title="How often do captions name coarse labels, and how often the fine ones below them?",
        settings=settings,
        tables=(_levels(counts, taxonomy), _gaps(counts, taxonomy, ())),
        figures={"granularity-frequency": _drawer(counts, taxonomy, None, None)},
        notes=_notes(counts, taxonomy),
        data={"frequency": _record(counts, taxonomy, ())},
    )


def with_frequencies(
    report: StudyReport, results: Sequence[Granularity], counts: CaptionCounts, taxonomy: Taxonomy
) -> StudyReport:
    """Returns the report of average precisions with the frequencies and their correlation beside them.

    Args:
        report: The report of the results.
        results: One a score matrix.
        counts: Captions that name each node.
        taxonomy: The tree.
    """
    found = [correlate(result, taxonomy, counts) for result in results]
    figures = dict(report.figures)
    for i, (result, correlation) in enumerate(zip(results, found, strict=True), start=1):
        stem = "granularity-frequency" if len(results) == 1 else f"granularity-frequency-{i}"
        figures[stem] = _drawer(counts, taxonomy, result, correlation)
    notes = [*report.notes, *_notes(counts, taxonomy)]
    for result, correlation in zip(results, found, strict=True):
        prefix = "" if len(results) == 1 else f"{result.name}: "
        left_out = int((result.ancestors & ~compared(result)).sum())
        if left_out:
            notes.append(
                f"{prefix}{left_out:,} ancestor{'' if left_out == 1 else 's'} left out of the correlation: what every "
                "image shows can gain nothing."
            )
        if correlation.undefined is not None:
            notes.append(f"{prefix}No correlation: {correlation.undefined}.")
    return StudyReport(
        study=report.study,
        title=report.title,
        settings=report.settings,
        tables=(
            *report.tables,
            _levels(counts, taxonomy),
            _correlations(found),
            _gaps(counts, taxonomy, results),
        ),
        figures=figures,
        notes=tuple(notes),
        data={**report.data, "frequency": _record(counts, taxonomy, found)},
    )


def _drawer(
    counts: CaptionCounts, taxonomy: Taxonomy, result: Granularity | None, correlation: Correlation | None
) -> Callable[[], Any]:
    from taxtune.studies.granularity.frequency_figure import draw_frequency

    return lambda: draw_frequency(counts, taxonomy, result, correlation)


def _levels(counts: CaptionCounts, taxonomy: Taxonomy) -> Table:
    is_leaf = np.zeros(len(taxonomy), dtype=bool)
    is_leaf[taxonomy.leaves] = True
    rows: list[tuple[Cell, ...]] = []
    for level in range(taxonomy.height + 1):
        here = taxonomy.depth == level
        own = counts.counts[here]
        rows.append(
            (
                level,
                int(here.sum()),
                int((here & is_leaf).sum()),
                float(own.mean()),
                float(np.median(own)),
                int(own.max()),
                100 * float((own == 0).mean()),
                float(counts.inside[here].mean()),
            )
        )
    return Table(
        "frequency-levels",
        f"How many of {counts.captions:,} captions name a label, by level, the root being level 0 "
        "(paper 3, Figure 4 left)",
        ("level", "labels", "leaves", "mean", "median", "most", "never named (%)", "inside longer names"),
        tuple(rows),
        digits={"mean": 1, "median": 1, "never named (%)": 1, "inside longer names": 1},
        notes=(
            "A caption counts once for a label when one of its names stands in it as whole words, plural or singular; "
            "names are not told apart by what they mean.",
            "Inside longer names: the mean number of captions that have a label's name only inside a longer name on "
            "the tree (tiger in tiger shark); these do not count.",
        ),
    )


def _correlations(found: Sequence[Correlation]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (c.name, c.ancestors, c.pearson, _p_value(c.pearson_p), c.spearman, _p_value(c.spearman_p)) for c in found
    ]
    return Table(
        "frequency-correlation",
        "Frequency gap and gain by leaves over the ancestors (paper 3, Figure 4 right: 0.43, p = 3.4e-39)",
        ("scores", "n anc", "Pearson r", "p of r", "Spearman ρ", "p of ρ"),
        tuple(rows),
        notes=(
            "Frequency gap: log10(mean count of the leaves below + 1) − log10(own count + 1), our choice: the paper "
            "gives no formula. Gain: Δ leaf.",
            "The p-values take the ancestors for independent; nested ones share leaves, so that they are too small.",
        ),
    )


def _p_value(p: float) -> str | None:
    return None if np.isnan(p) else f"{p:.2g}"


def _gaps(counts: CaptionCounts, taxonomy: Taxonomy, results: Sequence[Granularity]) -> Table:
    gaps = frequency_gaps(taxonomy, counts.counts)
    means = mean_of_leaves(taxonomy, counts.counts)
    ancestors = np.flatnonzero(np.isfinite(gaps))
    ordered = ancestors[np.argsort(-gaps[ancestors], kind="stable")]
    shown = ordered if len(ordered) <= 2 * _ENDS else np.concatenate([ordered[:_ENDS], ordered[-_ENDS:]])
    gains = {("Δ leaf" if len(results) == 1 else f"Δ leaf, {r.name}"): 100 * (r.leaf - r.raw) for r in results}
    rows: list[tuple[Cell, ...]] = [
        (
            _shown_name(taxonomy, node),
            int(taxonomy.depth[node]),
            int(counts.counts[node]),
            float(means[node]),
            float(gaps[node]),
            *(float(gain[node]) for gain in gains.values()),
        )
        for node in shown.tolist()
    ]
    which = (
        "All ancestors" if len(shown) == len(ordered) else f"The {_ENDS} ancestors at either end of {len(ordered):,}"
    )
    return Table(
        "frequency-gaps",
        f"{which} by frequency gap, the largest first",
        ("ancestor", "level", "captions", "mean of its leaves", "gap", *gains),
        tuple(rows),
        digits={"mean of its leaves": 1, "gap": 2, **dict.fromkeys(gains, 2)},
        notes=("Positive: captions name the leaves below more often than the ancestor itself.",),
    )


def _shown_name(taxonomy: Taxonomy, node: int) -> str:
    label, common = taxonomy.labels[node], taxonomy.common_name(node)
    return label if common == label else f"{label} ({common})"


def _notes(counts: CaptionCounts, taxonomy: Taxonomy) -> tuple[str, ...]:
    notes = [
        f"{counts.naming:,} of {counts.captions:,} captions name a label; "
        f"{int((counts.counts == 0).sum()):,} of {len(taxonomy):,} labels are never named."
    ]
    if counts.empty:
        notes.append(
            "1 caption left out: it is empty."
            if counts.empty == 1
            else f"{counts.empty:,} captions left out: they are empty."
        )
    if counts.shared_names:
        notes.append(
            f"{counts.shared_names:,} of {counts.names:,} names are borne by several labels and count for each: "
            f"{counts.shared_nodes:,} labels and {counts.by_shared:,} captions are concerned."
        )
    if counts.wordless:
        notes.append(
            f"{counts.wordless:,} labels have no name with a letter or digit: no caption can name them, and their "
            "count is 0."
        )
    return tuple(notes)


def _record(counts: CaptionCounts, taxonomy: Taxonomy, found: Sequence[Correlation]) -> dict[str, Any]:
    gaps = frequency_gaps(taxonomy, counts.counts)
    means = mean_of_leaves(taxonomy, counts.counts)
    return {
        "captions": counts.captions,
        "empty": counts.empty,
        "naming": counts.naming,
        "names": counts.names,
        "shared_names": counts.shared_names,
        "shared_labels": counts.shared_nodes,
        "captions_with_shared_names": counts.by_shared,
        "labels_without_words": counts.wordless,
        "correlations": [
            {
                "scores": c.name,
                "ancestors": c.ancestors,
                "pearson": c.pearson,
                "pearson_p": c.pearson_p,
                "spearman": c.spearman,
                "spearman_p": c.spearman_p,
                "undefined": c.undefined,
            }
            for c in found
        ],
        "labels": [
            {
                "path": "/".join(taxonomy.path(node)),
                "level": int(taxonomy.depth[node]),
                "kind": "ancestor" if np.isfinite(gaps[node]) else "leaf",
                "captions": int(counts.counts[node]),
                "inside_longer_names": int(counts.inside[node]),
                "mean_of_leaves": float(means[node]),
                "gap": float(gaps[node]),
            }
            for node in range(len(taxonomy))
        ],
    }
