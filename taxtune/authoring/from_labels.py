"""A tree for a flat list of labels: WordNet's hypernyms above them, or groups from elsewhere, cut down to size."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from taxtune.authoring.choices import IS, WNID, Choice, choose_synsets, read_choices
from taxtune.authoring.labels import Label
from taxtune.errors import DataError, TaxonomyError
from taxtune.taxonomy.tree import Taxonomy
from taxtune.wordnet import Synset, WordNet, find_wordnet, how_to_install

__all__ = ["LabelTree", "tree_by_wordnet", "tree_from_paths", "tree_from_synsets"]

#: Most levels below the root of a tree that WordNet proposes.
MAX_DEPTH = 6


# A group that holds more than this of the labels of the group above says nothing that counts.
_FULL = 0.9


@dataclass(eq=False, slots=True)
class _Node:
    """A node that is being worked on."""

    name: str
    others: tuple[str, ...] = ()
    label: Label | None = None
    children: list[_Node] = field(default_factory=list)
    #: How telling a kind it is, from 0 to 1; unknown is 1.
    information: float = 1.0

    def all(self) -> Iterator[_Node]:
        """Yields the node and all below it, the deepest last."""
        queue = [self]
        for node in queue:
            yield node
            queue.extend(node.children)


@dataclass(frozen=True, slots=True)
class LabelTree:
    """A tree made for labels.

    Attributes:
        taxonomy: The tree; every label resolves on it.
        nodes: The node of each label, by its name.
        notes: What the user should know.
    """

    taxonomy: Taxonomy
    nodes: dict[str, int]
    notes: tuple[str, ...] = ()

    def check(self, labels: Sequence[Label]) -> None:
        """Checks what the tree is for: that every label, as the data have it, is its node.

        Raises:
            DataError: If one is not.
        """
        for label in labels:
            for written in (label.name, *label.aliases):
                if self.taxonomy.resolve(written) != self.nodes[label.name]:
                    raise DataError(
                        "Another node of the tree has the same label.", value=written, remedy="Rename it in the data."
                    )


def tree_by_wordnet(
    labels: Sequence[Label],
    given: Path | None = None,
    *,
    root_label: str | None = None,
    max_depth: int | None = MAX_DEPTH,
    min_children: int = 2,
) -> tuple[list[Choice], LabelTree]:
    """Returns the synset of each label, and the tree of their hypernyms.

    Args:
        labels: The labels.
        given: A file of synsets that somebody chose.
        root_label: As for `tree_from_synsets`.
        max_depth: As for `tree_from_synsets`.
        min_children: As for `tree_from_synsets`.

    Raises:
        DataError: If WordNet is not installed, or the file of synsets cannot be read.
        TaxonomyError: If there are no labels.
    """
    wordnet = find_wordnet()
    if wordnet is None:
        raise DataError(
            f"{how_to_install()}\nA tree for labels is made from WordNet, which is not installed.",
            remedy="Or write the tree yourself, as a CSV file with the column path and rows such as food/dessert/cake, "
            "or let a chat model group the labels: `taxtune taxonomy from-labels --llm`.",
        )
    choices = choose_synsets(wordnet, labels, read_choices(given, wordnet, labels) if given else None)
    tree = tree_from_synsets(wordnet, choices, root_label=root_label, max_depth=max_depth, min_children=min_children)
    tree.check(labels)
    return choices, tree


def tree_from_synsets(
    wordnet: WordNet,
    choices: Sequence[Choice],
    *,
    root_label: str | None = None,
    max_depth: int | None = None,
    min_children: int = 2,
) -> LabelTree:
    """Returns the tree of the hypernyms of labels' synsets.

    Of several hypernyms of a synset the one stays that groups most: that with the most labels below it, weighed by how
    much it tells. A label that is itself above others is an inner node. Of labels with one synset the first is its node
    and the others stand beside it. A label without a synset is a child of the root.

    Args:
        wordnet: Where the synsets are from.
        choices: The labels with their synsets.
        root_label: What the root is called; by default as the lowest synset above all labels.
        max_depth: Most edges from the root to a label; the nodes between that say least go. None for no limit.
        min_children: Nodes that are no label and have fewer children go; at least 2.

    Raises:
        TaxonomyError: If there are no labels.
    """
    if not choices:
        raise TaxonomyError("There are no labels to build a tree from.")
    counts = Counter(kind for c in choices if c.synset for kind in wordnet.ancestors(c.synset))

    def grouping(synset: Synset) -> tuple[float, str]:
        return counts[synset] * wordnet.information(synset) ** 3, synset.name

    nodes: dict[Synset, _Node] = {}
    tops: list[_Node] = []

    def node_of(synset: Synset) -> _Node:
        node = nodes.get(synset)
        if node is None:
            node = nodes[synset] = _Node(synset.lemmas[0], synset.lemmas[1:], information=wordnet.information(synset))
            above = wordnet.hypernyms(synset)
            (node_of(max(above, key=grouping)).children if above else tops).append(node)
        return node

    notes = []
    beside: list[tuple[Choice, Synset]] = []
    for choice in choices:
        if choice.synset is None:
            continue
        node = node_of(choice.synset)
        if choice.relation != IS:
            node.children.append(_Node(choice.label.name, (), choice.label))
        elif node.label is None:
            node.label = choice.label
            if not WNID.fullmatch(choice.label.name):
                node.name, node.others = choice.label.name, choice.synset.lemmas
        else:
            beside.append((choice, choice.synset))
            notes.append(f"{choice.label.name!r} and {node.label.name!r} are both {choice.synset.name}: siblings.")
    parents = {child: node for top in tops for node in top.all() for child in node.children}
    for choice, synset in beside:
        above = parents.get(nodes[synset])
        (above.children if above else tops).append(_Node(choice.label.name, (), choice.label))

    unplaced = [_Node(choice.label.name, (), choice.label) for choice in choices if choice.synset is None]
    root = tops[0] if len(tops) == 1 and tops[0].label is None else _Node("thing", (), None, tops)
    # What all labels have in common goes without saying; the lowest of it is the root.
    while len(root.children) == 1 and root.children[0].label is None:
        root = root.children[0]
    _without_full(root)
    root.children += unplaced
    return _finished(root, notes, root_label, max_depth, min_children)


def tree_from_paths(
    labels: Sequence[Label],
    paths: Mapping[str, Sequence[str]],
    *,
    root_label: str | None = None,
    max_depth: int | None = None,
    min_children: int = 2,
) -> LabelTree:
    """Returns the tree of labels in groups within groups.

    Args:
        labels: The labels.
        paths: The names of the groups that each label is in, the widest first, by the label's name. A group that is
            called as a label, at the same place, is that label's node.
        root_label: What the root is called; "thing" by default.
        max_depth: As for `tree_from_synsets`.
        min_children: As for `tree_from_synsets`.

    Raises:
        TaxonomyError: If there are no labels.
    """
    if not labels:
        raise TaxonomyError("There are no labels to build a tree from.")
    root = _Node("thing")
    by_path: dict[tuple[str, ...], _Node] = {(): root}
    for label in labels:
        names = (*paths[label.name], label.name)
        for end in range(1, len(names) + 1):
            key = tuple(name.casefold() for name in names[:end])
            if key not in by_path:
                by_path[key] = _Node(names[end - 1])
                by_path[key[:-1]].children.append(by_path[key])
        by_path[key].label, by_path[key].name = label, label.name
    return _finished(root, [], root_label, max_depth, min_children)


# -- cutting down -----------------------------------------------------------------------------------------------------


def _finished(
    root: _Node, notes: list[str], root_label: str | None, max_depth: int | None, min_children: int
) -> LabelTree:
    if root_label is not None:
        root.name, root.others = root_label, ()
    _without_few(root, max(2, min_children))
    if max_depth is not None:
        deepest = _without_depth(root, max_depth)
        if deepest > max_depth:
            notes.append(f"Labels below labels are {deepest} levels deep, more than --max-depth {max_depth}.")
    return _as_taxonomy(root, notes)


def _without_few(root: _Node, least: int) -> None:
    """Takes out nodes that are no labels and have few children, the lowest first."""
    for node in reversed(list(root.all())):
        kept: list[_Node] = []
        for child in node.children:
            kept += [child] if child.label is not None or len(child.children) >= least else child.children
        node.children = kept


def _without_full(root: _Node) -> None:
    """Takes out groups that hold hardly a label but those of one group in them: of the two the lower tells more.

    Below the root, which stays, it is the lower that goes.
    """
    labels = _labels_below(root)

    def is_full(node: _Node) -> bool:
        return any(child.label is None and labels[child] > _FULL * labels[node] for child in node.children)

    for node in reversed(list(root.all())):
        kept: list[_Node] = []
        for child in node.children:
            kept += child.children if child.label is None and is_full(child) else [child]
        node.children = kept
    while is_full(root):
        kept = []
        for child in root.children:
            kept += child.children if child.label is None and labels[child] > _FULL * labels[root] else [child]
        root.children = kept


def _labels_below(root: _Node) -> dict[_Node, int]:
    """Returns how many labels there are at and below each node."""
    labels: dict[_Node, int] = {}
    for node in reversed(list(root.all())):
        labels[node] = (node.label is not None) + sum(labels[child] for child in node.children)
    return labels


def _without_depth(root: _Node, most: int) -> int:
    """Takes out, of the nodes above labels that are too deep, that which says least, until none is; returns the depth.

    A node says log(n_parent / n) of each of the n labels below it: almost nothing if it holds most of its parent's.
    That counts by the square of how telling a kind it is, so that "matter" goes before "sandwich".
    """
    while True:
        parents = {child: node for node in root.all() for child in node.children}
        depth, labels = {root: 0}, _labels_below(root)
        for node in root.all():
            for child in node.children:
                depth[child] = depth[node] + 1
        deep = [node for node in depth if node.label is not None and depth[node] > most]
        between = set()
        for node in deep:
            while (node := parents[node]) is not root:
                if node.label is None:
                    between.add(node)
        if not between:
            return max(depth.values())
        says = {
            node: labels[node] * math.log(labels[parents[node]] / labels[node]) * node.information**2
            for node in between
        }
        least = min(between, key=lambda node: (says[node], -depth[node], node.name))
        siblings = parents[least].children
        place = siblings.index(least)
        siblings[place : place + 1] = least.children


# -- names ------------------------------------------------------------------------------------------------------------


def _as_taxonomy(root: _Node, notes: list[str]) -> LabelTree:
    order: list[tuple[_Node, int]] = []
    stack = [(root, -1)]
    while stack:
        node, parent = stack.pop()
        order.append((node, parent))
        number = len(order) - 1
        below = sorted(node.children, key=lambda child: (child.name.casefold(), child.name))
        stack.extend((child, number) for child in reversed(below))
    names = _names([node for node, _ in order], [parent for _, parent in order])
    aliases = _aliases([node for node, _ in order], names)
    taxonomy = Taxonomy(names, [parent for _, parent in order], aliases=aliases)
    nodes = {node.label.name: i for i, (node, _) in enumerate(order) if node.label is not None}
    return LabelTree(taxonomy, nodes, tuple(notes))


def _names(nodes: Sequence[_Node], parents: Sequence[int]) -> list[str]:
    """Returns a name of its own for each node; labels keep theirs, other nodes give way."""
    labels = [node.label is not None and node.name == node.label.name for node in nodes]
    taken = {node.name.casefold() for node, label in zip(nodes, labels, strict=True) if label}
    names: list[str] = []
    for node, parent, label in zip(nodes, parents, labels, strict=True):
        name = node.name
        if not label:
            above = [names[parent]] if parent >= 0 else []
            choices = [node.name, *node.others, *(f"{node.name} ({one})" for one in above)]
            name = next((one for one in choices if one.casefold() not in taken), "")
            number = 2
            while not name:
                name = f"{node.name} ({number})" if f"{node.name} ({number})".casefold() not in taken else ""
                number += 1
            taken.add(name.casefold())
        names.append(name)
    return names


def _aliases(nodes: Sequence[_Node], names: Sequence[str]) -> list[list[str]]:
    """Returns the other names of each node, labels as they are written first, without those that others have too."""
    wanted = []
    for node, name in zip(nodes, names, strict=True):
        own = dict.fromkeys((*(_needed(node.label) if node.label else ()), *node.others, node.name))
        wanted.append([other for other in own if other.casefold() != name.casefold()])
    certain = {name.casefold() for name in names}
    certain |= {one.casefold() for node in nodes if node.label for one in node.label.written}
    counts = Counter(other.casefold() for some in wanted for other in {one.casefold(): one for one in some}.values())
    aliases = []
    for node, some in zip(nodes, wanted, strict=True):
        certainly = set(_needed(node.label)) if node.label else set()
        aliases.append(
            [
                other
                for other in some
                if other in certainly or (counts[other.casefold()] == 1 and other.casefold() not in certain)
            ]
        )
    return aliases


def _needed(label: Label) -> tuple[str, ...]:
    """Returns what a label's node has to be called besides, or else the label does not resolve."""
    return (label.name, *label.aliases)
