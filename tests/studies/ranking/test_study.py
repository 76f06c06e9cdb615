"""Ranking models under text measures and metrics."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from taxtune.errors import DataError
from taxtune.metrics.base import FunctionMeasure
from taxtune.metrics.registry import make_measure
from taxtune.report.output import StudyReport
from taxtune.studies import run
from tests.studies.reports import cells, marks, records, rows_by

#: The answers of each model about a blackbird and a mallard.
MODELS = {"careful": ("thrush", "bird"), "bold": ("blackbird", "American robin")}

Study = Callable[..., StudyReport]


def is_same(answer, reference, *_question):
    return float(answer == reference)


SAME = FunctionMeasure("same", "EM", is_same)
ALIKE = FunctionMeasure("alike", "EM", is_same)
ASKING = FunctionMeasure("same", "EM", is_same, needs_question=True)


@pytest.fixture
def study(birds, tmp_path):
    """Ranks models by their answers."""

    def ranked(models, *measures, **settings):
        files = []
        for name, answers in models.items():
            lines = []
            for target, answer in zip(
                ("Turdus merula", "Anas platyrhynchos"), answers, strict=True
            ):
                row = {"id": target, "question": "What bird is this?"}
                lines.append(json.dumps(row | {"answer": answer, "target": target}))
            path = tmp_path / f"{name}.jsonl"
            path.write_text("\n".join(lines), encoding="utf-8")
            files.append(f"{name}={path}")
        chosen = {"measure": measures or SAME, "resamples": 200} | settings
        return run("ranking", taxonomy=birds, files=files, **chosen)

    return ranked


def test_a_hand_computed_ranking(study):
    report = study(MODELS)
    careful, bold = records(report, "scores")
    for row in (careful, bold):
        assert cells(row, "answers", "missing", "abstained", "off the tree") == (2, 0, 0, 0)
    # life/Aves/Passeriformes/Turdidae/Turdus merula: "thrush" shares 4 of 4 and of 5; "bird" 2 of 2 and of 5.
    metrics = ("EM", "accuracy", "hR", "hP", "hF")
    hr = (4 / 5 + 2 / 5) / 2
    assert careful["model"] == "careful"
    assert cells(careful, *metrics) == pytest.approx((0, 0, hr, 1, 0.75))
    # "blackbird" is right; "American robin" shares life and Aves of 5 with the mallard.
    assert cells(bold, *metrics) == pytest.approx((50, 50, 0.7, 0.7, 0.7))
    ranks = rows_by(report, "ranks", "model")
    assert cells(ranks["careful"], *metrics) == (2, 2, 2, 1, 1)
    assert cells(ranks["bold"], *metrics) == (1, 1, 1, 2, 2)
    (chart,) = report.figures["ranks"]().axes
    drawn = marks(chart)
    assert drawn["careful"] == [2, 2, 2, 1, 1]
    assert drawn["bold"] == [1, 1, 1, 2, 2]
    assert chart.yaxis_inverted(), "the best is on top"
    taus = {row["measure"]: row["τ"] for row in records(report, "tau")}
    assert taus == {"EM": -1.0, "accuracy": -1.0, "hR": -1.0, "hP": 1.0}


def test_a_missing_answer_is_counted_and_no_zero(study):
    report = study({**MODELS, "shy": (None, "mallard")})
    shy = records(report, "scores")[2]
    assert cells(shy, "answers", "missing", "EM", "hF") == (1, 1, 100.0, 1.0)
    # On the one example that both answered, the shy model beats either.
    assert [row["EM"] for row in records(report, "ranks")] == [3, 2, 1]
    notes = " ".join(report.table("scores").notes)
    assert "1 answer is missing" in notes
    assert "'Aves', the lowest node above all targets, would have hP 1.000, hR 0.400" in notes


def test_another_models_answers_do_not_change_what_cider_weighs(study):
    def scores(models):
        rows = records(study(models, make_measure("cider")), "scores")
        return {row["model"]: row["CIDEr"] for row in rows}

    two = {"careful": ("thrush", "bird"), "bold": ("a blackbird", "American robin")}
    long = {"long": ("a bird like a blackbird", "a blue mallard, or no mallard")}
    alone, together = scores(two), scores(two | long)
    # Of two targets: "a" is in neither and weighs as much as "blackbird". One right of two examples, in percent.
    assert alone == {"careful": 0.0, "bold": pytest.approx(100 / np.sqrt(2) / 4 / 2)}
    assert 0 < together.pop("long") < 25
    assert together == alone


@pytest.mark.parametrize(
    ("reference", "scores"),
    [("common-name", [0, 50]), ("label", [100, 0]), ("any-name", [100, 100])],
)
def test_references_are_common_names_labels_or_whichever_fits(study, reference, scores):
    latin = {"latin": ("Turdus merula", "Anas platyrhynchos")}
    models = latin | {"other": ("common blackbird", "mallard")}
    found = study(models, reference=reference)
    assert [row["EM"] for row in records(found, "scores")] == scores
    votes = study(models, make_measure("vqa-accuracy"), reference="any-name")
    accuracies = [row["VQA accuracy"] for row in records(votes, "scores")]
    assert accuracies == [100, 100], "a name is no vote"


@pytest.mark.parametrize(
    ("models", "measures", "settings", "message"),
    [
        ({"only": ("bird", "bird")}, [SAME], {}, "at least two models"),
        ({"a": (None, None), "b": (None, None)}, [SAME], {}, "No model has answers"),
        (MODELS, [ASKING], {}, "--question-column"),
        (MODELS, [ASKING], {"question_column": "asked"}, "careful: Row 1 has no asked"),
        (MODELS, [SAME, ALIKE], {}, "same heading"),
    ],
)
def test_what_cannot_be_ranked_is_refused(study, models, measures, settings, message):
    with pytest.raises(DataError, match=message):
        study(models, *measures, **settings)


def test_a_measure_gets_the_questions_of_a_column(study):
    assert records(study(MODELS, ASKING, question_column="question"), "ranks")
