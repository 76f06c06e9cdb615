from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from taxtune.errors import DataError
from taxtune.metrics.registry import PairwiseMeasure, make_measure
from taxtune.metrics.statistics import percentiles
from taxtune.studies.judge import JudgeSettings
from taxtune.studies.judge.human_ratings import RatedAnswer, RatedAnswers
from taxtune.studies.judge.study import Rater, judge_answers, score_answers

FAST = JudgeSettings(file="rated.jsonl", resamples=200, seed=1)


class Given(PairwiseMeasure):
    """Scores that the test makes up: an answer's own text is its score with any reference."""

    def __init__(self, name: str, shift: float = 0.0, needs: str = "") -> None:
        super().__init__(name, name)
        self.shift = shift
        self.needs_images = needs == "images"

    def scores(self, answers: Any, references: Any, images: Any = None, *, questions: Any = None) -> Any:
        return np.array([float(a.split()[0]) + self.shift * len(r) for a, r in zip(answers, references, strict=True)])


def rows(texts: list[str], human: list[float], **more: list[Any]) -> RatedAnswers:
    made = [
        RatedAnswer(i, str(i), "Q?", ("cat",), text, rating, **{key: values[i] for key, values in more.items()})
        for i, (text, rating) in enumerate(zip(texts, human, strict=True))
    ]
    return RatedAnswers("rated.jsonl", tuple(made), ())


RNG = np.random.default_rng(0)
HUMAN = RNG.choice([0.0, 0.5, 1.0], size=80).tolist()
NEAR = [f"{h + 0.4 * x:.6f}" for h, x in zip(HUMAN, RNG.normal(size=80), strict=True)]


def test_the_table_holds_scipys_correlations() -> None:
    report = judge_answers(rows(NEAR, HUMAN), [Rater("near", Given("near"))], FAST)
    (record,) = report.table("correlations").records()
    scores = [float(text) for text in NEAR]
    assert record["answers"] == 80
    assert record["mean score"] == pytest.approx(np.mean(scores))
    assert record["Spearman ρ"] == pytest.approx(stats.spearmanr(scores, HUMAN).statistic)
    assert record["Kendall τ"] == pytest.approx(stats.kendalltau(scores, HUMAN).statistic)
    assert record["ρ low"] < record["Spearman ρ"] < record["ρ high"]
    assert 0 < record["ρ high"] - record["ρ low"] < 0.3


def test_every_reference_counts_and_the_best_wins() -> None:
    answers = rows(["1"], [1.0])
    longer = RatedAnswer(0, "0", "", ("a", "abc", "ab"), "1", 1.0)
    values, said = score_answers(Rater("x", Given("x", shift=0.5)), [longer])
    assert values.tolist() == [1 + 0.5 * 3]
    assert said is None
    vqa, _ = score_answers(
        Rater("vqa", make_measure("vqa-accuracy")), [RatedAnswer(0, "0", "", ("a cat",) * 10, "cat", 1)]
    )
    assert vqa.tolist() == [1.0]
    # Defined for all references at once: their mean, and the rarity of words in all of the file.
    two = [
        RatedAnswer(0, "0", "", ("cat", "dog", "cat"), "cat", 1.0),
        RatedAnswer(1, "1", "", ("fox",), "cat", 0.0),
    ]
    cider, _ = score_answers(Rater("CIDEr", make_measure("cider")), two)
    assert cider == pytest.approx([2 / 3 / 4, 0])
    with pytest.raises(DataError, match="needs images"):
        score_answers(Rater("clip", Given("clip", needs="images")), answers.rows)


def test_measures_are_compared_on_the_answers_that_all_of_them_scored() -> None:
    texts = ["nan", *NEAR[1:]]
    report = judge_answers(
        rows(texts, HUMAN), [Rater("a", Given("a")), Rater("vqa", make_measure("vqa-accuracy"))], FAST
    )
    records = report.table("correlations").records()
    assert [record["answers"] for record in records] == [79, 79]
    assert [record["unscored"] for record in records] == [1, 0]
    assert "1 of 80 answers are left out because not every measure scored them (unscored: a 1)." in report.notes


