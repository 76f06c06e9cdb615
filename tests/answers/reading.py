"""Reading answers with targets on a tree, in the few words of a test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from taxtune.answers import AnswerSchema, AnswerTable, read_answers
from taxtune.errors import DataError
from taxtune.taxonomy import Taxonomy

__all__ = ["about", "column", "read_file", "refusal"]


def read_file(source: Any, taxonomy: Taxonomy | None = None, **schema: Any) -> AnswerTable:
    """Returns the answers of a file or of records; further arguments are those of `AnswerSchema`."""
    return read_answers(source, AnswerSchema(taxonomy=taxonomy, **schema))


def refusal(source: Any, taxonomy: Taxonomy | None = None, **schema: Any) -> str:
    """Returns the message of the error that reading ends with."""
    with pytest.raises(DataError) as caught:
        read_file(source, taxonomy, **schema)
    return str(caught.value)


def about(*targets: object, **cells: object) -> list[dict[str, Any]]:
    """Returns a record for each target, all with the answer "x" and the same further cells."""
    return [{"answer": "x", "target": target, **cells} for target in targets]


def column(rows: Iterable[object], name: str) -> list[Any]:
    """Returns a field of every row, such as its answer."""
    return [getattr(row, name) for row in rows]
