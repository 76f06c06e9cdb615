from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from PIL import Image

from taxtune.errors import DataError, MapperError, TaxtuneError
from taxtune.mapping import Mapper
from taxtune.metrics.registry import MEASURES, MeasureKind, MeasureSettings
from taxtune.metrics.statistics import bootstrap, hierarchical_sample
from taxtune.report.output import StudyReport, Table
from taxtune.studies.mapping import MappingSettings, study
from taxtune.studies.mapping.annotated import AnnotatedAnswers
from taxtune.studies.mapping.study import ALGORITHM, ALONE, DEFAULT, agreement_matrix, mapping_report, place_all
from taxtune.taxonomy import Taxonomy
from tests.studies.measures import KIND, UNSCORED, Words


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEASURES, KIND.kind, KIND)


def asked(*measures: str, **more: Any) -> MappingSettings:
    """The settings of a study whose answers and tree are given beside them."""
    chosen = {"measure": measures} if measures else {}
    return MappingSettings(file=Path("made.jsonl"), taxonomy="birds.csv", **chosen, **more)


def placed_by_hand(
    rows: Sequence[tuple[str, int, set[int], str | None]], images: Sequence[Path | None] | None = None
) -> AnnotatedAnswers:
    return AnnotatedAnswers(
        "made.jsonl",
        tuple(range(1, len(rows) + 1)),
        tuple(row[0] for row in rows),
        tuple(row[1] for row in rows),
        tuple(frozenset({row[1], *row[2]}) for row in rows),
        tuple(row[3] for row in rows),
        tuple(images or [None] * len(rows)),
        (),
    )


# On the tree `birds`: life(0)/Aves, bird(1)/Passeriformes(2)/Turdidae, thrush(3)/T. merula, blackbird(4), ...
FOUR = placed_by_hand(
    [
        ("a blackbird", 4, set(), "species"),
        ("a bird", 1, set(), "coarse"),
        ("a thrush", 4, {3}, "coarse"),
        ("zebra", 0, set(), "off-tree"),
    ]
)


def table(report: StudyReport, name: str) -> Table:
    return next(table for table in report.tables if table.name == name)


def row(report: StudyReport, name: str, first: str) -> dict[str, object]:
    return next(record for record in table(report, name).records() if next(iter(record.values())) == first)


def test_every_cell_by_hand(birds: Taxonomy) -> None:
    report = mapping_report(birds, FOUR, asked("words", resamples=50))
    alone = row(report, "mapping", "Words")
    # Blackbird 1/1; bird 1/1; thrush instead of blackbird: hP 4/4, hR 4/5; zebra, tied everywhere, goes to the deepest
    # node with the smallest number, the blackbird, instead of the root: hP 1/5, hR 1/1.
    assert alone["hP"] == pytest.approx((1 + 1 + 1 + 0.2) / 4)
    assert alone["hR"] == pytest.approx((1 + 1 + 0.8 + 1) / 4)
    assert alone["hF"] == pytest.approx(2 * 0.8 * 0.95 / 1.75)
    assert alone["accuracy"] == 0.5
    assert alone["acceptable"] == 0.75
    assert (alone["n"], alone["tied"], alone["on the root"], alone["unscored"]) == (4, 1, 0, 0)
    # The listing puts "zebra" on the first node, the root: none has more than four votes at one distance.
    listing = row(report, "mapping", "Words + Alg. 1")
    assert (listing["hP"], listing["hR"], listing["accuracy"]) == (1, pytest.approx(0.95), 0.75)
    assert listing["tied"] is None
    # The prose has all nine nodes vote about "zebra": the deepest with four votes is Passeriformes, with hP 1/3.
    assert row(report, "mapping-presets", "Words") == {
        "measure": "Words", "n": 4, "by name": 3, "by n-gram": 0, "by vote": 1, "nearest": 0, "by vote, listing": 0,
        "differ": 1, "hP, listing": 1, "hR, listing": pytest.approx(0.95), "hF, listing": pytest.approx(1.9 / 1.95),
        "hP, prose": pytest.approx(5 / 6), "hR, prose": pytest.approx(0.95),
        "hF, prose": pytest.approx(2 * 5 / 6 * 0.95 / (5 / 6 + 0.95)),
    }  # fmt: skip
    assert "answers with tied nodes, which --ties deepest decides: Words 25 %" in report.notes
    default = row(report, "mapping", "default mapper, lexical")
    assert (default["hP"], default["accuracy"], default["on the root"]) == (1, 0.75, 1)
    assert row(report, "mapping-agreement", "Words") == {
        "mapper": "Words",
        "Words": 1,
        "Words + Alg. 1": 0.75,
        "default mapper, lexical": 0.75,
    }
    assert row(report, "mapping-styles-hf", "coarse") == {
        "style": "coarse",
        "n": 2,
        "Words": pytest.approx(2 * 1 * 0.9 / 1.9),
        "Words + Alg. 1": pytest.approx(2 * 1 * 0.9 / 1.9),
        "default mapper, lexical": pytest.approx(2 * 1 * 0.9 / 1.9),
    }
    assert row(report, "mapping-styles-acceptable", "coarse")["Words"] == 1
    adds = row(report, "mapping-differences", "Words + Alg. 1")
    assert adds["second"] == "Words"
    assert adds["accuracy"] == 0.25
    assert adds["hF"] == pytest.approx(2 * 1 * 0.95 / 1.95 - 2 * 0.8 * 0.95 / 1.75)
    assert report.data["answers"][3]["placed"]["Words"] == "life/Aves/Passeriformes/Turdidae/Turdus merula"
    assert set(report.figures) == {"mapping-scores", "mapping-agreement"}


