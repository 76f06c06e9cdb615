from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.errors import TaxonomyError, TaxtuneError
from taxtune.taxonomy import RawNode, RawTaxonomy, Taxonomy, read_taxonomy
from taxtune.taxonomy.tree import Taxonomy as Tree
from tests.displays import Recorder

BIRDS = Taxonomy(["bird", "finch", "duck", "mallard"], [-1, 0, 0, 2])


def same(one: Tree, other: Tree) -> bool:
    return (one.labels, one.parents.tolist(), one.aliases) == (
        other.labels,
        other.parents.tolist(),
        other.aliases,
    )


@pytest.mark.parametrize(
    "tree",
    [
        Taxonomy.from_paths(["bird/finch", "bird/duck/mallard"]),
        Taxonomy.from_paths(
            [("bird", "finch"), ["bird", "duck"], "bird/duck/mallard", "bird/finch"]
        ),
        Taxonomy.from_paths(["finch", "duck/mallard"], root="bird"),
        Taxonomy.from_edges([("finch", "bird"), ("duck", "bird"), ("mallard", "duck")]),
        Taxonomy.from_edges(
            [("bird", None), ["finch", "bird"], ("duck", "bird"), ("mallard", "duck")]
        ),
        Taxonomy.from_edges(
            [("Q2", "Q1"), ("Q3", "Q1"), ("Q4", "Q3")],
            labels={"Q1": "bird", "Q2": "finch", "Q3": "duck", "Q4": "mallard"},
        ),
        Taxonomy.from_dict({"bird": {"finch": {}, "duck": {"mallard": None}}}),
        Taxonomy.from_dict({"bird": ["finch", {"duck": ["mallard"]}]}),
        Taxonomy.from_dict(
            {"name": "bird", "children": ["finch", {"name": "duck", "children": ["mallard"]}]}
        ),
        Taxonomy.from_dict({"finch": {}, "duck": ["mallard"]}, root="bird"),
    ],
)
def test_every_way_of_saying_a_tree_makes_the_same(tree: Taxonomy) -> None:
    assert same(tree, BIRDS)


@given(
    st.lists(
        st.lists(
            st.text("ab/\\ ", min_size=1, max_size=3).filter(str.strip), min_size=1, max_size=4
        ),
        min_size=1,
    )
)
def test_names_in_paths_may_hold_slashes_and_backslashes(paths: list[list[str]]) -> None:
    tree = Taxonomy.from_paths(paths, root="root")
    tidy = {
        ("root", *(" ".join(name.split()) for name in path[: i + 1]))
        for path in paths
        for i in range(len(path))
    }
    assert {tree.path(node) for node in range(1, len(tree))} == tidy


def test_aliases_and_ids() -> None:
    tree = Taxonomy.from_edges(
        [("Q2", "Q1"), ("Q3", "Q1")],
        labels={"Q2": "duck"},
        aliases={"Q2": ["ducks"], "Q1": ["birds"]},
    )
    assert (tree.find("ducks"), tree.labels, tree.ids) == (
        [1],
        ("Q1", "duck", "Q3"),
        ("Q1", "Q2", "Q3"),
    )
    assert (
        Taxonomy.from_paths(["bird/duck"], aliases={"bird/duck": ["ducks"]}).resolve("ducks") == 1
    )
    assert Taxonomy.from_dict({"name": "bird", "aliases": ["birds"], "children": ["duck"]}).aliases[
        0
    ] == ("birds",)


