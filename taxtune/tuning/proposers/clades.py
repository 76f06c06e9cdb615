"""Where on the taxonomy answers go wrong: by the groups of the truth, which have numbers in place of names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from taxtune.metrics.diagnosis import ErrorType
from taxtune.metrics.ranks import rank_of
from taxtune.report.wording import metric_name
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.proposers.base import Goal
from taxtune.tuning.proposers.evidence import evidence, hidden_answers
from taxtune.tuning.records import ExampleRow

__all__ = ["Clades"]

_GROUPS, _EXAMPLES = 12, 6  # that are shown at a time


class Clades:
    """Groups of the taxonomy that tuning images belong to, under numbers: "family 2.1" is a part of "order 2".

    They are numbered in the order in which the images show them, so that a number tells nothing of a name.

    Args:
        taxonomy: The label tree.
        goal: What is being tuned for.
        rows: Images, with any answers.
    """

    def __init__(self, taxonomy: Taxonomy, goal: Goal, rows: Iterable[ExampleRow] = ()) -> None:
        self._tree, self._goal = taxonomy, goal
        self._numbers: dict[int, str] = {goal.domain_node: ""}
        self._children: Counter[int] = Counter()
        self.learn(rows)

    def learn(self, rows: Iterable[ExampleRow]) -> None:
        """Numbers the groups of further images."""
        below = int(self._tree.depth[self._goal.domain_node])
        for row in rows:
            above, *nodes = self._tree.ancestors(row.target)[below:].tolist()
            for node in nodes:
                if node not in self._numbers:
                    self._children[above] += 1
                    self._numbers[node] = f"{self._numbers[above]}.{self._children[above]}".lstrip(".")
                above = node

    def failures(self, rows: Sequence[ExampleRow], template: str | None, inside: str = "") -> dict[str, Any] | None:
        """Returns what goes wrong in the groups right below a group, the costliest first, with example answers.

        Args:
            rows: What was answered.
            template: What was asked, whose words may stand in the example answers.
            inside: A group, such as "order 2", to look into; all images where empty.

        Returns:
            Plain values without the name of any label; None where there is no such group.
        """
        number = inside.split()[-1] if inside else ""
        group = next((node for node, known in self._numbers.items() if known == number), None)
        if group is None:
            return None
        rows = [row for row in rows if row.node is not None and bool(self._tree.is_ancestor(group, row.target))]
        said = evidence(rows, self._goal, template=template)
        groups: dict[int, list[ExampleRow]] = {}
        for row in rows:
            lineage = self._tree.ancestors(row.target)
            groups.setdefault(int(lineage[min(self._tree.depth[group] + 1, len(lineage) - 1)]), []).append(row)
        return {
            "images": len(rows),
            "levels": [
                {"level": each.rank, "named": each.reach, "right": each.reach_right, "stopped_here": each.stop}
                for each in ([] if said is None else said.levels)
            ],
            "groups": sorted((self._group(node, found) for node, found in groups.items()), key=_cost)[:_GROUPS],
            "examples": self._examples(rows, template),
        }

    def _group(self, node: int, rows: Sequence[ExampleRow]) -> dict[str, Any]:
        said = evidence(rows, self._goal)
        return {
            "group": self._name(node),
            "images": len(rows),
            "scores": {} if said is None else {metric_name(each.measure): round(each.mean, 3) for each in said.scores},
            "mistakes": {} if said is None else {str(mistake.kind): mistake.count for mistake in said.mistakes},
        }

    def _examples(self, rows: Sequence[ExampleRow], template: str | None) -> list[dict[str, str]]:
        """Returns answers that are not simply right, the worst first, no two alike."""
        hidden = hidden_answers(rows, self._goal, template=template)
        wrong = [
            (row, said)
            for row, said in zip(rows, hidden, strict=True)
            if said is not None and said.kind != ErrorType.CORRECT
        ]
        wrong.sort(key=lambda pair: (pair[0].hp or 0.0, pair[0].hr or 0.0))
        shown = {(said.said, said.placed): self._name(row.target) for row, said in reversed(wrong)}
        return [
            {"truth": truth, "answer": answer, "placed_on": placed}
            for (answer, placed), truth in list(reversed(shown.items()))[:_EXAMPLES]
        ]

    def _name(self, node: int) -> str:
        number = self._numbers.get(node, "")
        return f"{rank_of(self._tree, node)} {number}" if number else self._goal.domain


def _cost(group: dict[str, Any]) -> float:
    """Orders groups by what they take from the mean of the first score."""
    first = next(iter(group["scores"].values()), 1.0)
    return float(first - 1.0) * int(group["images"])
