from __future__ import annotations

import json
from pathlib import Path

import pytest

from taxtune.errors import DataError, TaxonomyError
from taxtune.taxonomy import read_taxonomy
from taxtune.taxonomy.building import BuildOptions, build_tree
from taxtune.taxonomy.sources import link_oven, read_graph, read_leaves, read_oven

from .test_wikidata import edges, names


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_an_edge_list_with_a_header(tmp_path: Path) -> None:
    path = write(
        tmp_path / "edges.csv",
        'Parent;Child;Label;Aliases\n;r;root;\nr;a;"a ""quoted""; name";x|y\nr;b;b;\na;b;;\n\nr;"two\nlines";;\n',
    )
    graph = read_graph([path])
    assert edges(graph) == {("a", "r"), ("b", "r"), ("b", "a"), ("two lines", "r")}
    assert names(graph) == {
        "a": ('a "quoted"; name', "x", "y"),
        "b": ("b",),
        "r": ("root",),
        "two lines": ("two lines",),
    }
    assert graph.edges.row.tolist() == [3, 5, 4, 7]


def test_an_edge_list_without_a_header_needs_a_direction(tmp_path: Path) -> None:
    path = write(tmp_path / "edges.tsv", "bird\tduck\nbird\tgull\textra\n")
    with pytest.raises(
        TaxonomyError,
        match=r"edges\.tsv:1: The first line does not have the columns child and "
        r"parent.*direction",
    ):
        read_graph([path])
    assert edges(read_graph([path], direction="parent-child")) == {("duck", "bird"), ("gull", "bird")}
    assert edges(read_graph([path], direction="child-parent")) == {("bird", "duck"), ("bird", "gull")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("child,parent\n,bird\n", r"edges\.csv:2: The row has no child"),
        ("child,parent,label\nduck,bird,duck, wild\n", r"edges\.csv:2: The row has 4 cells, the header 3"),
        ('child,parent\nduck,"bird\n', r"edges\.csv:2: The row cannot be read as CSV"),
        ("child,parent\n", "There is no edge"),
    ],
)
def test_malformed_edge_lists_are_errors(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TaxonomyError, match=message):
        read_graph([write(tmp_path / "edges.csv", text)])
    with pytest.raises(TaxonomyError, match=r"edges\.csv:1: The row has no parent"):
        read_graph([write(tmp_path / "edges.csv", "duck,\n")], direction="child-parent")


def test_a_table_of_names(tmp_path: Path) -> None:
    path = write(tmp_path / "edges.csv", "child,parent\nQ2,Q1\n")
    table = write(tmp_path / "names.csv", "id,label,aliases\nQ2,'t Goy,a; b\nQ3,elsewhere,\n")
    graph = read_graph([path], names=[table])
    assert names(graph)["Q2"] == ("'t Goy", "a", "b")
    tabs = write(tmp_path / "names.tsv", "id\tlabel\nQ1\t@home\n")
    assert names(read_graph([path], names=[tabs]))["Q1"] == ("@home",)
    with pytest.raises(TaxonomyError, match="A list of names needs the columns id, and label"):
        read_graph([path], names=[write(tmp_path / "other.csv", "a,b\n1,2\n")])


SYNSETS = "n00001740 n00000001\nn00001740 n00000002\nn00000001 n00000003\nn00000002 n00000003\n"


def test_synsets_with_names_in_every_form(tmp_path: Path) -> None:
    path = write(tmp_path / "wordnet.txt", SYNSETS)
    words = write(tmp_path / "words.txt", "n00001740\tentity\nn00000003\ttench, Tinca tinca\n")
    index = write(tmp_path / "index.json", json.dumps({"0": ["n00000003", "tench_fish"], "1": ["n00000001", "a_b"]}))
    tree = write(
        tmp_path / "tree.json", json.dumps({"n00000002": {"name": "c", "labels": ["d"], "lemmas": ["c", "e"]}})
    )
    plain = write(tmp_path / "plain.json", json.dumps({"n00000002": "second"}))
    graph = read_graph([path], names=[words, index, tree, plain])
    assert edges(graph) == {(f"n0000000{c}", p) for c, p in ((1, "n00001740"), (2, "n00001740"), (3, "n00000001"))} | {
        ("n00000003", "n00000002")
    }
    assert names(graph) == {
        "n00001740": ("entity",),
        "n00000001": ("a b",),
        "n00000002": ("c", "d", "c", "e", "second"),
        "n00000003": ("tench", "Tinca tinca", "tench fish"),
    }
    assert edges(read_graph([path], direction="child-parent")) == {(p, c) for c, p in edges(graph)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tench\n", "The first|names"),
        ("n00000001\ttench\nno synset\n", r"names\.txt:2: The line is not a synset id and its names"),
        ('{"a": "b",\n\n"c": 3}', r"names\.txt: Entry 2 is neither a name.*\{'c': 3\}"),
        ('{"a": ', r"names\.txt:1: The file is not valid JSON"),
        ("{}", "The JSON is not an object of names"),
    ],
)
def test_malformed_names_are_errors(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path / "wordnet.txt", SYNSETS)
    with pytest.raises(TaxonomyError, match=message):
        read_graph([path], names=[write(tmp_path / "names.txt", text)])


