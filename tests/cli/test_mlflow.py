from __future__ import annotations

import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from taxtune.cli.mlflow import run_server
from tests.cli.commands import run_captured, run_command
from tests.displays import NullTracker
from tests.tuning.toy import make_files


@pytest.mark.parametrize("given", ["run", "run/hp", "run/mlflow.db"])
def test_the_server_is_started_on_the_database_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    (tmp_path / "run/hp").mkdir(parents=True)
    (tmp_path / "run/mlflow.db").touch()
    started: list[list[str]] = []
    monkeypatch.setattr("taxtune.cli.mlflow.run_server", lambda command, port: started.append(command))
    assert run_command(monkeypatch, "mlflow", tmp_path / given, "--port", 5999) == 0
    (command,) = started
    assert command[command.index("--backend-store-uri") + 1] == f"sqlite:///{tmp_path}/run/mlflow.db"
    assert command[command.index("--port") + 1] == "5999"


# A server that listens when it may, and says so when it is ended.
SLOW = """
import pathlib, signal, socket, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
here = socket.socket()
here.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
here.bind(("127.0.0.1", int(sys.argv[1])))
while not pathlib.Path("listen").exists():
    time.sleep(0.02)
here.listen()
print("listening", flush=True)
signal.sigwait({signal.SIGTERM})
print("ended", flush=True)
"""
START = """
import sys
from taxtune.cli.mlflow import run_server
sys.exit(run_server([sys.executable, *sys.argv[2:]], int(sys.argv[1])))
"""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_the_address_is_printed_when_the_server_listens_and_it_ends_with_the_command(
    tmp_path: Path, end: signal.Signals
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
    command = [sys.executable, "-c", START, port, "-c", SLOW, port]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert select.select([process.stdout], [], [], 1.5)[0] == [], "it does not listen yet"
            (tmp_path / "listen").touch()
            lines = sorted(process.stdout.readline().strip() for _ in range(2))
            assert lines == [f"http://127.0.0.1:{port}", "listening"]
            process.send_signal(end)
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (out, err) == ("ended\n", "")


def test_a_server_that_does_not_start_has_no_address_and_gives_its_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = run_server([sys.executable, "-c", "import sys; sys.exit(3)"], 9)
    assert (code, capsys.readouterr().out) == (3, "")


def test_a_port_that_is_taken_is_not_taken_for_the_server(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").touch()
    with socket.create_server(("127.0.0.1", 0)) as other:
        done = run_captured("mlflow", tmp_path, "--port", other.getsockname()[1])
    assert (done.code, done.out) == (2, "")
    assert "Another program listens" in done.err


def test_a_folder_without_a_record_says_where_there_may_be_one(tmp_path: Path) -> None:
    done = run_captured("mlflow", tmp_path)
    assert done.code == 2
    assert "MLFLOW_TRACKING_URI" in done.err


class FullDisk(NullTracker):
    """What `MLflowTracker` is where its writes fail: it says so in a note, and goes on."""

    whole = False

    def __init__(self, *arguments: object, **options: object) -> None:
        pass


def test_a_run_that_mlflow_could_not_record_ends_as_a_failure_and_resume_records_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = make_files(tmp_path)
    settings = ("iterations=1", "max_off_tree=1.0", "tracking.mlflow=true")
    command = ["tune", recipe, "--out", "out", *(word for each in settings for word in ("--set", each))]
    monkeypatch.setattr("taxtune.tracking.MLflowTracker", FullDisk)
    done = run_captured(*command, folder=tmp_path)
    assert done.code == 2, done.err
    last = done.err.splitlines()[-1]
    assert "error: out: The result is complete, but MLflow has no complete record of it" in last
    assert last.endswith("--resume")
    assert (tmp_path / "out/result.json").exists()
    monkeypatch.setattr(FullDisk, "whole", True)
    assert run_captured(*command, "--resume", folder=tmp_path).code == 0
