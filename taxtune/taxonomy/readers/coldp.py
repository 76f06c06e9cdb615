"""Reader of ColDP packages, the data format of the Catalogue of Life.

A package is a folder or a zip file with `NameUsage`, or with `Taxon`, `Name` and perhaps `Synonym`, and perhaps
`VernacularName`; each as .tsv, .tab or .txt, in which nothing is quoted, or as .csv. Columns may carry the prefix
"col:". Synonyms become aliases of their accepted names, misapplied and bare names are left out, and provisionally
accepted taxa are kept; all are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from taxtune.errors import TaxonomyError
from taxtune.tables import Row
from taxtune.taxonomy.raw import RawTaxonomy
from taxtune.taxonomy.readers.archive import Archive, tidy
from taxtune.taxonomy.readers.darwin_core import is_english
from taxtune.taxonomy.readers.usages import GROUP_RANKS, UsageCollector

__all__ = ["find_usages", "is_coldp_header", "parse_coldp"]

_SUFFIXES = r"\.(tsv|tab|txt|csv)"


def is_coldp_header(columns: set[str]) -> bool:
    """Tells whether the names of a table's columns, in lower case, are those of ColDP's NameUsage or Taxon."""
    plain = {name.removeprefix("col:") for name in columns}
    return {"id", "parentid"} <= plain and bool({"scientificname", "nameid"} & plain)


def find_usages(archive: Archive) -> bool:
    """Tells whether a folder or zip file looks like a ColDP package."""
    return _entity(archive, "NameUsage") is not None or (
        _entity(archive, "Taxon") is not None and _entity(archive, "Name") is not None
    )


def parse_coldp(archive: Archive, core: str | None = None, root: str | None = None) -> RawTaxonomy:
    """Returns the taxa of a ColDP package.

    Args:
        archive: The folder or zip file.
        core: The file of name usages or taxa, where it was given itself.
        root: The label of a root that has to be added; "life" by default.

    Raises:
        TaxonomyError: If the files are not there, lack a column or cannot be read.
    """
    usages, taxa = _entity(archive, "NameUsage"), _entity(archive, "Taxon")
    if core is not None:
        usages, taxa = (None, core) if "nameid" in _Table(archive, core).columns else (core, None)
    file = usages or taxa
    if file is None:
        raise TaxonomyError(
            "The package has no file of name usages or taxa.",
            file=archive.path,
            value=", ".join(archive.names[:8]),
            remedy="It needs NameUsage.tsv, or Taxon.tsv and Name.tsv.",
        )
    collector = UsageCollector(archive.shown(file), "coldp", root)
    if usages is not None:
        _read_usages(_Table(archive, usages, "id", "scientificname"), collector)
    else:
        _read_taxa(archive, _Table(archive, file, "id", "nameid"), collector)
    names = _entity(archive, "VernacularName")
    if names is not None:
        _read_names(_Table(archive, names, "taxonid", "name"), collector)
    return collector.finish()


class _Table:
    """A table of a package; its columns by their names without prefix, in lower case."""

    def __init__(self, archive: Archive, name: str, *needed: str) -> None:
        self._archive, self.name, self._layout = archive, name, archive.layout(name)
        header = archive.header(name, self._layout)
        self.width = len(header.cells)
        self.columns = {
            cell.strip().lower().removeprefix("col:"): i for i, cell in reversed([*enumerate(header.cells)])
        }
        missing = [column for column in needed if column not in self.columns]
        if missing:
            raise TaxonomyError(
                f"The file lacks the column {missing[0]!r}.",
                file=archive.shown(name),
                row=header.line,
                value=", ".join(cell for cell in header.cells[:12]),
                remedy="ColDP files start with a header.",
            )

    def rows(self, collector: UsageCollector | None = None) -> Iterator[Row]:
        rows = self._archive.rows(self.name, self._layout)
        next(rows)
        empty = True
        for row in rows:
            empty = False
            if (
                collector is None
                or len(row.cells) <= self.width
                or not collector.ragged(row.line, row.cells, self.width)
            ):
                yield row
        if empty and collector is not None:
            raise TaxonomyError("The file has a header but no rows.", file=self._archive.shown(self.name), row=1)


def _entity(archive: Archive, name: str) -> str | None:
    # "NameUsage", "name-usage" and "name_usage" are one name.
    return archive.find("[-_]*".join(re.findall("[A-Z][a-z]+", name)) + _SUFFIXES)


def _read_usages(table: _Table, collector: UsageCollector) -> None:
    column = table.columns.get
    identity, parent, status, rank = column("id"), column("parentid"), column("status"), column("rank")
    name, author = column("scientificname"), column("authorship")
    groups = [(r, c) for r in GROUP_RANKS if (c := column(r)) is not None]
    if parent is None and not groups:
        raise _no_place(table, collector)
    for row in table.rows(collector):
        state, above = row.cell(status).strip().lower(), row.cell(parent).strip()
        # The parent of a synonym is the name that it stands for.
        is_synonym = "synonym" in state
        collector.usage(
            row.line,
            row.cell(identity).strip(),
            tidy(row.cell(name)),
            parent=above,
            accepted=above if is_synonym else "",
            status=state,
            rank=row.cell(rank).strip(),
            author=tidy(row.cell(author)),
            groups=[] if above else [(r, tidy(row.cell(c))) for r, c in groups],
        )


def _read_taxa(archive: Archive, table: _Table, collector: UsageCollector) -> None:
    names_file = _entity(archive, "Name")
    if names_file is None:
        raise TaxonomyError(
            "The package has taxa but no Name file with their names.", file=archive.path, remedy="Add Name.tsv."
        )
    names = _Table(archive, names_file, "id", "scientificname")
    of = names.columns.get
    # The name, rank and authorship of each name's id.
    known = {
        row.cell(of("id")).strip(): (
            tidy(row.cell(of("scientificname"))),
            row.cell(of("rank")).strip(),
            tidy(row.cell(of("authorship"))),
        )
        for row in names.rows()
    }
    column = table.columns.get
    identity, parent, name_id, provisional = column("id"), column("parentid"), column("nameid"), column("provisional")
    groups = [(r, c) for r in GROUP_RANKS if (c := column(r)) is not None]
    if parent is None and not groups:
        raise _no_place(table, collector)
    for row in table.rows(collector):
        key = row.cell(identity).strip()
        if not key:
            collector.leave_out("rows without an id", row.line)
            continue
        label, level, by = known.get(row.cell(name_id).strip(), ("", "", ""))
        flag = row.cell(provisional).strip().lower() in {"true", "1", "yes", "t"}
        above = row.cell(parent).strip()
        named = [] if above else [(r, tidy(row.cell(c))) for r, c in groups]
        collector.taxon(row.line, key, above, label, level, by, groups=named, provisional=flag)
    synonyms = _entity(archive, "Synonym")
    if synonyms is None:
        return
    second = _Table(archive, synonyms, "taxonid", "nameid")
    of = second.columns.get
    for row in second.rows():
        if "misapplied" in row.cell(of("status")).lower():
            collector.leave_out("misapplied names", row.line)
            continue
        name, _, by = known.get(row.cell(of("nameid")).strip(), ("", "", ""))
        # A synonym's own id need be neither there nor unique, and nothing refers to it.
        collector.synonym(row.line, ("synonym", row.line), row.cell(of("taxonid")).strip(), name, by)


def _read_names(table: _Table, collector: UsageCollector) -> None:
    of = table.columns.get
    taxon, name, language, preferred = of("taxonid"), of("name"), of("language"), of("preferred")
    for row in table.rows():
        if language is None or is_english(row.cell(language)):
            first = row.cell(preferred).strip().lower() in {"true", "1", "yes", "t"}
            collector.common_name(row.cell(taxon).strip(), tidy(row.cell(name)), preferred=first)


def _no_place(table: _Table, collector: UsageCollector) -> TaxonomyError:
    return TaxonomyError(
        "The file does not say where taxa belong.",
        file=collector.raw.file,
        row=1,
        value=", ".join(list(table.columns)[:12]),
        remedy="It needs the column parentID, or columns such as order, family and genus.",
    )
