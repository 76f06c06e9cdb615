"""Does a model know coarse labels as well as the fine labels below them? Paper 3, §4.

The forms of the study are in `hierarchy`, `classes`, `language` and `frequency`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from taxtune.answers import AnswerTable, Excluded
from taxtune.answers.matching import excluded_records
from taxtune.errors import DataError
from taxtune.report.output import StudyReport
from taxtune.studies.granularity.classes import coarse_cut, two_level, two_level_report
from taxtune.studies.granularity.frequency import (
    CaptionCounts,
    count_captions,
    frequency_report,
    read_captions,
)
from taxtune.studies.granularity.hierarchy import hierarchy, hierarchy_report
from taxtune.studies.granularity.language import ask_models, language_report
from taxtune.studies.granularity.matrices import ScoreMatrix, all_scores, check_targets
from taxtune.studies.granularity.settings import GranularitySettings
from taxtune.taxonomy import Domain, Taxonomy

__all__ = ["run"]


def run(settings: GranularitySettings) -> StudyReport:
    """Tell whether a model knows coarse labels as well as the fine ones below them (paper 3, §4, Appendices A, B).

    Raises:
        TaxtuneError: If a file, a label or a model is missing or malformed.
    """
    tree, part = settings.read_tree()
    if len(tree.leaves) < 2:
        message = "The taxonomy needs at least two leaves."
        source = settings.record()["taxonomy"]
        raise DataError(message, file=source, value=len(tree.leaves))
    grouping = None
    if settings.form in ("two-level", "language"):
        grouping = coarse_cut(tree, level=settings.coarse_level, labels=settings.coarse)
        if settings.form == "language":
            return language_report(ask_models(settings, grouping), grouping, settings)
    # Mistakes in a file or a setting are reported before a model is asked about every image.
    counts = _count_captions(settings, tree, part) if settings.captions else None
    if counts is not None and settings.form == "frequency":
        return frequency_report(counts, tree, settings.record())
    answers = None if settings.answers is None else _read_answers(settings, tree, part)
    matrices = all_scores(settings, tree, part, answers)
    if grouping is None:
        report = _hierarchy(settings, tree, matrices, counts)
    else:
        results = [two_level(matrix, tree, grouping) for matrix in matrices]
        report = two_level_report(results, grouping, settings)
    if answers is None:
        return report
    excluded = excluded_records([answers])
    return replace(report, data={**report.data, "excluded": excluded})


def _hierarchy(
    settings: GranularitySettings,
    tree: Taxonomy,
    matrices: Sequence[ScoreMatrix],
    counts: CaptionCounts | None,
) -> StudyReport:
    """Returns the report on all labels and, where captions were counted, on their frequencies."""
    results = []
    for matrix in matrices:
        result = hierarchy(
            matrix,
            tree,
            trivial=settings.trivial,
            resamples=settings.resamples,
            seed=settings.seed,
        )
        results.append(result)
    report = hierarchy_report(results, settings.record())
    if counts is None:
        return report
    frequencies = frequency_report(counts, tree, settings.record(), results)
    return replace(
        report,
        tables=report.tables + frequencies.tables,
        figures={**report.figures, **frequencies.figures},
        notes=report.notes + frequencies.notes,
        data={**report.data, **frequencies.data},
    )


def _count_captions(
    settings: GranularitySettings, tree: Taxonomy, part: Domain | None
) -> CaptionCounts:
    captions = []
    for path in settings.captions:
        captions += read_captions(path, column=settings.caption_column)
    source = ", ".join(map(str, settings.captions))
    return count_captions(captions, tree, part, source=source)


def _read_answers(
    settings: GranularitySettings, tree: Taxonomy, part: Domain | None
) -> AnswerTable:
    """Returns the answers that can be embedded: an empty text has no direction."""
    answers = settings.read_answers(str(settings.answers), tree, part)
    kept = []
    excluded = list(answers.excluded)
    for row in answers.rows:
        if (row.answer or "").strip():
            kept.append(row)
        else:
            excluded.append(Excluded(row.row, row.id, "the answer is empty"))
    targets = np.array([row.target for row in kept], dtype=np.int64)
    check_targets(targets, tree, answers.file)
    empty = len(answers.rows) - len(kept)
    if not empty:
        return answers
    count = f"{empty:,} of {len(answers.rows):,} rows"
    note = f"{answers.file}: {count} are left out: their text is empty"
    notes = (*answers.notes, note)
    return replace(answers, rows=tuple(kept), excluded=tuple(excluded), notes=notes)
