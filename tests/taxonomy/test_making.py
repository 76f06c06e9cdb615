from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.errors import TaxtuneError
from taxtune.taxonomy import RawNode, RawTaxonomy, Taxonomy, read_taxonomy
from tests.taxonomy.conftest import refused

BIRDS = Taxonomy(["bird", "finch", "duck", "mallard"], [-1, 0, 0, 2])
LABELS = {"Q1": "bird", "Q2": "finch", "Q3": "duck", "Q4": "mallard"}

PATHS = [
    ["bird/finch", "bird/duck/mallard"],
    [("bird", "finch"), ["bird", "duck"], "bird/duck/mallard", "bird/finch"],
]
EDGES = [
    [("finch", "bird"), ("duck", "bird"), ("mallard", "duck")],
    [("bird", None), ["finch", "bird"], ("duck", "bird"), ("mallard", "duck")],
]
DUCKS = {"name": "duck", "children": ["mallard"]}
NESTED = [
    {"bird": {"finch": {}, "duck": {"mallard": None}}},
    {"bird": ["finch", {"duck": ["mallard"]}]},
    {"name": "bird", "children": ["finch", DUCKS]},
]


@pytest.mark.parametrize(
    "tree",
    [
        *map(Taxonomy.from_paths, PATHS),
        Taxonomy.from_paths(["finch", "duck/mallard"], root="bird"),
        *map(Taxonomy.from_edges, EDGES),
        Taxonomy.from_edges([("Q2", "Q1"), ("Q3", "Q1"), ("Q4", "Q3")], labels=LABELS),
        *map(Taxonomy.from_dict, NESTED),
        Taxonomy.from_dict({"finch": {}, "duck": ["mallard"]}, root="bird"),
    ],
)
def test_every_way_of_saying_a_tree_makes_the_same(tree):
    assert tree.labels == BIRDS.labels
    assert tree.parents.tolist() == BIRDS.parents.tolist()
    assert tree.aliases == BIRDS.aliases


NAMES = st.text("ab/\\ ", min_size=1, max_size=3).filter(str.strip)


@given(st.lists(st.lists(NAMES, min_size=1, max_size=4), min_size=1))
def test_names_in_paths_may_hold_slashes_and_backslashes(paths):
    tree = Taxonomy.from_paths(paths, root="root")
    tidy = {("root",)}
    for path in paths:
        above = ("root",)
        for name in path:
            above = (*above, " ".join(name.split()))
            tidy.add(above)
    assert {tree.path(node) for node in range(len(tree))} == tidy


def test_edges_give_ids_and_aliases_are_given_for_them():
    edges = [("Q2", "Q1"), ("Q3", "Q1")]
    aliases = {"Q2": ["ducks"], "Q1": ["birds"]}
    tree = Taxonomy.from_edges(edges, labels={"Q2": "duck"}, aliases=aliases)
    assert tree.find("ducks") == [1]
    assert tree.labels == ("Q1", "duck", "Q3")
    assert tree.ids == ("Q1", "Q2", "Q3")


def test_aliases_are_given_by_path_or_in_a_field():
    tree = Taxonomy.from_paths(["bird/duck"], aliases={"bird/duck": ["ducks"]})
    assert tree.resolve("ducks") == 1
    tree = Taxonomy.from_dict({"name": "bird", "aliases": ["birds"], "children": ["duck"]})
    assert tree.aliases[0] == ("birds",)


def test_a_root_that_is_added_is_told(recorder):
    assert Taxonomy.from_dict([{"cat": {}}, "dog"]).labels == ("everything", "cat", "dog")
    assert "now under an added root 'everything': 2 nodes" in recorder.notes[0]


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ([], "from_paths: There are no paths"),
        ("bird/duck", "A list is needed, not a str"),
        (["a/b", ("", " ")], r"from_paths:2: The path has no name\. \(got \('', ' '\)\)"),
        (["a/b", ("a", 3)], "from_paths:2: A path must be text with slashes or a sequence of name"),
    ],
)
def test_what_are_no_paths_is_refused(paths, message):
    with refused(message):
        Taxonomy.from_paths(paths)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([], "from_edges: There are no edges"),
        ({"a": "b"}, "A list is needed, not a dict"),
        ([("a", "b", "c")], "from_edges:1: An edge must be a pair of texts"),
        ([("a", "b"), "cd"], "from_edges:2: An edge must be a pair of texts"),
        ([("a", 7)], "from_edges:1: An edge must be a pair of texts"),
        ([("", "b")], "from_edges:1: The row has no child"),
        (
            [("a", "r"), ("b", "r"), ("a", "b")],
            "from_edges:3: The node is under 'b' here and under",
        ),
        ([("a", "b"), ("b", "a")], "2 nodes are their own ancestors .*a → b → a; rows 1, 2"),
    ],
)
def test_what_are_no_edges_of_a_tree_is_refused(edges, message):
    with refused(message):
        Taxonomy.from_edges(edges)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "Nested dictionaries or lists are needed"),
        ("bird", "Nested dictionaries or lists are needed"),
        (
            {"bird": {"duck": 3}},
            r"from_dict: This is neither a name nor a node .*\$\.bird\.duck: 3",
        ),
        ({"bird": ["duck", "duck"]}, "gives a node with this label under the same parent, 'bird'"),
    ],
)
def test_what_is_no_nested_tree_is_refused(data, message):
    with refused(message):
        Taxonomy.from_dict(data)


def test_names_of_nodes_that_are_not_there_are_refused():
    with refused(r"A label is given for a node that is not in any edge\. \(got 'x'\)"):
        Taxonomy.from_edges([("a", "b")], labels={"x": "y"})
    with refused("'finsh' is not on the taxonomy.*'finch'"):
        Taxonomy.from_paths(["bird/finch"], aliases={"finsh": ["f"]})
    with refused(r"Aliases must be a list of names.*Write \['birds'\]"):
        Taxonomy.from_paths(["bird/finch"], aliases={"bird": "birds"})


# -- readers of other packages ---------------------------------------------------------------------


def read_pairs(path, root_label=None):
    nodes = [RawNode("root", None, root_label or "root")]
    for row, line in enumerate(path.read_text().split(), start=1):
        nodes.append(RawNode(line, "root", line, row=row))
    return RawTaxonomy(str(path), "mine", nodes)


class _Point:
    name = "mine"
    value = "tests:read_pairs"
    dist = None

    def load(self):
        return read_pairs


def entry_points(group, name="mine"):
    return [_Point()] if (group, name) == ("taxtune.readers", "mine") else []


def test_a_reader_may_be_a_function_or_an_entry_point(tmp_path, monkeypatch):
    path = tmp_path / "a.mine"
    path.write_text("cat\ndog\n")
    assert read_taxonomy(path, format=read_pairs).labels == ("root", "cat", "dog")
    with refused(r"Unknown taxonomy format.*'mine'.*Use one of auto, .*obo\.$"):
        read_taxonomy(path, format="mine")
    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    assert read_taxonomy(path, format="mine", root_label="pets").labels == ("pets", "cat", "dog")
    with refused(r"Use one of auto, .*obo, mine\.$"):
        read_taxonomy(path, format="yours")
    path.write_text("cat\ncat\n")
    with pytest.raises(TaxtuneError, match=r"a\.mine:2: "):
        read_taxonomy(path, format="mine")
    with refused("The reader returned a Taxonomy.*Return a RawTaxonomy"):
        read_taxonomy(path, format=lambda path: BIRDS)
