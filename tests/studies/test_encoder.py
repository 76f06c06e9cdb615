"""Which encoder places text best: the texts, their placements, and the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

import taxtune.mapping
from taxtune.encoders import FloatMatrix
from taxtune.errors import DataError, TaxtuneError
from taxtune.mapping import Mapper, make_similarity
from taxtune.mapping.normalize import fold_words
from taxtune.report.output import StudyReport
from taxtune.studies import run
from taxtune.studies.encoder import (
    MAPPER,
    NEAREST,
    NO_EVIDENCE,
    EncoderSettings,
    compare_encoders,
    place_all,
)
from taxtune.studies.level_texts import (
    HELD_OUT,
    held_out_texts,
    template_texts,
    tree_levels,
    without_names,
)
from taxtune.studies.scorers import AnnotatedAnswers
from taxtune.taxonomy import Taxonomy


def settings_of(**more: Any) -> EncoderSettings:
    return EncoderSettings(taxonomy="never read", **more)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


class Oracle:
    """Knows which node a name belongs to, even one that was taken off the tree."""

    needs_images = False
    confident = 0.5
    name = "oracle"

    def __init__(self, taxonomy: Taxonomy) -> None:
        self.node = {fold_words(n): v for v in range(len(taxonomy)) for n in taxonomy.names(v)}
        self.names: list[str] = []

    def fit(self, names: Sequence[str]) -> None:
        self.names = list(names)

    def scores(self, answers: Sequence[str], images: object = None) -> FloatMatrix:
        owners = [self.node.get(fold_words(name)) for name in self.names]
        found = [self.node.get(fold_words(answer), -1) for answer in answers]
        return np.array(
            [[float(node == owner) for owner in owners] for node in found], dtype=np.float32
        )


class Parrot(Oracle):
    """Knows a name when it hears it, and nothing else."""

    def scores(self, answers: Sequence[str], images: object = None) -> FloatMatrix:
        return np.array(
            [[float(name == answer) for name in self.names] for answer in answers], dtype=np.float32
        )


class Lookup(Oracle):
    """Has its scores from a table of answers and names."""

    known: ClassVar[dict[str, dict[str, float]]] = {}

    def scores(self, answers: Sequence[str], images: object = None) -> FloatMatrix:
        return np.array(
            [[self.known.get(a, {}).get(n, 0.0) for n in self.names] for a in answers],
            dtype=np.float32,
        )


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, birds: Taxonomy, many: Taxonomy) -> None:
    """Lets the specifications "oracle", "parrot" and "lookup" make such encoders, which know all names of two trees."""
    kinds = {"oracle": Oracle, "parrot": Parrot, "lookup": Lookup}

    def make(spec: str, **told: object) -> object:
        if spec not in kinds:
            return make_similarity(spec)
        encoder = kinds[spec](birds)
        encoder.node |= Oracle(many).node
        return encoder

    monkeypatch.setattr(taxtune.mapping, "make_similarity", make)


@pytest.fixture(scope="module")
def many() -> Taxonomy:
    """Forty species under four families, whose common names have nothing to do with their labels."""
    word = ["ka", "lo", "mi", "nu", "pe", "ri", "so", "tu", "va", "ze"]
    labels, parents, aliases, ranks = ["life"], [-1], [()], [None]
    for f in range(4):
        family = len(labels)
        labels.append(f"Familia{word[f]}")
        parents.append(0)
        aliases.append((f"{word[f]}kind",))
        ranks.append("family")
        for s in range(10):
            labels.append(f"Genus{word[s]}{word[f]}us")
            parents.append(family)
            aliases.append((f"{word[9 - s]}{word[s]} {word[(s + f) % 10]}q",))
            ranks.append("species")
    return Taxonomy(labels, parents, aliases=aliases, ranks=ranks)


# -- texts -------------------------------------------------------------------------------------------------------------


def test_levels_are_ranks_or_depths(birds: Taxonomy) -> None:
    levels = tree_levels(birds)
    assert (levels.by, levels.names) == ("rank", ["class", "order", "family", "species"])
    assert levels.nodes("order") == [2, 6]
    assert levels.of[0] == "root"
    assert tree_levels(birds, "depth").names == ["depth 1", "depth 2", "depth 3", "depth 4"]
    bare = Taxonomy(["a", "b", "c"], [-1, 0, 1])
    assert tree_levels(bare).by == "depth"
    with pytest.raises(DataError, match="has a rank"):
        tree_levels(bare, "rank")
    mixed = Taxonomy(["a", "b", "c", "d"], [-1, 0, 1, 1], ranks=[None, "order", None, "species"])
    assert tree_levels(mixed, "rank").names == ["order", "species", "without a rank"]


def test_held_out_names_leave_the_tree(birds: Taxonomy) -> None:
    texts, hidden, notes = held_out_texts(birds, tree_levels(birds), 10, rng())
    # Only these nodes have an alias; the blackbird loses one of its two.
    assert texts["target"].tolist() == [1, 3, 4, 5, 8]
    reduced = without_names(birds, hidden)
    for text, v in zip(texts["text"], texts["target"], strict=True):
        assert text in birds.aliases[v]
        assert text not in reduced.aliases[v]
        assert reduced.labels == birds.labels
    assert len(reduced.aliases[4]) == 1
    assert "order 0 of 2" in notes[0]


@pytest.mark.parametrize(
    ("labels", "aliases", "hidden"),
    [
        # "foxes" is the label in the plural, "hound" is two nodes' name; the two spellings of the beast go together.
        (
            ["Fox", "Wolf", "Dog"],
            [("foxes",), ("grey beast", "Gray Beast", "hound"), ("hound",)],
            {2: {"grey beast", "Gray Beast"}},
        ),
        # The mapper finds "sea star" on a node called "seastar".
        (
            ["Asteroidea", "Psocodea", "Isopoda", "Barkfly"],
            [("sea star", "seastar", "sea-stars"), ("bark louse",), ("barklouse",), ("bark fly",)],
            {1: {"sea star", "seastar", "sea-stars"}},
        ),
    ],
)
def test_names_that_are_the_same_are_held_out_together(
    labels: list[str], aliases: list[tuple[str, ...]], hidden: dict[int, set[str]]
) -> None:
    tree = Taxonomy(["life", *labels], [-1] + [0] * len(labels), aliases=[(), *aliases])
    texts, found, _ = held_out_texts(tree, tree_levels(tree), 10, rng())
    assert found == hidden
    assert [p.node for p in Mapper(without_names(tree, found)).place(texts["text"].tolist())] == [0]


def test_templates(birds: Taxonomy) -> None:
    texts, notes = template_texts(
        birds, tree_levels(birds), ("A: {name}.", "two {plural}"), 10, rng()
    )
    by = dict(list(texts.groupby("kind")))
    assert dict(zip(by["A: {name}."]["target"], by["A: {name}."]["text"], strict=True)) == {
        1: "A: bird.", 2: "A: Passeriformes.", 3: "A: thrush.", 4: "A: blackbird.", 5: "A: American robin.",
        6: "A: Anseriformes.", 7: "A: Anatidae.", 8: "A: mallard.",
    }  # fmt: skip
    # The tree has aliases, so that its labels may be Latin and have no plural.
    plurals = ["two birds", "two thrushes", "two blackbirds", "two American robins", "two mallards"]
    assert by["two {plural}"]["text"].tolist() == plurals
    assert "3 nodes have only a label" in notes[0]
    bare = Taxonomy(["thing", "dog"], [-1, 0])
    assert template_texts(bare, tree_levels(bare), ("{plural}",), 10, rng())[0][
        "text"
    ].tolist() == ["dogs"]
    for bad in ("a photo", "{label}", "{name", "{}"):
        with pytest.raises(DataError, match="template"):
            template_texts(birds, tree_levels(birds), (bad,), 10, rng())


# -- placing -----------------------------------------------------------------------------------------------------------


def some(placed: pd.DataFrame, kind: str, way: str) -> pd.DataFrame:
    return placed[(placed["kind"] == kind) & (placed["way"] == way)]


def test_texts_are_placed_as_the_mapper_and_the_nearest_name_place_them(birds: Taxonomy) -> None:
    placed, _, encoders, _ = place_all(birds, settings_of(per_level=5, template=("A: {name}.",)))
    assert encoders == {"lexical": "lexical"}
    whole = some(placed, "A: {name}.", MAPPER)
    assert whole["node"].tolist() == [p.node for p in Mapper(birds).place(whole["text"].tolist())]
    named = some(placed, "A: {name}.", NEAREST)
    assert named["node"].tolist() == named["target"].tolist()
    held_out = some(placed, HELD_OUT, MAPPER)
    hidden = {v: {text} for v, text in zip(held_out["target"], held_out["text"], strict=True)}
    reduced = Mapper(without_names(birds, hidden))
    assert held_out["node"].tolist() == [p.node for p in reduced.place(held_out["text"].tolist())]
    lands = some(placed, HELD_OUT, NEAREST).set_index("text")["node"]
    assert lands["American robin"] != 5
    assert lands["mallard"] != 8


def test_no_encoder_hears_a_name_that_is_held_out(birds: Taxonomy, made: None) -> None:
    placed, _, _, _ = place_all(birds, settings_of(encoder=("parrot", "oracle")))
    held_out = some(placed, HELD_OUT, NEAREST)
    by = dict(list(held_out.groupby("encoder")))
    # All names tie at 0, and the first of the deepest nodes is taken: a blackbird.
    assert by["parrot"]["node"].tolist() == [4] * 5
    # An oracle knows the node by its other names.
    assert by["oracle"]["node"].tolist() == by["oracle"]["target"].tolist()


def test_language_only_by_hand(
    birds: Taxonomy, made: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tasks(**scores: dict[str, float]) -> dict[tuple[str, str], pd.DataFrame]:
        monkeypatch.setattr(
            Lookup, "known", {name.replace("_", " "): of for name, of in scores.items()}
        )
        placed, _, _, _ = place_all(birds, settings_of(encoder=("lookup",), seed=len(scores)))
        language = placed[placed["kind"] == "language only"]
        return {
            (str(way), str(level)): rows
            for (way, level), rows in language.groupby(["way", "level"])
        }

    by = tasks(
        blackbird={"Passeriformes": 0.6, "Anseriformes": 0.5, "thrush": 0.2, "bird": 1.0},
        American_robin={"Anseriformes": 0.9, "Anatidae": 0.3, "thrush": 0.4},
        mallard={"Anseriformes": 0.1, "Anatidae": 0.1},
    )
    # One class only leaves nothing to choose; orders and families have two classes each.
    assert set(by) == {
        (way, level) for way in ("common name", "label") for level in ("order", "family")
    }
    order, family = by["common name", "order"], by["common name", "family"]
    assert order["text"].tolist() == ["blackbird", "American robin", "mallard"]
    assert (order["target"].tolist(), order["node"].tolist()) == ([2, 2, 6], [2, 6, 6])
    # The families' names are thrush and Anatidae.
    assert (family["target"].tolist(), family["node"].tolist()) == ([3, 3, 7], [3, 3, 7])
    # Where all scores are equal, a class is drawn, not the first taken.
    drawn = {
        tuple(tasks(**{str(i): {} for i in range(s)})["label", "order"]["node"]) for s in range(9)
    }
    assert len(drawn) > 2


# -- the report --------------------------------------------------------------------------------------------------------


@pytest.fixture
def report(many: Taxonomy, made: None) -> StudyReport:
    return run(
        "encoder",
        taxonomy=many,
        encoder=("lexical", "oracle"),
        resamples=4000,
        template=("A: {name}.",),
    )


def test_the_recommendation_needs_evidence_and_gives_lines_to_paste(report: StudyReport) -> None:
    verdicts = {(r["text"], r["placed by"]): r for r in report.table("encoder").records()}
    held_out = verdicts[HELD_OUT, MAPPER]
    assert held_out["species"] == held_out["all"] == "oracle"
    # Four families are too few to prove anything, however they fall.
    assert held_out["family"] == NO_EVIDENCE
    assert verdicts["A: {name}.", MAPPER]["all"] == NO_EVIDENCE
    said = report.data["recommendation"]
    assert said["similarity"] == "oracle"
    assert "higher hF over all levels: oracle on held-out name." in said["reason"]


def test_intervals_widen_with_what_they_hold_for_together(many: Taxonomy, made: None) -> None:
    def width(*encoders: str) -> float:
        told: dict[str, Any] = {"template": ("A: {plural}.",), "resamples": 4000}
        report = run("encoder", taxonomy=many, encoder=("lexical", "oracle", *encoders), **told)
        key = {
            "kind": HELD_OUT,
            "way": NEAREST,
            "level": "all",
            "metric": "hr",
            "first": "lexical",
            "second": "oracle",
        }
        found = next(r for r in report.data["differences"] if key.items() <= r.items())
        return float(found["high"] - found["low"])

    # 95 % for three levels and one pair, and for three levels and six: 2.39 and 2.99 standard deviations to a side.
    assert width("c=lexical", "d=lexical") / width() == pytest.approx(2.99 / 2.39, rel=0.1)


def test_without_a_difference_there_is_no_recommendation(many: Taxonomy) -> None:
    report = run("encoder", taxonomy=many, encoder=("lexical", "again=lexical"), resamples=200)
    said = report.data["recommendation"]
    assert said["similarity"] is None
    assert "no evidence that the mapper's similarity matters" in said["reason"]
    cells = [cell for row in report.table("encoder").rows for cell in row[2:]]
    assert all(cell != cell or cell in (NO_EVIDENCE, None) for cell in cells)
    alone = run("encoder", taxonomy=many, encoder=("lexical",), resamples=50)
    assert "add another with --encoder" in alone.data["recommendation"]["reason"]


def test_answers_that_people_have_placed(birds: Taxonomy, tmp_path: Path) -> None:
    from taxtune.report.drawing import save_figure

    frame = pd.DataFrame(
        {"row": [1, 2, 3], "answer": ["a blackbird", "", "bird"], "target": [4, 0, 1]}
    )
    report = compare_encoders(
        birds, settings_of(resamples=20, template=()), AnnotatedAnswers(frame, ("a note",))
    )
    rows = [r for r in report.table("encoder-2").records() if r["placed by"] == NEAREST]
    assert [(r["level"], r["n"], r["accuracy"]) for r in rows] == [
        ("root", 1, 1), ("class", 1, 1), ("species", 1, 1), ("all", 3, 1),
    ]  # fmt: skip
    assert "a note" in report.notes
    for stem, draw in report.figures.items():
        assert all(path.stat().st_size > 1000 for path in save_figure(draw, tmp_path / stem))


@pytest.mark.parametrize(
    ("settings", "said"),
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
    birds: Taxonomy, monkeypatch: pytest.MonkeyPatch, settings: dict[str, object], said: str
) -> None:
    monkeypatch.setattr(
        "taxtune.studies.encoder.nearest_nodes", lambda *_, **__: pytest.fail("placed")
    )
    with pytest.raises(TaxtuneError, match=said):
        run("encoder", **{"taxonomy": birds, **settings})
