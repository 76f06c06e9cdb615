"""Taxonomy files: one module a format, and `read_taxonomy`, which finds out the format."""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from taxtune.errors import TaxonomyError
from taxtune.taxonomy.graph import build_tree
from taxtune.taxonomy.names import attach_english_names
from taxtune.taxonomy.raw import RawTaxonomy
from taxtune.taxonomy.readers.archive import Archive, is_archive
from taxtune.taxonomy.readers.coldp import find_usages, is_coldp_header, parse_coldp
from taxtune.taxonomy.readers.darwin_core import find_core, is_darwin_core_header, parse_darwin_core
from taxtune.taxonomy.readers.edges import is_edge_table, parse_edges
from taxtune.taxonomy.readers.groups import is_group_list, parse_groups
from taxtune.taxonomy.readers.imagenet import is_synset_tree, parse_imagenet_json
from taxtune.taxonomy.readers.inat21 import is_rank_table, parse_inat21_csv, parse_inat21_json
from taxtune.taxonomy.readers.indented import is_indented, parse_indented
from taxtune.taxonomy.readers.nabirds import is_pair_list, parse_pairs
from taxtune.taxonomy.readers.paths import is_path_table, parse_paths
from taxtune.taxonomy.readers.text import column_key, csv_delimiter, parse_table, read_text
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["FORMATS", "parse_taxonomy", "read_taxonomy"]

#: The formats that can be asked for; "auto" looks at the content.
FORMATS = (
    "auto",
    "inat21-json",
    "inat21-csv",
    "edges",
    "paths",
    "darwin-core",
    "coldp",
    "nabirds",
    "groups",
    "indented",
    "imagenet-json",
)

_BUILTIN = "builtin:"
_TABLES = {"inat21-csv": parse_inat21_csv, "edges": parse_edges, "paths": parse_paths}
_ARCHIVES = {"darwin-core": parse_darwin_core, "coldp": parse_coldp}
# Notes that tell of something changed, left out or perhaps misread, which whoever reads the tree has to know.
_TOLD = frozenset({"added root", "left out", "ragged row", "renamed"})
_PEEKED = 2**16


def read_taxonomy(
    path: str | Path,
    *,
    format: str = "auto",
    names: bool = True,
    root_label: str | None = None,
    on_note: Callable[[str], None] | None = None,
) -> Taxonomy:
    """Reads a taxonomy.

    Args:
        path: A file, a folder or zip file of one of the formats that are published so, or "builtin:fieldguide" for the
            taxonomy of the embedded field guide.
        format: One of `FORMATS`:

            - "inat21-json": the `categories` of iNaturalist 2021's COCO-style JSON;
            - "inat21-csv": a CSV with a column for each rank (see `readers.inat21`);
            - "edges": a CSV with the columns child and parent (see `readers.edges`);
            - "paths": a CSV with a column path, or one column a level (see `readers.paths`);
            - "darwin-core": a Darwin Core archive, or its core file (see `readers.darwin_core`);
            - "coldp": a ColDP package, or its NameUsage or Taxon file (see `readers.coldp`);
            - "nabirds": pairs of class ids with a file of names beside it (see `readers.nabirds`);
            - "groups": "class, group" a line (see `readers.groups`);
            - "indented": a node a line, by dashes, tabs or spaces (see `readers.indented`);
            - "imagenet-json": synsets with the ids of their parents (see `readers.imagenet`);
            - "auto": whichever of these the content is.
        names: Whether to add English names to nodes with Latin labels and ranks (see `taxtune.taxonomy.names`).
        root_label: The label of the root where the format adds one ("groups", the two of iNat21, and archives with
            several roots).
        on_note: Called with what was left out or changed, one sentence at a time. By default these are warnings.

    Returns:
        The tree, its nodes numbered depth first, siblings in file order.

    Raises:
        TaxonomyError: If the file cannot be read, is in none of the formats, or has a defect that breaks the tree; the
            message names the first one and how many more there are.
    """
    raw = parse_taxonomy(path, format=format, root_label=root_label)
    taxonomy, defects = build_tree(raw)
    if taxonomy is None:
        breaking = [defect for defect in defects if defect.breaks]
        raise breaking[0].error(more=len(breaking) - 1)
    for defect in defects:
        if defect.kind in _TOLD:
            (on_note or _warn)(f"{defect.file}: {defect.message}")
    return attach_english_names(taxonomy) if names else taxonomy


def parse_taxonomy(path: str | Path, *, format: str = "auto", root_label: str | None = None) -> RawTaxonomy:
    """Returns the statements of a taxonomy file, not yet made into a tree.

    Args:
        path: A file, folder or zip file, or "builtin:fieldguide".
        format: One of `FORMATS`.
        root_label: The label of the root where the format adds one.

    Raises:
        TaxonomyError: If the file cannot be read or is in none of the formats, or a root label is given for a file that
            has a root of its own.
    """
    if format not in FORMATS:
        raise TaxonomyError(
            "There is no such taxonomy format.", value=format, remedy=f"Use one of {', '.join(FORMATS)}."
        )
    raw = _parse(_resolve(path), str(path), format, root_label)
    if root_label is not None and not any(
        n.parent is None and n.row is None and n.label == root_label for n in raw.nodes
    ):
        raise TaxonomyError(
            "The file has a root of its own; only an added root can be named.", file=raw.file, value=root_label
        )
    return raw


