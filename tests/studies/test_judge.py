"""Correlating measures with people: against SciPy, and with a judge over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from taxtune.errors import DataError, TaxtuneError
from taxtune.metrics.registry import Measure, make_measure
from taxtune.report.output import StudyReport
from taxtune.studies import run
from taxtune.studies.judge import JudgeStudySettings, Rater, correlate, judge_answers, rate_answers
from tests import servers
from tests.displays import Recorder
from tests.servers import OpenAIServer

FAST = JudgeStudySettings(file="rated.jsonl", resamples=200, seed=1)


class Given(Measure):
    """Scores of the test's own: one word of the answer, as a number."""

    def __init__(self, name: str, word: int = 0) -> None:
        super().__init__(name, name)
        self.word = word

    def scores(self, answers: Any, references: Any, *, questions: Any = None) -> Any:
        return np.array([float(answer.split()[self.word]) for answer in answers])


class Constant(Given):
    """One score for all answers."""

    def __init__(self, name: str, score: float) -> None:
        super().__init__(name)
        self.score = score

    def scores(self, answers: Any, references: Any, *, questions: Any = None) -> Any:
        return np.full(len(answers), self.score)


def rows(texts: list[str], human: list[float], **more: list[Any]) -> pd.DataFrame:
    n = len(texts)
    columns = {
        "row": range(n),
        "id": list(map(str, range(n))),
        "question": "Q?",
        "references": [("cat",)] * n,
    }
    empty = dict.fromkeys(("caption", "group", "category"), "")
    return pd.DataFrame({**columns, "answer": texts, "human": human, **empty, **more})


def judged(
    texts: list[str], human: list[float], *measures: Measure, **more: list[Any]
) -> StudyReport:
    return judge_answers(
        rows(texts, human, **more), [Rater(one.name, one) for one in measures], FAST
    )


RNG = np.random.default_rng(0)
HUMAN = RNG.choice([0.0, 0.5, 1.0], size=80).tolist()
NEAR = [f"{h + 0.4 * x:.6f}" for h, x in zip(HUMAN, RNG.normal(size=80), strict=True)]


@pytest.mark.parametrize("levels", [2, 3, None])
@pytest.mark.parametrize("cells", [None, 0])
def test_each_resample_has_scipys_correlations(
    levels: int | None, cells: int | None, monkeypatch: pytest.MonkeyPatch, recorder: Recorder
) -> None:
    if cells is not None:  # every pair of columns counts as large
        monkeypatch.setattr("taxtune.studies.judge._CELLS", cells)
    rng = np.random.default_rng(3)
    n, resamples = 60, 25
    human = rng.normal(size=n) if levels is None else rng.choice([0, 0.5, 1][:levels], n)
    noise, rare = human + rng.normal(size=n), (rng.random(n) < 0.2) * 1.0
    scores = np.stack(
        [noise, rare, rng.choice(20, n) * 1.0, -human, np.ones(n), np.full(n, np.nan)]
    )
    values, drawn = correlate(scores, human, resamples=resamples, seed=7)
    draws = np.random.default_rng(7).integers(0, n, size=(resamples, n))
    for i, row in enumerate(scores[:4]):
        for which, name in enumerate(("spearmanr", "kendalltau")):
            scipys = getattr(stats, name)
            assert values[which, i] == pytest.approx(scipys(row, human).statistic)
            expected = [scipys(row[draw], human[draw]).statistic for draw in draws]
            np.testing.assert_allclose(drawn[:, which, i], expected, atol=1e-12)
    assert np.isnan(values[:, 4:]).all()
    assert np.isnan(drawn[:, :, 4:]).all()
    assert recorder.of("resamples")[-1] == (resamples + 1, resamples + 1)
    again, other = (correlate(scores, human, resamples=9, seed=seed)[1] for seed in (7, 8))
    np.testing.assert_array_equal(again, drawn[:9])
    assert not np.array_equal(again[:, :, :4], other[:, :, :4])


def test_every_reference_counts_and_the_best_wins() -> None:
    answers = rows(["cat", "cat"], [1.0, 0.0], references=[("cat", "dog", "cat"), ("fox",)])
    assert rate_answers(Rater("EM", make_measure("exact-match")), answers)[0].tolist() == [
        1.0,
        0.0,
    ]
    # Defined for all references at once: their mean, and the rarity of words in all of the file.
    cider, replies = rate_answers(Rater("CIDEr", make_measure("cider")), answers)
    assert cider == pytest.approx([2 / 3 / 4, 0])
    assert replies is None


