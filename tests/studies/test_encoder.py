"""Which encoder places text best: placements and the evidence."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import taxtune.mapping
from taxtune.errors import TaxtuneError
from taxtune.mapping import Mapper, make_similarity
from taxtune.mapping.normalize import fold_words
from taxtune.studies import run
from taxtune.studies.encoder import (
    MAPPER,
    NEAREST,
    NO_EVIDENCE,
    EncoderSettings,
    compare_encoders,
    place_all,
)
from taxtune.studies.level_texts import HELD_OUT, without_names
from taxtune.studies.scorers import AnnotatedAnswers
from taxtune.taxonomy import Taxonomy
from tests.studies.reports import assert_drawn, cells, records, rows_by

NAMED = "A: {name}."


class Oracle:
    """Knows which node a name belongs to, even one that was taken off the tree."""

    needs_images = False
    confident = 0.5
    name = "oracle"

    def __init__(self, *trees):
        self.node = {}
        for tree in trees:
            for node in range(len(tree)):
                self.node |= {fold_words(name): node for name in tree.names(node)}
        self.names: list[str] = []

    def fit(self, names):
        self.names = list(names)

    def scores(self, answers, images=None):
        rows = [[self.score(answer, name) for name in self.names] for answer in answers]
        return np.array(rows, dtype=np.float32)

    def score(self, answer, name):
        return float(self.node.get(fold_words(name)) == self.node.get(fold_words(answer), -1))


class Parrot(Oracle):
    """Knows a name when it hears it, and nothing else."""

    def score(self, answer, name):
        return float(name == answer)


class Lookup(Oracle):
    """Has its scores from a table of answers and names."""

    known: ClassVar[dict[str, dict[str, float]]] = {}

    def score(self, answer, name):
        return self.known.get(answer, {}).get(name, 0.0)


@pytest.fixture
def made(monkeypatch, birds, many):
    """Lets the specifications "oracle", "parrot" and "lookup" make such encoders, which know all names of two trees."""
    kinds = {"oracle": Oracle, "parrot": Parrot, "lookup": Lookup}

    def make(spec, **_):
        return kinds[spec](birds, many) if spec in kinds else make_similarity(spec)

    monkeypatch.setattr(taxtune.mapping, "make_similarity", make)


@pytest.fixture(scope="module")
def many():
    """Forty species under four families, whose common names have nothing to do with their labels."""
    word = ["ka", "lo", "mi", "nu", "pe", "ri", "so", "tu", "va", "ze"]
    nodes = [("life", -1, (), None)]
    for f in range(4):
        family = len(nodes)
        nodes.append((f"Familia{word[f]}", 0, (f"{word[f]}kind",), "family"))
        for s in range(10):
            alias = f"{word[9 - s]}{word[s]} {word[(s + f) % 10]}q"
            nodes.append((f"Genus{word[s]}{word[f]}us", family, (alias,), "species"))
    labels, parents, aliases, ranks = zip(*nodes, strict=True)
    return Taxonomy(labels, parents, aliases=aliases, ranks=ranks)


# -- placing ----------------------------------------------------------------------------------------------------------


def placed_by(birds, *encoders, **more):
    settings = EncoderSettings(taxonomy="never read", encoder=encoders, **more)
    placed, _, specs, _ = place_all(birds, settings)
    assert specs == {name: name for name in encoders}
    return placed


def some(placed, kind, way):
    return placed[(placed["kind"] == kind) & (placed["way"] == way)]


def nodes_of(mapper, texts):
    return [placement.node for placement in mapper.place(texts.tolist())]


def test_texts_are_placed_as_the_mapper_and_the_nearest_name_place_them(birds):
    placed = placed_by(birds, "lexical", per_level=5, template=(NAMED,))
    whole = some(placed, NAMED, MAPPER)
    assert whole["node"].tolist() == nodes_of(Mapper(birds), whole["text"])
    named = some(placed, NAMED, NEAREST)
    assert named["node"].tolist() == named["target"].tolist()
    held_out = some(placed, HELD_OUT, MAPPER)
    hidden = {v: {text} for v, text in zip(held_out["target"], held_out["text"], strict=True)}
    reduced = Mapper(without_names(birds, hidden))
    assert held_out["node"].tolist() == nodes_of(reduced, held_out["text"])
    lands = some(placed, HELD_OUT, NEAREST).set_index("text")["node"]
    assert lands["American robin"] != 5
    assert lands["mallard"] != 8


@pytest.mark.usefixtures("made")
def test_no_encoder_hears_a_name_that_is_held_out(birds):
    held_out = some(placed_by(birds, "parrot", "oracle"), HELD_OUT, NEAREST)
    # All names tie at 0, and the first of the deepest nodes is taken: a blackbird.
    parrot = held_out[held_out["encoder"] == "parrot"]
    assert parrot["node"].tolist() == [4] * 5
    # An oracle knows the node by its other names.
    oracle = held_out[held_out["encoder"] == "oracle"]
    assert oracle["node"].tolist() == oracle["target"].tolist()


def language(birds, seed=0):
    """The texts of language only by way and level, placed by `Lookup`."""
    placed = placed_by(birds, "lookup", seed=seed)
    own = placed[placed["kind"] == "language only"]
    return dict(list(own.groupby(["way", "level"])))


@pytest.mark.usefixtures("made")
def test_language_only_by_hand(birds, monkeypatch):
    known = {
        "blackbird": {"Passeriformes": 0.6, "Anseriformes": 0.5, "thrush": 0.2, "bird": 1.0},
        "American robin": {"Anseriformes": 0.9, "Anatidae": 0.3, "thrush": 0.4},
        "mallard": {"Anseriformes": 0.1, "Anatidae": 0.1},
    }
    monkeypatch.setattr(Lookup, "known", known)
    by_level = language(birds)
    # One class only leaves nothing to choose; orders and families have two classes each.
    ways = {way for way, _ in by_level}
    assert ways == {"common name", "label"}
    assert set(by_level) == {(way, level) for way in ways for level in ("order", "family")}
    order, family = by_level["common name", "order"], by_level["common name", "family"]
    assert order["text"].tolist() == ["blackbird", "American robin", "mallard"]
    assert order["target"].tolist() == [2, 2, 6]
    assert order["node"].tolist() == [2, 6, 6]
    # The families' names are thrush and Anatidae.
    assert family["target"].tolist() == [3, 3, 7]
    assert family["node"].tolist() == [3, 3, 7]


@pytest.mark.usefixtures("made")
def test_where_all_scores_are_equal_a_class_is_drawn(birds):
    drawn = {tuple(language(birds, seed)["label", "order"]["node"]) for seed in range(9)}
    assert len(drawn) > 2


# -- the report -------------------------------------------------------------------------------------------------------


def compared(tree, *encoders, **more):
    return run("encoder", taxonomy=tree, encoder=encoders, **more)


@pytest.mark.usefixtures("made")
def test_the_recommendation_needs_evidence_and_gives_lines_to_paste(many):
    report = compared(many, "lexical", "oracle", resamples=4000, template=(NAMED,))
    verdicts = rows_by(report, "encoder", "text", "placed by")
    held_out = verdicts[HELD_OUT, MAPPER]
    # Four families are too few to prove anything, however they fall.
    assert cells(held_out, "species", "all", "family") == ("oracle", "oracle", NO_EVIDENCE)
    assert verdicts[NAMED, MAPPER]["all"] == NO_EVIDENCE
    recommendation = report.data["recommendation"]
    assert recommendation["similarity"] == "oracle"
    assert "higher hF over all levels: oracle on held-out name." in recommendation["reason"]


@pytest.mark.usefixtures("made")
def test_intervals_widen_with_what_they_hold_for_together(many):
    def width(*encoders):
        settings = {"template": ("A: {plural}.",), "resamples": 4000}
        report = compared(many, "lexical", "oracle", *encoders, **settings)
        differences = pd.DataFrame(report.data["differences"])
        about = ["kind", "way", "level", "metric", "first", "second"]
        row = differences.set_index(about).loc[HELD_OUT, NEAREST, "all", "hr", "lexical", "oracle"]
        return float(row["high"] - row["low"])

    # 95 % for three levels and one pair, and for three levels and six: 2.39 and 2.99 standard deviations to a side.
    assert width("c=lexical", "d=lexical") / width() == pytest.approx(2.99 / 2.39, rel=0.1)


def test_without_a_difference_there_is_no_recommendation(many):
    report = compared(many, "lexical", "again=lexical", resamples=200)
    recommendation = report.data["recommendation"]
    assert recommendation["similarity"] is None
    assert "no evidence that the mapper's similarity matters" in recommendation["reason"]
    verdicts = report.table("encoder").to_frame().iloc[:, 2:]
    assert (verdicts.isna() | (verdicts == NO_EVIDENCE)).all(axis=None)
    assert [*report.data] == ["excluded", "recommendation", "scores", "differences"]
    about = ["kind", "way", "level"]
    assert [*report.data["scores"][0]][:7] == [*about, "n", "classes", "largest", "encoder"]
    assert [*report.data["differences"][0]][:6] == [*about, "first", "second", "metric"]
    alone = compared(many, "lexical", resamples=50)
    assert "add another with --encoder" in alone.data["recommendation"]["reason"]


def test_a_tree_without_two_nodes_on_a_level_has_no_choice_by_language():
    report = compared(Taxonomy.from_paths([("bird", "duck")]), "lexical", resamples=20)
    assert "encoder-language" not in {table.name for table in report.tables}
    assert report.table("encoder-1").rows


def test_answers_that_people_have_placed(birds, tmp_path):
    frame = pd.DataFrame({"row": [1, 2, 3], "target": [4, 0, 1]})
    frame["answer"] = ["a blackbird", "", "bird"]
    settings = EncoderSettings(taxonomy="never read", resamples=20, template=())
    report = compare_encoders(birds, settings, AnnotatedAnswers(frame, ("a note",)))
    rows = [row for row in records(report, "encoder-2") if row["placed by"] == NEAREST]
    counts = {"root": 1, "class": 1, "species": 1, "all": 3}
    assert {row["level"]: row["n"] for row in rows} == counts
    assert {row["accuracy"] for row in rows} == {1}
    assert "a note" in report.notes
    assert_drawn(report, tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoder": ()}, "No encoder was given"),
        ({"encoder": ("lexical", "lexical")}, "Two measures are called 'lexical'"),
        ({"encoder": ("lexical", "word2vec:x")}, "no such similarity"),
        ({"encoder": ("clip-i2t:model",)}, "needs images"),
        ({"template": ("{name}", "{name}")}, "same value twice"),
        ({"taxonomy": Taxonomy(["life"], [-1])}, "only a root"),
        ({"taxonomy": Taxonomy(["a", "b"], [-1, 0]), "template": ()}, "no texts to place"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_texts_are_placed(
    birds, monkeypatch, settings, message
):
    place = "taxtune.studies.encoder.nearest_nodes"
    monkeypatch.setattr(place, lambda *_, **__: pytest.fail("placed"))
    with pytest.raises(TaxtuneError, match=message):
        run("encoder", **{"taxonomy": birds, **settings})
