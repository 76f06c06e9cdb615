"""Names that a chat model proposes, a handful of siblings at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from taxtune.authoring.replies import UnreadError, read_json, render_prompt
from taxtune.models import Answer, AnswerStore, Model, Request, ask
from taxtune.tables import clean
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["Suggestions", "suggest_names"]

#: Kinds that one prompt asks about, and names that it asks for of each.
KINDS, NAMES = 20, 10
# Names and children of a kind that the prompt shows.
_SHOWN = 12
_LONGEST = 80


@dataclass(slots=True)
class Suggestions:
    """What a chat model proposed.

    Attributes:
        names: Nodes with names, in the order of the nodes.
        asked: How many nodes it was asked about.
        unread: Replies that are not as they were asked for: their labels, the reply, and what is wrong with it.
        failed: Calls that failed: their labels and why.
    """

    names: list[tuple[int, str]] = field(default_factory=list)
    asked: int = 0
    unread: list[dict[str, Any]] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)


def suggest_names(
    llm: Model,
    taxonomy: Taxonomy,
    *,
    store: AnswerStore | None = None,
) -> Suggestions:
    """Asks a chat model for other names of every node but the root.

    A reply that is not the JSON that was asked for, or speaks of other nodes, is unread as a whole.

    Args:
        llm: The chat model.
        taxonomy: The tree.
        store: Where replies are kept, or None.

    Raises:
        ModelError: If the model cannot reply at all.
    """
    groups: list[list[int]] = []
    for node in range(len(taxonomy)):
        children = taxonomy.children(node).tolist()
        groups += [children[i : i + KINDS] for i in range(0, len(children), KINDS)]
    found = Suggestions(asked=len(taxonomy) - 1)
    by_node: dict[int, list[str]] = {}
    replies = ask(
        llm,
        [Request(_prompt(taxonomy, group)) for group in groups],
        store,
    )
    for group, reply in zip(groups, replies, strict=True):
        labels = [taxonomy.labels[node] for node in group]
        if not isinstance(reply, Answer):
            found.failed.append({"labels": labels, "reason": reply.reason})
            continue
        try:
            by_node |= _read(reply.text, group)
        except UnreadError as error:
            found.unread.append({"labels": labels, "reply": reply.text, "reason": str(error)})
    found.names = [(node, name) for node in sorted(by_node) for name in by_node[node]]
    return found


def _prompt(taxonomy: Taxonomy, group: list[int]) -> str:
    kinds = [
        {
            "label": taxonomy.labels[node],
            "known": taxonomy.names(node)[1 : _SHOWN + 1],
            "below": [taxonomy.labels[child] for child in taxonomy.children(node).tolist()[:_SHOWN]],
        }
        for node in group
    ]
    above = taxonomy.path(int(taxonomy.parents[group[0]]))
    return render_prompt("names.j2", above=above, kinds=kinds, most=NAMES)


def _read(reply: str, group: list[int]) -> dict[int, list[str]]:
    value = read_json(reply)
    expected = {str(i) for i in range(1, len(group) + 1)}
    if not isinstance(value, dict) or set(value) != expected:
        raise UnreadError(f"It is not an object with the keys 1 to {len(group)}.")
    names: dict[int, list[str]] = {}
    for key, some in value.items():
        if not isinstance(some, list) or not all(isinstance(name, str) for name in some):
            raise UnreadError(f"The value of {key} is not a list of names.")
        tidy = [clean(name.replace(";", ",").replace("|", ",")) for name in some]
        names[group[int(key) - 1]] = [name for name in dict.fromkeys(tidy) if name and len(name) <= _LONGEST]
    return names
