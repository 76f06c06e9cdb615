"""Reader of NCBI's taxonomy as it is published: `nodes.dmp` and `names.dmp` of taxdump.tar.gz or taxdmp.zip.

Fields end in tab, "|", tab. A node's label is its scientific name; its aliases are GenBank's common name, other common
names, synonyms, equivalent names and acronyms. Authorities, misspellings and the other classes of names are left out
and counted; `merged.dmp` and `delnodes.dmp` say what became of old ids and are not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from taxtune.errors import TaxonomyError
from taxtune.tables import clean
from taxtune.taxonomy.raw import RawTaxonomy
from taxtune.taxonomy.readers.archive import Archive, Layout
from taxtune.taxonomy.readers.usages import UsageCollector

__all__ = ["find_nodes_dmp", "parse_taxdump"]

_NODES, _NAMES = r"nodes\.dmp", r"names\.dmp"
_PREFERRED = "genbank common name"
_OTHERS = frozenset({"common name", "synonym", "genbank synonym", "equivalent name", "acronym", "genbank acronym"})


def find_nodes_dmp(archive: Archive) -> bool:
    """Tells whether a folder or archive looks like NCBI's taxonomy."""
    return archive.find(_NODES) is not None


def parse_taxdump(archive: Archive, core: str | None = None, root: str | None = None) -> RawTaxonomy:
    """Returns the nodes of NCBI's taxonomy.

    Args:
        archive: The folder, zip file or tar file.
        core: `nodes.dmp`, where it was given itself.
        root: The label of a root that has to be added; "life" by default. NCBI's own is called "root".

    Raises:
        TaxonomyError: If a file is not there, or a row lacks a field.
    """
    nodes, names = core or archive.find(_NODES), archive.find(_NAMES)
    if nodes is None or names is None:
        raise TaxonomyError(
            f"There is no {'nodes.dmp' if nodes is None else 'names.dmp'} in it.",
            file=archive.path,
            value=", ".join(archive.names[:8]),
            remedy="NCBI's taxonomy consists of nodes.dmp and names.dmp in the same folder.",
        )
    collector = UsageCollector(archive.shown(nodes), "taxdump", root)
    label: dict[str, str] = {}
    for row, (key, name, _, kind) in _rows(archive, names, 4):
        text = clean(name)
        if kind == "scientific name":
            label.setdefault(key, text)
        elif kind == _PREFERRED or kind in _OTHERS:
            collector.common_name(key, text, preferred=kind == _PREFERRED)
        else:
            collector.leave_out(f"names of the class {kind!r}", row)
    for row, (key, parent, rank) in _rows(archive, nodes, 3):
        # The root is its own parent.
        collector.taxon(row, key, "" if parent == key else parent, label.get(key, ""), rank)
    return collector.finish()


def _rows(archive: Archive, name: str, fields: int) -> Iterator[tuple[int, list[str]]]:
    for row in archive.rows(name, Layout("|", None)):
        cells = [cell.strip() for cell in row.cells[:fields]]
        if len(cells) < fields or not cells[0]:
            raise TaxonomyError(
                f"The row does not have {fields} fields that end in '|'.",
                file=archive.shown(name),
                row=row.line,
                value="|".join(row.cells),
                remedy="Download the file again; it may have been cut off.",
            )
        yield row.line, cells
