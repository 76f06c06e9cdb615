"""From a taxonomy file to a tree: its format, its reader, and its defects.

A new format is a function that turns a file into a `RawTaxonomy`, its name in `FORMATS`, and a line
in `_format_of` that knows it by suffix, header or first key.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from taxtune.errors import TaxonomyError
from taxtune.plugins import find_plugin, plugin_names
from taxtune.resources import builtin_trees
from taxtune.tables import header_of, parse_table, read_text
from taxtune.taxonomy import nested_json, ontologies, ranks, rows
from taxtune.taxonomy.names import attach_english_names
from taxtune.taxonomy.raw import ROOT, Defect, RawTaxonomy, add_root, assemble
from taxtune.taxonomy.tree import Taxonomy, tree_of

__all__ = [
    "FORMATS",
    "Reader",
    "TaxonomyReport",
    "as_taxonomy",
    "check_taxonomy",
    "parse_taxonomy",
    "read_taxonomy",
]

#: The entry points by which other packages add formats.
READERS = "taxtune.readers"
#: Reads a format: from a path, and perhaps `root_label`, to the statements of the file.
Reader = Callable[..., RawTaxonomy]
#: The formats that can be asked for; "auto" looks at the content.
FORMATS = ("auto", "paths", "edges", "inat21-csv", "inat21-json", "nested-json", "rdf", "obo")
_BUILTIN = "builtin:"
_PANDAS = "Other layouts take two lines of pandas (see the page on taxonomy formats)."


def as_taxonomy(given: Taxonomy | str | Path | Mapping[str, object]) -> Taxonomy:
    """Returns a label tree from a tree, a file that `read_taxonomy` reads, or nested dicts."""
    if isinstance(given, Taxonomy):
        return given
    return Taxonomy.from_dict(given) if isinstance(given, Mapping) else read_taxonomy(given)


def read_taxonomy(
    path: str | Path,
    *,
    format: str | Reader = "auto",
    names: bool = True,
    root_label: str | None = None,
) -> Taxonomy:
    """Reads a taxonomy.

    Args:
        path: A file, or "builtin:NAME" for one that comes with taxtune: that of the embedded field
            guide ("builtin:fieldguide") or of another recipe.
        format: One of `FORMATS`: "paths" and "edges" (see `rows`), "inat21-csv" and "inat21-json"
            (`ranks`), "nested-json", "rdf" and "obo" (`ontologies`; need the extras of these
            names); "auto" is whichever the content is. Or a name that an installed package adds to
            the entry points "taxtune.readers", or such a reader itself: a function that takes the
            path and perhaps `root_label` and returns a `RawTaxonomy`.
        names: Whether to add English names to nodes with Latin labels and ranks (see
            `taxtune.taxonomy.names`).
        root_label: The label of the root if the format adds one.

    Returns:
        The tree, its nodes numbered depth first, siblings in file order.

    Raises:
        TaxonomyError: If the file cannot be read, is in none of the formats, or has a defect that
            breaks the tree; the message names the first one and how many more there are.
    """
    tree = tree_of(parse_taxonomy(path, format=format, root_label=root_label))
    return attach_english_names(tree) if names else tree


def parse_taxonomy(
    path: str | Path,
    *,
    format: str | Reader = "auto",
    root_label: str | None = None,
) -> RawTaxonomy:
    """Returns the statements of a taxonomy file, not yet made into a tree; see `read_taxonomy`.

    Raises:
        TaxonomyError: If the file cannot be read or is in none of the formats, or a root label is
            given for a file that has a root of its own.
    """
    if format in FORMATS and isinstance(format, str):
        raw = _parse(_resolved(path), str(path), format, root_label)
    else:
        raw = _parse_by_plugin(path, format, root_label)
    add_root(raw, root_label or ROOT)
    if root_label is not None:
        roots = [node for node in raw.nodes if node.parent is None]
        if not any(root.row is None and root.label == root_label for root in roots):
            message = "The file has its own root; a label can be given only for an added root."
            raise TaxonomyError(message, file=raw.file, value=root_label)
    return raw


def _parse_by_plugin(path: str | Path, format: str | Reader, root_label: str | None) -> RawTaxonomy:
    """Returns the statements of a file as another package's reader, or a function, reads it."""
    reader = format if callable(format) else find_plugin(READERS, format)
    if reader is None:
        remedy = f"Use one of {', '.join((*FORMATS, *plugin_names(READERS)))}."
        raise TaxonomyError("Unknown taxonomy format.", value=format, remedy=remedy)
    options = {} if root_label is None else {"root_label": root_label}
    raw = reader(Path(path), **options)
    if not isinstance(raw, RawTaxonomy):
        raise TaxonomyError(
            f"The reader returned a {type(raw).__name__}.",
            file=path,
            value=format,
            remedy="Return a RawTaxonomy.",
        )
    return raw


def _resolved(path: str | Path) -> Path:
    if not str(path).startswith(_BUILTIN):
        return Path(path)
    trees = builtin_trees()
    name = str(path).removeprefix(_BUILTIN)
    if name not in trees:
        remedy = f"Built-in taxonomies: {', '.join(trees)}."
        raise TaxonomyError("Unknown built-in taxonomy.", value=str(path), remedy=remedy)
    return trees[name]