def test_intervals_are_the_bootstrap_s(birds: Taxonomy) -> None:
    settings = asked("words", resamples=300, seed=5)
    report = mapping_report(birds, FOUR, settings)
    found = row(report, "mapping-intervals", "Words")
    expected = bootstrap(hierarchical_sample(birds, [4, 1, 3, 4], FOUR.targets), resamples=300, seed=5)
    assert (found["hF low"], found["hF high"]) == (expected["hf"].low, expected["hf"].high)
    # The share that is acceptable, against drawing the four answers 20,000 times.
    rng = np.random.default_rng(0)
    brute = np.quantile(np.array([1, 1, 1, 0])[rng.integers(0, 4, size=(20_000, 4))].mean(axis=1), [0.025, 0.975])
    assert [found["acceptable low"], found["acceptable high"]] == pytest.approx(brute.tolist(), abs=0.01)


def test_ties_by_the_common_ancestor(birds: Taxonomy) -> None:
    report = mapping_report(birds, FOUR, asked("words", ties="ancestor", algorithm=False, default=False))
    assert row(report, "mapping", "Words")["accuracy"] == 0.75
    assert [t.name for t in report.tables if t.name == "mapping-differences"] == []


def test_common_names_only(birds: Taxonomy) -> None:
    answers = placed_by_hand([("Aves", 1, set(), None), ("bird", 1, set(), None)])
    everything = mapping_report(birds, answers, asked("words", algorithm=False, default=False))
    common = mapping_report(birds, answers, asked("words", algorithm=False, default=False, names="common"))
    assert row(everything, "mapping", "Words")["accuracy"] == 1
    assert row(common, "mapping", "Words")["accuracy"] == 0.5
    assert not any(t.name.startswith("mapping-styles") for t in common.tables)


def test_what_a_measure_leaves_unscored_counts_nowhere(birds: Taxonomy) -> None:
    answers = placed_by_hand([("bird", 1, set(), "a"), (f"an {UNSCORED} bird", 1, set(), "b")])
    report = mapping_report(birds, answers, asked("words", resamples=20))
    for name in ("Words", "Words + Alg. 1"):
        assert row(report, "mapping", name)["n"] == 1
        assert row(report, "mapping", name)["unscored"] == 1
        assert row(report, "mapping", name)["accuracy"] == 1
        assert row(report, "mapping-styles-hf", "b")[name] is None
    assert row(report, "mapping", "default mapper, lexical")["n"] == 2
    assert report.data["answers"][1]["placed"]["Words"] is None
    assert "Words: counts words" in report.notes


def test_nothing_scored_at_all_is_a_dash_and_draws(birds: Taxonomy, tmp_path: Path) -> None:
    from taxtune.report.drawing import save_figure

    answers = placed_by_hand([(UNSCORED, 1, set(), None)] * 3)
    report = mapping_report(birds, answers, asked("words", resamples=20))
    assert row(report, "mapping", "Words")["hF"] is None
    assert row(report, "mapping-agreement", "Words")["Words + Alg. 1"] is None
    for stem, draw in report.figures.items():
        assert all(path.stat().st_size > 1000 for path in save_figure(draw, tmp_path / stem))


