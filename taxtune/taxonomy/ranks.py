"""Reads trees whose rows state a species with its ranks: iNaturalist 2021's JSON, and CSV tables.

Columns or keys are kingdom, phylum, class (or cls), order, family and genus, of which some may be
missing altogether, and `name`, or `species` or `specific_epithet`: an epithet alone is joined to
its genus. A species' label is its full Latin name, and `common_name` its first alias. The root is
called "life" unless another label is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from taxtune.errors import TaxonomyError
from taxtune.tables import RawTable, Row, clean
from taxtune.taxonomy.raw import PathCollector, RawTaxonomy, has_half_character, split_names

__all__ = ["LIFE", "has_ranks", "is_categories", "read_categories", "read_ranks"]

#: The label of the root of living things.
LIFE = "life"
_RANKS = ("kingdom", "phylum", "class", "order", "family", "genus")
#: What programs write for a value that is missing; no taxon is called so.
_NONE = frozenset({"na", "n/a", "nan", "none", "null"})
_USED = (*_RANKS, "species", "name", "specific_epithet", "common_name")


def has_ranks(header: Iterable[str]) -> bool:
    """Tells whether columns are a table of ranks: at least one rank and something below it."""
    columns = {"class" if name == "cls" else name for name in header}
    ranks = len(columns.intersection(_RANKS))
    return ranks >= 2 or (ranks == 1 and not columns.isdisjoint(("name", "species")))


def is_categories(data: object) -> bool:
    """Tells whether parsed JSON is COCO-style, or a list of objects with ranks."""
    if isinstance(data, dict):
        has_name = "name" in data or "label" in data
        return isinstance(data.get("categories"), list) and not has_name
    if isinstance(data, list):
        for item in data:
            if isinstance(item, dict) and not item.keys().isdisjoint(_RANKS):
                return True
    return False


# -- tables ----------------------------------------------------------------------------------------


def read_ranks(table: RawTable, root: str | None = None) -> RawTaxonomy:
    """Returns the nodes of a table with a column for each rank.

    Raises:
        TaxonomyError: If there is no rank, or nothing below it.
    """
    header = table.header
    if "class" not in header:
        header = tuple("class" if name == "cls" else name for name in header)
    if not has_ranks(header):
        message = "It needs at least one of the columns kingdom … genus, and a column name."
        columns = ",".join(header)
        raise TaxonomyError(message, file=table.file, row=table.header_line, value=columns)
    collector = PathCollector(table.file, "inat21-csv", root or LIFE)
    used = {name: i for i, name in enumerate(header) if name in _USED}
    values = {}
    for row in table.rows:
        if not collector.raw.ragged(row, table):
            values[row.line] = {name: _given(row.cell(i)) for name, i in used.items()}
    is_whole = _has_whole_names(values.values())
    leaves = {}
    for line, cells in values.items():
        leaves[line] = cells.get("name") or _species(cells, is_whole)
    known = {"", *leaves.values()}
    for line, cells in values.items():
        leaf = leaves[line]
        species = _as_species(leaf)
        is_free = species not in known and leaf != cells.get("name")
        _add(collector, line, cells, leaf, leads=(species,) if is_free else ())
    return collector.finish()


def _given(cell: str) -> str:
    """Returns a cell; "" if it says that there is none, as programs and people write it.

    Such are "NA", "-" and "?".
    """
    is_missing = cell.casefold() in _NONE or not any(map(str.isalnum, cell))
    return "" if is_missing else cell


def _add(
    collector: PathCollector,
    row: int,
    values: Mapping[str, str],
    leaf: str,
    leads: tuple[str, ...],
) -> None:
    """Adds the node of one row: its groups, and its leaf if it names one."""
    ranks: list[str | None] = [rank for rank in _RANKS if rank in values]
    names = [values[rank] for rank in _RANKS if rank in values]
    given = list(filter(None, names))
    if leaf and given[-1:] != [leaf]:
        is_species = "genus" in values or "species" in values or " " in leaf
        ranks.append("species" if is_species else None)
        names.append(leaf)
    while names and not names[-1]:
        names.pop()
    if not names:
        collector.raw.flaw("empty name", "The row names nothing.", row, None, "Remove the row.")
        return
    if values.get("name") == "":
        shown = "/".join(name or "?" for name in names)
        remedy = "Fill in the name, or remove the row."
        collector.raw.flaw("empty name", "The row has no name.", row, shown, remedy)
        return
    # A common name that merely repeats the Latin one, upper and lower case alike, is none.
    common = split_names(values.get("common_name", ""))
    latin = names[-1].casefold()
    aliases = tuple(name for name in common if name.casefold() != latin)
    collector.add(row, names, ranks[: len(names)], aliases=aliases, leads=leads)


# -- names of species ------------------------------------------------------------------------------


def _has_whole_names(rows: Iterable[Mapping[str, str]]) -> bool:
    """Tells whether the species are mostly written with their genus in front."""
    whole = []
    for row in rows:
        species = row.get("species")
        genus = row.get("genus")
        if species and genus:
            whole.append(_begins_with(species, genus))
    return 2 * sum(whole) > len(whole)


def _begins_with(species: str, genus: str) -> bool:
    return species.casefold().startswith(f"{genus.casefold()} ")


def _species(values: Mapping[str, str], is_whole: bool) -> str:
    """Returns the full name of a row's species, or "" if it has none.

    An epithet begins with a small letter or as a hybrid does: "lupus", "lupus dingo", "×
    hispanica", "cf. canina". If the column has whole names, one that begins with its genus is no
    epithet.
    """
    genus = values.get("genus", "")
    species = values.get("species", "")
    epithet = species or values.get("specific_epithet", "")
    if not genus or not epithet:
        return species
    first, _, rest = epithet.partition(" ")
    if rest and first.casefold() == f"{genus[0]}.".casefold():
        return f"{genus} {rest}"
    is_epithet = epithet.lstrip("× ")[:1].islower() or not species
    if is_epithet and not (is_whole and _begins_with(epithet, genus)):
        return f"{genus} {epithet}"
    return epithet


def _as_species(name: str) -> str:
    """Returns the name of a subspecies as a species, or "" of other names.

    It is "Canis dingo" of "Canis lupus dingo".
    """
    words = name.split()
    if len(words) < 3:
        return ""
    genus = words[0]
    last = words[-1]
    is_latin = genus.isalpha() and last.isalpha() and last.islower()
    return f"{genus} {last}" if is_latin else ""


# -- JSON ------------------------------------------------------------------------------------------


def read_categories(data: object, file: str, root: str | None = None) -> RawTaxonomy:
    """Returns the nodes of iNat21's JSON: an object with the list `categories`, or that list.

    Rows are positions in the list.

    Raises:
        TaxonomyError: If it holds no list of objects with names and ranks.
    """
    categories = data.get("categories") if isinstance(data, dict) else data
    if not isinstance(categories, list) or not categories:
        remedy = "Give iNat21's train_mini.json or val.json."
        raise TaxonomyError("The JSON has no list `categories`.", file=file, remedy=remedy)
    for row, category in enumerate(categories, start=1):
        if not isinstance(category, dict):
            raise TaxonomyError("A category is not an object.", file=file, row=row, value=category)
        for column in _USED:
            value = category.get(column)
            is_text = value is None or isinstance(value, str | int)
            if not is_text or has_half_character(str(value)):
                message = "A value of a category is not text."
                raise TaxonomyError(message, file=file, row=row, value=value)
    keys = set().union(*categories)
    used = tuple(column for column in _USED if column in keys)
    if not has_ranks(used):
        message = (
            "The categories have no ranks (kingdom, phylum, class, order, family, genus), so they "
            "make no tree."
        )
        remedy = "Give a CSV of edges or paths instead."
        raise TaxonomyError(message, file=file, row=1, value=categories[0], remedy=remedy)
    rows = []
    for row, category in enumerate(categories, start=1):
        cells = []
        for column in used:
            value = category.get(column)
            cells.append("" if value is None else clean(str(value)))
        rows.append(Row(row, cells))
    raw = read_ranks(RawTable(file, used, 0, rows), root)
    raw.format = "inat21-json"
    return raw
