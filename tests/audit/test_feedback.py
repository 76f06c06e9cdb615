"""Verdicts that people gave in MLflow, as `taxtune audit --from mlflow` reads them."""

from __future__ import annotations

import json
from functools import partial

import pandas as pd
import pytest

from taxtune.audit.feedback import verdicts_of
from taxtune.audit.sample import answer_id
from taxtune.errors import DataError
from taxtune.taxonomy import Taxonomy
from taxtune.tracking import MLflowTracker, TrackingCallback
from taxtune.tracking.review import Judged, read_judged
from taxtune.tracking.store import store_with
from taxtune.tuning.history import read_note
from tests.cli.commands import run_captured, run_json, run_refused
from tests.tuning.toy import make_parts, tuned

TREE = Taxonomy.from_paths(["food/soup/pho", "food/cake"])


def judged(example, verdict=None, node=None):
    return Judged(f"tr-{example}", example, "food/soup", "verbatim", verdict, node)


def test_feedback_becomes_the_rows_of_a_file_of_verdicts():
    answers = {"a": "soup", "b": "a cake", "c": "pho", "d": "tea"}
    said = [
        judged("a", True),
        judged("b", False, " cake "),
        judged("c", "Too general"),
        judged("d"),
        judged("e", "right"),  # an image of another template's
    ]
    rows = verdicts_of(said, answers, TREE)
    verdicts = {row["answer"]: (row["verdict"], row["node"]) for row in rows.values()}
    assert verdicts == {
        "soup": ("right", ""),
        "a cake": ("wrong", "cake"),
        "pho": ("too general", ""),
    }
    assert rows[answer_id("soup")]["placement"] == "food/soup"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ([judged("a", "fine")], "trace tr-a.*Unknown verdict.*right, too general, wrong"),
        ([judged("a", None, "strudel")], "trace tr-a.*not on the tree"),
        ([judged("a", True), judged("b", False)], "trace tr-b.*Another trace judges this answer"),
    ],
)
def test_what_cannot_be_used_is_named_by_its_trace(said, message):
    with pytest.raises(DataError) as caught:
        verdicts_of(said, {"a": "soup", "b": "soup"}, TREE)
    assert pd.Series([" ".join(str(caught.value).split())]).str.contains(message).all()


def test_a_file_of_answers_has_no_traces(tmp_path):
    (tmp_path / "answers.txt").write_text("pho\n")
    (tmp_path / "tree.csv").write_text("path\nfood/pho\n")
    said = run_refused(
        "audit", tmp_path / "answers.txt", "-t", tmp_path / "tree.csv", "--from", "mlflow"
    )
    assert "Give the folder of a run" in said


def test_a_run_without_traces_says_what_to_do(tmp_path):
    run = tmp_path / "run"
    tuned(make_parts(tmp_path / "recipe", run, overrides=("iterations=1",)), run)
    said = run_refused("audit", run, "--from", "mlflow")
    assert "MLflow has no traces of these held-out images" in said
    assert "judge in audit.csv" in said


@pytest.mark.heavy
def test_verdicts_in_mlflow_and_in_the_file_make_one_summary(tmp_path, monkeypatch):
    from mlflow.entities import AssessmentSource, Feedback
    from mlflow.tracing.client import TracingClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    run = tmp_path / "run"
    recording = TrackingCallback(partial(MLflowTracker, "toy", run))
    parts = make_parts(tmp_path / "recipe", run, overrides=("iterations=1",))
    tuned(parts, run, callbacks=[recording])

    done = run_captured("audit", run, "--from", "mlflow", "--json")
    assert (done.code, done.out) == (0, "")
    assert "nobody has judged in MLflow yet" in done.err
    heldout = json.loads((run / "result.json").read_text())["heldout"][-1]["rows"]
    answers = {row["example"]: row["placed"]["answer"] for row in heldout}
    file = run / "audit.csv"
    sample = pd.read_csv(file, dtype=str, keep_default_na=False)
    # All twelve images have a trace, so that the sample is whatever was answered.
    assert sample["draws"].astype(int).sum() == 12
    assert dict(zip(sample["answer"], sample["draws"].astype(int), strict=True)) == (
        pd.Series(answers.values()).value_counts().to_dict()
    )

    # One answer is judged in the file, and the others in MLflow.
    mine, *others = sample["answer"]
    sample.loc[0, "verdict"] = "wrong"
    sample.to_csv(file, index=False)
    identity = read_note(run, "mlflow_run")
    store = store_with(run, identity)
    client = TracingClient(store.uri)
    for each in read_judged(store, identity, "winner"):
        if answers[each.example] in others:
            person = AssessmentSource("HUMAN", "ann")
            client.log_assessment(each.trace, Feedback("placement", value=True, source=person))
    both = run_json("audit", run, "--from", "mlflow")
    shares = {row["verdict"]: row["share"] for row in both["tables"]["audit"][:3]}
    times = list(answers.values()).count(mine)
    assert shares["wrong"] == pytest.approx(times / 12)
    assert shares["right"] == pytest.approx(1 - times / 12)
    # They are in the file now.
    again = run_json("audit", run)
    assert again["tables"]["audit"] == both["tables"]["audit"]
