"""Nested JSON, RDF and OBO; and what is said of files that are none."""

from __future__ import annotations

import bz2
import gzip
import json

import pytest

from taxtune.progress import showing
from taxtune.taxonomy import Taxonomy, check_taxonomy, read_taxonomy
from taxtune.taxonomy.build import build_tree, read_graph, write_tree
from tests.displays import Recorder
from tests.taxonomy.conftest import paths, refused


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(content, str):
        content = json.dumps(content, ensure_ascii=False)
    path.write_text(content, encoding="utf-8")
    return path


def read(path, **settings):
    with showing(Recorder()) as display:
        return read_taxonomy(path, names=False, **settings), display.notes


ANIMALS = ["animal", "animal/bird", "animal/bird/duck", "animal/bird/gull", "animal/fish"]

# -- nested JSON -----------------------------------------------------------------------------------


SPELLINGS = """\
{"name": "animal", "children": [{"name": "bird", "children": [{"name": "duck"}, "gull"]}, {"name": "fish"}]}
{"Label": "animal", "Nodes": [{"Label": "bird", "Nodes": [{"Label": "duck"}, {"Label": "gull"}]}, {"Label": "fish"}]}
{"title": "animal", "sub_categories": [{"title": "bird", "sub_categories": ["duck", "gull"]}, {"title": "fish"}]}
[{"text": "animal", "items": [{"text": "bird", "items": [{"text": "duck"}, {"text": "gull"}]}, {"text": "fish"}]}]
{"animal": {"bird": ["duck", "gull"], "fish": []}}
{"animal": {"bird": {"duck": {}, "gull": null}, "fish": null}}
{"animal": [{"bird": ["duck", "gull"]}, "fish"]}
{"id": "animal", "children": [{"id": "bird", "children": [{"id": "duck", "children": []}, {"id": "gull", "children": null}]}, {"id": "fish", "children": []}]}
{"name": "animal", "children": {"bird": {"duck": {}, "gull": {}}, "fish": {}}}
"""  # noqa: E501


@pytest.mark.parametrize("text", SPELLINGS.splitlines())
def test_nested_json_in_its_usual_spellings(text, tmp_path):
    """An object with an id alone, without children and a name, is not a node."""
    file = write(tmp_path / "tree.json", text)
    tree, notes = read(file)
    assert paths(tree) == ANIMALS
    assert not notes
    assert check_taxonomy(file).format == "nested-json"


def test_nested_json_has_ids_ranks_aliases_and_leads(tmp_path):
    genera = [
        {"name": "Anas", "id": "q1", "synonyms": "duck", "leads": ["teal"]},
        {"name": "Larus", "id": "twice"},
        {"name": "Rissa", "id": "twice"},
    ]
    data = {"name": "Aves", "id": 7, "Rank": "class", "children": genera}
    data["alt_labels"] = ["bird", "birds"]
    file = write(tmp_path / "tree.json", data)
    tree, _ = read(file)
    assert tree.ids == ("7", "q1", None, None)
    assert tree.ranks[0] == "class"
    assert tree.aliases[0] == ("bird", "birds")
    assert tree.aliases[1] == ("duck",)
    assert tree.leads[1] == ("teal",)
    shared = [d for d in check_taxonomy(file).defects if d.kind == "shared id"]
    assert [(d.value, d.breaks) for d in shared] == [("twice", False)]
    nested = {"n1": {"name": "bird", "children": {"n2": {"name": "duck"}}}}
    keyed, _ = read(write(tmp_path / "keyed.json", nested))
    assert keyed.labels == ("bird", "duck")
    assert keyed.ids == ("n1", "n2")


def test_an_empty_key_is_no_field(tmp_path):
    data = {"name": "bird", "": "x", "children": ["duck"]}
    tree, _ = read(write(tmp_path / "tree.json", data))
    assert tree.ids == (None, None)
    assert tree.ranks == (None, None)
    assert tree.names(0) == ("bird",)


def test_several_tops_stand_under_an_added_root(tmp_path):
    file = write(tmp_path / "tree.json", {"food": ["soup"], "drink": ["tea"]})
    tree, notes = read(file)
    assert paths(tree)[0] == "everything"
    assert paths(tree)[1:3] == ["everything/food", "everything/food/soup"]
    assert paths(tree)[3:] == ["everything/drink", "everything/drink/tea"]
    assert "under an added root 'everything': 2 nodes" in notes[0]
    assert read(file, root_label="menu")[0].labels[0] == "menu"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"name": "a", "children": [{"name": "b"}, 3]}',
            r"neither a name nor a node.*\$\.children\[1\]: 3",
        ),
        ('{"name": "a", "children": "b"}', r"neither a name nor a node.*\$\.children: 'b'"),
        ('{"a": {"b": {"c": 4}}}', r"neither a name nor a node.*\$\.a\.b\.c: 4"),
        (
            '{"name": "a", "children": [{"name": "b", "aliases": [1]}]}',
            r"not a list of texts.*\$\.children\[0\]\.aliases",
        ),
        ('{"name": "a", "children": [{"name": " "}]}', r"has no name.*\$\.children\[0\]"),
        (
            '{"name": "a", "children": [{"name": "b"}, {"name": "b"}]}',
            r"\$\.children\[0\] already gives a node with this label under the same parent, 'a'",
        ),
        (
            '{"name": "a", "children": [{"name": "\\ud800"}]}',
            r"half a surrogate pair.*children\[0\]",
        ),
        ('{"name": "a",\n "children": [', r":2: The file is not valid JSON"),
        ("[" * 100_000, "not valid JSON: .*recursion"),
        (f'{{"a": [{"9" * 5_000}]}}', r"not valid JSON: Exceeds the limit"),
        ('{"id": 1}\n{"id": 2}\n', r":2: .*not JSON Lines"),
    ],
)
def test_defects_of_nested_json_are_named_by_their_path(text, message, tmp_path):
    with refused(message):
        read(write(tmp_path / "tree.json", text))


