"""Answers that are a label and nothing else, and words that are verbs and no names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.mapping import Mapper
from taxtune.taxonomy import Taxonomy, read_taxonomy

PLANTS = """\
kingdom,class,order,family,genus,species,common_name
Plantae,Magnoliopsida,Asterales,Asteraceae,Dahlia,Dahlia pinnata,
Plantae,Magnoliopsida,Asterales,Asteraceae,Aster,Aster amellus,
Plantae,Magnoliopsida,Geraniales,Geraniaceae,Geranium,Geranium robertianum,herb Robert
Plantae,Magnoliopsida,Ericales,Primulaceae,Primula,Primula veris,
Plantae,Magnoliopsida,Ranunculales,Ranunculaceae,Anemone,Anemone nemorosa,
Plantae,Liliopsida,Asparagales,Iridaceae,Iris,Iris sibirica,
Plantae,Liliopsida,Asparagales,Iridaceae,Crocus,Crocus vernus,
Plantae,Liliopsida,Liliales,Liliaceae,Lilium,Lilium candidum,
Plantae,Liliopsida,Liliales,Liliaceae,Tulipa,Tulipa sylvestris,
Plantae,Polypodiopsida,Polypodiales,Aspleniaceae,Asplenium,Asplenium ruta-muraria,wall rue
"""


@pytest.fixture(scope="module")
def plants(tmp_path_factory):
    path = tmp_path_factory.mktemp("plants") / "plants.csv"
    path.write_text(PLANTS, "utf-8")
    return read_taxonomy(path)


@pytest.mark.parametrize("written", ["{}", "{}.", "Answer: {}", "**{}**"])
@pytest.mark.parametrize("case", [str, str.lower, str.upper])
def test_a_whole_answer_that_is_a_label_is_its_node(plants, written, case):
    """English names that lead to a family ("iris", "geranium") do not take it from the genus."""
    mapper = Mapper(plants)
    for label in plants.labels[1:]:
        answer = written.format(case(label))
        assert mapper.place_one(answer).path[-1] == label


def test_what_says_more_than_the_label_is_read_as_before(plants):
    mapper = Mapper(plants)
    assert mapper.place_one("geraniums").path[-1] == "Geraniaceae", "Latin has no such plural"
    assert mapper.place_one("Geranium robertianum").path[-1] == "Geranium robertianum"


def test_of_a_group_and_its_leaf_with_one_label_the_group_is_meant():
    tree = Taxonomy.from_paths(["tools/saw/saw", "tools/saw/fret saw", "tools/hammer"])
    placed = Mapper(tree).place_one("Saw")
    assert placed.path == ("tools", "saw")


def test_a_name_that_the_tree_gives_twice_is_no_label_alone():
    paths = ["office/computer/mouse", "office/desk/lamp", "office/pest/rodent"]
    tree = Taxonomy.from_paths(paths, aliases={"office/pest/rodent": ["mouse"]})
    placed = Mapper(tree).place_one("mouse")
    assert placed.path == ("office",)


@given(st.data())
def test_every_label_of_a_plain_tree_is_placed_on_its_node(data):
    words = st.text("abcdefgh", min_size=3, max_size=8)
    plain = words.filter(lambda word: not word.endswith("e"))
    names = data.draw(st.lists(plain, min_size=3, max_size=9, unique=True))
    size = len(names) // 3
    groups = {group: names[size + i :: size] for i, group in enumerate(names[:size])}
    tree = Taxonomy.from_dict({"things": groups})
    mapper = Mapper(tree)
    for placement in mapper.place(tree.labels[1:]):
        assert placement.path[-1] == placement.answer


def test_a_label_in_a_sentence_comes_before_english_names_of_groups(plants):
    mapper = Mapper(plants)
    assert mapper.place_one("an iris").path[-1] == "Iris"
    assert mapper.place_one("It is a dahlia.").path[-1] == "Dahlia"
    assert mapper.place_one("The answer is Crocus.").path[-1] == "Crocus"
    assert mapper.place_one("a geranium in a pot").path[-1] == "Geranium"
