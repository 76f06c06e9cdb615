"""What an answer asserts: whole names in sentences, lists, corrections, and what is said beside them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from taxtune.mapping import Mapper, Stage, english
from taxtune.taxonomy import Taxonomy, read_taxonomy

DOMAINS = Path(__file__).parents[2] / "benchmarks" / "domains" / "trees"
TREES = ["devices", "everyday_things", "kitchen_tools", "sports", "tools"]


@cache
def mapper_of(tree):
    return Mapper(read_taxonomy(DOMAINS / f"{tree}.csv"))


@cache
def named(tree):
    """Returns the names below the root that are words alone and mean one node, with that node."""
    mapper = mapper_of(tree)
    found = []
    for node in range(1, len(mapper.taxonomy)):
        for name in mapper.taxonomy.names(node):
            placed = mapper.place_one(name)
            adds_nothing = name.lower().split()[-1] in english.TAIL  # "apartment complex"
            says_little = english.SAYS_NOTHING.issuperset(name.lower().split())  # "camera"
            is_plain = name.replace(" ", "").isalpha() and name[-2] != " "
            if (
                is_plain
                and not adds_nothing
                and not says_little
                and placed.stage is Stage.NAME
                and placed.node == node
            ):
                found.append((name, node))
    return found


@st.composite
def names(draw, number):
    tree = draw(st.sampled_from(TREES))
    drawn = [draw(st.sampled_from(named(tree))) for _ in range(number)]
    return mapper_of(tree), *drawn


@pytest.mark.parametrize(
    "said",
    [
        "It is a {}.",
        "{}, possibly.",
        "Possibly a {}.",
        "It looks like a {}.",
        "This is not a zorblax but a {}.",
        "A {}, which is red and shiny.",
        "I'd go with {}.",
    ],
)
@given(drawn=names(1))
def test_a_name_in_a_sentence_is_its_node(said, drawn):
    mapper, (name, node) = drawn
    assume(name not in english.BREAKS or " a {" in said)  # "display"
    assert mapper.place_one(said.format(name)).node == node


@pytest.mark.parametrize(
    "beside", ["It stands beside a {}.", "In the background there is a {}.", "It is not a {}."]
)
@given(drawn=names(2))
def test_a_sentence_about_something_else_changes_nothing(beside, drawn):
    mapper, (name, node), (other, place) = drawn
    assume(not mapper.taxonomy.is_ancestor(node, place))
    assert mapper.place_one(f"A {name}. {beside.format(other)}").node == node


@pytest.mark.parametrize(
    "said",
    [
        "It looks like a {}, but it is in fact a {}.",
        "My first thought was {}, but the details point to a {}.",
        "It might be mistaken for a {}, but this is a {}.",
        "Perhaps a {}? Actually no, a {}.",
        "This is not a {}; I'd go with {}.",
    ],
)
@given(drawn=names(2))
def test_what_is_said_after_all_counts(said, drawn):
    mapper, (first, before), (last, node) = drawn
    assume(not mapper.taxonomy.is_ancestor(node, before))
    assume(" and " not in last)  # nobody says "a graters and zesters"
    assume(last not in english.BREAKS or not said.endswith("go with {}."))  # "display"
    assert mapper.place_one(said.format(first, last)).node == node


@pytest.mark.parametrize("listed", [str, reversed])
@given(drawn=names(1))
def test_of_nested_names_the_deepest_counts(listed, drawn):
    mapper, (name, node) = drawn
    above = mapper.taxonomy.path(node)[1:-1]
    kinds = [
        kind for kind in above if kind.isalpha() and mapper.place_one(kind).stage is Stage.NAME
    ]
    items = [name, *kinds] if listed is str else [*kinds, name]
    assert mapper.place_one(", ".join(items)).node == node


TREE = Taxonomy.from_paths(
    [
        "things/boat/sailing boat",
        "things/boat/canoe",
        "things/clouds/wall cloud",
        "things/measuring/measuring cup",
        "things/animal/zebra",
        "things/animal/horse",
    ]
)


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("A boat, possibly a canoe", "canoe"),
        ("A canoe, or possibly a sailing boat", "boat"),
        ("A canoe, though it could also be a sailing boat", "canoe"),
        ("This is a ketch, a two-masted sailing boat.", "sailing boat"),
        ("This is a galley. The cups are on the table.", "things"),
        ("That's a squeezer with two hinged cups", "things"),
        ("A squeezer. It is most likely a measuring cup.", "measuring cup"),
        ("a canoe with a zebra", "canoe"),
        ("a canoe, including a zebra and a horse", "canoe"),
        ("A zebra is not visible in this picture.", "things"),
    ],
)
def test_what_decides(answer, wanted):
    assert Mapper(TREE).place_one(answer).path[-1] == wanted
