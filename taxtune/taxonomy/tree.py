"""The label tree: `Taxonomy`.

A taxonomy is a triplet (V, L, E): nodes, a label for each, and edges that form a tree with one root
(paper 1, §3). Nodes are numbered 0..n-1 in an order in which every parent comes before its
children, so the root is node 0. All relations between nodes are answered from two arrays: row v of
`Taxonomy.lineage` lists the ancestors of v from the root down, and `Taxonomy.places` numbers the
nodes so that those below v follow it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.errors import TaxonomyError
from taxtune.progress import note
from taxtune.tables import clean
from taxtune.taxonomy.nested_json import read_nested
from taxtune.taxonomy.raw import ROOT, RawNode, RawTaxonomy, add_root, assemble
from taxtune.taxonomy.rows import raw_from_edges, raw_from_paths

__all__ = ["Taxonomy", "split_path", "tree_of"]

IntArray = NDArray[np.int64]
_T = TypeVar("_T")
#: Several names of each node.
Names = Sequence[Sequence[str]]

#: The table of ancestors has at most so many entries: 1 GB, enough for ten million nodes of depth
#: 24.
_MAX_LINEAGE = 250_000_000
#: Names that are less alike than this are no suggestion.
_NEAR = 60
#: Kinds of notes on what was changed, left out or perhaps misread; who reads the tree has to know.
_SHOWN_NOTES = frozenset({"added root", "left out", "renamed"})


class Taxonomy:
    """A rooted tree of labelled nodes.

    A node's names are of two kinds. Its label and its aliases *identify* it: `find` and `resolve`
    go by these. Its leads only *lead* an answer to it: "horned puffin" belongs under the genus
    Fratercula if the tree lacks that species, but whoever labels an image "Horned Puffin" does not
    mean the genus. `names` returns both kinds.

    Args:
        labels: One label a node; node 0 is the root.
        parents: The parent's number of each node, smaller than the node's own; -1 for the root.
        aliases: Other names of each node that identify it, the preferred common name first.
        ranks: The rank of each node, or None.
        source: Where the taxonomy was read from, for messages.
        ids: What identifies each node in its source ("Q42", "n01440764"), each once, or None.
        leads: Names of each node that lead an answer to it, and do not identify it.

    Raises:
        TaxonomyError: If the arrays do not form a rooted tree, a label is empty, or two siblings
            share a label.
    """

    def __init__(
        self,
        labels: Sequence[str],
        parents: ArrayLike,
        *,
        aliases: Names | None = None,
        ranks: Sequence[str | None] | None = None,
        source: str | None = None,
        ids: Sequence[str | None] | None = None,
        leads: Names | None = None,
    ) -> None:
        n = len(labels)
        if n == 0:
            raise TaxonomyError("The taxonomy has no nodes.", file=source)
        self.source = source
        self.labels = tuple(labels)
        self.aliases = _tuples(aliases, n)
        self.leads = _tuples(leads, n)
        self.ranks = _optional(ranks, n)
        self.ids = _optional(ids, n)
        self.parents = np.asarray(parents, dtype=np.int64)
        for values in (self.parents, self.aliases, self.leads, self.ranks, self.ids):
            if len(values) != n:
                raise ValueError(
                    "labels, parents, aliases, leads, ranks and ids must have the same length"
                )
        above = self.parents[1:]
        comes_before = (above >= 0) & (above < np.arange(1, n))
        if self.parents[0] != -1 or not comes_before.all():
            message = "Every node except the root (node 0) needs a parent that comes before it."
            raise TaxonomyError(message, file=source)
        self._check_labels()
        #: Edges from the root of each node, shape (n,).
        self.depth = _depths(self.parents)
        if n * (self.height + 1) > _MAX_LINEAGE:
            raise TaxonomyError(
                f"The tree is too deep for its size: {n} nodes, {self.height} levels below the "
                "root.",
                file=source,
                remedy="Look for a long chain of nodes that is not a real classification.",
            )
        self.parents.flags.writeable = False
        self.depth.flags.writeable = False

    def _check_labels(self) -> None:
        """Raises a TaxonomyError if a label is empty or two siblings share one."""
        seen = set()
        parents = self.parents.tolist()
        for node, label in enumerate(self.labels):
            if not label.strip():
                message = f"Node {node} has an empty label."
                remedy = "Give it a name or remove it."
                raise TaxonomyError(message, file=self.source, remedy=remedy)
            parent = parents[node]
            if (parent, label) in seen:
                message = f"Two children of {self.labels[parent]!r} are both called {label!r}."
                remedy = "Merge them or rename one."
                raise TaxonomyError(message, file=self.source, remedy=remedy)
            seen.add((parent, label))

    # -- making a tree -----------------------------------------------------------------------------

    @classmethod
    def from_paths(
        cls,
        paths: Iterable[Sequence[str] | str],
        *,
        root: str | None = None,
        aliases: Mapping[str, Sequence[str]] | None = None,
    ) -> Taxonomy:
        r"""Returns a tree of the paths to its nodes; inner nodes need no path of their own.

        Args:
            paths: Paths from the root down: sequences of names, or texts with slashes
                ("life/bird/finch"; in a name a slash is written "\/").
            root: A root in front of every path, if the paths have none in common.
            aliases: Other names by label or path, the preferred one first.

        Raises:
            TaxonomyError: If there are no paths, a name is empty, the paths have several roots, or
                an alias is given for a node that is not there. The row in a message is the path's
                position, counted from 1.

        Example:
            >>> Taxonomy.from_paths(["bird/finch", "bird/duck/mallard"])
            Taxonomy('bird', nodes=4, leaves=2, height=2)
        """
        return _tree_of_values(raw_from_paths(paths, root), aliases)

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[tuple[str, str | None]],
        *,
        labels: Mapping[str, str] | None = None,
        aliases: Mapping[str, Sequence[str]] | None = None,
    ) -> Taxonomy:
        """Returns a tree of pairs (child, parent) of ids, in any order.

        Args:
            edges: The pairs; the root's parent may be None or left out.
            labels: The label of each id; by default the id itself.
            aliases: Other names by label or id, the preferred one first.

        Raises:
            TaxonomyError: If the pairs form no tree with one root, or a label or an alias is given
                for a node that is not there. The row in a message is the pair's position, counted
                from 1.

        Example:
            >>> Taxonomy.from_edges([("finch", "bird"), ("duck", "bird")])
            Taxonomy('bird', nodes=3, leaves=2, height=1)
        """
        return _tree_of_values(raw_from_edges(edges, labels), aliases)

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, object] | Sequence[object],
        *,
        root: str | None = None,
    ) -> Taxonomy:
        """Returns a tree of nested dictionaries and lists, as JSON holds them.

        Args:
            data: Names as keys with what is below them ({"bird": {"finch": {}, "duck":
                ["mallard"]}}; None or an empty dictionary below a leaf), nodes with fields
                ({"name": "bird", "aliases": ["birds"], "children": […]}), or both.
            root: The label of the root that is added above several nodes at the top; "everything"
                by default.

        Raises:
            TaxonomyError: If something in it is neither a node nor a name, or two siblings share a
                name; the message gives its place as a JSON path.

        Example:
            >>> Taxonomy.from_dict({"bird": {"finch": {}, "duck": ["mallard", "teal"]}})
            Taxonomy('bird', nodes=5, leaves=3, height=2)
        """
        name = "Taxonomy.from_dict"
        if not isinstance(data, (dict, list)) or not data:
            raise TaxonomyError(
                "Nested dictionaries or lists are needed.",
                file=name,
                value=data,
                remedy='Such as {"bird": {"finch": {}}}.',
            )
        return _tree_of_values(read_nested(data, name), root=root)

    @classmethod
    def from_nodes(cls, nodes: Sequence[RawNode], source: str | None = None) -> Taxonomy:
        """Returns a tree of nodes whose parents come before them; a text as a key is an id."""
        number: dict[object, int] = {None: -1}
        ids = []
        for position, node in enumerate(nodes):
            number[node.key] = position
            ids.append(node.key if isinstance(node.key, str) else None)
        return cls(
            [node.label for node in nodes],
            [number[node.parent] for node in nodes],
            aliases=[node.aliases for node in nodes],
            ranks=[node.rank for node in nodes],
            source=source,
            ids=ids,
            leads=[node.leads for node in nodes],
        )

    # -- size and nodes ----------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.labels)

    def __getstate__(self) -> dict[str, object]:
        """Returns the state of a copy in another process, without what is computed from it."""
        state = {}
        for name, value in vars(self).items():
            if not isinstance(getattr(type(self), name, None), cached_property):
                state[name] = value
        return state

    def __repr__(self) -> str:
        size = f"nodes={len(self)}, leaves={len(self.leaves)}, height={self.height}"
        return f"Taxonomy({self.labels[0]!r}, {size})"

    @property
    def root(self) -> int:
        """The number of the root: 0."""
        return 0

    @cached_property
    def height(self) -> int:
        """Edges on the longest path from the root to a leaf."""
        return int(self.depth.max())

    @cached_property
    def digest(self) -> str:
        """What identifies the tree's names, parents and ranks, whatever file they are from."""
        digest = blake2b(self.parents.astype("<i8").tobytes(), digest_size=16)
        for names in (self.aliases, self.leads):
            counts = list(map(len, names))
            digest.update(np.array(counts, dtype="<i8").tobytes())
        ranks = [rank or "" for rank in self.ranks]
        for texts in (self.labels, chain(*self.aliases), chain(*self.leads), ranks):
            encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
            lengths = list(map(len, encoded))
            digest.update(np.cumsum(lengths, dtype="<i8").tobytes())
            digest.update(b"".join(encoded))
        return digest.hexdigest()

    @cached_property
    def leaves(self) -> IntArray:
        """Numbers of the nodes without children, ascending."""
        return np.flatnonzero(self.sizes == 1)

    def path(self, index: int) -> tuple[str, ...]:
        """Returns the labels from the root to node `index`."""
        nodes = self.ancestors(index).tolist()
        return tuple(self.labels[node] for node in nodes)

    def children(self, index: int) -> IntArray:
        """Returns the children of node `index`, ascending."""
        start, stop = self._child_range[index : index + 2].tolist()
        return self._by_parent[start:stop]

    @cached_property
    def _by_parent(self) -> IntArray:
        order = np.argsort(self.parents, kind="stable")
        return order[1:]  # the root, whose parent is -1, sorts first

    @cached_property
    def _child_range(self) -> IntArray:
        parents = self.parents[self._by_parent]
        return np.searchsorted(parents, np.arange(len(self) + 1))

    def names(self, index: int) -> tuple[str, ...]:
        """Returns every name of node `index`: its label, its aliases and its leads."""
        return (self.labels[index], *self.aliases[index], *self.leads[index])

    def common_name(self, index: int) -> str:
        """Returns the first name of node `index` beside its label, or else its label."""
        others = self.names(index)[1:]
        return others[0] if others else self.labels[index]

    # -- relations, for single numbers and arrays alike --------------------------------------------

    @cached_property
    def lineage(self) -> NDArray[Any]:
        """Ancestors of each node from the root (column 0) down to itself, then -1.

        They are int32, of shape (n, height + 1).
        """
        # The levels are rows here, each contiguous: relations of many nodes look one up.
        shape = (self.height + 1, len(self))
        levels = np.full(shape, -1, dtype=np.int32)
        above = np.arange(len(self))
        for level in range(self.height, -1, -1):
            nodes = np.flatnonzero(self.depth >= level)
            levels[level, nodes] = above[nodes]
            above[nodes] = self.parents[above[nodes]]
        levels.flags.writeable = False
        return levels.T

    def _sums(self, values: ArrayLike) -> IntArray:
        """Returns the sum of a value over the nodes at and below each node, shape (n,)."""
        sums = np.asarray(values).tolist()
        parents = self.parents.tolist()
        for node in range(len(sums) - 1, 0, -1):  # children come after their parents
            sums[parents[node]] += sums[node]
        return np.array(sums, dtype=np.int64)

    @cached_property
    def sizes(self) -> IntArray:
        """The number of nodes at or below each node, shape (n,)."""
        return self._sums([1] * len(self))

    @cached_property
    def _leaf_counts(self) -> IntArray:
        return self._sums(self.sizes == 1)

    def leaves_below(self, nodes: ArrayLike) -> IntArray:
        """Returns the number of leaves at or below nodes, elementwise."""
        counts: IntArray = self._leaf_counts[np.asarray(nodes)]
        return counts

    @cached_property
    def places(self) -> IntArray:
        """Where each node comes in a walk down the tree, shape (n,).

        The walk is depth first, siblings by number. The nodes at and below v have the `sizes[v]`
        places from `places[v]` on.
        """
        places = [0] * len(self)
        next_place = [1] * len(self)  # behind each node: the place of its next child
        sizes = self.sizes.tolist()
        for node, parent in enumerate(self.parents[1:].tolist(), start=1):
            places[node] = places[parent] + next_place[parent]
            next_place[parent] += sizes[node]
        return np.array(places, dtype=np.int64)

    @cached_property
    def walk(self) -> IntArray:
        """The nodes in the order of their places, shape (n,)."""
        return np.argsort(self.places)

    def ancestors(self, index: int) -> IntArray:
        """Returns anc(v): the root first, `index` itself last (paper 1, eq. 1)."""
        stop = self.depth[index] + 1
        return self.lineage[index, :stop].astype(np.int64)

    def shared(self, a: ArrayLike, b: ArrayLike) -> IntArray:
        """Returns |anc(a) ∩ anc(b)|, elementwise over broadcast arrays of nodes; at least 1."""
        a, b = np.broadcast_arrays(a, b)
        # Lineages agree down to the lowest common ancestor and nowhere below it: its level is found
        # by bisection.
        level = np.zeros(a.shape, dtype=np.int64)
        below = np.minimum(self.depth[a], self.depth[b])
        for _ in range(self.height.bit_length()):
            middle = (level + below + 1) // 2
            same = self.lineage[a, middle] == self.lineage[b, middle]
            level = np.where(same, middle, level)
            below = np.where(same, below, middle - 1)
        return level + 1

    def lca(self, a: ArrayLike, b: ArrayLike) -> Any:
        """Returns the lowest common ancestor of two nodes, elementwise over broadcast arrays."""
        shared = self.shared(a, b)
        nodes = np.broadcast_to(a, shared.shape)
        common = self.lineage[nodes, shared - 1].astype(np.int64)
        return int(common) if common.ndim == 0 else common

    def common_ancestor(self, nodes: Iterable[int]) -> int:
        """Returns the lowest common ancestor of one or more nodes."""
        rows = self.lineage[np.fromiter(nodes, dtype=np.int64)]
        first = rows[0]
        is_shared = (rows == first) & (first >= 0)
        level = is_shared.all(axis=0).sum() - 1
        return int(first[level])

    def is_ancestor(self, a: ArrayLike, b: ArrayLike) -> NDArray[np.bool_]:
        """Tells whether `a` is in anc(b), elementwise; a node is its own ancestor."""
        a = np.asarray(a)
        above: NDArray[np.bool_] = self.lineage[np.asarray(b), self.depth[a]] == a
        return above

    def descendants(self, index: int) -> IntArray:
        """Returns `index` and every node below it, ascending."""
        start = self.places[index]
        stop = start + self.sizes[index]
        return np.sort(self.walk[start:stop])

    # -- by name -----------------------------------------------------------------------------------

    def _identifying(self) -> Iterator[tuple[str, ...]]:
        """Yields the label and the aliases of each node."""
        for label, aliases in zip(self.labels, self.aliases, strict=True):
            yield (label, *aliases)

    @cached_property
    def _by_name(self) -> dict[str, list[int]]:
        return _by_folded(self._identifying())

    @cached_property
    def _by_lead(self) -> dict[str, list[int]]:
        return _by_folded(self.leads)

    @cached_property
    def by_id(self) -> dict[str, int]:
        """The number of each node that has an id, by that id."""
        return {key: i for i, key in enumerate(self.ids) if key is not None}

    def find(self, name: str) -> list[int]:
        """Returns every node whose label or alias is `name`, upper and lower case alike.

        What no node is called is looked for as the readers write labels: accents composed, white
        space as one space. Names that only lead to a node do not count: see `led`.
        """
        return _look_up(name, self._by_name)

    def led(self, name: str) -> list[int]:
        """Returns every node that `name` leads an answer to, upper and lower case alike.

        Nodes that it identifies do not count.
        """
        return _look_up(name, self._by_lead)

    def _at_path(self, path: Sequence[str]) -> int | None:
        """Returns the node at a path, which may lack the root, or None."""
        if not path:
            return self.root
        for labels in (tuple(path), tuple(map(clean, path))):
            for candidate in (labels, (self.labels[0], *labels)):
                node = self._at_full_path(candidate)
                if node is not None:
                    return node
        return None

    def _at_full_path(self, path: tuple[str, ...]) -> int | None:
        """Returns the node at a path from the root, or None.

        A path as it is written wins over others that differ only in upper and lower case.
        """
        folded = _casefolded(path)
        alike = {}
        for node in self._by_name.get(folded[-1], ()):
            written = self.path(node)
            if _casefolded(written) == folded:
                alike[written] = node
        first = next(iter(alike.values()), None)
        return alike.get(path, alike.get(folded, first))

    def resolve(self, reference: str | Sequence[str]) -> int:
        """Returns the one node that a label, an alias or a path refers to.

        Upper and lower case are alike.

        Args:
            reference: A path as a sequence of labels or as text with slashes
                ("life/Animalia/Chordata/Aves"); the root may be left out. Or a label or alias. A
                label beats an alias, and the exact spelling one that differs in upper and lower
                case; of several nodes with the same label none is chosen. An id of the source is
                the last resort. A name that only leads answers to a node is no reference to it.

        Raises:
            TaxonomyError: If there is no such node (the message suggests what may be meant) or
                several.
        """
        if not isinstance(reference, str):
            node = self._at_path(reference)
            if node is None:
                path = "/".join(reference)
                raise TaxonomyError("No node has this path.", value=path, file=self.source)
            return node
        written = reference.strip()
        name = written if written.casefold() in self._by_name else clean(reference)
        nodes = self._best_named(name)
        if len(nodes) == 1:
            return nodes[0]
        if nodes:
            message = f"{len(nodes)} nodes are called {reference!r}."
            remedy = f"Give the path: {self._paths(nodes[:5])}."
            raise TaxonomyError(message, file=self.source, remedy=remedy)
        if "/" in name:
            node = self._at_path(split_path(name))
            if node is not None:
                return node
        if written in self.by_id:
            return self.by_id[written]
        if not self.led(name):
            name = name.rsplit("/", 1)[-1]
        message = f"{reference!r} is not on the taxonomy."
        raise TaxonomyError(message, file=self.source, remedy=self.suggest(name))

    def _paths(self, nodes: Iterable[int]) -> str:
        return ", ".join("/".join(self.path(node)) for node in nodes)

    def _best_named(self, name: str) -> list[int]:
        """Returns the nodes with a name, those whose label it is if any, spelt so if any."""
        nodes = self.find(name)
        folded = name.casefold()
        labelled = [node for node in nodes if self.labels[node].casefold() == folded]
        spelt_alike = [node for node in labelled if self.labels[node] == name]
        return spelt_alike or labelled or nodes

    @cached_property
    def _spellings(self) -> dict[str, str]:
        """Every label and alias in lower case, and as it is written."""
        return {name.casefold(): name for name in chain(*self._identifying())}

    def suggest(self, name: str) -> str:
        """Returns, as a sentence for an error, what may be meant by a name that no node has.

        That is the node that the name leads answers to, if it does, and up to three names that are
        spelt much like it (RapidFuzz's `ratio`).
        """
        from rapidfuzz import fuzz, process

        query = name.strip().casefold()
        options = list(self._spellings) if query else []
        hits = process.extract(query, options, scorer=fuzz.ratio, limit=3, score_cutoff=_NEAR)
        names = [self._spellings[folded] for folded, *_ in hits]
        similar = ", ".join(map(repr, names))
        advice = f"Did you mean {similar}?" if hits else "No similar name is on the taxonomy."
        led = self.led(name)
        if not led:
            return advice
        nodes = self._paths(led[:3])
        lead = f"It is only a lead to {nodes}; use that label or path if you mean that node."
        return f"{lead} {advice}" if hits else lead

    # -- parts and variants ------------------------------------------------------------------------

    def with_names(self, *, aliases: Names | None = None, leads: Names | None = None) -> Taxonomy:
        """Returns the same tree with other aliases, other leads or both; the rest stays."""
        tree = copy(self)  # without what is computed of the names
        if aliases is not None:
            tree.aliases = _tuples(aliases, len(self))
        if leads is not None:
            tree.leads = _tuples(leads, len(self))
        if not len(tree.aliases) == len(tree.leads) == len(self):
            raise ValueError("aliases and leads must be as many as there are nodes")
        return tree

    def subtree(self, index: int) -> Taxonomy:
        """Returns the taxonomy below and including node `index`, which becomes the root.

        Depths, and with them hP and hR, are counted from the new root.
        """
        kept = self.descendants(index)
        parents = np.searchsorted(kept, self.parents[kept])
        parents[0] = -1
        return Taxonomy(
            _taken(kept, self.labels),
            parents,
            aliases=_taken(kept, self.aliases),
            ranks=_taken(kept, self.ranks),
            source=self.source,
            ids=_taken(kept, self.ids),
            leads=_taken(kept, self.leads),
        )


