"""Finding the node that a target in a file of answers means.

Published answer files name their targets loosely; a target is looked for as it is written, then

- a list of labels without the tree's root, or from another tree, by its last name ("Aves", "Suliformes", …,
  "Phalacrocorax auritus" on a tree that classes the species otherwise), if one node alone has that name;
- with spaces for underscores ("basset_hound").

Where a study is on a part of a taxonomy, a target that is elsewhere on the whole of it is *outside*: it cannot be
scored on the part. One that the whole does not have is *off the tree*.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from taxtune.errors import TaxonomyError
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["Target", "target_finder"]


class Target(NamedTuple):
    """The node of a target, None outside the part or off the tree; `moved`: found by the last name of its path."""

    text: str
    node: int | None = None
    problem: str = ""
    moved: bool = False

    @property
    def outside(self) -> bool:
        """Whether it is on the whole taxonomy, outside the part that counts."""
        return bool(self.text) and self.node is None and not self.problem

    @property
    def problem_after(self) -> str:
        """The problem as it is said after the name of the column."""
        return f": {self.problem}" if self.text else f" is {self.problem}"


def target_finder(taxonomy: Taxonomy, part: Domain | None = None, suggest: int = 20) -> Callable[[object], Target]:
    """A function from a cell of a file to the target that it means; each is looked up once.

    Of `suggest` targets that are off the tree the problem names what is spelt alike, which takes long.
    """
    known: dict[object, Target] = {}
    left = suggest

    def find(value: object) -> Target:
        nonlocal left
        if isinstance(value, list) and value and all(isinstance(label, str) and label.strip() for label in value):
            value = tuple(value)
        if value is None or (isinstance(value, str) and not value.strip()):
            return Target("", problem="missing")
        if not isinstance(value, str | tuple):
            return Target("", problem=f"not a label or a path: {value!r}")
        if value not in known:
            known[value] = _find(taxonomy, part, value, left > 0)
            left -= bool(known[value].problem)
        return known[value]

    return find


def _find(taxonomy: Taxonomy, part: Domain | None, value: str | tuple[str, ...], suggest: bool) -> Target:
    text = value if isinstance(value, str) else "/".join(value)
    last = value if isinstance(value, str) else value[-1]
    is_path = not isinstance(value, str) and len(value) > 1
    problem = ""
    # Text with slashes is a path only where the tree has it: "cat/dog" may mean either.
    for candidate in dict.fromkeys((value if is_path else last, last, last.replace("_", " "))):
        if isinstance(candidate, str) and not _is_there(candidate, taxonomy, part):
            continue
        try:
            node = taxonomy.resolve(candidate) if part is None else part.locate(candidate)
        except TaxonomyError as error:  # no such path, or several nodes of that name
            problem = problem or ("" if isinstance(candidate, tuple) else _said(error))
            continue
        return Target(text, node, moved=is_path and isinstance(candidate, str))
    if not problem:
        problem = f"{last!r} is not on the taxonomy."
        if suggest:
            try:
                (taxonomy if part is None else part.full).resolve(last)
            except TaxonomyError as error:
                problem = _said(error)
    return Target(text, problem=f"no node has the path {text!r}, and {problem}" if is_path else problem)


def _said(error: TaxonomyError) -> str:
    return f"{error.message} {error.remedy or ''}".strip()


def _is_there(name: str, taxonomy: Taxonomy, part: Domain | None) -> bool:
    """Tells whether a name is on the tree or the whole of it: `resolve` compares one that is not with every name."""
    for tree in (taxonomy,) if part is None else (taxonomy, part.full):
        if tree.find(name) or name.strip() in tree.by_id:
            return True
        labels = [label.strip() for label in name.split("/") if label.strip()]
        if len(labels) > 1:
            with suppress(TaxonomyError):
                tree.resolve(labels)
                return True
    return False
