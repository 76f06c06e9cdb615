"""Reader of OBO files, in which the OBO Foundry's ontologies are published: `[Term]` stanzas of `tag: value` lines.

Read are `id`, `name`, `is_a`, `synonym` and `is_obsolete` (OBO Flat File Format 1.4). Exact synonyms identify a term
and become its aliases; related, narrow and broad ones only lead to it. Other relationships (`part_of`) are no kinds of
a thing, and other stanzas no terms. The same ontologies as OWL are read by `readers.rdf`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from taxtune.errors import TaxonomyError
from taxtune.tables import clean
from taxtune.taxonomy.raw import RawNode, RawTaxonomy, add_root
from taxtune.taxonomy.readers.nested_json import ROOT

__all__ = ["is_obo", "obo_nodes", "parse_obo"]

_SYNONYM = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"\s*(?P<scope>EXACT|RELATED|NARROW|BROAD)?')
_ESCAPES = {"n": " ", "t": " ", "W": " "}


@dataclass(slots=True)
class _Term:
    row: int
    id: str = ""
    name: str = ""
    parents: list[tuple[str, int]] = field(default_factory=list)
    exact: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    obsolete: bool = False


def is_obo(text: str) -> bool:
    """Tells whether a text is OBO: by its version, or by a stanza with an id."""
    return (
        text.lstrip().startswith("format-version:") or re.search(r"^\[Term\]\s*\nid:", text[:65536], re.M) is not None
    )


def parse_obo(text: str, name: str, root: str | None = None) -> RawTaxonomy:
    """Returns the terms of an OBO file.

    Args:
        text: The file's text.
        name: The file's name, for messages.
        root: The label of a root above several; "everything" by default.

    Raises:
        TaxonomyError: If a line is not a tag with a value, a stanza has no id, or there is no term.
    """
    raw = obo_nodes(text, name)
    add_root(raw, root or ROOT)
    return raw


def obo_nodes(text: str, name: str) -> RawTaxonomy:
    """Returns the terms of an OBO file, a statement a parent and no root added."""
    raw = RawTaxonomy(name, "obo")
    gone = unnamed = 0
    for term in _terms(text, name):
        if not term.id:
            raise TaxonomyError("The term has no id.", file=name, row=term.row, remedy="Add a line `id:` to it.")
        if term.obsolete:
            gone += 1
            continue
        unnamed += not term.name
        label = term.name or term.id
        aliases = tuple(dict.fromkeys(text for text in term.exact if text and text != label))
        leads = tuple(dict.fromkeys(text for text in term.other if text and text not in (label, *aliases)))
        parents: list[tuple[str | None, int]] = [*term.parents] or [(None, term.row)]
        for parent, row in parents:
            raw.nodes.append(RawNode(term.id, parent, label, aliases, None, row, leads))
    if not raw.nodes:
        raise TaxonomyError(
            "The file contains no term.", file=name, remedy="OBO terms are stanzas that start with [Term]."
        )
    if gone:
        raw.note("left out", f"Left out: {gone:,} obsolete terms.")
    if unnamed:
        raw.note("renamed", f"Without a name, so labelled by their ids: {unnamed:,} terms.")
    return raw


def _terms(text: str, name: str) -> list[_Term]:
    terms: list[_Term] = []
    inside = False
    for row, line in enumerate(text.split("\n"), start=1):
        content = line.strip()
        if not content or content.startswith("!"):
            continue
        if content.startswith("["):
            inside = content == "[Term]"
            if inside:
                terms.append(_Term(row))
            continue
        if not inside:
            continue
        tag, colon, value = content.partition(":")
        if not colon:
            raise TaxonomyError(
                "The line is not a tag with a value.", file=name, row=row, value=content, remedy="Write `tag: value`."
            )
        _take(terms[-1], tag, value.strip(), row, name)
    return terms


def _take(term: _Term, tag: str, value: str, row: int, name: str) -> None:
    if tag == "synonym":
        found = _SYNONYM.match(value)
        if found is None:
            raise TaxonomyError(
                "The synonym is not in quotes.", file=name, row=row, value=value, remedy='Write synonym: "…" EXACT [].'
            )
        # Without a scope a synonym is a related one.
        (term.exact if found["scope"] == "EXACT" else term.other).append(_plain(found["text"]))
        return
    # A comment ends a line, and so do qualifiers such as {source="…"}.
    value = re.sub(r"(?<!\\)\s+!.*$|(?<!\\)\s*\{[^{}]*\}\s*$", "", re.sub(r"(?<!\\)\s+!.*$", "", value)).strip()
    if tag == "id":
        term.id = value
    elif tag == "name":
        term.name = _plain(value)
    elif tag == "is_a":
        term.parents.append((value, row))
    elif tag == "is_obsolete":
        term.obsolete = value.lower() == "true"


def _plain(text: str) -> str:
    return clean(re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text))