def _parse(file: Path, name: str, format: str, root: str | None) -> RawTaxonomy:
    if is_archive(file):
        return _parse_archive(file, name, format, root)
    if format in ("auto", *_ARCHIVES) and (kind := _table_of_usages(file)) is not None:
        # A file of an archive: common names may be beside it.
        return _ARCHIVES[kind if format == "auto" else format](Archive(file.parent), file.name, root)
    if format in _ARCHIVES:
        read_text(file)  # says so if it is not there
        raise TaxonomyError(f"The file is no table of {format!r}.", file=name, remedy="Give the folder or zip file.")
    text = read_text(file)
    is_json = text.lstrip()[0] in "{["
    if format == "imagenet-json" or (format == "auto" and is_synset_tree(text)):
        return parse_imagenet_json(text, name)
    if format == "inat21-json" or (format == "auto" and is_json):
        return parse_inat21_json(text, name, root)
    if is_json:
        raise TaxonomyError(f"The file is JSON, not a CSV as {format!r} needs.", file=name, remedy="Use inat21-json.")
    if format == "auto":
        format = _sniff(text, file)
    if format == "nabirds":
        return parse_pairs(text, file, name)
    if format == "groups":
        return parse_groups(text, file, name, root)
    if format == "indented":
        return parse_indented(text, name)
    table = parse_table(text, name)
    if format == "auto":
        raise _unknown(table.header, name, table.header_line)
    if format == "inat21-csv":
        return parse_inat21_csv(table, root)
    return _TABLES[format](table)


def _parse_archive(file: Path, name: str, format: str, root: str | None) -> RawTaxonomy:
    archive = Archive(file)
    if format == "auto":
        if find_usages(archive):
            format = "coldp"
        elif find_core(archive):
            format = "darwin-core"
        elif file.is_dir() and {"hierarchy.txt", "classes.txt"} <= set(archive.names):
            format = "nabirds"
    if format in _ARCHIVES:
        return _ARCHIVES[format](archive, None, root)
    if format == "nabirds" and file.is_dir():
        return _parse(file / "hierarchy.txt", str(Path(name) / "hierarchy.txt"), format, root)
    kind = "a folder" if file.is_dir() else "a zip file"
    raise TaxonomyError(
        f"This is {kind}, not a taxonomy file.",
        file=name,
        value=", ".join(archive.names[:6]) or None,
        remedy="Give the file in it; or a Darwin Core archive (with meta.xml or taxa.csv), or a ColDP package (with "
        "NameUsage.tsv).",
    )


def _table_of_usages(file: Path) -> str | None:
    """Returns whose core file this is, by its header, or None; the file is not read to its end."""
    try:
        with file.open("rb") as stream:
            data = stream.read(_PEEKED)
    except (OSError, ValueError):
        return None
    header = set(_header(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")))
    header |= {re.split("[/:#]", name)[-1] for name in header}
    if is_coldp_header(header):
        return "coldp"
    return "darwin-core" if is_darwin_core_header(header) else None


def _header(text: str) -> tuple[str, ...]:
    first = next((line for line in text.splitlines() if line.strip()), "")
    try:
        cells = next(csv.reader([first], delimiter=csv_delimiter(first)), [])
    except csv.Error:
        return ()
    return tuple(column_key(cell) for cell in cells)


def _sniff(text: str, file: Path) -> str:
    """Returns the format of a text, by its header if it has one; "auto" where it is none of them."""
    header = _header(text)
    for format, fits in (("edges", is_edge_table), ("paths", is_path_table), ("inat21-csv", is_rank_table)):
        if fits(header):
            return format
    if is_pair_list(text):
        return "nabirds"
    if is_indented(text):
        return "indented"
    return "groups" if is_group_list(text, file) else "auto"


def _unknown(header: tuple[str, ...], file: str, line: int) -> TaxonomyError:
    return TaxonomyError(
        "The header is that of no taxonomy.",
        file=file,
        row=line,
        value=",".join(header),
        remedy="It needs the columns child and parent (edges); or path, or level1, level2, … (paths); or ranks such as "
        "class, order, family, name (inat21-csv). Files without a header are read as nabirds, groups or indented if "
        "that is given as the format.",
    )


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=3)


def _resolve(path: str | Path) -> Path:
    if not str(path).startswith(_BUILTIN):
        return Path(path)
    if str(path) != f"{_BUILTIN}fieldguide":
        raise TaxonomyError("There is no such built-in taxonomy.", value=str(path), remedy="Use builtin:fieldguide.")
    return Path(str(resources.files("taxtune.fieldguide").joinpath("taxonomy.csv")))
