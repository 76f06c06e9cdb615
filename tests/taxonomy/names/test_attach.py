from __future__ import annotations

from taxtune.data.labels import LabelFinder
from taxtune.taxonomy import Taxonomy, read_taxonomy
from taxtune.taxonomy.domain import restrict
from taxtune.taxonomy.names import attach_english_names
from tests.taxonomy.conftest import refused


def small_tree(ranks):
    aves = "life/Animalia/Aves"
    paths = [f"{aves}/Passeriformes", f"{aves}/Sulidae/Morus", "life/Plantae/Moraceae/Morus"]
    tree = Taxonomy.from_paths(paths, aliases={"Aves": ["Birds of the world", "Bird"]})
    return Taxonomy(tree.labels, tree.parents, aliases=tree.aliases, ranks=ranks)


ANIMAL_RANKS = ["kingdom", "class", "order", "family", "genus"]
RANKS = [None, *ANIMAL_RANKS, "kingdom", "family", "genus"]


def test_names_come_behind_those_that_are_there_and_not_twice():
    names = attach_english_names(small_tree(RANKS)).names(2)
    assert names[:3] == ("Aves", "Birds of the world", "Bird")
    assert "fledgling" in names
    assert "bird" not in names
    assert len({name.casefold() for name in names}) == len(names)


def test_group_words_lead_to_their_node_and_identify_nothing():
    tree = attach_english_names(small_tree(RANKS))
    assert 3 in tree.led("songbird")
    assert tree.find("songbird") == []
    assert tree.find("bird") == [2]  # the tree's own alias
    assert tree.aliases == small_tree(RANKS).aliases
    with refused("It is only a lead to life/Animalia/Aves/Pas"):
        tree.resolve("Songbird")


def test_a_species_that_inat21_lacks_is_not_its_genus(shared_data):
    tree = read_taxonomy(shared_data / "inat21" / "inat2021-categories.csv")
    genus = tree.resolve("Fratercula")
    assert tree.led("Horned Puffin") == [genus]
    assert "horned puffin" in tree.names(genus)
    path = "life/Animalia/Chordata/Aves/Charadriiformes/Alcidae/Fratercula"
    with refused(f"only a lead to {path}"):
        tree.resolve("Horned Puffin")
    with refused("Did you mean 'Horned Lark'") as refusal:
        tree.resolve("Horned Larc")
    assert "leads" not in str(refusal.value)
    for name in ("Horned Puffin", "bird", "songbird"):
        with refused("lead to"):
            restrict(tree, name)
    part = restrict(tree, "Aves")
    assert part.tree.led("Horned Puffin") == [part.inside(genus)]
    with refused("lead to"):
        part.locate("horned puffin")
    assert LabelFinder(tree).node(["Horned Puffin"]) is None


def test_within_tells_homonyms_apart():
    tree = attach_english_names(small_tree(RANKS))
    assert tree.led("gannet") == [5]
    assert tree.led("mulberry") == [8]


def test_a_tree_without_ranks_is_left_alone():
    tree = small_tree([None] * 9)
    assert attach_english_names(tree) is tree


def test_what_the_tree_itself_calls_a_group_is_not_given_to_another():
    """Curated, "finch" is Passeriformes, as finches are several families; a tree that says Fringillidae means it."""
    tree = Taxonomy(
        ["Aves", "Passeriformes", "Fringillidae", "Carduelis carduelis"],
        [-1, 0, 1, 2],
        aliases=[["bird"], [], ["finch"], []],
        ranks=["class", "order", "family", "species"],
    )
    named = attach_english_names(tree)
    assert named.find("finch") == [2]
    assert named.led("finch") == []
    assert named.led("songbird") == [1]
