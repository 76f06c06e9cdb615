"""Ranking models under text measures and metrics."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taxtune.errors import DataError
from taxtune.metrics.registry import FloatArray, Measure, make_measure
from taxtune.report.output import StudyReport
from taxtune.studies import run
from taxtune.taxonomy import Taxonomy

BLACKBIRD, MALLARD = 4, 8


class Same(Measure):
    """1 where answer and reference are the same text; unscored where the answer is "?"."""

    def __init__(self) -> None:
        super().__init__("same", "EM")

    def scores(
        self, answers: Any, references: Any, images: Any = None, *, questions: Any = None
    ) -> FloatArray:
        return np.array(
            [
                np.nan if a == "?" else float(a == b)
                for a, b in zip(answers, references, strict=True)
            ]
        )


def rows(
    *answers: str | None, targets: Sequence[int] = (BLACKBIRD, MALLARD)
) -> list[tuple[str | None, int]]:
    return list(zip(answers, targets, strict=True))


MODELS = {"careful": rows("thrush", "bird"), "bold": rows("blackbird", "American robin")}

Study = Callable[..., StudyReport]


@pytest.fixture
def study(birds: Taxonomy, tmp_path: Path) -> Study:
    """Ranks models by rows of answers and targets."""

    def ranked(
        models: Mapping[str, Sequence[tuple[str | None, int]]], *measures: Measure, **settings: Any
    ) -> StudyReport:
        files = []
        for name, answers in models.items():
            path = tmp_path / f"{name}.jsonl"
            asked = {"question": "What bird is this?"}
            lines = [
                json.dumps(asked | {"id": i, "answer": answer, "target": birds.labels[target]})
                for i, (answer, target) in enumerate(answers)
            ]
            path.write_text("\n".join(lines), encoding="utf-8")
            files.append(f"{name}={path}")
        return run(
            "ranking",
            taxonomy=birds,
            files=files,
            measure=measures or Same(),
            **({"resamples": 200} | settings),
        )

    return ranked


def records(report: StudyReport, name: str) -> list[dict[str, Any]]:
    return report.table(name).records()


def test_a_hand_computed_ranking(study: Study) -> None:
    report = study(MODELS)
    careful, bold = records(report, "scores")
    # life/Aves/Passeriformes/Turdidae/Turdus merula: "thrush" shares 4 of 4 and of 5; "bird" 2 of 2 and of 5.
    assert careful == pytest.approx(
        {
            "model": "careful",
            "answers": 2,
            "missing": 0,
            "abstained": 0,
            "off the tree": 0,
            "EM": 0.0,
            "accuracy": 0.0,
        }
        | {"hR": (4 / 5 + 2 / 5) / 2, "hP": 1.0, "hF": 0.75}
    )
    # "blackbird" is right; "American robin" shares life and Aves of 5 with the mallard.
    assert bold == pytest.approx(
        {
            "model": "bold",
            "answers": 2,
            "missing": 0,
            "abstained": 0,
            "off the tree": 0,
            "EM": 50.0,
            "accuracy": 50.0,
        }
        | {"hR": 0.7, "hP": 0.7, "hF": 0.7}
    )
    assert records(report, "ranks") == [
        {"model": "careful", "EM": 2, "accuracy": 2, "hR": 2, "hP": 1, "hF": 1},
        {"model": "bold", "EM": 1, "accuracy": 1, "hR": 1, "hP": 2, "hF": 2},
    ]
    (chart,) = report.figures["ranks"]().axes
    marks = {bars.get_label(): bars.lines[0].get_ydata().tolist() for bars in chart.containers}
    assert marks == {"careful": [2, 2, 2, 1, 1], "bold": [1, 1, 1, 2, 2]}
    assert chart.yaxis_inverted(), "the best is on top"
    assert [(row["measure"], row["τ"]) for row in records(report, "tau")] == [
        ("EM", -1.0),
        ("accuracy", -1.0),
        ("hR", -1.0),
        ("hP", 1.0),
    ]


def test_a_missing_answer_is_counted_and_no_zero(study: Study) -> None:
    report = study({**MODELS, "shy": rows(None, "mallard")})
    shy = records(report, "scores")[2]
    assert (shy["answers"], shy["missing"], shy["EM"], shy["hF"]) == (1, 1, 100.0, 1.0)
    # On the one example that both answered, the shy model beats either.
    assert [row["EM"] for row in records(report, "ranks")] == [3, 2, 1]
    notes = " ".join(report.as_json()["table_notes"]["scores"])
    assert "1 answer is missing" in notes
    assert "'Aves', the lowest node above all targets, would have hP 1.000, hR 0.400" in notes


def test_another_models_answers_do_not_change_what_cider_weighs(study: Study) -> None:
    two = {"careful": rows("thrush", "bird"), "bold": rows("a blackbird", "American robin")}
    three = {**two, "long": rows("a bird like a blackbird", "a blue mallard, or no mallard")}
    found = [
        {
            row["model"]: row["CIDEr"]
            for row in records(study(models, make_measure("cider")), "scores")
        }
        for models in (two, three)
    ]
    # Of two targets: "a" is in neither and weighs as much as "blackbird". One right of two examples, in percent.
    assert found[0] == {"careful": 0.0, "bold": pytest.approx(100 / np.sqrt(2) / 4 / 2)}
    assert found[1] == {**found[0], "long": pytest.approx(found[1]["long"])}
    assert 0 < found[1]["long"] < 25


def test_references_are_common_names_labels_or_whichever_fits(study: Study) -> None:
    models = {
        "latin": rows("Turdus merula", "Anas platyrhynchos"),
        "other": rows("common blackbird", "mallard"),
    }
    expected = {"common-name": [0, 50], "label": [100, 0], "any-name": [100, 100]}
    for reference, scores in expected.items():
        assert [
            row["EM"] for row in records(study(models, reference=reference), "scores")
        ] == scores
    votes = study(models, make_measure("vqa-accuracy"), reference="any-name")
    assert [row["VQA accuracy"] for row in records(votes, "scores")] == [100, 100], (
        "a name is no vote"
    )


def test_what_cannot_be_ranked_is_refused(study: Study) -> None:
    with pytest.raises(DataError, match="at least two models"):
        study({"only": rows("bird", "bird")})
    with pytest.raises(DataError, match="No model has answers"):
        study({"a": rows(None, None), "b": rows(None, None)})
    judge = Same()
    judge.needs_questions = True
    with pytest.raises(DataError, match="--question-column"):
        study(MODELS, judge)
    with pytest.raises(DataError, match="careful: Row 1 has no asked"):
        study(MODELS, judge, question_column="asked")
    assert records(study(MODELS, judge, question_column="question"), "ranks")
    with pytest.raises(DataError, match="same heading"):
        study(MODELS, Same(), Same())
