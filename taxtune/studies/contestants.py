"""The models or prompts that a study compares: NAME=FILE arguments, columns that split a file, lists of guesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from taxtune.answers import AnswerTable, split_by
from taxtune.errors import DataError
from taxtune.taxonomy import Domain, Taxonomy

if TYPE_CHECKING:
    from taxtune.studies.prompts.settings import PromptsSettings
    from taxtune.studies.ranking.settings import RankingSettings

__all__ = ["guess_name", "named_paths", "read_models", "read_prompts", "with_guess"]


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


def read_models(
    settings: RankingSettings, taxonomy: Taxonomy | None, part: Domain | None = None, *, named: bool = False
) -> dict[str, AnswerTable]:
    """Returns the answers by model, or by model and choice of guesses.

    Args:
        settings: The files, the column that splits the one file into models, and the choices of guesses.
        taxonomy: The tree of the targets; None where they are texts.
        part: The domain that the tree is a part of; None where it is the whole.
        named: Whether a model is named beside its guesses even if it is the only one.

    Raises:
        DataError: If a file cannot be used, or a column splits several files.
    """
    files = named_paths(settings.files)
    if settings.by is None:
        models = {name: settings.read_answers(path, taxonomy, part) for name, path in files.items()}
    else:
        models = split_by(settings.read_answers(_only(files, "--by"), taxonomy, part, (settings.by,)), settings.by)
    if not settings.guess:
        return models
    return {
        guess if len(models) == 1 and not named else f"{name}, {guess}": answers
        for name, model in models.items()
        for guess, answers in _by_guess(model, settings.guess).items()
    }


def read_prompts(
    settings: PromptsSettings, taxonomy: Taxonomy, part: Domain | None = None
) -> dict[str, dict[str, AnswerTable]]:
    """Returns the answers by model and prompt.

    Args:
        settings: MODEL:PROMPT=FILE arguments; or one file (MODEL=FILE or alone) with the columns of its models and
            prompts, or with choices of guesses that stand for prompts.
        taxonomy: The tree of the targets.
        part: The domain that the tree is a part of; None where it is the whole.

    Raises:
        DataError: If a file cannot be used, or the names are not MODEL:PROMPT.
    """
    files = named_paths(settings.files)
    by_model, by_prompt = settings.model_column, settings.prompt_column
    if settings.guess and by_prompt is not None:
        raise DataError("--prompt-column and --guess exclude each other.", remedy="Give one of them.")
    if by_prompt is None and not settings.guess:
        if by_model is not None:
            raise DataError("--model-column needs --prompt-column, or --guess.", value=by_model)
        by_name: dict[str, dict[str, AnswerTable]] = {}
        for name, path in files.items():
            model, _, prompt = name.partition(":")
            if not model.strip() or not prompt.strip():
                raise DataError(
                    "The argument does not say which model and prompt the file is for.",
                    value=f"{name}={path}",
                    remedy="Give MODEL:PROMPT=FILE, or one file with --prompt-column.",
                )
            by_name.setdefault(model, {})[prompt] = settings.read_answers(path, taxonomy, part)
        return by_name
    by = [column for column in (by_model, by_prompt) if column is not None]
    if by_model is None:
        models = {name: settings.read_answers(path, taxonomy, part, by) for name, path in files.items()}
    else:
        models = split_by(settings.read_answers(_only(files, "--model-column"), taxonomy, part, by), by_model)
    return {
        name: _by_guess(answers, settings.guess) if by_prompt is None else split_by(answers, by_prompt)
        for name, answers in models.items()
    }


def _only(files: Mapping[str, str], option: str) -> str:
    if len(files) != 1:
        raise DataError(f"{option} splits one file, but {len(files)} were given.", value=list(files))
    return next(iter(files.values()))


def _by_guess(answers: AnswerTable, guesses: Sequence[str]) -> dict[str, AnswerTable]:
    return {guess_name(guess): with_guess(answers, guess) for guess in dict.fromkeys(guesses)}


def with_guess(answers: AnswerTable, guess: str) -> AnswerTable:
    """Returns the same rows with one guess, or several joined by ", ", as the answer.

    A single text with commas ("Boxer, Bulldog") is read as a list. A row with fewer guesses has no answer and is
    counted as missing; a row without any guess remains an answer that says nothing.

    Args:
        answers: The rows.
        guess: "2" for the second guess alone, "top-3" for the first three joined, "all" for all of them joined.

    Raises:
        DataError: If there is no such choice.
    """
    chosen = _guess_range(guess)
    rows = []
    missing = 0
    for row in answers.rows:
        guesses = row.guesses
        if len(guesses) == 1:
            guesses = tuple(part.strip() for part in guesses[0].split(",") if part.strip()) or guesses
        answer = row.answer if not guesses else ", ".join(guesses[chosen]) or None
        missing += answer is None and row.answer is not None
        rows.append(replace(row, answer=answer))
    notes = answers.notes
    if missing:
        notes += (f"{answers.file}: {missing:,} of {len(rows):,} rows have no guess {guess} and count as missing",)
    return replace(answers, rows=tuple(rows), notes=notes)


def _guess_range(guess: str) -> slice:
    if guess == "all":
        return slice(None)
    number = guess.removeprefix("top-")
    if not number.isascii() or not number.isdigit() or int(number) < 1:
        raise DataError("Unknown guess.", value=guess, remedy="Use a number (such as 2), top-3 or all.")
    return slice(0 if guess.startswith("top-") else int(number) - 1, int(number))


def guess_name(guess: str) -> str:
    """Returns the name of a choice of guesses in tables: "guess 2", "top 3", "all guesses"."""
    last = _guess_range(guess).stop
    return "all guesses" if last is None else f"top {last}" if guess.startswith("top-") else f"guess {last}"
