from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import run_captured, run_command


@pytest.mark.parametrize("given", ["run", "run/hp", "run/mlflow.db"])
def test_the_server_is_started_on_the_database_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    (tmp_path / "run/hp").mkdir(parents=True)
    (tmp_path / "run/mlflow.db").touch()
    started: list[list[str]] = []
    monkeypatch.setattr("taxtune.cli.mlflow.start", started.append)
    assert run_command(monkeypatch, "mlflow", tmp_path / given, "--port", 5999) == 0
    (command,) = started
    assert command[command.index("--backend-store-uri") + 1] == f"sqlite:///{tmp_path}/run/mlflow.db"
    assert command[command.index("--port") + 1] == "5999"


def test_a_folder_without_a_record_says_where_there_may_be_one(tmp_path: Path) -> None:
    done = run_captured("mlflow", tmp_path)
    assert done.code == 2
    assert "MLFLOW_TRACKING_URI" in done.err
