r"""Reader of CSV paths: one row a node, with the names on the way to it from the root.

Either a column `path` with the names separated by "/" ("bird/waterfowl/mallard"; in a name a slash is written "\/" and
a backslash before it "\\"), or one column per level, the root first, a row ending where its node is. Level columns are
called level1, level2, … ("level_1" too), or, when the format is asked for by name, anything: their names are then the
ranks. In both cases optional columns are `aliases` (other names of the row's node, separated by ";" or "|", the
preferred one first), `leads` (names that lead an answer to it and do not identify it, separated alike), `rank` (its
rank) and `id` (an id, each once). The root is the first name of every path; nodes on the way need no row of their own.
"""

from __future__ import annotations

import re

from taxtune.errors import TaxonomyError
from taxtune.tables import Table, clean, other_names, split_cell
from taxtune.taxonomy.raw import PathCollector, RawTaxonomy

__all__ = ["is_path_table", "parse_paths"]

_LEVEL = re.compile(r"level_?\d+")
_ALIASES = ("aliases", "alias", "common_name")
_LEADS = ("leads", "lead")


def is_path_table(header: tuple[str, ...]) -> bool:
    """Tells whether a CSV header is that of a table of paths, by the column `path` or by columns called level1, …."""
    return "path" in header or any(_LEVEL.fullmatch(name) for name in header)


def parse_paths(table: Table) -> RawTaxonomy:
    """Returns the nodes of a table of paths.

    Raises:
        TaxonomyError: If there is neither a column path nor a level.
    """
    key = table.column("id")
    aliases, leads, rank = table.column(*_ALIASES), table.column(*_LEADS), table.column("rank")
    whole = table.column("path")
    levels = [] if whole is not None else _levels(table.header)
    if whole is None and not levels:
        raise TaxonomyError(
            "A table of paths needs a column path, or one column per level.",
            file=table.file,
            row=table.header_line,
            value=",".join(table.header),
        )
    # Columns called level1, level2 say nothing about ranks; other names do.
    ranks = [None if _LEVEL.fullmatch(table.header[i]) else table.header[i] for i in levels]
    collector = PathCollector(table.file, "paths")
    for row in table.rows:
        names = _names(row.cell(whole)) if whole is not None else [row.cell(i) for i in levels]
        while len(names) > 1 and not names[-1] and whole is None:
            names.pop()
        if collector.raw.ragged(row, table):
            continue
        if not all(names):
            message = f"Name {names.index('') + 1} of the path is empty." if any(names) else "The row names nothing."
            value = "/".join(name or "?" for name in names) if any(names) else None
            collector.raw.flaw("empty name", message, row.line, value, "Fill in the name, or remove the row.")
            continue
        known: list[str | None] = [None] * len(names) if whole is not None else list(ranks[: len(names)])
        known[-1] = row.cell(rank) or known[-1]
        others, led = (other_names(row.cell(column), names[-1]) for column in (aliases, leads))
        collector.add(row.line, names, known, others, leads=led, key=row.cell(key) or None)
    return collector.finish()


def _names(path: str) -> list[str]:
    """Returns the names of a path; slashes at its ends are not counted."""
    names = [clean(name) for name in split_cell(path, "/")]
    while len(names) > 1 and not names[-1]:
        names.pop()
    while len(names) > 1 and not names[0]:
        names.pop(0)
    return names


def _levels(header: tuple[str, ...]) -> list[int]:
    numbered = [i for i, name in enumerate(header) if _LEVEL.fullmatch(name)]
    if numbered:
        return sorted(numbered, key=lambda i: int(re.sub(r"\D", "", header[i])))
    return [i for i, name in enumerate(header) if name not in (*_ALIASES, *_LEADS, "rank", "id", "")]
