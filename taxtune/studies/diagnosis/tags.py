"""Whether a wrong answer names something else that is in the image: paper 2's check by a tagging model.

The tags come from a file: a tagging model's own, or the answers of any model that was asked to list what it sees.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from taxtune.answers import AnswerRow, AnswerSchema, AnswerTable, read_answers
from taxtune.answers.measured import mean_interval
from taxtune.answers.read import rows_error
from taxtune.answers.records import open_table
from taxtune.errors import DataError
from taxtune.mapping.unwrap import unwrap
from taxtune.metrics.chunks import RuleChunker
from taxtune.metrics.registry import Measure
from taxtune.report.output import Table

__all__ = ["Tagged", "read_tags", "tagged", "tags_table"]


class Tagged(NamedTuple):
    """The tags of an image, those that the answer names, and whether a verdict that may have found one is missing."""

    tags: tuple[str, ...]
    named: tuple[str, ...]
    unscored: bool


def read_tags(path: str | Path, answers: AnswerTable, id_column: str) -> tuple[list[tuple[str, ...] | None], list[str]]:
    """Returns the tags of each answer's image, and what a reader should know of the file.

    Args:
        path: A file of answers, in any format, whose rows are found by the column of ids or else by "image". The column
            "tags" holds a list (in a table a JSON list), or a text with commas, semicolons, bars or line breaks between
            tags. Where there is no such column, "answer" does: a list, or a text of which every phrase is a tag.
        answers: The answers.
        id_column: Their column of ids.

    Returns:
        For each answer its tags, none where the image shows nothing to the tagger, or None where the file lacks the
        image or its tags.

    Raises:
        DataError: If the file cannot be read, lacks a column, or has a row without an id or twice the same, or the
            answers cannot be found in it.
    """
    columns = {name for _, record in open_table(path, what="tags").rows for name in record}
    key = next((name for name in (id_column, "image") if name in columns), None)
    if key is None:
        raise DataError(
            f"The tags have neither the column {id_column!r} nor 'image', by which images are found.",
            file=path,
            value=sorted(columns),
            remedy="Give each row the id of the answer that its image goes with.",
        )
    column = "tags" if "tags" in columns else "answer"
    table = read_answers(path, AnswerSchema(answer=column, id=key, missing="keep"))
    for of, remedy in ((table, "Give every row of tags its image."), (answers, f"Give every answer its {key}.")):
        lacking = [(row.row, f"{key} is missing") for row in of.rows if row.fields.get(key) in (None, "")]
        if lacking:
            raise rows_error(lacking, of.file, len(of.rows), remedy=remedy)
    rows = {str(row.fields[key]): row for row in table.rows}
    wanted = [str(row.fields[key]) for row in answers.rows]
    if not set(wanted) & rows.keys():
        raise DataError(
            f"No answer has the {key} of a row of tags.",
            file=path,
            value=f"{wanted[0]!r} among the answers, {next(iter(rows))!r} among the tags",
            remedy="Give the tags of the same images.",
        )
    notes = [note for note in table.notes if "empty" not in note]
    if surplus := len(rows.keys() - set(wanted)):
        notes.append(f"{table.file}: {surplus:,} of {len(rows):,} rows of tags belong to no answer")
    return [_tags(rows[name], column) if name in rows else None for name in wanted], notes


def _tags(row: AnswerRow, column: str) -> tuple[str, ...] | None:
    if row.answer is None:
        return None
    lines = unwrap(row.answer).lines
    if isinstance(row.fields[column], list):
        parts = list(row.guesses)
    elif column == "tags":
        parts = [part for line in lines for part in re.split(r"[,;|]", line)]
    else:
        parts = [phrase for phrases in RuleChunker().chunks(lines) for phrase in phrases]
    return tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))


def tagged(
    measure: Measure,
    answers: Sequence[str],
    tags: Sequence[Sequence[str] | None],
    questions: Sequence[str] | None = None,
) -> list[Tagged | None]:
    """Returns which tags of its image each answer names; None where the image has not been tagged.

    Args:
        measure: An inclusion measure: its verdict on an answer with a tag as the label, yes from 0.5 on.
        answers: The answers.
        tags: The tags of each answer's image.
        questions: The prompt of each answer, for a judge.
    """
    pairs = [(i, tag) for i, some in enumerate(tags) for tag in some or ()]
    asked = None if questions is None else [questions[i] for i, _ in pairs]
    texts = [answers[i] for i, _ in pairs]
    scores = measure.scores(texts, [tag for _, tag in pairs], questions=asked) if pairs else np.zeros(0)
    verdicts: list[dict[str, float]] = [{} for _ in answers]
    for (i, tag), score in zip(pairs, scores.tolist(), strict=True):
        verdicts[i][tag] = score
    found: list[Tagged | None] = []
    for some, of in zip(tags, verdicts, strict=True):
        named = tuple(tag for tag, score in of.items() if score >= 0.5)
        missing = any(score != score for score in of.values())
        found.append(None if some is None else Tagged(tuple(some), named, missing and not named))
    return found


def tags_table(
    found: Sequence[Tagged | None], views: Mapping[str, Sequence[str]], *, resamples: int, seed: int
) -> Table:
    """Returns the share of the answers of each type that name a tag of their image.

    Args:
        found: What the tags say of each answer.
        views: The type of each answer, an enum's member, by the name of what the types are from; "correct" and
            "unscored" are not wrong.
        resamples: Bootstrap resamples of the shares.
        seed: Their seed.
    """
    hits = np.array([np.nan if one is None or one.unscored else float(bool(one.named)) for one in found])
    has_tags = np.array([one is not None for one in found])
    rows: list[tuple[Any, ...]] = []
    for view, types in views.items():
        listed: dict[str, set[str]] = {kind: {kind} for kind in map(str, type(types[0])) if kind != "unscored"}  # type: ignore[call-overload]
        for name, members in {**listed, "all wrong": {*listed} - {"correct"}}.items():
            here = np.array([str(kind) in members for kind in types])
            share, of_tagged = mean_interval(hits[here], resamples=resamples, seed=seed), hits[here & has_tags]
            counts = (len(of_tagged), int(np.isnan(of_tagged).sum()), int((of_tagged == 1).sum()))
            cells: tuple[Any, ...] = (None, None)
            if share is not None:
                cells = (100 * share.estimate, f"{100 * share.low:.1f} to {100 * share.high:.1f}")
            rows.append((view, name, int(here.sum()), *counts, *cells))
    return Table(
        "tags",
        "Answers that name something a tag says is in the image",
        ("by", "type", "answers", "tagged", "unscored", "name a tag", "%", "95 %"),
        tuple(rows),
        {"%": 1},
        (
            "Of the tagged and scored answers, with a 95 % bootstrap interval. An answer names a tag where the "
            "inclusion measure says so. A wrong one that does may be right about an image with several labels, or "
            "merely too general. The share of correct answers shows how many of the labels are among the tags.",
        ),
    )
