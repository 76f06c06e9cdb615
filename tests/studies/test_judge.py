"""Correlating measures with people: against SciPy, and with a judge over HTTP."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from taxtune.errors import DataError, TaxtuneError
from taxtune.metrics.base import FunctionMeasure
from taxtune.metrics.registry import make_measure
from taxtune.studies import run
from taxtune.studies.judge import Rater, correlate, judge_answers, rate_answers
from taxtune.studies.judge_settings import JudgeStudySettings
from tests import servers
from tests.servers import OpenAIServer
from tests.studies.reports import cells, records, rows_by

FAST = JudgeStudySettings(file="rated.jsonl", resamples=200, seed=1)


def given(name, word=0):
    """Returns a measure whose score is one word of the answer, as a number."""
    return FunctionMeasure(name, name, lambda answer, _: float(answer.split()[word]))


def constant(name, score):
    """Returns a measure with one score for all answers."""
    return FunctionMeasure(name, name, lambda *_: score)


def rated_answers(texts, human, **more):
    answers = pd.DataFrame({"answer": texts, "human": human})
    answers["row"] = answers.index
    answers["id"] = answers.index.map(str)
    answers["question"] = "Q?"
    answers["references"] = [("cat",)] * len(texts)
    answers[["caption", "group", "category"]] = ""
    return answers.assign(**more)


def judged(texts, human, *measures, **more):
    raters = [Rater(measure.name, measure) for measure in measures]
    return judge_answers(rated_answers(texts, human, **more), raters, FAST)


RNG = np.random.default_rng(0)
HUMAN = RNG.choice([0.0, 0.5, 1.0], size=80).tolist()
NEAR = [f"{value:.6f}" for value in HUMAN + 0.4 * RNG.normal(size=80)]


@pytest.mark.parametrize("levels", [2, 3, None])
@pytest.mark.parametrize("table_size", [None, 0])
def test_each_resample_has_scipys_correlations(levels, table_size, monkeypatch, recorder):
    if table_size is not None:  # every pair of columns counts as large
        monkeypatch.setattr("taxtune.studies.judge._CELLS", table_size)
    rng = np.random.default_rng(3)
    n, resamples = 60, 25
    human = rng.normal(size=n) if levels is None else rng.choice([0, 0.5, 1][:levels], n)
    noise = human + rng.normal(size=n)
    rare = rng.random(n) < 0.2
    coarse = rng.choice(20, n)
    constants = np.full((2, n), [[1], [np.nan]])
    scores = np.stack([noise, rare, coarse, -human, *constants])
    values, drawn = correlate(scores, human, resamples=resamples, seed=7)
    # The first rows are all examples, each once.
    draws = np.random.default_rng(7).integers(0, n, size=(resamples, n))
    draws = np.vstack([np.arange(n), draws])
    found = np.concatenate([values[np.newaxis], drawn])
    for which, scipys in enumerate((stats.spearmanr, stats.kendalltau)):
        for i, row in enumerate(scores[:4]):
            expected = [scipys(row[draw], human[draw]).statistic for draw in draws]
            np.testing.assert_allclose(found[:, which, i], expected, atol=1e-12)
    assert np.isnan(found[:, :, 4:]).all()
    assert recorder.of("resamples")[-1] == (resamples + 1, resamples + 1)
    _, again = correlate(scores, human, resamples=9, seed=7)
    _, other = correlate(scores, human, resamples=9, seed=8)
    np.testing.assert_array_equal(again, drawn[:9])
    assert not np.array_equal(again[:, :, :4], other[:, :, :4])


def test_every_reference_counts_and_the_best_wins():
    references = [("cat", "dog", "cat"), ("fox",)]
    answers = rated_answers(["cat", "cat"], [1.0, 0.0], references=references)
    exact, _ = rate_answers(Rater("EM", make_measure("exact-match")), answers)
    assert exact.tolist() == [1.0, 0.0]
    # Defined for all references at once: their mean, and the rarity of words in all of the file.
    cider, replies = rate_answers(Rater("CIDEr", make_measure("cider")), answers)
    assert cider == pytest.approx([2 / 3 / 4, 0])
    assert replies is None


def test_measures_are_compared_on_the_answers_that_all_of_them_scored():
    report = judged(["nan", *NEAR[1:]], HUMAN, given("a"), make_measure("vqa-accuracy"))
    a, vqa = records(report, "correlations")
    # The paper's values stand beside.
    assert cells(a, "answers", "unscored", "paper 4 ρ") == (79, 1, None)
    assert cells(vqa, "answers", "unscored", "paper 4 ρ") == (79, 0, pytest.approx(0.6013))
    note = "1 of 80 answers are left out because not every measure scored them (unscored: a 1)."
    assert note in report.notes


def test_a_measure_without_scores_and_a_constant_one_have_no_correlation():
    report = judged(NEAR, HUMAN, given("near"), constant("nothing", np.nan), constant("same", 0))
    near, nothing, same = records(report, "correlations")
    assert near["answers"] == 80
    correlations = ("Spearman ρ", "ρ low", "ρ high", "Kendall τ", "τ low", "τ high")
    for row in (nothing, same):
        assert set(cells(row, *correlations)) == {None}
    assert (nothing["mean score"], same["mean score"]) == (None, 0)
    assert "– means undefined" in report.table("correlations").notes[-1]
    # The pair with a constant has no difference; the one with nothing is not in the table.
    (difference,) = records(report, "differences")
    assert cells(difference, "measure", "other", "difference") == ("near", "same", None)
    report.figures["correlations"]()
    same_ratings = judged(NEAR, [1.0] * 80, given("near"))
    assert records(same_ratings, "correlations")[0]["Spearman ρ"] is None


def test_measures_without_scores_or_of_one_name_are_refused():
    with pytest.raises(DataError, match="No answer was scored"):
        judged(NEAR, HUMAN, constant("nothing", np.nan))
    with pytest.raises(DataError, match="each only once"):
        judged(NEAR, HUMAN, given("a"), given("a"))


def test_differences_are_paired_and_adjusted_for_all_pairs():
    noise = [f"{value:.6f}" for value in np.random.default_rng(5).normal(size=80)]
    both = [f"{near} {noisy}" for near, noisy in zip(NEAR, noise, strict=True)]
    words = {"near": 0, "noisy": 1, "near again": 0}
    raters = [Rater(name, given(name, word)) for name, word in words.items()]
    settings = FAST.model_copy(update={"resamples": 999})
    report = judge_answers(rated_answers(both, HUMAN), raters, settings)
    better, same, worse = records(report, "differences")
    scores = np.array([NEAR, noise], dtype=float)
    first, second = (stats.spearmanr(row, HUMAN).statistic for row in scores)
    assert better["difference"] == pytest.approx(first - second)
    assert worse["difference"] == pytest.approx(second - first)
    assert better["low"] > 0
    assert better["p"] == pytest.approx(2 / 1000), "no resample lies on the other side of zero"
    assert cells(same, "difference", "p", "p (t-test)") == (0.0, 1.0, None)
    # Paper 4's test, of the resampled correlations as if they were independent samples.
    _, drawn = correlate(scores, np.array(HUMAN), resamples=999, seed=1)
    expected = stats.ttest_ind(*drawn[:, 0].T, equal_var=False).pvalue
    assert better["p (t-test)"] == pytest.approx(expected)
    # Holm by hand: the smallest of three times three, the next at least as much, the last at most one.
    adjusted = [row["p (Holm)"] for row in (better, worse, same)]
    assert adjusted == pytest.approx([6 / 1000, 6 / 1000, 1.0])


TEXTS = ["cat", "dog", "kitty", "cat", "cats", "mouse"] * 5
RATINGS = [1.0, 0.0, 1.0, 0.0, 1.0, 0.5] * 5
GROUPS = ["A", "B", "A", "B", "B", "A"] * 5
KINDS = ["", "rodent", "synonym", "", "Same stem", ""] * 5
VQA = [make_measure(name) for name in ("vqa-accuracy", "soft-vqa-accuracy")]


def test_groups_have_their_own_correlations():
    report = judged(TEXTS, RATINGS, *VQA, group=GROUPS)
    scores = pd.DataFrame({"human": RATINGS, "is cat": [text == "cat" for text in TEXTS]})
    rho = scores.corr("spearman").iloc[0, 1]
    rho_of_a = scores[np.array(GROUPS) == "A"].corr("spearman").iloc[0, 1]
    row = records(report, "groups")[0]
    assert cells(row, "A", "all") == pytest.approx((rho_of_a, rho))
    of_a = report.data["groups"][0]
    assert cells(of_a, "group", "measure", "answers") == ("A", "vqa-accuracy", 15)
    assert of_a["Spearman ρ"] == pytest.approx(rho_of_a)


def test_correct_answers_that_vqa_accuracy_misses():
    report = judged(TEXTS, RATINGS, *VQA, category=KINDS)
    missed = rows_by(report, "missed", "category")
    # The paper's percentages stand beside categories of the same name.
    columns = ("answers", "% of missed", "paper 4 %")
    assert cells(missed["rodent"], *columns) == (0, 0, None)
    assert cells(missed["synonym"], *columns) == (5, 50, 21.0)
    assert cells(missed["Same stem"], *columns) == (5, 50, 5.75)
    assert cells(missed["all"], *columns) == (10, 100, None)
    assert missed["Same stem"]["soft-vqa-accuracy"] == pytest.approx(2 / 3)
    assert missed["all"]["share"] == pytest.approx(10 / 30)
    assert "5 answers" in report.table("missed").notes[0]
    other_scale = judged(NEAR, [3 * rating for rating in HUMAN], *VQA)
    assert not any(table.name == "missed" for table in other_scale.tables)


# -- a judge over HTTP ------------------------------------------------------------------------------------------------

PEOPLE = {"cat": 1.0, "kitty": 1.0, "a mammal": 0.5, "dog": 0.0}


@pytest.fixture
def rated(tmp_path):
    shared = {"question": "What is it?", "references": ["cat"] * 9 + ["lion"]}
    rows = [shared | {"answer": answer, "human": human} for answer, human in PEOPLE.items()]
    path = tmp_path / "rated.jsonl"
    path.write_text("\n".join(map(json.dumps, rows * 6)))
    return path


def reply(body):
    """Fails for kittens, and gives no rating for mammals."""
    answer = body["messages"][-1]["content"].rsplit("Candidate answer: ", 1)[1]
    if "kitty" in answer:
        return servers.status(400, "no")
    if "mammal" in answer:
        return "No idea."
    return f"So it is.\nRating: {3 if 'cat' in answer else 1}"


def test_what_the_judge_does_not_say_is_counted(rated, tmp_path):
    with OpenAIServer(reply) as server:
        where = {"api_base": server.api_base, "cache_dir": tmp_path}
        report = run("judge", file=rated, judge="openai/x", resamples=50, **where)
        assert len(server.chats) == 4, "an answer that comes again is not asked about again"
    vqa, _, lave = records(report, "correlations")
    assert vqa["unscored"] == 0
    assert cells(lave, "answers", "unscored", "Spearman ρ") == (12, 12, pytest.approx(1.0))
    notes = "\n".join(report.notes)
    assert "12 of 24 answers are left out" in notes
    assert "LAVE (x): 6 of 24 unscored: the judge's reply gives no rating" in notes
    assert "LAVE (x): 6 of 24 unscored: the call failed" in notes
    cat, kitty = report.data["answers"][:2]
    assert cat["rationales"]["LAVE (x)"] == "So it is.\nRating: 3"
    assert np.isnan(kitty["scores"]["LAVE (x)"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"ablations": True}, "--judge"), ({"judge": "nonsense"}, "has no provider")],
)
def test_what_cannot_be_judged_is_refused(settings, message, rated):
    with pytest.raises(TaxtuneError, match=message):
        run("judge", file=rated, resamples=5, **settings)
