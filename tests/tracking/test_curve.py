"""The evidence of a watch is a curve of its run in MLflow."""

from __future__ import annotations

from functools import partial

import pytest

from taxtune.tracking import MLflowTracker, TrackingCallback
from taxtune.tracking.curve import log_evidence
from taxtune.tuning.history import read_note
from tests.tuning.toy import make_parts, tuned


@pytest.mark.heavy
def test_evidence_is_a_curve_that_goes_on(tmp_path, monkeypatch, caplog):
    from mlflow import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    run = tmp_path / "run"
    recording = TrackingCallback(partial(MLflowTracker, "toy", run))
    tuned(
        make_parts(tmp_path / "recipe", run, overrides=("iterations=1",)),
        run,
        callbacks=[recording],
    )
    log_evidence(run, [0.1, -0.2], "first")
    log_evidence(run, [0.1, -0.2, 1.5], "first")
    log_evidence(run, [0.3], "second")
    client = MlflowClient(f"sqlite:///{run}/mlflow.db")
    identity = read_note(run, "mlflow_run")
    points = client.get_metric_history(identity, "watch_evidence/first")
    assert sorted((each.step, each.value) for each in points) == [(1, 0.1), (2, -0.2), (3, 1.5)]
    (point,) = client.get_metric_history(identity, "watch_evidence/second")
    assert point.value == 0.3
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    log_evidence(run, [0.3, 0.4], "second")
    assert "MLflow could not record the evidence" in caplog.text


def test_a_folder_without_a_record_has_no_curve(tmp_path, capsys):
    log_evidence(tmp_path, [0.3], "first")
    assert capsys.readouterr().err == ""
