from __future__ import annotations

import json

import pytest

from taxtune.mapping import Mapper, MapperConfig, Stage
from taxtune.mapping.confidence import COEFFICIENTS
from taxtune.mapping.config import DOUBTFUL
from taxtune.mapping.language import foreign_language
from taxtune.taxonomy import Taxonomy

OWLS = ["barn owl", "snowy owl"]
TREE = Taxonomy.from_dict({"bird": {"duck": ["mallard", "gadwall"], "owl": OWLS}})


@pytest.fixture(scope="module")
def mapper():
    return Mapper(TREE)


def test_coefficients_speak_the_way_they_should():
    coefficients = json.loads(COEFFICIENTS.read_text(encoding="utf-8"))
    assert coefficients["whole name"] > 0 > coefficients["unexplained"]
    stages = [coefficients[stage] for stage in ("guess", "head", "verbatim")]
    assert stages == sorted(set(stages))
    without = {"ngram", "vote", "similarity", "arbiter"}
    assert {str(stage) for stage in Stage} <= coefficients.keys() | without


@pytest.mark.parametrize(
    ("surer", "less"),
    [
        ("a mallard", "a mallard beside a barn owl"),  # known words that the path does not explain
        ("a barn owl", "a barn owl of the quux in frabjous callay"),  # words that the tree lacks
    ],
)
def test_what_makes_a_placement_less_sure(mapper, surer, less):
    first, second = mapper.place([surer, less])
    assert first.confidence is not None
    assert second.confidence is not None
    assert first.confidence > second.confidence


def test_signals_are_what_the_answer_and_the_path_share(mapper):
    signals = mapper.signals(mapper.place_one("a mallard beside a barn owl"))
    assert signals["verbatim"] == signals["whole name"] == 1
    assert 0 < signals["explained"] < 1
    assert signals["unexplained"] > 0
    assert mapper.signals(mapper.place_one("mallard"))["explained"] == 1


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
