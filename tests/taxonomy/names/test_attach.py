from __future__ import annotations

from taxtune.taxonomy import Taxonomy
from taxtune.taxonomy.names import attach_english_names, read_english_names


def small_tree(ranks: list[str | None]) -> Taxonomy:
    return Taxonomy(
        ["life", "Animalia", "Aves", "Passeriformes", "Sulidae", "Morus", "Plantae", "Moraceae", "Morus"],
        [-1, 0, 1, 2, 2, 4, 0, 6, 7],
        aliases=[(), (), ("Birds of the world", "Bird"), (), (), (), (), (), ()],
        ranks=ranks,
    )


RANKS: list[str | None] = [None, "kingdom", "class", "order", "family", "genus", "kingdom", "family", "genus"]


def test_names_come_behind_those_that_are_there_and_not_twice() -> None:
    aliases = attach_english_names(small_tree(RANKS)).aliases[2]
    assert aliases[:2] == ("Birds of the world", "Bird")
    assert "bird" not in aliases
    assert len({name.casefold() for name in aliases}) == len(aliases)


def test_group_words_reach_their_node() -> None:
    tree = attach_english_names(small_tree(RANKS))
    assert 3 in tree.find("songbird")
    assert 2 in tree.find("bird")


def test_within_tells_homonyms_apart() -> None:
    tree = attach_english_names(small_tree(RANKS))
    assert tree.find("gannet") == [5]
    assert tree.find("mulberry") == [8]


def test_a_tree_without_ranks_is_left_alone() -> None:
    tree = small_tree([None] * 9)
    assert attach_english_names(tree) is tree


def test_rows_have_names_and_places() -> None:
    for row in read_english_names():
        assert row.rank == row.rank.lower(), row
        assert all(name == name.strip() for name in row.english), row
        assert len({name.casefold() for name in row.english}) == len(row.english), row


def test_what_the_tree_itself_calls_a_group_is_not_given_to_another() -> None:
    """Curated, "finch" is Passeriformes, as finches are several families; a tree that says Fringillidae means it."""
    tree = Taxonomy(
        ["Aves", "Passeriformes", "Fringillidae", "Carduelis carduelis"],
        [-1, 0, 1, 2],
        aliases=[["bird"], [], ["finch"], []],
        ranks=["class", "order", "family", "species"],
    )
    named = attach_english_names(tree)
    assert named.find("finch") == [2]
    assert named.find("songbird") == [1]


def test_a_leaf_of_that_name_keeps_it() -> None:
    """Curated, "marigold" is all of Asteraceae; a tree with a class "marigold" means that class."""
    tree = Taxonomy(
        ["flower", "Asteraceae", "marigold", "oxeye daisy"],
        [-1, 0, 1, 1],
        ranks=[None, "family", "kind", "kind"],
    )
    without = Taxonomy(["flower", "Asteraceae", "oxeye daisy"], [-1, 0, 1], ranks=[None, "family", "kind"])
    assert attach_english_names(without).find("marigold") == [1]
    assert attach_english_names(tree).find("marigold") == [2]
    assert attach_english_names(tree).find("sunflower family") == attach_english_names(without).find("sunflower family")
