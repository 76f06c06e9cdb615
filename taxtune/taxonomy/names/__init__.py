"""English names for Latin labels: the CSV files beside this module, and how they reach a tree.

People, and vision-language models, say "songbird", "beetle" and "daisy family"; iNat21 labels those nodes
Passeriformes, Coleoptera and Asteraceae. Each CSV file here has the columns

    rank     the rank of the node ("class", "order", "family", "genus", "species", ...)
    name     its Latin label at that rank
    within   the label of one of its ancestors, where rank and name alone are not unique; else empty
    english  its English names, separated by semicolons, the preferred one first

The names are added to the node's leads: many of them are no names of the node, but of something below it that the tree
may lack ("horned puffin" for the genus Fratercula), so that they lead answers there and identify nothing.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources
from typing import NamedTuple

from taxtune.taxonomy.tree import Taxonomy

__all__ = ["EnglishNames", "attach_english_names", "read_english_names"]


class EnglishNames(NamedTuple):
    """A row of a file: the node's rank and Latin label, an ancestor's label or "", its English names, and the file."""

    rank: str
    name: str
    within: str
    english: tuple[str, ...]
    file: str


@cache
def read_english_names() -> tuple[EnglishNames, ...]:
    """Returns every row of the names files, file by file in alphabetical order."""
    rows = []
    for file in sorted(resources.files(__name__).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".csv"):
            for row in csv.DictReader(file.read_text(encoding="utf-8").splitlines()):
                english = tuple(
                    dict.fromkeys(
                        name.strip() for name in row["english"].split(";") if name.strip()
                    )
                )
                rows.append(
                    EnglishNames(row["rank"], row["name"], row["within"], english, file.name)
                )
    return tuple(rows)


def attach_english_names(taxonomy: Taxonomy) -> Taxonomy:
    """Returns the taxonomy with the English names appended to the leads of the nodes that they belong to.

    A row belongs to the nodes with its rank and label (and its `within` among their ancestors); rows for which the tree
    has no such node are left aside, and so is the whole tree when its nodes have no ranks. Names that a node already
    has, upper and lower case alike, are not added twice, and an alias that the tree itself gives to a group is left to
    it: on a tree that calls Fringillidae "finch", Passeriformes does not become one too. So is the label of a leaf:
    where "marigold" is a class of its own, it is not all of Asteraceae.
    """
    rows = read_english_names()
    by_key: dict[tuple[str, str], list[int]] = {
        (row.rank.casefold(), row.name.casefold()): [] for row in rows
    }
    for node, (rank, label) in enumerate(zip(taxonomy.ranks, taxonomy.labels, strict=True)):
        if rank is not None and (key := (rank.casefold(), label.casefold())) in by_key:
            by_key[key].append(node)
    if not any(by_key.values()):
        return taxonomy

    leaves = set(taxonomy.leaves.tolist())
    # Aliases only: the Latin label "Geranium" does not keep "geranium", in English, from the whole family.
    taken = {
        name.casefold()
        for v in range(len(taxonomy))
        if v not in leaves
        for name in taxonomy.aliases[v]
    }
    taken |= {taxonomy.labels[v].casefold() for v in leaves}
    leads = list(taxonomy.leads)
    for row in rows:
        for node in by_key[row.rank.casefold(), row.name.casefold()]:
            if row.within and row.within not in taxonomy.path(node):
                continue
            known = {
                name.casefold()
                for name in (taxonomy.labels[node], *taxonomy.aliases[node], *leads[node])
            }
            new = [
                name
                for name in row.english
                if name.casefold() not in known and name.casefold() not in taken
            ]
            leads[node] = (*leads[node], *new)
    return taxonomy.with_names(leads=leads)
