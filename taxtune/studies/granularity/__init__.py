"""Granularity (paper 3, §4): coarse labels directly, or by way of the fine ones below them."""

from __future__ import annotations

from taxtune.report.output import StudyReport
from taxtune.studies.granularity.settings import GranularitySettings

__all__ = ["GranularitySettings", "run"]


def run(settings: GranularitySettings) -> StudyReport:
    """Tell whether a model knows coarse labels as well as the fine ones below them (paper 3, §4, Appendices A, B).

    Raises:
        TaxtuneError: If a file, a label or a model is missing or malformed.
    """
    from taxtune.studies.granularity.study import granularity

    return granularity(settings)
