"""A run's classifier in MLflow's registry, on disk; and served by `mlflow models serve` as any model is."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from taxtune.classifier import load_classifier
from taxtune.tracking.entities import CHAMPION, log_classifier
from taxtune.tracking.store import open_store
from taxtune.tuning.records import Selection
from tests.report import samples
from tests.serving.samples import BIRD, in_base64, save_field_guide


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One store for the module, which is the process's own while it runs."""
    folder = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        uri = f"sqlite:///{folder}/mlflow.db"
        patch.setenv("MLFLOW_TRACKING_URI", uri)
        yield open_store("models", folder, uri)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return save_field_guide(tmp_path_factory.mktemp("saved"))


def a_run(store):
    return str(store.client.create_run(store.experiment).info.run_id)


def logged(store, classifier, name, run=None, status=None, winner=None):
    """Logs a winner: the objective's, of a status, or the iteration that a person took in its place."""
    import mlflow

    result = replace(samples.tune(n=2), name=name)
    chosen = Selection(result.winner, False, 20, status=status)
    if winner is not None:
        result = replace(result, winner=winner)
    with mlflow.start_run(run_id=run or a_run(store)) as active:
        mlflow.log_metric("heldout/hp", 0.962, step=len(result.iterations))
        return log_classifier(replace(result, selection=chosen), active.info.run_id, classifier)


def test_a_version_of_the_run_with_its_held_out_scores(store, classifier):
    run = a_run(store)
    address = logged(store, classifier, "birds: a", run)
    assert address == "models:/birds-a-hp-classifier/1"
    version = store.client.get_model_version("birds-a-hp-classifier", "1")
    assert (version.run_id, version.tags["objective"], version.tags["heldout.hp"]) == (
        run,
        "hp",
        "0.962",
    )
    model = store.client.get_logged_model(version.source.removeprefix("models:/"))
    assert (model.source_run_id, str(model.status), model.model_type) == (
        run,
        "READY",
        "classifier",
    )
    assert {metric.key: metric.value for metric in model.metrics} == {"heldout/hp": 0.962}
    (output,) = store.client.get_run(run).outputs.model_outputs
    assert output.model_id == model.model_id
    # A run that is resumed after its end adds nothing.
    assert logged(store, classifier, "birds: a", run) == address


def test_an_uncertified_winner_is_champion_only_where_no_certified_one_is(store, classifier):
    def now(status):
        logged(store, classifier, "sure", status=status)
        return str(store.client.get_model_version_by_alias("sure-hp-classifier", CHAMPION).version)

    statuses = ("estimate", "passes-alone", "certified", "estimate", None, "certified")
    assert [now(status) for status in statuses] == ["1", "2", "3", "3", "3", "6"]
    version = store.client.get_model_version("sure-hp-classifier", "4")
    assert version.description.startswith("Best estimate") or version.description.startswith(
        "Chosen"
    )
    assert version.tags["taxtune.target_reached"] == "estimate"


def test_a_winner_that_a_person_chose_is_a_version_of_its_own_and_the_champion(store, classifier):
    run = a_run(store)

    def champion(winner=None):
        logged(store, classifier, "chosen", run, "certified", winner)
        return store.client.get_model_version_by_alias("chosen-hp-classifier", CHAMPION)

    own = champion()
    chosen = champion(winner=0)
    assert (int(own.version), int(chosen.version)) == (1, 2)
    assert chosen.tags["taxtune.target_reached"] == "chosen"
    assert chosen.description.startswith("Chosen by a person")
    model = store.client.get_logged_model(chosen.source.removeprefix("models:/"))
    assert {metric.key: metric.value for metric in model.metrics} == {"heldout/hp": 0.962}
    # The choice is taken back.
    assert champion().version == own.version
    assert own.tags["taxtune.target_reached"] == "certified"


def test_the_champion_is_loaded_as_any_model(store, classifier):
    import mlflow.pyfunc
    import pandas as pd

    logged(store, classifier, "loaded")
    model = mlflow.pyfunc.load_model(f"models:/loaded-hp-classifier@{CHAMPION}")
    (row,) = model.predict(pd.DataFrame({"image": [str(BIRD)]})).to_dict("records")
    (own,) = load_classifier(classifier).classify([BIRD])
    assert (row["placement"], row["answer"]) == (own.placement, own.answer)


@pytest.mark.heavy
def test_mlflow_serves_it_over_http(store, classifier, tmp_path):
    logged(store, classifier, "served")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "models",
        "serve",
        "-m",
        f"models:/served-hp-classifier@{CHAMPION}",
    ]
    # The model is found by taxtune's name, so taxtune must be importable, as where it is installed.
    environment = os.environ | {
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--env-manager", "local", "--port", str(port)],
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(300):
            try:
                with urllib.request.urlopen(f"{address}/ping", timeout=5):
                    break
            except (urllib.error.URLError, OSError):
                assert server.poll() is None, (tmp_path / "log").read_text()
                time.sleep(0.4)
        images = [
            in_base64(BIRD),
            f"data:image/png;base64,{in_base64(BIRD)}",
            str(BIRD),
            str(tmp_path / "gone.png"),
        ]
        body = json.dumps({"dataframe_records": [{"image": image} for image in images]}).encode()
        request = urllib.request.Request(
            f"{address}/invocations", body, headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as reply:
            rows = json.load(reply)["predictions"]
    finally:
        os.killpg(server.pid, 15)
        server.wait(30)
    (own,) = load_classifier(classifier).classify([BIRD])
    assert [row["placement"] for row in rows] == [own.placement] * 3 + [None]
    assert [node["label"] for node in rows[0]["nodes"]] == [step.label for step in own.path]
    assert "does not exist" in rows[3]["failure"]
