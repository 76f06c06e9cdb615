"""kill -9 at random moments: the same history and the same scores as without, and nothing asked twice."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import random
import shutil
import signal
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from taxtune.models import AnswerStore, Request
from taxtune.recipe import load_recipe
from taxtune.tuning.build import Setup
from tests.servers import OpenAIServer, Reply, calls
from tests.tuning.toy import Weighing, make_files, tuned

# A process of its own that has loaded everything forks those that are killed: each starts in a moment, not in seconds.
os.environ.setdefault(
    "LITELLM_LOCAL_MODEL_COST_MAP", "True"
)  # else litellm fetches its prices when it is loaded
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["litellm", "optuna.storages", "taxtune.report.html", __name__])
KILLS = 7
ADVICE = ("Be careful.", "Give only the family.", "Look twice.")

#: What the runs are set to besides the toy recipe: overrides by name.
RUNS: dict[str, tuple[str, ...]] = {
    "every-image": ("iterations=4",),
    "rungs": ("iterations=7", "data.first_rung=3", "objective.kind=hr_at_hp"),
    "posterior": (
        "iterations=7",
        "data.first_rung=3",
        "objective={kind: hr_at_hp, hp_target: 0.9}",
        "policy.kind=posterior",
    ),
    "context": ("iterations=7", "data.first_rung=3", "data.context=[place]"),
    "budget": ("iterations=7", "data.first_rung=2", "budget.vlm_calls=44"),
    "agent": (
        "iterations=4",
        "data.first_rung=4",
        "proposer={kind: agent, model: openai/words, api_base: BASE}",
    ),
}


def agent(body: dict[str, Any]) -> Reply:
    """A chat model that looks at failures, tries two drafts and submits the first; a function of what it is told."""
    messages = body["messages"]
    first = zlib.crc32(json.dumps(messages[:2]).encode())
    drafts = [
        f"Photo {first + i}: which {{{{ domain }}}} is this? {ADVICE[(first + i) % 3]}"
        for i in range(2)
    ]
    turns = [
        calls(("failures", {"iteration": 0})),
        calls(*(("try_draft", {"template": draft, "images": 3}) for draft in drafts)),
        calls(("submit", {"template": drafts[0]})),
    ]
    return turns[sum(message["role"] == "assistant" for message in messages)]


@pytest.fixture
def settings() -> Iterator[Callable[[str], tuple[str, ...]]]:
    """What a run is set to, by its name; an agent's chat model lives as long as the test."""
    with OpenAIServer(agent) as server:
        yield lambda name: tuple(
            override.replace("BASE", repr(server.api_base)) for override in RUNS[name]
        )


