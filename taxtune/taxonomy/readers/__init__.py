"""Taxonomy files: one module a format, and `read_taxonomy`, which finds out the format."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from taxtune.errors import TaxonomyError
from taxtune.taxonomy.graph import build_tree
from taxtune.taxonomy.names import attach_english_names
from taxtune.taxonomy.raw import RawTaxonomy
from taxtune.taxonomy.readers.edges import is_edge_table, parse_edges
from taxtune.taxonomy.readers.inat21 import is_rank_table, parse_inat21_csv, parse_inat21_json
from taxtune.taxonomy.readers.paths import is_path_table, parse_paths
from taxtune.taxonomy.readers.text import parse_table, read_text
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["FORMATS", "parse_taxonomy", "read_taxonomy"]

#: The formats that can be asked for; "auto" looks at the content.
FORMATS = ("auto", "inat21-json", "inat21-csv", "edges", "paths")

_BUILTIN = "builtin:"
_PARSERS = {"inat21-csv": parse_inat21_csv, "edges": parse_edges, "paths": parse_paths}


def read_taxonomy(path: str | Path, *, format: str = "auto", names: bool = True) -> Taxonomy:
    """Reads a taxonomy.

    Args:
        path: A file, or "builtin:fieldguide" for the taxonomy of the embedded field guide.
        format: One of `FORMATS`:

            - "inat21-json": the `categories` of iNaturalist 2021's COCO-style JSON;
            - "inat21-csv": a CSV with a column for each rank (see `readers.inat21`);
            - "edges": a CSV with the columns child and parent (see `readers.edges`);
            - "paths": a CSV with a column path, or one column a level (see `readers.paths`);
            - "auto": whichever of these the content is.
        names: Whether to add English names to nodes with Latin labels and ranks (see `taxtune.taxonomy.names`).

    Returns:
        The tree, its nodes numbered depth first, siblings in file order.

    Raises:
        TaxonomyError: If the file cannot be read, is in none of the formats, or has a defect that breaks the tree; the
            message names the first one and how many more there are.
    """
    raw = parse_taxonomy(path, format=format)
    taxonomy, defects = build_tree(raw)
    if taxonomy is None:
        breaking = [defect for defect in defects if defect.breaks]
        raise breaking[0].error(more=len(breaking) - 1)
    return attach_english_names(taxonomy) if names else taxonomy


def parse_taxonomy(path: str | Path, *, format: str = "auto") -> RawTaxonomy:
    """Returns the statements of a taxonomy file, not yet made into a tree.

    Args:
        path: A file, or "builtin:fieldguide".
        format: One of `FORMATS`.

    Raises:
        TaxonomyError: If the file cannot be read or is in none of the formats.
    """
    if format not in FORMATS:
        raise TaxonomyError(
            "There is no such taxonomy format.", value=format, remedy=f"Use one of {', '.join(FORMATS)}."
        )
    file = _resolve(path)
    text = read_text(file)
    name = str(path)
    is_json = text.lstrip()[0] in "{["
    if format == "inat21-json" or (format == "auto" and is_json):
        return parse_inat21_json(text, name)
    if is_json:
        raise TaxonomyError(f"The file is JSON, not a CSV as {format!r} needs.", file=name, remedy="Use inat21-json.")
    table = parse_table(text, name)
    if format == "auto":
        format = _detect(table.header, name, table.header_line)
    return _PARSERS[format](table)


def _detect(header: tuple[str, ...], file: str, line: int) -> str:
    if is_edge_table(header):
        return "edges"
    if is_path_table(header):
        return "paths"
    if is_rank_table(header):
        return "inat21-csv"
    raise TaxonomyError(
        "The header is that of no taxonomy.",
        file=file,
        row=line,
        value=",".join(header),
        remedy="It needs the columns child and parent (edges); or path, or level1, level2, … (paths); or ranks such as "
        "class, order, family, name (inat21-csv).",
    )


def _resolve(path: str | Path) -> Path:
    if not str(path).startswith(_BUILTIN):
        return Path(path)
    if str(path) != f"{_BUILTIN}fieldguide":
        raise TaxonomyError("There is no such built-in taxonomy.", value=str(path), remedy="Use builtin:fieldguide.")
    return Path(str(resources.files("taxtune.fieldguide").joinpath("taxonomy.csv")))
