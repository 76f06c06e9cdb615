"""Names that a tree's nodes could have besides: gathered from several sources, and kept where they would be of use.

A proposal is of use where the mapper does not place it on its node already. One that would name two nodes is marked;
which of them is meant is for a person to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from taxtune.authoring.forms import forms
from taxtune.authoring.proposals import AMBIGUOUS, Proposal
from taxtune.authoring.senses import senses_on_tree
from taxtune.authoring.shortening import Shortener
from taxtune.authoring.suggesting import Suggestions, suggest_names
from taxtune.authoring.synonyms import kinds, synonyms
from taxtune.errors import DataError
from taxtune.mapping.normalize import fold_words
from taxtune.progress import track, track_each
from taxtune.taxonomy.tree import Taxonomy
from taxtune.wordnet import INSTALL, WordNet, how_to_install

if TYPE_CHECKING:
    from taxtune.mapping import Mapper
    from taxtune.models import AnswerStore, Model

__all__ = ["DEFAULT_SOURCES", "SOURCES", "Enrichment", "enrich"]

#: Where names may be from, in the order of their standing: of one name from several sources the first is kept.
SOURCES = ("inflection", "short", "wordnet", "kinds", "llm")
#: What is asked unless it is said otherwise. "kinds" is not: it has many names, most of which no answer holds.
DEFAULT_SOURCES = ("inflection", "short", "wordnet")


@dataclass(slots=True)
class Enrichment:
    """What was proposed, and what was not.

    Attributes:
        proposals: The proposals, in the order of nodes, sources and names.
        counts: For each source: how many names it had that the nodes did not have ("candidates"), of these how many
            the mapper finds already ("found already"), and how many were proposed, marked or not.
        notes: What the user should know.
        suggestions: What the chat model said, or None.
    """

    proposals: list[Proposal] = field(default_factory=list)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    suggestions: Suggestions | None = None

    def as_dict(self, taxonomy: Taxonomy) -> dict[str, Any]:
        """Returns all of it as plain values, with the nodes' paths on the tree."""
        said = self.suggestions
        return {
            "nodes": len(taxonomy),
            "sources": self.counts,
            "notes": self.notes,
            "unread": said.unread if said else [],
            "failed": said.failed if said else [],
            "proposals": [
                {
                    "node": list(taxonomy.path(row.node)),
                    "alias": row.name,
                    "kind": row.kind,
                    "source": row.source,
                    "mark": row.mark,
                    "comment": row.comment,
                }
                for row in self.proposals
            ],
        }


@dataclass(frozen=True, slots=True)
class _Candidate:
    node: int
    name: str
    source: str
    kind: str
    comment: str


def enrich(
    taxonomy: Taxonomy,
    mapper: Mapper,
    sources: Sequence[str] = DEFAULT_SOURCES,
    *,
    wordnet: WordNet | None = None,
    llm: Model | None = None,
    store: AnswerStore | None = None,
    most_kinds: int = 200,
) -> Enrichment:
    """Returns names that would help the mapper to place answers on a tree.

    Args:
        taxonomy: The tree.
        mapper: What places answers on it.
        sources: Where names may be from, of `SOURCES`.
        wordnet: WordNet, which "wordnet" and "kinds" need and others are the better for.
        llm: The chat model, which "llm" needs.
        store: Where its replies are kept, or None.
        most_kinds: The most kinds of one node that "kinds" takes.

    Raises:
        DataError: If a source needs WordNet and there is none.
        ModelError: If the chat model cannot reply at all.
    """
    found = Enrichment()
    needy = [source for source in ("wordnet", "kinds") if source in sources and wordnet is None]
    if needy:
        raise DataError(f"The source {needy[0]!r} needs WordNet, which is not installed.", remedy=how_to_install())
    candidates = list(_candidates(taxonomy, sources, wordnet, llm, store, most_kinds, found))
    for source in sources:
        found.counts[source] = {"candidates": 0, "found already": 0, "proposed": 0, "ambiguous": 0}
    kept = _settled(taxonomy, candidates)
    clear = [row for row in kept if not row.mark]
    already = set()
    with track("placing", len(clear)) as task:
        for start in range(0, len(clear), 64):
            batch = clear[start : start + 64]
            for row, placement in zip(batch, mapper.place([row.name for row in batch]), strict=True):
                if placement.node == row.node:
                    already.add((row.node, row.name))
            task.advance(len(batch))
    for row in kept:
        count = found.counts[row.source]
        count["candidates"] += 1
        if (row.node, row.name) in already:
            count["found already"] += 1
        else:
            count["ambiguous" if row.mark else "proposed"] += 1
            found.proposals.append(row)
    found.proposals.sort(key=lambda row: (row.node, SOURCES.index(row.source)))
    if wordnet is None:
        found.notes.append(
            f"WordNet is not installed, so other spellings and some shortened names are missing. {INSTALL}"
        )
    return found