def test_blank_long_and_repeated_answers(birds: Taxonomy) -> None:
    megabyte = "bird " * 200_000
    rows = [("bird", 1, set(), None)] * 10_000 + [
        ("", 0, set(), None),
        ("🐦", 0, set(), None),
        (megabyte, 1, set(), None),
    ]
    Words.calls = 0
    placed, notes, _ = place_all(birds, placed_by_hand(rows), asked("words"))
    assert Words.calls == 2 * 15  # two distinct answers and 15 distinct names
    for p in placed:
        assert (p.nodes[:10_000] == 1).all(), p.name
        assert p.nodes[10_000:10_002].tolist() == [0, 0]
        assert p.nodes[10_002] == 1
    assert any("2 answers have no letter or digit" in note for note in notes)
    assert any("1 answers are truncated to their first 4,000 characters" in note for note in notes)


def test_all_answers_blank(birds: Taxonomy) -> None:
    report = mapping_report(birds, placed_by_hand([("", 1, set(), None), ("?", 1, set(), None)]), asked("words"))
    for record in table(report, "mapping").records():
        assert (record["hP"], record["hR"], record["on the root"]) == (1, 0.5, 2)


def test_the_same_seed_gives_the_same_bytes(birds: Taxonomy) -> None:
    def made(seed: int) -> str:
        settings = asked("words", "lexical", ties="random", seed=seed, resamples=100)
        return json.dumps(mapping_report(birds, FOUR, settings).as_json(), sort_keys=True)

    assert made(3) == made(3)
    assert made(3) != made(4)


def test_the_order_of_the_file_does_not_matter(birds: Taxonomy) -> None:
    order = [2, 0, 3, 1]
    turned = placed_by_hand(
        [(FOUR.answers[i], FOUR.targets[i], set(FOUR.acceptable[i]), FOUR.styles[i]) for i in order]
    )
    settings = asked("words", ties="random")
    there, back = place_all(birds, FOUR, settings)[0], place_all(birds, turned, settings)[0]
    for a, b in zip(there, back, strict=True):
        assert a.nodes[order].tolist() == b.nodes.tolist()


def test_what_is_asked_for_is_what_is_placed(birds: Taxonomy) -> None:
    def ways(**chosen: bool) -> set[tuple[str, str]]:
        settings = asked("Mine=words", "words", **chosen)
        return {(p.base, p.way) for p in place_all(birds, FOUR, settings)[0]}

    assert ways(alone=False, default=False) == {("Mine", ALGORITHM), ("Words", ALGORITHM)}
    assert ways(algorithm=False, default=False) == {("Mine", ALONE), ("Words", ALONE)}
    assert ways(alone=False, algorithm=False) == {("default mapper, lexical", DEFAULT)}


def test_the_default_row_is_the_mapper(birds: Taxonomy) -> None:
    (default,) = place_all(birds, FOUR, asked(alone=False, algorithm=False))[0]
    expected = Mapper(birds).place(FOUR.answers)
    assert default.nodes.tolist() == [p.node for p in expected]
    assert default.abstained is not None
    assert default.abstained.tolist() == [p.abstained for p in expected]


def test_measures_see_normalised_answers_and_names(birds: Taxonomy, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[str]] = {}

    class Spy(Words):
        def matrix(self, answers: Any, references: Sequence[str], images: object = None) -> NDArray[np.float64]:
            seen.update(answers=list(answers), references=list(references))
            return super().matrix(answers, references, images)

    monkeypatch.setitem(MEASURES, "spy", MeasureKind("spy", "Spy", "", "", lambda *_: Spy("spy", "Spy")))
    place_all(birds, placed_by_hand([("Some Red-Bird!", 1, set(), None)]), asked("spy", default=False))
    assert seen["answers"] == ["some red bird"]
    assert {"aves", "american robin"} <= set(seen["references"])


class Pictures(Words):
    """Knows the answer from the colour of the image: red is a mallard."""

    needs_images = True

    def matrix(self, answers: object, references: Sequence[str], images: object = None) -> NDArray[np.float64]:
        assert isinstance(images, list)
        red = [image.convert("RGB").getpixel((0, 0))[0] > 128 for image in images]
        return np.array([[float((name == "mallard") == is_red) for name in references] for is_red in red])


def make_pictures(model: str | None, settings: MeasureSettings) -> Pictures:
    return Pictures("pictures", "Pictures")


