"""The models or prompts that a study compares: their files, one frame of their answers, placements and text scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taxtune.answers import AnswerRow, AnswerTable
from taxtune.answers.matching import align, excluded_records, split_by
from taxtune.errors import DataError
from taxtune.metrics.base import name_scores
from taxtune.metrics.consensus import Cider
from taxtune.metrics.hierarchical import score
from taxtune.metrics.registry import Measure
from taxtune.scoring.nodes import as_child, place_texts
from taxtune.studies.settings import ContestantSettings, check_inputs
from taxtune.taxonomy import Domain, Taxonomy

if TYPE_CHECKING:
    from taxtune.mapping import Mapper, Placement

__all__ = [
    "COUNTS",
    "Contest",
    "answer_counts",
    "check_headings",
    "check_measures",
    "gather",
    "measure_notes",
    "missing_note",
    "named_paths",
    "place_answers",
    "place_distinct",
    "question_of",
    "read_tables",
    "text_scores",
    "trivial_answer",
    "with_guess",
]

#: The columns that count a model's answers.
COUNTS = ["answers", "missing", "abstained", "off the tree"]


# -- files ------------------------------------------------------------------------------------------------------------


def named_paths(arguments: Sequence[str]) -> dict[str, str]:
    """Returns files by name: "NAME=FILE", or a file alone, named after itself without the ending.

    Raises:
        DataError: If there is none, or two have the same name.
    """
    if not arguments:
        raise DataError("No file of answers was given.", remedy="Give NAME=FILE one or more times.")
    files: dict[str, str] = {}
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if not equals or Path(argument).exists():
            # resolve() gives a folder its own name where it is given as "." or with a slash at its end.
            name, path = Path(argument).resolve().stem, argument
        if not name.strip() or not path:
            raise DataError("The argument is not NAME=FILE.", value=argument)
        if name in files:
            remedy = "Give each a different name, as NAME=FILE."
            raise DataError("Two files have the same name.", value=name, remedy=remedy)
        files[name] = path
    return files


def read_tables(
    files: Mapping[str, str],
    settings: ContestantSettings,
    taxonomy: Taxonomy,
    part: Domain | None = None,
) -> dict[tuple[str, str], AnswerTable]:
    """Returns the answers by the name of their file, and the value of `by` or the choice of guesses in it ("" if none).

    Raises:
        DataError: If a file cannot be used, or there is no such choice of guesses.
    """
    if settings.by and settings.guess:
        raise DataError("--by and --guess exclude each other.", remedy="Give one of them.")
    by = (settings.by,) if settings.by else ()
    tables: dict[tuple[str, str], AnswerTable] = {}
    for name, path in files.items():
        table = settings.read_answers(path, taxonomy, part, by)
        if settings.by:
            for value, rows in split_by(table, settings.by).items():
                tables[name, value] = rows
            continue
        for guess in settings.guess:
            tables[name, guess_name(guess)] = with_guess(table, guess)
        if not settings.guess:
            tables[name, ""] = table
    return tables


def with_guess(answers: AnswerTable, guess: str) -> AnswerTable:
    """Returns the same rows with one guess, or several joined by ", ", as the answer.

    `guess` is "2" for the second guess alone, "top-3" for the first three joined, "all" for all of them joined; a
    DataError says that there is no such choice. A single text with commas ("Boxer, Bulldog") is read as a list. A row
    with fewer guesses has no answer and is counted as missing; a row without any remains an answer that says nothing.
    """
    chosen = _guess_range(guess)
    rows = []
    missing = 0
    for row in answers.rows:
        guesses = row.guesses
        if len(guesses) == 1:
            parts = [part.strip() for part in guesses[0].split(",")]
            guesses = tuple(filter(None, parts)) or guesses
        if guesses:
            answer = ", ".join(guesses[chosen]) or None
            missing += answer is None and row.answer is not None
            row = replace(row, answer=answer)
        rows.append(row)
    notes = answers.notes
    if missing:
        lacking = f"{missing:,} of {len(rows):,} rows have no guess {guess} and count as missing"
        notes = (*notes, f"{answers.file}: {lacking}")
    return replace(answers, rows=tuple(rows), notes=notes)


def _guess_range(guess: str) -> slice:
    """Returns the guesses that are joined, as a range of a list of them."""
    if guess == "all":
        return slice(None)
    number = guess.removeprefix("top-")
    if not number.isascii() or not number.isdigit() or int(number) < 1:
        remedy = "Use a number (such as 2), top-3 or all."
        raise DataError("Unknown guess.", value=guess, remedy=remedy)
    first = 0 if guess.startswith("top-") else int(number) - 1
    return slice(first, int(number))


def guess_name(guess: str) -> str:
    """Returns the name of a choice of guesses in tables: "guess 2", "top 3", "all guesses"."""
    last = _guess_range(guess).stop
    if last is None:
        return "all guesses"
    return f"top {last}" if guess.startswith("top-") else f"guess {last}"


# -- one frame --------------------------------------------------------------------------------------------------------


class Contest(NamedTuple):
    """The answers of all models or prompts, notes on what was left out, and the excluded rows for `--json`.

    `answers` has a row per model, prompt and example: model, prompt ("" where only models are compared), answer (None
    where it is missing), target (a node) and question. The prompts of a model have the same examples in the same order.
    """

    answers: pd.DataFrame
    notes: list[str]
    excluded: list[dict[str, Any]]


def gather(
    groups: Sequence[Mapping[tuple[str, str], AnswerTable]], settings: ContestantSettings
) -> Contest:
    """Matches the tables of each group by example, by model and prompt.

    Raises:
        DataError: If examples do not match (see `align`), or an answer lacks the question that `question_column` names.
    """
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    matches = []
    for tables in groups:
        named = {":".join(filter(None, key)): table for key, table in tables.items()}
        aligned = align(named, settings.rows)
        matches.append(aligned)
        for table in named.values():
            notes += table.notes
        notes += aligned.notes
        for (model, prompt), (name, examples) in zip(tables, aligned.rows.items(), strict=True):
            for row in examples:
                question = question_of(name, row, settings.question_column)
                contestant = {"model": model, "prompt": prompt}
                example = {"answer": row.answer, "target": row.target, "question": question}
                rows.append(contestant | example)
    answers = pd.DataFrame(rows, dtype=object).astype({"target": np.int64})
    excluded = excluded_records((table for tables in groups for table in tables.values()), matches)
    # Parts of one file have the same notes.
    return Contest(answers, list(dict.fromkeys(notes)), excluded)


def place_distinct(mapper: Mapper, texts: Iterable[str]) -> dict[str, Placement]:
    """Returns the placement of each distinct text; raises a MapperError if the mapper's similarity needs images."""
    # Sorted, so that batches, and with them the last digits of an encoder's scores, do not depend on the order.
    distinct = sorted(set(texts))
    return dict(zip(distinct, place_texts(mapper, distinct), strict=True))


