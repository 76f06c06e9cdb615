"""The kinds of mistakes that answers make: `taxtune score diagnose` (paper 2, and the placements)."""

from taxtune.studies.diagnosis.settings import DiagnosisSettings
from taxtune.studies.diagnosis.study import run

__all__ = ["DiagnosisSettings", "run"]
