from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from taxtune.mapping.lexicon import Lexicon
from taxtune.mapping.normalize import fold_words
from taxtune.taxonomy import Taxonomy
from tests.trees import tree_and_nodes


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
    assert head("black") is None
    assert head("zebra") is None


def test_whether_siblings_share_their_nouns_is_learnt() -> None:
    species = ["Tufted Puffin", "Horned Puffin", "Blue Jay", "Pinyon Jay", "Common Raven"]
    taxonomy = Taxonomy(["life", "Fratercula", "Corvidae", *species], [-1, 0, 0, 1, 1, 2, 2, 2])
    lexicon = Lexicon(taxonomy)
    assert lexicon.shares_heads
    assert not Lexicon(
        Taxonomy(["food", "pasta", "gnocchi", "ravioli", "lasagna"], [-1, 0, 1, 1, 1])
    ).shares_heads


def test_the_common_ancestor_is_robust(nature: Taxonomy) -> None:
    leaves = [v for v in nature.leaves.tolist() if "Picidae" in nature.path(v)]
    lexicon = Lexicon(nature, coverage=0.7)
    assert nature.labels[lexicon.common([*leaves, nature.resolve("Acer")])] == "Picidae"
    assert Lexicon(nature, coverage=0.9).common([*leaves, nature.resolve("Acer")]) == 0


@given(tree_and_nodes(rows=1), st.sampled_from([0.51, 0.6, 0.85, 1.0]))
def test_the_common_ancestor_is_the_deepest_that_covers_enough(
    case: tuple[Taxonomy, list[list[int]]], coverage: float
) -> None:
    tree, (nodes,) = case
    covering = [
        v
        for v in range(len(tree))
        if sum(bool(tree.is_ancestor(v, w)) for w in nodes) >= coverage * len(nodes)
    ]
    assert Lexicon(tree, coverage=coverage).common(nodes) == max(
        covering, key=lambda v: tree.depth[v]
    )


@given(
    st.lists(st.text("abcd", min_size=4, max_size=12), min_size=1, max_size=8, unique=True),
    st.data(),
)
def test_what_is_mended_is_the_nearest_known_word(known: list[str], data: st.DataObject) -> None:
    """Looking only at words of like length and letters overlooks none."""
    lexicon = Lexicon(Taxonomy(["top", *known], [-1, *[0] * len(known)]))
    word = data.draw(st.text("abcd", min_size=7, max_size=12))
    if lexicon.knows(word):
        return
    near = {
        w: OSA.distance(word, w)
        for w in map(fold_words, ["top", *known])
        for w in w
        if w[0] == word[0]
    }
    least = min(near.values(), default=9)
    nearest = [w for w, distance in near.items() if distance == least and len(w) >= 4]
    expected = nearest[0] if least <= (2 if len(word) >= 10 else 1) and len(nearest) == 1 else None
    assert lexicon.correct(word) == expected


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


def test_spelling_is_mended_more_freely_where_the_whole_name_speaks_for_it(
    lexicon: Lexicon,
) -> None:
    assert lexicon.correct("wodpeker", generous=True) == "woodpecker"
    assert lexicon.correct("rubin", generous=True) == "robin"