def place_answers(mapper: Mapper, answers: pd.DataFrame) -> pd.DataFrame:
    """Returns the answers with their placements, each distinct text placed once; errors as for `place_distinct`.

    The columns added are node (-1 where there is no answer), as_child (scored as a child of the root that is never
    right), abstained and off_tree.
    """
    by_text = place_distinct(mapper, answers["answer"].dropna())
    placements = [by_text.get(answer) for answer in answers["answer"]]
    placed = answers.copy()
    placed["node"] = [-1 if one is None else one.node for one in placements]
    placed["as_child"] = as_child(mapper, placements)
    placed["abstained"] = [one is not None and one.abstained for one in placements]
    placed["off_tree"] = [one is not None and one.off_tree for one in placements]
    return placed


def answer_counts(placed: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Returns `COUNTS` of the placed answers of each model or prompt, in their order."""
    counted = placed[by].copy()
    counted["answers"] = placed["node"] >= 0
    counted["missing"] = placed["node"] < 0
    counted["abstained"] = placed["abstained"]
    counted["off the tree"] = placed["off_tree"]
    return counted.groupby(by, sort=False)[COUNTS].sum()


# -- text measures ----------------------------------------------------------------------------------------------------


def check_measures(measures: Sequence[str | Measure], question_column: str | None) -> None:
    """Checks that files of answers hold the inputs of measures; raises the errors of `check_inputs`."""
    remedy = "Give the column with the prompts with --question-column."
    check_inputs(measures, "files of answers", questions=question_column is not None, remedy=remedy)


def check_headings(measures: Sequence[Measure], reserved: Sequence[str] = ()) -> None:
    """Raises a DataError if two headings of measures, or of one and another column of a table, are the same."""
    counts = Counter([*reserved, *(measure.label for measure in measures)])
    doubled = sorted(heading for heading, count in counts.items() if count > 1)
    if doubled:
        remedy = "Choose one of these measures."
        raise DataError("Two columns have the same heading.", value=doubled, remedy=remedy)


def question_of(name: str, row: AnswerRow, column: str | None) -> str:
    """Returns the prompt that a row answers; "" where no column with it was named.

    Raises:
        DataError: If the row has an answer and no prompt in the column.
    """
    question = "" if column is None else str(row.fields.get(column) or "")
    if column is not None and row.answer is not None and not question.strip():
        remedy = "Give the prompt that was asked."
        raise DataError(f"{name}: Row {row.row} has no {column}.", value=question, remedy=remedy)
    return question


def text_scores(
    answers: pd.DataFrame,
    measure: Measure,
    taxonomy: Taxonomy,
    reference: str,
    read: Callable[[str], str] = str,
) -> pd.Series[float]:
    """Returns the measure's score of every answer; NaN is unscored. Each distinct comparison is scored once.

    Args:
        answers: Columns answer, target and question, as in `Contest`.
        measure: The measure.
        taxonomy: The tree of the targets.
        reference: The names of a target that an answer is compared with, of which the best one counts: "common-name"
            for the preferred one, "label", or "any-name" for all.
        read: The part of an answer that is compared; by default all of it.
    """
    names: dict[int, Sequence[str]] = {}
    for target in answers["target"].unique().tolist():
        names[target] = _reference_names(taxonomy, target, reference)
    if isinstance(measure, Cider):
        # One document per target, so that a model's score does not depend on the answers of the others.
        measure.fit(list(names.values()))
    given = answers[["answer", "target", "question"]].dropna(subset="answer")
    given["answer"] = given["answer"].map(read)
    same = given.groupby(["answer", "target", "question"], sort=False)
    distinct = same.size().reset_index()
    scores = name_scores(
        measure,
        distinct["answer"].tolist(),
        [names[target] for target in distinct["target"]],
        questions=distinct["question"].tolist() if measure.needs_questions else None,
    )
    of_answers = np.asarray(scores, dtype=float)[same.ngroup()]
    return pd.Series(of_answers, index=given.index, dtype=float).reindex(answers.index)


def _reference_names(taxonomy: Taxonomy, node: int, reference: str) -> Sequence[str]:
    if reference == "label":
        return (taxonomy.labels[node],)
    if reference == "common-name":
        return (taxonomy.common_name(node),)
    return tuple(taxonomy.names(node))


# -- notes ------------------------------------------------------------------------------------------------------------


def missing_note(missing: int, scored: str) -> list[str]:
    """Returns a sentence on missing answers and what the scores are over instead; none if all answers are there."""
    if not missing:
        return []
    count = f"{missing:,} answer{' is' if missing == 1 else 's are'} missing (a failed call, or no such guess)."
    return [f"{count} Missing answers do not count as zero: {scored}."]


def trivial_answer(taxonomy: Taxonomy, targets: NDArray[np.int64], name: str | None = None) -> str:
    """Returns a sentence on the scores of always answering the lowest common ancestor of the targets, shape (n,).

    That answer is never wrong and needs no picture, so every hP and hF must be compared with it. `name` is the data set
    of the targets, where there are several.
    """
    node = taxonomy.common_ancestor(np.unique(targets).tolist())
    scores = score(taxonomy, np.full(len(targets), node), targets)
    of_set = "" if name is None else f"{name}: "
    return (
        f"{of_set}Always answering {taxonomy.labels[node]!r}, the lowest node above all targets, would have "
        f"hP {scores.hp:.3f}, hR {scores.hr:.3f}, hF {scores.hf:.3f}."
    )


def measure_notes(measures: Iterable[Measure]) -> list[str]:
    """Returns the notes of measures, each with the heading of its measure in front."""
    notes = []
    for measure in measures:
        for note in measure.notes:
            is_named = note.startswith(measure.label)
            notes.append(note if is_named else f"{measure.label}: {note}")
    return notes
