from __future__ import annotations

import pytest

from taxtune.mapping.lexicon import Lexicon
from taxtune.mapping.normalize import fold_words
from taxtune.taxonomy import Taxonomy


@pytest.fixture(scope="module")
def lexicon(nature: Taxonomy) -> Lexicon:
    return Lexicon(nature)


def labels(lexicon: Lexicon, nodes: tuple[int, ...]) -> list[str]:
    return [lexicon.taxonomy.labels[v] for v in nodes]


def test_exact_joins_and_parts_words(lexicon: Lexicon) -> None:
    for text in ("Blue Jay", "bluejay", "blue-jays"):
        assert labels(lexicon, lexicon.exact(fold_words(text))) == ["Cyanocitta cristata"]
    assert lexicon.exact(("bluejay",), respelled=False) == ()
    assert lexicon.exact(("jay", "blue")) == ()
    assert lexicon.exact(()) == ()


def test_english_names_beat_latin_homonyms(lexicon: Lexicon) -> None:
    assert labels(lexicon, lexicon.exact(("nasturtium",))) == ["Tropaeolum"]


def test_heads_are_learnt_from_the_tree(nature: Taxonomy, lexicon: Lexicon) -> None:
    def head(*words: str) -> str | None:
        node = lexicon.head(words)
        return None if node is None else lexicon.taxonomy.labels[node]

    assert head("woodpecker") == "Picidae"
    assert head("jay") == "Cyanocitta"
    assert head("robin") == "Passeriformes"
    assert head("raven") == "Corvus"  # one species has it: the genus
    assert head("bellied", "woodpecker") is None  # starts inside a hyphenated compound
    assert head("black") is None
    assert head("zebra") is None


def test_whether_siblings_share_their_nouns_is_learnt() -> None:
    species = ["Tufted Puffin", "Horned Puffin", "Blue Jay", "Pinyon Jay", "Common Raven"]
    taxonomy = Taxonomy(["life", "Fratercula", "Corvidae", *species], [-1, 0, 0, 1, 1, 2, 2, 2])
    lexicon = Lexicon(taxonomy)
    assert lexicon.shares_heads
    assert not Lexicon(Taxonomy(["food", "pasta", "gnocchi", "ravioli", "lasagna"], [-1, 0, 1, 1, 1])).shares_heads


def test_the_common_ancestor_is_robust(nature: Taxonomy) -> None:
    leaves = [v for v in nature.leaves.tolist() if "Picidae" in nature.path(v)]
    lexicon = Lexicon(nature, coverage=0.7)
    assert nature.labels[lexicon.common([*leaves, nature.resolve("Acer")])] == "Picidae"
    assert Lexicon(nature, coverage=0.9).common([*leaves, nature.resolve("Acer")]) == 0


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("woodpeker", "woodpecker"),
        ("wodpeker", None),
        ("foxglvoe", "foxglove"),
        ("robbin", "robin"),
        ("rubin", None),
        ("jya", None),
        ("jay", None),
        ("ferrari", None),
        ("hawfinch", None),
    ],
)
def test_spelling_is_mended_with_care(lexicon: Lexicon, word: str, expected: str | None) -> None:
    assert lexicon.correct(word) == expected


def test_spelling_is_mended_more_freely_where_the_whole_name_speaks_for_it(lexicon: Lexicon) -> None:
    assert lexicon.correct("wodpeker", generous=True) == "woodpecker"
    assert lexicon.correct("rubin", generous=True) == "robin"


def test_a_species_in_its_old_genus_is_found_by_a_rare_epithet(lexicon: Lexicon) -> None:
    corvus = lexicon.taxonomy.resolve("Corvus")
    assert labels(lexicon, lexicon.moved(corvus, "stelleri")) == ["Cyanocitta stelleri"]
    assert labels(lexicon, lexicon.moved(corvus, "cristatus")) == ["Cyanocitta cristata"]
    assert lexicon.moved(corvus, "merula") == ()  # not in the family


def test_latin(lexicon: Lexicon) -> None:
    assert labels(lexicon, lexicon.genus("digitali")) == []
    assert labels(lexicon, lexicon.genus("digitalis")) == ["Digitalis"]
    assert labels(lexicon, lexicon.epithet(("corax",))) == ["Corvus corax"]
    assert labels(lexicon, lexicon.abbreviated("c", "corax")) == ["Corvus corax"]
