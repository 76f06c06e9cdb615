"""Lists of the nodes that a tree is for: ids a line, ImageNet's index of its classes, or the entities of OVEN."""

from __future__ import annotations

import re
from pathlib import Path

from taxtune.errors import TaxonomyError
from taxtune.taxonomy.building.edges import tidy
from taxtune.taxonomy.sources.lines import first_lines, lines
from taxtune.taxonomy.sources.oven import read_oven
from taxtune.taxonomy.sources.synsets import read_json_names

__all__ = ["read_leaves"]

# One object whose values are lists or objects, where a line of OVEN's holds texts.
_INDEX = re.compile(r'\{\s*($|"[^"]*"\s*:\s*[\[{])')


def read_leaves(path: Path) -> tuple[str, ...]:
    """Returns the ids that a file lists, each once.

    Args:
        path: Text with an id a line (what follows a tab or a comma is ignored, and so are lines that begin with #);
            `imagenet_class_index.json` (class number to id and name), or a JSON object of synsets by id; or OVEN's
            JSON lines.

    Raises:
        TaxonomyError: If it lists none.
        DataError: If it is a malformed OVEN file.
    """
    first = first_lines(path, 1)[0].lstrip()
    if _INDEX.match(first):
        found = dict.fromkeys(key for key, _, _ in read_json_names(path))
    elif first.startswith("{"):
        found = dict.fromkeys(example.entity for example in read_oven(path) if example.entity)
    else:
        cells = (text.replace(",", "\t").split("\t")[0] for _, text in lines(path) if not text.startswith("#"))
        found = dict.fromkeys(key for key in map(tidy, cells) if key)
    if not found:
        raise TaxonomyError("The file lists no ids.", file=path)
    return tuple(found)
