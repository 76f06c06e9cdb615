"""Reader of flat groups: "class, group" a line and no header, as for Food-101 and the Oxford pets.

The tree has a root, the groups and the classes. The root's label is the file's name without its ending and without the
word "hierarchy" ("pets-hierarchy.txt" gives "pets") unless another is asked for. A class or group whose name is written
with underscores has the name with spaces as an alias. A class may have the name of its group: they are two nodes.
"""

from __future__ import annotations

import re
from pathlib import Path

from taxtune.errors import TaxonomyError
from taxtune.tables import clean
from taxtune.taxonomy.raw import RawNode, RawTaxonomy

__all__ = ["is_group_list", "parse_groups"]


def is_group_list(text: str, path: Path) -> bool:
    """Tells whether a .txt file has two cells parted by a comma on every line, and groups of more than one class.

    Only .txt: a CSV file of two columns may be anything.
    """
    if path.suffix.lower() != ".txt":
        return False
    lines = [line.split(",") for line in text.splitlines() if line.strip()]
    whole = all(len(cells) == 2 and all(cell.strip() for cell in cells) for cells in lines)
    return whole and len(lines) > 1 and len({clean(cells[1]) for cells in lines}) < len(lines)


def parse_groups(text: str, path: Path, name: str, root: str | None = None) -> RawTaxonomy:
    """Returns the nodes of a list of classes and their groups.

    Args:
        text: The file's text.
        path: The file.
        name: The file's name, for messages.
        root: The root's label.

    Raises:
        TaxonomyError: If a line does not have two cells.
    """
    label = root or _root_label(path)
    raw = RawTaxonomy(name, "groups", [RawNode((), None, label, _spaced(label))])
    groups: dict[str, int] = {}
    classes: dict[tuple[str, str], int] = {}
    for row, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        cells = [clean(cell) for cell in line.split(",")]
        if len(cells) != 2 or not all(cells):
            raise TaxonomyError(
                "The line is not a class and its group.",
                file=name,
                row=row,
                value=line,
                remedy="Write one 'class, group' per line, without a header.",
            )
        child, group = cells
        if group not in groups:
            groups[group] = row
            raw.nodes.append(RawNode((group,), (), group, _spaced(group), row=row))
        first = classes.setdefault((group, child), row)
        if first != row:
            raw.repeated("class", first, row, f"{group}/{child}")
            continue
        raw.nodes.append(RawNode((group, child), (group,), child, _spaced(child), row=row))
    return raw


def _root_label(path: Path) -> str:
    return re.sub(r"(^|[-_ ]+)hierarchy$", "", path.stem, flags=re.IGNORECASE) or path.stem


def _spaced(name: str) -> tuple[str, ...]:
    spaced = clean(name.replace("_", " "))
    return () if spaced in (name, "") else (spaced,)
