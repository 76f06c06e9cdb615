"""Readers of checklists: Darwin Core archives (iNaturalist, GBIF, …) and NCBI's taxonomy.

Either is a folder, a zip file, or the core file with the others beside it. Of Darwin Core, `taxa.csv` or `Taxon.tsv` is
the core table, known by its header, and a file of vernacular names gives the English ones; `meta.xml` is not needed. A
name with the `acceptedNameUsageID` of another row, or the status of a synonym, becomes that row's alias. Of NCBI's,
`nodes.dmp` and `names.dmp` are read. Rows are read one by one, however large the files are.

Checklists are published with taxa without a parent, with parents that have no row, and with siblings that share a name:
tops stand under an added root, taxa below a missing row are left out, and siblings are told apart by rank, author or
id. All of it is counted in notes.
"""

from __future__ import annotations

import csv
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from taxtune.errors import TaxonomyError
from taxtune.tables import MOST_UNPACKED, Row, clean, csv_delimiter
from taxtune.taxonomy.raw import RawNode, RawTaxonomy
from taxtune.taxonomy.readers.ranks import LIFE

__all__ = ["Checklist", "Taxon", "files_in", "is_darwin_core", "read_darwin_core", "read_taxdump"]

_CORE = re.compile(r"(taxa|taxon)\.(csv|tsv|txt|tab)", re.IGNORECASE)
_ENGLISH = re.compile(r"vernacular_?names?-english\.(csv|tsv|txt|tab)", re.IGNORECASE)
_NAMES = re.compile(r"vernacular_?names?\.(csv|tsv|txt|tab)", re.IGNORECASE)
_SYNONYMS = ("synonym", "unaccepted", "not accepted", "invalid")
_NO_RANK = frozenset({"", "unranked", "no rank", "unknown", "not available"})
# NCBI's classes of names that a taxon is known by.
_COMMON = ("genbank common name", "common name", "synonym", "genbank synonym", "equivalent name", "acronym")

Files = Mapping[str, Path | zipfile.Path]


def files_in(path: Path) -> Files:
    """Returns the files of a folder, of a zip file, or of the folder that a zip file consists of, by name.

    Raises:
        TaxonomyError: If the zip file is damaged, or unpacks to more than `MOST_UNPACKED`.
    """
    if path.is_dir():
        return {file.name: file for file in sorted(path.iterdir()) if file.is_file()}
    try:
        packed = zipfile.ZipFile(path)
        if sum(info.file_size for info in packed.infolist()) > MOST_UNPACKED:
            message = f"The archive unpacks to more than {MOST_UNPACKED / 2**20:,.0f} MiB."
            raise TaxonomyError(message, file=path, remedy="Unpack it and give the folder.")
        folder = zipfile.Path(packed)
        inside = list(folder.iterdir())
        inside = list(inside[0].iterdir()) if len(inside) == 1 and inside[0].is_dir() else inside
        return {file.name: file for file in inside if file.is_file()}
    except (OSError, zipfile.BadZipFile) as problem:
        raise TaxonomyError(f"The archive cannot be opened: {problem}.", file=path) from None


def is_darwin_core(header: Iterable[str]) -> bool:
    """Tells whether columns are those of a Darwin Core file of taxa."""
    columns = set(map(_term, header))
    return "parentnameusageid" in columns or {"taxonid", "scientificname"} <= columns


def _term(name: str) -> str:
    """Returns a term without its namespace, in lower case: "http://rs.tdwg.org/dwc/terms/taxonID" as "taxonid"."""
    return re.split("[/:#]", name.strip().strip('"'))[-1].lower()


class Taxon(NamedTuple):
    """A row of a checklist: its line, its parent's id ("" for none), its name, its rank and its author."""

    row: int
    parent: str
    name: str
    rank: str | None = None
    author: str = ""


