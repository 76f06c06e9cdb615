"""Who is compared in a study: files given as NAME=FILE, columns that part a file, guesses that part its lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from taxtune.answers import AnswerSchema, AnswerTable, read_answers, split_by
from taxtune.errors import DataError
from taxtune.studies.guesses import guess_name, with_guess

__all__ = ["named_paths", "read_models", "read_prompts"]


def named_paths(arguments: Sequence[str]) -> dict[str, str]:
    """Returns the files by name: "NAME=FILE", or a file alone, which is called by its own name without the ending.

    Raises:
        DataError: If there is none, or two have the same name.
    """
    if not arguments:
        raise DataError("No file of answers was given.", remedy="Give NAME=FILE, once or several times.")
    files: dict[str, str] = {}
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if not equals or Path(argument).exists():
            # The name of the folder itself where it is given as "." or with a slash at its end.
            name, path = Path(argument).resolve().stem, argument
        if not name.strip() or not path:
            raise DataError("The argument is not NAME=FILE.", value=argument)
        if name in files:
            raise DataError(
                "Two files have the same name.", value=name, remedy="Give each one of its own, as NAME=FILE."
            )
        files[name] = path
    return files


def read_models(
    arguments: Sequence[str], schema: AnswerSchema, *, by: str | None = None, guess: Sequence[str] = ()
) -> dict[str, AnswerTable]:
    """Returns the answers of each model.

    Args:
        arguments: NAME=FILE, or a file alone.
        schema: How the files are read.
        by: A column that parts the one file into models.
        guess: Choices of guesses (see `taxtune.studies.guesses`) that part every model into one for each choice.

    Raises:
        DataError: If a file cannot be used, or `by` is given with several files.
    """
    files = named_paths(arguments)
    if by is None:
        models = {name: read_answers(path, schema) for name, path in files.items()}
    else:
        models = split_by(read_answers(_only(files, "--by"), replace(schema, by=(by,))), by)
    if not guess:
        return models
    chosen = {}
    for name, answers in models.items():
        for choice in dict.fromkeys(guess):
            said = guess_name(choice)
            chosen[said if len(models) == 1 else f"{name}, {said}"] = with_guess(answers, choice)
    return chosen


def read_prompts(
    arguments: Sequence[str],
    schema: AnswerSchema,
    *,
    columns: tuple[str | None, str | None] = (None, None),
    guess: Sequence[str] = (),
) -> dict[str, dict[str, AnswerTable]]:
    """Returns the answers under each prompt, by model and prompt.

    Args:
        arguments: MODEL:PROMPT=FILE for each file; or one file, as MODEL=FILE or alone, with columns that part it.
        schema: How the files are read.
        columns: The columns that hold the model and the prompt, None for none.
        guess: Choices of guesses that stand for prompts, for files with one answer list a row.

    Raises:
        DataError: If a file cannot be used, or the names are not MODEL:PROMPT.
    """
    files = named_paths(arguments)
    by_model, by_prompt = columns
    if guess and by_prompt is not None:
        raise DataError("Both --prompt-column and --guess say what the prompts are.", remedy="Give one of them.")
    if by_prompt is None and not guess:
        if by_model is not None:
            raise DataError("--model-column needs --prompt-column, or --guess.", value=by_model)
        return _by_name(files, schema)
    if by_model is None:
        models = {
            name: read_answers(path, replace(schema, by=() if by_prompt is None else (by_prompt,)))
            for name, path in files.items()
        }
    else:
        parting = tuple(column for column in columns if column is not None)
        models = split_by(read_answers(_only(files, "--model-column"), replace(schema, by=parting)), by_model)
    if by_prompt is not None:
        return {name: split_by(answers, by_prompt) for name, answers in models.items()}
    return {
        name: {guess_name(choice): with_guess(answers, choice) for choice in dict.fromkeys(guess)}
        for name, answers in models.items()
    }


def _by_name(files: Mapping[str, str], schema: AnswerSchema) -> dict[str, dict[str, AnswerTable]]:
    models: dict[str, dict[str, AnswerTable]] = {}
    for name, path in files.items():
        model, colon, prompt = name.partition(":")
        if not colon or not model.strip() or not prompt.strip():
            raise DataError(
                "The file's name does not say model and prompt.",
                value=f"{name}={path}",
                remedy="Give MODEL:PROMPT=FILE, or one file with --prompt-column.",
            )
        models.setdefault(model, {})[prompt] = read_answers(path, schema)
    return models


def _only(files: Mapping[str, str], option: str) -> str:
    if len(files) != 1:
        raise DataError(f"{option} parts one file, and {len(files)} were given.", value=list(files))
    return next(iter(files.values()))