def test_measures_are_compared_on_the_answers_that_all_of_them_scored() -> None:
    report = judged(["nan", *NEAR[1:]], HUMAN, Given("a"), make_measure("vqa-accuracy"))
    records = report.table("correlations").records()
    assert [record["answers"] for record in records] == [79, 79]
    assert [record["unscored"] for record in records] == [1, 0]
    assert (
        "1 of 80 answers are left out because not every measure scored them (unscored: a 1)."
        in report.notes
    )
    # The paper's values stand beside.
    assert [record["paper 4 ρ"] for record in records] == [None, pytest.approx(0.6013)]


def test_a_measure_without_scores_and_a_constant_one_have_no_correlation() -> None:
    report = judged(NEAR, HUMAN, Given("near"), Constant("nothing", np.nan), Constant("same", 0))
    near, nothing, same = report.table("correlations").records()
    assert near["answers"] == 80
    for record in (nothing, same):
        assert [
            record[key] for key in ("Spearman ρ", "ρ low", "ρ high", "Kendall τ", "τ low", "τ high")
        ] == [None] * 6
    assert (nothing["mean score"], same["mean score"]) == (None, 0)
    assert "– means undefined" in report.table("correlations").notes[-1]
    # The pair with a constant has no difference; the one with nothing is not in the table.
    (difference,) = report.table("differences").records()
    assert (difference["measure"], difference["other"], difference["difference"]) == (
        "near",
        "same",
        None,
    )
    report.figures["correlations"]()
    with pytest.raises(DataError, match="No answer was scored"):
        judged(NEAR, HUMAN, Constant("nothing", np.nan))
    with pytest.raises(DataError, match="each only once"):
        judged(NEAR, HUMAN, Given("a"), Given("a"))
    same_ratings = judged(NEAR, [1.0] * 80, Given("near"))
    assert same_ratings.table("correlations").records()[0]["Spearman ρ"] is None


def test_differences_are_paired_and_adjusted_for_all_pairs() -> None:
    noisy = np.random.default_rng(5).normal(size=80)
    both = [f"{near} {noise:.6f}" for near, noise in zip(NEAR, noisy, strict=True)]
    raters = [
        Rater(name, Given(name, word))
        for name, word in (("near", 0), ("noisy", 1), ("near again", 0))
    ]
    report = judge_answers(rows(both, HUMAN), raters, FAST.model_copy(update={"resamples": 999}))
    better, same, worse = report.table("differences").records()
    first, second = ([float(text.split()[word]) for text in both] for word in (0, 1))
    expected = stats.spearmanr(first, HUMAN).statistic - stats.spearmanr(second, HUMAN).statistic
    assert (better["difference"], worse["difference"]) == (
        pytest.approx(expected),
        pytest.approx(-expected),
    )
    assert better["low"] > 0  # type: ignore[operator]
    assert better["p"] == pytest.approx(2 / 1000), "no resample lies on the other side of zero"
    assert (same["difference"], same["p"], same["p (t-test)"]) == (0.0, 1.0, None)
    # Paper 4's test, of the resampled correlations as if they were independent samples.
    drawn = correlate(np.array([first, second]), np.array(HUMAN), resamples=999, seed=1)[1][:, 0]
    assert better["p (t-test)"] == pytest.approx(stats.ttest_ind(*drawn.T, equal_var=False).pvalue)
    # Holm by hand: the smallest of three times three, the next at least as much, the last at most one.
    assert [row["p (Holm)"] for row in (better, worse, same)] == pytest.approx(
        [6 / 1000, 6 / 1000, 1.0]
    )