def _taken(nodes: IntArray, values: Sequence[_T]) -> list[_T]:
    return [values[node] for node in nodes]


def tree_of(raw: RawTaxonomy) -> Taxonomy:
    """Returns the tree of a file's statements, and prints notes on changes and omissions.

    Raises:
        TaxonomyError: If a defect breaks the tree; the message names the first one and how many
            more there are.
    """
    nodes, defects = assemble(raw, shared_names=False)
    breaking = [defect for defect in defects if defect.breaks]
    if breaking:
        raise breaking[0].error(more=len(breaking) - 1)
    for defect in defects:
        if defect.kind in _SHOWN_NOTES:
            note(f"{defect.file}: {defect.message}")
    return Taxonomy.from_nodes(nodes, raw.file)


def _tree_of_values(
    raw: RawTaxonomy,
    aliases: Mapping[str, Sequence[str]] | None = None,
    root: str | None = None,
) -> Taxonomy:
    """Returns the tree of Python values, which has no file, with further aliases."""
    add_root(raw, root or ROOT)
    tree = tree_of(raw)
    tree.source = None
    names = [list(own) for own in tree.aliases]
    for reference, others in (aliases or {}).items():
        if isinstance(others, str):
            message = "Aliases must be a list of names."
            raise TaxonomyError(message, value=others, remedy=f"Write [{others!r}].")
        names[tree.resolve(reference)] += others
    return tree.with_names(aliases=names)


