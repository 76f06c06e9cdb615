"""Further names for the nodes of a tree: inflections and WordNet's synonyms, reviewed as CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from taxtune.authoring.senses import head_end, senses_on_tree
from taxtune.errors import DataError, TaxonomyError
from taxtune.mapping.normalize import fold_words
from taxtune.tables import csv_text, join_cell, read_rows, split_cell
from taxtune.taxonomy.tree import Taxonomy
from taxtune.wordnet import WordNet

if TYPE_CHECKING:
    from taxtune.mapping import Mapper

__all__ = [
    "ProposedName",
    "apply_proposals",
    "node_path",
    "proposals_csv",
    "propose_names",
    "read_proposals",
]

_NEEDED = ("node", "alias")
_OTHERS = ("source", "mark", "comment")
# A noun phrase's head stands before the first of these: "chest of drawers".
_AFTER_HEAD = frozenset({"of", "with", "in", "on", "for", "from", "at", "to", "without"})


@dataclass(frozen=True, slots=True)
class ProposedName:
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


def propose_names(
    taxonomy: Taxonomy, mapper: Mapper, wordnet: WordNet | None
) -> list[ProposedName]:
    """Returns names that the mapper does not place on their node yet, in the order of the nodes.

    Args:
        taxonomy: The tree.
        mapper: The mapper on it.
        wordnet: WordNet, for synonyms. None to do without.
    """
    owners: dict[str, set[int]] = {}
    for node in range(len(taxonomy)):
        for name in taxonomy.names(node):
            owners.setdefault(_key(name), set()).add(node)
    claims: dict[str, dict[int, ProposedName]] = {}
    for proposal in _candidates(taxonomy, wordnet):
        key = _key(proposal.name)
        related = (_related(taxonomy, proposal.node, owner) for owner in owners.get(key, ()))
        if key and not any(related):
            claims.setdefault(key, {}).setdefault(proposal.node, proposal)
    proposals: list[ProposedName] = []
    for key, claimed in claims.items():
        proposals += _marked(taxonomy, claimed, sorted(owners.get(key, ())))
    placements = mapper.place([proposal.name for proposal in proposals])
    useful = []
    for proposal, placement in zip(proposals, placements, strict=True):
        if proposal.mark or placement.node != proposal.node:
            useful.append(proposal)
    return sorted(useful, key=lambda proposal: (proposal.node, proposal.source, proposal.name))


def _marked(
    taxonomy: Taxonomy, claimed: Mapping[int, ProposedName], owners: Sequence[int]
) -> Iterator[ProposedName]:
    """Yields the proposals of one name, marked if other nodes have or would have it.

    Of a node and one below it the one below is meant: "pickup" is a truck before it is a car.

    Args:
        taxonomy: The tree.
        claimed: The proposal of each node.
        owners: The nodes that have the name already.
    """
    nodes = []
    for node in sorted(claimed):
        if not any(other != node and taxonomy.is_ancestor(node, other) for other in claimed):
            nodes.append(node)
    for node in nodes:
        proposal = claimed[node]
        others = [other for other in (*owners, *nodes) if other != node]
        if others:
            where = ", ".join("/".join(taxonomy.path(other)) for other in others[:3])
            verb = "names" if owners else "would also name"
            comment = f"{verb} {where}; {proposal.comment}"
            proposal = replace(proposal, mark="ambiguous", comment=comment)
        yield proposal


def _candidates(taxonomy: Taxonomy, wordnet: WordNet | None) -> Iterator[ProposedName]:
    for node in range(len(taxonomy)):
        for name in (taxonomy.labels[node], *taxonomy.aliases[node]):
            for form in inflections(name):
                yield ProposedName(node, form, "inflection", comment=f"inflection of {name!r}")
    if wordnet is not None:
        for node, synset in senses_on_tree(wordnet, taxonomy).items():
            for lemma in synset.lemmas:
                yield ProposedName(node, lemma, "wordnet", comment=f"{synset.name}: {synset.gloss}")


def inflections(name: str) -> list[str]:
    """Returns the singulars and plurals of an English name, none of a proper one ("Ford Focus")."""
    words = name.split()
    if not words or name.isupper() or any(word[:1].isupper() for word in words[1:]):
        return []
    end = head_end(words, _AFTER_HEAD)
    *before, head = words[:end]
    return [" ".join([*before, form, *words[end:]]) for form in _forms(head.lower())]


@cache
def _forms(word: str) -> tuple[str, ...]:
    import lemminflect

    lemmas = lemminflect.getAllLemmas(word).get("NOUN", ())
    forms = [*lemmas]
    for lemma in lemmas:
        for tag in ("NN", "NNS"):
            forms += lemminflect.getInflection(lemma, tag, inflect_oov=False)
    return tuple(form for form in dict.fromkeys(forms) if form != word)


def _key(name: str) -> str:
    return "".join(fold_words(name))


def _related(taxonomy: Taxonomy, one: int, other: int) -> bool:
    return bool(taxonomy.is_ancestor(one, other) or taxonomy.is_ancestor(other, one))


# -- the file --------------------------------------------------------------------------------------


def proposals_csv(taxonomy: Taxonomy, proposals: Sequence[ProposedName]) -> str:
    """Returns proposals as CSV, to be reviewed.

    Rows may be removed, changed and added, and marks cleared.
    """
    rows = []
    for proposal in proposals:
        path = node_path(taxonomy, proposal.node)
        rows.append((path, proposal.name, proposal.source, proposal.mark, proposal.comment))
    return csv_text((*_NEEDED, *_OTHERS), rows)


def node_path(taxonomy: Taxonomy, node: int) -> str:
    """Returns the path of a node, with a backslash before a slash within a label."""
    return join_cell(taxonomy.path(node), "/")


def read_proposals(path: Path, taxonomy: Taxonomy) -> list[ProposedName]:
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
    proposals = []
    for line, cell in read_rows(path, _NEEDED, _OTHERS, what="proposals", remedy=remedy, none=True):
        name = cell["alias"]
        if not name or ";" in name or "|" in name:
            message = "A name cannot contain ; or |." if name else "The row proposes no alias."
            remedy = "Write one name per row."
            raise DataError(message, file=path, row=line, value=name, remedy=remedy)
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
        proposal = ProposedName(node, name, cell["source"], cell["mark"], cell["comment"])
        proposals.append(proposal)
    return proposals


def apply_proposals(
    taxonomy: Taxonomy, proposals: Sequence[ProposedName]
) -> tuple[Taxonomy, Counter[str]]:
    """Returns the tree with the proposed aliases, and the counts of proposals.

    They are "added", "marked" (which are not added) and "already there".
    """
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