class Dying(Weighing):
    """A toy model that logs what it is asked, in whose process kill -9 strikes some time after a question.

    Args:
        log: The log, over all processes of the run.
        moment: Lines in the log after which it strikes; None for never.
        delay: Seconds from then on, in which the answers may be written down, or not.
        answers: The store in which a batch is to be written down before the next is answered, as any real model is
            slower than a disk; None answers at once.
    """

    def __init__(
        self, log: Path, moment: int | None, delay: float, answers: Path | None = None
    ) -> None:
        super().__init__(log)
        self.moment, self.delay, self.answers = moment, delay, answers
        self.before: list[Request] = []

    def answer(self, questions: Any) -> Any:
        """Answers as a toy model."""
        if self.before and self.answers is not None:
            with AnswerStore(self.answers) as store:
                wait_until(lambda: None not in store.get(self.identity, self.before))
        self.before = list(questions)
        replies = super().answer(questions)
        if self.moment is not None and len(self.log.read_text().splitlines()) > self.moment:
            threading.Timer(self.delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
            self.moment = None
        return replies


def work(
    folder: Path,
    out: Path,
    overrides: tuple[str, ...],
    moment: int | None = None,
    delay: float = 0.0,
) -> None:
    """Runs, or goes on with, a run."""
    out.mkdir(exist_ok=True)
    vlm = Dying(out / "asked.log", moment, delay, out / "answers.db")
    tuned(Setup(load_recipe(folder / "recipe.yaml", overrides), out, vlm=vlm), out, resume=True)


def calibrate(folder: Path, out: Path, moment: int | None = None, delay: float = 0.0) -> None:
    """Calibrates the winner of a finished run on images of neither split."""
    from taxtune.tuning.calibrate import CalibrationRun

    vlm = Dying(out / "asked.log", moment, delay, out / "answers.db")
    CalibrationRun(out, 0.4, samples=3, recipe=folder / "recipe.yaml", vlm=vlm).run()


def wait_until(ready: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < until
        time.sleep(0.0005)


def asked(out: Path) -> list[str]:
    log = out / "asked.log"
    return log.read_text().splitlines() if log.exists() else []


def kept(out: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The history and the result without what depends on the clock and on what was known before a crash."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            left_out = (
                "usage",
                "rungs",
                "account",
                "from_store",
                "folder",
                "where",
                "provenance",
                "seconds",
            )
            return {key: plain(item) for key, item in value.items() if key not in left_out}
        return [plain(item) for item in value] if isinstance(value, list) else value

    history = [plain(json.loads(line)) for line in (out / "history.jsonl").read_text().splitlines()]
    return history, plain(json.loads((out / "result.json").read_text()))


def start(what: Callable[..., None], *arguments: Any) -> BaseProcess:
    process = CONTEXT.Process(target=what, args=arguments)
    process.start()
    return process


def ended(process: BaseProcess) -> bool:
    """Waits for the end of a process; whether it was killed."""
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


@pytest.mark.heavy
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_run_that_is_killed_goes_on_as_if_nothing_had_happened(
    name: str, seed: int, tmp_path: Path, settings: Callable[[str], tuple[str, ...]]
) -> None:
    overrides = settings(name)
    folder, whole, out = tmp_path / "in", tmp_path / "whole", tmp_path / "killed"
    make_files(folder)
    assert not ended(start(work, folder, whole, overrides))
    once = asked(whole)

    chance = random.Random(seed)
    # One moment in each part of the run, and one while the result is written.
    parts = [len(once) * i // (KILLS - 1) for i in range(KILLS)]
    moments = [*(chance.randrange(*ends) for ends in itertools.pairwise(parts)), len(once) - 1]
    delays = [*(chance.uniform(0, 0.02) for _ in parts[1:]), chance.uniform(0, 1)]
    killed = [
        ended(start(work, folder, out, overrides, *when))
        for when in zip(moments, delays, strict=True)
    ]
    assert sum(killed) >= 4, "a quick run may be past the next moment before it is killed"
    assert not ended(start(work, folder, out, overrides))

    history, result = kept(out)
    assert (history, result) == kept(whole)
    assert max(len(record["rows"]) for record in history) > 4, (
        "more than the first rung, so there was another"
    )
    assert set(asked(out)) == set(once)
    # A kill loses at most the batch in flight, two questions here.
    assert len(asked(out)) <= len(once) + 2 * KILLS


@pytest.mark.heavy
def test_a_calibration_that_is_killed_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    folder, whole, out = tmp_path / "in", tmp_path / "whole", tmp_path / "killed"
    recipe = make_files(folder)
    recipe.write_text(recipe.read_text().replace("tuning: 8, heldout: 12", "tuning: 4, heldout: 4"))
    assert not ended(start(work, folder, whole, ("iterations=1",)))
    shutil.copytree(whole, out)
    before = len(asked(whole))
    assert not ended(start(calibrate, folder, whole))
    once = asked(whole)[before:]
    assert len(once) == 12 * 3

    chance = random.Random(0)
    moments = sorted(chance.sample(range(len(once)), 5))
    killed = [
        ended(start(calibrate, folder, out, before + moment, chance.uniform(0, 0.002)))
        for moment in moments
    ]
    assert sum(killed) >= 3
    assert not ended(start(calibrate, folder, out))
    assert (out / "calibration.json").read_bytes() == (whole / "calibration.json").read_bytes()
    assert set(asked(out)[before:]) == set(once)
    assert len(asked(out)) - before <= len(once) + 2 * len(moments)
