"""Writing a tree as a CSV that `read_taxonomy` reads: paths where they are clear, else edges."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from taxtune import atomic
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["tree_csv", "write_tree"]


def write_tree(path: str | Path, taxonomy: Taxonomy) -> Path:
    """Writes a tree as CSV; returns the path.

    Raises:
        TaxtuneError: If the file cannot be written.
    """
    return atomic.write_text(path, tree_csv(taxonomy))


def tree_csv(taxonomy: Taxonomy) -> str:
    """Returns a tree as CSV with the columns path, rank, aliases and leads, in the order of the nodes.

    Paths cannot say which nodes have ids, nor hold labels with slashes. A tree with either is written with the columns
    child, parent and label in the place of path; a node without an id has its number there.
    """
    edges = any(taxonomy.ids) or any("/" in label for label in taxonomy.labels)
    taken = {key for key in taxonomy.ids if key is not None}
    keys = [key if key is not None else _free(str(i), taken) for i, key in enumerate(taxonomy.ids)]
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow((*(("child", "parent", "label") if edges else ("path",)), "rank", "aliases", "leads"))
    for i, parent in enumerate(taxonomy.parents.tolist()):
        where = (keys[i], keys[parent] if i else "", taxonomy.labels[i]) if edges else ("/".join(taxonomy.path(i)),)
        table.writerow((*where, taxonomy.ranks[i] or "", _cell(taxonomy.aliases[i]), _cell(taxonomy.leads[i])))
    return text.getvalue()


def _free(key: str, taken: set[str]) -> str:
    while key in taken:
        key = f"node {key}"
    return key


def _cell(names: tuple[str, ...]) -> str:
    # Semicolons and bars part names, so that none can be in one.
    return ";".join(" ".join(name.replace(";", ",").replace("|", ",").split()) for name in names)
