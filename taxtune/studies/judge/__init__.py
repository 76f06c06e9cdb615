"""How well measures agree with people: paper 4, Tables 2 and 3."""

from __future__ import annotations

from taxtune.report.output import StudyReport
from taxtune.studies.judge.settings import JudgeSettings

__all__ = ["JudgeSettings", "run"]


def run(settings: JudgeSettings) -> StudyReport:
    """Correlate measures with human ratings of answers (paper 4, Table 2).

    Prints Spearman's and Kendall's correlation of each measure with the ratings, with bootstrap intervals, whether
    measures differ, and the mean scores of correct answers that VQA accuracy misses.

    Raises:
        TaxtuneError: If the file cannot be used, a measure needs what it lacks, or no answer was scored by all.
    """
    from taxtune.studies.judge.study import judge

    return judge(settings)
