from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.encoders import FloatMatrix
from taxtune.errors import DataError, TaxtuneError
from taxtune.mapping import Mapper
from taxtune.mapping.normalize import fold_words
from taxtune.metrics.statistics import PairedDifference
from taxtune.report.output import StudyReport
from taxtune.studies import run
from taxtune.studies.encoder import EncoderSettings
from taxtune.studies.encoder.placement import (
    MAPPER,
    NEAREST,
    Place,
    language_only,
    language_tasks,
    place_texts_by_encoder,
    without_names,
)
from taxtune.studies.encoder.study import NO_EVIDENCE, _best, _scored, compare_encoders, said_by_level
from taxtune.studies.encoder.texts import held_out_set, template_sets, tree_levels
from taxtune.studies.mapping import scorers as scorers_module
from taxtune.studies.mapping.annotated import AnnotatedAnswers
from taxtune.studies.mapping.nearest import tree_names
from taxtune.studies.mapping.scorers import Scorer, similarity_scorer
from taxtune.taxonomy import Taxonomy


def settings_of(**more: Any) -> EncoderSettings:
    return EncoderSettings(taxonomy="never read", **more)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


class Oracle:
    """Knows which node a name belongs to, even one that was taken off the tree; else it is as lexical as they come."""

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
        return np.array([[float(node == owner) for owner in owners] for node in found], dtype=np.float32)


def with_oracle(monkeypatch: pytest.MonkeyPatch, taxonomy: Taxonomy) -> None:
    """Lets the specification "oracle" make an `Oracle` of this tree."""
    import taxtune.mapping
    from taxtune.mapping import make_similarity

    def make(spec: str, **told: object) -> object:
        return Oracle(taxonomy) if spec == "oracle" else make_similarity(spec)

    monkeypatch.setattr(taxtune.mapping, "make_similarity", make)
    assert scorers_module.similarity_scorer("oracle", ["x"]).spec == "oracle"


# -- texts -------------------------------------------------------------------------------------------------------------


def test_levels_are_ranks_or_depths(birds: Taxonomy) -> None:
    levels = tree_levels(birds)
    assert (levels.by, levels.names) == ("rank", ("class", "order", "family", "species"))
    assert levels.nodes("order") == [2, 6]
    assert levels.of[0] == "root"
    depths = tree_levels(birds, "depth")
    assert depths.names == ("depth 1", "depth 2", "depth 3", "depth 4")
    bare = Taxonomy(["a", "b", "c"], [-1, 0, 1])
    assert tree_levels(bare).by == "depth"
    with pytest.raises(DataError, match="has a rank"):
        tree_levels(bare, "rank")


def test_nodes_without_a_rank_are_a_level_of_their_own() -> None:
    tree = Taxonomy(["a", "b", "c", "d"], [-1, 0, 1, 1], ranks=[None, "order", None, "species"])
    assert tree_levels(tree, "rank").names == ("order", "species", "without a rank")


def test_held_out_names_leave_the_tree(birds: Taxonomy) -> None:
    found = held_out_set(birds, tree_levels(birds), 10, rng())
    # Only these nodes have an alias; the blackbird loses one of its two.
    assert found.targets == (1, 3, 4, 5, 8)
    assert found.levels == ("class", "family", "species", "species", "species")
    reduced = without_names(birds, found.hidden)
    for text, v in zip(found.texts, found.targets, strict=True):
        assert text in birds.aliases[v]
        assert text not in reduced.aliases[v]
        assert reduced.labels == birds.labels
    assert len(reduced.aliases[4]) == 1
    assert "order 0 of 2" in found.notes[0]


def test_names_that_say_nothing_new_are_not_held_out() -> None:
    tree = Taxonomy(
        ["life", "Fox", "Wolf", "Dog"],
        [-1, 0, 0, 0],
        aliases=[(), ("foxes",), ("grey beast", "Gray Beast", "hound"), ("hound",)],
    )
    found = held_out_set(tree, tree_levels(tree), 10, rng())
    # "foxes" is the label in the plural, "hound" is two nodes' name; the two spellings of the beast go together.
    assert found.targets == (2,)
    assert found.hidden == {2: frozenset({"grey beast", "Gray Beast"})}


