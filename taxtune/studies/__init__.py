"""The papers' experiments: a module or package a study, which `run`, `taxtune study NAME` or `score diagnose` runs.

    report = taxtune.studies.run("correlation", taxonomy="tree.csv", measure=["rouge-1", "meteor"], pairs=10_000)
    report.tables[0].records()

Each holds the study's settings and its `run`. What several studies share lies beside them.
"""

from __future__ import annotations

import importlib
from dataclasses import fields
from typing import Any, get_type_hints

from taxtune.errors import DataError
from taxtune.report.output import StudyReport, Table, publish

__all__ = ["STUDIES", "StudyReport", "Table", "publish", "run"]

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
        **settings: What it can be told, by the names of the fields of its settings, such as
            `taxtune.studies.correlation.CorrelationSettings`.

    Raises:
        TaxtuneError: If there is no such study or setting, or the study cannot be run on what it is given.
    """
    if study not in STUDIES:
        raise DataError("There is no such study.", value=study, remedy=f"Use {', '.join(STUDIES)}.")
    package = importlib.import_module(f"taxtune.studies.{study}")
    kind = get_type_hints(package.run)["settings"]
    names = [field.name for field in fields(kind)]
    if unknown := settings.keys() - names:
        message = f"There is no such setting of the study {study}."
        raise DataError(message, value=sorted(unknown), remedy=f"Use {', '.join(names)}.")
    report: StudyReport = package.run(kind(**settings))
    return report
