from __future__ import annotations

import gzip
import json

import networkx as nx
import pytest

from taxtune.taxonomy.build import read_graph, read_leaves
from tests.small_wordnet import write_wordnet
from tests.taxonomy.conftest import refused


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def edges(graph):
    """Pairs of child and parent."""
    return {(child, parent) for parent, child in graph.edges}


def names(graph):
    """The label and the aliases of each node that has names."""
    names = {}
    for node, data in graph.nodes(data=True):
        if data:
            names[node] = (data["label"], *data.get("aliases", ()))
    return names


def test_an_edge_list(tmp_path):
    text = 'Parent;Child;Label;Aliases;Leads\n;r;root;;\nr;a;"a ""quoted""; name";x|y;z\nr;b;b;;\n\na;b;bee;;\n'
    path = write(tmp_path / "edges.csv", text + 'r;"two\nlines";;;\na;a;;;\nr;b;;;\nb;c\n')
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    expected = {("a", "r"), ("b", "r"), ("b", "a"), ("two lines", "r"), ("c", "b")}
    labels = {"a": ('a "quoted"; name', "x", "y"), "b": ("b", "bee"), "r": ("root",)}
    for graph in (read_graph([path]), read_graph([packed])):
        assert edges(graph) == expected
        assert names(graph) == labels
        assert graph.nodes["a"]["leads"] == ("z",)
        assert graph.graph["duplicate edge"] == 1
        assert graph.graph["self loop"] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("child,parent\n,bird\n", r"edges\.csv:2: The row has no child"),
        (
            "child,parent,label\nduck,bird,duck, wild\n",
            r"edges\.csv:2: The row has 4 cells, the header 3.*double quotes",
        ),
        ("child,parent\na,b\nduck,bird,duck\n", r"edges\.csv:3: The row has 3 cells"),
        ('child,parent\nduck,"bird\n', r"edges\.csv:2: The row cannot be read as CSV"),
        ("child,parent\n", r"edges\.csv:1: The file has a header but no rows"),
        (
            "what,is,this\n1,2,3\n",
            r"edges\.csv:1: This is not the header of a known taxonomy format",
        ),
    ],
)
def test_malformed_graphs_are_errors(tmp_path, text, message):
    with refused(message):
        read_graph([write(tmp_path / "edges.csv", text)])


def test_names_of_several_files_and_forms(tmp_path):
    path = write(tmp_path / "edges.csv", "child,parent,label\nQ2,Q1,first\n")
    table = write(tmp_path / "names.csv", "id,label,aliases\nQ2,'t Goy,a; b\nQ3,elsewhere,\n")
    nodes = write(tmp_path / "other.csv", "child,parent,label\nQ1,Q9,top\nQ3,Q1,not taken\n")
    graph = read_graph([path], names=[table, nodes])
    assert names(graph) == {"Q1": ("top",), "Q2": ("first", "'t Goy", "a", "b")}
    assert edges(graph) == {("Q2", "Q1")}
    with refused("not the header of a known taxonomy format"):
        read_graph([path], names=[write(tmp_path / "bad.csv", "a,b\n1,2\n")])


def test_a_slash_in_a_name_is_no_level(tmp_path):
    graph = read_graph([write(tmp_path / "paths.csv", "path\na/b/c\na/b\\/c\n")])
    assert edges(graph) == {("a/b", "a"), ("a/b/c", "a/b"), (r"a/b\/c", "a")}


DOG = ["dog", "domestic_dog", "Canis_familiaris"]
SENSES = [
    ("entity", ["entity"], "what is", []),
    ("canine", ["canine", "canid"], "dogs and the like", ["entity"]),
    ("domestic", ["domestic_animal"], "kept by people", ["entity"]),
    ("dog", DOG, "barks | and bites", ["canine", "domestic"]),
]


def test_wordnets_own_files(tmp_path):
    path = write_wordnet(tmp_path, SENSES) / "data.noun"
    graph = read_graph([path])
    labelled = nx.relabel_nodes(graph, dict(graph.nodes(data="label")))
    assert set(labelled.pred["dog"]) == {"canine", "domestic animal"}
    assert set(labelled.succ["entity"]) == {"canine", "domestic animal"}
    assert labelled.number_of_edges() == 4
    assert labelled.nodes["dog"]["aliases"] == ("domestic dog", "Canis familiaris")
    dog = next(node for node, label in graph.nodes(data="label") if label == "dog")
    # An id is the part of speech and the offset at which the line begins, as in ImageNet.
    assert dog[0] == "n"
    offset = dog[1:]
    assert path.read_bytes()[int(offset) :].startswith(offset.encode())
    pairs = "".join(f"{parent},{child}\n" for child, parent in sorted(edges(graph)))
    named = read_graph([write(tmp_path / "is_a.csv", f"parent,child\n{pairs}")], names=[path])
    assert names(named) == names(graph)
    assert edges(named) == edges(graph)


@pytest.mark.parametrize(
    "line", ["00000014 15 n 01 city", "00000014 15 x 01 city 0 000 | a", "city 0 000"]
)
def test_a_line_that_is_no_synset(tmp_path, line):
    text = f"  1 a licence\n00000052 15 n 01 town 0 000 | a place\n{line}\n"
    with refused(r"data\.noun:3: The line is not a synset"):
        read_graph([write(tmp_path / "data.noun", text)])


def test_leaves(tmp_path):
    text = write(tmp_path / "a.txt", "# ids\nQ3\tduck\n\nQ2,bird\nQ3\n")
    assert read_leaves(text) == ("Q3", "Q2")
    index = {"0": ["n01440764", "tench"], "1": ["n01443537", "goldfish"]}
    file = write(tmp_path / "i.json", json.dumps(index, indent=1))
    assert read_leaves(file) == ("n01440764", "n01443537")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# nothing\n", "The file lists no ids"),
        (
            '{"0": ["n01440764", "tench"], "1": 2}',
            r'index of classes.*\{"0": \["n01440764", "tench"\]',
        ),
        ('{"0": ', "is not an index of classes"),
    ],
)
def test_files_without_leaves(text, message, tmp_path):
    file = write(tmp_path / "bad", text)
    with refused(message):
        read_leaves(file)
