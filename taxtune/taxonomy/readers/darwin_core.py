"""Reader of Darwin Core archives: checklists with a core file of taxa, as iNaturalist, GBIF and others publish them.

An archive is a folder or a zip file. `meta.xml` says which file is the core, how it is laid out and which column is
which term; an archive without it is read by its headers (`taxa.csv`, or `Taxon.tsv`). Parents are `parentNameUsageID`;
where that is empty, or no column at all, the columns kingdom … genus say where a taxon belongs. A name whose
`acceptedNameUsageID` is another row's is a synonym and becomes that row's alias. English common names come from
`VernacularNames-english.csv`, or from the vernacular names whose language is English.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DTDForbidden
from defusedxml.ElementTree import fromstring

from taxtune.errors import TaxonomyError
from taxtune.tables import Row
from taxtune.taxonomy.raw import RawTaxonomy
from taxtune.taxonomy.readers.archive import Archive, Layout, tidy
from taxtune.taxonomy.readers.usages import GROUP_RANKS, UsageCollector

__all__ = ["find_core", "is_darwin_core_header", "is_english", "parse_darwin_core"]

_META = "meta.xml"
_CORE = r"(taxa|taxon)\.(csv|tsv|txt|tab)"
_NAMES = (r"vernacular_?names?-english\.(csv|tsv|txt|tab)", r"vernacular_?names?\.(csv|tsv|txt|tab)")


@dataclass(frozen=True, slots=True)
class _File:
    """A table of an archive.

    Attributes:
        name: Its file.
        layout: How it is laid out.
        header_lines: Rows to skip at its beginning.
        columns: Position of each term, by its name in lower case without its namespace; "" for the row's id.
        width: Number of columns; None where it is not known.
    """

    name: str
    layout: Layout
    header_lines: int
    columns: Mapping[str, int]
    width: int | None


def is_darwin_core_header(columns: set[str]) -> bool:
    """Tells whether the names of a table's columns, in lower case, are those of a Darwin Core file of taxa."""
    return "parentnameusageid" in columns or {"taxonid", "scientificname"} <= columns


def is_english(language: str) -> bool:
    """Tells whether a language, as name or as code with or without a region, is English."""
    folded = language.strip().lower().replace("_", "-")
    return folded in {"en", "eng", "english"} or folded.startswith("en-")


def find_core(archive: Archive) -> bool:
    """Tells whether a folder or zip file looks like a Darwin Core archive."""
    return _META in archive.names or archive.find(_CORE) is not None


def parse_darwin_core(archive: Archive, core: str | None = None, root: str | None = None) -> RawTaxonomy:
    """Returns the taxa of a Darwin Core archive.

    Args:
        archive: The folder or zip file.
        core: The core file, where it was given itself.
        root: The label of a root that has to be added; "life" by default.

    Raises:
        TaxonomyError: If there is no core file of taxa, or a file cannot be read.
    """
    described = _described(archive) if _META in archive.names else ()
    if described and (core is None or described[0].name == core):
        taxa, names = described[0], described[1:]
    else:
        core = core or archive.find(_CORE)
        if core is None:
            raise TaxonomyError(
                "The archive has no core file of taxa.",
                file=archive.path,
                value=", ".join(archive.names[:8]),
                remedy="It needs a meta.xml, or taxa.csv.",
            )
        taxa, names = _by_header(archive, core), ()
    collector = UsageCollector(archive.shown(taxa.name), "darwin-core", root)
    _read_taxa(archive, taxa, collector)
    english = archive.find(_NAMES[0])
    if english is not None:
        # Beside it there may be a file for each of some fifty other languages.
        names = tuple(file for file in names if file.name == english) or (_by_header(archive, english),)
    elif not names and (plain := archive.find(_NAMES[1])) is not None:
        names = (_by_header(archive, plain),)
    for file in names:
        _read_names(archive, file, collector, all_english=file.name == english)
    return collector.finish()


# -- rows --------------------------------------------------------------------------------------------------------------


def _rows(archive: Archive, file: _File) -> Iterator[Row]:
    rows = archive.rows(file.name, file.layout)
    for _ in range(file.header_lines):
        next(rows, None)
    return rows


def _read_taxa(archive: Archive, file: _File, collector: UsageCollector) -> None:
    column = file.columns.get
    if "scientificname" not in file.columns and "canonicalname" not in file.columns:
        raise TaxonomyError(
            "The core file has no column scientificName.",
            file=archive.shown(file.name),
            row=1,
            value=", ".join(sorted(filter(None, file.columns))),
            remedy="Give a checklist of taxa; this may be an archive of occurrences.",
        )
    parent = column("parentnameusageid")
    groups = [(r, c) for r in GROUP_RANKS if (c := column(r, column("cls") if r == "class" else None)) is not None]
    if parent is None and not groups:
        raise TaxonomyError(
            "The core file does not say where taxa belong.",
            file=archive.shown(file.name),
            row=1,
            remedy="It needs the column parentNameUsageID, or columns such as order, family and genus.",
        )
    ids, taxon_id, accepted = column(""), column("taxonid"), column("acceptednameusageid")
    status, rank, author = column("taxonomicstatus"), column("taxonrank"), column("scientificnameauthorship")
    canonical, full = column("canonicalname"), column("scientificname")
    empty = True
    for row in _rows(archive, file):
        empty = False
        if file.width is not None and len(row.cells) > file.width and collector.ragged(row.line, row.cells, file.width):
            continue
        identity = row.cell(ids).strip() or row.cell(taxon_id).strip()
        if not identity:
            collector.leave_out("rows without an id", row.line)
            continue
        other = row.cell(taxon_id).strip()
        if other and other.rsplit("/", 1)[-1] != identity:
            collector.known_as(other, identity)
        stands_for, above = row.cell(accepted).strip(), row.cell(parent).strip()
        collector.usage(
            row.line,
            identity,
            tidy(row.cell(canonical)) or tidy(row.cell(full)),
            parent=above,
            accepted="" if stands_for in (identity, other) else stands_for,
            status=row.cell(status).strip(),
            rank=row.cell(rank).strip(),
            author=tidy(row.cell(author)),
            groups=[] if above else [(r, tidy(row.cell(c))) for r, c in groups],
        )
    if empty:
        raise TaxonomyError("The core file has no rows.", file=archive.shown(file.name))


