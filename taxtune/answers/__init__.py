"""Answers and their targets from files: tables in any format, and runs of taxtune."""

from __future__ import annotations

from taxtune.answers.read import read_answers
from taxtune.answers.records import FORMATS, read_records
from taxtune.answers.schema import AnswerRow, AnswerSchema, AnswerTable, Excluded

__all__ = [
    "FORMATS",
    "AnswerRow",
    "AnswerSchema",
    "AnswerTable",
    "Excluded",
    "read_answers",
    "read_records",
]