def test_a_line_of_three_synsets_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "wordnet.txt", SYNSETS + "n00000001 n00000002 n00000003\n")
    with pytest.raises(TaxonomyError, match=r"wordnet\.txt:5: The line has 3 words instead of two ids"):
        read_graph([path])
    with pytest.raises(TaxonomyError, match="Unknown graph format"):
        read_graph([path], format="gml")


def test_several_files_make_one_graph(tmp_path: Path) -> None:
    first = write(tmp_path / "a.csv", "child,parent\nn00000009,n00000003\n")
    graph = read_graph([first, write(tmp_path / "wordnet.txt", SYNSETS)])
    assert len(graph) == 5
    assert graph.files == (str(first), str(tmp_path / "wordnet.txt"))


OVEN = [
    {
        "data_id": "o1",
        "image_id": "i1",
        "question": "What?",
        "entity_id": "Q3",
        "entity_text": "duck",
        "data_split": "s",
    },
    {"data_id": "o2", "image_id": "i2", "question": "Who?", "entity_id": "Q2", "entity_text": "bird"},
    {"data_id": "o3", "image_id": "i3", "question": "Who?", "entity_id": "Q77", "entity_text": "castle"},
    {"data_id": "o4", "image_id": "i4", "question": "Who?", "entity_id": "Q77", "entity_text": "castle"},
    {"data_id": "o5", "image_id": "i5", "question": "Test?"},
]


def test_ovens_entities_are_linked_to_nodes_by_id(tmp_path: Path) -> None:
    tree = read_taxonomy(write(tmp_path / "t.csv", "child,parent,label\nQ1,,entity\nQ2,Q1,Q3\nQ3,Q2,duck\n"))
    linked = link_oven(write(tmp_path / "oven.jsonl", "\n".join(map(json.dumps, OVEN))), tree)
    assert linked.examples == 5
    # A node that is *called* Q3 is not the node whose id it is.
    assert [(example.id, tree.path(node)) for example, node in linked.targets] == [
        ("o1", ("entity", "Q3", "duck")),
        ("o2", ("entity", "Q3")),
    ]
    assert linked.off_tree == {"Q77": 2}
    assert linked.on_tree() == {"Q2": 1, "Q3": 1}
    assert linked.texts == {"Q2": "bird", "Q3": "duck", "Q77": "castle"}
    assert linked.without_entity == 1
    unnamed = read_taxonomy(write(tmp_path / "p.csv", "path\nlife/bird\n"))
    with pytest.raises(TaxonomyError, match="The nodes of this tree have no ids"):
        link_oven(tmp_path / "oven.jsonl", unnamed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json\n", r"oven\.jsonl:1: The line is not JSON"),
        ('{"data_id": "a"}\n{"image_id": "b"}\n', r"oven\.jsonl:2: The line is not an OVEN example: it has no data_id"),
        ('{"data_id": "a", "entity_id": "duck"}\n', r"oven\.jsonl:1: The entity_id is not a Wikidata id"),
    ],
)
def test_malformed_oven_files_are_errors(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(read_oven(write(tmp_path / "oven.jsonl", text)))


def test_wanted_leaves_are_ids_or_ovens_entities(tmp_path: Path) -> None:
    assert read_leaves(write(tmp_path / "a.txt", "# ids\nQ3\tduck\n\nQ2,bird\nQ3\n")) == ("Q3", "Q2")
    assert read_leaves(write(tmp_path / "o.jsonl", "\n".join(map(json.dumps, OVEN)))) == ("Q3", "Q2", "Q77")
    with pytest.raises(TaxonomyError, match="The file lists no ids"):
        read_leaves(write(tmp_path / "b.txt", "# nothing\n"))


def test_names_of_imagenets_classes(shared_data: Path) -> None:
    folder = shared_data / "imagenet"
    graph = read_graph(
        [folder / "wordnet.parent-child.mintree.txt"], names=[folder / "simple_imagenet_hierarchy_with_labels.json"]
    )
    tree = build_tree(graph, BuildOptions())
    assert len(tree.order) == len(graph)
    assert names(graph)["n01440764"] == ("tench", "tench", "Tinca tinca")
    assert graph.label(tree.root) == "entity"
