"""A tree for a flat list of labels: WordNet's hypernyms above them, cut down to size."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import NamedTuple

from taxtune.authoring.senses import WNID, Label, SenseChoice, choose_synsets
from taxtune.errors import DataError, TaxonomyError
from taxtune.taxonomy.tree import Taxonomy
from taxtune.wordnet import INSTALL, Synset, WordNet, find_wordnet

__all__ = ["MAX_DEPTH", "LabelTree", "tree_by_wordnet", "tree_from_synsets"]

#: Most levels below the root of a tree that WordNet proposes.
MAX_DEPTH = 6
# A group that holds more than this share of the labels of the group above tells nothing more.
_FULL = 0.9


@dataclass(eq=False, slots=True)
class _Node:
    """A node under construction; `information` tells how specific its kind is, from 0 to 1."""

    name: str
    others: tuple[str, ...] = ()
    label: Label | None = None
    children: list[_Node] = field(default_factory=list)
    information: float = 1.0

    def all(self) -> Iterator[_Node]:
        """Yields the node and all below it, parents first."""
        queue = [self]
        for node in queue:
            yield node
            queue.extend(node.children)

    def replace_children(self, expand: dict[_Node, bool]) -> None:
        """Puts the children of those that `expand` marks where these stand."""
        children = []
        for child in self.children:
            children += child.children if expand.get(child) else [child]
        self.children = children


class LabelTree(NamedTuple):
    """A tree made for labels.

    Attributes:
        taxonomy: The tree; every label resolves on it.
        nodes: The node of each label, by its name.
    """

    taxonomy: Taxonomy
    nodes: dict[str, int]


def tree_by_wordnet(
    labels: Sequence[Label], *, max_depth: int | None = MAX_DEPTH
) -> tuple[list[SenseChoice], LabelTree]:
    """Returns the synset of each label, and the tree of their hypernyms.

    Args:
        labels: The labels.
        max_depth: See `tree_from_synsets`.

    Raises:
        DataError: If WordNet is not installed, or a label does not resolve.
        TaxonomyError: If there are no labels.
    """
    wordnet = find_wordnet()
    if wordnet is None:
        raise DataError(
            "A tree for labels is made from WordNet, which is not installed.",
            remedy=f"{INSTALL} Or write the tree: a CSV with the column path and rows such as "
            "food/dessert/cake.",
        )
    choices = choose_synsets(wordnet, labels)
    tree = tree_from_synsets(wordnet, choices, max_depth=max_depth)
    for label in labels:
        for written in (label.name, *label.aliases):
            if tree.taxonomy.resolve(written) != tree.nodes[label.name]:
                message = "Another node of the tree has the same label."
                raise DataError(message, value=written, remedy="Rename it in the data.")
    return choices, tree


def tree_from_synsets(
    wordnet: WordNet, choices: Sequence[SenseChoice], *, max_depth: int | None = None
) -> LabelTree:
    """Returns the tree of the hypernyms of labels' synsets.

    Its root is the lowest synset above all labels.

    Of several hypernyms of a synset the one stays that has the most labels below it, weighted by
    its information content. A label that is itself above others is an inner node. Of labels with
    one synset the first is its node and the others are its siblings. A label without a synset is a
    child of the root. Groups of one child are removed.

    Args:
        wordnet: WordNet.
        choices: The labels with their synsets.
        max_depth: Largest number of edges from the root to a label; groups that tell least are
            removed. None: no limit.

    Raises:
        TaxonomyError: If there are no labels.
    """
    if not choices:
        raise TaxonomyError("There are no labels to build a tree from.")
    hypernyms = _Hypernyms(wordnet, choices)
    unplaced = hypernyms.add(choices)
    root = hypernyms.top
    # What all labels have in common goes without saying; the lowest of it is the root.
    while len(root.children) == 1 and root.children[0].label is None:
        root = root.children[0]
    _remove_full_groups(root)
    root.children += unplaced
    for node in reversed(list(root.all())):
        node.replace_children({c: c.label is None and len(c.children) < 2 for c in node.children})
    if max_depth is not None:
        _limit_depth(root, max_depth)
    return _as_taxonomy(root)


class _Hypernyms:
    """The tree of all hypernyms of labels.

    Args:
        wordnet: WordNet.
        choices: The labels with their synsets.

    Attributes:
        top: Its root.
    """

    def __init__(self, wordnet: WordNet, choices: Sequence[SenseChoice]) -> None:
        self.top = _Node("thing")
        self._wordnet = wordnet
        self._nodes: dict[Synset, _Node] = {}
        self._parents: dict[_Node, _Node] = {}
        self._labels_of: Counter[Synset] = Counter()
        for choice in choices:
            if choice.synset is not None:
                self._labels_of.update(wordnet.ancestors(choice.synset))

    def add(self, choices: Sequence[SenseChoice]) -> list[_Node]:
        """Adds the labels, and returns the nodes of those without a synset, which stay outside."""
        siblings = []
        unplaced = []
        for choice in choices:
            own = _Node(choice.label.name, label=choice.label)
            if choice.synset is None:
                unplaced.append(own)
                continue
            node = self._node(choice.synset)
            if choice.relation != "is":
                self._attach(own, node)
            elif node.label is not None:
                siblings.append((own, node))
            else:
                node.label = choice.label
                if not WNID.fullmatch(choice.label.name):
                    node.name = choice.label.name
                    node.others = choice.synset.lemmas
        for own, sibling in siblings:
            self._attach(own, self._parents[sibling])
        return unplaced

    def _node(self, synset: Synset) -> _Node:
        """Returns the node of a synset, which is added below its best hypernym if need be."""
        if synset not in self._nodes:
            name, *others = synset.lemmas
            information = self._wordnet.information(synset)
            self._nodes[synset] = _Node(name, tuple(others), information=information)
            above = max(self._wordnet.hypernyms(synset), key=self._worth, default=None)
            self._attach(self._nodes[synset], self.top if above is None else self._node(above))
        return self._nodes[synset]

    def _worth(self, synset: Synset) -> tuple[float, str]:
        return self._labels_of[synset] * self._wordnet.information(synset) ** 3, synset.name

    def _attach(self, node: _Node, parent: _Node) -> None:
        self._parents[node] = parent
        parent.children.append(node)


def _labels_below(root: _Node) -> dict[_Node, int]:
    labels: dict[_Node, int] = {}
    for node in reversed(list(root.all())):
        labels[node] = (node.label is not None) + sum(labels[child] for child in node.children)
    return labels


def _remove_full_groups(root: _Node) -> None:
    """Removes a group if nearly all its labels lie in one of its subgroups, which takes its place.

    The root stays, and the subgroup below it goes.
    """
    labels = _labels_below(root)

    def is_full(child: _Node, node: _Node) -> bool:
        return child.label is None and labels[child] > _FULL * labels[node]

    for node in reversed(list(root.all())):
        told_by_one = {}
        for group in node.children:
            has_full = any(is_full(below, group) for below in group.children)
            told_by_one[group] = group.label is None and has_full
        node.replace_children(told_by_one)
    while any(is_full(child, root) for child in root.children):
        root.replace_children({child: is_full(child, root) for child in root.children})


def _limit_depth(root: _Node, most: int) -> None:
    """Removes groups above labels that are too deep, those that tell least first.

    A group tells log(n_parent / n) about each of its n labels, times the square of its information
    content.
    """
    while True:
        labels = _labels_below(root)
        depth = {root: 0}
        parents: dict[_Node, _Node] = {}
        for node in root.all():
            for child in node.children:
                parents[child] = node
                depth[child] = depth[node] + 1
        groups: dict[_Node, float] = {}
        for label in depth:
            if label.label is None or depth[label] <= most:
                continue
            node = parents[label]
            while node is not root:
                if node.label is None:
                    kept = math.log(labels[parents[node]] / labels[node])
                    groups[node] = labels[node] * kept * node.information**2
                node = parents[node]
        if not groups:
            return
        least = min(groups, key=lambda node: (groups[node], -depth[node], node.name))
        parents[least].replace_children({least: True})


def _names(order: Sequence[tuple[_Node, int]]) -> list[str]:
    """Returns the name of each node.

    Labels keep their names; groups that are called alike give way to them and to those above.

    Args:
        order: The nodes, each with the position of its parent.
    """
    taken = set()
    for node, _ in order:
        if node.label is not None and node.name == node.label.name:
            taken.add(node.name.casefold())
    names: list[str] = []
    for node, parent in order:
        name = node.name
        if node.label is None or name != node.label.name:
            above = [f"{node.name} ({names[parent]})"] if parent >= 0 else []
            numbered = (f"{node.name} ({number})" for number in count(2))
            free = chain([node.name, *node.others, *above], numbered)
            name = next(choice for choice in free if choice.casefold() not in taken)
            taken.add(name.casefold())
        names.append(name)
    return names


def _aliases(nodes: Sequence[_Node], names: Sequence[str]) -> list[list[str]]:
    """Returns the aliases of each node.

    A label's own spellings are aliases; a synset's other lemmas are, where no other node has them.
    """
    certain = {name.casefold() for name in names}
    owners: Counter[str] = Counter()
    for node in nodes:
        owners.update({lemma.casefold() for lemma in (*node.others, node.name)})
        if node.label is not None:
            certain.update(written.casefold() for written in node.label.written)
    aliases = []
    for node, name in zip(nodes, names, strict=True):
        own = {}
        if node.label is not None:
            own = dict.fromkeys((node.label.name, *node.label.aliases))
        lemmas = {lemma.casefold(): lemma for lemma in (*node.others, node.name)}
        for key, lemma in lemmas.items():
            if owners[key] == 1 and key not in certain:
                own[lemma] = None
        aliases.append([alias for alias in own if alias.casefold() != name.casefold()])
    return aliases


def _as_taxonomy(root: _Node) -> LabelTree:
    order: list[tuple[_Node, int]] = []
    stack = [(root, -1)]
    while stack:
        node, parent = stack.pop()
        order.append((node, parent))
        below = list(node.children)
        below.sort(key=lambda child: (child.name.casefold(), child.name), reverse=True)
        stack.extend((child, len(order) - 1) for child in below)
    names = _names(order)
    aliases = _aliases([node for node, _ in order], names)
    taxonomy = Taxonomy(names, [parent for _, parent in order], aliases=aliases)
    nodes = {node.label.name: i for i, (node, _) in enumerate(order) if node.label is not None}
    return LabelTree(taxonomy, nodes)
