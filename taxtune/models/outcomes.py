"""Where a name stands in an answer, and how the names that might stand there are written.

The text before a name is the *frame* of an answer: "This is" of "This is an owl.", since another name may want the
other article. What the model might have written after the frame are the answer's outcomes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from os.path import commonprefix

import numpy as np

from taxtune.models.base import OTHERWISE, Candidates
from taxtune.thoughts import without_thoughts

__all__ = ["find_name", "forms", "frame_of", "summed", "unsettled"]

# Hyphens and underscores part words like spaces; Chinese and Japanese have no spaces, so each character is a word.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+|[^\w\s-]")
_BEFORE_NAME = re.compile(r"(?:(?:^|(\s+))([Aa])n?)?(\s*)$")


def find_name(text: str, candidates: Candidates) -> tuple[int, int, str] | None:
    """Finds the name that an answer gives: whole words, in any case.

    Args:
        text: The answer.
        candidates: The names.

    Returns:
        Start and end in the text, and the name: the first one of `candidates.names` that occurs, the longest at that
        place; else the first occurrence of the first of `candidates.broader` that occurs. None where none does.
    """
    first: tuple[int, int, int, str] | None = None
    answer = without_thoughts(text) or ""
    begin = max(text.rfind(answer), 0)
    for start, end, rank, name in _occurrences(answer, candidates):
        if rank == 0:
            return begin + start, begin + end, name
        if first is None or rank < first[0]:
            first = rank, begin + start, begin + end, name
    return None if first is None else first[1:]


def frame_of(text: str, start: int) -> tuple[str, tuple[str, ...]]:
    """Returns the frame of an answer, and what may stand between it and a name.

    Args:
        text: The answer.
        start: Where its name begins.

    Returns:
        The text before the name without white space at its end and without an English indefinite article; and that
        space, with each of the articles where the answer has one.
    """
    found = _BEFORE_NAME.search(text[:start])
    assert found is not None, "it matches the empty end"
    before, article, space = found.groups(default="")
    articles = (article, f"{article}n") if article else ("",)
    return text[: found.start()], tuple(f"{before}{each}{space}" for each in articles)


def forms(name: str) -> tuple[str, ...]:
    """Returns the ways to write a name: as it is, in lower case, and with a capital at its or at each word's start."""
    lower = name.lower()
    titled = " ".join(word[:1].upper() + word[1:] for word in name.split(" "))
    return tuple(
        dict.fromkeys(
            (name, lower, name[:1].upper() + name[1:], lower[:1].upper() + lower[1:], titled)
        )
    )


def unsettled(names: Sequence[str]) -> str:
    """Returns the outcome of names that were not told apart: the text that they begin with, and `OTHERWISE`."""
    return commonprefix(names) + OTHERWISE  # noqa: RUF071 - they are no paths


def summed(parts: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Sums probabilities of the same outcome, in natural logarithms; what is impossible is left out."""
    total: dict[str, float] = {}
    for outcome, log in parts:
        if log > -np.inf:
            total[outcome] = float(np.logaddexp(total.get(outcome, -np.inf), log))
    return total


def _occurrences(text: str, candidates: Candidates) -> Iterator[tuple[int, int, int, str]]:
    """Gives start, end, rank (0 for one of `names`, then the place in `broader`) and name; longer ones first."""
    known, longest = _index(candidates)
    words = [
        (found.start(), found.end(), found[0].casefold())
        for found in _WORD.finditer(_straight(text))
    ]
    for i in range(len(words)):
        matches = []
        for j in range(min(len(words), i + longest), i, -1):
            found = known.get(tuple(word for _, _, word in words[i:j]))
            if found is not None:
                matches.append((words[i][0], words[j - 1][1], *found))
        yield from sorted(matches, key=lambda match: match[2] > 0)


def _straight(text: str) -> str:
    return text.replace("\u2019", "'")


@lru_cache(maxsize=8)
def _index(candidates: Candidates) -> tuple[dict[tuple[str, ...], tuple[int, str]], int]:
    """Returns rank and name by the words of each name, and the number of words of the longest."""
    known: dict[tuple[str, ...], tuple[int, str]] = {}
    for rank, name in [
        *((0, name) for name in candidates.names),
        *enumerate(candidates.broader, 1),
    ]:
        words = tuple(word.casefold() for word in _WORD.findall(_straight(name)))
        if words:
            known.setdefault(words, (rank, name))
    return known, max(map(len, known), default=0)