def test_measures_that_look_at_images(birds: Taxonomy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = MeasureKind("pictures", "Pictures", "", "", make_pictures, needs=("image",))
    monkeypatch.setitem(MEASURES, "pictures", kind)
    Image.new("RGB", (16, 16), "red").save(tmp_path / "a.png")
    Image.new("RGB", (16, 16), "black").save(tmp_path / "b.png")
    rows = [("it", 8, set(), None), ("it", 4, set(), None)]
    settings = asked("pictures", algorithm=False, default=False)
    placed, _, _ = place_all(birds, placed_by_hand(rows, [tmp_path / "a.png", tmp_path / "b.png"]), settings)
    assert placed[0].nodes.tolist() == [8, 4]
    monkeypatch.setattr(study, "measure_scorer", lambda *_: pytest.fail("a model was loaded"))
    with pytest.raises(DataError, match=r"--images.*--image-column"):
        place_all(birds, placed_by_hand(rows), settings)


def test_a_similarity_that_is_not_there_is_told_before_anything_is_placed(
    birds: Taxonomy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "score_table", lambda *_, **__: pytest.fail("answers were scored"))
    with pytest.raises(TaxtuneError, match="no such similarity"):
        place_all(birds, FOUR, asked("lexical", similarity="word2vec:model"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"measures": ("nonsense",)}, "Unknown measure"),
        ({"measures": ("words", "Words=words")}, "Two measures are called 'Words'"),
        ({"measures": ("=words",)}, "name before = is empty"),
        ({"measures": ("a=",)}, "specification is empty"),
        ({"names": "latin"}, "--names has no such value"),
        ({"ties": "first"}, "--ties has no such value"),
        ({"alone": False, "algorithm": False, "default": False}, "Nothing is left"),
        ({"alone": False, "algorithm": False, "similarity": "word2vec"}, "no such similarity"),
    ],
)
def test_bad_settings(birds: Taxonomy, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(TaxtuneError, match=said):
        mapping_report(birds, FOUR, asked(*settings.pop("measures", ()), **settings))


def test_the_paper_s_rows_stand_beside_ours(birds: Taxonomy) -> None:
    report = mapping_report(birds, FOUR, asked("exact-match", resamples=20))
    found = table(report, "mapping-paper").records()
    assert len(found) == 11
    assert found[0]["hF, paper"] == 0.39
    assert found[0]["our row"] == "EM"
    assert found[-1] == {
        "paper's row": "CLIP-t2t + Alg. 1",
        "hP, paper": 0.79, "hR, paper": 0.82, "hF, paper": 0.8, "acc., paper": 0.471,
        "our row": None, "hP": None, "hR": None, "hF": None, "acc.": None,
    }  # fmt: skip
    assert "Not comparable" in table(report, "mapping-paper").notes[0]


def test_a_judge_cannot_place(birds: Taxonomy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Words, "needs_questions", True)
    with pytest.raises(MapperError, match="every name of a tree"):
        place_all(birds, FOUR, asked("words"))


# -- agreement -------------------------------------------------------------------------------------------------------


def test_agreement_by_hand() -> None:
    matrix = agreement_matrix(
        {name: np.array(nodes) for name, nodes in (("a", [1, 2, 3, 4]), ("b", [1, 2, 0, 0]), ("c", [1, -1, 3, -1]))}
    )
    # a and b agree on 2 of 4; a and c on 2 of the 2 that c placed; b and c on 1 of these 2.
    assert matrix.tolist() == [[1, 0.5, 1], [0.5, 1, 0.5], [1, 0.5, 1]]


@given(arrays(np.int64, st.tuples(st.integers(1, 5), st.integers(1, 12)), elements=st.integers(0, 3)))
def test_agreement_is_symmetric_with_ones_on_the_diagonal(nodes: np.ndarray) -> None:
    matrix = agreement_matrix({str(i): row for i, row in enumerate(nodes)})
    assert np.array_equal(matrix, matrix.T)
    assert (np.diag(matrix) == 1).all()
    assert ((matrix >= 0) & (matrix <= 1)).all()
    i, j = 0, len(nodes) - 1
    assert matrix[i, j] == pytest.approx(sum(a == b for a, b in zip(nodes[i], nodes[j], strict=True)) / nodes.shape[1])


def test_nothing_in_common_is_no_zero() -> None:
    assert np.isnan(agreement_matrix({"a": np.array([1, -1]), "b": np.array([-1, 1])})[0, 1])