def test_a_root_that_is_added_is_told(recorder: Recorder) -> None:
    assert Taxonomy.from_dict([{"cat": {}}, "dog"]).labels == ("everything", "cat", "dog")
    assert "now under an added root 'everything': 2 nodes" in recorder.notes[0]


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        (Taxonomy.from_paths, [], "from_paths: There are no paths"),
        (Taxonomy.from_paths, "bird/duck", "A list is needed, not a str"),
        (
            Taxonomy.from_paths,
            ["a/b", ("", " ")],
            r"from_paths:2: The path has no name\. \(got \('', ' '\)\)",
        ),
        (
            Taxonomy.from_paths,
            ["a/b", ("a", 3)],
            r"from_paths:2: A path must be text with slashes or a sequence of names",
        ),
        (Taxonomy.from_edges, [], "from_edges: There are no edges"),
        (Taxonomy.from_edges, {"a": "b"}, "A list is needed, not a dict"),
        (Taxonomy.from_edges, [("a", "b", "c")], "from_edges:1: An edge must be a pair of texts"),
        (Taxonomy.from_edges, [("a", "b"), "cd"], "from_edges:2: An edge must be a pair of texts"),
        (Taxonomy.from_edges, [("a", 7)], "from_edges:1: An edge must be a pair of texts"),
        (Taxonomy.from_edges, [("", "b")], "from_edges:1: The row has no child"),
        (
            Taxonomy.from_edges,
            [("a", "r"), ("b", "r"), ("a", "b")],
            "from_edges:3: The node is under 'b' here and under",
        ),
        (
            Taxonomy.from_edges,
            [("a", "b"), ("b", "a")],
            r"2 nodes are their own ancestors .*a → b → a; rows 1, 2",
        ),
        (Taxonomy.from_dict, {}, "Nested dictionaries or lists are needed"),
        (Taxonomy.from_dict, "bird", "Nested dictionaries or lists are needed"),
        (
            Taxonomy.from_dict,
            {"bird": {"duck": 3}},
            r"from_dict: This is neither a name nor a node .*\$\.bird\.duck: 3",
        ),
        (
            Taxonomy.from_dict,
            {"bird": ["duck", "duck"]},
            "already gives a node with this label under the same parent, 'bird'",
        ),
    ],
)
def test_what_is_no_tree_is_refused_with_its_place(make: Any, given: Any, message: str) -> None:
    with pytest.raises(TaxonomyError, match=message):
        make(given)


def test_names_of_nodes_that_are_not_there_are_refused() -> None:
    with pytest.raises(
        TaxonomyError, match=r"A label is given for a node that is not in any edge\. \(got 'x'\)"
    ):
        Taxonomy.from_edges([("a", "b")], labels={"x": "y"})
    with pytest.raises(TaxonomyError, match=r"'finsh' is not on the taxonomy.*'finch'"):
        Taxonomy.from_paths(["bird/finch"], aliases={"finsh": ["f"]})
    with pytest.raises(TaxonomyError, match=r"Aliases must be a list of names.*Write \['birds'\]"):
        Taxonomy.from_paths(["bird/finch"], aliases={"bird": "birds"})


# -- readers of other packages -----------------------------------------------------------------------------------------


def read_pairs(path: Path, root_label: str | None = None) -> RawTaxonomy:
    nodes = [RawNode("root", None, root_label or "root")]
    nodes += [
        RawNode(line, "root", line, row=row)
        for row, line in enumerate(path.read_text().split(), start=1)
    ]
    return RawTaxonomy(str(path), "mine", nodes)


class _Point:
    name, value, dist = "mine", "tests:read_pairs", None

    def load(self) -> Any:
        return read_pairs


def test_a_reader_may_be_a_function_or_an_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.mine"
    path.write_text("cat\ndog\n")
    assert read_taxonomy(path, format=read_pairs).labels == ("root", "cat", "dog")
    with pytest.raises(
        TaxonomyError, match=r"Unknown taxonomy format.*'mine'.*Use one of auto, .*obo\.$"
    ):
        read_taxonomy(path, format="mine")
    monkeypatch.setattr(
        "importlib.metadata.entry_points",
        lambda **asked: (
            [_Point()]
            if asked["group"] == "taxtune.readers" and asked.get("name", "mine") == "mine"
            else []
        ),
    )
    assert read_taxonomy(path, format="mine", root_label="pets").labels == ("pets", "cat", "dog")
    with pytest.raises(TaxonomyError, match=r"Use one of auto, .*obo, mine\.$"):
        read_taxonomy(path, format="yours")
    path.write_text("cat\ncat\n")
    with pytest.raises(TaxtuneError, match=r"a\.mine:2: "):
        read_taxonomy(path, format="mine")
    with pytest.raises(
        TaxonomyError, match=r"The reader returned a Taxonomy.*Return a RawTaxonomy"
    ):
        read_taxonomy(path, format=lambda path: BIRDS)  # type: ignore[arg-type,return-value]
