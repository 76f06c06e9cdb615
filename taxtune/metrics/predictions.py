"""Reading a file of answers, or of predicted nodes, beside the targets that they are scored against.

A CSV or JSONL file with the column `target`, and `predicted` (a node) or `answer` (free text, to be placed on the tree
by a mapper). Nodes are given by label, alias or path.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from taxtune.errors import DataError, TaxonomyError
from taxtune.tables import parse_table, read_text
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["EMPTY", "Predictions", "node_resolver", "problems_error", "read_predictions", "read_records"]

#: What to do with an answer that is not there: refuse the file, place it on the root, or leave the row out and say so.
EMPTY = ("error", "abstain", "leave-out")

_LISTED = 20
# No number of a node: what is named lies outside the part of the taxonomy that is scored.
_OUTSIDE = -1


@dataclass(frozen=True, slots=True)
class Predictions:
    """The rows of a file that can be scored.

    Attributes:
        file: The file.
        kind: Whether the rows hold answers or predicted nodes.
        rows: The 1-based line of each row.
        targets: The target node of each row.
        predicted: The predicted node of each row; empty where `kind` is "answer".
        answers: The answer of each row; empty where `kind` is "predicted".
        left_out: Lines of rows without an answer that are left out.
        outside: Lines of rows whose target lies outside the part of the taxonomy that is scored; they are left out.
        notes: What else the user should know.
    """

    file: str
    kind: Literal["answer", "predicted"]
    rows: tuple[int, ...]
    targets: tuple[int, ...]
    predicted: tuple[int, ...]
    answers: tuple[str, ...]
    left_out: tuple[int, ...]
    notes: tuple[str, ...]
    outside: tuple[int, ...] = ()


def read_predictions(
    path: str | Path, taxonomy: Taxonomy, *, empty: str = "error", part: Domain | None = None
) -> Predictions:
    """Reads answers or predicted nodes, and their targets.

    Args:
        path: A CSV file, or a JSONL file with an object a line.
        taxonomy: The tree that the nodes are on.
        empty: One of `EMPTY`: what to do where a CSV cell `answer` is empty or a JSONL `answer` is null, since it may
            mean an empty answer or a failed call. (An `answer` of "" in JSONL is an empty answer.)
        part: What `taxonomy` is a part of. Rows whose target is elsewhere on the whole tree are left out.

    Raises:
        DataError: If the file cannot be read, lacks a column, or has rows that cannot be used; one message names them
            all, up to 20, with the nearest names for labels that are not on the taxonomy. A predicted node outside the
            part is such a row: it shares no node with the target there, and no hP can be given for it.
    """
    file = str(path)
    records = read_records(path, what="predictions")
    columns = {name for _, record in records for name in record}
    if "target" not in columns or not columns & {"answer", "predicted"}:
        raise DataError(
            "The file needs the column target, and answer or predicted.", file=file, row=1, value=sorted(columns)
        )
    kind: Literal["answer", "predicted"] = "predicted" if "predicted" in columns else "answer"
    notes: tuple[str, ...] = ()
    if {"answer", "predicted"} <= columns:
        notes = ("The column predicted is scored; the column answer beside it is not used.",)
    problems: list[tuple[int, str]] = []
    resolve = node_resolver(taxonomy, part)
    rows: list[int] = []
    targets: list[int] = []
    predicted: list[int] = []
    answers: list[str] = []
    left_out: list[int] = []
    outside: list[int] = []
    for line, record in records:
        target = _node(record.get("target"), "target", resolve, line, problems)
        if target == _OUTSIDE:
            outside.append(line)
            continue
        if kind == "predicted":
            node = _node(record.get("predicted"), "predicted", resolve, line, problems)
            if target is None or node is None:
                continue
            if node == _OUTSIDE and part is not None:
                problems.append((line, f"predicted: {record['predicted']!r} lies outside {part.label!r}"))
                continue
            predicted.append(node)
        else:
            answer = record.get("answer")
            if answer is not None and not isinstance(answer, str):
                problems.append((line, f"answer is no text but {answer!r}"))
                continue
            if answer is None and empty != "abstain":
                if empty == "leave-out":
                    left_out.append(line)
                else:
                    problems.append((line, "answer is empty"))
                continue
            if target is None:
                continue
            answers.append(answer or "")
        rows.append(line)
        targets.append(target)
    if problems:
        remedy = "Correct these rows or remove them."
        if any(what == "answer is empty" for _, what in problems):
            remedy += (
                " For empty answers say what they mean: --empty abstain (the model said nothing) or --empty leave-out "
                "(the call failed)."
            )
        raise problems_error(problems, file, len(records), remedy=remedy)
    if not rows and outside and part is not None:
        raise DataError(
            f"No target lies below {part.label!r}, so there is nothing to score.", file=file, remedy="Check the root."
        )
    if not rows:
        raise DataError("No row has an answer, so there is nothing to score.", file=file)
    return Predictions(
        file,
        kind,
        tuple(rows),
        tuple(targets),
        tuple(predicted),
        tuple(answers),
        tuple(left_out),
        notes,
        tuple(outside),
    )


def read_records(path: str | Path, *, what: str) -> list[tuple[int, dict[str, Any]]]:
    """Reads a CSV file, or a JSONL file with an object a line: the 1-based line of each record, and the record.

    Args:
        path: The file.
        what: What it holds, for messages.

    Raises:
        DataError: If the file cannot be read or a line is no record. (A cell of a CSV file that is empty is None.)
    """
    file = str(path)
    text = read_text(Path(path), error=DataError, what=what)
    # The name decides, so that a JSONL file with a spoilt first line is not taken for a table; else the content does.
    named = Path(path).suffix.lower() in (".jsonl", ".ndjson")
    return _json_lines(text, file) if named or text.lstrip()[0] in "{[" else _csv_records(text, file)


def _csv_records(text: str, file: str) -> list[tuple[int, dict[str, Any]]]:
    table = parse_table(text, file, error=DataError, tidy=False)
    for row in table.rows:
        if any(cell.strip() for cell in row.cells[len(table.header) :]):
            raise DataError(
                f"The row has {len(row.cells)} cells, the header {len(table.header)}.",
                file=file,
                row=row.line,
                value=row.cells[len(table.header)],
                remedy="Put text that holds a comma in double quotes.",
            )
    # An empty cell is no value: CSV cannot tell an empty text from none.
    return [
        (row.line, {name: row.cell(i) if row.cell(i).strip() else None for i, name in enumerate(table.header)})
        for row in table.rows
    ]


def _json_lines(text: str, file: str) -> list[tuple[int, dict[str, Any]]]:
    records = []
    # Not splitlines(): it also splits at characters that may stand unescaped inside a JSON text.
    for line, source in enumerate(text.split("\n"), start=1):
        if not source.strip():
            continue
        try:
            record = json.loads(source)
        except (json.JSONDecodeError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise DataError(
                "The line is not a JSON object.",
                file=file,
                row=line,
                value=source.strip(),
                remedy="JSONL has one object a line.",
            )
        records.append((line, record))
    return records


def node_resolver(taxonomy: Taxonomy, part: Domain | None) -> Callable[[str | tuple[str, ...]], int | str]:
    """Returns a function that looks up what a label, alias or path refers to, each once.

    Args:
        taxonomy: The tree that nodes are looked up on.
        part: What it is a part of, if it is one.

    Returns:
        The function; it returns the number of the node, -1 where it lies outside the part, or what is wrong.
    """
    known: dict[str | tuple[str, ...], int | str] = {}

    def resolve(reference: str | tuple[str, ...]) -> int | str:
        if reference not in known:
            try:
                node = taxonomy.resolve(reference) if part is None else part.locate(reference)
                known[reference] = _OUTSIDE if node is None else node
            except TaxonomyError as error:
                known[reference] = f"{error.message} {error.remedy or ''}".strip()
        return known[reference]

    return resolve


def _node(
    value: object,
    column: str,
    resolve: Callable[[str | tuple[str, ...]], int | str],
    line: int,
    problems: list[tuple[int, str]],
) -> int | None:
    if isinstance(value, list) and value and all(isinstance(label, str) for label in value):
        value = tuple(value)
    if value is None or value == "" or (isinstance(value, str) and not value.strip()):
        problems.append((line, f"{column} is empty"))
        return None
    if not isinstance(value, str | tuple):
        problems.append((line, f"{column} is no label or path but {value!r}"))
        return None
    found = resolve(value)
    if isinstance(found, str):
        problems.append((line, f"{column}: {found}"))
        return None
    return found


def problems_error(problems: Sequence[tuple[int, str]], file: str, total: int, *, remedy: str) -> DataError:
    """Returns one error that names what is wrong with the rows of a file, up to 20 of them.

    Args:
        problems: The line of each bad row, and what is wrong with it.
        file: The file.
        total: How many rows it has.
        remedy: What to do.
    """
    lines = [f"\n  row {line}: {what}" for line, what in problems[:_LISTED]]
    if len(problems) > _LISTED:
        lines.append(f"\n  and {len(problems) - _LISTED} more")
    rows = len({line for line, _ in problems})
    return DataError(f"{rows} of {total} rows cannot be used:{''.join(lines)}\n{remedy}", file=file)
