"""The papers' experiments: a package a study, which `taxtune study NAME` (or `taxtune diagnose`) runs.

In each package `study.py` computes and `figure.py` draws; what several studies share lies beside the packages.
"""

from __future__ import annotations

from taxtune.studies.output import StudyReport, Table, publish

__all__ = ["StudyReport", "Table", "publish"]