def _candidates(
    taxonomy: Taxonomy,
    sources: Sequence[str],
    wordnet: WordNet | None,
    llm: Model | None,
    store: AnswerStore | None,
    most_kinds: int,
    found: Enrichment,
) -> Iterator[_Candidate]:
    everyone = range(len(taxonomy))
    if "inflection" in sources:
        for node in track_each(everyone, "inflecting"):
            for name in (taxonomy.labels[node], *taxonomy.aliases[node]):
                for other, what in forms(name, wordnet):
                    kind = "lead" if what == "from the verb" else "alias"
                    yield _Candidate(node, other, "inflection", kind, f"{what} of {name!r}")
    if "short" in sources:
        shortener = Shortener(taxonomy, lambda phrase: _parts_of_speech(wordnet, phrase))
        for node in everyone:
            for other, how in shortener.names(node):
                yield _Candidate(node, other, "short", "lead", how)
    if wordnet is not None and ("wordnet" in sources or "kinds" in sources):
        with track("finding senses", 1):
            senses = senses_on_tree(wordnet, taxonomy)
        found.notes.append(f"{wordnet.source} has an unambiguous sense for {len(senses):,} of {len(taxonomy):,} nodes.")
        if "wordnet" in sources:
            for node, name, comment in synonyms(taxonomy, senses):
                yield _Candidate(node, name, "wordnet", "alias", comment)
        if "kinds" in sources:
            for node, name, comment in kinds(wordnet, taxonomy, senses, most=most_kinds):
                yield _Candidate(node, name, "kinds", "lead", comment)
    if "llm" in sources and llm is not None:
        found.suggestions = suggest_names(llm, taxonomy, store=store)
        for node, name in found.suggestions.names:
            yield _Candidate(node, name, "llm", "lead", "")


def _parts_of_speech(wordnet: WordNet | None, phrase: str) -> set[str]:
    """Returns what a phrase can be; without WordNet, what has nothing but letters may be a noun."""
    if wordnet is None:
        return {"noun"} if phrase.replace(" ", "").replace("-", "").isalpha() else set()
    return {part for part, pos in (("noun", "n"), ("adjective", "a")) if wordnet.synsets(phrase, pos)}


def _settled(taxonomy: Taxonomy, candidates: Sequence[_Candidate]) -> list[Proposal]:
    """Returns one proposal for each new name of a node, marked where other nodes claim the name."""
    names: dict[str, set[int]] = {}
    for node in range(len(taxonomy)):
        for name in taxonomy.names(node):
            names.setdefault(_key(name), set()).add(node)
    claims: dict[str, dict[int, _Candidate]] = {}
    for candidate in candidates:
        key = _key(candidate.name)
        if key:
            claims.setdefault(key, {}).setdefault(candidate.node, candidate)
    settled = []
    for key, claimed in claims.items():
        owners = names.get(key, set())
        # What names a node names none above or below it as well.
        nodes = [v for v in claimed if not any(_related(taxonomy, v, u) for u in owners)]
        # Of a node and one below it that claim a name, the one below is meant: "pickup" is a truck before it is a car.
        nodes = [v for v in nodes if not any(u != v and taxonomy.is_ancestor(v, u) for u in nodes)]
        if not nodes:
            continue
        parents = {int(taxonomy.parents[v]) for v in nodes}
        parent = parents.pop() if len(parents) == 1 else 0
        if len(nodes) > 1 and not owners and parent and all(claimed[v].source == "short" for v in nodes):
            # What siblings are called for short leads to what they have in common.
            first = claimed[nodes[0]]
            comment = f"{first.comment}: of {', '.join(repr(taxonomy.labels[v]) for v in nodes)}"
            settled.append(Proposal(parent, first.name, "short", "lead", comment=comment))
            continue
        for v in nodes:
            others = [u for u in sorted(owners) if u != v] + [u for u in nodes if u != v]
            one = claimed[v]
            if not others:
                settled.append(Proposal(v, one.name, one.source, one.kind, comment=one.comment))
                continue
            where = ", ".join("/".join(taxonomy.path(u)) for u in others[:3]) + (", …" if len(others) > 3 else "")
            says = "names" if owners else "would also name"
            comment = f"{says} {where}" + (f"; {one.comment}" if one.comment else "")
            settled.append(Proposal(v, one.name, one.source, one.kind, AMBIGUOUS, comment))
    order = {(candidate.node, candidate.name): i for i, candidate in reversed([*enumerate(candidates)])}
    return sorted(settled, key=lambda row: (SOURCES.index(row.source), order.get((row.node, row.name), 0)))


def _key(name: str) -> str:
    return "".join(fold_words(name))


def _related(taxonomy: Taxonomy, one: int, other: int) -> bool:
    return bool(taxonomy.is_ancestor(one, other) or taxonomy.is_ancestor(other, one))
