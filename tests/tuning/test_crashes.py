"""kill -9 at random moments: the same history and the same scores as without, and nothing asked twice."""

from __future__ import annotations

import json
import multiprocessing
import random
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from tests.tuning.toy import ToyVLM, make_parts, tuned

# A process of its own that has loaded everything forks those that are killed: each starts in a moment, not in seconds.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["optuna.storages", "taxtune.report.html", __name__])
KILLS = 7

#: What the runs are set to besides the toy recipe: overrides by name.
RUNS: dict[str, tuple[str, ...]] = {
    "every-image": ("iterations=4",),
}


def work(folder: Path, out: Path, overrides: tuple[str, ...], seconds: float) -> None:
    """Runs, or goes on with, a run that logs what it asks."""
    out.mkdir(exist_ok=True)
    parts = make_parts(folder, out, ToyVLM(out / "asked.log", seconds), overrides=overrides)
    tuned(parts, out, resume=True)


def asked(out: Path) -> list[str]:
    log = out / "asked.log"
    return log.read_text().splitlines() if log.exists() else []


def kept(out: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The history and the result without what depends on the clock and on what was known before a crash."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            left_out = ("usage", "from_store", "folder", "where", "provenance", "seconds")
            return {key: plain(item) for key, item in value.items() if key not in left_out}
        return [plain(item) for item in value] if isinstance(value, list) else value

    history = [plain(json.loads(line)) for line in (out / "history.jsonl").read_text().splitlines()]
    return history, plain(json.loads((out / "result.json").read_text()))


def run(*arguments: Any) -> BaseProcess:
    process = CONTEXT.Process(target=work, args=arguments)
    process.start()
    return process


@pytest.mark.heavy
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_run_that_is_killed_goes_on_as_if_nothing_had_happened(name: str, seed: int, tmp_path: Path) -> None:
    folder, whole, out = tmp_path / "in", tmp_path / "whole", tmp_path / "killed"
    uninterrupted = run(folder, whole, RUNS[name], 0.0)
    uninterrupted.join(120)
    assert uninterrupted.exitcode == 0
    once = asked(whole)

    chance = random.Random(seed)
    kills = 0
    for moment in sorted(chance.sample(range(len(once)), KILLS)):
        process = run(folder, out, RUNS[name], 0.02)
        while len(asked(out)) <= moment and process.is_alive():
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.05))  # somewhere between a question and what is written down of its answer
        kills += process.is_alive()
        process.kill()
        process.join()
    assert kills >= KILLS - 1, "only the last moment may come after the end"
    last = run(folder, out, RUNS[name], 0.0)
    last.join(120)
    assert last.exitcode == 0

    assert kept(out) == kept(whole)
    assert set(asked(out)) == set(once)
    # A kill loses at most the batch in flight, two questions here.
    assert len(asked(out)) <= len(once) + 2 * KILLS
