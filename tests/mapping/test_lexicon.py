from __future__ import annotations

from collections import defaultdict
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from taxtune.mapping import Mapper
from taxtune.mapping.lexicon import Lexicon
from taxtune.mapping.normalize import fold_words, undoubled
from taxtune.taxonomy import Taxonomy
from tests.cases import cases
from tests.trees import tree_and_nodes


@pytest.fixture(scope="module")
def lexicon(nature):
    return Lexicon(nature)


def labels(lexicon, nodes):
    return [lexicon.taxonomy.labels[v] for v in nodes]


def test_exact_joins_and_parts_words(lexicon):
    for text in ("Blue Jay", "bluejay", "blue-jays"):
        assert labels(lexicon, lexicon.exact(fold_words(text))) == ["Cyanocitta cristata"]
    assert lexicon.exact(("bluejay",), respelled=False) == ()
    assert lexicon.exact(("jay", "blue")) == ()
    assert lexicon.exact(()) == ()


def test_english_names_beat_latin_homonyms(lexicon):
    assert labels(lexicon, lexicon.exact(("nasturtium",))) == ["Tropaeolum"]


def test_heads_are_learnt_from_the_tree(nature, lexicon):
    def head(*words):
        node = lexicon.head(words)
        return None if node is None else lexicon.taxonomy.labels[node]

    assert head("woodpecker") == "Picidae"
    assert head("jay") == "Cyanocitta"
    assert head("robin") == "Passeriformes"
    assert head("raven") == "Corvus"  # one species has it: the genus
    assert head("black") is None
    assert head("zebra") is None


def test_the_common_ancestor_is_robust(nature):
    nodes = [leaf for leaf in nature.leaves.tolist() if "Picidae" in nature.path(leaf)]
    nodes.append(nature.resolve("Acer"))
    assert nature.labels[Lexicon(nature, coverage=0.7).common(nodes)] == "Picidae"
    assert Lexicon(nature, coverage=0.9).common(nodes) == 0


@given(tree_and_nodes(rows=1), st.sampled_from([0.51, 0.6, 0.85, 1.0]))
def test_the_common_ancestor_is_the_deepest_that_covers_enough(case, coverage):
    tree, (nodes,) = case
    least = coverage * len(nodes)
    every = range(len(tree))
    covering = [node for node in every if tree.is_ancestor(node, nodes).sum() >= least]
    deepest = max(covering, key=tree.depth.__getitem__)
    assert Lexicon(tree, coverage=coverage).common(nodes) == deepest


KNOWN = st.text("abcd", min_size=4, max_size=12)


@given(st.lists(KNOWN, min_size=1, max_size=8, unique=True), st.data())
def test_what_is_mended_is_the_nearest_known_word(known, data):
    """Looking only at words of like length and letters overlooks none."""
    lexicon = Lexicon(Taxonomy(["top", *known], [-1, *[0] * len(known)]))
    word = data.draw(st.text("abcd", min_size=7, max_size=12))
    if lexicon.knows(word):
        return
    near = defaultdict(set)
    for other in chain(*map(fold_words, ["top", *known])):
        if other[0] == word[0]:
            near[OSA.distance(undoubled(word), undoubled(other))].add(other)
    least = min(near, default=9)
    most = 2 if len(word) >= 10 else 1
    is_clear = least <= most and len(near[least]) == 1
    assert lexicon.correct(word) == (near[least].pop() if is_clear else None)


@pytest.mark.parametrize(
    ("word", "expected"),
    cases(
        """
        woodpeker = woodpecker
        wodpeker = woodpecker
        wodpekre =
        foxglvoe = foxglove
        robbin = robin
        rubin =
        jya =
        jay =
        ferrari =
        hawfinch =
        """
    ),
)
def test_spelling_is_mended_with_care(lexicon, word, expected):
    assert lexicon.correct(word) == expected


def test_spelling_is_mended_more_freely_where_the_whole_name_speaks_for_it(
    lexicon,
):
    assert lexicon.correct("wodpekre", generous=True) == "woodpecker"
    assert lexicon.correct("rubin", generous=True) == "robin"


GARDEN = Taxonomy.from_dict(
    {
        "things": {
            "weather": ["fog", "clear sky", "rainbow"],
            "land": ["volcano", "lattice fence", "industrial site"],
            "plants": ["aloe vera", "climbing rose"],
            "sports": ["cycling", "surfing", "rock climbing"],
            "devices": ["watch", "spray gun", "spray can", "paint brush", "hair brush"],
        }
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    cases(
        """
        foggy = fog
        volcanic = volcano
        cyclist = cycling
        wristwatch = watch
        Aloe = aloe vera
        an industrial area = industrial site
        spray = devices  # what is as like several is what they have in common
        a climber = things
        a parked bicycle = things
        """
    ),
)
def test_what_names_nothing_is_what_its_names_are_spelt_like(text, expected):
    placement = Mapper(GARDEN).place_one(text)
    assert placement.path[-1] == expected
    assert (expected == "things") == placement.off_tree


def test_on_a_tree_of_species_spelling_alone_says_nothing(lexicon):
    assert lexicon.latin
    assert Mapper(lexicon.taxonomy).place_one("wodepekcre").off_tree


WORDS = st.sampled_from(
    ["oak", "owl", "owls", "barn", "red", "reddish", "steam", "steamy", "engine"]
)
PHRASES = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)
GROUPS = st.dictionaries(
    PHRASES, st.lists(PHRASES, min_size=1, max_size=4, unique=True), min_size=1
)


@given(GROUPS, st.lists(PHRASES, min_size=1, max_size=5), st.randoms())
def test_the_order_of_rows_changes_no_placement(groups, answers, random):
    """A tree's rows, and further names of a node, may stand in any order."""
    paths = [f"top/{group}/{leaf}" for group, leaves in groups.items() for leaf in leaves]
    aliases = {path: ["quern", "quoin", f"{path[4:]} quay"] for path in paths[:2]}
    tree = Taxonomy.from_paths(paths, aliases=aliases)
    random.shuffle(paths)
    turned = {path: names[::-1] for path, names in reversed(aliases.items())}
    other = Taxonomy.from_paths(paths, aliases=turned)
    asked = [*answers, *tree.labels, "quern", "a quoin", "quay"]
    before = Mapper(tree).place(asked)
    after = Mapper(other).place(asked)
    assert [place.path for place in before] == [place.path for place in after]


@given(GROUPS, st.data())
def test_case_accents_and_plurals_change_no_name(groups, data):
    lexicon = Lexicon(Taxonomy.from_dict({"top": groups}))
    name = data.draw(st.sampled_from(lexicon.taxonomy.labels[1:]))
    nodes = lexicon.exact(fold_words(name))
    assert nodes
    accented = name.replace("o", "ö").replace("e", "é")
    plural = name if name.endswith(("s", "sh")) else f"{name}s"
    for written in (name.upper(), name.title(), accented, plural, name.replace(" ", "-")):
        assert lexicon.exact(fold_words(written)) == nodes
