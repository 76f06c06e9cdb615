"""A comparison in MLflow's own server, over HTTP; and in a folder that is moved, which the printed command serves."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections import Counter
from functools import partial
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from taxtune.recipe import load_recipe
from taxtune.tracking import MLflowTracker, TrackingCallback
from taxtune.tracking.store import page_of
from taxtune.tuning.build import Setup
from taxtune.tuning.history import read_note
from tests.mlflow_servers import mlflow_server, serving
from tests.tuning.toy import compared, make_parts, tuned

pytestmark = pytest.mark.heavy

JPEG = b"\xff\xd8"
OBJECTIVES = ("hp", "accuracy")


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", "false")


@pytest.fixture
def server(tmp_path):
    with mlflow_server(tmp_path / "server") as address:
        yield address


def client(uri):
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri)


def tree(uri):
    """The comparison's run, its tuning runs, and the iterations of each."""
    mlflow = client(uri)
    experiment = mlflow.get_experiment_by_name("birds")
    runs = list(mlflow.search_runs([experiment.experiment_id], max_results=1000))
    below = {}
    for run in runs:
        below.setdefault(run.data.tags.get("mlflow.parentRunId"), []).append(run)
    (top,) = below.pop(None)
    tuning = below.pop(top.info.run_id)
    return top, tuning, {run.info.run_id: below.pop(run.info.run_id) for run in tuning}


def artifact(address, run, path):
    """What MLflow's pages get."""
    with urlopen(
        f"{address}/get-artifact?{urlencode({'path': path, 'run_uuid': run})}", timeout=60
    ) as answer:
        return bytes(answer.read())


def picture(address, run, table):
    found = json.loads(artifact(address, run, table))
    return artifact(address, run, found["data"][0][found["columns"].index("picture")]["filepath"])


def record(folder, uri, iterations, *, resume=False):
    make = partial(MLflowTracker, "birds", folder / "out", uri)
    parts = make_parts(folder / "in", folder / "out", overrides=(f"iterations={iterations}",))
    compared(parts, OBJECTIVES, callbacks=[TrackingCallback(make)], resume=resume)


NAMES = ("baseline", "iteration 01", "iteration 02", "iteration 03")


def test_a_comparison_over_http(server, tmp_path):
    record(tmp_path, server, 2)
    record(tmp_path, server, 3, resume=True)
    mlflow = client(server)
    top, tuning, iterations = tree(server)
    assert top.info.run_name == "compare: toy"
    assert sorted(run.data.tags["taxtune.objective"] for run in tuning) == ["accuracy", "hp"]
    for nested in iterations.values():
        assert sorted(int(run.data.tags["taxtune.iteration"]) for run in nested) == [0, 1, 2, 3], (
            "each once"
        )
    assert {run.info.status for run in (top, *tuning)} == {"FINISHED"}
    for run in (top, *tuning):
        assert picture(server, run.info.run_id, "heldout_images.json").startswith(JPEG)
    first = next(iter(iterations.values()))[0].info.run_id
    assert picture(server, first, "examples.json").startswith(JPEG)
    experiment = top.info.experiment_id
    traces = mlflow.search_traces(locations=[experiment], max_results=500)
    assert {len(trace.data.spans) for trace in traces} == {1}
    named = Counter(trace.info.tags["mlflow.traceName"] for trace in traces)
    tuning_traces = {f"{name}, tuning": 2 * 5 for name in NAMES}
    assert {name: named[name] for name in tuning_traces} == tuning_traces, "five images of each"
    # Of a winner all twelve have one, for people to judge; here one winner is the baseline.
    assert named["baseline, held out"] == 12 + 5
    assert sum(named.values()) == sum(tuning_traces.values()) + 12 + 5 + 12
    versions = list(mlflow.search_prompt_versions("toy"))
    assert len({each.template for each in versions}) == len(versions)
    assert mlflow.get_prompt_version_by_alias("toy", "baseline").template == "What is this?"
    for name in OBJECTIVES:
        assert "heldout.hp" in mlflow.get_prompt_version_by_alias("toy", name).tags


def test_the_winner_is_a_model_of_its_run(server, tmp_path):
    sets = ("data.count=24", "data.tuning=8", "data.first_rung=8", "data.heldout=8", "iterations=1")
    parts = Setup(load_recipe("fieldguide", sets), tmp_path / "out")
    make = partial(MLflowTracker, "birds", tmp_path / "out", server)
    compared(parts, OBJECTIVES, callbacks=[TrackingCallback(make)])
    _, tuning, _ = tree(server)
    for run in tuning:
        name = f"fieldguide-{run.data.tags['taxtune.objective']}-classifier"
        champion = client(server).get_model_version_by_alias(name, "champion")
        assert champion.run_id == run.info.run_id
        assert float(champion.tags["heldout.hp"]) == pytest.approx(
            run.data.metrics["heldout/hp"], abs=1e-4
        )
        model = client(server).get_logged_model(champion.source.removeprefix("models:/"))
        assert model.source_run_id == run.info.run_id
        assert "MLmodel" in [
            file.path for file in client(server).list_logged_model_artifacts(model.model_id)
        ]


def test_a_run_that_was_moved_is_served_by_the_printed_command_and_gone_on_with(
    tmp_path,
):
    old, new = tmp_path / "old", tmp_path / "else where" / "renamed"
    record(old, None, 2)
    new.parent.mkdir()
    shutil.move(old, new)
    printed = shlex.split(MLflowTracker("birds", new / "out").where())
    assert printed == ["taxtune", "mlflow", str(new / "out")]
    with serving([sys.executable, "-m", *printed], tmp_path / "log") as address:
        top, tuning, iterations = tree(address)
        for run in (top, *tuning):
            assert picture(address, run.info.run_id, "heldout_images.json").startswith(JPEG)
        before = {run.info.run_id for run in (top, *tuning)}
    # The command opens on the comparison, and for the folder of one of its runs on that run.
    pages = f"/#/experiments/{top.info.experiment_id}/runs"
    assert f"{address}{pages}/{top.info.run_id} " in (tmp_path / "log").read_text()
    for run in tuning:
        folder = new / "out" / run.data.tags["taxtune.objective"]
        page = page_of(new / "out/mlflow.db", read_note(folder, "mlflow_run"))
        assert page == f"{pages}/{run.info.run_id}"
    record(new, None, 3, resume=True)
    assert not old.exists(), "nothing is written where the folder was"
    uri = f"sqlite:///{new}/out/mlflow.db"
    top, tuning, iterations = tree(uri)
    assert {run.info.run_id for run in (top, *tuning)} == before
    assert [len(nested) for nested in iterations.values()] == [4, 4]


def test_a_server_on_files_records_a_run_without_traces(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    store = [
        "--backend-store-uri",
        (tmp_path / "files").as_uri(),
        "--artifacts-destination",
        str(tmp_path / "a"),
    ]
    command = [sys.executable, "-m", "mlflow", "server", *store, "--workers", "1"]
    with serving(command, tmp_path / "log") as server:
        parts = make_parts(tmp_path, tmp_path / "runs")
        make = partial(MLflowTracker, "taxtune", parts.folder, server)
        callback = TrackingCallback(make)
        tuned(parts, callbacks=[callback])
        assert callback.recorded_all()
        (experiment,) = [
            one for one in client(server).search_experiments() if one.name == "taxtune"
        ]
        assert client(server).search_runs([experiment.experiment_id])
