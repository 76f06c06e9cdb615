"""Specificity (paper 3, §5): right texts of any specificity against subtly wrong ones."""

from __future__ import annotations

from taxtune.report.output import StudyReport
from taxtune.studies.specificity.settings import SpecificitySettings

__all__ = ["SpecificitySettings", "run"]


def run(settings: SpecificitySettings) -> StudyReport:
    """Tell whether a model scores right texts above subtly wrong ones (paper 3, Table 3 and Figure 5).

    Without a model it only makes the texts and writes the pairs.

    Raises:
        TaxtuneError: If a file or a model is missing or malformed.
    """
    from taxtune.studies.specificity.study import specificity

    return specificity(settings)
