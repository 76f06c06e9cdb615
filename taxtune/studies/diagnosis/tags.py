"""Whether a wrong answer names something else that its image shows: paper 2's check by a tagging model.

The tags come from a file, and an inclusion measure says which of them an answer names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd

from taxtune.answers import AnswerTable
from taxtune.answers.records import read_records
from taxtune.answers.scores import mean_interval
from taxtune.errors import DataError
from taxtune.metrics.registry import Measure
from taxtune.report.output import Table

__all__ = ["name_tags", "read_tags", "tags_table"]


def read_tags(path: str, answers: AnswerTable, id_column: str) -> tuple[list[list[str] | None], list[str]]:
    """Reads what each image shows.

    Args:
        path: A table whose rows are found by the answers' column of ids, or else by "image". The column "tags" holds a
            list (in CSV a JSON list), or a text with commas, semicolons, bars or line breaks between tags; an empty
            cell is an image that was not tagged.
        answers: The answers.
        id_column: Their column of ids.

    Returns:
        The tags of each answer's image, or None where it was not tagged; and notes on the file.

    Raises:
        DataError: If the file cannot be read, lacks a column, has a row without an id or two with the same, or has no
            row for any answer.
    """
    numbers, records = zip(*read_records(path, what="tags"), strict=True)
    table = pd.DataFrame(records)
    key = id_column if id_column in table else "image"
    for column in (key, "tags"):
        if column not in table:
            remedy = "Give each row the id, or the image, of an answer, and its tags."
            raise DataError(f"The tags have no column {column!r}.", file=path, value=list(table), remedy=remedy)
    ids = table[key].map(lambda cell: "" if cell is None or cell != cell else str(cell))
    bad = ids.eq("") | ids.duplicated()
    if bad.any():
        i = int(bad.to_numpy().argmax())
        raise DataError(
            f"The row has no {key}, or that of an earlier row.", file=path, row=numbers[i], value=ids.iloc[i]
        )
    tags: dict[str, list[str] | None] = {}
    for row, name, cell in zip(numbers, ids, table["tags"], strict=True):
        try:
            tags[name] = _split(cell)
        except (ValueError, RecursionError):
            raise DataError("The list of tags is not JSON.", file=path, row=row, value=cell) from None
    wanted = [str(row.fields.get(key, row.id)) for row in answers.rows]
    if tags.keys().isdisjoint(wanted):
        value = f"{wanted[0]!r} among the answers, {next(iter(tags))!r} among the tags"
        remedy = "Give the tags of the same images."
        raise DataError(f"No answer has the {key} of a row of tags.", file=path, value=value, remedy=remedy)
    surplus = len(tags.keys() - set(wanted))
    notes = [f"{path}: {surplus:,} of {len(tags):,} rows of tags belong to no answer"] if surplus else []
    return [tags.get(name) for name in wanted], notes


def _split(cell: object) -> list[str] | None:
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        cell = json.loads(cell)
    if isinstance(cell, str) and cell.strip():
        cell = re.split(r"[,;|\n]", cell)
    if not isinstance(cell, list):
        return None
    return list(dict.fromkeys(tag for tag in (str(part).strip() for part in cell) if tag))


def name_tags(
    measure: Measure, answers: Sequence[str], tags: Sequence[Any], questions: Sequence[str] | None = None
) -> pd.DataFrame:
    """Returns a row per answer: the tags of its image, named (those that it names), and hit.

    `hit` is 1 where it names a tag, 0 where it names none, and NaN where its image was not tagged or a verdict that
    might have found one is missing.

    Args:
        measure: An inclusion measure: its verdict on an answer with a tag as the label, yes from 0.5 on.
        answers: The answers.
        tags: The list of tags of each answer's image, or None.
        questions: The prompt of each answer, for a judge.
    """
    frame = pd.DataFrame({"answer": answers, "question": questions, "tags": pd.Series(tags, dtype=object)})
    pairs = frame.explode("tags").dropna(subset="tags")
    given = None if questions is None else pairs["question"].tolist()
    verdicts = pd.Series(np.nan, pairs.index)
    if len(pairs):
        verdicts[:] = measure.scores(pairs["answer"].tolist(), pairs["tags"].tolist(), questions=given)
    named = pairs.loc[verdicts >= 0.5, "tags"].groupby(level=0).agg(list)
    names: list[Any] = [named.get(i, None if some is None else []) for i, some in enumerate(tags)]
    frame["named"] = names
    unscored = frame.index.isin(verdicts.index[verdicts.isna()]) & ~frame.index.isin(named.index)
    frame["hit"] = frame["named"].map(lambda some: np.nan if some is None else float(bool(some))).mask(unscored)
    return frame[["tags", "named", "hit"]]


def tags_table(verdicts: pd.DataFrame, views: Mapping[str, Sequence[StrEnum]], *, resamples: int, seed: int) -> Table:
    """Returns the share of the answers of each type that name a tag of their image.

    Args:
        verdicts: What the tags say of each answer, see `name_tags`.
        views: The type of each answer, by the name of the source of the types; "correct" and "unscored" are not wrong.
        resamples: Bootstrap resamples of the shares.
        seed: Their seed.
    """
    rows: list[tuple[Any, ...]] = []
    for view, types in views.items():
        of_answer = np.array([str(kind) for kind in types])
        members = {str(kind): [str(kind)] for kind in type(types[0]) if kind != "unscored"}
        for name, kinds in {**members, "all wrong": [kind for kind in members if kind != "correct"]}.items():
            here = verdicts[np.isin(of_answer, kinds)]
            tagged = here.loc[here["tags"].notna(), "hit"]
            counts = (len(here), len(tagged), int(tagged.isna().sum()), int((tagged == 1).sum()))
            share = mean_interval(tagged, resamples=resamples, seed=seed)
            ends = share and (100 * share.estimate, f"{100 * share.low:.1f} to {100 * share.high:.1f}")
            rows.append((view, name, *counts, *(ends or (None, None))))
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
