from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from taxtune.tracking.store import open_store, remove_unfinished

OPEN = """
import sys
from taxtune.tracking.store import open_store
store = open_store("taxtune", sys.argv[1])
store.client.create_run(store.experiment)
"""


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", OPEN, str(folder)], text=True, stderr=subprocess.PIPE)


def make(file: Path, *statements: str) -> Path:
    connection = sqlite3.connect(file)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return file


@pytest.mark.heavy
def test_a_store_is_usable_after_its_maker_was_killed(tmp_path: Path) -> None:
    maker = start(tmp_path)
    file = tmp_path / "mlflow.db"
    while True:  # in the middle of the migrations, which cannot be run twice
        assert maker.poll() is None
        try:
            with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as connection:
                if connection.execute("SELECT * FROM alembic_version").fetchall():
                    break
        except sqlite3.OperationalError:
            pass
        time.sleep(0.002)
    os.kill(maker.pid, signal.SIGKILL)
    maker.communicate()
    # Wherever it was, this is what one of the steps leaves behind.
    make(file, "CREATE TABLE IF NOT EXISTS _alembic_tmp_tags (key TEXT)")
    store = open_store("taxtune", tmp_path)
    assert store.client.get_experiment(store.experiment).name == "taxtune"


def test_those_who_start_at_once_share_a_store_that_another_left_unfinished(tmp_path: Path) -> None:
    version = ("CREATE TABLE alembic_version (version_num TEXT)", "INSERT INTO alembic_version VALUES ('451aebb31d03')")
    make(tmp_path / "mlflow.db", "CREATE TABLE experiments (name TEXT)", *version)
    with ThreadPoolExecutor(3) as threads:
        stores = list(threads.map(lambda _: open_store("taxtune", tmp_path), range(3)))
    for store in stores:
        store.client.create_run(store.experiment)
    assert len(stores[0].client.search_runs([stores[1].experiment])) == 3


def test_only_what_holds_nothing_is_removed(tmp_path: Path) -> None:
    experiments = "CREATE TABLE experiments (name TEXT)"
    version = ("CREATE TABLE alembic_version (version_num TEXT)", "INSERT INTO alembic_version VALUES ('a')")
    unfinished = make(tmp_path / "unfinished.db", experiments, *version)
    used = make(tmp_path / "used.db", experiments, *version, "INSERT INTO experiments VALUES ('Default')")
    midway = ("CREATE TABLE _alembic_tmp_runs (id TEXT)", "INSERT INTO _alembic_tmp_runs VALUES ('a')")
    moving = make(tmp_path / "moving.db", experiments, *version, *midway)
    other = make(tmp_path / "other.db", "CREATE TABLE answers (key TEXT)")
    blank = make(tmp_path / "blank.db")
    for file in (unfinished, used, moving, other, blank, tmp_path / "absent.db"):
        remove_unfinished(file)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blank.db", "moving.db", "other.db", "used.db"]


@pytest.mark.heavy
def test_processes_that_start_at_once_share_a_new_store(tmp_path: Path) -> None:
    makers = [start(tmp_path) for _ in range(3)]
    said = [maker.communicate()[1] for maker in makers]
    assert [maker.returncode for maker in makers] == [0, 0, 0], said
    store = open_store("taxtune", tmp_path)
    assert len(store.client.search_runs([store.experiment])) == 3


@pytest.mark.parametrize("how", [shutil.move, shutil.copytree])
def test_artifacts_are_found_where_a_folder_was_moved_or_copied_to(tmp_path: Path, how: Callable[..., object]) -> None:
    store = open_store("taxtune", tmp_path / "old")
    run = store.client.create_run(store.experiment).info.run_id
    store.client.log_text(run, "kept", "text.txt")
    own = store.client.create_experiment("own", artifact_location=(tmp_path / "mlartifacts").as_uri())
    (tmp_path / "mlartifacts").mkdir()
    how(tmp_path / "old", tmp_path / "new")
    moved = open_store("taxtune", tmp_path / "new")
    assert moved.experiment == store.experiment
    place = (tmp_path / "new/mlartifacts").as_uri()
    assert moved.client.get_run(run).info.artifact_uri.startswith(f"{place}/")
    moved.client.log_text(run, "more", "more.txt")
    assert sorted(file.path for file in moved.client.list_artifacts(run)) == ["more.txt", "text.txt"]
    again = moved.client.create_run(moved.experiment)
    assert again.info.artifact_uri.startswith(f"{place}/")
    assert moved.client.get_experiment(own).artifact_location == (tmp_path / "mlartifacts").as_uri(), "elsewhere"
    if how is shutil.copytree:
        original = open_store("taxtune", tmp_path / "old").client
        assert [file.path for file in original.list_artifacts(run)] == ["text.txt"]
