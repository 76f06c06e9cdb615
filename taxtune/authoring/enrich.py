"""More names for the nodes of a tree: inflections and WordNet's synonyms, reviewed in a CSV file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from taxtune.authoring.senses import senses_on_tree
from taxtune.errors import DataError, TaxonomyError
from taxtune.mapping.normalize import fold_words
from taxtune.tables import csv_text, join_cell, read_rows, split_cell
from taxtune.taxonomy.tree import Taxonomy
from taxtune.wordnet import WordNet

if TYPE_CHECKING:
    from taxtune.mapping import Mapper

__all__ = [
    "Proposal",
    "apply_proposals",
    "node_path",
    "proposals_csv",
    "propose_names",
    "read_proposals",
]

_NEEDED, _OTHERS = ("node", "alias"), ("source", "mark", "comment")
# A noun phrase's head stands before the first of these: "chest of drawers".
_AFTER_HEAD = frozenset({"of", "with", "in", "on", "for", "from", "at", "to", "without"})


@dataclass(frozen=True, slots=True)
class Proposal:
    """A further name for a node.

    Attributes:
        node: The node's number.
        name: The name.
        source: "inflection" or "wordnet", or what a user wrote.
        mark: "ambiguous" if other nodes have or would have the name; a marked name is not applied.
        comment: Where the name comes from, for the reviewer.
    """

    node: int
    name: str
    source: str
    mark: str = ""
    comment: str = ""


def propose_names(taxonomy: Taxonomy, mapper: Mapper, wordnet: WordNet | None) -> list[Proposal]:
    """Proposes names that the mapper does not place on their node yet, in the order of the nodes.

    Args:
        taxonomy: The tree.
        mapper: The mapper on it.
        wordnet: WordNet, for synonyms; None to do without.
    """
    names: dict[str, set[int]] = {}
    for node in range(len(taxonomy)):
        for name in taxonomy.names(node):
            names.setdefault(_key(name), set()).add(node)
    candidates = {
        (_key(row.name), row.node): row for row in reversed([*_candidates(taxonomy, wordnet)])
    }
    claims: dict[str, list[int]] = {}
    for key, node in sorted(candidates, key=lambda one: one[1]):
        if key and not any(_related(taxonomy, node, owner) for owner in names.get(key, ())):
            claims.setdefault(key, []).append(node)
    proposals = []
    for key, nodes in claims.items():
        # Of a node and one below it the one below is meant: "pickup" is a truck before it is a car.
        nodes = [
            node
            for node in nodes
            if not any(other != node and taxonomy.is_ancestor(node, other) for other in nodes)
        ]
        owners = sorted(names.get(key, ()))
        for node in nodes:
            row = candidates[key, node]
            others = [other for other in [*owners, *nodes] if other != node]
            where = ", ".join("/".join(taxonomy.path(other)) for other in others[:3])
            comment = (
                f"{'names' if owners else 'would also name'} {where}; {row.comment}"
                if others
                else row.comment
            )
            proposals.append(
                Proposal(node, row.name, row.source, "ambiguous" if others else "", comment)
            )
    placed = mapper.place([row.name for row in proposals])
    useful = [
        row
        for row, place in zip(proposals, placed, strict=True)
        if row.mark or place.node != row.node
    ]
    return sorted(useful, key=lambda row: (row.node, row.source, row.name))


def _candidates(taxonomy: Taxonomy, wordnet: WordNet | None) -> Iterator[Proposal]:
    for node in range(len(taxonomy)):
        for name in (taxonomy.labels[node], *taxonomy.aliases[node]):
            for form in inflections(name):
                yield Proposal(node, form, "inflection", comment=f"inflection of {name!r}")
    if wordnet is not None:
        for node, synset in senses_on_tree(wordnet, taxonomy).items():
            for lemma in synset.lemmas:
                yield Proposal(node, lemma, "wordnet", comment=f"{synset.name}: {synset.gloss}")


def inflections(name: str) -> list[str]:
    """The singulars and plurals of an English name; none of a proper name such as "Ford Focus"."""
    words = name.split()
    if not words or name.isupper() or any(word[:1].isupper() for word in words[1:]):
        return []
    head = (
        next((i for i, word in enumerate(words) if i and word.lower() in _AFTER_HEAD), len(words))
        - 1
    )
    return [
        " ".join((*words[:head], form, *words[head + 1 :])) for form in _forms(words[head].lower())
    ]


@cache
def _forms(word: str) -> tuple[str, ...]:
    import lemminflect

    lemmas = lemminflect.getAllLemmas(word).get("NOUN", ())
    forms = [*lemmas]
    for lemma in lemmas:
        forms += [
            form
            for tag in ("NN", "NNS")
            for form in lemminflect.getInflection(lemma, tag, inflect_oov=False)
        ]
    return tuple(form for form in dict.fromkeys(forms) if form != word)


def _key(name: str) -> str:
    return "".join(fold_words(name))


def _related(taxonomy: Taxonomy, one: int, other: int) -> bool:
    return bool(taxonomy.is_ancestor(one, other) or taxonomy.is_ancestor(other, one))


# -- the file --------------------------------------------------------------------------------------


def proposals_csv(taxonomy: Taxonomy, proposals: Sequence[Proposal]) -> str:
    """Proposals as CSV, to be reviewed: rows may be removed, changed and added, and marks cleared."""
    rows = (
        (node_path(taxonomy, row.node), row.name, row.source, row.mark, row.comment)
        for row in proposals
    )
    return csv_text((*_NEEDED, *_OTHERS), rows)


def node_path(taxonomy: Taxonomy, node: int) -> str:
    """The path of a node, with a backslash before a slash within a label."""
    return join_cell(taxonomy.path(node), "/")


def read_proposals(path: Path, taxonomy: Taxonomy) -> list[Proposal]:
    """Reads reviewed proposals.

    Args:
        path: A CSV with the columns node (a path, a label or an alias) and alias, and optionally
            source and mark.
        taxonomy: The tree.

    Raises:
        DataError: If a column is missing, a node is not on the tree, or a cell is empty or cannot
            be; names the row.
    """
    remedy = "Give a file that `taxtune taxonomy enrich` or `taxtune audit` wrote."
    found = []
    for line, cell in read_rows(path, _NEEDED, _OTHERS, what="proposals", remedy=remedy, none=True):
        if not cell["alias"] or ";" in cell["alias"] or "|" in cell["alias"]:
            message = (
                "A name cannot contain ; or |." if cell["alias"] else "The row proposes no alias."
            )
            raise DataError(
                message, file=path, row=line, value=cell["alias"], remedy="Write one name per row."
            )
        parts = split_cell(cell["node"], "/")
        try:
            node = taxonomy.resolve(parts if len(parts) > 1 else cell["node"])
        except TaxonomyError as error:
            raise DataError(
                f"The node is not on the tree: {error.message}",
                file=path,
                row=line,
                value=cell["node"],
                remedy=error.remedy or "Use the tree that the proposals were made for.",
            ) from None
        found.append(Proposal(node, cell["alias"], cell["source"], cell["mark"], cell["comment"]))
    return found


def apply_proposals(
    taxonomy: Taxonomy, proposals: Sequence[Proposal]
) -> tuple[Taxonomy, Counter[str]]:
    """The tree with the proposed aliases, and how many were "added", "marked" (not added) and "already there"."""
    aliases = [list(some) for some in taxonomy.aliases]
    known = [{name.casefold() for name in taxonomy.names(node)} for node in range(len(taxonomy))]
    counts = Counter({"added": 0, "marked": 0, "already there": 0})
    for row in proposals:
        if row.mark:
            counts["marked"] += 1
        elif row.name.casefold() in known[row.node]:
            counts["already there"] += 1
        else:
            known[row.node].add(row.name.casefold())
            aliases[row.node].append(row.name)
            counts["added"] += 1
    return taxonomy.with_names(aliases=aliases), counts