def _read_names(archive: Archive, file: _File, collector: UsageCollector, *, all_english: bool) -> None:
    column = file.columns.get
    taxon, name = column("") if "" in file.columns else column("taxonid"), column("vernacularname")
    if taxon is None or name is None:
        raise TaxonomyError(
            "A file of common names needs the columns id and vernacularName.", file=archive.shown(file.name), row=1
        )
    language, preferred = column("language"), column("ispreferredname")
    for row in _rows(archive, file):
        if language is not None and not all_english and not is_english(row.cell(language)):
            continue
        first = row.cell(preferred).strip().lower() in {"true", "1", "yes"}
        collector.common_name(row.cell(taxon).strip(), tidy(row.cell(name)), preferred=first)


# -- columns -----------------------------------------------------------------------------------------------------------


def _term(name: str) -> str:
    """Returns a term without its namespace, in lower case: "http://rs.tdwg.org/dwc/terms/taxonID" as "taxonid"."""
    return name.strip().replace("#", "/").replace(":", "/").rsplit("/", 1)[-1].lower()


def _by_header(archive: Archive, name: str) -> _File:
    layout = archive.layout(name)
    header = archive.header(name, layout)
    columns: dict[str, int] = {}
    for i, cell in enumerate(header.cells):
        columns.setdefault(_term(cell), i)
    if "id" in columns:
        columns[""] = columns.pop("id")
    return _File(name, layout, 1, columns, len(header.cells))


def _described(archive: Archive) -> tuple[_File, ...]:
    """Returns the core file and the files of common names that `meta.xml` describes."""
    shown = archive.shown(_META)
    data = archive.small(_META)
    try:
        meta: Element = fromstring(data, forbid_dtd=True)
    except DTDForbidden:
        raise TaxonomyError(
            "meta.xml has a document type declaration, which is not accepted.",
            file=shown,
            remedy="Remove the line <!DOCTYPE …>.",
        ) from None
    except (ParseError, ValueError, LookupError) as problem:
        raise TaxonomyError(f"The file is not valid XML: {problem}.", file=shown) from None
    core = next((element for element in meta if _tag(element) == "core"), None)
    if core is None:
        raise TaxonomyError("meta.xml describes no core file.", file=shown)
    if _term(core.get("rowType", "")) not in {"taxon", ""}:
        raise TaxonomyError(
            "The core of the archive is not a file of taxa.",
            file=shown,
            value=core.get("rowType"),
            remedy="Give a checklist; archives of occurrences have no tree.",
        )
    extensions = [e for e in meta if _tag(e) == "extension" and _term(e.get("rowType", "")) == "vernacularname"]
    english = archive.find(_NAMES[0])
    if english is not None:
        # The files of other languages are not read, and need not be there.
        extensions = [e for e in extensions if _location(e)[1] == english]
    return tuple(_described_file(archive, element, shown) for element in (core, *extensions))


def _tag(element: Element) -> str:
    return element.tag.rsplit("}", 1)[-1]


def _location(element: Element) -> tuple[str, str]:
    """Returns where `meta.xml` says that a file is, and the name of the file of the archive that it means."""
    location = next((e.text or "" for e in element.iter() if _tag(e) == "location"), "").strip()
    # Only a name counts: an archive has no say over what is read outside of it.
    return location, location.replace("\\", "/").rsplit("/", 1)[-1]


def _described_file(archive: Archive, element: Element, shown: str) -> _File:
    location, name = _location(element)
    if name not in archive.names:
        raise TaxonomyError(
            "meta.xml names a file that is not in the archive.", file=shown, value=location, remedy="Download it again."
        )
    columns: dict[str, int] = {}
    for child in element:
        kind, index = _tag(child), child.get("index")
        if kind in {"id", "coreid", "field"} and index is not None:
            if not index.isdecimal():
                raise TaxonomyError("An index in meta.xml is not a number.", file=shown, value=index)
            columns.setdefault("" if kind != "field" else _term(child.get("term", "")), int(index))
    lines = element.get("ignoreHeaderLines", "0")
    if not lines.isdecimal():
        raise TaxonomyError("ignoreHeaderLines in meta.xml is not a number.", file=shown, value=lines)
    width = len(archive.header(name, layout).cells) if (layout := _layout(element, shown)) and int(lines) else None
    return _File(name, layout, int(lines), columns, width)


def _layout(element: Element, shown: str) -> Layout:
    delimiter = element.get("fieldsTerminatedBy", ",").replace("\\t", "\t")
    quote = element.get("fieldsEnclosedBy", '"').replace("&quot;", '"')
    encoding = element.get("encoding") or "utf-8"
    if len(delimiter) != 1 or len(quote) > 1:
        raise TaxonomyError(
            "fieldsTerminatedBy and fieldsEnclosedBy in meta.xml must be one character.",
            file=shown,
            value=(delimiter, quote),
        )
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise TaxonomyError("meta.xml names an unknown encoding.", file=shown, value=encoding) from None
    return Layout(delimiter, quote or None, encoding)
