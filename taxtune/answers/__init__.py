"""Answers and their targets from files: tables in any format, and runs of taxtune."""

from __future__ import annotations

from taxtune.answers.read import (
    AnswerRow,
    AnswerSchema,
    AnswerTable,
    Excluded,
    read_answers,
    split_by,
)
from taxtune.answers.records import FORMATS, read_records
from taxtune.answers.targets import rows_error

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
