"""Labels and aliases of a built tree, made fit for a file in which siblings must differ."""

from __future__ import annotations

from dataclasses import dataclass

from taxtune.taxonomy.building.build import BuiltTree

__all__ = ["Names", "name_nodes"]

_LONGEST = 2000  # characters of a name; a CSV cell holds 131,072


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the nodes of a tree.

    Attributes:
        labels: The label of each node of the tree, by its number.
        aliases: Its other names.
        unlabelled: Nodes whose label is their id, since they have none, or one of more than 2,000 characters.
        renamed: Nodes whose label got their id behind it, since siblings have the same; the plain label is an alias.
        long_aliases: How many aliases of more than 2,000 characters were left out.
        shared_labels: How many labels several nodes have, after renaming.
        most_shared: The label that most nodes have, and how many; None if every label is that of one node.
    """

    labels: dict[int, str]
    aliases: dict[int, tuple[str, ...]]
    unlabelled: list[int]
    renamed: list[int]
    long_aliases: int
    shared_labels: int
    most_shared: tuple[str, int] | None


def name_nodes(built: BuiltTree) -> Names:
    """Returns the names of the nodes of a tree, as its file will have them."""
    graph = built.graph
    order = built.order.tolist()
    labels: dict[int, str] = {}
    unlabelled = []
    for node in order:
        label = graph.labels.get(node) if node < len(graph) else built.label(node)
        if label is None or len(label) > _LONGEST:
            unlabelled.append(node)
            label = built.ids[node]
        labels[node] = label
    plain = {}
    for node, unique in _told_apart(built, order, labels).items():
        plain[node] = labels[node]
        labels[node] = unique

    aliases: dict[int, tuple[str, ...]] = {}
    long = 0
    for node in order:
        names = []
        for alias in (*([plain[node]] if node in plain else ()), *graph.aliases.get(node, ())):
            if len(alias) > _LONGEST:
                long += 1
            else:
                names.append(alias)
        if names:
            own = labels[node].casefold()
            aliases[node] = tuple(name for name in dict.fromkeys(names) if name.casefold() != own)
    counts: dict[str, int] = {}
    for label in labels.values():
        counts[label] = counts.get(label, 0) + 1
    most = max(counts.items(), key=lambda item: (item[1], item[0]))
    return Names(
        labels=labels,
        aliases=aliases,
        unlabelled=unlabelled,
        renamed=sorted(plain),
        long_aliases=long,
        shared_labels=sum(count > 1 for count in counts.values()),
        most_shared=most if most[1] > 1 else None,
    )


def _told_apart(built: BuiltTree, order: list[int], labels: dict[int, str]) -> dict[int, str]:
    """Returns new labels for all siblings that share one: the label with the node's id behind it."""
    groups: dict[tuple[int, str], list[int]] = {}
    for node in order:
        groups.setdefault((built.parent_of(node), labels[node]), []).append(node)
    new = {}
    for (parent, label), nodes in sorted(groups.items()):
        if len(nodes) == 1:
            continue
        for node in nodes:
            unique = f"{label} ({built.ids[node]})"
            while (parent, unique) in groups:
                unique += f" ({built.ids[node]})"
            groups[parent, unique] = [node]
            new[node] = unique
    return new
