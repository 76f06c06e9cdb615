"""Lists of guesses as answers: the second guess alone, the first three, all of them."""

from __future__ import annotations

from dataclasses import replace

from taxtune.answers import AnswerTable
from taxtune.errors import DataError

__all__ = ["guess_name", "with_guess"]


def with_guess(answers: AnswerTable, guess: str) -> AnswerTable:
    """Returns the same rows with one guess, or several joined by ", ", as the answer.

    A row whose only text is a list with commas ("Boxer, Bulldog, Boxador") is taken as that list. A row that has no
    guess of the number asked for has no answer there: it is kept as missing and counted. A row that has no guess at
    all remains an answer that says nothing.

    Args:
        answers: The rows.
        guess: "2" for the second guess alone, "top-3" for the first three joined, "all" for all of them joined.

    Raises:
        DataError: If there is no such choice.
    """
    first, count = _guess_range(guess)
    rows = []
    missing = 0
    for row in answers.rows:
        single = row.guesses
        if len(single) == 1:
            single = tuple(part.strip() for part in single[0].split(",") if part.strip()) or single
        chosen = single[first : None if count is None else first + count]
        answer = row.answer if not single else ", ".join(chosen) if chosen else None
        missing += answer is None and row.answer is not None
        rows.append(replace(row, answer=answer))
    notes = answers.notes
    if missing:
        notes += (f"{answers.file}: {missing:,} of {len(rows):,} rows have no guess {guess} and are missing there",)
    return replace(answers, rows=tuple(rows), notes=notes)


def _guess_range(guess: str) -> tuple[int, int | None]:
    """Returns the first guess, counted from 0, and how many of them; None for all."""
    if guess == "all":
        return 0, None
    number = guess.removeprefix("top-")
    if not number.isascii() or not number.isdigit() or int(number) < 1:
        raise DataError("There is no such guess.", value=guess, remedy="Write a number (2), top-3, or all.")
    return (0, int(number)) if guess.startswith("top-") else (int(number) - 1, 1)


def guess_name(guess: str) -> str:
    """Returns what a choice of guesses is called in tables: "guess 2", "top 3", "all guesses"."""
    first, count = _guess_range(guess)
    if count is None:
        return "all guesses"
    return f"top {count}" if guess.startswith("top-") else f"guess {first + 1}"