def test_a_measure_without_scores_and_a_constant_one_have_no_correlation() -> None:
    class Nothing(Given):
        def scores(self, answers: Any, references: Any, images: Any = None, *, questions: Any = None) -> Any:
            return np.full(len(answers), np.nan)

    class Same(Given):
        def scores(self, answers: Any, references: Any, images: Any = None, *, questions: Any = None) -> Any:
            return np.zeros(len(answers))

    raters = [Rater("near", Given("near")), Rater("nothing", Nothing("nothing")), Rater("same", Same("same"))]
    report = judge_answers(rows(NEAR, HUMAN), raters, FAST)
    near, nothing, same = report.table("correlations").records()
    assert near["answers"] == 80
    for record in (nothing, same):
        assert [record[key] for key in ("Spearman ρ", "ρ low", "ρ high", "Kendall τ", "τ low", "τ high")] == [None] * 6
    assert nothing["mean score"] is None
    assert same["mean score"] == 0
    assert "–" in report.table("correlations").markdown()
    assert any("nothing scored no answer" in note for note in report.notes)
    # The pair with a constant has no difference; the one with nothing is not there at all.
    (difference,) = report.table("differences").records()
    assert (difference["measure"], difference["other"], difference["difference"]) == ("near", "same", None)
    report.figures["correlations"]()
    with pytest.raises(DataError, match="No answer was scored"):
        judge_answers(rows(NEAR, HUMAN), [Rater("nothing", Nothing("nothing"))], FAST)


def test_ratings_that_are_all_the_same() -> None:
    report = judge_answers(rows(NEAR, [1.0] * 80), [Rater("near", Given("near"))], FAST)
    assert report.table("correlations").records()[0]["Spearman ρ"] is None
    assert "The human ratings are all the same, so correlations are undefined." in report.notes


def test_differences_are_paired() -> None:
    noisy = [f"{x:.6f}" for x in np.random.default_rng(5).normal(size=80)]
    both = [f"{a} {b}" for a, b in zip(NEAR, noisy, strict=True)]

    class Second(Given):
        def scores(self, answers: Any, references: Any, images: Any = None, *, questions: Any = None) -> Any:
            return np.array([float(answer.split()[1]) for answer in answers])

    raters = [Rater("near", Given("near")), Rater("noisy", Second("noisy")), Rater("near again", Given("near again"))]
    report = judge_answers(rows(both, HUMAN), raters, replace(FAST, resamples=999))
    better, same, worse = report.table("differences").records()
    first, second = [float(t.split()[0]) for t in both], [float(t.split()[1]) for t in both]
    expected = stats.spearmanr(first, HUMAN).statistic - stats.spearmanr(second, HUMAN).statistic
    assert better["difference"] == pytest.approx(expected)
    assert better["low"] > 0
    assert better["p"] == pytest.approx(2 / 1000), "no resample lies on the other side of zero"
    assert better["p (t-test)"] < 1e-12
    assert (same["difference"], same["p"], same["p (t-test)"]) == (0.0, 1.0, None)
    assert worse["difference"] == pytest.approx(-expected)
    # Holm by hand: the smallest of three times three, the next at least as much, the last at most one.
    assert better["p (Holm)"] == pytest.approx(3 * better["p"])
    assert worse["p (Holm)"] == pytest.approx(max(3 * better["p"], 2 * worse["p"]))
    assert same["p (Holm)"] == 1.0


def test_p_values_are_adjusted_for_all_pairs() -> None:
    """Holm (1979), step by step: the k-th smallest of m counts m - k + 1 times, and no less than the one before."""
    noise = np.random.default_rng(7).normal(size=80)
    wide = [f"{h + 0.9 * x:.6f} {0.9 * h - x:.6f}" for h, x in zip(HUMAN, noise, strict=True)]

    class Second(Given):
        def scores(self, answers: Any, references: Any, images: Any = None, *, questions: Any = None) -> Any:
            return np.array([float(answer.split()[1]) for answer in answers])

    class Long(Given):
        def scores(self, answers: Any, references: Any, images: Any = None, *, questions: Any = None) -> Any:
            return np.array([float(len(answer)) for answer in answers])

    raters = [Rater("first", Given("first")), Rater("second", Second("second")), Rater("long", Long("long"))]
    records = judge_answers(rows(wide, HUMAN), raters, FAST).table("differences").records()
    plain = sorted(float(record["p"]) for record in records)
    assert len(set(plain)) > 1, "equal p-values would tell nothing"
    least, expected = 0.0, []
    for k, p in enumerate(plain):
        least = max(least, min(1.0, (3 - k) * p))
        expected.append(least)
    assert sorted(float(record["p (Holm)"]) for record in records) == pytest.approx(expected)


