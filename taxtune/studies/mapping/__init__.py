"""Mapping (paper 1, §6.1): measures as mappers, alone and with Algorithm 1, on answers that people have placed."""

from __future__ import annotations

from taxtune.report.output import StudyReport
from taxtune.studies.mapping.settings import MappingSettings

__all__ = ["MappingSettings", "run"]


def run(settings: MappingSettings) -> StudyReport:
    """Place annotated answers by each measure, alone and with Algorithm 1 (paper 1, Table 2 and Figure 4).

    Raises:
        TaxtuneError: If a file cannot be used, or a measure does not exist, lacks images or cannot place.
    """
    from taxtune.studies.mapping.study import mapping

    return mapping(settings)
