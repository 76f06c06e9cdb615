"""Where a name stands in an answer, and how the names that might stand there are written.

The text before a name is the *frame* of an answer: "This is" of "This is an owl.", since another
name may want the other article. What the model might have written after the frame are the answer's
outcomes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from os.path import commonprefix
from typing import NamedTuple

import numpy as np

from taxtune.models.base import OTHERWISE, Candidates
from taxtune.thoughts import without_thoughts

__all__ = ["NamePlace", "find_name", "forms", "frame_of", "summed", "undecided"]

# Hyphens and underscores part words like spaces; Chinese and Japanese have no spaces, so each
# character is a word.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+|[^\w\s-]")
_BEFORE_NAME = re.compile(r"(?:(?:^|(\s+))([Aa])n?)?(\s*)$")

Words = tuple[str, ...]


class NamePlace(NamedTuple):
    """A name in a text: where it starts and ends, and the name as it is among the candidates."""

    start: int
    end: int
    name: str


def find_name(text: str, candidates: Candidates) -> NamePlace | None:
    """Finds the name that an answer gives: whole words, in any case.

    Returns:
        The first one of `candidates.names` that occurs, the longest at that place; else the first
        occurrence of the first of `candidates.broader` that occurs. None where none does.
    """
    answer = without_thoughts(text) or ""
    offset = max(text.rfind(answer), 0)
    best: tuple[int, NamePlace] | None = None
    for rank, (start, end, name) in _occurrences(answer, candidates):
        if best is None or rank < best[0]:
            best = rank, NamePlace(offset + start, offset + end, name)
        if rank == 0:
            break
    return None if best is None else best[1]


def frame_of(text: str, start: int) -> tuple[str, tuple[str, ...]]:
    """Returns the frame of an answer, and what may stand between it and a name.

    Returns:
        The text before the name without white space at its end and without an English indefinite
        article; and that space, with each of the articles where the answer has one.
    """
    match = _BEFORE_NAME.search(text[:start])
    assert match is not None, "it matches the empty end"
    before, article, space = match.groups(default="")
    articles = (article, f"{article}n") if article else ("",)
    return text[: match.start()], tuple(f"{before}{word}{space}" for word in articles)


def forms(name: str) -> tuple[str, ...]:
    """Returns the ways to write a name.

    These are the name as it is, in lower case, and with a capital at its or at each word's start.
    """
    lower = name.lower()
    titled = " ".join(_capitalized(word) for word in name.split(" "))
    return tuple(dict.fromkeys((name, lower, _capitalized(name), _capitalized(lower), titled)))


def undecided(names: Sequence[str]) -> str:
    """Returns the outcome of names that were not told apart: their beginning and `OTHERWISE`."""
    return commonprefix(names) + OTHERWISE  # noqa: RUF071 - they are no paths


def summed(parts: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Sums probabilities of the same outcome, in natural logarithms, without impossible ones."""
    total: dict[str, float] = {}
    for outcome, log in parts:
        if log > -np.inf:
            total[outcome] = float(np.logaddexp(total.get(outcome, -np.inf), log))
    return total


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _occurrences(text: str, candidates: Candidates) -> Iterator[tuple[int, NamePlace]]:
    """Gives rank (0 for one of `names`, then the place in `broader`) and place of each name.

    Of names that start at one place those of rank 0 come first, then the longer ones.
    """
    known, longest = _index(candidates)
    words = list(_WORD.finditer(_straight(text)))
    folded = _folded(text)
    for first, word in enumerate(words):
        matches = []
        for end in range(min(len(words), first + longest), first, -1):
            ranked = known.get(folded[first:end])
            if ranked is not None:
                rank, name = ranked
                matches.append((rank, NamePlace(word.start(), words[end - 1].end(), name)))
        yield from sorted(matches, key=lambda match: match[0] > 0)


def _straight(text: str) -> str:
    return text.replace("\u2019", "'")


def _folded(text: str) -> Words:
    return tuple(word.casefold() for word in _WORD.findall(_straight(text)))


@lru_cache(maxsize=8)
def _index(candidates: Candidates) -> tuple[dict[Words, tuple[int, str]], int]:
    """Returns rank and name by the words of each name, and the most words of a name."""
    known: dict[Words, tuple[int, str]] = {}
    for name in candidates.names:
        known.setdefault(_folded(name), (0, name))
    for rank, name in enumerate(candidates.broader, 1):
        known.setdefault(_folded(name), (rank, name))
    known.pop((), None)
    return known, max(map(len, known), default=0)
