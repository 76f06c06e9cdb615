"""Answers that people have placed on a tree: a text, the node that it asserts, what else is acceptable, and a style."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from taxtune.answers.records import read_records
from taxtune.answers.targets import Target, rows_error, target_finder
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


def read_annotated(path: str | Path, taxonomy: Taxonomy, part: Domain | None = None) -> AnnotatedAnswers:
    """Reads answers that people have placed.

    The file has the columns answer (an empty text in JSONL says nothing), node (a label, an alias or a path; an answer
    without one names nothing on the tree, so that its target is the root) and, if it likes, also (further acceptable
    nodes: a list, or a cell with ";" or "|" between them) and style (to group answers by).

    Args:
        path: The file.
        taxonomy: The tree that the answers are placed on.
        part: What `taxonomy` is a part of, or None.

    Returns:
        The answers. Rows without an answer, or with a node elsewhere on the whole tree, are left out and counted.

    Raises:
        DataError: If the file cannot be read, lacks a column, has rows that cannot be used, or none that is left.
    """
    file, records = str(path), read_records(path, what="annotated answers")
    columns = sorted({name for _, record in records for name in record})
    if lacking := next((name for name in ("answer", "node") if name not in columns), None):
        raise DataError(f"The file has no column {lacking!r}.", file=file, value=columns)
    find, label = target_finder(taxonomy, part), "" if part is None else part.label
    rows: list[tuple[Any, ...]] = []
    problems: list[tuple[int, str]] = []
    excluded: list[dict[str, Any]] = []
    counts: Counter[str] = Counter()
    for line, record in records:
        answer, style = record.get("answer"), record.get("style")
        empty = record.get("node") in (None, []) or not str(record["node"]).strip()
        target = Target("", node=taxonomy.root) if empty else find(record["node"])
        others = [find(item) for item in _items(record.get("also"))]
        if target.outside or answer is None:
            reason = f"node outside {label}" if target.outside else "no answer"
            excluded.append({"file": file, "row": line, "reason": reason})
        elif not isinstance(answer, str):
            problems.append((line, f"answer is not text: {answer!r}"))
        elif target.problem:
            problems.append((line, f"node{target.problem_after}"))
        elif wrong := next((other for other in others if other.problem), None):
            problems.append((line, f"also{wrong.problem_after}"))
        else:
            acceptable = [other.node for other in others if other.node is not None]
            counts += Counter(nothing=empty, moved=target.moved, outside=len(acceptable) < len(others))
            style = None if style in (None, "") else str(style)
            rows.append((line, answer, target.node, frozenset((target.node, *acceptable)), style))
    if problems:
        raise rows_error(problems, file, len(records), remedy="Correct these rows.")
    reasons = Counter(one["reason"] for one in excluded)
    if not rows:
        raise DataError("No usable rows are left.", file=file, value=dict(reasons))
    told = {
        "nothing": "name no node, so their target is the root" + (f", {label}" if label else ""),
        "moved": "have the path of another tree as their node; it was found by its last name",
        "outside": f"have acceptable nodes outside {label}, which are ignored",
    }
    notes = [f"{count:,} of {len(records):,} rows are left out: {reason}" for reason, count in reasons.items()]
    notes += [f"{counts[what]:,} of {len(rows):,} answers {text}" for what, text in told.items() if counts[what]]
    frame = pd.DataFrame(rows, columns=["row", "answer", "target", "acceptable", "style"], dtype=object)
    return AnnotatedAnswers(frame.astype({"row": int, "target": int}), tuple(notes), tuple(excluded))


def _items(value: object) -> list[object]:
    if isinstance(value, str):
        return [part.strip() for part in value.replace("|", ";").split(";") if part.strip()]
    return value if isinstance(value, list) else [] if value is None else [value]
