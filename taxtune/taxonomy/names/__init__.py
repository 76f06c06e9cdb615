"""English names for Latin labels: the CSV files beside this module, and how they reach a tree.

People, and vision-language models, say "songbird", "beetle" and "daisy family"; iNat21 labels those
nodes Passeriformes, Coleoptera and Asteraceae. Each CSV file here has the columns

    rank     the rank of the node ("class", "order", "family", "genus", "species", ...)
    name     its Latin label at that rank
    within   the label of one of its ancestors if rank and name alone are not unique; else empty
    english  its English names, separated by semicolons, the preferred one first

The names are added to the node's leads: many of them are no names of the node, but of something
below it that the tree may lack ("horned puffin" for the genus Fratercula), so that they lead
answers there and identify nothing.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from functools import cache
from importlib import resources
from typing import NamedTuple

from taxtune.taxonomy.tree import Taxonomy

__all__ = ["EnglishNames", "attach_english_names", "read_english_names"]


class EnglishNames(NamedTuple):
    """A row of a file.

    Attributes:
        rank: The node's rank.
        name: Its Latin label.
        within: An ancestor's label, or "".
        english: Its English names, the preferred one first.
        file: The name of the file.
    """

    rank: str
    name: str
    within: str
    english: tuple[str, ...]
    file: str

    @property
    def key(self) -> tuple[str, str]:
        """Rank and label in lower case."""
        return self.rank.casefold(), self.name.casefold()


@cache
def read_english_names() -> tuple[EnglishNames, ...]:
    """Returns every row of the names files, file by file in alphabetical order."""
    files = [file for file in resources.files(__name__).iterdir() if file.name.endswith(".csv")]
    names = []
    for file in sorted(files, key=lambda file: file.name):
        lines = file.read_text(encoding="utf-8").splitlines()
        for row in csv.DictReader(lines):
            english = map(str.strip, row["english"].split(";"))
            entry = EnglishNames(
                rank=row["rank"],
                name=row["name"],
                within=row["within"],
                english=tuple(dict.fromkeys(filter(None, english))),
                file=file.name,
            )
            names.append(entry)
    return tuple(names)


def attach_english_names(taxonomy: Taxonomy) -> Taxonomy:
    """Returns the taxonomy with the English names appended to the leads of their nodes.

    A row belongs to the nodes with its rank and label (and its `within` among their ancestors);
    rows for which the tree has no such node are left aside, and so is the whole tree when its nodes
    have no ranks. Names that a node already has, upper and lower case alike, are not added twice,
    and an alias that the tree itself gives to a group is left to it: on a tree that calls
    Fringillidae "finch", Passeriformes does not become one too. So is the label of a leaf: where
    "marigold" is a class of its own, it is not all of Asteraceae.
    """
    rows = read_english_names()
    nodes = defaultdict(list)
    for node, label in enumerate(taxonomy.labels):
        rank = taxonomy.ranks[node] or ""
        nodes[rank.casefold(), label.casefold()].append(node)
    if nodes.keys().isdisjoint(row.key for row in rows):
        return taxonomy
    taken = _taken(taxonomy)
    leads = list(taxonomy.leads)
    for row in rows:
        for node in nodes[row.key]:
            if row.within and row.within not in taxonomy.path(node):
                continue
            own = {*taxonomy.names(node), *leads[node]}
            unavailable = taken.union(map(str.casefold, own))
            new = [name for name in row.english if name.casefold() not in unavailable]
            leads[node] = (*leads[node], *new)
    return taxonomy.with_names(leads=leads)


def _taken(taxonomy: Taxonomy) -> set[str]:
    """Returns the labels of leaves and the aliases of groups, in lower case.

    The Latin label "Geranium" of a group does not keep "geranium", in English, from the whole
    family.
    """
    taken: set[str] = set()
    for node in range(len(taxonomy)):
        is_leaf = taxonomy.sizes[node] == 1
        names = (taxonomy.labels[node],) if is_leaf else taxonomy.aliases[node]
        taken.update(map(str.casefold, names))
    return taken
