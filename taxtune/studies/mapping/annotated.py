"""Answers that people have placed on a tree: a text, the node that it asserts, what else is acceptable, and a style."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taxtune.errors import DataError, TaxonomyError
from taxtune.metrics.predictions import read_records
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["NO_NODE", "AnnotatedAnswers", "AnnotatedColumns", "read_annotated"]

#: What an empty target means: the answer names nothing that is on the tree, so that its node is the root; or a mistake;
#: or a row that nobody has placed yet.
NO_NODE = ("root", "error", "leave-out")

_LISTED = 20
_MISSING = "answer is missing"


@dataclass(frozen=True, slots=True)
class AnnotatedColumns:
    """Which columns hold what.

    Attributes:
        answer: The text.
        node: The node that it asserts: a label, an alias, or a path.
        also: Further nodes that are acceptable: a list, or a CSV cell with ";" or "|" between them. May be absent.
        style: What answers are grouped by. May be absent.
        image: The image that the answer is about, relative to the file's folder; None for none.
    """

    answer: str = "answer"
    node: str = "node"
    also: str = "also"
    style: str = "style"
    image: str | None = None


@dataclass(frozen=True, slots=True)
class AnnotatedAnswers:
    """Placed answers, all tuples of the same length.

    Attributes:
        file: The file.
        rows: The 1-based line of each answer.
        answers: The texts; an empty one is an answer that says nothing.
        targets: The node of each.
        acceptable: The acceptable nodes of each, its own included.
        styles: The style of each, or None.
        images: The image of each, or None.
        notes: Exclusions and other things to know, with their counts.
    """

    file: str
    rows: tuple[int, ...]
    answers: tuple[str, ...]
    targets: tuple[int, ...]
    acceptable: tuple[frozenset[int], ...]
    styles: tuple[str | None, ...]
    images: tuple[Path | None, ...]
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def groups(self) -> dict[str, list[int]]:
        """Returns the positions of the answers of each style, the largest group first; of those without one, "–"."""
        groups: dict[str, list[int]] = {}
        for i, style in enumerate(self.styles):
            groups.setdefault(style or "–", []).append(i)
        return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


def read_annotated(
    path: str | Path,
    taxonomy: Taxonomy,
    *,
    columns: AnnotatedColumns | None = None,
    no_node: str = "root",
    missing: str = "error",
) -> AnnotatedAnswers:
    """Reads answers that people have placed, from a CSV or JSONL file.

    Args:
        path: The file.
        taxonomy: The tree that they are placed on.
        columns: Which columns hold what.
        no_node: One of `NO_NODE`.
        missing: What to do with a row without an answer (null, or an empty CSV cell): "error" or "leave-out".

    Raises:
        DataError: If the file cannot be read, lacks a column, or has rows that cannot be used; one message names them
            all, up to 20.
    """
    columns = columns or AnnotatedColumns()
    for name, value, allowed in (("no node", no_node, NO_NODE), ("no answer", missing, ("error", "leave-out"))):
        if value not in allowed:
            raise DataError(f"There is no such meaning of {name}.", value=value, remedy=f"Use {', '.join(allowed)}.")
    file = str(path)
    records = read_records(path, what="annotated answers")
    there = {name for _, record in records for name in record}
    for name in (columns.answer, columns.node, *([columns.image] if columns.image else [])):
        if name not in there:
            raise DataError(
                f"The file has no column {name!r}.", file=file, value=sorted(there), remedy="Name one that it has."
            )
    resolve = _resolver(taxonomy)
    found: list[tuple[int, str, int, frozenset[int], str | None, Path | None]] = []
    problems: list[tuple[int, str]] = []
    without_node = without_answer = unplaced = 0
    for line, record in records:
        answer = record.get(columns.answer)
        if answer is None and missing == "leave-out":
            without_answer += 1
            continue
        if not isinstance(answer, str):
            problems.append((line, _MISSING if answer is None else f"answer is no text but {answer!r}"))
            continue
        if _is_nothing(record.get(columns.node)) and no_node == "leave-out":
            unplaced += 1
            continue
        try:
            target = _target(record, columns.node, no_node, resolve)
            also = [_node(item, columns.also, resolve) for item in _items(record.get(columns.also), columns.also)]
        except ValueError as problem:
            problems.append((line, str(problem)))
            continue
        without_node += _is_nothing(record.get(columns.node))
        style = record.get(columns.style)
        image = record.get(columns.image) if columns.image else None
        picture = None if _is_nothing(image) else Path(path).parent / str(image)
        found.append(
            (line, answer, target, frozenset((target, *also)), None if _is_nothing(style) else str(style), picture)
        )
    if problems:
        raise _error(problems, file, len(records))
    if not found:
        raise DataError("No row is left to use.", file=file, value=f"{without_answer:,} rows without an answer")
    notes = []
    if without_node:
        notes.append(f"{without_node:,} of {len(found):,} answers name no node; their target is the root")
    if unplaced:
        notes.append(f"{unplaced:,} of {len(records):,} rows have no node and are left out")
    if without_answer:
        notes.append(f"{without_answer:,} of {len(records):,} rows have no answer and are left out")
    rows, answers, targets, acceptable, styles, images = zip(*found, strict=True)
    return AnnotatedAnswers(file, rows, answers, targets, acceptable, styles, images, tuple(notes))


def _is_nothing(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip()) or value == []


def _target(record: Mapping[str, Any], column: str, no_node: str, resolve: Callable[[object], int]) -> int:
    if column not in record:
        raise ValueError(f"{column} is not there; null says that the answer names nothing")
    value = record[column]
    if not _is_nothing(value):
        return _node(value, column, resolve)
    if no_node == "error":
        raise ValueError(f"{column} is empty; --no-node says what that may mean")
    return 0


def _node(value: object, column: str, resolve: Callable[[object], int]) -> int:
    try:
        return resolve(value)
    except TaxonomyError as error:
        raise ValueError(f"{column}: {error.message} {error.remedy or ''}".strip()) from None


def _items(value: object, column: str) -> Sequence[object]:
    if _is_nothing(value):
        return []
    if isinstance(value, str):
        return [part.strip() for part in value.replace("|", ";").split(";") if part.strip()]
    if isinstance(value, list):
        return value
    raise ValueError(f"{column} is no list of nodes but {value!r}")


def _resolver(taxonomy: Taxonomy) -> Callable[[object], int]:
    known: dict[str | tuple[str, ...], int] = {}

    def resolve(value: object) -> int:
        if isinstance(value, list) and value and all(isinstance(label, str) for label in value):
            value = tuple(value)
        if not isinstance(value, str | tuple):
            raise TaxonomyError(f"{value!r} is no label or path.")
        if value not in known:
            known[value] = taxonomy.resolve(value)
        return known[value]

    return resolve


def _error(problems: Sequence[tuple[int, str]], file: str, total: int) -> DataError:
    lines = [f"\n  row {line}: {what}" for line, what in problems[:_LISTED]]
    if len(problems) > _LISTED:
        lines.append(f"\n  and {len(problems) - _LISTED:,} more")
    rows = len({line for line, _ in problems})
    unanswered = any(what == _MISSING for _, what in problems)
    return DataError(
        f"{rows:,} of {total:,} rows cannot be used:{''.join(lines)}",
        file=file,
        remedy="\nCorrect these rows"
        + (", or leave those without an answer out with --missing leave-out." if unanswered else "."),
    )