def test_names_that_differ_in_spaces_are_one_name() -> None:
    # The mapper finds "sea star" on a node called "seastar".
    tree = Taxonomy(
        ["life", "Asteroidea", "Psocodea", "Isopoda", "Barkfly"],
        [-1, 0, 0, 0, 0],
        aliases=[(), ("sea star", "seastar", "sea-stars"), ("bark louse",), ("barklouse",), ("bark fly",)],
    )
    found = held_out_set(tree, tree_levels(tree), 10, rng())
    assert found.targets == (1,)
    assert found.hidden == {1: frozenset({"sea star", "seastar", "sea-stars"})}
    lands = Mapper(without_names(tree, found.hidden)).place(list(found.texts))
    assert [p.node for p in lands] == [0]
    # Nor does a template take a name that two nodes have so.
    (texts,) = template_sets(tree, tree_levels(tree), ("{name}",), 10, rng())
    assert texts.texts == ("sea star", "Psocodea", "Isopoda", "bark fly")


@given(st.integers(0, 50), st.integers(1, 4))
def test_drawing_follows_the_seed_and_the_number(seed: int, count: int) -> None:
    tree = Taxonomy(["life", *"abcdefgh"], [-1] + [0] * 8, aliases=[(), *((x * 3,) for x in "abcdefgh")])
    levels = tree_levels(tree)
    first, again = (held_out_set(tree, levels, count, np.random.default_rng(seed)) for _ in range(2))
    assert first == again
    assert len(first.texts) == len(set(first.targets)) == count


def test_templates(birds: Taxonomy) -> None:
    sets = template_sets(birds, tree_levels(birds), ("A: {name}.", "two {plural}"), 10, rng())
    assert [s.kind for s in sets] == ["A: {name}.", "two {plural}"]
    assert dict(zip(sets[0].targets, sets[0].texts, strict=True)) == {
        1: "A: bird.", 2: "A: Passeriformes.", 3: "A: thrush.", 4: "A: blackbird.", 5: "A: American robin.",
        6: "A: Anseriformes.", 7: "A: Anatidae.", 8: "A: mallard.",
    }  # fmt: skip
    # The tree has aliases, so that its labels may be Latin and have no plural.
    assert sets[1].texts == ("two birds", "two thrushes", "two blackbirds", "two American robins", "two mallards")
    assert "3 nodes have only a label" in sets[1].notes[0]
    bare = Taxonomy(["thing", "dog"], [-1, 0])
    assert template_sets(bare, tree_levels(bare), ("{plural}",), 10, rng())[0].texts == ("dogs",)
    for bad in ("a photo", "{label}", "{name", "{}"):
        with pytest.raises(DataError, match="template"):
            template_sets(birds, tree_levels(birds), (bad,), 10, rng())


# -- placing -----------------------------------------------------------------------------------------------------------


def test_what_the_mapper_does_is_what_the_mapper_does(birds: Taxonomy) -> None:
    settings = settings_of(per_level=5, template=("A: {name}.",))
    _, placed, _, encoders = place_texts_by_encoder(birds, settings)
    assert encoders == {"lexical": "lexical"}
    by = {(p.texts.kind, p.way): p for p in placed}
    held_out = by["held-out name", MAPPER]
    reduced = Mapper(without_names(birds, held_out.texts.hidden))
    assert held_out.nodes["lexical"].tolist() == [p.node for p in reduced.place(held_out.texts.texts)]
    whole = by["A: {name}.", MAPPER]
    assert whole.nodes["lexical"].tolist() == [p.node for p in Mapper(birds).place(whole.texts.texts)]
    assert by["A: {name}.", NEAREST].nodes["lexical"].tolist() == list(whole.texts.targets)


def test_a_held_out_name_cannot_be_found_by_name(birds: Taxonomy) -> None:
    _, placed, _, _ = place_texts_by_encoder(birds, settings_of())
    nearest = next(p for p in placed if (p.texts.kind, p.way) == ("held-out name", NEAREST))
    lands = dict(zip(nearest.texts.texts, nearest.nodes["lexical"].tolist(), strict=True))
    assert lands["American robin"] != 5
    assert lands["mallard"] != 8


