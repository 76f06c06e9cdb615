"""Which encoder places text best at which level of a tree, for choosing a recipe's mapper: paper 3, Appendix B."""

from __future__ import annotations

from taxtune.report.output import StudyReport
from taxtune.studies.encoder.settings import EncoderSettings

__all__ = ["EncoderSettings", "run"]


def run(settings: EncoderSettings) -> StudyReport:
    """Say which encoder places text best at which level, and what a recipe's mapper should use (paper 3, App. B).

    Raises:
        TaxtuneError: If the tree has nothing to draw, there is no such similarity, or its model cannot be loaded.
    """
    from taxtune.studies.encoder.study import encoder

    return encoder(settings)