@dataclass
class Checklist:
    """Taxa, synonyms and common names by id, in any order, of which `finish` makes nodes.

    Attributes:
        raw: What is read, to which nodes, defects and notes are added.
        taxa: Accepted names by id.
        synonyms: The accepted id and the name of each synonym, by the synonym's own id.
        common: Common names by the id of a taxon, the preferred ones first.
        left_out: How many things were left out, by what they are.
    """

    raw: RawTaxonomy
    taxa: dict[str, Taxon] = field(default_factory=dict)
    synonyms: dict[str, tuple[str, str]] = field(default_factory=dict)
    common: dict[str, list[str]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, key: str, taxon: Taxon) -> None:
        """Adds an accepted name; another row with the same id is a defect."""
        if not taxon.name:
            self.raw.flaw("empty name", "The taxon has no name.", taxon.row, key, "Fill in the name.")
            taxon = taxon._replace(name=key)
        rank = (taxon.rank or "").lower()
        taxon = taxon._replace(rank=None if rank in _NO_RANK else rank)
        first = self.taxa.setdefault(key, taxon)
        if first is not taxon:
            self.raw.repeated("id", first.row, taxon.row, key, same=first[1:] == taxon[1:])

    def finish(self, root: str | None) -> RawTaxonomy:
        """Returns the nodes and notes; several taxa at the top stand under a root of this label, or "life"."""
        parents, aliases = self._parents(root or LIFE), self._aliases()
        ranks: dict[tuple[object, str], str | None] = {}
        renamed = 0
        for key, taxon in self.taxa.items():
            if key not in parents:
                continue
            parent, label, others = parents[key], taxon.name, aliases.get(key, ())
            if (parent, label) in ranks:
                by_rank = [f"{label} ({taxon.rank})"] if taxon.rank not in (None, ranks[parent, label]) else []
                by_author = [f"{label} {taxon.author}"] if taxon.author else []
                options = [*by_rank, *by_author, f"{label} [{key}]"]
                others, renamed = (*others, label), renamed + 1
                label = next((option for option in options if (parent, option) not in ranks), options[-1])
            ranks[parent, label] = taxon.rank
            self.raw.nodes.append(RawNode(key, parent, label, tuple(others), taxon.rank, taxon.row))
        if renamed:
            message = f"Named like a sibling, and distinguished by rank, authorship or id: {_taxa(renamed)}."
            self.raw.note("renamed", message)
        for what, count in self.left_out.items():
            self.raw.note("left out", f"Left out: {count:,} {what}.")
        return self.raw

    def accepted(self, key: str) -> str | None:
        """Returns the id of the taxon that an id stands for, through synonyms of synonyms; None where there is none."""
        seen: set[str] = set()
        while key not in seen:
            seen.add(key)
            if key in self.taxa:
                return key
            # Ids may be given as addresses in one column only.
            key = self.synonyms[key][0] if key in self.synonyms else key.rsplit("/", 1)[-1]
        return None

    def _parents(self, root: str) -> dict[str, object]:
        """Returns the parent of each taxon that is on the tree; adds a root where one is needed."""
        parents: dict[str, object] = {k: self.accepted(t.parent) if t.parent else None for k, t in self.taxa.items()}
        orphans = [key for key, taxon in self.taxa.items() if taxon.parent and parents[key] is None]
        tops = [key for key, taxon in self.taxa.items() if not taxon.parent]
        if not tops:  # an excerpt of a checklist: what hangs on missing rows is at the top
            tops, orphans = orphans, []
        if len(tops) > 1:
            missing = {self.taxa[key].parent for key in tops}
            top: object = missing.pop() if len(missing) == 1 and "" not in missing else ("root", root)
            parents |= dict.fromkeys(tops, top)
            self.raw.nodes.append(RawNode(top, None, root))
            message = f"Nodes without a parent in the file, now under an added root {root!r}: {_taxa(len(tops))}."
            self.raw.note("added root", message)
        if orphans:
            below: dict[object, list[str]] = {}
            for key, parent in parents.items():
                below.setdefault(parent, []).append(key)
            gone = list(orphans)
            for key in gone:
                gone += below.get(key, ())
                del parents[key]
            first = self.taxa[orphans[0]]
            message = f"Left out: {_taxa(len(gone))}, {len(orphans):,} whose parent has no row (first: {first.name!r}, "
            message += f"row {first.row}, parent {first.parent!r}) and what is below them."
            self.raw.note("left out", message, first.row)
        return parents

    def _aliases(self) -> dict[str, tuple[str, ...]]:
        """Returns the other names of each taxon: common names first, then synonyms."""
        names: dict[str, dict[str, str]] = {}
        common = (
            (key, name, "common names of taxa without a row") for key, some in self.common.items() for name in some
        )
        lost = "synonyms whose accepted name has no row"
        used = 0
        for reference, name, what in (*common, *((key, name, lost) for key, name in self.synonyms.values())):
            key = self.accepted(reference)
            if key is None:
                self.left_out[what] += 1
            elif name and name.casefold() != self.taxa[key].name.casefold():
                names.setdefault(key, {}).setdefault(name.casefold(), name)
                used += what is lost
        if used:
            self.raw.note("synonyms", f"Added as aliases of their accepted names: {used:,} synonyms.")
        return {key: tuple(some.values()) for key, some in names.items()}


