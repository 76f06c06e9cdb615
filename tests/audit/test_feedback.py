"""Verdicts that people gave in MLflow, as `taxtune audit --from mlflow` reads them."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial

import pandas as pd
import pytest

from taxtune.runs import choose
from taxtune.tracking import MLflowTracker, TrackingCallback
from taxtune.tuning.history import read_note
from tests.cli.commands import run_json, run_refused
from tests.tuning.toy import make_parts, tuned


def test_a_file_of_answers_has_no_traces(tmp_path):
    (tmp_path / "answers.txt").write_text("pho\n")
    (tmp_path / "tree.csv").write_text("path\nfood/pho\n")
    said = run_refused(
        "audit", tmp_path / "answers.txt", "-t", tmp_path / "tree.csv", "--from", "mlflow"
    )
    assert "Nobody has judged these answers in MLflow" in said


def test_a_run_without_traces_says_what_to_do(tmp_path):
    run = tmp_path / "run"
    tuned(make_parts(tmp_path / "recipe", run, overrides=("iterations=1",)), run)
    said = run_refused("audit", run, "--from", "mlflow")
    assert "Nobody has judged these answers in MLflow" in said
    assert f"taxtune mlflow {run}" in said


@pytest.mark.heavy
def test_verdicts_in_mlflow_make_a_summary_and_are_written_into_the_file(tmp_path, monkeypatch):
    from mlflow import MlflowClient
    from mlflow.entities import AssessmentSource, Feedback
    from mlflow.tracing.client import TracingClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    run = tmp_path / "run"
    recording = TrackingCallback(partial(MLflowTracker, "toy", run))
    parts = make_parts(tmp_path / "recipe", run, overrides=("iterations=1",))
    result = tuned(parts, run, callbacks=[recording])
    assert result.winner == 0
    choose(parts, result, 1, [recording])
    assert "Nobody has judged" in run_refused("audit", run, "--from", "mlflow")

    heldout = json.loads((run / "result.json").read_text())["heldout"][-1]["rows"]
    answers = {row["example"]: row["placed"]["answer"] for row in heldout}
    database = f"sqlite:///{run}/mlflow.db"
    identity = read_note(run, "mlflow_run")
    traces = MlflowClient(database).search_traces(locations=["1"], run_id=identity)
    # Each winner has traces of its own, of all twelve images.
    named = Counter(trace.info.tags["mlflow.traceName"] for trace in traces)
    assert named == {"baseline, held out": 12, "iteration 01, held out": 12}
    infos = [trace.info for trace in traces]
    _, *judged = [
        info for info in infos if info.tags["mlflow.traceName"] == "iteration 01, held out"
    ]
    client = TracingClient(database)
    ann = AssessmentSource("HUMAN", "ann")
    machine = AssessmentSource("LLM_JUDGE", "gpt-4o")
    first = judged[0]
    for trace in judged:
        last = "Right" if trace is first else True
        for value, source in (("too general", ann), (last, ann), ("wrong", machine)):
            client.log_assessment(trace.trace_id, Feedback("placement", value=value, source=source))
        client.log_assessment(trace.trace_id, Feedback("tone", value="kind", source=ann))
    # What was said of another answer about the same image does not count.
    others = []
    for trace in traces:
        example = trace.info.tags["taxtune.about"]
        if trace.data.spans[0].get_attribute("answer") != answers[example]:
            others.append(trace.info.trace_id)
    assert others
    for trace_id in others:
        client.log_assessment(trace_id, Feedback("placement", value="wrong", source=ann))

    told = run_json("audit", run, "--from", "mlflow")
    about = [answers[trace.tags["taxtune.about"]] for trace in judged]
    sample = pd.read_csv(run / "audit.csv", dtype=str, keep_default_na=False)
    drawn = dict(zip(sample["answer"], sample["draws"].astype(int), strict=True))
    assert drawn == pd.Series(about).value_counts().to_dict()
    assert told["settings"]["answers"] == 11
    assert set(sample["verdict"]) == {"right"}
    # They are in the file, so that they count in an audit of all answers.
    again = run_json("audit", run)
    assert again["settings"]["answers"] == 12
    assert again["settings"]["judged"] >= told["settings"]["judged"]

    client.log_assessment(first.trace_id, Feedback("placement", value="fine", source=ann))
    refused = run_refused("audit", run, "--from", "mlflow")
    assert f"MLflow, trace {first.trace_id}: Unknown verdict" in refused
