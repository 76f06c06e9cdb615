"""Where on the taxonomy answers go wrong: by the groups of the truth, which have numbers in place of names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from taxtune.metrics.names import metric_name
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.proposers.base import Goal
from taxtune.tuning.proposers.evidence import evidence
from taxtune.tuning.records import SampleResult

__all__ = ["Clades"]

_GROUPS = 12  # that are shown at a time


class Clades:
    """Groups of the taxonomy that tuning images belong to, under numbers: "family 2.1" is a part of "order 2".

    They are numbered in the order in which the images show them, so that a number tells nothing of a name.

    Args:
        taxonomy: The label tree.
        goal: What is being tuned for.
        rows: Images, with any answers.
    """

    def __init__(self, taxonomy: Taxonomy, goal: Goal, rows: Iterable[SampleResult] = ()) -> None:
        self._tree, self._goal = taxonomy, goal
        self._numbers: dict[int, str] = {goal.domain_node: ""}
        self._children: Counter[int] = Counter()
        self.learn(rows)

    def learn(self, rows: Iterable[SampleResult]) -> None:
        """Numbers the groups of further images."""
        below = int(self._tree.depth[self._goal.domain_node])
        for row in rows:
            above, *nodes = self._tree.ancestors(row.target)[below:].tolist()
            for node in nodes:
                if node not in self._numbers:
                    self._children[above] += 1
                    self._numbers[node] = f"{self._numbers[above]}.{self._children[above]}".lstrip(".")
                above = node

    def find(self, name: str) -> int | None:
        """Returns the node of a group, such as "order 2"; None where there is none. An empty name is the domain."""
        number = name.split()[-1] if name.split() else ""
        return next((node for node, known in self._numbers.items() if known == number), None)

    def within(self, rows: Sequence[SampleResult], group: int) -> list[SampleResult]:
        """Returns the rows whose truth is in a group."""
        return [row for row in rows if bool(self._tree.is_ancestor(group, row.target))]

    def below(self, rows: Sequence[SampleResult], group: int) -> list[dict[str, Any]]:
        """Returns how the answers in the groups right below a group fare, the costliest first, as plain values."""
        parts: dict[int, list[SampleResult]] = {}
        for row in self.within(rows, group):
            # A truth that is the group itself is a part of its own.
            lineage = self._tree.ancestors(row.target)[int(self._tree.depth[group]) :].tolist()
            parts.setdefault(lineage[min(1, len(lineage) - 1)], []).append(row)
        return sorted((self._part(node, found) for node, found in parts.items()), key=_cost)[:_GROUPS]

    def _part(self, node: int, rows: Sequence[SampleResult]) -> dict[str, Any]:
        said = evidence(rows, self._goal)
        number = self._numbers.get(node, "")
        return {
            "group": f"{self._tree.ranks[node] or 'group'} {number}" if number else self._goal.domain,
            "images": 0 if said is None else said.images,
            "scores": {} if said is None else {metric_name(each.measure): round(each.mean, 3) for each in said.scores},
            "mistakes": {} if said is None else {str(mistake.kind): mistake.count for mistake in said.mistakes},
        }


def _cost(group: dict[str, Any]) -> float:
    """Orders groups by what they take from the mean of the first score."""
    first = next(iter(group["scores"].values()), 1.0)
    return float(first - 1.0) * int(group["images"])