def test_an_encoder_s_columns_are_passed_over(birds: Taxonomy, monkeypatch: pytest.MonkeyPatch) -> None:
    with_oracle(monkeypatch, birds)
    _, placed, _, _ = place_texts_by_encoder(birds, settings_of(encoder=("oracle",)))
    nearest = next(p for p in placed if (p.texts.kind, p.way) == ("held-out name", NEAREST))
    # It knows the node by its other names.
    assert nearest.nodes["oracle"].tolist() == list(nearest.texts.targets)


class Parrot(Oracle):
    """Knows a name when it hears it, and nothing else."""

    def scores(self, answers: Sequence[str], images: object = None) -> FloatMatrix:
        return np.array([[float(name == answer) for name in self.names] for answer in answers], dtype=np.float32)


def test_no_encoder_hears_a_name_that_is_held_out(birds: Taxonomy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taxtune.mapping.make_similarity", lambda *_, **__: Parrot(birds))
    _, placed, _, _ = place_texts_by_encoder(birds, settings_of(encoder=("parrot",)))
    held_out = next(p for p in placed if (p.texts.kind, p.way) == ("held-out name", NEAREST))
    # All names tie at 0, and the first of the deepest nodes is taken: a blackbird.
    assert held_out.nodes["parrot"].tolist() == [4] * len(held_out.texts.texts)
    place = Place(birds, similarity_scorer("parrot", tree_names(birds).vocabulary), tree_names(birds))
    assert place(held_out.texts.texts)[0].tolist() == list(held_out.texts.targets)


def scorer_of(birds: Taxonomy, scores: dict[str, dict[str, float]]) -> Scorer:
    names = tree_names(birds).vocabulary

    def score(answers: Sequence[str], images: object) -> FloatMatrix:
        return np.array([[scores.get(a, {}).get(n, 0.0) for n in names] for a in answers], dtype=np.float32)

    return Scorer("made", "made", "made", Oracle(birds), score, {}, tuple)


def test_language_only_by_hand(birds: Taxonomy) -> None:
    tasks = language_tasks(birds, tree_levels(birds), 10, rng())
    # One class only leaves nothing to choose; orders and families have two classes each.
    assert [(t.names, t.level, t.classes.tolist(), t.targets.tolist()) for t in tasks] == [
        ("common name", "order", [2, 6], [2, 2, 6]),
        ("common name", "family", [3, 7], [3, 3, 7]),
        ("label", "order", [2, 6], [2, 2, 6]),
        ("label", "family", [3, 7], [3, 3, 7]),
    ]
    assert tasks[0].texts == ("blackbird", "American robin", "mallard")
    scorer = scorer_of(
        birds,
        {
            "blackbird": {"Passeriformes": 0.6, "Anseriformes": 0.5, "thrush": 0.2, "bird": 1.0},
            "American robin": {"Anseriformes": 0.9, "Anatidae": 0.3, "thrush": 0.4},
            "mallard": {"Anseriformes": 0.1, "Anatidae": 0.1},
        },
    )
    chosen = language_only(birds, scorer, tree_names(birds), tasks)
    assert [c.tolist() for c in chosen[:2]] == [[2, 6, 6], [3, 3, 7]]
    # Where all scores are equal, a class is drawn, not the first taken.
    drawn = {
        tuple(language_only(birds, scorer_of(birds, {}), tree_names(birds), tasks, seed=s)[0].tolist())
        for s in range(9)
    }
    assert len(drawn) > 2


# -- the report --------------------------------------------------------------------------------------------------------


def test_said_by_level() -> None:
    assert said_by_level([("order", "A"), ("family", "A"), ("genus", "A"), ("species", "B")]) == (
        "A is best at order to genus; B is best at species"
    )
    assert said_by_level([("order", NO_EVIDENCE), ("family", "A"), ("genus", NO_EVIDENCE)]) == (
        "A is best at family; no evidence at order, genus"
    )
    assert said_by_level([("order", NO_EVIDENCE), ("family", NO_EVIDENCE)]) == "no evidence at order and family"


def test_the_best_beats_every_other_one() -> None:
    def found(difference: float, low: float, high: float, p: float = 0.001) -> PairedDifference:
        return PairedDifference(difference, low, high, p)

    pairs = {("a", "b"): found(0.1, 0.05, 0.2), ("a", "c"): found(0.1, 0.01, 0.2), ("b", "c"): found(0.0, -0.1, 0.1)}
    assert _best("abc", pairs, 0.05) == "a"
    # The p value decides, and not the interval.
    assert _best("abc", pairs | {("a", "c"): found(0.1, 0.01, 0.2, 0.06)}, 0.05) == NO_EVIDENCE
    assert _best("abc", pairs | {("a", "c"): found(0.1, 0.0, 0.2, 0.04)}, 0.05) == "a"
    assert _best("ab", {("a", "b"): found(-0.1, -0.2, -0.05)}, 0.05) == "b"
    # Three texts that all differ alike have an interval without width, and prove nothing.
    assert _best("ab", {("a", "b"): found(0.1, 0.1, 0.1, 0.25)}, 0.05) == NO_EVIDENCE
    assert _best("a", {}, 0.05) == NO_EVIDENCE


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


@pytest.fixture
def report(many: Taxonomy, monkeypatch: pytest.MonkeyPatch) -> StudyReport:
    with_oracle(monkeypatch, many)
    return run("encoder", taxonomy=many, encoder=("lexical", "oracle"), resamples=4000, template=("A: {name}.",))


def test_the_recommendation_needs_evidence_and_gives_lines_to_paste(report: StudyReport) -> None:
    verdicts = {(r["text"], r["placed by"]): r for r in report.table("encoder").records()}
    held_out = verdicts["held-out name", MAPPER]
    assert held_out["species"] == held_out["all"] == "oracle"
    # Four families are too few to prove anything, however they fall.
    assert held_out["family"] == NO_EVIDENCE
    assert verdicts["A: {name}.", MAPPER]["all"] == NO_EVIDENCE
    said = report.data["recommendation"]
    assert said["similarity"] == "oracle"
    assert said["recipe"] == "mapper:\n  similarity: oracle\n"
    assert "held-out name, default mapper: oracle is best at species; no evidence at family" in said["evidence"]
    last = said["evidence"][-1]
    assert last.startswith("For a recipe: oracle has the higher hF over all levels on held-out name (hF +")
    assert last.endswith("; no evidence on 'A: {name}.'.")


def test_cells_are_the_scores_of_the_placements(report: StudyReport) -> None:
    rows = [r for r in report.table("encoder-1").records() if r["encoder"] == "oracle" and r["placed by"] == NEAREST]
    assert [(r["level"], r["n"], r["hP"], r["hR"], r["hF"], r["accuracy"]) for r in rows] == [
        ("family", 4, 1, 1, 1, 1),
        ("species", 40, 1, 1, 1, 1),
        ("all", 44, 1, 1, 1, 1),
    ]
    language = [r for r in report.table("encoder-language").records() if r["leaf's name"] == "label"]
    assert [(r["level"], r["classes"], r["largest"], r["n"]) for r in language] == [("family", 4, 0.25, 40)] * 2
    record = next(r for r in report.data["scores"] if r["text"] == "held-out name" and r["level"] == "species")
    difference = record["differences"][0]
    assert (difference["first"], difference["second"]) == ("lexical", "oracle")
    assert difference["hf"]["difference"] == pytest.approx(
        record["scores"]["lexical"]["hf"]["estimate"] - record["scores"]["oracle"]["hf"]["estimate"]
    )


def test_an_encoder_that_is_not_there_is_told_before_another_works(
    many: Taxonomy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "taxtune.studies.encoder.placement.score_table", lambda *_, **__: pytest.fail("texts were placed")
    )
    with pytest.raises(TaxtuneError, match="no such similarity"):
        run("encoder", taxonomy=many, encoder=("lexical", "word2vec:model"))


def test_intervals_widen_with_the_levels_that_they_hold_for_together(birds: Taxonomy) -> None:
    draws = np.random.default_rng(1)
    nodes, targets = {name: draws.integers(0, 9, 300) for name in ("a", "b", "c")}, draws.integers(0, 9, 300)
    head, settings = ("text", NEAREST, "all", None), settings_of(encoder=("a", "b", "c"), resamples=4000)
    one, ten = (_scored(birds, head, nodes, targets, settings, rows, "hf") for rows in (1, 10))
    # 95 % for three pairs and for thirty: normal intervals of 2.39 and 3.14 standard deviations to a side.
    spread = [found.differences["a", "b"]["hf"] for found in (one, ten)]
    ratio = (spread[1].high - spread[1].low) / (spread[0].high - spread[0].low)
    assert ratio == pytest.approx(3.14 / 2.39, rel=0.12)


def test_the_metric_decides(many: Taxonomy, monkeypatch: pytest.MonkeyPatch) -> None:
    with_oracle(monkeypatch, many)
    encoders = ("lexical", "oracle")
    by_precision = run("encoder", taxonomy=many, encoder=encoders, resamples=4000, template=(), metric="hp")
    # The mapper with lexical abstains on what it does not know, and is as precise.
    assert by_precision.data["recommendation"]["similarity"] is None
    assert "its hP (language only: accuracy)" in by_precision.table("encoder").notes[0]


def test_without_a_difference_there_is_no_recommendation(many: Taxonomy) -> None:
    report = run("encoder", taxonomy=many, encoder=("lexical", "again=lexical"), resamples=200)
    said = report.data["recommendation"]
    assert said["similarity"] is None
    assert said["recipe"] is None
    assert "no evidence that the mapper's similarity matters" in said["evidence"][-1]
    assert all(cell in (NO_EVIDENCE, None) for row in report.table("encoder").rows for cell in row[2:])
    alone = run("encoder", taxonomy=many, encoder=("lexical",), resamples=50)
    assert "add another with --encoder" in alone.data["recommendation"]["evidence"][0]


def test_answers_that_people_have_placed(birds: Taxonomy, tmp_path: Path) -> None:
    from taxtune.report.drawing import save_figure

    answers = AnnotatedAnswers(
        "placed.jsonl", (1, 2, 3), ("a blackbird", "", "bird"), (4, 0, 1),
        (frozenset({4}), frozenset({0}), frozenset({1})), (None,) * 3, (None,) * 3, ("a note",),
    )  # fmt: skip
    report = compare_encoders(birds, settings_of(resamples=20, template=()), answers)
    rows = [r for r in report.table("encoder-2").records() if r["placed by"] == NEAREST]
    assert [(r["level"], r["n"], r["accuracy"]) for r in rows] == [
        ("root", 1, 1), ("class", 1, 1), ("species", 1, 1), ("all", 3, 1),
    ]  # fmt: skip
    assert "a note" in report.notes
    for stem, draw in report.figures.items():
        assert all(path.stat().st_size > 1000 for path in save_figure(draw, tmp_path / stem))


def test_a_tree_without_aliases_has_templates_only() -> None:
    tree = Taxonomy(["thing", "animal", "food", "cat", "apple"], [-1, 0, 0, 1, 2])
    report = run("encoder", taxonomy=tree, resamples=20)
    kinds = {r["text"] for r in report.table("encoder").records()}
    assert kinds == {"A: {name}.", "a photo of a {name}", "{plural}", "language only"}


def test_the_same_seed_gives_the_same_bytes(many: Taxonomy) -> None:
    def made(seed: int) -> str:
        report = run("encoder", taxonomy=many, per_level=5, seed=seed, resamples=50)
        return json.dumps(report.as_json(), sort_keys=True)

    assert made(1) == made(1)
    assert made(1) != made(2)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"encoder": ()}, "No encoder was given"),
        ({"encoder": ("lexical", "lexical")}, "Two measures are called 'lexical'"),
        ({"encoder": ("word2vec:x",)}, "no such similarity"),
        ({"template": ("{name}", "{name}")}, "given twice"),
    ],
)
def test_bad_settings(birds: Taxonomy, settings: dict[str, object], said: str) -> None:
    with pytest.raises(TaxtuneError, match=said):
        run("encoder", taxonomy=birds, **settings)


def test_a_root_alone_cannot_be_studied() -> None:
    with pytest.raises(DataError, match="only a root"):
        run("encoder", taxonomy=Taxonomy(["life"], [-1]))


def test_a_scorer_is_the_similarity(birds: Taxonomy) -> None:
    scorer = similarity_scorer("mine=lexical", ["bird", "thrush"])
    assert (scorer.name, scorer.spec, scorer.kind) == ("mine", "lexical", "lexical")
    assert scorer.score(["a thrush"], None).argmax() == 1
