"""The papers' experiments as commands: `taxtune study NAME`. One module computes a study, one in `figures` draws it."""

from __future__ import annotations

from taxtune.studies.output import StudyReport, Table, publish

__all__ = ["StudyReport", "Table", "publish"]
