"""Which columns of a file hold the answers and the truths, told by their names and values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from taxtune.answers.records import Records
from taxtune.answers.schema import AnswerSchema
from taxtune.answers.targets import target_finder
from taxtune.data.columns import ANSWERS, LABELS, TRUTHS, find_column, named
from taxtune.errors import DataError
from taxtune.tables import column_key
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["schema_of"]

#: Names that other tools give these columns.
_ALSO = {"truth": "target", "placement": "predicted"}
_USUAL_TRUTHS = tuple(dict.fromkeys((*TRUTHS, "answer", *LABELS)))


def schema_of(opened: Records, schema: AnswerSchema) -> tuple[AnswerSchema, list[str]]:
    """Returns the schema with the columns of a file, and a phrase on each that was found.

    Raises:
        DataError: If a column is missing that rows need or that a user named, or one column is both
            what is scored and the truth.
    """
    columns = opened.columns
    names = {}
    for key in ("truth", "placement", "reference"):
        name = getattr(schema, key)
        other = _ALSO.get(name, name)
        names[key] = other if name not in columns and other in columns else name
    schema = replace(schema, **names)
    truth = _find_truth(opened, schema)
    answer = _find_answer(opened, schema, truth)
    scored = schema.placement if schema.placement in columns else answer
    if schema.taxonomy is not None and scored == truth and truth in columns:
        raise DataError(
            "One column cannot be both what is scored and the truth.",
            file=opened.file,
            value=truth,
            remedy="Name the other one with --answer-column, --placement-column or --truth-column.",
        )
    found = []
    if answer != schema.answer:
        found.append(f"answer from the column {answer!r}")
    if truth != schema.truth:
        found.append(f"truth from the column {truth!r}")
    schema = replace(schema, answer=answer, truth=truth)
    _check_columns(opened.file, columns, schema)
    return schema, found


def _find_truth(opened: Records, schema: AnswerSchema) -> str:
    columns = opened.columns
    if schema.taxonomy is None or schema.truth in columns:
        return schema.truth
    if schema.truth not in ("truth", "target"):
        return schema.truth
    answers = named(columns, ANSWERS)
    others = [name for name in columns if name not in (*answers, schema.placement, schema.id)]
    if not named(others, TRUTHS) and len(answers) > 1:
        # A column called answer is the right one where the model's has another name.
        others += named(answers, ["answer"])
    fits = _lowest(schema.taxonomy, _nodes_by_column(opened, schema, others))
    if len(fits) != 1 and not named(others, _USUAL_TRUTHS):
        return schema.truth
    return find_column("truth", None, others, _USUAL_TRUTHS, fits, opened.file)


def _find_answer(opened: Records, schema: AnswerSchema, truth: str) -> str:
    if schema.answer not in ("answer", truth):
        return schema.answer
    taken = {
        truth,
        schema.reference,
        f"{schema.reference}s",
        schema.placement,
        schema.id,
        schema.question,
    }
    rest = [name for name in opened.columns if name not in taken]
    found = named(rest, ["answer", *ANSWERS[:-1]])
    # A copy of the truths is no answer where there is another.
    for name in found:
        if any(record.get(name) != record.get(truth) for _, record in opened.rows):
            return name
    return found[0] if found else schema.answer


def _nodes_by_column(
    opened: Records, schema: AnswerSchema, columns: Iterable[str]
) -> dict[str, list[int | None]]:
    """Returns the node in each row of the columns whose values all name nodes.

    A value outside of the part names a node, too.
    """
    assert schema.taxonomy is not None
    find = target_finder(schema.taxonomy, schema.part, suggest=0, words=schema.words)
    found = {}
    for column in columns:
        values = [record.get(column) for _, record in opened.rows]
        targets = [find(value) for value in values if value is not None]
        if any(target.problem for target in targets):
            continue
        if any(not target.phrase for target in targets):
            found[column] = [None if value is None else find(value).node for value in values]
    return found


def _lowest(tree: Taxonomy, nodes: Mapping[str, Sequence[int | None]]) -> list[str]:
    """Returns the columns whose nodes are below those of all others in every row.

    "category" is vehicle where "answer" is taxi. It is all columns where there is no such one.
    """

    def is_below(column: str, other: str) -> bool:
        for low, high in zip(nodes[column], nodes[other], strict=True):
            if low is not None and high is not None and not tree.is_ancestor(high, low):
                return False
        return True

    lowest = [column for column in nodes if all(is_below(column, other) for other in nodes)]
    return lowest or [*nodes]


def _check_columns(file: str, columns: Sequence[str], schema: AnswerSchema) -> None:
    """Raises a `DataError` if a column is missing that rows need or that a user named."""
    if not columns:
        return
    has_nodes = schema.placement in columns or schema.placement not in (None, "placement")
    needed = [schema.placement if has_nodes else schema.answer]
    if schema.taxonomy is not None:
        needed.append(schema.truth)
    if f"{schema.reference}s" not in columns:
        needed.append(schema.reference)
    needed += [*schema.where, *schema.by]
    if schema.id != "id":  # files without ids are common
        needed.append(schema.id)
    for name in needed:
        if name is None or name in columns:
            continue
        # CSV headers are read in lower case, with underscores for spaces.
        near = column_key(name)
        remedy = "Give the names of existing columns."
        if near in columns:
            remedy = f"Did you mean {near!r}?"
        if name == schema.answer and schema.placement is not None:
            remedy = (
                f"It needs {schema.placement} (a node) or {schema.answer} (text). Columns of other "
                "names are given with --placement-column, --answer-column and --truth-column."
            )
        raise DataError(
            f"The file has no column {name!r}.", file=file, value=sorted(columns), remedy=remedy
        )