def test_deep_json_takes_no_recursion(tmp_path):
    data = {"name": "n0"}
    for i in range(1, 400):
        data = {"name": f"n{i}", "children": [data]}
    assert read(write(tmp_path / "deep.json", data))[0].height == 399


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (["cat", "dog"], "'cat'"),
        ({"0": ["n01440764", "tench"], "1": ["n01443537", "goldfish"]}, "keys '0', '1'"),
        ([{"file": "a.jpg", "label": 3}], "keys 'file', 'label'"),
    ],
)
def test_other_json_is_told_what_layouts_there_are_and_what_it_is(data, found, tmp_path):
    file = write(tmp_path / "x.json", data)
    message = rf"x\.json: The file is JSON, but not.*{found}.*categories.*from-labels.*pandas"
    with refused(message):
        read(file)
    with refused("The file is JSON"):
        read(file, format="edges")


# -- RDF -------------------------------------------------------------------------------------------

SKOS = """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix : <http://example.org/> .
:scheme a skos:ConceptScheme ; skos:prefLabel "Animals"@en .
:bird a skos:Concept ; skos:prefLabel "bird"@en, "Vogel"@de ; skos:altLabel "avian"@en ; skos:topConceptOf :scheme .
:duck a skos:Concept ; skos:prefLabel "duck"@en-GB ; skos:broader :bird ; skos:hiddenLabel "teal" .
:fish a skos:Concept ; skos:prefLabel "fish" ; skos:narrower :eel .
:eel a skos:Concept ; skos:prefLabel "Aal"@de .
"""
OWL = """<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:owl="http://www.w3.org/2002/07/owl#"
  xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#" xmlns:oio="http://www.geneontology.org/formats/oboInOwl#">
  <owl:Class rdf:about="http://x.org/A"><rdfs:label>finding</rdfs:label>
    <rdfs:subClassOf rdf:resource="http://www.w3.org/2002/07/owl#Thing"/></owl:Class>
  <owl:Class rdf:about="http://x.org/B"><rdfs:label>nodule</rdfs:label>
    <rdfs:subClassOf rdf:resource="http://x.org/A"/>
    <rdfs:subClassOf><owl:Restriction><owl:onProperty rdf:resource="http://x.org/p"/>
      <owl:someValuesFrom rdf:resource="http://x.org/A"/></owl:Restriction></rdfs:subClassOf>
    <oio:hasExactSynonym>lump</oio:hasExactSynonym><oio:hasRelatedSynonym>spot</oio:hasRelatedSynonym></owl:Class>
  <owl:Class rdf:about="http://x.org/C"><rdfs:label>old</rdfs:label><owl:deprecated>true</owl:deprecated></owl:Class>
  <owl:Class rdf:about="http://x.org/D"><rdfs:subClassOf rdf:resource="http://x.org/B"/></owl:Class>
</rdf:RDF>
"""


def test_skos_concepts(tmp_path):
    pytest.importorskip("rdflib")
    file = write(tmp_path / "animals.ttl", SKOS)
    tree, notes = read(file)
    made = Taxonomy.from_dict({"everything": {"bird": ["duck"], "fish": ["Aal"]}})
    assert paths(tree) == paths(made)
    duck = tree.resolve("duck")
    assert tree.ids[duck] == "http://example.org/duck"
    assert tree.leads[duck] == ("teal",)
    assert tree.aliases[1] == ("avian",)
    assert any("under an added root 'everything': 2 nodes" in note for note in notes)
    assert check_taxonomy(file).format == "rdf"
    named = write(tmp_path / "no-suffix", SKOS)
    assert paths(read(named)[0]) == paths(tree)


def test_owl_classes(tmp_path):
    pytest.importorskip("rdflib")
    tree, notes = read(write(tmp_path / "findings.owl", OWL))
    assert paths(tree) == ["finding", "finding/nodule", "finding/nodule/D"]
    assert tree.aliases[1] == ("lump",)
    assert tree.leads[1] == ("spot",)
    assert [note.split(": ", 1)[1] for note in notes] == [
        "Left out: 1 deprecated classes or concepts.",
        "Without a label, so labelled by the ends of their IRIs: 1.",
    ]


