"""Verdicts that people gave in MLflow, as `taxtune audit --from mlflow` reads them."""

from __future__ import annotations

import json
from functools import partial

import pandas as pd
import pytest

from taxtune.tracking import MLflowTracker, TrackingCallback
from taxtune.tuning.history import read_note
from tests.cli.commands import run_captured, run_json, run_refused
from tests.tuning.toy import make_parts, tuned


def test_a_file_of_answers_has_no_traces(tmp_path):
    (tmp_path / "answers.txt").write_text("pho\n")
    (tmp_path / "tree.csv").write_text("path\nfood/pho\n")
    said = run_refused(
        "audit", tmp_path / "answers.txt", "-t", tmp_path / "tree.csv", "--from", "mlflow"
    )
    assert "Give a run with tracking.mlflow" in said


def test_a_run_without_traces_says_what_to_do(tmp_path):
    run = tmp_path / "run"
    tuned(make_parts(tmp_path / "recipe", run, overrides=("iterations=1",)), run)
    said = run_refused("audit", run, "--from", "mlflow")
    assert "MLflow has no traces of these answers" in said
    assert "judge in audit.csv" in said


@pytest.mark.heavy
def test_verdicts_in_mlflow_and_in_the_file_make_one_summary(tmp_path, monkeypatch):
    from mlflow import MlflowClient
    from mlflow.entities import AssessmentSource, Expectation, Feedback
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
    database = f"sqlite:///{run}/mlflow.db"
    identity = read_note(run, "mlflow_run")
    traces = MlflowClient(database).search_traces(locations=["1"], run_id=identity)
    assert len(traces) == 12 + 5  # the baseline has fewer
    client = TracingClient(database)
    judged = []
    for trace in traces:
        answer = answers[trace.info.tags["taxtune.about"]]
        if trace.info.tags["mlflow.traceName"] == "winner, held out" and answer in others:
            judged.append(trace.info.trace_id)
    ann = AssessmentSource("HUMAN", "ann")
    for trace in judged:
        machine = AssessmentSource("LLM_JUDGE", "gpt-4o")
        for value, source in (("wrong", ann), (True, ann), ("wrong", machine)):
            client.log_assessment(trace, Feedback("placement", value=value, source=source))
        client.log_assessment(trace, Feedback("tone", value="kind", source=ann))
    both = run_json("audit", run, "--from", "mlflow")
    shares = {row["verdict"]: row["share"] for row in both["tables"]["audit"][:3]}
    times = list(answers.values()).count(mine)
    assert shares["wrong"] == pytest.approx(times / 12)
    assert shares["right"] == pytest.approx(1 - times / 12)
    # They are in the file now.
    again = run_json("audit", run)
    assert again["tables"]["audit"] == both["tables"]["audit"]

    client.log_assessment(judged[0], Feedback("placement", value="fine", source=ann))
    refused = run_refused("audit", run, "--from", "mlflow")
    assert f"MLflow, trace {judged[0]}: Unknown verdict" in refused
    client.log_assessment(judged[0], Feedback("placement", value="Right", source=ann))
    client.log_assessment(judged[0], Expectation("node", value="strudel", source=ann))
    assert "The node is not on the tree" in run_refused("audit", run, "--from", "mlflow")
