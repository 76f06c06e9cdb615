"""A small tree, answers placed on it, and keys that are pressed to order."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console

from taxtune.audit.population import Item, Population
from taxtune.audit.terminal import Keys
from taxtune.taxonomy import Taxonomy

__all__ = ["TREE", "console", "item", "population", "press", "shown"]

# food(0) / dessert(1) / cake(2), ice cream(3) / gelato(4); food / soup(5) / pho(6), noodle soup(7)
TREE = Taxonomy(
    ["food", "dessert", "cake", "ice cream", "gelato", "soup", "pho", "noodle soup"],
    [-1, 0, 1, 1, 3, 0, 5, 5],
    aliases=[(), (), ("gateau",), ("ice",), (), (), ("pho bo",), ()],
    source="dishes.csv",
)


def item(answer: str, node: int, stage: str = "verbatim", *, count: int = 1, evidence: str = "") -> Item:
    return Item(answer, count, node, stage, evidence)


def population(*items: Item, tree: Taxonomy = TREE) -> Population:
    return Population("answers.txt", tree, items, {"similarity": "lexical"})


def press(keys: Iterable[str | type[BaseException]]) -> Keys:
    """Keys in order: a name in angle brackets is one key, other text a key a letter, an exception is raised."""
    pressed: list[str | type[BaseException]] = []
    for part in keys:
        if isinstance(part, str):
            pressed += [part.strip("<>")] if part.startswith("<") else list(part)
        else:
            pressed.append(part)
    waiting = iter(pressed)

    def key() -> str:
        found = next(waiting)  # a test that presses too few keys fails with StopIteration
        if isinstance(found, str):
            return found
        raise found

    return key


def console(*, colours: bool = False) -> Console:
    return Console(
        file=io.StringIO(),
        width=80,
        force_terminal=colours,
        color_system="standard" if colours else None,
        highlight=False,
    )


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
