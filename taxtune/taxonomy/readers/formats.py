"""The formats of taxonomy files: how each is known, and what reads it.

A new format is a module beside this one, which turns a file into a `RawTaxonomy`, and an entry here: in `TEXTS` if it
is a text file, in `ARCHIVES` if it is a folder or an archive of tables. Both are looked through in their order.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from taxtune.errors import TaxonomyError
from taxtune.tables import Table, column_key, csv_delimiter, parse_table
from taxtune.taxonomy.raw import RawTaxonomy
from taxtune.taxonomy.readers.archive import Archive
from taxtune.taxonomy.readers.breadcrumbs import is_breadcrumb_list, parse_breadcrumbs
from taxtune.taxonomy.readers.coldp import find_usages, is_coldp_header, parse_coldp
from taxtune.taxonomy.readers.darwin_core import find_core, is_darwin_core_header, parse_darwin_core
from taxtune.taxonomy.readers.edges import is_edge_table, parse_edges
from taxtune.taxonomy.readers.groups import is_group_list, parse_groups
from taxtune.taxonomy.readers.imagenet import is_synset_tree, parse_imagenet_json
from taxtune.taxonomy.readers.inat21 import is_inat21_json, is_rank_table, parse_inat21_csv, parse_inat21_json
from taxtune.taxonomy.readers.indented import is_indented, parse_indented
from taxtune.taxonomy.readers.nabirds import NAMES, is_pair_list, parse_pairs
from taxtune.taxonomy.readers.nested_json import DESCRIPTIONS, is_nested, parse_nested_json
from taxtune.taxonomy.readers.obo import is_obo, parse_obo
from taxtune.taxonomy.readers.paths import is_path_table, parse_paths
from taxtune.taxonomy.readers.rdf import is_rdf, parse_rdf
from taxtune.taxonomy.readers.taxdump import find_nodes_dmp, parse_taxdump

__all__ = ["ARCHIVES", "FORMATS", "TEXTS", "ArchiveFormat", "TextFile", "TextFormat", "header_of"]


@dataclass(frozen=True)
class TextFile:
    """A text file, and what can be seen of it at a glance.

    Attributes:
        text: Its text.
        file: The file, for those whose names lie in another file beside it.
        name: The file as the user wrote it, for messages.
        root: The label of the root where the format adds one; None for the format's own.
    """

    text: str
    file: Path
    name: str
    root: str | None = None

    @cached_property
    def is_json(self) -> bool:
        """Whether the text is JSON."""
        return self.text.lstrip()[0] in "{["

    @cached_property
    def data(self) -> Any:
        """What the JSON says.

        Raises:
            TaxonomyError: If it is not valid, or nested too deeply.
        """
        try:
            return json.loads(self.text)
        except json.JSONDecodeError as problem:
            is_lines = problem.msg == "Extra data" and problem.lineno > 1
            raise TaxonomyError(
                f"The file is not valid JSON: {problem.msg}.",
                file=self.name,
                row=problem.lineno,
                remedy="This looks like JSON Lines, with one value per line. For Wikidata, use `taxtune taxonomy "
                "build` with a KGTK edge list."
                if is_lines
                else "It may have been cut off; download it again.",
            ) from None
        except RecursionError:
            raise TaxonomyError("The JSON is nested too deeply to be a taxonomy.", file=self.name) from None

    @cached_property
    def header(self) -> tuple[str, ...]:
        """The names of the columns if the first line is a CSV's header."""
        return header_of(self.text)

    @cached_property
    def table(self) -> Table:
        """The rows of the text as CSV."""
        return parse_table(self.text, self.name)


@dataclass(frozen=True, slots=True)
class TextFormat:
    """A format of text files.

    Attributes:
        name: What the user calls it.
        fits: Tells whether a file is in it; JSON is only shown to formats that are JSON, and other text to the others.
        parse: Reads a file that is in it.
        json: Whether it is JSON; None where it may be.
        folder: The files of a folder in it, the one to read first; empty where it comes as single files.
        beside: Patterns of the files that may be read besides, in the same folder.
    """

    name: str
    fits: Callable[[TextFile], bool]
    parse: Callable[[TextFile], RawTaxonomy]
    json: bool | None = False
    folder: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ArchiveFormat:
    """A format of folders, zip files and tar files of tables.

    Attributes:
        name: What the user calls it.
        fits: Tells whether an archive is in it.
        fits_header: Tells whether a table is its core file, which may be given in place of the archive.
        parse: Reads an archive: its core file's name, or None to find it, and the label of the root if one is added.
        core: The name of the core file, where it has no header to be known by.
    """

    name: str
    fits: Callable[[Archive], bool]
    fits_header: Callable[[set[str]], bool]
    parse: Callable[[Archive, str | None, str | None], RawTaxonomy]
    core: str | None = None


ARCHIVES = (
    ArchiveFormat("coldp", find_usages, is_coldp_header, parse_coldp),
    ArchiveFormat("darwin-core", find_core, is_darwin_core_header, parse_darwin_core),
    ArchiveFormat("taxdump", find_nodes_dmp, lambda columns: False, parse_taxdump, core="nodes.dmp"),
)

TEXTS = (
    TextFormat("rdf", lambda f: is_rdf(f.text, f.file), lambda f: parse_rdf(f.text, f.file, f.name, f.root), json=None),
    TextFormat("obo", lambda f: is_obo(f.text), lambda f: parse_obo(f.text, f.name, f.root)),
    TextFormat(
        "imagenet-json", lambda f: is_synset_tree(f.data), lambda f: parse_imagenet_json(f.data, f.name), json=True
    ),
    TextFormat(
        "inat21-json",
        lambda f: is_inat21_json(f.data),
        lambda f: parse_inat21_json(f.data, f.name, f.root),
        json=True,
    ),
    TextFormat(
        "nested-json",
        lambda f: is_nested(f.data),
        lambda f: parse_nested_json(f.data, f.file, f.name, f.root),
        json=True,
        beside=(DESCRIPTIONS,),
    ),
    TextFormat("edges", lambda f: is_edge_table(f.header), lambda f: parse_edges(f.table)),
    TextFormat("paths", lambda f: is_path_table(f.header), lambda f: parse_paths(f.table)),
    TextFormat("inat21-csv", lambda f: is_rank_table(f.header), lambda f: parse_inat21_csv(f.table, f.root)),
    TextFormat(
        "nabirds",
        lambda f: is_pair_list(f.text),
        lambda f: parse_pairs(f.text, f.file, f.name),
        folder=("hierarchy.txt", "classes.txt"),
        beside=(NAMES,),
    ),
    TextFormat(
        "breadcrumbs", lambda f: is_breadcrumb_list(f.text), lambda f: parse_breadcrumbs(f.text, f.name, f.root)
    ),
    TextFormat("indented", lambda f: is_indented(f.text), lambda f: parse_indented(f.text, f.name, f.root)),
    TextFormat(
        "groups", lambda f: is_group_list(f.text, f.file), lambda f: parse_groups(f.text, f.file, f.name, f.root)
    ),
)

#: The formats that can be asked for; "auto" looks at the content.
FORMATS = ("auto", *(format.name for format in (*TEXTS, *ARCHIVES)))


def header_of(text: str) -> tuple[str, ...]:
    """Returns the keys of the columns that the first line of a text would name as a CSV's header."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    try:
        cells = next(csv.reader([first], delimiter=csv_delimiter(first)), [])
    except csv.Error:
        return ()
    return tuple(column_key(cell) for cell in cells)
