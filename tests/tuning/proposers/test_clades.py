from __future__ import annotations

from taxtune.taxonomy import Taxonomy
from taxtune.tuning.proposers import Goal
from taxtune.tuning.proposers.clades import Clades
from tests.tuning.proposers.answered import BIRDS, rows
from tests.tuning.proposers.histories import goal as make_goal


def goal(taxonomy: Taxonomy = BIRDS, domain: str = "bird", objective: str = "hp") -> Goal:
    known = {"taxonomy": taxonomy, "domain_node": taxonomy.resolve(domain)}
    return make_goal(objective, 0.3, 1.0, 0.5, domain, "What is it?", [], 9, **known)


ANSWERED = rows(
    BIRDS,
    [
        ("snowy owl", "an owl"),
        ("goldfinch", "a chaffinch"),
        ("chaffinch", "a chaffinch"),
        ("blue jay", None),
        ("finch", "a goldfinch"),
    ],
)


def test_groups_are_numbered_as_the_images_come():
    clades = Clades(BIRDS, goal(), ANSWERED)
    parts = clades.below(ANSWERED, BIRDS.resolve("bird"))
    assert [part["group"] for part in parts] == ["order 2", "order 1"], "what costs most in hP comes first"
    assert clades.find("order 1") == BIRDS.resolve("owl")
    assert clades.find("order 2") == clades.find("2") == BIRDS.resolve("songbird")
    assert clades.find(" ") == BIRDS.resolve("bird")
    assert clades.find("order 9") is None
    # Later images get further numbers, and change none.
    clades.learn(rows(BIRDS, [("crow", "a crow")]))
    assert clades.find("family 2.2") == BIRDS.resolve("crow")
    assert clades.find("species 2.2.1") == BIRDS.resolve("blue jay")


def test_groups_count_what_was_answered():
    clades = Clades(BIRDS, goal(), ANSWERED)
    songbirds, owls = clades.below(ANSWERED, BIRDS.resolve("bird"))
    assert (songbirds["images"], songbirds["mistakes"]) == (3, {"sibling": 1, "too specific": 1})
    assert (owls["images"], owls["mistakes"], owls["scores"]["hP"]) == (1, {"too general": 1}, 1.0)
    finches, crows = clades.below(ANSWERED, BIRDS.resolve("songbird"))
    assert (finches["group"], finches["images"]) == ("family 2.1", 3)
    assert (crows["group"], crows["images"], crows["scores"]) == ("family 2.2", 0, {})


def test_a_truth_that_is_the_group_itself_is_a_part_of_it():
    clades = Clades(BIRDS, goal(), ANSWERED)
    parts = {part["group"]: part["images"] for part in clades.below(ANSWERED, BIRDS.resolve("finch"))}
    assert parts == {"species 2.1.1": 1, "species 2.1.2": 1, "family 2.1": 1}


def test_a_tree_without_ranks_has_groups():
    tree = Taxonomy.from_dict({"dish": {"soup": ["pho", "ramen"], "cake": ["pavlova"]}})
    answered = rows(tree, [("pho", "ramen"), ("pavlova", "pavlova")])
    clades = Clades(tree, goal(tree, "dish"), answered)
    assert [part["group"] for part in clades.below(answered, 0)] == ["group 1", "group 2"]
    assert clades.find("group 2") == tree.resolve("cake")
