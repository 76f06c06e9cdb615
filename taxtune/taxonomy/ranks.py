"""Reader of trees whose rows state a species with its ranks: iNaturalist 2021's `categories` in JSON, and CSV tables.

Columns or keys are kingdom, phylum, class (or cls), order, family and genus, of which some may be missing altogether,
and `name`, or `species` or `specific_epithet`: an epithet alone is joined to its genus. A species' label is its full
Latin name, and `common_name` its first alias. The root is called "life" unless another label is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from taxtune.errors import TaxonomyError
from taxtune.tables import RawTable, Row, clean
from taxtune.taxonomy.raw import PathCollector, RawTaxonomy, split_names

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
        return isinstance(data.get("categories"), list) and not {"name", "label"} & set(data)
    return isinstance(data, list) and any(
        isinstance(entry, dict) and set(_RANKS) & set(entry) for entry in data
    )


def read_ranks(table: RawTable, root: str | None = None) -> RawTaxonomy:
    """Returns the nodes of a table with a column for each rank.

    Raises:
        TaxonomyError: If there is no rank, or nothing below it.
    """
    header = tuple(
        "class" if name == "cls" and "class" not in table.header else name for name in table.header
    )
    if not has_ranks(header):
        message, value = (
            "It needs at least one of the columns kingdom … genus, and a column name.",
            ",".join(header),
        )
        raise TaxonomyError(message, file=table.file, row=table.header_line, value=value)
    collector = PathCollector(table.file, "inat21-csv", root or LIFE)
    columns = {name: i for i, name in enumerate(header) if name in _USED}
    rows = [row for row in table.rows if not collector.raw.ragged(row, table)]
    values = [{name: _given(row.cell(i)) for name, i in columns.items()} for row in rows]
    whole = _has_whole_names(values)
    leaves = [cells.get("name") or _species(cells, whole) for cells in values]
    known = set(leaves)
    for row, cells, leaf in zip(rows, values, leaves, strict=True):
        short = _as_species(leaf)
        is_free = leaf != cells.get("name") and short not in known
        _add(collector, row.line, cells, leaf, (short,) if is_free and short else ())
    return collector.finish()


def read_categories(data: object, file: str, root: str | None = None) -> RawTaxonomy:
    """Returns the nodes of iNat21's JSON: an object with the list `categories`, or that list; rows are positions in it.

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
        for value in (category[key] for key in _USED if category.get(key) is not None):
            if not isinstance(value, str | int) or any(
                "\ud800" <= c <= "\udfff" for c in str(value)
            ):
                raise TaxonomyError(
                    "A value of a category is not text.", file=file, row=row, value=value
                )
    used = tuple(column for column in _USED if any(column in category for category in categories))
    if not has_ranks(used):
        message = "The categories have no ranks (kingdom, phylum, class, order, family, genus), so they make no tree."
        remedy = "Give a CSV of edges or paths instead."
        raise TaxonomyError(message, file=file, row=1, value=categories[0], remedy=remedy)
    cells = ([category.get(column) for column in used] for category in categories)
    rows = [
        Row(i, ["" if value is None else clean(str(value)) for value in some])
        for i, some in enumerate(cells, 1)
    ]
    raw = read_ranks(RawTable(file, used, 0, rows), root)
    raw.format = "inat21-json"
    return raw


def _given(cell: str) -> str:
    """Returns a cell; "" where it says that there is none, as R, pandas and people write it: "NA", "-", "?"."""
    return cell if any(map(str.isalnum, cell)) and cell.casefold() not in _NONE else ""


def _add(
    collector: PathCollector, row: int, values: Mapping[str, str], leaf: str, leads: tuple[str, ...]
) -> None:
    """Adds the node of one row: its groups, and its leaf where it names one."""
    levels: list[tuple[str | None, str]] = [
        (rank, values[rank]) for rank in _RANKS if rank in values
    ]
    if leaf and leaf != next((name for _, name in reversed(levels) if name), ""):
        is_species = "genus" in values or "species" in values or " " in leaf
        levels.append(("species" if is_species else None, leaf))
    while levels and not levels[-1][1]:
        levels.pop()
    if values.get("name") == "" or not levels:
        nothing = not levels
        message = "The row names nothing." if nothing else "The row has no name."
        remedy = "Remove the row." if nothing else "Fill in the name, or remove the row."
        shown = "/".join(name or "?" for _, name in levels) or None
        collector.raw.flaw("empty name", message, row, shown, remedy)
        return
    ranks, names = zip(*levels, strict=True)
    # A common name that merely repeats the Latin one, upper and lower case alike, is none.
    common = split_names(values.get("common_name", ""))
    aliases = tuple(name for name in common if name.casefold() != names[-1].casefold())
    collector.add(row, names, ranks, aliases, leads)


def _has_whole_names(rows: Sequence[Mapping[str, str]]) -> bool:
    """Tells whether the species are mostly written with their genus in front."""
    given = [
        (row["species"], row["genus"]) for row in rows if row.get("species") and row.get("genus")
    ]
    whole = [species for species, genus in given if _begins_with(species, genus)]
    return 2 * len(whole) > len(given)


def _begins_with(species: str, genus: str) -> bool:
    return species.casefold().startswith(f"{genus.casefold()} ")


def _species(values: Mapping[str, str], whole: bool) -> str:
    """Returns the full name of a row's species; "" where it has none.

    An epithet begins with a small letter or as a hybrid does: "lupus", "lupus dingo", "× hispanica", "cf. canina".
    Where the column has `whole` names, one that begins with its genus is none.
    """
    genus, species = values.get("genus", ""), values.get("species", "")
    epithet = species or values.get("specific_epithet", "")
    if not (genus and epithet):
        return species
    first, _, rest = epithet.partition(" ")
    if first.casefold() == f"{genus[0]}.".casefold() and rest:
        return f"{genus} {rest}"
    is_epithet = epithet.lstrip("× ")[:1].islower() or not species
    is_whole = whole and _begins_with(epithet, genus)
    return f"{genus} {epithet}" if is_epithet and not is_whole else epithet


def _as_species(name: str) -> str:
    """Returns the name of a subspecies as a species, "Canis dingo" of "Canis lupus dingo"; "" of other names."""
    words = name.split()
    is_longer = (
        len(words) > 2 and words[0].isalpha() and words[-1].isalpha() and words[-1].islower()
    )
    return f"{words[0]} {words[-1]}" if is_longer else ""
