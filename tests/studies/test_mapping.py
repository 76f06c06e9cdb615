"""Placing answers by measures, alone and with Algorithm 1: by hand, and what reads placed answers."""

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
from numpy.typing import NDArray

from taxtune.errors import DataError, MapperError, TaxtuneError
from taxtune.mapping import Mapper, MapperConfig, Similarity
from taxtune.metrics.registry import MEASURES, Measure, MeasureKind
from taxtune.metrics.statistics import bootstrap, hierarchical_sample
from taxtune.report.output import StudyReport
from taxtune.studies import mapping as study
from taxtune.studies.mapping import (
    ALGORITHM,
    ALONE,
    DEFAULT,
    MappingSettings,
    mapping_report,
    place_all,
)
from taxtune.studies.scorers import (
    UNPLACED,
    AnnotatedAnswers,
    MeasureSimilarity,
    NodeNames,
    make_scorers,
    nearest_nodes,
    read_annotated,
    tree_names,
)
from taxtune.studies.settings import ModelSettings, TreeSettings
from taxtune.taxonomy import Taxonomy
from tests.unsure import Unsure

Row = tuple[str, int, Iterable[int], str | None]
NAN = float("nan")
#: An answer that holds this word is left unscored.
UNSCORED = "unscorable"


class Words(Measure):
    """The share of the reference's words that the answer has."""

    calls = 0

    @property
    def notes(self) -> tuple[str, ...]:
        return ("counts words",)

    def scores(
        self,
        answers: Sequence[str],
        references: Sequence[str],
        *,
        questions: Sequence[str] | None = None,
    ) -> NDArray[np.float64]:
        Words.calls += len(answers)
        found = []
        for answer, reference in zip(answers, references, strict=True):
            said, asked = set(answer.lower().split()), reference.lower().split()
            found.append(
                np.nan if UNSCORED in said else sum(word in said for word in asked) / len(asked)
            )
        return np.array(found)


KIND = MeasureKind(
    "words",
    "Words",
    "share of the reference's words",
    "made up",
    lambda *_: Words("words", "Words"),
)


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEASURES, KIND.kind, KIND)


def asked(*measures: str, **more: Any) -> MappingSettings:
    """The settings of a study whose answers and tree are given beside them."""
    chosen = {"measure": measures} if measures else {}
    return MappingSettings(file=Path("made.jsonl"), taxonomy="birds.csv", **chosen, **more)


def placed_by_hand(rows: Iterable[Row]) -> AnnotatedAnswers:
    filled = [
        (i, answer, node, frozenset({node, *also}), style)
        for i, (answer, node, also, style) in enumerate(rows)
    ]
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
    return next(
        record for record in report.table(name).records() if next(iter(record.values())) == first
    )


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
    default = row(report, "mapping", "default mapper, lexical")
    assert (default["hP"], default["accuracy"], default["on the root"]) == (1, 0.75, 1)
    assert list(row(report, "mapping-agreement", "Words").values()) == ["Words", 1, 0.75, 0.75]
    styles = {
        (row["style"], row["mapper"]): row for row in report.table("mapping-styles").records()
    }
    for name in ("Words", "Words + Alg. 1", "default mapper, lexical"):
        coarse = styles["coarse", name]
        assert (coarse["n"], coarse["hF"], coarse["acceptable"]) == (
            2,
            pytest.approx(2 * 1 * 0.9 / 1.9),
            1,
        )
    adds = row(report, "mapping-differences", "Words + Alg. 1")
    assert (adds["second"], adds["accuracy"]) == ("Words", 0.25)
    assert adds["hF"] == pytest.approx(2 * 1 * 0.95 / 1.95 - 2 * 0.8 * 0.95 / 1.75)
    assert (
        report.data["answers"][3]["placed"]["Words"]
        == "life/Aves/Passeriformes/Turdidae/Turdus merula"
    )
    # The intervals are the bootstrap's; of the share that is acceptable, against drawing the answers 20,000 times.
    ends = row(report, "mapping-intervals", "Words")
    expected = bootstrap(
        hierarchical_sample(birds, [4, 1, 3, 4], FOUR.frame["target"]), resamples=300, seed=5
    )["hf"]
    assert (ends["hF low"], ends["hF high"]) == (expected.low, expected.high)
    drawn = np.array([1, 1, 1, 0])[np.random.default_rng(0).integers(0, 4, size=(20_000, 4))].mean(
        axis=1
    )
    brute = np.quantile(drawn, [0.025, 0.975]).tolist()
    assert [ends["acceptable low"], ends["acceptable high"]] == pytest.approx(brute, abs=0.01)


