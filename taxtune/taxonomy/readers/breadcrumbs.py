"""Reader of lists of ways: "Animals > Pets > Cats" a line, as Google publishes its product taxonomy.

A line names a node by the names on the way to it from the top, parted by " > ". An id may stand in front of it, as in
"123 - Animals > Pets" (Google's `taxonomy-with-ids`). Lines that begin with "#" are comments. Several tops stand under
an added root. Nodes on the way need no line of their own.
"""

from __future__ import annotations

import re

from taxtune.tables import clean
from taxtune.taxonomy.raw import PathCollector, RawTaxonomy, add_root
from taxtune.taxonomy.readers.nested_json import ROOT

__all__ = ["is_breadcrumb_list", "parse_breadcrumbs"]

_GOOGLE = re.compile(r"#\s*Google_Product_Taxonomy_Version")
_WITH_ID = re.compile(r"(\d+)\s+-\s+(.*)")
_STEP = re.compile(r"(?:(?<=\s)|^)>(?=\s|$)")
_LOOKED_AT = 500


def is_breadcrumb_list(text: str) -> bool:
    """Tells whether a text is such a list: by Google's comment, or as lines with " > " and the tops of such lines."""
    if _GOOGLE.match(text):
        return True
    lines = [line.strip() for line in text.splitlines()[:_LOOKED_AT] if line.strip() and not line.startswith("#")]
    ways = [[clean(step) for step in _STEP.split(_split_id(line)[1])] for line in lines]
    tops = {way[0] for way in ways if len(way) > 1}
    return bool(tops) and all(len(way) > 1 or way[0] in tops for way in ways)


def parse_breadcrumbs(text: str, name: str, root: str | None = None) -> RawTaxonomy:
    """Returns the nodes of a list of ways.

    Args:
        text: The file's text.
        name: The file's name, for messages.
        root: The label of a root above several tops; "everything" by default.
    """
    collector = PathCollector(name, "breadcrumbs")
    for row, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        key, way = _split_id(line.strip())
        names = [clean(step) for step in _STEP.split(way)]
        if not all(names):
            message = f"Name {names.index('') + 1} in the line is empty."
            collector.raw.flaw("empty name", message, row, line, "Fill in the name, or remove the line.")
            continue
        collector.add(row, names, [None] * len(names), key=key)
    raw = collector.finish()
    add_root(raw, root or ROOT)
    return raw


def _split_id(line: str) -> tuple[str | None, str]:
    found = _WITH_ID.fullmatch(line)
    return (None, line) if found is None else (found[1], found[2])
