"""How many words many answers share with many references, counted for all pairs by one sparse product.

Words are numbered by their occurrence within a text: the second "red" of a text is another item than the first. The
number of items that two texts share is then the clipped count of BLEU and ROUGE, the sum over words of the lesser
number of occurrences.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

__all__ = ["bigrams", "occurrences", "overlap"]

Item = tuple[Hashable, int]


def occurrences(units: Iterable[Hashable]) -> list[Item]:
    """Returns the units of a text, each with the number of times that it stood before."""
    seen: dict[Hashable, int] = {}
    items = []
    for unit in units:
        count = seen.get(unit, 0)
        seen[unit] = count + 1
        items.append((unit, count))
    return items


def bigrams(words: Sequence[str]) -> list[Item]:
    """Returns the pairs of neighbouring words, each with the number of times that it stood before."""
    return occurrences(pairwise(words))


def overlap(left: Sequence[Sequence[Item]], right: Sequence[Sequence[Item]]) -> Any:
    """Returns the number of items that each text of `left` shares with each of `right`.

    Args:
        left: The items of each text, as `occurrences` numbers them.
        right: The items of the other texts.

    Returns:
        A sparse matrix of shape (left, right) whose stored entries are above 0.
    """
    from scipy.sparse import csr_array

    columns: dict[Item, int] = {}
    for items in right:
        for item in items:
            columns.setdefault(item, len(columns))

    def incidence(texts: Sequence[Sequence[Item]]) -> Any:
        # Items that no text on the right has can be shared with none.
        numbers = [[columns[item] for item in items if item in columns] for items in texts]
        ends = np.concatenate([[0], np.cumsum([len(row) for row in numbers])])
        indices = np.fromiter((i for row in numbers for i in row), dtype=np.int64, count=int(ends[-1]))
        return csr_array((np.ones(len(indices)), indices, ends), shape=(len(texts), max(1, len(columns))))

    return incidence(left) @ incidence(right).T
