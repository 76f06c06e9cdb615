"""kill -9 at random moments: the same history and scores as without, and nothing asked twice."""

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

import pytest

from taxtune.models import AnswerStore, Request
from taxtune.recipe import load_recipe
from taxtune.tuning.build import Setup
from tests.servers import OpenAIServer, calls
from tests.tuning.toy import Weighing, make_files, tuned

# Else litellm fetches its prices when it is loaded.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
# A process of its own that has loaded everything forks those that are killed: each starts in a
# moment, not in seconds.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["litellm", "optuna.storages", "taxtune.report.html", __name__])
KILLS = 7
ADVICE = ("Be careful.", "Give only the family.", "Look twice.")

#: What may differ after a crash.
PASSING = (
    "usage",
    "rungs",
    "account",
    "from_store",
    "folder",
    "where",
    "provenance",
    "seconds",
)

#: What the runs are set to besides the toy recipe: overrides by name.
RUNS = {
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


def agent(body):
    """Answers as a chat model that looks at failures, tries two drafts and submits the first.

    What it says is a function of what it is told.
    """
    messages = body["messages"]
    first = zlib.crc32(json.dumps(messages[:2]).encode())
    drafts = []
    for number in (first, first + 1):
        draft = f"Photo {number}: which {{{{ domain }}}} is this? {ADVICE[number % 3]}"
        drafts.append(draft)
    trials = [("try_draft", {"template": draft, "images": 3}) for draft in drafts]
    turns = [
        calls(("failures", {"iteration": 0})),
        calls(*trials),
        calls(("submit", {"template": drafts[0]})),
    ]
    return turns[sum(message["role"] == "assistant" for message in messages)]


@pytest.fixture
def settings():
    """Returns the settings of a run by its name; an agent's model lives as long as the test."""
    with OpenAIServer(agent) as server:
        base = repr(server.api_base)
        yield lambda name: tuple(override.replace("BASE", base) for override in RUNS[name])


class Dying(Weighing):
    """A toy model that logs what it is asked; kill -9 strikes some time after a question.

    Args:
        out: The run's folder, with the log over all processes of the run. A batch is written down
            in its store before the next is answered, as any real model is slower than a disk.
        moment: Lines in the log after which it strikes; None for never.
        delay: Seconds from then on, in which the answers may be written down, or not.
    """

    def __init__(self, out, moment, delay):
        super().__init__(out / "asked.log")
        self.answers = out.parent / "answers.db"
        self.moment = moment
        self.delay = delay
        self.before: list[Request] = []

    def answer(self, questions):
        """Answers as a toy model."""
        if self.before:
            with AnswerStore(self.answers) as store:
                wait_until(lambda: None not in store.get(self.identity, self.before))
        self.before = list(questions)
        replies = super().answer(questions)
        if self.moment is not None and len(self.log.read_text().splitlines()) > self.moment:
            kill = (os.getpid(), signal.SIGKILL)
            threading.Timer(self.delay, os.kill, kill).start()
            self.moment = None
        return replies


def work(
    folder,
    out,
    overrides,
    moment=None,
    delay=0.0,
):
    """Runs, or goes on with, a run."""
    out.mkdir(parents=True, exist_ok=True)
    recipe = load_recipe(folder / "recipe.yaml", overrides)
    tuned(Setup(recipe, out, vlm=Dying(out, moment, delay)), resume=True)


def calibrate(folder, out, moment=None, delay=0.0):
    """Calibrates the winner of a finished run on images of neither split."""
    from taxtune.tuning.calibrate import CalibrationRun

    vlm = Dying(out, moment, delay)
    CalibrationRun(out, 0.4, samples=3, recipe=folder / "recipe.yaml", vlm=vlm).run()


def wait_until(ready):
    until = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < until
        time.sleep(0.0005)


def asked(out):
    log = out / "asked.log"
    return log.read_text().splitlines() if log.exists() else []


def kept(out):
    """Returns history and result without what depends on the clock or was known before a crash."""

    def plain(value):
        return {key: item for key, item in value.items() if key not in PASSING}

    lines = (out / "history.jsonl").read_text().splitlines()
    history = [json.loads(line, object_hook=plain) for line in lines]
    return history, json.loads((out / "result.json").read_text(), object_hook=plain)


def is_killed(what, *arguments):
    """Does something in a process of its own; tells whether that was killed."""
    process = CONTEXT.Process(target=what, args=arguments)
    process.start()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


@pytest.mark.heavy
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_run_that_is_killed_goes_on_as_if_nothing_had_happened(name, seed, tmp_path, settings):
    overrides = settings(name)
    folder, whole, out = tmp_path / "in", tmp_path / "whole" / "run", tmp_path / "killed" / "run"
    make_files(folder)
    assert not is_killed(work, folder, whole, overrides)
    once = asked(whole)

    chance = random.Random(seed)
    # One moment in each part of the run, and one while the result is written.
    parts = [len(once) * i // (KILLS - 1) for i in range(KILLS)]
    moments = [chance.randrange(*ends) for ends in itertools.pairwise(parts)]
    delays = [chance.uniform(0, 0.02) for _ in moments]
    moments.append(len(once) - 1)
    delays.append(chance.uniform(0, 1))
    killed = 0
    for moment, delay in zip(moments, delays, strict=True):
        killed += is_killed(work, folder, out, overrides, moment, delay)
    assert killed >= 4, "a quick run may be past the next moment before it is killed"
    assert not is_killed(work, folder, out, overrides)

    history, result = kept(out)
    assert (history, result) == kept(whole)
    most = max(len(record["rows"]) for record in history)
    assert most > 4, "more than the first rung, so there was another"
    assert set(asked(out)) == set(once)
    # A kill loses at most the batch in flight, two questions here.
    assert len(asked(out)) <= len(once) + 2 * KILLS


@pytest.mark.heavy
def test_a_calibration_that_is_killed_goes_on_as_if_nothing_had_happened(tmp_path):
    folder, whole, out = tmp_path / "in", tmp_path / "whole" / "run", tmp_path / "killed" / "run"
    recipe = make_files(folder)
    recipe.write_text(recipe.read_text().replace("tuning: 8, heldout: 12", "tuning: 4, heldout: 4"))
    assert not is_killed(work, folder, whole, ("iterations=1",))
    shutil.copytree(whole.parent, out.parent)
    before = len(asked(whole))
    assert not is_killed(calibrate, folder, whole)
    once = asked(whole)[before:]
    assert len(once) == 12 * 3

    chance = random.Random(0)
    # One moment in the first half of each part, so that a slow kill is before the next moment.
    moments = [start + chance.randrange(3) for start in range(0, len(once), 7)][:5]
    killed = 0
    for moment in moments:
        killed += is_killed(calibrate, folder, out, before + moment, chance.uniform(0, 0.002))
    assert killed >= 3
    assert not is_killed(calibrate, folder, out)
    calibration = (out / "calibration.json").read_bytes()
    assert calibration == (whole / "calibration.json").read_bytes()
    assert set(asked(out)[before:]) == set(once)
    assert len(asked(out)) - before <= len(once) + 2 * len(moments)