def test_what_the_confidence_of_the_default_mapper_is_worth(
    birds: Taxonomy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        study, "Mapper", lambda *given, **more: (Unsure if more else Mapper)(*given, **more)
    )
    rows: list[Row] = [("a bird", 1, (), None)] * 6 + [
        ("a thrush", 4, (), None),
        ("zebra?", 0, (), None),
    ]
    rows += [("a blackbird?", 8, (), None), ("", 1, (), None)]
    report = mapping_report(birds, placed_by_hand(rows), asked("words", resamples=20))
    # Of the eight sure ones (.9) six are right, the blank one's root and the thrush are not; of the doubtful (.4) one.
    risks = [0.25, 0.25, 0.25, 0.25, 0.3]
    worth = row(report, "mapping-confidence", "default mapper, lexical")
    assert (worth.pop("mapper"), worth.pop("n")) == ("default mapper, lexical", 10)
    assert list(worth.values()) == pytest.approx([*risks, 0.8 * 0.15 + 0.2 * 0.1])


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
        assert [row(report, "mapping", name)[key] for key in ("n", "unscored", "accuracy")] == [
            1,
            1,
            1,
        ]
        styles = {
            (row["style"], row["mapper"]): row["hF"]
            for row in report.table("mapping-styles").records()
        }
        assert styles["b", name] is None
    assert row(report, "mapping", "default mapper, lexical")["n"] == 2
    assert report.data["answers"][1]["placed"]["Words"] is None
    assert "Words: counts words" in report.notes
    # Nothing scored at all is a dash, and draws.
    report = mapping_report(
        birds, placed_by_hand([(UNSCORED, 1, (), None)] * 3), asked("words", resamples=20)
    )
    assert row(report, "mapping", "Words")["hF"] is None
    assert row(report, "mapping-agreement", "Words")["Words + Alg. 1"] is None
    for stem, draw in report.figures.items():
        assert all(path.stat().st_size > 1000 for path in save_figure(draw, tmp_path / stem))


def test_blank_long_and_repeated_answers(birds: Taxonomy) -> None:
    rows: list[Row] = [("bird", 1, (), None)] * 10_000 + [("", 0, (), None), ("🐦", 0, (), None)]
    Words.calls = 0
    placed, notes, _ = place_all(
        birds, placed_by_hand([*rows, ("bird " * 200_000, 1, (), None)]), asked("words")
    )
    assert Words.calls == 2 * 15  # two distinct answers and 15 distinct names
    for _, some in placed.groupby("mapper"):
        assert some["node"].tolist() == [1] * 10_000 + [0, 0, 1]
    assert any("2 answers have no letter or digit" in note for note in notes)
    assert any("1 answers are truncated to their first 4,000 characters" in note for note in notes)
    report = mapping_report(
        birds, placed_by_hand([("", 1, (), None), ("?", 1, (), None)]), asked("words")
    )
    for record in report.table("mapping").records():
        assert (record["hP"], record["hR"], record["on the root"]) == (1, 0.5, 2)


def test_the_seed_decides_and_the_order_of_the_file_does_not(birds: Taxonomy) -> None:
    def made(seed: int) -> str:
        settings = asked("words", "lexical", ties="random", seed=seed, resamples=100)
        return json.dumps(mapping_report(birds, FOUR, settings).as_json(), sort_keys=True)

    assert made(3) == made(3)
    assert made(3) != made(4)
    order, settings = [2, 0, 3, 1], asked("words", ties="random")
    there, back = (
        place_all(birds, some, settings)[0]
        for some in (FOUR, placed_by_hand([ROWS[i] for i in order]))
    )
    nodes = [
        frame.pivot(index="answer", columns="mapper", values="node") for frame in (there, back)
    ]
    assert np.array_equal(nodes[0].to_numpy()[order], nodes[1].to_numpy())


def test_every_way_places_every_answer(birds: Taxonomy) -> None:
    frame, _, _ = place_all(birds, FOUR, asked("Mine=words"))
    ways = set(zip(frame["base"], frame["way"], strict=True))
    assert ways == {("Mine", ALONE), ("Mine", ALGORITHM), ("default mapper, lexical", DEFAULT)}
    own, expected = (
        frame[frame["way"] == DEFAULT],
        Mapper(birds).place(FOUR.frame["answer"].tolist()),
    )
    assert own["node"].tolist() == [p.node for p in expected]
    assert own["abstained"].tolist() == [p.abstained for p in expected]


