from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from taxtune.errors import MapperError, TaxtuneError
from taxtune.mapping import Mapper
from taxtune.metrics.registry import MEASURES, MeasureKind
from taxtune.metrics.statistics import bootstrap, hierarchical_sample
from taxtune.report.output import StudyReport
from taxtune.studies.mapping import MappingSettings, study
from taxtune.studies.mapping.annotated import AnnotatedAnswers
from taxtune.studies.mapping.study import ALGORITHM, ALONE, DEFAULT, agreement, mapping_report, place_all
from taxtune.taxonomy import Taxonomy
from tests.studies.measures import KIND, UNSCORED, Words

Row = tuple[str, int, Iterable[int], str | None]


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEASURES, KIND.kind, KIND)


def asked(*measures: str, **more: Any) -> MappingSettings:
    """The settings of a study whose answers and tree are given beside them."""
    chosen = {"measure": measures} if measures else {}
    return MappingSettings(file=Path("made.jsonl"), taxonomy="birds.csv", **chosen, **more)


def placed_by_hand(rows: Iterable[Row]) -> AnnotatedAnswers:
    filled = [(i, answer, node, frozenset({node, *also}), style) for i, (answer, node, also, style) in enumerate(rows)]
    frame = pd.DataFrame(filled, columns=["row", "answer", "target", "acceptable", "style"])
    return AnnotatedAnswers(frame.astype({"style": object}))


# On the tree `birds`: life(0)/Aves, bird(1)/Passeriformes(2)/Turdidae, thrush(3)/T. merula, blackbird(4), ...
ROWS: list[Row] = [
    ("a blackbird", 4, (), "species"),
    ("a bird", 1, (), "coarse"),
    ("a thrush", 4, [3], "coarse"),
    ("zebra", 0, (), "off-tree"),
]
FOUR = placed_by_hand(ROWS)


def row(report: StudyReport, name: str, first: str) -> dict[str, object]:
    return next(record for record in report.table(name).records() if next(iter(record.values())) == first)


def test_every_cell_by_hand(birds: Taxonomy) -> None:
    report = mapping_report(birds, FOUR, asked("words", resamples=300, seed=5))
    alone = row(report, "mapping", "Words")
    # Blackbird 1/1; bird 1/1; thrush instead of blackbird: hP 4/4, hR 4/5; zebra, tied everywhere, goes to the deepest
    # node with the smallest number, the blackbird, instead of the root: hP 1/5, hR 1/1.
    assert alone == {
        "mapper": "Words", "n": 4, "hP": pytest.approx(3.2 / 4), "hR": pytest.approx(3.8 / 4),
        "hF": pytest.approx(2 * 0.8 * 0.95 / 1.75), "accuracy": 0.5, "acceptable": 0.75, "tied": 1, "on the root": 0,
        "abstained": None, "off the tree": None, "unscored": 0,
    }  # fmt: skip
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
    default = row(report, "mapping", "default mapper, lexical")
    assert (default["hP"], default["accuracy"], default["on the root"]) == (1, 0.75, 1)
    names = ("Words", "Words + Alg. 1", "default mapper, lexical")
    assert list(row(report, "mapping-agreement", "Words").values()) == ["Words", 1, 0.75, 0.75]
    coarse = pytest.approx(2 * 1 * 0.9 / 1.9)
    assert row(report, "mapping-styles-hf", "coarse") == {"style": "coarse", "n": 2, **dict.fromkeys(names, coarse)}
    assert row(report, "mapping-styles-acceptable", "coarse")["Words"] == 1
    adds = row(report, "mapping-differences", "Words + Alg. 1")
    assert (adds["second"], adds["accuracy"]) == ("Words", 0.25)
    assert adds["hF"] == pytest.approx(2 * 1 * 0.95 / 1.95 - 2 * 0.8 * 0.95 / 1.75)
    assert report.data["answers"][3]["placed"]["Words"] == "life/Aves/Passeriformes/Turdidae/Turdus merula"
    # The intervals are the bootstrap's; of the share that is acceptable, against drawing the answers 20,000 times.
    ends = row(report, "mapping-intervals", "Words")
    expected = bootstrap(hierarchical_sample(birds, [4, 1, 3, 4], FOUR.frame["target"]), resamples=300, seed=5)["hf"]
    assert (ends["hF low"], ends["hF high"]) == (expected.low, expected.high)
    drawn = np.array([1, 1, 1, 0])[np.random.default_rng(0).integers(0, 4, size=(20_000, 4))].mean(axis=1)
    brute = np.quantile(drawn, [0.025, 0.975]).tolist()
    assert [ends["acceptable low"], ends["acceptable high"]] == pytest.approx(brute, abs=0.01)


def test_ties_and_names(birds: Taxonomy) -> None:
    report = mapping_report(birds, FOUR, asked("words", ties="ancestor"))
    assert row(report, "mapping", "Words")["accuracy"] == 0.75
    answers = placed_by_hand([("Aves", 1, (), None), ("bird", 1, (), None)])
    for names, accuracy in (("all", 1), ("common", 0.5)):
        report = mapping_report(birds, answers, asked("words", names=names))
        assert row(report, "mapping", "Words")["accuracy"] == accuracy
        assert not any(table.name.startswith("mapping-styles") for table in report.tables)


