"""Small files that would fill memory or time: each is refused, or read, at a cost that its size explains.

No time is asserted; what grew with the square of a size, or faster, is met here with so much that it would not end.
"""

from __future__ import annotations

import gzip
import zipfile

import numpy as np
import pytest

from taxtune.answers.records import read_records
from taxtune.errors import DataError, ProposerError, RecipeError, TaxonomyError
from taxtune.recipe import load_recipe
from taxtune.tables import MOST_UNPACKED, read_table
from taxtune.taxonomy import Taxonomy, read_taxonomy
from taxtune.tuning.proposers.fragments import FragmentsProposer

LAUGHS = "a0: &a0 [x, x]\n"
for i in range(1, 30):
    LAUGHS += f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n"
LAUGHING_ENTITIES = '<!ENTITY a0 "lol">\n'
for i in range(1, 20):
    LAUGHING_ENTITIES += f'<!ENTITY a{i} "{f"&a{i - 1};" * 9}">\n'

# -- YAML --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [LAUGHS, "name: &a [*a]\n", "a: &a {x: 1}\nb: {<<: *a}\n"])
def test_yaml_aliases_are_refused(text, tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text(text)
    message = r"x\.yaml:\d: .*aliases .* are not read; write the value out"
    with pytest.raises(RecipeError, match=message):
        load_recipe(file)
    with pytest.raises(ProposerError, match="aliases"):
        FragmentsProposer(file)


# -- tables ------------------------------------------------------------------------------------------------------------


def test_what_unpacks_to_more_than_the_limit_is_refused(tmp_path):
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(bytes(MOST_UNPACKED + 1), 1))
    sheet = tmp_path / "a.xlsx"
    with zipfile.ZipFile(sheet, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        made.writestr("xl/media/zeros.bin", bytes(MOST_UNPACKED + 1))
    for file in (packed, sheet):
        with pytest.raises(DataError, match=r"a\.(csv\.gz|xlsx): .*unpacks to more than 256 MiB"):
            read_records(file)


# -- trees -------------------------------------------------------------------------------------------------------------


def test_a_chain_is_refused_without_going_down_it_level_by_level():
    n = 400_000
    message = f"too deep for its size: {n} nodes, {n - 1} levels below the root"
    with pytest.raises(TaxonomyError, match=message):
        Taxonomy([f"n{i}" for i in range(n)], range(-1, n - 1))


LEVELS = ",".join(f"level{i}" for i in range(60_000))


@pytest.mark.parametrize(
    "text", ["path\n" + "a/" * 60_000, f"{LEVELS}\n" + "a," * 59_999 + "a\n"], ids=["path", "row"]
)
def test_a_path_of_thousands_of_names_is_refused(text, tmp_path):
    file = tmp_path / "path.csv"
    file.write_text(text)
    with pytest.raises(TaxonomyError, match=r"path\.csv:2: The path has more than 250 names"):
        read_taxonomy(file)


# -- RDF ---------------------------------------------------------------------------------------------------------------

RDF = """<?xml version="1.0"?>
<!DOCTYPE rdf:RDF [
{entities}
]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#"
         xmlns:owl="http://www.w3.org/2002/07/owl#">
  <owl:Class rdf:about="urn:bird"><rdfs:label>{label}</rdfs:label></owl:Class>
</rdf:RDF>
"""


@pytest.mark.parametrize(
    ("entities", "label"),
    [
        (LAUGHING_ENTITIES, "&a19;"),
        ('<!ENTITY a0 "lol"><!ENTITY a1 "&#38;a0;">', "&a1;"),
        (f'<!ENTITY a "{"x" * 100_000}">', "&a;" * 100_000),
        ('<!ENTITY a SYSTEM "file:///etc/passwd">', "&a;"),
        ('<!ENTITY % a SYSTEM "http://127.0.0.1:9/a.dtd"> %a;', "bird"),
        ("<!ENTITY % a '<!ENTITY b \"x\">'> %a;", "&b;"),
    ],
    ids=["laughs", "hidden", "quadratic", "file", "dtd", "parameter"],
)
def test_entities_that_stand_for_more_than_a_namespace_are_refused(entities, label, tmp_path):
    pytest.importorskip("rdflib")
    file = tmp_path / "x.owl"
    file.write_text(RDF.format(entities=entities, label=label))
    with pytest.raises(TaxonomyError, match=r"x\.owl:\d+: An entity stands for a file, .*Turtle"):
        read_taxonomy(file)


# -- one value for many cells ------------------------------------------------------------------------------------------


def parquet_of(folder, columns, times=1, **how):
    """Writes a table so many times over to one small file."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    file = folder / "a.parquet"
    table = pa.table(columns)
    with parquet.ParquetWriter(file, table.schema, compression="zstd", **how) as writer:
        for _ in range(times):
            writer.write_table(table)
    assert file.stat().st_size < 2**20
    return file


LONG = "quack" * 20_000


def shared(rows):
    """A column that says itself that one text stands for all of its cells."""
    import pyarrow as pa

    indices = pa.array(np.zeros(rows, dtype=np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array([LONG]))


PREFIXES = {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"}


@pytest.mark.parametrize(
    ("make", "times", "how"),
    [
        (lambda: {"answer": [LONG] * 100}, 30, {}),
        (lambda: {"answer": shared(3000)}, 1, {}),
        (lambda: {"answer": [LONG] * 100}, 30, PREFIXES),
        (lambda: {"answers": [[LONG] * 20] * 5}, 30, {}),
        (lambda: {"number": np.zeros(5_000_000, dtype=np.int8)}, 1, {}),
        (lambda: {f"c{i}": np.zeros(500_000, dtype=bool) for i in range(40)}, 1, {}),
    ],
    ids=["dictionary", "category", "prefixes", "lists", "rows", "cells"],
)
def test_a_parquet_file_is_read_within_the_bound_of_all_tables(make, times, how, tmp_path):
    file = parquet_of(tmp_path, make(), times, **how)
    message = r"a\.parquet: The Parquet file unpacks to more than 256 MiB"
    with pytest.raises(DataError, match=message):
        read_records(file)


def test_a_sheet_that_is_far_wider_than_its_rows_is_refused(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for cell in ("A1", "B2", "XFD20000"):
        book.active[cell] = f"the cell {cell}"
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(DataError, match=r"a\.xlsx: The XLSX file unpacks to more than 256 MiB"):
        read_records(tmp_path / "a.xlsx")


def test_packed_rows_count_more_than_their_bytes(tmp_path):
    file = tmp_path / "a.csv.gz"
    file.write_bytes(gzip.compress(b"answer\n" + b"1\n" * 5_000_000, 1))
    with pytest.raises(DataError, match=r"a\.csv\.gz: .*unpacks to more than 256 MiB"):
        read_records(file)


def test_large_values_that_fit_are_read(tmp_path):
    pa = pytest.importorskip("pyarrow")
    years = pa.array([2001, None] * 25).dictionary_encode()
    columns = {"answer": [LONG] * 50, "kind": shared(50), "year": years, "tags": [["a"]] * 50}
    rows = read_table(parquet_of(tmp_path, columns))
    assert rows[1] == (2, {"answer": LONG, "kind": LONG, "year": None, "tags": ["a"]})
    columns = {"answer": [LONG, None] * 25, "kind": shared(50), "year": years}
    rows = read_table(parquet_of(tmp_path, columns))
    assert rows[0] == (1, {"answer": LONG, "kind": LONG, "year": 2001})
    assert rows[49] == (50, {"answer": None, "kind": LONG, "year": None})