def _taxa(count: int) -> str:
    return f"{count:,} tax{'on' if count == 1 else 'a'}"


# -- Darwin Core -------------------------------------------------------------------------------------------------------


def read_darwin_core(files: Files, name: str, core: str | None = None, root: str | None = None) -> RawTaxonomy:
    """Returns the taxa of a Darwin Core archive.

    Args:
        files: The files of the archive, or beside the core file.
        name: The archive as the user wrote it, for messages.
        core: The name of the core file, where it was given itself.
        root: The label of a root that has to be added; "life" by default.

    Raises:
        TaxonomyError: If there is no core file of taxa, it lacks a column, or a row cannot be read.
    """
    core = core or next(filter(_CORE.fullmatch, files), None)
    if core is None:
        remedy = "It needs taxa.csv or Taxon.tsv; give the core file if it has another name."
        value = ", ".join(sorted(files)[:8])
        raise TaxonomyError("There is no core file of taxa in it.", file=name, value=value, remedy=remedy)
    checklist = Checklist(RawTaxonomy(_shown(name, core), "darwin-core"))
    _read_taxa(files[core], checklist)
    english = next(filter(_ENGLISH.fullmatch, files), None)
    if vernacular := english or next(filter(_NAMES.fullmatch, files), None):
        _read_names(files[vernacular], _shown(name, vernacular), checklist, all_english=english is not None)
    return checklist.finish(root)


def _read_taxa(file: Path | zipfile.Path, checklist: Checklist) -> None:
    shown, rows = checklist.raw.file, _rows(file, checklist.raw.file)
    header = [_term(cell) for cell in next(rows, Row(1, ())).cells]
    column = {name: i for i, name in reversed([*enumerate(header)])}.get
    full, parent = column("scientificname"), column("parentnameusageid")
    canonical, author = column("canonicalname"), column("scientificnameauthorship")
    if (full is None and canonical is None) or parent is None:
        missing = "scientificName" if full is None and canonical is None else "parentNameUsageID"
        remedy = "Without parents, give a table with columns such as order, family, genus and name (inat21-csv)."
        message = f"The core file has no column {missing}."
        raise TaxonomyError(message, file=shown, row=1, value=", ".join(header), remedy=remedy)
    ids, taxon_id, accepted = column("id"), column("taxonid"), column("acceptednameusageid")
    status, rank = column("taxonomicstatus"), column("taxonrank")
    for row in rows:
        if any(row.cells[len(header) :]):
            message = f"The row has {len(row.cells)} cells, the header {len(header)}."
            remedy = "Put a name that contains the delimiter in quotes."
            checklist.raw.flaw("ragged row", message, row.line, row.cells[len(header)], remedy)
            continue
        key, state = row.cell(ids) or row.cell(taxon_id), row.cell(status).lower()
        stands_for, by = row.cell(accepted), row.cell(author)
        stands_for = "" if stands_for in (key, row.cell(taxon_id)) else stands_for
        name = clean(row.cell(canonical) or row.cell(full))
        for form in (by, f"({by})") if by else ():
            name = name.removesuffix(form).rstrip(" ,") or name
        if not key:
            checklist.left_out["rows without an id"] += 1
        elif state == "bare name" or "misapplied" in state:
            checklist.left_out["bare and misapplied names"] += 1
        elif stands_for or any(word in state for word in _SYNONYMS):
            checklist.synonyms[key] = (stands_for, name)
        else:
            checklist.add(key, Taxon(row.line, row.cell(parent), name, row.cell(rank), by))
    if not checklist.taxa:
        raise TaxonomyError("The core file has no rows of accepted names.", file=shown)


