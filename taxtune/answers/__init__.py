"""Answers and their targets from files: the formats that people and other harnesses write, and runs of taxtune."""

from __future__ import annotations

from taxtune.answers.read import AnswerRow, AnswerSchema, AnswerTable, Excluded, read_answers, rows_error, split_by
from taxtune.answers.records import FORMATS, read_records

__all__ = [
    "FORMATS",
    "AnswerRow",
    "AnswerSchema",
    "AnswerTable",
    "Excluded",
    "read_answers",
    "read_records",
    "rows_error",
    "split_by",
]
