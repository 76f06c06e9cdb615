from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.mapping import Mapper, MapperConfig, Stage
from taxtune.mapping.confidence import COEFFICIENTS
from taxtune.mapping.config import DOUBTFUL
from taxtune.mapping.language import foreign_language
from taxtune.taxonomy import Taxonomy

OWLS = ["barn owl", "snowy owl"]
TREE = Taxonomy.from_dict({"bird": {"duck": ["mallard", "gadwall"], "owl": OWLS}})
MAPPER = Mapper(TREE)


@pytest.fixture(scope="module")
def mapper():
    return MAPPER


def test_coefficients_speak_the_way_they_should():
    coefficients = json.loads(COEFFICIENTS.read_text(encoding="utf-8"))
    assert coefficients["whole name"] > 0 > coefficients["unexplained"]
    assert coefficients["depth"] > 0 > coefficients["unknown words"]
    stages = [coefficients[stage] for stage in ("foreign", "off_tree", "verbatim", "name")]
    assert stages == sorted(set(stages))
    without = {"ngram", "arbiter"}
    assert {str(stage) for stage in Stage} <= coefficients.keys() | without


def test_coefficients_are_those_of_the_signals(mapper):
    coefficients = json.loads(COEFFICIENTS.read_text(encoding="utf-8"))
    signals = mapper.signals(mapper.place_one("a mallard"))
    assert coefficients.keys() == signals.keys() | {"intercept"} | {
        str(stage) for stage in Stage if stage not in ("ngram", "arbiter")
    }


@pytest.mark.parametrize(
    ("surer", "less"),
    [
        ("a mallard", "a mallard beside a barn owl"),  # known words that the path does not explain
        ("a barn owl", "a barn owl of the quux in frabjous callay"),  # words that the tree lacks
        ("it is a mallard", "it is a duck"),  # nothing is below a mallard
        ("a barn owl", "a quuxing owl"),  # not a whole name
    ],
)
def test_what_makes_a_placement_less_sure(mapper, surer, less):
    first, second = mapper.place([surer, less])
    assert first.confidence is not None
    assert second.confidence is not None
    assert first.confidence > second.confidence


def test_signals_are_what_the_answer_and_the_path_share(mapper):
    placement = mapper.place_one("Quite surely a mallard beside a barn owl")
    assert mapper.signals(placement) == {
        "verbatim": 1,
        "depth": 1,
        "leaf": 1,
        "whole name": 1,
        "unexplained": math.log1p(2),  # barn, owl
        "unknown words": math.log1p(3),  # quite, surely, beside
        "words": math.log1p(7),
        "hedged": 0,
        "size": math.log(40),
    }
    hedged = mapper.signals(mapper.place_one("not an owl, but a duck"))
    assert hedged["hedged"] == 1
    assert hedged["depth"] == 0.5
    assert hedged["leaf"] == 0


@given(st.lists(st.sampled_from(["mallard", "owl", "bird", "not", "maybe", "quux", "?", "ein"])))
def test_a_confidence_is_a_probability_and_none_is_certain(words):
    placement = MAPPER.place_one(" ".join(words))
    assert 0 < placement.confidence < 1
    assert placement.doubtful == (placement.confidence < DOUBTFUL)
    assert min(MAPPER.signals(placement).values()) >= 0


@pytest.mark.parametrize(("leaves", "size"), [(1, 40), (99, 100), (1000, 150)])
def test_a_tree_counts_as_the_nearest_that_the_model_was_fitted_on(leaves, size):
    mapper = Mapper(Taxonomy.from_dict({"thing": [f"name{i}" for i in range(leaves)]}))
    assert mapper.signals(mapper.place_one("it is name0"))["size"] == math.log(size)


def test_a_blank_answer_has_no_similarity_under_the_papers_presets():
    mapper = Mapper(TREE, config=MapperConfig(preset="paper-listing"))
    assert mapper.place_one("").confidence is None


@pytest.mark.parametrize(
    ("answer", "language"),
    [
        ("Une image d'une chouette effraie posée sur une branche.", "fr"),
        ("Auf dem Foto ist vermutlich eine alte Eule zu sehen.", "de"),
        ("図に写っているのはフクロウです。", "ja"),
        ("Barn owl, perched on the turquoise chaise longue.", None),
        ("vuvuzela", None),
        ("Cardinalis phoeniceus", None),
        ("", None),
        ("123 !?", None),
    ],
)
def test_an_answer_in_another_language_is_not_guessed(mapper, answer, language):
    assert foreign_language(answer) == language
    placed = mapper.place_one(answer)
    assert (placed.stage is Stage.FOREIGN) == (language is not None)
    if language:
        assert placed.node == 0
        assert placed.evidence == language
        assert placed.off_tree
        assert placed.confidence is not None
        assert placed.confidence < DOUBTFUL


def test_alternatives_share_the_noun_behind_them(mapper):
    placed = mapper.place_one("It looks like a barn or snowy owl.")
    assert placed.path == ("bird", "owl")
    assert placed.stage == Stage.LIST
