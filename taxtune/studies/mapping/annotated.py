"""Answers that people have placed on a tree: a text, the node that it asserts, what else is acceptable, and a style."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taxtune.answers import read_records, rows_error
from taxtune.answers.targets import target_finder
from taxtune.errors import DataError
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["NO_NODE", "AnnotatedAnswers", "AnnotatedColumns", "read_annotated"]

#: What an empty target means: the answer names nothing that is on the tree, so that its node is the root; or a mistake;
#: or a row that nobody has placed yet.
NO_NODE = ("root", "error", "leave-out")

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
            raise DataError(f"There is no such meaning of {name}.", value=value, remedy=f"Use {', '.join(allowed)}.")
    file = str(path)
    records = read_records(path, what="annotated answers")
    there = {name for _, record in records for name in record}
    for name in (columns.answer, columns.node, *([columns.image] if columns.image else [])):
        if name not in there:
            raise DataError(
                f"The file has no column {name!r}.", file=file, value=sorted(there), remedy="Name one that it has."
            )
    find = target_finder(taxonomy, part)
    outside = "" if part is None else f"node outside {part.label}"
    found: list[tuple[int, str, int, frozenset[int], str | None, Path | None]] = []
    problems: list[tuple[int, str]] = []
    excluded: list[tuple[int, str]] = []
    counts: Counter[str] = Counter()
    for line, record in records:
        answer, asserted = record.get(columns.answer), record.get(columns.node)
        bare = _is_nothing(asserted)
        nodes = [] if bare else [(columns.node, find(asserted))]
        if nodes and nodes[0][1].outside:
            excluded.append((line, outside))
            continue
        if answer is None and missing == "leave-out":
            excluded.append((line, "no answer"))
            continue
        if isinstance(answer, str) and bare and no_node == "leave-out":
            excluded.append((line, "no node"))
            continue
        also = _items(record.get(columns.also))
        nodes += [(columns.also, find(item)) for item in also or ()]
        wrong = [f"{column}{node.problem_after}" for column, node in nodes if node.problem]
        if not isinstance(answer, str):
            wrong = [_MISSING if answer is None else f"answer is not text: {answer!r}"]
        elif columns.node not in record:
            wrong = [f"{columns.node} is not there; null says that the answer names nothing"]
        elif bare and no_node == "error":
            wrong = [f"{columns.node} is empty; --no-node says what that may mean"]
        elif also is None:
            wrong += [f"{columns.also} is not a list of nodes: {record[columns.also]!r}"]
        if wrong or not isinstance(answer, str):
            problems.append((line, wrong[0]))
            continue
        target = 0 if bare else nodes[0][1].node
        assert target is not None
        counts["without node"] += bare
        counts["beyond"] += any(node.outside for _, node in nodes)
        counts["moved"] += any(node.moved for _, node in nodes)
        style, image = (record.get(column) if column else None for column in (columns.style, columns.image))
        picture = None if _is_nothing(image) else Path(path).parent / str(image)
        nodes_meant = frozenset((target, *(node.node for _, node in nodes if node.node is not None)))
        found.append((line, answer, target, nodes_meant, None if _is_nothing(style) else str(style), picture))
    if problems:
        unanswered = any(what == _MISSING for _, what in problems)
        remedy = ", or leave those without an answer out with --missing leave-out." if unanswered else "."
        raise rows_error(problems, file, len(records), remedy=f"Correct these rows{remedy}")
    reasons = Counter(reason for _, reason in excluded)
    if not found:
        raise DataError(
            "No row is left to use: " + ", ".join(f"{reason} in {count:,}" for reason, count in reasons.items()) + ".",
            file=file,
            remedy="Check the root." if reasons[outside] else None,
        )
    notes = [f"{count:,} of {len(records):,} rows are left out: {reason}" for reason, count in reasons.items()]
    if counts["without node"]:
        root = "the root" if part is None else f"the root, {part.label}"
        notes.insert(0, f"{counts['without node']:,} of {len(found):,} answers name no node; their target is {root}")
    for n, what in (
        (counts["beyond"], f"acceptable nodes outside {outside.removeprefix('node outside ')}, which do not count"),
        (counts["moved"], "nodes that are paths of another tree, found by their last name"),
    ):
        if n:
            notes.append(f"{n:,} of {len(found):,} answers have {what}")
    rows, answers, targets, acceptable, styles, images = zip(*found, strict=True)
    return AnnotatedAnswers(file, rows, answers, targets, acceptable, styles, images, tuple(notes), tuple(excluded))


def _is_nothing(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip()) or value == []


def _items(value: object) -> Sequence[object] | None:
    """Returns the nodes of a list, or of a cell with ";" or "|" between them; None if it is neither."""
    if isinstance(value, str):
        return [part.strip() for part in value.replace("|", ";").split(";") if part.strip()]
    return [] if value is None else value if isinstance(value, list) else None
