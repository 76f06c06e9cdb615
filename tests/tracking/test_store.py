from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from unittest.mock import MagicMock

import pytest

from taxtune.errors import TaxtuneError
from taxtune.progress import showing
from taxtune.tracking.store import check_store, open_store, takes_spans
from tests.displays import Recorder

OPEN = """
import sys
from taxtune.progress import showing
from taxtune.tracking.store import check_store, open_store, takes_spans
from tests.displays import Recorder
store = open_store("taxtune", sys.argv[1])
store.client.create_run(store.experiment)
"""


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)


def start(folder):
    return subprocess.Popen(
        [sys.executable, "-c", OPEN, str(folder)], text=True, stderr=subprocess.PIPE
    )


@pytest.mark.heavy
def test_a_store_is_usable_after_its_maker_was_killed(tmp_path):
    maker = start(tmp_path)
    while not any(
        tmp_path.glob(".mlflow.db-*")
    ):  # in the middle of the migrations, which cannot be run twice
        assert maker.poll() is None
        time.sleep(0.002)
    os.kill(maker.pid, signal.SIGKILL)
    maker.communicate()
    assert not (tmp_path / "mlflow.db").exists()
    store = open_store("taxtune", tmp_path)
    assert store.client.get_experiment(store.experiment).name == "taxtune"


@pytest.mark.parametrize(
    ("uri", "beside"),
    [
        ("postgresql+psycopg2://db/runs", True),
        ("mysql://db/runs", True),
        ("databricks", False),
        ("file:///runs", False),
    ],
)
def test_only_databases_are_told_where_artifacts_lie(tmp_path, monkeypatch, uri, beside):
    made = MagicMock()
    made.get_experiment_by_name.return_value = None
    monkeypatch.setattr("taxtune.tracking.store.open_client", lambda _: made)
    open_store("taxtune", tmp_path, uri)
    place = (tmp_path / "mlartifacts").as_uri() if beside else None
    made.create_experiment.assert_called_once_with("taxtune", artifact_location=place)


def test_a_store_in_files_takes_no_spans_and_is_told_by_the_dry_run(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    with showing(said := Recorder()):
        check_store(tmp_path, (tmp_path / "files").as_uri())
        check_store(tmp_path)
    assert len(said.notes) == 1
    assert "takes no spans, so images have no traces there" in said.notes[0]
    assert not open_store("taxtune", tmp_path, (tmp_path / "files").as_uri()).spans
    store = open_store("taxtune", tmp_path)
    assert store.spans
    assert takes_spans(store.uri)


@pytest.mark.parametrize(
    ("problem", "takes"),
    [
        (NotImplementedError("no server of 3.4"), False),
        (
            RuntimeError("INTERNAL_ERROR: REST OTLP span logging is not supported by FileStore"),
            False,
        ),
        (RuntimeError("No Experiment with id=-1 exists"), True),
        (None, True),
    ],
)
def test_what_a_server_says_to_a_span_tells(problem, takes, monkeypatch):
    monkeypatch.setattr(
        "mlflow.tracing.client.TracingClient.log_spans", MagicMock(side_effect=problem)
    )
    assert takes_spans("http://127.0.0.1:9") is takes


@pytest.mark.parametrize("how", [shutil.move, shutil.copytree])
def test_artifacts_are_found_where_a_folder_was_moved_or_copied_to(tmp_path, how):
    store = open_store("taxtune", tmp_path / "old")
    run = store.client.create_run(store.experiment).info.run_id
    store.client.log_text(run, "kept", "text.txt")
    how(tmp_path / "old", tmp_path / "new")
    moved = open_store("taxtune", tmp_path / "new")
    assert moved.experiment == store.experiment
    place = (tmp_path / "new/mlartifacts").as_uri()
    assert moved.client.get_run(run).info.artifact_uri.startswith(f"{place}/")
    moved.client.log_text(run, "more", "more.txt")
    assert sorted(file.path for file in moved.client.list_artifacts(run)) == [
        "more.txt",
        "text.txt",
    ]
    again = moved.client.create_run(moved.experiment)
    assert again.info.artifact_uri.startswith(f"{place}/")
    if how is shutil.copytree:
        original = open_store("taxtune", tmp_path / "old").client
        assert [file.path for file in original.list_artifacts(run)] == ["text.txt"]


@pytest.mark.parametrize(
    "place", ["https://attacker.example/in", "s3://bucket/x", "file:///home", "BESIDE/../../x"]
)
@pytest.mark.parametrize("table", ["experiments", "runs"])
def test_a_database_that_sends_elsewhere_is_refused(tmp_path, table, place):
    store = open_store("taxtune", tmp_path)
    store.client.create_run(store.experiment)
    place = place.replace("BESIDE", (tmp_path / "mlartifacts").as_uri())
    column = {"experiments": "artifact_location", "runs": "artifact_uri"}[table]
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as connection, connection:
        connection.execute(f"UPDATE {table} SET {column} = ?", (place,))
    with pytest.raises(TaxtuneError, match=r"mlflow\.db: .*kept elsewhere"):
        open_store("taxtune", tmp_path)


def test_a_link_is_no_database_of_a_run(tmp_path):
    open_store("taxtune", tmp_path / "other")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mlflow.db").symlink_to(tmp_path / "other" / "mlflow.db")
    with pytest.raises(TaxtuneError, match="This is a link"):
        open_store("taxtune", tmp_path / "run")
