"""Reader of indented trees: a node a line, deeper nodes further in, by dashes ("-- Laridae"), tabs or spaces.

CUB-200's `hierarchy_*.txt` are such files. The first node is the root; blank lines part nothing. A rank in brackets
behind a label, "Larinae (subfam)", is read as the node's rank.
"""

from __future__ import annotations

import re

from taxtune.errors import TaxonomyError
from taxtune.tables import clean
from taxtune.taxonomy.raw import RawNode, RawTaxonomy

__all__ = ["is_indented", "parse_indented"]

_LINE = re.compile(r"(-+[ \t]*|[ \t]*)(\S.*)")
_RANKS = {
    "subord": "suborder",
    "infraord": "infraorder",
    "parvord": "parvorder",
    "superfam": "superfamily",
    "subfam": "subfamily",
    "trib": "tribe",
    "subgen": "subgenus",
}
_RANK = re.compile(rf"(.*\S)\s*\(({'|'.join(_RANKS)}|{'|'.join(_RANKS.values())})\.?\)", re.IGNORECASE)


def is_indented(text: str) -> bool:
    """Tells whether a text is a tree by its indentation: first a node at the margin, then only others further in."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or _indent(lines[0])[0] or any("," in line or ";" in line for line in lines[:2]):
        return False
    return all(_indent(line)[0] > 0 for line in lines[1:])


def parse_indented(text: str, name: str) -> RawTaxonomy:
    """Returns the nodes of an indented tree.

    Args:
        text: The file's text.
        name: The file's name, for messages.

    Raises:
        TaxonomyError: If a line is indented to a place between two levels.
    """
    raw = RawTaxonomy(name, "indented")
    # The indentation, the row and the key of each node on the way down to the last one.
    way: list[tuple[int, int]] = []
    for row, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        width, label = _indent(line.rstrip())
        while way and way[-1][0] >= width:
            last = way.pop()
            if (not way or way[-1][0] < width) and last[0] != width:
                raise TaxonomyError(
                    "The line is further in than one level and less than the next.",
                    file=name,
                    row=row,
                    value=line,
                    remedy="Begin it where its siblings begin.",
                )
        found = _RANK.fullmatch(label)
        rank = None if found is None else _RANKS.get(found[2].lower(), found[2].lower())
        raw.nodes.append(
            RawNode(row, way[-1][1] if way else None, clean(label if found is None else found[1]), (), rank, row)
        )
        way.append((width, row))
    return raw


def _indent(line: str) -> tuple[int, str]:
    """Returns how far in a line begins, in characters (a tab as 8 columns), and what stands there."""
    match = _LINE.fullmatch(line.rstrip())
    if match is None:
        return 0, line.strip()
    lead, label = match.groups()
    if lead.startswith("-"):
        return len(lead.rstrip()), label
    return len(lead.expandtabs(8)), label