def test_a_concept_of_several_parents_is_a_graph_and_build_makes_a_tree_of_it(
    tmp_path,
):
    pytest.importorskip("rdflib")
    several = SKOS + ":duck skos:broader :fish . :fish skos:broader :bird .\n"
    file = write(tmp_path / "animals.ttl", several)
    with refused(r"under 'http://example.org/fish' and under .*bird.*`taxtune taxonomy build`"):
        read(file)
    packed = tmp_path / "animals.ttl.gz"
    packed.write_bytes(gzip.compress(several.encode()))
    for path in (file, packed):
        tree, _ = read(write_tree(tmp_path / "tree.csv", build_tree(read_graph([path]))))
        assert paths(tree) == ["bird", "bird/fish", "bird/fish/duck", "bird/fish/Aal"]
        assert tree.leads[tree.resolve("duck")] == ("teal",)
        assert tree.aliases[0] == ("avian",)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.ttl", "@prefix skos: <http://x#> .\n:a :b\n", r"not valid turtle"),
        ("x.rdf", "<rdf:RDF><unclosed></rdf:RDF>", r"x\.rdf:1: The file is not valid xml"),
        ("x.ttl", "@prefix e: <http://e/> .\ne:a e:b e:c .\n", "neither SKOS concepts nor OWL"),
        ("x.jsonld", "{", "not valid json-ld"),
    ],
)
def test_bad_rdf_is_refused(name, text, message, tmp_path):
    pytest.importorskip("rdflib")
    with refused(message):
        read(write(tmp_path / name, text))


# -- OBO -------------------------------------------------------------------------------------------

OBO = r"""format-version: 1.4
! a comment
[Term]
id: X:1
name: anatomical entity

[Term]
id: X:2
name: limb {source="a book"}
is_a: X:1 ! anatomical entity
synonym: "appendage \"long\"" EXACT [X:ref]
synonym: "arm" NARROW []
synonym: "leg" []
relationship: part_of X:1

[Term]
id: X:3
name: old
is_obsolete: true

[Typedef]
id: part_of
name: part of

[Term]
id: X:4
is_a: X:2
"""


def test_obo_terms(tmp_path, caplog):
    pytest.importorskip("obonet")
    file = write(tmp_path / "x.obo", OBO)
    tree, notes = read(file)
    assert tree.path(2) == ("anatomical entity", "limb", "X:4")
    assert len(tree) == 3
    assert tree.ids[1] == "X:2"
    assert tree.aliases[1] == ('appendage "long"',)
    assert tree.leads[1] == ("arm", "leg")
    assert len(notes) == 2
    assert check_taxonomy(file).format == "obo"
    assert not caplog.records


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            OBO + "is_a: X:1\n",
            r"x\.obo: The node is under 'X:1' and under 'X:2'.*'X:4'.*taxonomy build",
        ),
        (OBO + "\n[Term]\nid: X:5\nis_a: X:9\n", r"x\.obo: No row defines the parent 'X:9'.*'X:5'"),
        (OBO + "nonsense\n", r"x\.obo: The file is not valid OBO.*nonsense.*`tag: value`"),
        ("format-version: 1.2\n[Term]\nname: a\n", r"x\.obo: The file is not valid OBO: 'id'"),
        ("format-version: 1.2\n", "contains no term"),
    ],
)
def test_bad_obo_is_refused(text, message, tmp_path):
    with refused(message):
        read(write(tmp_path / "x.obo", text))


def test_build_makes_a_tree_of_obo_too(tmp_path):
    graph = read_graph([write(tmp_path / "x.obo", OBO + "is_a: X:1\n")])
    tree, _ = read(write_tree(tmp_path / "tree.csv", build_tree(graph)))
    assert paths(tree)[-1] == "anatomical entity/limb/X:4"
    assert tree.leads[1] == ("arm", "leg")


# -- files that are none, and packed ones ----------------------------------------------------------


def test_packed_files_are_read(tmp_path):
    text = b"path\nanimal/bird/duck\nanimal/bird/gull\nanimal/fish\n"
    nested = json.dumps({"animal": {"bird": ["duck", "gull"], "fish": []}}).encode()
    files = {
        "tree.csv.gz": gzip.compress(text),
        "tree.csv": gzip.compress(text),
        "t.bz2": bz2.compress(text),
        "tree.json.gz": gzip.compress(nested),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        assert paths(read(tmp_path / name)[0]) == ANIMALS


@pytest.mark.parametrize(
    "data", [b"\x1f\x8b\x08\x00\xff", gzip.compress(b"path\na/b\n", mtime=0)[:-9]]
)
def test_damaged_packed_files_say_so(data, tmp_path):
    (tmp_path / "tree.csv.gz").write_bytes(data)
    with refused(r"tree\.csv\.gz: .*The compressed data are damaged or incomplete"):
        read(tmp_path / "tree.csv.gz")
