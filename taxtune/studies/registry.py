"""The studies by name, and how each is run from Python."""

from __future__ import annotations

import importlib
from typing import Any, get_type_hints

from taxtune.errors import DataError
from taxtune.report.output import StudyReport

__all__ = ["STUDIES", "run"]

#: The studies that there are, by the names of their packages.
STUDIES = (
    "correlation",
    "encoder",
    "granularity",
    "judge",
    "mapping",
    "prompts",
    "ranking",
    "specificity",
)


def run(study: str, **settings: Any) -> StudyReport:
    """Runs a study.

    Args:
        study: One of `STUDIES`.
        **settings: Its settings, by the names of their fields, such as those of
            `taxtune.studies.correlation.CorrelationSettings`.

    Raises:
        TaxtuneError: If there is no such study or setting, or the study cannot be run on what it is given.
    """
    if study not in STUDIES:
        raise DataError("There is no such study.", value=study, remedy=f"Use {', '.join(STUDIES)}.")
    package = importlib.import_module(f"taxtune.studies.{study}")
    kind = get_type_hints(package.run)["settings"]
    unknown = settings.keys() - kind.model_fields.keys()
    if unknown:
        message = f"There is no such setting of the study {study}."
        remedy = f"Use {', '.join(kind.model_fields)}."
        raise DataError(message, value=sorted(unknown), remedy=remedy)
    report: StudyReport = package.run(kind(**settings))
    return report
