"""Placing answers by measures, alone and with Algorithm 1: by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from taxtune.errors import MapperError, TaxtuneError
from taxtune.mapping import Mapper
from taxtune.metrics.base import MeasureKind
from taxtune.metrics.registry import MEASURES
from taxtune.metrics.statistics import bootstrap, hierarchical_sample
from taxtune.studies import mapping as study
from taxtune.studies.mapping import (
    ALGORITHM,
    ALONE,
    DEFAULT,
    MappingSettings,
    mapping_report,
    place_all,
)
from taxtune.studies.scorers import AnnotatedAnswers
from tests.studies.reports import assert_drawn, cells, records, rows_by
from tests.studies.words import UNSCORED, Words
from tests.unsure import Unsure

#: The names of the mappers on one measure.
MAPPERS = ("Words", "Words + Alg. 1", "default mapper, lexical")


@pytest.fixture(autouse=True)
def _words(monkeypatch):
    kind = MeasureKind("words", "Words", "", "", lambda *_: Words("words", "Words"))
    monkeypatch.setitem(MEASURES, "words", kind)


def settings(*measures, **more):
    """The settings of a study whose answers and tree are given beside them."""
    if measures:
        more["measure"] = measures
    return MappingSettings(file=Path("made.jsonl"), taxonomy="birds.csv", **more)


def by_hand(*rows):
    """Placed answers from rows of answer, node and, if there are any, style and a further acceptable node."""
    filled = []
    for i, (answer, node, *more) in enumerate(rows):
        style, *also = more or [None]
        filled.append((i, answer, node, frozenset({node, *also}), style))
    frame = pd.DataFrame(filled, columns=["row", "answer", "target", "acceptable", "style"])
    return AnnotatedAnswers(frame.astype({"style": object}))


def studied(birds, answers, **more):
    return mapping_report(birds, answers, settings("words", **more))


# On the tree `birds`: life(0)/Aves, bird(1)/Passeriformes(2)/Turdidae, thrush(3)/T. merula, blackbird(4), ...
ROWS = [
    ("a blackbird", 4, "species"),
    ("a bird", 1, "coarse"),
    ("a thrush", 4, "coarse", 3),
    ("zebra", 0, "off-tree"),
]
FOUR = by_hand(*ROWS)


def test_every_cell_by_hand(birds):
    report = studied(birds, FOUR, resamples=300, seed=5)
    rows = rows_by(report, "mapping", "mapper")
    alone, listing, default = (rows[name] for name in MAPPERS)
    # Blackbird 1/1; bird 1/1; thrush instead of blackbird: hP 4/4, hR 4/5; zebra, tied everywhere, goes to the deepest
    # node with the smallest number, the blackbird, instead of the root: hP 1/5, hR 1/1.
    assert cells(alone, "n", "tied", "on the root", "unscored") == (4, 1, 0, 0)
    assert cells(alone, "hP", "hR", "hF") == pytest.approx(
        (3.2 / 4, 3.8 / 4, 2 * 0.8 * 0.95 / 1.75)
    )
    assert cells(alone, "accuracy", "acceptable") == (0.5, 0.75)
    assert cells(alone, "abstained", "off the tree") == (None, None)
    # The listing puts "zebra" on the first node, the root: none has more than four votes at one distance.
    assert cells(listing, "hP", "hR", "accuracy") == pytest.approx((1, 0.95, 0.75))
    assert listing["tied"] is None
    assert cells(default, "hP", "accuracy", "on the root") == (1, 0.75, 1)
    agreement = rows_by(report, "mapping-agreement", "mapper")["Words"]
    assert cells(agreement, *MAPPERS) == (1, 0.75, 0.75)
    styles = rows_by(report, "mapping-styles", "style", "mapper")
    for name in MAPPERS:
        coarse = styles["coarse", name]
        assert cells(coarse, "n", "hF", "acceptable") == pytest.approx((2, 2 * 1 * 0.9 / 1.9, 1))
    adds = rows_by(report, "mapping-differences", "first")["Words + Alg. 1"]
    assert cells(adds, "second", "accuracy") == ("Words", 0.25)
    assert adds["hF"] == pytest.approx(2 * 1 * 0.95 / 1.95 - 2 * 0.8 * 0.95 / 1.75)
    placed = report.data["answers"][3]["placed"]
    assert placed["Words"] == "life/Aves/Passeriformes/Turdidae/Turdus merula"


def test_intervals_are_those_of_the_bootstrap(birds):
    report = studied(birds, FOUR, resamples=300, seed=5)
    ends = rows_by(report, "mapping-intervals", "mapper")["Words"]
    sample = hierarchical_sample(birds, [4, 1, 3, 4], FOUR.frame["target"])
    expected = bootstrap(sample, resamples=300, seed=5)["hf"]
    assert cells(ends, "hF low", "hF high") == (expected.low, expected.high)
    # Of the share that is acceptable, against drawing the answers 20,000 times.
    draws = np.random.default_rng(0).integers(0, 4, size=(20_000, 4))
    shares = np.array([1, 1, 1, 0])[draws].mean(axis=1)
    low, high = np.quantile(shares, [0.025, 0.975])
    assert cells(ends, "acceptable low", "acceptable high") == pytest.approx((low, high), abs=0.01)


def test_what_the_confidence_of_the_default_mapper_is_worth(birds, monkeypatch):
    # Only the default mapper is made with keyword arguments.
    def make(*given, **more):
        return (Unsure if more else Mapper)(*given, **more)

    monkeypatch.setattr(study, "Mapper", make)
    doubtful = [("zebra?", 0), ("a blackbird?", 8)]
    answers = by_hand(*[("a bird", 1)] * 6, ("a thrush", 4), *doubtful, ("", 1))
    (worth,) = records(studied(birds, answers, resamples=20), "mapping-confidence")
    assert (worth.pop("mapper"), worth.pop("n")) == ("default mapper, lexical", 10)
    # Of the eight sure ones (.9) six are right, the blank one's root and the thrush are not; of the doubtful (.4) one.
    risks = [0.25, 0.25, 0.25, 0.25, 0.3]
    assert list(worth.values()) == pytest.approx([*risks, 0.8 * 0.15 + 0.2 * 0.1])


def test_ties_and_names(birds):
    def accuracy(report):
        return rows_by(report, "mapping", "mapper")["Words"]["accuracy"]

    assert accuracy(studied(birds, FOUR, ties="ancestor")) == 0.75
    answers = by_hand(("Aves", 1), ("bird", 1))
    assert accuracy(studied(birds, answers, names="all")) == 1
    common = studied(birds, answers, names="common")
    assert accuracy(common) == 0.5
    assert not any(table.name.startswith("mapping-styles") for table in common.tables)


def test_what_a_measure_leaves_unscored_counts_nowhere(birds):
    answers = by_hand(("bird", 1, "a"), (f"an {UNSCORED} bird", 1, "b"))
    report = studied(birds, answers, resamples=20)
    rows = rows_by(report, "mapping", "mapper")
    styles = rows_by(report, "mapping-styles", "style", "mapper")
    for name in ("Words", "Words + Alg. 1"):
        assert cells(rows[name], "n", "unscored", "accuracy") == (1, 1, 1)
        assert styles["b", name]["hF"] is None
    assert rows["default mapper, lexical"]["n"] == 2
    assert report.data["answers"][1]["placed"]["Words"] is None
    assert "Words: counts words" in report.notes


def test_nothing_scored_at_all_is_a_dash_and_draws(birds, tmp_path):
    report = studied(birds, by_hand(*[(UNSCORED, 1)] * 3), resamples=20)
    assert rows_by(report, "mapping", "mapper")["Words"]["hF"] is None
    assert rows_by(report, "mapping-agreement", "mapper")["Words"]["Words + Alg. 1"] is None
    assert_drawn(report, tmp_path)


def test_blank_long_and_repeated_answers(birds):
    long = ("bird " * 200_000, 1)
    answers = by_hand(*[("bird", 1)] * 10_000, ("", 0), ("🐦", 0), long)
    Words.calls = 0
    placed, notes, _ = place_all(birds, answers, settings("words"))
    assert Words.calls == 2 * 15  # two distinct answers and 15 distinct names
    for _, rows in placed.groupby("mapper"):
        assert rows["node"].tolist() == [1] * 10_000 + [0, 0, 1]
    blank, cut = notes[:2]
    assert "2 answers have no letter or digit" in blank
    assert "1 answers are truncated to their first 4,000 characters" in cut
    for row in records(studied(birds, by_hand(("", 1), ("?", 1))), "mapping"):
        assert cells(row, "hP", "hR", "on the root") == (1, 0.5, 2)


def test_the_seed_decides(birds):
    def made(seed):
        chosen = settings("words", "lexical", ties="random", seed=seed, resamples=100)
        return json.dumps(mapping_report(birds, FOUR, chosen).as_json(), sort_keys=True)

    assert made(3) == made(3)
    assert made(3) != made(4)


def test_the_order_of_the_file_does_not_matter(birds):
    def nodes(answers):
        frame, _, _ = place_all(birds, answers, settings("words", ties="random"))
        return frame.pivot(index="answer", columns="mapper", values="node").to_numpy()

    order = [2, 0, 3, 1]
    back = by_hand(*[ROWS[i] for i in order])
    assert np.array_equal(nodes(FOUR)[order], nodes(back))


def test_every_way_places_every_answer(birds):
    frame, _, _ = place_all(birds, FOUR, settings("Mine=words"))
    ways = set(zip(frame["base"], frame["way"], strict=True))
    assert ways == {("Mine", ALONE), ("Mine", ALGORITHM), ("default mapper, lexical", DEFAULT)}
    own = frame[frame["way"] == DEFAULT]
    expected = Mapper(birds).place(FOUR.frame["answer"].tolist())
    assert own["node"].tolist() == [placement.node for placement in expected]
    assert own["abstained"].tolist() == [placement.abstained for placement in expected]


def test_measures_see_normalised_answers_and_names(birds, monkeypatch):
    seen = {}

    class Spy(Words):
        def matrix(self, answers, references):
            seen.update(answers=list(answers), references=list(references))
            return super().matrix(answers, references)

    kind = MeasureKind("spy", "Spy", "", "", lambda *_: Spy("spy", "Spy"))
    monkeypatch.setitem(MEASURES, "spy", kind)
    place_all(birds, by_hand(("Some Red-Bird!", 1)), settings("spy"))
    assert seen["answers"] == ["some red bird"]
    assert {"aves", "american robin"} <= set(seen["references"])


@pytest.mark.parametrize(
    ("measures", "more", "message"),
    [
        ("nonsense", {}, "Unknown measure"),
        ("words Words=words", {}, "Two measures are called 'Words'"),
        ("=words", {}, "name before = is empty"),
        ("a=", {}, "specification is empty"),
        ("words", {"names": "latin"}, "--names has no such value"),
        ("words", {"ties": "first"}, "--ties has no such value"),
        ("words", {"similarity": "word2vec"}, "no such similarity"),
    ],
)
def test_bad_settings(birds, monkeypatch, measures, more, message):
    monkeypatch.setattr(study, "_scored", lambda *_: pytest.fail("answers were scored"))
    with pytest.raises(TaxtuneError, match=message):
        mapping_report(birds, FOUR, settings(*measures.split(), **more))


def test_a_judge_cannot_place(birds, monkeypatch):
    monkeypatch.setattr(Words, "needs_questions", True)
    with pytest.raises(MapperError, match="every name of a tree"):
        place_all(birds, FOUR, settings("words"))
