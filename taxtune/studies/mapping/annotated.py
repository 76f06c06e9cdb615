"""Answers that people have placed on a tree: a text, the node that it asserts, what else is acceptable, and a style."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from taxtune.answers.read import rows_error
from taxtune.answers.records import read_records
from taxtune.answers.targets import Target, target_finder
from taxtune.errors import DataError
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["AnnotatedAnswers", "read_annotated"]


class AnnotatedAnswers(NamedTuple):
    """Answers that people have placed.

    Attributes:
        frame: One row per answer: row (its line in the file, from 1), answer, target (a node), acceptable (a set of
            nodes, the target included) and style (None where the file has none).
        notes: Exclusions and other things to know, with their counts.
        excluded: File, row and reason of each row that is left out.
    """

    frame: pd.DataFrame
    notes: tuple[str, ...] = ()
    excluded: tuple[dict[str, Any], ...] = ()


def read_annotated(
    path: str | Path,
    taxonomy: Taxonomy,
    *,
    answer: str = "answer",
    node: str = "node",
    also: str = "also",
    style: str = "style",
    no_node: str = "root",
    missing: str = "error",
    part: Domain | None = None,
) -> AnnotatedAnswers:
    """Reads answers that people have placed.

    Args:
        path: The file.
        taxonomy: The tree that they are placed on.
        answer: Column with the text; an empty one in JSONL is an answer that says nothing.
        node: Column with the node that it asserts: a label, an alias or a path.
        also: Column with further acceptable nodes: a list, or a cell with ";" or "|" between them. May be absent.
        style: Column to group answers by. May be absent.
        no_node: What an empty node means: "root" (the answer names nothing on the tree), "error", or "leave-out".
        missing: What to do with a row without an answer (null, or an empty CSV cell): "error" or "leave-out".
        part: What `taxonomy` is a part of, or None. Rows whose node is elsewhere on the whole tree are left out.

    Raises:
        DataError: If the file cannot be read, lacks a column, has no row in the part, or has rows that cannot be used.
    """
    file, records = str(path), read_records(path, what="annotated answers")
    columns = {name for _, record in records for name in record}
    for name in (answer, node):
        if name not in columns:
            remedy = "Choose an existing column."
            raise DataError(f"The file has no column {name!r}.", file=file, value=sorted(columns), remedy=remedy)
    find = target_finder(taxonomy, part)
    rows: list[tuple[int, str, int, frozenset[int], str | None]] = []
    problems: list[tuple[int, str]] = []
    excluded: list[tuple[int, str]] = []
    counts: Counter[str] = Counter()
    for line, record in records:
        empty = _is_empty(record.get(node))
        target = Target("", node=taxonomy.root) if empty else find(record[node])
        text, others = record.get(answer), [find(item) for item in _items(record.get(also))]
        if target.outside and part is not None:
            excluded.append((line, f"node outside {part.label}"))
        elif text is None and missing == "leave-out":
            excluded.append((line, "no answer"))
        elif isinstance(text, str) and empty and no_node == "leave-out":
            excluded.append((line, "no node"))
        elif wrong := _problem(record, answer, node, also, empty and no_node == "error", target, others):
            problems.append((line, wrong))
        else:
            acceptable = [other.node for other in others if other.node is not None]
            counts += Counter(nothing=empty, moved=target.moved, outside=len(acceptable) < len(others))
            own = None if _is_empty(record.get(style)) else str(record[style])
            rows.append((line, str(text), int(target.node or 0), frozenset((int(target.node or 0), *acceptable)), own))
    if problems:
        remedy = "Correct these rows, or use --missing leave-out where answers are missing."
        raise rows_error(problems, file, len(records), remedy=remedy)
    reasons = Counter(reason for _, reason in excluded)
    if not rows:
        left_out = ", ".join(f"{reason} in {count:,}" for reason, count in reasons.items())
        raise DataError(f"No usable rows are left: {left_out}.", file=file, remedy="Check the file, and the root.")
    label = "" if part is None else part.label
    told = {
        "nothing": "name no node, so their target is the root" + (f", {label}" if label else ""),
        "moved": "have the path of another tree as their node; it was found by its last name",
        "outside": f"have acceptable nodes outside {label}, which are ignored",
    }
    notes = [f"{count:,} of {len(records):,} rows are left out: {reason}" for reason, count in reasons.items()]
    notes += [f"{counts[what]:,} of {len(rows):,} answers {text}" for what, text in told.items() if counts[what]]
    frame = pd.DataFrame(rows, columns=["row", "answer", "target", "acceptable", "style"], dtype=object)
    left_out_rows = tuple({"file": file, "row": row, "reason": reason} for row, reason in excluded)
    return AnnotatedAnswers(frame.astype({"row": int, "target": int}), tuple(notes), left_out_rows)


def _problem(
    record: dict[str, Any], answer: str, node: str, also: str, unplaced: bool, target: Target, others: list[Target]
) -> str:
    text = record.get(answer)
    if not isinstance(text, str):
        return f"{answer} is missing" if text is None else f"{answer} is not text: {text!r}"
    if node not in record:
        return f"{node} is absent; use null for an answer that names nothing"
    if unplaced:
        return f"{node} is missing; --no-node sets what that means"
    if target.problem:
        return f"{node}{target.problem_after}"
    return next((f"{also}{other.problem_after}" for other in others if other.problem), "")


def _is_empty(value: object) -> bool:
    return value is None or value == [] or (isinstance(value, str) and not value.strip())


def _items(value: object) -> list[object]:
    if isinstance(value, str):
        return [part.strip() for part in value.replace("|", ";").split(";") if part.strip()]
    return value if isinstance(value, list) else [] if value is None else [value]
