from __future__ import annotations

import math

import numpy as np
import pytest

from taxtune.errors import DataError
from taxtune.metrics.registry import Measure, make_measure
from taxtune.scoring.texts import mean_interval, measure_answers
from tests.answers.reading import column, read_file


class QuestionLength(Measure):
    """Scores an answer by the length of its question."""

    needs_questions = True

    def scores(self, answers, references, *, questions=None):
        return np.array([float(len(question)) for question in questions])


def read(*records, **schema):
    return read_file(list(records), reference="reference", **schema)


def measure(name, answers):
    return measure_answers(make_measure(name), answers).tolist()


def test_the_best_of_several_references_counts():
    answers = read(
        {"answer": "gray seal", "references": ["walrus", "a seal", "..."]},
        {"answer": "", "references": ["seal"]},
        {"answer": "seal", "references": ["..."]},
    )
    best, empty, unscored = measure("rouge-1", answers)
    assert best == 0.5
    assert empty == 0.0
    assert math.isnan(unscored)  # no reference with a word
    _, note = answers.notes
    assert "answers have several references; the best one counts" in note


def test_measures_defined_for_all_references_get_them_all():
    answers = read({"answer": "red", "references": ["red", "red", "blue", "blue", "blue"]})
    # Without each reference in turn: 1/3 twice and 2/3 three times. The best reference alone would give 1.
    assert measure("vqa-accuracy", answers) == [pytest.approx(8 / 15)]


def test_csv_with_other_columns_and_lists(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text(
        'said,truth\nseal,"[""walrus"", ""seal""]"\n[sic],[sic]\n,seal\n', encoding="utf-8"
    )
    columns = {"answer": "said", "reference": "truth"}
    with pytest.raises(DataError, match=r"row 4: said is missing[\s\S]*--missing leave-out"):
        read_file(file, **columns)
    kept = read_file(file, **columns, missing="leave-out")
    assert column(kept.rows, "references") == [("walrus", "seal"), ("[sic]",)]
    assert kept.unanswered == (4,)
    assert "1 of 3 rows are left out" in kept.notes[0]
    silent = read_file(file, **columns, missing="keep")
    assert measure("exact-match", silent) == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ({"answer": 3, "reference": "seal"}, "answer is not text: 3"),
        ({"answer": "seal", "reference": ""}, "not a text or a list of texts"),
        ({"answer": "seal", "reference": []}, "not a text or a list of texts"),
        ({"answer": "seal", "reference": ["seal", None]}, "not a text or a list of texts"),
        ({"answer": None, "reference": "seal"}, "answer is missing"),
        ({"answer": "seal", "target": "seal"}, "no column 'reference'"),
        ({"reference": "seal"}, "no column 'answer'"),
    ],
)
def test_rows_that_cannot_be_measured_are_named(record, text):
    with pytest.raises(DataError, match=text):
        read(record)


def test_questions_go_with_their_rows_and_none_may_lack():
    record = {"answer": "a", "references": ["b", "c"]}
    short = record | {"question": "?"}
    long = record | {"question": "??"}
    judge = QuestionLength("judge", "Judge")
    assert measure_answers(judge, read(short, long)).tolist() == [1.0, 2.0]
    with pytest.raises(DataError, match="needs the question of every answer"):
        measure_answers(judge, read(short, record))


def test_the_interval_is_that_of_the_mean():
    rng = np.random.default_rng(0)
    shares = rng.random(400)
    hits = (rng.random(4000) < 0.3).astype(float)
    for scores in (shares, hits):
        interval = mean_interval([*scores, math.nan])
        mean = scores.mean()
        assert interval.estimate == pytest.approx(mean)
        # The percentiles of a mean of many are those of a normal distribution.
        half = 1.96 * scores.std() / math.sqrt(len(scores))
        assert interval.low == pytest.approx(mean - half, abs=half / 4)
        assert interval.high == pytest.approx(mean + half, abs=half / 4)
        assert interval == mean_interval(scores)
    assert mean_interval([math.nan]) is None
    assert mean_interval([0.5]) == mean_interval([0.5, 0.5])


def test_rows_may_have_one_reference_or_several_under_either_name():
    one = {"answer": "seal", "reference": "seal"}
    several = {"answer": "seal", "references": ["walrus", "seal"]}
    empty = {"answer": "seal", "reference": None, "references": ["walrus"]}
    rows = read(one, several, empty).rows
    assert column(rows, "references") == [("seal",), ("walrus", "seal"), ("walrus",)]
    problem = r"row 2: references is not a text or a list of texts: None"
    with pytest.raises(DataError, match=problem):
        read(several, {"answer": "seal"})
