"""Which column of a file has the answers and which the truths, where nobody says."""

from __future__ import annotations

import io

import pandas as pd
import pytest

from taxtune.answers import AnswerSchema, read_answers
from taxtune.errors import DataError
from taxtune.taxonomy import Taxonomy

TREE = Taxonomy.from_dict({"bird": {"duck": ["mallard", "teal"], "heron": ["great egret"]}})


def table(records, **schema):
    return read_answers(records, AnswerSchema(taxonomy=TREE, id=None, **schema))


def read(records, **schema):
    """Returns the answer and the label of the target of each record."""
    rows = table(records, **schema).rows
    return [(row.answer, TREE.labels[row.target]) for row in rows]


@pytest.mark.parametrize(
    ("answer", "truth", "is_noted"),
    [
        ("answer", "truth", False),
        ("answer", "target", False),
        ("answer", "label", True),
        ("prediction", "gt", True),
        ("Model Output", "Class Name", True),
        ("response", "kind shown", True),  # by its values
        ("prediction", "answer", True),
        ("pred", "truth", True),
        ("y_pred", "y_true", True),
    ],
)
def test_the_two_sides_are_found(answer, truth, is_noted):
    said = "a teal, I think"
    record = {"image": "a.jpg", answer: said, truth: "mallard", "question": "What is this?"}
    turned = dict(reversed(record.items()))
    for records in ([record], [turned]):
        assert read(records) == [(said, "mallard")]
        notes = "\n".join(table(records).notes)
        assert ("taken: " in notes) is is_noted


@pytest.mark.parametrize(
    ("group", "truth"), [("category", "answer"), ("class", "species"), ("kind", "label")]
)
def test_a_group_beside_the_truth_is_not_the_truth(group, truth):
    records = [
        {group: "duck", truth: "mallard", "prediction": "a teal"},
        {group: "heron", truth: "great egret", "prediction": "a heron"},
    ]
    assert read(records) == [("a teal", "mallard"), ("a heron", "great egret")]


def test_the_truth_beside_a_group_that_it_is_not_in_goes_by_its_name():
    records = [
        {"kind": "duck", "label": "mallard", "prediction": "a teal"},
        {"kind": "duck", "label": "great egret", "prediction": "teal"},
    ]
    assert read(records) == [("a teal", "mallard"), ("teal", "great egret")]
    records = [{"species": "teal", "answer": "mallard", "prediction": "a mallard"}]
    with pytest.raises(DataError, match="It may be 'answer', 'species'"):
        read(records)


def test_a_copy_of_the_truths_is_no_answer_where_there_is_another():
    records = [{"gt": "teal", "answer": "teal", "response": "a mallard"}]
    assert read(records) == [("a mallard", "teal")]
    copies = [{"gt": "teal", "answer": "teal"}]
    assert read(copies) == [("teal", "teal")]
    records.append({"gt": "mallard", "answer": "duck", "response": "teal"})
    assert read(records)[1] == ("duck", "mallard")


def test_columns_that_are_named_count_and_a_wrong_name_is_an_error():
    record = {"prediction": "teal", "other": "mallard", "label": "teal", "gt": "great egret"}
    assert read([record], answer="other", truth="label") == [("mallard", "teal")]
    record = {"prediction": "teal", "label": "teal"}
    with pytest.raises(DataError, match=r"no column 'anser'"):
        read([record], answer="anser")
    with pytest.raises(DataError, match=r"no column 'troth'"):
        read([record], truth="troth")


def test_one_column_is_never_both_sides():
    refusal = r"both what is scored and the truth|no column"
    with pytest.raises(DataError, match=refusal):
        read([{"answer": "teal"}], truth="answer")
    with pytest.raises(DataError, match=refusal):
        read([{"label": "teal"}], answer="label", truth="label")
    with pytest.raises(DataError, match=refusal):
        read([{"label": "teal", "answer": "teal"}], placement="label", truth="label")


def test_where_the_truth_is_the_answer_column_the_answers_are_elsewhere():
    records = [{"answer": "teal", "prediction": "a mallard"}]
    assert read(records, truth="answer") == [("a mallard", "teal")]


def test_two_columns_that_may_be_the_truth_are_not_guessed():
    record = {"prediction": "teal", "gt": "mallard", "label": "teal"}
    with pytest.raises(DataError, match=r"'gt', 'label'. Name it with --truth-column"):
        read([record])
    record["gt"] = "an old one"
    assert read([record]) == [("teal", "teal")]


FAILED = "[LMMS_EVAL_REQUEST_FAILED_AFTER_3_RETRIES] timed out"


@pytest.mark.parametrize(
    "cell", [FAILED, [FAILED], [[FAILED]], [FAILED, FAILED], "Failed to obtain answer via API."]
)
def test_what_another_tool_writes_for_a_failed_call_is_no_answer(cell):
    records = [
        {"target": "teal", "filtered_resps": cell},
        {"target": "teal", "filtered_resps": [["a teal"]]},
    ]
    problem = r"1 of 2 rows cannot be used:\n  row 1: filtered_resps is missing: '.*ailed|FAIL"
    with pytest.raises(DataError, match=problem):
        read(records)
    assert read(records, missing="leave-out") == [("a teal", "teal")]
    assert read(records, missing="keep") == [(None, "teal"), ("a teal", "teal")]


def test_of_several_guesses_those_that_came_count():
    records = [{"target": "teal", "resps": [FAILED, "teal", "mallard"]}]
    assert read(records) == [("teal", "teal")]


def test_a_photo_of_nothing_is_told_how_to_go_on():
    advice = r"row 1: truth: 'a tree' is not .*\n.*may have its root as its label"
    with pytest.raises(DataError, match=advice):
        read([{"truth": "a tree", "answer": "nothing"}])
    with pytest.raises(DataError) as told:
        read([{"truth": "teal", "answer": None}])
    assert "its root" not in str(told.value)


def test_truths_that_name_nothing_are_told_apart():
    labels = ["empty", "unidentified duck", "unknown", "teal", "empty"]
    records = [{"truth": label, "answer": "a teal"} for label in labels]
    assert [truth for _, truth in read(records)] == ["bird", "duck", "teal", "bird"]
    said = "\n".join(table(records).notes)
    assert "2 of 4 targets: 'empty' is nothing of the tree: its root, 'bird'" in said
    assert "1 of 4 targets: 'unidentified duck' is of an unnamed kind: the group 'duck'" in said
    assert "1 of 5 rows are left out: target 'unknown' is not known" in said


def test_a_frame_that_lost_a_label_says_how_pandas_keeps_it():
    frame = pd.read_csv(io.StringIO("truth,answer\nteal,a teal\nNone,nothing\n"))
    renamed = frame.set_axis(["gt", "prediction"], axis=1)
    for data in (frame, renamed):
        with pytest.raises(DataError, match=r"row 2: .* is missing.*\n.*keep_default_na=False"):
            read(data)
    with pytest.raises(DataError) as told:
        read([{"truth": None, "answer": "a teal"}])
    assert "keep_default_na" not in str(told.value)


def test_numbers_of_pandas_and_parquet_are_labels():
    tree = Taxonomy.from_dict({"digit": ["7", "12"]})
    records = [{"label": 7.0, "prediction": "seven"}, {"label": 12.0, "prediction": "7"}]
    rows = read_answers(records, AnswerSchema(taxonomy=tree, id=None)).rows
    assert [tree.labels[row.target] for row in rows] == ["7", "12"]
