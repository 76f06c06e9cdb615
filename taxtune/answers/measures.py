"""Text measures of a table of answers: the score of each answer, and their means with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from taxtune.answers.measured import mean_interval, measure_answers
from taxtune.answers.read import AnswerTable
from taxtune.metrics.base import Measure
from taxtune.report.output import StudyReport, Table

__all__ = ["measured_report"]

_COLUMNS = ("measure", "mean", "low", "high", "scored", "unscored")


def measured_report(
    answers: AnswerTable,
    measures: Sequence[Measure],
    *,
    settings: Mapping[str, Any],
    resamples: int = 2000,
    seed: int = 0,
) -> StudyReport:
    """Returns the mean of each measure over the answers, and the score of every answer.

    Args:
        answers: The answers with their references; a missing answer counts as one that says nothing.
        measures: The measures.
        settings: What the report records of how it came about.
        resamples: Bootstrap resamples of the means.
        seed: Their seed.

    Raises:
        DataError: If a measure needs questions or images and the answers have none.
        ImageError: If an image cannot be read.
    """
    scores = {measure.name: measure_answers(measure, answers) for measure in measures}
    rows = []
    for name, values in scores.items():
        unscored = int(np.isnan(values).sum())
        mean = mean_interval(values, resamples=resamples, seed=seed)
        cells = (None, None, None) if mean is None else (mean.estimate, mean.low, mean.high)
        rows.append((name, *cells, len(values) - unscored, unscored))
    said = ("low and high: 95 % bootstrap interval of the mean over the scored answers.",)
    return StudyReport(
        study="measure",
        title="Text measures of answers",
        settings={**settings, "measures": [measure.identity() for measure in measures]},
        tables=(Table("measures", "Mean score", _COLUMNS, tuple(rows), notes=said),),
        notes=(*answers.notes, *dict.fromkeys(note for measure in measures for note in measure.notes)),
        data={
            "n": len(answers.rows),
            "left_out": list(answers.unanswered),
            "rows": [
                {
                    "row": row.row,
                    "answer": row.answer or "",
                    "references": list(row.references),
                    "scores": {name: values[i] for name, values in scores.items()},
                }
                for i, row in enumerate(answers.rows)
            ],
        },
    )