def _tuples(names: Names | None, n: int) -> tuple[tuple[str, ...], ...]:
    return ((),) * n if names is None else tuple(map(tuple, names))


def _optional(values: Sequence[str | None] | None, n: int) -> tuple[str | None, ...]:
    return (None,) * n if values is None else tuple(values)


def _depths(parents: IntArray) -> IntArray:
    # Level by level it would be a pass over all nodes for each level of a chain.
    depths = [0]
    for parent in parents[1:].tolist():
        depths.append(depths[parent] + 1)
    return np.array(depths, dtype=np.int64)


def _by_folded(names: Iterable[tuple[str, ...]]) -> dict[str, list[int]]:
    """Returns the nodes of each name in lower case, each node once, given the names of each node."""
    table = defaultdict(list)
    for node, own in enumerate(names):
        for name in dict.fromkeys(map(str.casefold, own)):
            table[name].append(node)
    return table


def _look_up(name: str, table: Mapping[str, list[int]]) -> list[int]:
    for written in (name.strip(), clean(name)):
        nodes = table.get(written.casefold())
        if nodes:
            return list(nodes)
    return []


def split_path(text: str) -> list[str]:
    """Returns the names of a path that is written with slashes; empty ones are left out."""
    parts = map(str.strip, text.split("/"))
    return list(filter(None, parts))


def _casefolded(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name.casefold() for name in names)
