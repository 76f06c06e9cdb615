"""Small files that would fill memory or time: each is refused, or read, at a cost that its size explains.

No time is asserted; what grew with the square of a size, or faster, is met here with so much that it would not end.
"""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pytest

from taxtune.answers.records import read_records
from taxtune.errors import DataError, ProposerError, RecipeError, TaxonomyError
from taxtune.recipe import load_recipe
from taxtune.tables import MOST_UNPACKED
from taxtune.taxonomy import Taxonomy, read_taxonomy
from taxtune.tuning.proposers.fragments import FragmentsProposer

LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30))

# -- YAML --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [LAUGHS, "name: &a [*a]\n", "a: &a {x: 1}\nb: {<<: *a}\n"])
def test_yaml_aliases_are_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    with pytest.raises(RecipeError, match=r"x\.yaml:\d: .*aliases .* are not read; write the value out"):
        load_recipe(file)
    with pytest.raises(ProposerError, match="aliases"):
        FragmentsProposer(file)


# -- tables ------------------------------------------------------------------------------------------------------------


def test_what_unpacks_to_more_than_the_limit_is_refused(tmp_path: Path) -> None:
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(bytes(MOST_UNPACKED + 1), 1))
    sheet = tmp_path / "a.xlsx"
    with zipfile.ZipFile(sheet, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        made.writestr("xl/media/zeros.bin", bytes(MOST_UNPACKED + 1))
    for file in (packed, sheet):
        with pytest.raises(DataError, match=r"a\.(csv\.gz|xlsx): .*unpacks to more than 256 MiB"):
            read_records(file)


# -- trees -------------------------------------------------------------------------------------------------------------


def test_a_chain_is_refused_without_going_down_it_level_by_level() -> None:
    n = 400_000
    with pytest.raises(TaxonomyError, match=f"too deep for its size: {n} nodes, {n - 1} levels below the root"):
        Taxonomy([f"n{i}" for i in range(n)], range(-1, n - 1))


@pytest.mark.parametrize("text", ["path\n" + "a/" * 60_000, ",".join(f"level{i}" for i in range(60_000)) + "\n"])
def test_a_path_of_thousands_of_names_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "path.csv"
    file.write_text(text + ("a," * 59_999 + "a\n" if text.startswith("level") else ""))
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
        ('<!ENTITY a0 "lol">\n' + "\n".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 9}">' for i in range(1, 20)), "&a19;"),
        ('<!ENTITY a0 "lol"><!ENTITY a1 "&#38;a0;">', "&a1;"),
        (f'<!ENTITY a "{"x" * 100_000}">', "&a;" * 100_000),
        ('<!ENTITY a SYSTEM "file:///etc/passwd">', "&a;"),
        ('<!ENTITY % a SYSTEM "http://127.0.0.1:9/a.dtd"> %a;', "bird"),
        ("<!ENTITY % a '<!ENTITY b \"x\">'> %a;", "&b;"),
    ],
    ids=["laughs", "hidden", "quadratic", "file", "dtd", "parameter"],
)
def test_entities_that_stand_for_more_than_a_namespace_are_refused(entities: str, label: str, tmp_path: Path) -> None:
    pytest.importorskip("rdflib")
    file = tmp_path / "x.owl"
    file.write_text(RDF.format(entities=entities, label=label))
    with pytest.raises(TaxonomyError, match=r"x\.owl:\d+: An entity stands for a file, .*Turtle"):
        read_taxonomy(file)
