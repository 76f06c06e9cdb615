"""Answers that people have placed on a tree: a text, the node that it asserts, what else is acceptable, and a style."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taxtune.answers.read import rows_error
from taxtune.answers.records import read_records
from taxtune.answers.targets import Target, target_finder
from taxtune.errors import DataError
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["NO_NODE", "AnnotatedAnswers", "AnnotatedColumns", "read_annotated"]

#: What an empty target means: the answer names nothing that is on the tree, so that its node is the root; or a mistake;
#: or a row that nobody has placed yet.
NO_NODE = ("root", "error", "leave-out")

_MISSING = "answer is missing"
_NO_ANSWER, _NO_NODE = "no answer", "no node"


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
        excluded: The 1-based line of each row that is left out, and why.
    """

    file: str
    rows: tuple[int, ...]
    answers: tuple[str, ...]
    targets: tuple[int, ...]
    acceptable: tuple[frozenset[int], ...]
    styles: tuple[str | None, ...]
    images: tuple[Path | None, ...]
    notes: tuple[str, ...]
    excluded: tuple[tuple[int, str], ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def excluded_records(self) -> list[dict[str, Any]]:
        """Returns every row that is left out, with the reason, as `--json` lists them."""
        return [{"file": self.file, "row": row, "reason": reason} for row, reason in self.excluded]

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
    part: Domain | None = None,
) -> AnnotatedAnswers:
    """Reads answers that people have placed, from a CSV or JSONL file.

    Args:
        path: The file.
        taxonomy: The tree that they are placed on.
        columns: Which columns hold what.
        no_node: One of `NO_NODE`.
        missing: What to do with a row without an answer (null, or an empty CSV cell): "error" or "leave-out".
        part: What `taxonomy` is a part of; None where it is the whole. Rows whose node is elsewhere on the whole tree
            are left out; an answer that names nothing is on the root of the part.

    Raises:
        DataError: If the file cannot be read, lacks a column, has no row in the part, or has rows that cannot be used;
            one message names them all, up to 20.
    """
    columns = columns or AnnotatedColumns()
    for name, value, allowed in (("no node", no_node, NO_NODE), ("no answer", missing, ("error", "leave-out"))):
        if value not in allowed:
            raise DataError(f"Unknown value for {name}.", value=value, remedy=f"Use {', '.join(allowed)}.")
    file = str(path)
    records = read_records(path, what="annotated answers")
    there = {name for _, record in records for name in record}
    for name in (columns.answer, columns.node, *([columns.image] if columns.image else [])):
        if name not in there:
            raise DataError(
                f"The file has no column {name!r}.", file=file, value=sorted(there), remedy="Choose an existing column."
            )
    find = target_finder(taxonomy, part)
    found: list[tuple[int, str, int, frozenset[int], str | None, Path | None]] = []
    problems: list[tuple[int, str]] = []
    excluded: list[tuple[int, str]] = []
    outside = "" if part is None else f"node outside {part.label}"
    beyond = without_node = moved = 0
    for line, record in records:
        nowhere = _is_nothing(record.get(columns.node))
        node = Target("") if nowhere else find(record[columns.node])
        if node.outside:
            excluded.append((line, outside))
            continue
        answer = record.get(columns.answer)
        if answer is None and missing == "leave-out":
            excluded.append((line, _NO_ANSWER))
            continue
        if not isinstance(answer, str):
            problems.append((line, _MISSING if answer is None else f"answer is not text: {answer!r}"))
            continue
        if nowhere and no_node == "leave-out":
            excluded.append((line, _NO_NODE))
            continue
        items = _items(record.get(columns.also))
        others = [find(item) for item in items or ()]
        wrong = [f"{columns.also}{other.problem_after}" for other in others if other.problem]
        if items is None:
            wrong.append(f"{columns.also} is not a list of nodes: {record[columns.also]!r}")
        if columns.node not in record:
            wrong.append(f"{columns.node} is absent; use null for an answer that names nothing")
        elif nowhere and no_node == "error":
            wrong.append(f"{columns.node} is missing; --no-node sets what that means")
        elif node.problem:
            wrong.append(f"{columns.node}{node.problem_after}")
        if wrong:
            problems += [(line, what) for what in wrong]
            continue
        target = 0 if node.node is None else node.node
        also = [other.node for other in others if other.node is not None]
        beyond += len(also) < len(others)
        without_node += nowhere
        moved += node.moved
        style = record.get(columns.style)
        image = record.get(columns.image) if columns.image else None
        picture = None if _is_nothing(image) else Path(path).parent / str(image)
        found.append(
            (
                line,
                answer,
                target,
                frozenset((target, *also)),
                None if _is_nothing(style) else str(style),
                picture,
            )
        )
    if problems:
        unanswered = any(what == _MISSING for _, what in problems)
        remedy = "Correct these rows" + (", or use --missing leave-out." if unanswered else ".")
        raise rows_error(problems, file, len(records), remedy=remedy)
    reasons = Counter(reason for _, reason in excluded)
    if not found:
        raise DataError(
            "No usable rows are left: "
            + ", ".join(f"{reason} in {count:,}" for reason, count in reasons.items())
            + ".",
            file=file,
            remedy="Check the root." if reasons[outside] else None,
        )
    notes = []
    if without_node:
        root = "the root" if part is None else f"the root, {part.label}"
        notes.append(f"{without_node:,} of {len(found):,} answers name no node, so their target is {root}")
    notes += [f"{count:,} of {len(records):,} rows are left out: {reason}" for reason, count in reasons.items()]
    if moved:
        notes.append(f"{moved:,} of {len(found):,} nodes are paths of another tree; they were found by their last name")
    if beyond and part is not None:
        notes.append(
            f"{beyond:,} of {len(found):,} answers have acceptable nodes outside {part.label}, which are ignored"
        )
    rows, answers, targets, acceptable, styles, images = zip(*found, strict=True)
    return AnnotatedAnswers(file, rows, answers, targets, acceptable, styles, images, tuple(notes), tuple(excluded))


def _is_nothing(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip()) or value == []


def _items(value: object) -> Sequence[object] | None:
    """Returns the nodes of a cell; None if it holds no list of them."""
    if _is_nothing(value):
        return []
    if isinstance(value, str):
        return [part.strip() for part in value.replace("|", ";").split(";") if part.strip()]
    return value if isinstance(value, list) else None
