"""Whether a wrong answer names something else that its image shows: paper 2's check by a tagging model.

The tags come from a file, and an inclusion measure says which of them an answer names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from taxtune.answers import AnswerTable, read_records
from taxtune.errors import DataError
from taxtune.metrics.registry import Measure
from taxtune.report.output import Table
from taxtune.scoring.texts import mean_interval
from taxtune.studies.output import frame_table

__all__ = ["name_tags", "read_tags", "tags_table"]

Tags = list[str] | None


def read_tags(path: str, answers: AnswerTable, id_column: str) -> tuple[list[Tags], list[str]]:
    """Returns the tags of each answer's image, None where it was not tagged, and notes on the file.

    Rows are found by the answers' column of ids, or else by "image". The column "tags" holds a list (in CSV a JSON
    list), or a text with commas, semicolons, bars or line breaks between tags; an empty cell is an image without tags.

    Raises:
        DataError: If a column, an id or a tag cannot be used, or the tags belong to no answer.
    """
    numbers, records = zip(*read_records(path, what="tags"), strict=True)
    table = pd.DataFrame(records)
    key = id_column if id_column in table else "image"
    for column in (key, "tags"):
        if column not in table:
            message = f"The tags have no column {column!r}."
            remedy = "Give each row the id, or the image, of an answer, and its tags."
            raise DataError(message, file=path, value=list(table), remedy=remedy)
    tags: dict[str, Tags] = {}
    for row, cell, listed in zip(numbers, table[key], table["tags"], strict=True):
        name = "" if cell is None or cell != cell else str(cell)
        if not name or name in tags:
            message = f"The row has no {key}, or that of an earlier row."
            raise DataError(message, file=path, row=row, value=name)
        try:
            tags[name] = _split(listed)
        except (ValueError, RecursionError):
            message = "The list of tags is not JSON."
            raise DataError(message, file=path, row=row, value=listed) from None
    wanted = [str(row.fields.get(key, row.id)) for row in answers.rows]
    if tags.keys().isdisjoint(wanted):
        message = f"No answer has the {key} of a row of tags."
        value = f"{wanted[0]!r} among the answers, {next(iter(tags))!r} among the tags"
        remedy = "Give the tags of the same images."
        raise DataError(message, file=path, value=value, remedy=remedy)
    notes = []
    surplus = len(tags.keys() - set(wanted))
    if surplus:
        notes.append(f"{path}: {surplus:,} of {len(tags):,} rows of tags belong to no answer")
    return [tags.get(name) for name in wanted], notes


def _split(cell: object) -> Tags:
    """Returns the tags in a cell; None where it is neither a list nor a text with tags."""
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        cell = json.loads(cell)
    if isinstance(cell, str) and cell.strip():
        cell = re.split(r"[,;|\n]", cell)
    if not isinstance(cell, list):
        return None
    tags = [str(part).strip() for part in cell]
    return list(dict.fromkeys(filter(None, tags)))


def name_tags(measure: Measure, frame: pd.DataFrame, tags: Sequence[Tags]) -> pd.DataFrame:
    """Returns the tags of each answer's image, those that it names, and whether it names any (hit).

    `hit` is NaN where the image was not tagged, or a verdict that might have found a tag is missing.
    """
    tagged = frame[["answer", "question"]].copy()
    tagged["tags"] = pd.Series(list[Any](tags), dtype=object)
    pairs = tagged.explode("tags").dropna(subset="tags")
    verdicts = pd.Series(np.nan, pairs.index)
    if len(pairs):
        questions = pairs["question"].tolist() if measure.needs_questions else None
        answers, names = pairs["answer"].tolist(), pairs["tags"].tolist()
        verdicts[:] = measure.scores(answers, names, questions=questions)
    named = pairs.loc[verdicts >= 0.5, "tags"].groupby(level=0).agg(list)
    named_tags: list[Tags] = []
    for i, own in enumerate(tags):
        nothing: Tags = None if own is None else []
        named_tags.append(named.get(i, nothing))
    tagged["named"] = pd.Series(list[Any](named_tags), dtype=object)
    hit = tagged["named"].map(lambda some: np.nan if some is None else float(bool(some)))
    unscored = tagged.index.isin(verdicts.index[verdicts.isna()])
    tagged["hit"] = hit.mask(unscored & ~tagged.index.isin(named.index))
    return tagged[["tags", "named", "hit"]]


def tags_table(
    frame: pd.DataFrame, types: Mapping[str, Sequence[Any]], *, resamples: int, seed: int
) -> Table:
    """Returns the share of the answers of each type, by each source of types, that name a tag of their image."""
    rows = []
    for source, of_answers in types.items():
        kinds = pd.Series(of_answers, frame.index).map(str)
        names = [str(kind) for kind in type(of_answers[0]) if kind != "unscored"]
        wrong = kinds.isin([name for name in names if name != "correct"])
        groups = {name: kinds == name for name in names} | {"all wrong": wrong}
        for name, is_member in groups.items():
            members = frame[is_member]
            hits = members.loc[members["tags"].notna(), "hit"]
            row: dict[str, Any] = {"by": source, "type": name, "answers": len(members)}
            row["tagged"] = len(hits)
            row["unscored"] = int(hits.isna().sum())
            row["name a tag"] = int((hits == 1).sum())
            share = mean_interval(hits, resamples=resamples, seed=seed)
            if share is not None:
                row["%"] = 100 * share.estimate
                row["95 %"] = f"{100 * share.low:.1f} to {100 * share.high:.1f}"
            rows.append(row)
    columns = ["by", "type", "answers", "tagged", "unscored", "name a tag", "%", "95 %"]
    return frame_table(
        "tags",
        "Answers that name something a tag says is in the image",
        pd.DataFrame(rows, columns=columns),
        "Of the tagged and scored answers, with a 95 % bootstrap interval. An answer names a tag where the inclusion "
        "measure says so. A wrong one that does may be right about an image with several labels, or merely too "
        "general. The share of correct answers shows how many of the labels are among the tags.",
        digits={"%": 1},
    )
