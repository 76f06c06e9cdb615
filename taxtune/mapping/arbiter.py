"""How likely a placement is acceptable: a logistic model of what decided it and how much of the answer it explains.

The signals need no second reader: which stage decided; whether the node is a leaf and a name of it stands in the answer
as a whole; and what share of the answer's words that the tree knows, the rarer the heavier, stands in the names on the
node's path. An answer with known words that the path does not explain speaks of more than one place, or was misread.

The coefficients are in `arbiter.json`, fitted on placed answers by `benchmarks/arbiter.py`, which also prints what they
are worth where each tree is left out in turn.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path

from taxtune.mapping import english
from taxtune.mapping.config import GUESSED, Stage
from taxtune.mapping.lexicon import Lexicon
from taxtune.mapping.normalize import fold_words
from taxtune.mapping.unwrap import Block

__all__ = ["COEFFICIENTS", "Arbiter"]

#: Where the coefficients are kept: by signal, and "intercept".
COEFFICIENTS = Path(__file__).with_name("arbiter.json")
#: A shorter word that the tree lacks says little.
_MIN_UNKNOWN = 4


class Arbiter:
    """Judges placements on one tree."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon, self._taxonomy = lexicon, lexicon.taxonomy
        self._weight = lru_cache(maxsize=50_000)(self._weight_of)
        self._words = lru_cache(maxsize=20_000)(self._words_of)
        self._path = lru_cache(maxsize=20_000)(self._path_of)

    def confidence(self, blocks: Sequence[Block], node: int, stage: Stage) -> float:
        """Returns the probability in (0, 1) that an answer was placed acceptably, to three decimals."""
        coefficients = _coefficients()
        signals = self.signals(blocks, node, stage)
        logit = coefficients["intercept"] + sum(coefficients.get(name, 0.0) * x for name, x in signals.items())
        return round(1 / (1 + math.exp(-logit)), 3)

    def signals(self, blocks: Sequence[Block], node: int, stage: Stage) -> dict[str, float]:
        """The signals for and against a placement, each at least 0."""
        said = dict.fromkeys(word for block in blocks for line in block.lines for word in fold_words(line))
        weights = {word: self._weight(word) for word in said if word not in english.SAYS_NOTHING}
        total = sum(weights.values())
        path = self._path(node)
        explained = sum(weight for word, weight in weights.items() if word in path)
        whole = any(name and all(map(said.__contains__, name)) for name in self._words(node))
        unknown = sum(not weight and len(word) >= _MIN_UNKNOWN for word, weight in weights.items())
        return {
            "guess" if stage in GUESSED else str(stage): 1.0,
            "explained": explained / total if total else 1.0,
            "unexplained": math.log1p(total - explained),
            "whole name": float(whole),
            "unknown words": math.log1p(unknown),
            "leaf": float(self._lexicon.is_leaf(node)),
        }

    def _words_of(self, node: int) -> list[tuple[str, ...]]:
        names = map(fold_words, self._taxonomy.names(node))
        return [tuple(dict.fromkeys(w for w in words if w not in english.SAYS_NOTHING)) for words in names]

    def _path_of(self, node: int) -> frozenset[str]:
        ancestors = self._taxonomy.ancestors(node).tolist()
        return frozenset(word for v in ancestors for name in self._words(v) for word in name)

    def _weight_of(self, word: str) -> float:
        """The weight of a word: the logarithm of how rare it is among the nodes' names, 0 where unknown."""
        count = self._lexicon.index.nodes_with.get(word, 0)
        return math.log((len(self._taxonomy) + 1) / count) + 0.3 if count else 0.0


@cache
def _coefficients() -> dict[str, float]:
    loaded: dict[str, float] = json.loads(COEFFICIENTS.read_text(encoding="utf-8"))
    return loaded