def _read_names(file: Path | zipfile.Path, shown: str, checklist: Checklist, *, all_english: bool) -> None:
    rows = _rows(file, shown)
    header = [_term(cell) for cell in next(rows, Row(1, ())).cells]
    column = {name: i for i, name in reversed([*enumerate(header)])}.get
    taxon, name = column("id", column("coreid", column("taxonid"))), column("vernacularname")
    if taxon is None or name is None:
        message = "A file of common names needs the columns id and vernacularName."
        raise TaxonomyError(message, file=shown, row=1, value=", ".join(header))
    language, preferred = column("language"), column("ispreferredname")
    for row in rows:
        code = row.cell(language).lower().replace("_", "-")
        if language is None or all_english or code in ("en", "eng", "english") or code.startswith("en-"):
            names = checklist.common.setdefault(row.cell(taxon), [])
            is_first = row.cell(preferred).lower() in ("true", "1", "yes")
            names.insert(0 if is_first else len(names), clean(row.cell(name)))


# -- NCBI --------------------------------------------------------------------------------------------------------------


def read_taxdump(files: Files, name: str, root: str | None = None) -> RawTaxonomy:
    """Returns the nodes of NCBI's taxonomy; aliases are common names, synonyms, equivalent names and acronyms.

    Args:
        files: The files of the dump.
        name: The dump as the user wrote it, for messages.
        root: The label of a root that has to be added; "life" by default. NCBI's own is called "root".

    Raises:
        TaxonomyError: If a file is not there, or a row lacks a field.
    """
    for needed in ("nodes.dmp", "names.dmp"):
        if needed not in files:
            remedy = "NCBI's taxonomy consists of nodes.dmp and names.dmp in the same folder."
            raise TaxonomyError(f"There is no {needed} in it.", file=name, remedy=remedy)
    checklist = Checklist(RawTaxonomy(_shown(name, "nodes.dmp"), "taxdump"))
    label: dict[str, str] = {}
    for row in _rows(files["names.dmp"], _shown(name, "names.dmp"), fields=4):
        key, text, _, kind = row.cells[:4]
        if kind == "scientific name":
            label.setdefault(key, clean(text))
        elif kind.replace("genbank acronym", "acronym") in _COMMON:
            names = checklist.common.setdefault(key, [])
            names.insert(0 if kind == _COMMON[0] else len(names), clean(text))
        else:
            checklist.left_out[f"names of the class {kind!r}"] += 1
    for row in _rows(files["nodes.dmp"], checklist.raw.file, fields=3):
        key, parent, rank = row.cells[:3]
        # The root is its own parent.
        checklist.add(key, Taxon(row.line, "" if parent == key else parent, label.get(key, ""), rank))
    return checklist.finish(root)


# -- rows --------------------------------------------------------------------------------------------------------------


def _shown(name: str, file: str) -> str:
    return name if name.endswith(file) else str(Path(name) / file)


def _rows(file: Path | zipfile.Path, shown: str, fields: int = 0) -> Iterator[Row]:
    """Yields the rows of a table with stripped cells, the header first; with `fields`, of a dump with that many.

    Tables with tabs quote nothing, unless they are called .csv.
    """
    line, start = 0, 1
    try:
        with file.open("rb") as stream:

            def lines() -> Iterator[str]:
                nonlocal line
                for data in stream:
                    line += 1
                    yield data.decode("utf-8-sig" if line == 1 else "utf-8")

            texts = lines()
            first = next(texts, "")
            delimiter = "|" if fields else csv_delimiter(first)
            is_quoted = delimiter in ",;" or file.name.lower().endswith(".csv")
            reader = csv.reader(
                chain([first], texts),
                delimiter=delimiter,
                quoting=csv.QUOTE_MINIMAL if is_quoted else csv.QUOTE_NONE,
                strict=True,
            )
            for cells in reader:
                cells = [cell.strip() for cell in cells]
                if fields and (len(cells) < fields or not cells[0]):
                    message, value = f"The row does not have {fields} fields that end in '|'.", "|".join(cells)
                    remedy = "Download the file again; it may have been cut off."
                    raise TaxonomyError(message, file=shown, row=start, value=value, remedy=remedy)
                if any(cells):
                    yield Row(start, cells)
                start = line + 1
    except UnicodeDecodeError:
        raise TaxonomyError("The row is not UTF-8 text.", file=shown, row=line, remedy="Save it as UTF-8.") from None
    except csv.Error as problem:
        remedy = "Close its quotes, and double any quote inside a name."
        raise TaxonomyError(f"The row cannot be read: {problem}.", file=shown, row=start, remedy=remedy) from None
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, ValueError) as problem:
        remedy = "The archive may have been cut off; download it again."
        raise TaxonomyError(f"The file cannot be read: {problem}.", file=shown, row=line, remedy=remedy) from None
