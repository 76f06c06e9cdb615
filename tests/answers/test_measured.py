from __future__ import annotations

import json
import math

import numpy as np
import pytest

from taxtune.errors import DataError
from taxtune.metrics.registry import Measure, make_measure
from taxtune.scoring.texts import mean_interval, measure_answers
from tests.answers.reading import read_file as read_any


class _Question(Measure):
    needs_questions = True

    def scores(self, answers, references, *, questions=None):
        return np.array([float(len(question)) for question in questions])


def read_file(path, **schema):
    return read_any(path, reference="reference", **schema)


def lines(path, *records):
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    return path


def test_the_best_of_several_references_counts(tmp_path):
    file = lines(
        tmp_path / "a.jsonl",
        {"answer": "gray seal", "references": ["walrus", "a seal", "..."]},
        {"answer": "", "references": ["seal"]},
        {"answer": "seal", "references": ["..."]},
    )
    answers = read_file(file)
    scores = measure_answers(make_measure("rouge-1"), answers)
    assert scores[:2].tolist() == [0.5, 0.0]
    assert math.isnan(scores[2])  # no reference with a word: unscored
    assert "best" in answers.notes[0]


def test_measures_defined_for_all_references_get_them_all(tmp_path):
    file = lines(
        tmp_path / "a.jsonl",
        {"answer": "red", "references": ["red", "red", "blue", "blue", "blue"]},
    )
    # Without each reference in turn: 1/3 twice and 2/3 three times. The best reference alone would give 1.
    assert measure_answers(make_measure("vqa-accuracy"), read_file(file)).tolist() == [
        pytest.approx(8 / 15)
    ]


def test_csv_with_other_columns_and_lists(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text(
        'said,truth\nseal,"[""walrus"", ""seal""]"\n[sic],[sic]\n,seal\n', encoding="utf-8"
    )
    columns = {"answer": "said", "reference": "truth"}
    with pytest.raises(DataError, match=r"row 4: said is missing[\s\S]*--missing leave-out"):
        read_any(file, **columns)
    kept = read_any(file, **columns, missing="leave-out")
    assert [row.references for row in kept.rows] == [("walrus", "seal"), ("[sic]",)]
    assert kept.unanswered == (4,)
    assert "1 of 3 rows are left out" in kept.notes[0]
    silent = read_any(file, **columns, missing="keep")
    assert measure_answers(make_measure("exact-match"), silent).tolist() == [1.0, 1.0, 0.0]


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
def test_rows_that_cannot_be_measured_are_named(tmp_path, record, text):
    with pytest.raises(DataError, match=text):
        read_file(lines(tmp_path / "a.jsonl", record))


def test_questions_go_with_their_rows_and_none_may_lack(tmp_path):
    rows = [{"answer": "a", "references": ["b", "c"], "question": "?" * n} for n in (1, 2)]
    measure = _Question("judge", "Judge")
    assert measure_answers(measure, read_file(lines(tmp_path / "a.jsonl", *rows))).tolist() == [
        1.0,
        2.0,
    ]
    lacking = read_file(lines(tmp_path / "b.jsonl", rows[0], {"answer": "a", "references": ["b"]}))
    with pytest.raises(DataError, match="needs the question of every answer"):
        measure_answers(measure, lacking)


def test_the_interval_is_that_of_the_mean():
    rng = np.random.default_rng(0)
    for scores in (rng.random(400), (rng.random(4000) < 0.3).astype(float)):
        interval = mean_interval([*scores, math.nan])
        assert interval is not None
        assert interval.estimate == pytest.approx(scores.mean())
        # The percentiles of a mean of many are those of a normal distribution.
        half = 1.96 * scores.std() / math.sqrt(len(scores))
        assert interval.low == pytest.approx(scores.mean() - half, abs=half / 4)
        assert interval.high == pytest.approx(scores.mean() + half, abs=half / 4)
        assert interval == mean_interval(scores)
    assert mean_interval([math.nan]) is None
    assert mean_interval([0.5]) == mean_interval([0.5, 0.5])


def test_rows_may_have_one_reference_or_several_under_either_name(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text(
        '{"answer": "seal", "reference": "seal"}\n{"answer": "seal", "references": ["walrus", "seal"]}\n'
        '{"answer": "seal", "reference": null, "references": ["walrus"]}\n'
    )
    rows = read_file(path).rows
    assert [row.references for row in rows] == [("seal",), ("walrus", "seal"), ("walrus",)]
    path.write_text('{"answer": "seal", "references": ["seal"]}\n{"answer": "seal"}\n')
    with pytest.raises(
        DataError, match=r"row 2: references is not a text or a list of texts: None"
    ):
        read_file(path)