def test_measures_see_normalised_answers_and_names(
    birds: Taxonomy, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, list[str]] = {}

    class Spy(Words):
        def matrix(self, answers: Any, references: Sequence[str]) -> NDArray[np.float64]:
            seen.update(answers=list(answers), references=list(references))
            return super().matrix(answers, references)

    monkeypatch.setitem(
        MEASURES, "spy", MeasureKind("spy", "Spy", "", "", lambda *_: Spy("spy", "Spy"))
    )
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
def test_bad_settings(
    birds: Taxonomy, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], said: str
) -> None:
    monkeypatch.setattr(study, "_scored", lambda *_: pytest.fail("answers were scored"))
    with pytest.raises(TaxtuneError, match=said):
        mapping_report(birds, FOUR, asked(*settings.pop("measures", ()), **settings))


def test_a_judge_cannot_place(birds: Taxonomy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Words, "needs_questions", True)
    with pytest.raises(MapperError, match="every name of a tree"):
        place_all(birds, FOUR, asked("words"))


# -- scorers ----------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4), min_size=1, max_size=8),
    st.integers(0, 1000),
)
def test_the_best_name_decides(names: list[list[str]], seed: int) -> None:
    columns = NodeNames.of(names)
    scores = np.random.default_rng(seed).random((3, len(columns.vocabulary))).astype(np.float32)
    scores[0, 0] = NAN  # gives way to a name that has a score
    value = columns.vocabulary.index
    expected = [[np.nanmax([row[value(n)] for n in g] + [-1]) for g in names] for row in scores]
    assert np.array_equal(
        np.nan_to_num(columns.best(scores), nan=-1), np.array(expected, dtype=np.float32)
    )


def test_all_names_or_the_common_one(birds: Taxonomy) -> None:
    assert {"Aves", "bird", "common blackbird"} <= set(tree_names(birds).vocabulary)
    assert set(tree_names(birds, "common").vocabulary) == {
        "life", "bird", "Passeriformes", "thrush", "blackbird", "American robin", "Anseriformes", "Anatidae", "mallard",
    }  # fmt: skip


def test_ties_by_each_rule(birds: Taxonomy) -> None:
    row = np.zeros(len(birds), dtype=np.float32)
    row[[2, 4, 5]] = (
        0.7,
        0.7 - 1e-8,
        0.7,
    )  # Passeriformes and two thrushes; fractions computed in another order
    lone = np.full(len(birds), NAN, dtype=np.float32)
    lone[6] = -0.3
    table = np.stack(
        [row, np.eye(len(birds), dtype=np.float32)[7], np.full(len(birds), NAN, np.float32), lone]
    )
    nodes, tied = nearest_nodes(birds, table)
    assert nodes.tolist() == [4, 7, UNPLACED, 6]
    assert tied.tolist() == [3, 1, 0, 1]
    assert nearest_nodes(birds, table, ties="ancestor")[0].tolist() == [2, 7, UNPLACED, 6]
    drawn = {
        int(nearest_nodes(birds, table, ties="random", rng=np.random.default_rng(s))[0][0])
        for s in range(40)
    }
    assert drawn == {2, 4, 5}


def test_batches_change_nothing(birds: Taxonomy) -> None:
    texts = [f"{word} {i}" for i in range(100) for word in ("bird", "mallard", "nothing")]
    (scorer,) = make_scorers(["mine=lexical"], tree_names(birds), ModelSettings(), measures=False)
    assert (scorer.name, scorer.spec) == ("mine", "lexical")
    batches = list(scorer.tables(texts))
    assert len(batches) > 1
    assert [text for batch, _ in batches for text in batch] == texts
    table = np.concatenate([part for _, part in batches])
    assert np.allclose(table, scorer.names.best(scorer.similarity.scores(texts)))


def test_a_measure_is_a_mapper_s_similarity(birds: Taxonomy) -> None:
    similarity = MeasureSimilarity(Words("words", "Words"))
    assert isinstance(similarity, Similarity)
    mapper = Mapper(birds, similarity, MapperConfig(preset="paper-listing"))
    # "thrush" is not said verbatim as a name of the robin, but "robin" is half of one.
    assert mapper.place_one("some robin").node == 5
    assert mapper.place_one("a thrush").node == 3
    assert (similarity.scores([UNSCORED]) == -1).all()
    assert np.isnan(similarity.table([UNSCORED])).all()
    # A repeated name is scored once.
    similarity.fit(["duck", "blue jay", "duck"])
    Words.calls = 0
    assert similarity.scores(["duck jay"]).tolist() == [[1.0, 0.5, 1.0]]
    assert Words.calls == 2


