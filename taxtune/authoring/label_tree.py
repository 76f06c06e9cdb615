"""A tree for a flat list of labels: WordNet's hypernyms above them, cut down to size."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import NamedTuple

from taxtune.authoring.senses import WNID, Choice, Label, choose_synsets
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
        self.children = [
            one
            for child in self.children
            for one in (child.children if expand.get(child) else [child])
        ]


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
) -> tuple[list[Choice], LabelTree]:
    """The synset of each label, and the tree of their hypernyms.

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
            remedy=f"{INSTALL} Or write the tree: a CSV with the column path and rows such as food/dessert/cake.",
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
    wordnet: WordNet, choices: Sequence[Choice], *, max_depth: int | None = None
) -> LabelTree:
    """The tree of the hypernyms of labels' synsets; its root is the lowest synset above all labels.

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
    counts = Counter(
        kind for choice in choices if choice.synset for kind in wordnet.ancestors(choice.synset)
    )
    nodes: dict[Synset, _Node] = {}
    parents: dict[_Node, _Node] = {}
    top = _Node("thing")

    def node_of(synset: Synset) -> _Node:
        if synset not in nodes:
            nodes[synset] = _Node(
                synset.lemmas[0], synset.lemmas[1:], information=wordnet.information(synset)
            )
            above = wordnet.hypernyms(synset)
            best = max(
                above,
                key=lambda one: (counts[one] * wordnet.information(one) ** 3, one.name),
                default=None,
            )
            attach(nodes[synset], top if best is None else node_of(best))
        return nodes[synset]

    def attach(node: _Node, parent: _Node) -> None:
        parents[node] = parent
        parent.children.append(node)

    siblings, unplaced = [], []
    for choice in choices:
        if choice.synset is None:
            unplaced.append(_Node(choice.label.name, (), choice.label))
            continue
        node = node_of(choice.synset)
        if choice.relation != "is":
            attach(_Node(choice.label.name, (), choice.label), node)
        elif node.label is not None:
            siblings.append((_Node(choice.label.name, (), choice.label), node))
        else:
            node.label = choice.label
            if not WNID.fullmatch(choice.label.name):
                node.name, node.others = choice.label.name, choice.synset.lemmas
    for node, sibling in siblings:
        attach(node, parents[sibling])
    root = top
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


def _labels_below(root: _Node) -> dict[_Node, int]:
    labels: dict[_Node, int] = {}
    for node in reversed(list(root.all())):
        labels[node] = (node.label is not None) + sum(labels[child] for child in node.children)
    return labels


def _remove_full_groups(root: _Node) -> None:
    """Removes groups that hold hardly a label but those of one group in them; below the root, that group goes."""
    labels = _labels_below(root)

    def holds_most(child: _Node, node: _Node) -> bool:
        return child.label is None and labels[child] > _FULL * labels[node]

    for node in reversed(list(root.all())):
        node.replace_children(
            {
                c: c.label is None and any(holds_most(below, c) for below in c.children)
                for c in node.children
            }
        )
    while any(holds_most(child, root) for child in root.children):
        root.replace_children({child: holds_most(child, root) for child in root.children})


def _limit_depth(root: _Node, most: int) -> None:
    """Removes groups above labels that are too deep, those that tell least first.

    A group tells log(n_parent / n) about each of its n labels, times the square of its information
    content.
    """
    while True:
        parents = {child: node for node in root.all() for child in node.children}
        depth, labels = {root: 0}, _labels_below(root)
        for node in root.all():
            depth.update((child, depth[node] + 1) for child in node.children)
        groups = set()
        for node in depth:
            if node.label is not None and depth[node] > most:
                while (node := parents[node]) is not root:
                    groups |= {node} if node.label is None else set()
        if not groups:
            return
        tells = {
            node: labels[node]
            * math.log(labels[parents[node]] / labels[node])
            * node.information**2
            for node in groups
        }
        least = min(groups, key=lambda node: (tells[node], -depth[node], node.name))
        parents[least].replace_children({least: True})


def _as_taxonomy(root: _Node) -> LabelTree:
    order: list[tuple[_Node, int]] = []
    stack = [(root, -1)]
    while stack:
        node, parent = stack.pop()
        order.append((node, parent))
        below = sorted(
            node.children, key=lambda child: (child.name.casefold(), child.name), reverse=True
        )
        stack.extend((child, len(order) - 1) for child in below)
    # Labels keep their names; groups that are called alike give way to them and to those above.
    taken = {
        node.name.casefold()
        for node, _ in order
        if node.label is not None and node.name == node.label.name
    }
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
    # A label's own spellings are aliases; a synset's other lemmas are, where no other node has
    # them.
    needed = [(node.label.name, *node.label.aliases) if node.label else () for node, _ in order]
    certain = {name.casefold() for name in names}
    certain |= {
        written.casefold() for node, _ in order if node.label for written in node.label.written
    }
    lemmas = [{one.casefold(): one for one in (*node.others, node.name)} for node, _ in order]
    owners = Counter(key for some in lemmas for key in some)
    aliases = []
    for name, own, some in zip(names, needed, lemmas, strict=True):
        more = [one for key, one in some.items() if owners[key] == 1 and key not in certain]
        aliases.append(
            [one for one in dict.fromkeys((*own, *more)) if one.casefold() != name.casefold()]
        )
    taxonomy = Taxonomy(names, [parent for _, parent in order], aliases=aliases)
    nodes = {node.label.name: i for i, (node, _) in enumerate(order) if node.label is not None}
    return LabelTree(taxonomy, nodes)