def test_groups_and_what_vqa_accuracy_misses() -> None:
    texts = ["cat", "dog", "kitty", "cat", "cats", "mouse"] * 5
    human = [1.0, 0.0, 1.0, 0.0, 1.0, 0.5] * 5
    groups, kinds = ["A", "B", "A", "B", "B", "A"] * 5, ["", "rodent", "synonym", "", "Same stem", ""] * 5
    raters = [Rater(name, make_measure(name)) for name in ("vqa-accuracy", "soft-vqa-accuracy")]
    report = judge_answers(rows(texts, human, group=groups, category=kinds), raters, FAST)
    found = report.table("groups").records()[0]
    inside = [i for i, group in enumerate(groups) if group == "A"]
    scores = [float(text == "cat") for text in texts]
    expected = stats.spearmanr([scores[i] for i in inside], [human[i] for i in inside]).statistic
    assert found["A"] == pytest.approx(expected)
    assert found["all"] == pytest.approx(stats.spearmanr(scores, human).statistic)
    assert report.data["groups"]["A"]["answers"] == 15
    assert report.data["groups"]["A"]["vqa-accuracy"]["rho"] == pytest.approx(expected)
    missed = {record["category"]: record for record in report.table("missed").records()}
    assert {name: record["answers"] for name, record in missed.items()} == {
        "rodent": 0, "synonym": 5, "Same stem": 5, "all": 10
    }  # fmt: skip
    # The paper's percentages stand beside categories of the same name.
    beside = {name: (record["% of missed"], record["paper 4 %"]) for name, record in missed.items()}
    assert beside == {"rodent": (0, None), "synonym": (50, 21.0), "Same stem": (50, 5.75), "all": (100, None)}
    assert sum(record["percent"] for record in report.table("paper4-table1").records()) == 125.75  # as the note says
    assert missed["Same stem"]["soft-vqa-accuracy"] == pytest.approx(2 / 3)
    assert missed["all"]["share"] == pytest.approx(10 / 30)
    assert "5 answers" in report.table("missed").notes[0]
    report.figures["correlations"]()


def test_ratings_on_another_scale_have_no_table_of_what_is_missed() -> None:
    raters = [Rater("vqa", make_measure("vqa-accuracy"))]
    report = judge_answers(rows(NEAR, [3 * rating for rating in HUMAN]), raters, FAST)
    assert not any(table.name == "missed" for table in report.tables)


def test_the_same_seed_gives_the_same_numbers() -> None:
    reports = [
        judge_answers(rows(NEAR, HUMAN), [Rater("a", Given("a"))], replace(FAST, resamples=100, seed=seed))
        for seed in (3, 3, 4)
    ]
    a, b, c = (report.table("correlations").records() for report in reports)
    assert a == b
    assert a != c


def test_the_papers_values_stand_beside() -> None:
    raters = [Rater("VQA accuracy", make_measure("vqa-accuracy")), Rater("a", Given("a")), Rater("C", Given("cider"))]
    report = judge_answers(rows(NEAR, HUMAN), raters, FAST)
    beside = [record["paper 4 ρ"] for record in report.table("correlations").records()]
    assert beside == [pytest.approx(0.6013), None, pytest.approx(0.6388)]
    paper = {record["label"]: record for record in report.table("paper4-table2").records()}
    assert paper["LAVE (GPT-3.5)"]["overall"] == 68.91
    assert len(paper) == 9


def test_names_are_needed_once() -> None:
    with pytest.raises(DataError, match="each only once"):
        judge_answers(rows(NEAR, HUMAN), [Rater("a", Given("a"))] * 2, FAST)
    with pytest.raises(DataError, match="each only once"):
        judge_answers(rows(NEAR, HUMAN), [], FAST)


def test_an_interval_leaves_out_undefined_resamples() -> None:
    assert percentiles(np.array([0.0, np.nan, 1.0])) == pytest.approx((0.025, 0.975))
    assert np.isnan(percentiles(np.array([np.nan]))).all()


def test_the_figure_is_drawn(tmp_path: Path) -> None:
    from taxtune.report.drawing import save_figure

    groups = [f"group {i % 9}" for i in range(80)]
    report = judge_answers(rows(NEAR, HUMAN, group=groups), [Rater("a", Given("a"))], FAST)
    png, svg = save_figure(report.figures["correlations"], tmp_path / "figure")
    assert png.stat().st_size > 5_000
    assert svg.stat().st_size > 5_000


def test_long_names_do_not_shrink_the_plot() -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    groups = [f"a model on a data set of a long name, {i % 7}" for i in range(80)]
    report = judge_answers(rows(NEAR, HUMAN, group=groups), [Rater("a", Given("a"))], FAST)
    figure = report.figures["correlations"]()
    FigureCanvasAgg(figure).draw()
    (legend,) = figure.legends
    assert legend.get_window_extent().width <= figure.bbox.width
    assert figure.axes[0].get_xlabel().endswith("1 more group is in the table")