# -- answers that people have placed ----------------------------------------------------------------------------------


def write(folder: Path, content: str | list[dict[str, object]]) -> Path:
    path = folder / ("placed.csv" if isinstance(content, str) else "placed.jsonl")
    text = (
        content
        if isinstance(content, str)
        else "".join(json.dumps(record) + "\n" for record in content)
    )
    path.write_text(text, encoding="utf-8")
    return path


def test_jsonl_with_everything(tmp_path: Path, birds: Taxonomy) -> None:
    records: list[dict[str, object]] = [
        {
            "answer": "a bird",
            "node": "blackbird",
            "also": ["life/Aves", "Turdidae"],
            "style": "bare",
        },
        {"answer": "", "node": None, "also": [], "style": "coarse"},
        {"answer": "عصفور 🐦", "node": ["Animals", "Aves"], "also": []},
    ]
    read = read_annotated(write(tmp_path, records), birds)
    assert read.frame["answer"].tolist() == ["a bird", "", "عصفور 🐦"]
    assert read.frame["target"].tolist() == [4, 0, 1]
    assert read.frame["acceptable"].tolist() == [{4, 1, 3}, {0}, {1}]
    assert read.frame["row"].tolist() == [1, 2, 3]
    assert read.frame["style"].tolist() == ["bare", "coarse", None]
    assert [note[:6] for note in read.notes] == ["1 of 3"] * 2
    assert "the root" in read.notes[0]
    assert "path of another tree" in read.notes[1]


def test_csv_whose_rows_lack_an_answer_or_a_node(tmp_path: Path, birds: Taxonomy) -> None:
    path = write(
        tmp_path, "answer,node,also\na thrush,thrush,Aves; Passeriformes\n,thrush,\nzebra,,\n"
    )
    read = read_annotated(path, birds)
    assert read.frame["acceptable"].tolist() == [{3, 1, 2}, {0}]
    assert read.frame["style"].tolist() == [None, None]
    assert "1 of 3 rows are left out: no answer" in read.notes
    assert read.excluded == ({"file": str(path), "row": 3, "reason": "no answer"},)


def test_nodes_outside_a_part_are_left_out_and_counted(tmp_path: Path, birds: Taxonomy) -> None:
    _, part = TreeSettings(taxonomy=birds, root="thrush").read_tree()
    assert part is not None
    path = write(
        tmp_path, "answer,node,also\na duck,mallard,\na thrush,blackbird,mallard\nno idea,,\n"
    )
    read = read_annotated(path, part.tree, part=part)
    assert read.frame["target"].map(part.tree.labels.__getitem__).tolist() == [
        "Turdus merula",
        "Turdidae",
    ]
    assert read.excluded == ({"file": str(path), "row": 2, "reason": "node outside Turdidae"},)
    assert any("acceptable nodes outside Turdidae" in note for note in read.notes)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"answer": "x", "node": "dodo"}, "row 2: node: 'dodo' is not on the taxonomy"),
        ({"answer": "x", "node": {"a": 3}}, "row 2: node is not a label or a path: {'a': 3}"),
        ({"answer": ["x"], "node": "bird"}, "row 2: answer is not text"),
        ({"answer": "x", "node": "bird", "also": ["dodo"]}, "row 2: also: 'dodo'"),
        ({"answer": "x", "node": "bird", "also": True}, "row 2: also is not a label"),
    ],
)
def test_bad_rows_are_named(
    tmp_path: Path, birds: Taxonomy, record: dict[str, object], said: str
) -> None:
    path = write(tmp_path, [{"answer": "y", "node": "bird"}, record])
    with pytest.raises(DataError) as caught:
        read_annotated(path, birds)
    assert said in str(caught.value)
    assert "1 of 2 rows cannot be used" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("answer\nx\n", "no column 'node'"),
        ("answer,node\n,bird\n", "No usable rows are left"),
        ("answer,node\n" + "x,dodo\n" * 50, "and 45 more: node: 'dodo'"),
    ],
)
def test_bad_files(tmp_path: Path, birds: Taxonomy, text: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_annotated(write(tmp_path, text), birds)
