"""Lists of the nodes that a tree is for: ids a line, or the entities of an OVEN file."""

from __future__ import annotations

from pathlib import Path

from taxtune.errors import TaxonomyError
from taxtune.taxonomy.building.edges import tidy
from taxtune.taxonomy.sources.lines import first_lines, lines
from taxtune.taxonomy.sources.oven import read_oven

__all__ = ["read_leaves"]


def read_leaves(path: Path) -> tuple[str, ...]:
    """Returns the ids that a file lists, each once.

    Args:
        path: Text with an id a line (what follows a tab or a comma is ignored, and so are lines that begin with #), or
            OVEN's JSON lines.

    Raises:
        TaxonomyError: If it lists none.
        DataError: If it is a malformed OVEN file.
    """
    if first_lines(path, 1)[0].lstrip().startswith("{"):
        found = dict.fromkeys(example.entity for example in read_oven(path) if example.entity)
    else:
        cells = (text.replace(",", "\t").split("\t")[0] for _, text in lines(path) if not text.startswith("#"))
        found = dict.fromkeys(key for key in map(tidy, cells) if key)
    if not found:
        raise TaxonomyError("The file lists no ids.", file=path)
    return tuple(found)
