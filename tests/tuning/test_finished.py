"""A finished run is read from its files as long as it is the run that is asked for, and goes on otherwise."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from taxtune.tuning.callbacks import Callback
from taxtune.tuning.records import ComparisonResult, TuneResult
from tests.tuning.toy import compared, make_parts, tuned


class Heard(Callback):
    def __init__(self, *, settled: bool = True) -> None:
        self.events: list[str] = []
        self._settled = settled

    def on_start(self, tuner: object, done: object) -> None:
        self.events.append("start")

    def on_result(self, tuner: object, result: object) -> None:
        self.events.append("result")

    def settled(self) -> bool:
        return self._settled


def tune(folder: Path, *overrides: str, callback: Callback) -> TuneResult:
    settings = ("iterations=2", *overrides)
    return tuned(
        make_parts(folder / "in", folder / "out", overrides=settings),
        resume=True,
        callbacks=[callback],
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TuneResult]:
    folder = tmp_path_factory.mktemp("finished")
    return folder, tune(folder, callback=Heard())


@pytest.fixture
def run(finished: tuple[Path, TuneResult], tmp_path: Path) -> Path:
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_a_finished_run_is_what_it_was_and_nothing_is_told(finished: tuple[Path, TuneResult]) -> None:
    folder, result = finished
    heard, before = Heard(), {file: file.stat().st_mtime_ns for file in (folder / "out").rglob("*")}
    again = tune(folder, callback=heard)
    assert again.as_dict() == result.as_dict()
    assert again.provenance == result.provenance
    assert heard.events == []
    assert {file: file.stat().st_mtime_ns for file in (folder / "out").rglob("*")} == before


def _without(name: str) -> Callable[[Path], None]:
    return lambda out: (out / name).unlink()


def _cut(out: Path) -> None:
    file = out / "history.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))


@pytest.mark.parametrize(
    "damage",
    [
        _without("report.html"),
        _without("hp_hr.png"),
        _without("result.json"),
        _without("winner.j2"),
        _without("winner.txt"),
        _cut,
    ],
    ids=["report", "figure", "result", "winner", "prompt", "history"],
)
def test_what_is_missing_is_made_again(
    run: Path, finished: tuple[Path, TuneResult], damage: Callable[[Path], None]
) -> None:
    before, heard = sorted(file.name for file in (run / "out").iterdir()), Heard()
    damage(run / "out")
    again = tune(run, callback=heard)
    assert again.iterations == finished[1].iterations
    assert heard.events == ["start", "result"]
    assert sorted(file.name for file in (run / "out").iterdir()) == before
    assert (run / "out/history.jsonl").read_bytes() == (finished[0] / "out/history.jsonl").read_bytes()


@pytest.mark.parametrize("override", ["iterations=3", "max_missing=0.2", "budget.usd=60"])
def test_other_settings_are_another_result(run: Path, override: str) -> None:
    heard = Heard()
    tune(run, override, callback=heard)
    assert heard.events == ["start", "result"]
    heard.events.clear()
    tune(run, override, callback=heard)
    assert heard.events == []


def test_what_a_callback_has_not_done_is_told_it_again(tmp_path: Path) -> None:
    """As of iterations that MLflow, being down, has no record of."""
    for settled, events in ((False, ["start", "result"]), (True, ["start", "result"]), (True, [])):
        heard = Heard(settled=settled)
        tune(tmp_path, callback=heard)
        assert heard.events == events


def test_a_finished_comparison_is_read_too(tmp_path: Path) -> None:
    def compare(callback: Heard) -> ComparisonResult:
        parts = make_parts(tmp_path / "in", tmp_path / "out", overrides=("iterations=1",))
        return compared(parts, ("hp", "accuracy"), resume=True, callbacks=[callback])

    result, heard = compare(Heard()), Heard()
    assert compare(heard).as_dict() == result.as_dict()
    assert heard.events == []
    (tmp_path / "out/hp/report.html").unlink()
    compare(heard)
    assert heard.events == ["start", "result"], "one run is gone on with, and the other is read"
    assert (tmp_path / "out/hp/report.html").exists()


@pytest.mark.heavy
def test_a_finished_run_of_a_model_here_loads_neither_it_nor_mlflow(tmp_path: Path) -> None:
    arguments = ["tune", "fieldguide", "--out", str(tmp_path / "run"), "--resume"]
    for setting in ("data.count=24", "data.tuning=8", "data.block=8", "data.heldout=8", "iterations=1"):
        arguments += ["--set", setting]
    heavy = "[each for each in ('torch', 'transformers', 'mlflow', 'matplotlib', 'optuna') if each in sys.modules]"
    code = "import sys\nfrom taxtune.cli.app import app\n"
    code += f"app({arguments!r}, standalone_mode=False)\nprint('loaded', {heavy})"
    said = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        said.append(done.stdout.rpartition("loaded "))
    assert said[1][0] == said[0][0]
    assert "mlflow" in said[0][2]
    assert said[1][2].strip() == "[]"
