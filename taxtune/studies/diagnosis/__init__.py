"""What kinds of mistakes the answers are: `taxtune score diagnose` (paper 2, and the placements)."""

from __future__ import annotations

from taxtune.report.output import StudyReport
from taxtune.studies.diagnosis.settings import DiagnosisSettings

__all__ = ["DiagnosisSettings", "run"]


def run(settings: DiagnosisSettings) -> StudyReport:
    """Print error types with counts and costs in hP and hR, all scores, also by rank, worst clades and examples.

    With --inclusion and --concept also paper 2's error types, and with --tags its check for images of several labels.

    Raises:
        TaxtuneError: If a file cannot be used, or a measure does not exist or lacks something.
    """
    from taxtune.studies.diagnosis.study import diagnosis

    return diagnosis(settings)
