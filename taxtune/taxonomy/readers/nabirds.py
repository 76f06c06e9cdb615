"""Reader of pairs of class ids with a file of class names beside them, as NABirds and CUB-200's trees are published.

`hierarchy.txt` of NABirds has "child parent" a line and `classes.txt` "id name"; the trees of CUB-200
(`cub_flat.parent-child.txt`) have "parent child" and their names in one of several `classes_*.txt`. The direction is
found from the pairs: the column in which no id is repeated is the child's. Nodes are ids, so that a parent and its
child may share a name.
"""

from __future__ import annotations

import re
from pathlib import Path

from taxtune.errors import TaxonomyError
from taxtune.tables import clean, read_text
from taxtune.taxonomy.raw import RawNode, RawTaxonomy

__all__ = ["NAMES", "is_pair_list", "parse_pairs"]

_ID = r"[A-Za-z]{0,2}\d+"
_PAIR = re.compile(rf"\s*({_ID})\s+({_ID})\s*")
_LOOKED_AT = 20
NAMES = "classes*.txt"


def is_pair_list(text: str) -> bool:
    """Tells whether every one of the first lines of a text is a pair of ids."""
    lines = [line for line in text.splitlines()[: 4 * _LOOKED_AT] if line.strip()][:_LOOKED_AT]
    return bool(lines) and all(_PAIR.fullmatch(line) for line in lines)


def parse_pairs(text: str, path: Path, name: str) -> RawTaxonomy:
    """Returns the nodes of a file of pairs; their names are looked for beside it.

    Args:
        text: The file's text.
        path: The file.
        name: The file's name, for messages.

    Raises:
        TaxonomyError: If a line is not a pair, there is no file of names, or the parent column cannot be determined.
    """
    pairs: list[tuple[int, str, str]] = []
    for row, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        parts = line.split()
        if len(parts) != 2:
            raise TaxonomyError(
                "The line is not a pair of ids.", file=name, row=row, value=line, remedy="Write two ids per line."
            )
        pairs.append((row, parts[0], parts[1]))
    parent_first = _parent_first(pairs, path.name, name)
    edges = [(row, b, a) if parent_first else (row, a, b) for row, a, b in pairs]
    _refuse_graph(edges, name)
    ids = dict.fromkeys(key for _, child, parent in edges for key in (parent, child))
    names_file, names = _names(path, set(ids), name)
    raw = RawTaxonomy(name, "nabirds")
    stated: dict[tuple[str, str], int] = {}
    children = {child for _, child, _ in edges}
    rows = {parent: row for row, _, parent in reversed(edges)}

    def label(key: str, row: int) -> str:
        if key in names:
            return names[key]
        message = f"The id has no name in {names_file.name}."
        raw.flaw("empty name", message, row, key, f"Add the line '{key} NAME' there.")
        return key

    for key in ids:
        if key not in children:
            raw.nodes.append(RawNode(key, None, label(key, rows[key]), row=rows[key]))
    for row, child, parent in edges:
        first = stated.setdefault((child, parent), row)
        if first != row:
            raw.repeated("pair", first, row, f"{child} under {parent}")
            continue
        raw.nodes.append(RawNode(child, parent, label(child, row), row=row))
    unused = [key for key in names if key not in ids]
    if unused:
        count = f"{len(unused):,} name" + ("" if len(unused) == 1 else "s")
        message = f"Left out: {count} in {names_file.name} for ids that are not in any pair (first: {unused[0]})."
        raw.note("left out", message, value=names[unused[0]])
    return raw


def _parent_first(pairs: list[tuple[int, str, str]], file: str, shown: str) -> bool:
    """Tells whether the parent is in the first column: then no id is repeated in the second."""
    distinct = dict.fromkeys((a, b) for _, a, b in pairs)
    firsts, seconds = [a for a, _ in distinct], [b for _, b in distinct]
    child_first, parent_first = len(set(firsts)) == len(firsts), len(set(seconds)) == len(seconds)
    if child_first != parent_first:
        return parent_first
    # A chain reads either way, and where nodes have several parents neither column is free of repeats.
    folded = file.lower().replace("_", "-")
    if "parent-child" in folded:
        return True
    if "child-parent" in folded or folded == "hierarchy.txt":
        return False
    raise TaxonomyError(
        "It cannot be told which column is the parent: "
        + ("each id has one parent either way." if child_first else "some ids have several parents either way."),
        file=shown,
        remedy="Name the file …parent-child.txt or …child-parent.txt."
        + ("" if child_first else " For a graph with several parents, use `taxtune taxonomy build`."),
    )


def _refuse_graph(edges: list[tuple[int, str, str]], shown: str) -> None:
    parent: dict[str, str] = {}
    more: dict[str, int] = {}
    for row, child, above in edges:
        if parent.setdefault(child, above) != above:
            more.setdefault(child, row)
    if more:
        child, row = next(iter(more.items()))
        raise TaxonomyError(
            f"{len(more):,} ids have several parents; this is a graph, not a tree.",
            file=shown,
            row=row,
            value=child,
            remedy="Build a tree from it with `taxtune taxonomy build`.",
        )


def _names(path: Path, ids: set[str], shown: str) -> tuple[Path, dict[str, str]]:
    """Returns the file of names: `classes.txt`, or the one `classes*.txt` that names exactly the tree's ids."""
    candidates = sorted(path.parent.glob(NAMES))
    plain = path.parent / "classes.txt"
    if plain in candidates and path.name.lower() == "hierarchy.txt":
        return plain, _read_names(plain)
    read = {file: _read_names(file) for file in candidates}
    exact = [file for file, names in read.items() if set(names) == ids]
    stem = re.split(r"[.]|(?<=[a-z])-", path.name.split("_", 1)[-1])[0]
    near = [file for file in exact if stem in file.name] or exact
    if len(near) == 1:
        return near[0], read[near[0]]
    if len(near) > 1:
        raise TaxonomyError(
            "Several files name the ids of this tree.",
            file=shown,
            value=", ".join(file.name for file in near),
            remedy="Keep only one of them in the folder.",
        )
    if plain in read:
        return plain, read[plain]
    raise TaxonomyError(
        "There is no file with names for these ids in the same folder.",
        file=shown,
        value=", ".join(f"{file.name} ({len(set(names) & ids)} of {len(ids)})" for file, names in read.items()) or None,
        remedy="Put classes.txt in the same folder, with one id and name per line.",
    )


def _read_names(path: Path) -> dict[str, str]:
    names: dict[str, str] = {}
    # Not splitlines(): it also splits at characters that may stand inside a name.
    for row, line in enumerate(read_text(path).split("\n"), start=1):
        key, _, name = line.strip().partition(" ")
        if "\t" in key:
            key, _, name = line.strip().partition("\t")
        if not key:
            continue
        if not name.strip():
            raise TaxonomyError("The line has an id but no name.", file=path, row=row, value=key)
        if names.setdefault(key, clean(name)) != clean(name):
            raise TaxonomyError("The id is named twice.", file=path, row=row, value=key, remedy="Remove one line.")
    return names