def test_groups_and_what_vqa_accuracy_misses() -> None:
    texts = ["cat", "dog", "kitty", "cat", "cats", "mouse"] * 5
    human = [1.0, 0.0, 1.0, 0.0, 1.0, 0.5] * 5
    groups, kinds = (
        ["A", "B", "A", "B", "B", "A"] * 5,
        ["", "rodent", "synonym", "", "Same stem", ""] * 5,
    )
    measures = [make_measure(name) for name in ("vqa-accuracy", "soft-vqa-accuracy")]
    raters = [Rater(one.name, one) for one in measures]
    report = judge_answers(rows(texts, human, group=groups, category=kinds), raters, FAST)
    found = report.table("groups").records()[0]
    inside = [i for i, group in enumerate(groups) if group == "A"]
    scores = [float(text == "cat") for text in texts]
    expected = stats.spearmanr([scores[i] for i in inside], [human[i] for i in inside]).statistic
    assert found["A"] == pytest.approx(expected)
    assert found["all"] == pytest.approx(stats.spearmanr(scores, human).statistic)
    inside_a = report.data["groups"][0]
    assert [inside_a[key] for key in ("group", "measure", "answers")] == ["A", "vqa-accuracy", 15]
    assert inside_a["Spearman ρ"] == pytest.approx(expected)
    missed = {record["category"]: record for record in report.table("missed").records()}
    assert {name: record["answers"] for name, record in missed.items()} == {
        "rodent": 0, "synonym": 5, "Same stem": 5, "all": 10
    }  # fmt: skip
    # The paper's percentages stand beside categories of the same name.
    beside = {name: (record["% of missed"], record["paper 4 %"]) for name, record in missed.items()}
    assert beside == {
        "rodent": (0, None),
        "synonym": (50, 21.0),
        "Same stem": (50, 5.75),
        "all": (100, None),
    }
    assert missed["Same stem"]["soft-vqa-accuracy"] == pytest.approx(2 / 3)
    assert missed["all"]["share"] == pytest.approx(10 / 30)
    assert "5 answers" in report.table("missed").notes[0]

    other_scale = judge_answers(rows(NEAR, [3 * rating for rating in HUMAN]), raters, FAST)
    assert not any(table.name == "missed" for table in other_scale.tables)


# -- a judge over HTTP ------------------------------------------------------------------------------------------------

PEOPLE = {
    "cat": [1, 1, 1, 1, 1],
    "kitty": [1, 1, 1, 1, 0],
    "a mammal": [1, 1, 0, 0, 0],
    "dog": [0, 0, 0, 0, 1],
}


@pytest.fixture
def rated(tmp_path: Path) -> Path:
    shared = {"question": "What is it?", "references": ["cat"] * 9 + ["lion"]}
    lines = [
        json.dumps({**shared, "answer": answer, "human": human}) for answer, human in PEOPLE.items()
    ]
    (tmp_path / "rated.jsonl").write_text("\n".join(lines * 6))
    return tmp_path / "rated.jsonl"


def test_what_the_judge_does_not_say_is_counted(rated: Path, tmp_path: Path) -> None:
    def half(body: dict[str, Any]) -> servers.Reply | str:
        answer = body["messages"][-1]["content"].rsplit("Candidate answer: ", 1)[1]
        if "kitty" in answer:
            return servers.status(400, "no")
        return (
            "No idea."
            if "mammal" in answer
            else f"So it is.\nRating: {3 if 'cat' in answer else 1}"
        )

    with OpenAIServer(half) as server:
        told = {
            "judge": "openai/x",
            "resamples": 50,
            "api_base": server.api_base,
            "cache_dir": tmp_path,
        }
        report = run("judge", file=rated, **told)
        assert len(server.chats) == 4, "an answer that comes again is not asked about again"
    vqa, _, lave = report.table("correlations").records()
    assert (lave["answers"], lave["unscored"], vqa["unscored"]) == (12, 12, 0)
    assert lave["Spearman ρ"] == pytest.approx(1.0)
    for note in (
        "12 of 24 answers are left out",
        "LAVE (x): 6 of 24 unscored: the judge's reply gives no rating",
        "LAVE (x): 6 of 24 unscored: the call failed",
    ):
        assert any(note in one for one in report.notes)
    cat, kitty = report.data["answers"][:2]
    assert cat["rationales"]["LAVE (x)"] == "So it is.\nRating: 3"
    assert np.isnan(kitty["scores"]["LAVE (x)"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ablations": True}, "--judge"),
        ({"judge": "nonsense"}, "has no provider"),
    ],
)
def test_what_cannot_be_judged_is_refused(
    settings: dict[str, Any], message: str, rated: Path
) -> None:
    with pytest.raises(TaxtuneError, match=message):
        run("judge", file=rated, resamples=5, **settings)