def test_what_a_measure_leaves_unscored_counts_nowhere(birds: Taxonomy, tmp_path: Path) -> None:
    from taxtune.report.drawing import save_figure

    answers = placed_by_hand([("bird", 1, (), "a"), (f"an {UNSCORED} bird", 1, (), "b")])
    report = mapping_report(birds, answers, asked("words", resamples=20))
    for name in ("Words", "Words + Alg. 1"):
        assert [row(report, "mapping", name)[key] for key in ("n", "unscored", "accuracy")] == [1, 1, 1]
        assert row(report, "mapping-styles-hf", "b")[name] is None
    assert row(report, "mapping", "default mapper, lexical")["n"] == 2
    assert report.data["answers"][1]["placed"]["Words"] is None
    assert "Words: counts words" in report.notes
    # Nothing scored at all is a dash, and draws.
    report = mapping_report(birds, placed_by_hand([(UNSCORED, 1, (), None)] * 3), asked("words", resamples=20))
    assert row(report, "mapping", "Words")["hF"] is None
    assert row(report, "mapping-agreement", "Words")["Words + Alg. 1"] is None
    for stem, draw in report.figures.items():
        assert all(path.stat().st_size > 1000 for path in save_figure(draw, tmp_path / stem))


def test_blank_long_and_repeated_answers(birds: Taxonomy) -> None:
    rows: list[Row] = [("bird", 1, (), None)] * 10_000 + [("", 0, (), None), ("🐦", 0, (), None)]
    Words.calls = 0
    placed, notes, _ = place_all(birds, placed_by_hand([*rows, ("bird " * 200_000, 1, (), None)]), asked("words"))
    assert Words.calls == 2 * 15  # two distinct answers and 15 distinct names
    for _, some in placed.groupby("mapper"):
        assert some["node"].tolist() == [1] * 10_000 + [0, 0, 1]
    assert any("2 answers have no letter or digit" in note for note in notes)
    assert any("1 answers are truncated to their first 4,000 characters" in note for note in notes)
    report = mapping_report(birds, placed_by_hand([("", 1, (), None), ("?", 1, (), None)]), asked("words"))
    for record in report.table("mapping").records():
        assert (record["hP"], record["hR"], record["on the root"]) == (1, 0.5, 2)


def test_the_seed_decides_and_the_order_of_the_file_does_not(birds: Taxonomy) -> None:
    def made(seed: int) -> str:
        settings = asked("words", "lexical", ties="random", seed=seed, resamples=100)
        return json.dumps(mapping_report(birds, FOUR, settings).as_json(), sort_keys=True)

    assert made(3) == made(3)
    assert made(3) != made(4)
    order, settings = [2, 0, 3, 1], asked("words", ties="random")
    there, back = (place_all(birds, some, settings)[0] for some in (FOUR, placed_by_hand([ROWS[i] for i in order])))
    nodes = [frame.pivot(index="answer", columns="mapper", values="node") for frame in (there, back)]
    assert np.array_equal(nodes[0].to_numpy()[order], nodes[1].to_numpy())


def test_every_way_places_every_answer(birds: Taxonomy) -> None:
    frame, _, _ = place_all(birds, FOUR, asked("Mine=words"))
    ways = set(zip(frame["base"], frame["way"], strict=True))
    assert ways == {("Mine", ALONE), ("Mine", ALGORITHM), ("default mapper, lexical", DEFAULT)}
    own, expected = frame[frame["way"] == DEFAULT], Mapper(birds).place(FOUR.frame["answer"].tolist())
    assert own["node"].tolist() == [p.node for p in expected]
    assert own["abstained"].tolist() == [p.abstained for p in expected]


def test_measures_see_normalised_answers_and_names(birds: Taxonomy, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[str]] = {}

    class Spy(Words):
        def matrix(self, answers: Any, references: Sequence[str]) -> NDArray[np.float64]:
            seen.update(answers=list(answers), references=list(references))
            return super().matrix(answers, references)

    monkeypatch.setitem(MEASURES, "spy", MeasureKind("spy", "Spy", "", "", lambda *_: Spy("spy", "Spy")))
    place_all(birds, placed_by_hand([("Some Red-Bird!", 1, (), None)]), asked("spy"))
    assert seen["answers"] == ["some red bird"]
    assert {"aves", "american robin"} <= set(seen["references"])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"measures": ("nonsense",)}, "Unknown measure"),
        ({"measures": ("words", "Words=words")}, "Two measures are called 'Words'"),
        ({"measures": ("=words",)}, "name before = is empty"),
        ({"measures": ("a=",)}, "specification is empty"),
        ({"names": "latin"}, "--names has no such value"),
        ({"ties": "first"}, "--ties has no such value"),
        ({"measures": ("words",), "similarity": "word2vec"}, "no such similarity"),
    ],
)
def test_bad_settings(birds: Taxonomy, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], said: str) -> None:
    monkeypatch.setattr(study, "_scored", lambda *_: pytest.fail("answers were scored"))
    with pytest.raises(TaxtuneError, match=said):
        mapping_report(birds, FOUR, asked(*settings.pop("measures", ()), **settings))


def test_a_judge_cannot_place(birds: Taxonomy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Words, "needs_questions", True)
    with pytest.raises(MapperError, match="every name of a tree"):
        place_all(birds, FOUR, asked("words"))


@given(arrays(np.int64, st.tuples(st.integers(1, 12), st.integers(1, 5)), elements=st.integers(0, 3)))
def test_agreement_is_the_share_of_equal_nodes(nodes: np.ndarray) -> None:
    matrix = agreement(pd.DataFrame(nodes)).to_numpy()
    assert np.array_equal(matrix, matrix.T)
    assert (np.diag(matrix) == 1).all()
    assert matrix[0, -1] == pytest.approx((nodes[:, 0] == nodes[:, -1]).mean())