def _parse(file: Path, name: str, format: str, root: str | None) -> RawTaxonomy:
    text = read_text(file)
    is_json = text.lstrip()[0] in "{[" and not ontologies.is_rdf(text, file)
    data = _json(text, name) if is_json else None
    if format == "auto":
        format = _format_of_json(data, name) if is_json else _format_of(text, file, name)
    if format == "rdf":
        return ontologies.read_rdf(text, file, name)
    if format == "obo":
        return ontologies.read_obo(text, name)
    if is_json != format.endswith("json"):
        message = f"The file is {'JSON' if is_json else 'not JSON'}."
        raise TaxonomyError(message, file=name, value=format, remedy="Leave out the format.")
    if format == "inat21-json":
        return ranks.read_categories(data, name, root)
    if format == "nested-json":
        return nested_json.read_nested(data, name)
    if format == "pairs":
        return rows.read_edges(rows.with_header(text, name))
    table = parse_table(text, name)
    if format == "inat21-csv":
        return ranks.read_ranks(table, root)
    return rows.read_edges(table) if format == "edges" else rows.read_paths(table)


def _json(text: str, name: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        message = f"The file is not valid JSON: {problem.msg}."
        remedy = "It may have been cut off; download it again."
        if problem.msg == "Extra data" and problem.lineno > 1:
            remedy = "Give one JSON value, not JSON Lines."
        raise TaxonomyError(message, file=name, row=problem.lineno, remedy=remedy) from None
    except (RecursionError, ValueError) as problem:
        # It is nested too deeply, or a number has thousands of digits.
        raise TaxonomyError(f"The file is not valid JSON: {problem}.", file=name) from None


def _format_of_json(data: object, name: str) -> str:
    """Returns the format of parsed JSON, by its first key."""
    if ranks.is_categories(data):
        return "inat21-json"
    if nested_json.is_nested(data):
        return "nested-json"
    first = data[0] if isinstance(data, list) and data else data
    value = repr(first)
    if isinstance(first, dict):
        value = f"keys {', '.join(map(repr, list(first)[:5]))}"
    raise TaxonomyError(
        "The file is JSON, but not in a known taxonomy layout.",
        file=name,
        value=value,
        remedy='Known are nested nodes ({"name": …, "children": […]}, or names as keys: '
        '{"bird": ["duck", "gull"]}) and iNat21\'s `categories`. For a flat list of labels, use '
        f"`taxtune taxonomy from-labels`. {_PANDAS}",
    )


def _format_of(text: str, file: Path, name: str) -> str:
    """Returns the format of a file that is no JSON, by its suffix or its header."""
    if ontologies.is_rdf(text, file):
        return "rdf"
    if ontologies.is_obo(text):
        return "obo"
    header = header_of(text)
    if {"child", "parent"} <= set(header):
        return "edges"
    if rows.has_levels(header):
        return "paths"
    if ranks.has_ranks(header):
        return "inat21-csv"
    table = parse_table(text, name)  # damage of the file goes first
    if rows.is_pairs(rows.with_header(text, name)):
        return "pairs"
    raise TaxonomyError(
        "This is not the header of a known taxonomy format.",
        file=name,
        row=table.header_line,
        value=",".join(table.header),
        remedy="It needs the columns child and parent (edges); or path, or level1, level2, … "
        "(paths); or ranks such as class, order, family, name (inat21-csv). `taxtune taxonomy "
        f"build` makes a tree of a graph's edges. {_PANDAS}",
    )


# -- looking a file over ---------------------------------------------------------------------------


class TaxonomyReport(NamedTuple):
    """The size and the defects of a taxonomy file.

    Attributes:
        file: The file.
        format: The format that it was read as.
        counts: How many nodes and aliases there are, and nodes of each rank ("" for none) in the
            order in which the ranks first occur; of a tree also its leaves, its height in edges,
            and its nodes at each depth (levels).
        defects: Every defect and note, in the order of the rows.
    """

    file: str
    format: str
    counts: dict[str, Any]
    defects: list[Defect]

    @property
    def ok(self) -> bool:
        """Whether the file is a rooted tree of named nodes; there may be notes."""
        return not any(defect.breaks for defect in self.defects)

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as plain values, for JSON."""
        values: dict[str, Any] = {"file": self.file, "format": self.format, "ok": self.ok}
        defects = [asdict(defect) for defect in self.defects]
        return {**values, **self.counts, "defects": defects}


def check_taxonomy(
    path: str | Path,
    format: str = "auto",
    root_label: str | None = None,
) -> TaxonomyReport:
    """Returns the size, the ranks and every defect of a taxonomy file, whether or not it is a tree.

    Arguments and errors are those of `taxtune.taxonomy.read_taxonomy`; a defect that breaks the
    tree is no error.
    """
    raw = parse_taxonomy(path, format=format, root_label=root_label)
    order, defects = assemble(raw)
    nodes = {node.key: node for node in reversed(raw.nodes)}
    counts: dict[str, Any] = {
        "nodes": len(nodes),
        "aliases": sum(len(node.aliases) for node in nodes.values()),
        "ranks": Counter(node.rank or "" for node in reversed(nodes.values())),
    }
    report = TaxonomyReport(file=raw.file, format=raw.format, counts=counts, defects=defects)
    if report.ok:
        tree = Taxonomy.from_nodes(order, raw.file)
        counts["leaves"] = len(tree.leaves)
        counts["height"] = tree.height
        counts["levels"] = np.bincount(tree.depth).tolist()
    return report
