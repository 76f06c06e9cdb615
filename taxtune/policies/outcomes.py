"""Outcomes of a model, the probabilities of what it might have named, as weights of the tree's nodes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from taxtune.models.base import OTHERWISE, Candidates
from taxtune.policies.placing import spread
from taxtune.taxonomy import Taxonomy

__all__ = ["NamedNodes"]


class NamedNodes:
    """The names of a tree that a model is asked to weigh, and the nodes that they stand for.

    Args:
        taxonomy: The label tree.
        names: See `Posterior`.
    """

    def __init__(self, taxonomy: Taxonomy, names: Literal["species", "all", "aliases"]) -> None:
        self.taxonomy, self._all = taxonomy, names != "species"
        every = names == "aliases"
        self._of: dict[str, list[int]] = {}
        ordered = sorted(range(len(taxonomy)), key=lambda node: -int(taxonomy.depth[node]))
        leaves = set(taxonomy.leaves.tolist())
        said: dict[bool, list[str]] = {True: [], False: []}
        for node in ordered:
            own = taxonomy.names(node) if every else (taxonomy.labels[node], taxonomy.common_name(node))
            for name in dict.fromkeys(own):
                said[node in leaves].append(name)
                if self._all or node in leaves:
                    self._of.setdefault(name, []).append(node)
        species, broader = (tuple(dict.fromkeys(said[leaf])) for leaf in (True, False))
        self.candidates = Candidates(species, tuple(n for n in broader if n not in self._of or self._all), self._all)
        self._nodes: dict[str, int] = {OTHERWISE: -1}

    @cached_property
    def _sorted(self) -> list[tuple[str, str]]:
        return sorted((name.casefold(), name) for name in self._of)

    def node(self, outcome: str) -> int:
        """Returns the node of an outcome, the lowest above all that it may stand for; -1 for what is no name."""
        if outcome not in self._nodes:
            nodes = self._of.get(outcome)
            if nodes is None and outcome.endswith(OTHERWISE):
                begin = outcome.removesuffix(OTHERWISE).casefold()
                first = bisect_left(self._sorted, (begin, ""))
                last = bisect_left(self._sorted, (begin + "\U0010ffff", ""))
                nodes = [node for _, name in self._sorted[first:last] for node in self._of[name]]
            self._nodes[outcome] = self.taxonomy.common_ancestor(nodes) if nodes else -1
        return self._nodes[outcome]

    def weigh(self, outcomes: Sequence[Mapping[str, float]]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns nodes, shape (m,), -1 for what is no name, and their weights for each image, shape (n, m).

        Inner nodes' own names give theirs to the leaves below (`spread`); what was not told apart stays above them.
        """
        tables: dict[bool, dict[int, int]] = {False: {-1: 0}, True: {}}  # columns by node: of names, and of beginnings
        cells = [
            (row, key.endswith(OTHERWISE) and key != OTHERWISE, self.node(key), value)
            for row, each in enumerate(outcomes)
            for key, value in each.items()
        ]
        for _, begins, node, _ in cells:
            tables[begins].setdefault(node, len(tables[begins]))
        weights = [np.zeros((len(outcomes), len(table))) for table in (tables[False], tables[True])]
        for row, begins, node, value in cells:
            weights[begins][row, tables[begins][node]] += np.exp(value)
        nodes = [np.array(list(tables[begins]), dtype=np.int64) for begins in (False, True)]
        if self._all:
            weights[0] = spread(self.taxonomy, nodes[0], weights[0])
        return np.concatenate(nodes), np.concatenate(weights, axis=1)
