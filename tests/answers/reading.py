"""Reading a file of answers with targets on a tree, in the few words of a test."""

from __future__ import annotations

from typing import Any

from taxtune.answers import AnswerSchema, AnswerTable, read_answers
from taxtune.taxonomy import Taxonomy

__all__ = ["read_file"]


def read_file(path: Any, taxonomy: Taxonomy | None = None, **schema: Any) -> AnswerTable:
    """Returns the answers of a file; further arguments are those of `AnswerSchema`."""
    return read_answers(path, AnswerSchema(taxonomy=taxonomy, **schema))
