"""Readers of iNaturalist 2021: the `categories` of its COCO-style JSON, and CSV tables with a column for each rank.

Both state a species with the names of its ranks. The root is called "life" unless another label is asked for, the
species' label is its full Latin name, and its common name, where it has one, is its first alias. Any of the rank
columns may be missing altogether. An epithet alone in the column `species` is joined to its genus, authorship behind a
binomial is taken off, and a column `cls`, as those call it whose language reserves the word, is the class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from taxtune.errors import TaxonomyError
from taxtune.tables import Table, clean, split_aliases
from taxtune.taxonomy.raw import PathCollector, RawTaxonomy
from taxtune.taxonomy.readers.authorship import is_epithet, split_authorship

__all__ = ["RANKS", "ROOT", "is_inat21_json", "is_rank_table", "parse_inat21_csv", "parse_inat21_json"]

ROOT = "life"
RANKS = ("kingdom", "phylum", "class", "order", "family", "genus")

_CLASS = ("class", "cls", "class_", "klass", "clazz")
_USED = (*RANKS, "species", "name", "specific_epithet", "common_name", "id")


def is_rank_table(header: tuple[str, ...]) -> bool:
    """Tells whether a CSV header is that of a table of ranks: at least one rank and something below it."""
    ranks = sum(rank in header or (rank == "class" and bool(set(_CLASS) & set(header))) for rank in RANKS)
    return ranks >= 2 or (ranks >= 1 and bool({"name", "species"} & set(header)))


def parse_inat21_csv(table: Table, root: str | None = None) -> RawTaxonomy:
    """Returns the nodes of a CSV with columns among kingdom … genus, species, name, specific_epithet, common_name, id.

    The columns may stand in any order and others are ignored. A row whose lower ranks are empty states a node of a
    higher rank; if there is a column name, that node's name stands there too.

    Raises:
        TaxonomyError: If the header has no rank.
    """
    if not is_rank_table(table.header):
        raise TaxonomyError(
            "A table of ranks needs at least one of the columns kingdom, phylum, class, order, family and genus, and "
            "one below it, such as name.",
            file=table.file,
            row=table.header_line,
            value=",".join(table.header),
        )
    table = _with_class(table)
    collector = PathCollector(table.file, "inat21-csv", root or ROOT)
    columns = {name: table.column(name) for name in _USED if name in table.header}
    records = (
        (row.line, {name: row.cell(column) for name, column in columns.items()})
        for row in table.rows
        if not collector.raw.ragged(row, table)
    )
    return _collect(collector, table.header, records)


def _with_class(table: Table) -> Table:
    """Returns the table with its column of classes called so, where it has one by another spelling.

    Raises:
        TaxonomyError: If two columns may be it and differ: the one may hold classes to be distinguished in images.
    """
    named = [table.header.index(name) for name in _CLASS if name in table.header]
    if not named or (len(named) == 1 and table.header[named[0]] == "class"):
        return table
    for row in table.rows:
        if len({row.cell(i).casefold() for i in named}) > 1:
            raise TaxonomyError(
                f"The columns {' and '.join(repr(table.header[i]) for i in named)} could both be the taxonomic class, "
                "but they differ.",
                file=table.file,
                row=row.line,
                value=", ".join(row.cell(i) for i in named),
                remedy="Rename the other one.",
            )
    header = tuple("class" if i == named[0] else name for i, name in enumerate(table.header))
    return replace(table, header=header)


def is_inat21_json(data: object) -> bool:
    """Tells whether parsed JSON is COCO-style, or a list of objects with ranks."""
    if isinstance(data, dict):
        return isinstance(data.get("categories"), list) and not {"name", "label"} & set(data)
    return isinstance(data, list) and any(isinstance(entry, dict) and set(RANKS) & set(entry) for entry in data)


def parse_inat21_json(data: object, file: str, root: str | None = None) -> RawTaxonomy:
    """Returns the nodes of iNat21's JSON: an object with the list `categories`, or that list itself.

    Rows are positions in `categories`, counted from 1.

    Raises:
        TaxonomyError: If it holds no list of objects with names and ranks.
    """
    categories = data.get("categories") if isinstance(data, dict) else data
    if not isinstance(categories, list) or not categories:
        raise TaxonomyError(
            "The JSON has no list `categories`.", file=file, remedy="Give iNat21's train_mini.json or val.json."
        )
    for row, category in enumerate(categories, start=1):
        if not isinstance(category, dict):
            raise TaxonomyError("A category is not an object.", file=file, row=row, value=category)
    header = tuple(column for column in _USED if any(column in category for category in categories))
    if not is_rank_table(header):
        raise TaxonomyError(
            "The categories have no ranks (kingdom, phylum, class, order, family, genus), so they make no tree.",
            file=file,
            row=1,
            value=categories[0],
            remedy="Give a CSV of edges or paths instead.",
        )
    collector = PathCollector(file, "inat21-json", root or ROOT)
    return _collect(collector, header, _json_records(categories, header, file))


def _json_records(
    categories: list[dict[str, object]], header: tuple[str, ...], file: str
) -> Iterator[tuple[int, Mapping[str, str]]]:
    for row, category in enumerate(categories, start=1):
        values = {}
        for column in header:
            value = category.get(column)
            if value is not None and not isinstance(value, str | int):
                raise TaxonomyError(f"{column!r} of a category is not text.", file=file, row=row, value=value)
            text = "" if value is None else str(value)
            try:
                text.encode()
            except UnicodeEncodeError:
                raise TaxonomyError(
                    "A name contains an incomplete character (half a surrogate pair).", file=file, row=row, value=text
                ) from None
            values[column] = clean(text)
        yield row, values


def _collect(
    collector: PathCollector, header: tuple[str, ...], records: Iterable[tuple[int, Mapping[str, str]]]
) -> RawTaxonomy:
    ranks = [rank for rank in RANKS if rank in header]
    cited: list[int] = []
    for row, values in records:
        levels: list[tuple[str | None, str]] = [(rank, values[rank]) for rank in ranks]
        deepest = next((name for _, name in reversed(levels) if name), "")
        leaf = values.get("name") or _species(values)
        leaf, author = split_authorship(leaf)
        if author:
            cited.append(row)
        if "name" in header and not values["name"]:
            _tell_unnamed(collector.raw, row, levels, "name")
            continue
        if leaf and leaf != deepest:
            is_species = "genus" in header or "species" in header or " " in leaf
            levels.append(("species" if is_species else None, leaf))
        while levels and not levels[-1][1]:
            levels.pop()
        gap = next((rank for rank, name in levels if not name), None)
        if gap is not None or not levels:
            _tell_unnamed(collector.raw, row, levels, gap)
            continue
        label = levels[-1][1]
        collector.add(
            row,
            [name for _, name in levels],
            [rank for rank, _ in levels],
            split_aliases(values.get("common_name", ""), label),
            values.get("id"),
        )
    if cited:
        message = f"Removed authorship from names: {len(cited):,} (first: row {cited[0]})."
        collector.raw.note("authorship", message, cited[0])
    return collector.finish()


def _tell_unnamed(raw: RawTaxonomy, row: int, levels: list[tuple[str | None, str]], column: str | None) -> None:
    """Adds that a row has no name in a column; None where it has none in any."""
    message = "The row names nothing." if column is None else f"The row has no {column}."
    remedy = "Remove the row." if column is None else f"Fill in the {column}, or remove the row."
    raw.flaw("empty name", message, row, "/".join(name or "?" for _, name in levels) or None, remedy)


def _species(values: Mapping[str, str]) -> str:
    genus, species = values.get("genus", ""), values.get("species", "")
    if species and not (genus and is_epithet(species)):
        return species
    epithet = species or values.get("specific_epithet", "")
    return f"{genus} {epithet}" if genus and epithet else ""
