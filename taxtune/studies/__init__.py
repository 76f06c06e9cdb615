"""The papers' experiments: a module or package a study, which `run`, `taxtune study NAME` or `score diagnose` runs.

    report = taxtune.studies.run("correlation", taxonomy="tree.csv", measure=["rouge-1", "meteor"], pairs=10_000)
    report.tables[0].records()

Each holds the study's settings and its `run`. What several studies share lies beside them.
"""

from taxtune.report.output import StudyReport, Table, publish
from taxtune.studies.registry import STUDIES, run

__all__ = ["STUDIES", "StudyReport", "Table", "publish", "run"]
