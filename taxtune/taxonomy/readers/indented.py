"""Reader of indented trees: one node per line, deeper nodes further in, by dashes ("-- Laridae"), tabs or spaces.

CUB-200's `hierarchy_*.txt` are such files. Blank lines part nothing. A rank in brackets behind a label, "Larinae
(subfam)", is read as the node's rank. GBIF's TextTree (https://github.com/gbif/text-tree) is such a format too: ranks
stand in square brackets behind names with authorship, synonyms below their names begin with "=", "≡" or "*", "†" marks
what is extinct and "?" what is provisional, `{ID=… VERN=en:…}` holds an id and common names, and "#" begins a comment.
"""

from __future__ import annotations

import re
from dataclasses import replace

from taxtune.errors import TaxonomyError
from taxtune.tables import clean
from taxtune.taxonomy.raw import RawNode, RawTaxonomy, add_root
from taxtune.taxonomy.readers.authorship import split_authorship

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
_TEXT_TREE = re.compile(r"(?P<name>.*?\S)\s*\[(?P<rank>[A-Za-z][A-Za-z _-]*)\]\s*(?P<info>\{.*\})?\s*(?:#.*)?")
_SYNONYM = re.compile(r"[=≡≈*]\s*\$?\s*(?P<name>\S.*)")
_MARKS = re.compile(r"^[†?$\s]+")
_INFO = re.compile(r"([A-Z]+)=(.*?)(?=\s+[A-Z]+=|\}$)")


def is_indented(text: str) -> bool:
    """Tells whether a text is a tree by its indentation: first a node at the margin, then only others further in.

    In a TextTree several nodes may be at the margin: ranks in square brackets tell it.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or _indent(lines[0])[0]:
        return False
    if _is_text_tree(lines):
        return True
    if any("," in line or ";" in line for line in lines[:2]):
        return False
    return all(_indent(line)[0] > 0 for line in lines[1:])


def _is_text_tree(lines: list[str]) -> bool:
    """Tells whether most names of a text have ranks in square brackets, and some of its lines are further in."""
    names = [line for line in lines[:200] if line.strip()[0] not in "=≡≈*#"]
    ranked = sum(_TEXT_TREE.fullmatch(line.strip()) is not None for line in names)
    return bool(names) and ranked > len(names) / 2 and any(_indent(line)[0] for line in lines)


def parse_indented(text: str, name: str, root: str | None = None) -> RawTaxonomy:
    """Returns the nodes of an indented tree.

    Args:
        text: The file's text.
        name: The file's name, for messages.
        root: The label of a root above several nodes at the margin; "life" by default in a TextTree. Elsewhere the
            second node at the margin is a defect unless a label is given.

    Raises:
        TaxonomyError: If a line is indented to a place between two levels, or a synonym is one of nothing.
    """
    raw = RawTaxonomy(name, "indented")
    is_text_tree = _is_text_tree([line for line in text.splitlines() if line.strip()])
    # The indentation and the place among the nodes of each node on the way down to the last one.
    way: list[tuple[int, int]] = []
    cited: list[int] = []
    synonyms = 0
    for row, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or (is_text_tree and line.lstrip().startswith("#")):
            continue
        width, label = _indent(line.rstrip())
        while way and way[-1][0] >= width:
            last = way.pop()
            if (not way or way[-1][0] < width) and last[0] != width:
                raise TaxonomyError(
                    "The line's indentation is between two levels.",
                    file=name,
                    row=row,
                    value=line,
                    remedy="Indent it like its siblings.",
                )
        above = raw.nodes[way[-1][1]] if way else None
        if not is_text_tree:
            found = _RANK.fullmatch(label)
            rank = None if found is None else _RANKS.get(found[2].lower(), found[2].lower())
            label = clean(label if found is None else found[1])
            node = RawNode(row, None if above is None else above.key, label, (), rank, row)
        else:
            synonym = _SYNONYM.fullmatch(label)
            node, author = _named(label if synonym is None else synonym["name"], row)
            if author:
                cited.append(row)
            if synonym is not None:
                if above is None:
                    raise TaxonomyError(
                        "The synonym is not below a name.",
                        file=name,
                        row=row,
                        value=line,
                        remedy="Put it one level below the accepted name.",
                    )
                synonyms += 1
                names = dict.fromkeys((*above.aliases, node.label))
                raw.nodes[way[-1][1]] = replace(above, aliases=tuple(n for n in names if n != above.label))
                continue
            node = replace(node, parent=None if above is None else above.key)
        way.append((width, len(raw.nodes)))
        raw.nodes.append(node)
    if cited:
        raw.note("authorship", f"Removed authorship from names: {len(cited):,} (first: row {cited[0]}).", cited[0])
    if synonyms:
        raw.note("synonyms", f"Added as aliases of their accepted names: {synonyms:,} synonyms.")
    if is_text_tree or root is not None:
        add_root(raw, root or "life")
    return raw


def _named(label: str, row: int) -> tuple[RawNode, str]:
    """Returns the node of a TextTree's line, without its parent, and the authorship that stood behind its name."""
    found = _TEXT_TREE.fullmatch(label)
    plain = found["name"] if found is not None else re.sub(r"\s+#.*|\s*\{.*\}", "", label)
    name, author = split_authorship(clean(_MARKS.sub("", plain)), cited=True)
    info = dict(_INFO.findall((found and found["info"]) or ""))
    common = (entry.partition(":") for entry in re.split(r"(?<!,),(?!,)", info.get("VERN", "")))
    english = tuple(
        clean(text.replace(",,", ",")) for code, _, text in common if code.lower() in ("en", "eng") and text
    )
    key = info.get("ID", "").strip() or row
    return RawNode(key, None, name, english, None if found is None else found["rank"].lower(), row), author


def _indent(line: str) -> tuple[int, str]:
    """Returns how far in a line begins, in characters (a tab as 8 columns), and what stands there."""
    match = _LINE.fullmatch(line.rstrip())
    if match is None:
        return 0, line.strip()
    lead, label = match.groups()
    if lead.startswith("-"):
        return len(lead.rstrip()), label
    return len(lead.expandtabs(8)), label
