from __future__ import annotations

import pytest

from tests.cli.commands import run_captured, run_command, run_refused
from tests.displays import NullTracker
from tests.tuning.toy import make_files


@pytest.mark.parametrize("given", ["run", "run/hp", "run/mlflow.db"])
def test_the_server_is_started_on_the_database_of_the_run(tmp_path, monkeypatch, given):
    (tmp_path / "run/hp").mkdir(parents=True)
    (tmp_path / "run/mlflow.db").touch()
    started = []

    class Server:
        def __init__(self, command):
            started.append(command)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def wait(self):
            raise KeyboardInterrupt

        def terminate(self):
            started.append(["ended"])

    monkeypatch.setattr("taxtune.cli.review.subprocess.Popen", Server)
    assert run_command(monkeypatch, "mlflow", tmp_path / given, "--port", 5999) == 0
    command, ended = started
    assert (
        command[command.index("--backend-store-uri") + 1] == f"sqlite:///{tmp_path}/run/mlflow.db"
    )
    assert command[command.index("--port") + 1] == "5999"
    assert ended == ["ended"]


def test_a_folder_without_a_record_says_where_there_may_be_one(tmp_path):
    assert "MLFLOW_TRACKING_URI" in run_refused("mlflow", tmp_path)


class FullDisk(NullTracker):
    """What `MLflowTracker` is where its writes fail: it says so in a note, and goes on."""

    whole = False

    def __init__(self, *arguments, **options):
        pass


@pytest.mark.heavy
def test_a_run_that_mlflow_could_not_record_ends_as_a_failure_and_resume_records_it(
    tmp_path, monkeypatch
):
    recipe = make_files(tmp_path)
    settings = ("iterations=1", "max_off_tree=1.0", "tracking.mlflow=true")
    command = [
        "tune",
        recipe,
        "--out",
        "out",
        *(word for each in settings for word in ("--set", each)),
    ]
    monkeypatch.setattr("taxtune.tracking.MLflowTracker", FullDisk)
    done = run_captured(*command, folder=tmp_path)
    assert done.code == 2, done.err
    last = done.err.splitlines()[-1]
    assert "error: out: The result is complete, but MLflow has no complete record of it" in last
    assert last.endswith("--resume")
    assert (tmp_path / "out/result.json").exists()
    monkeypatch.setattr(FullDisk, "whole", True)
    assert run_captured(*command, "--resume", folder=tmp_path).code == 0
