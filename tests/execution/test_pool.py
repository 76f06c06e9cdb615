"""The pool: questions dealt among workers that come, go, and are not always what they should be."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from taxtune.errors import ModelError
from taxtune.execution import deploy
from taxtune.execution.pool import Pool
from taxtune.execution.processes import ProcessEngine
from taxtune.execution.worker import Event, Job, Lost, Probe, Ready, Worker, probe
from taxtune.models import AnswerStore, Failure, ModelSettings, Request, ask, count_faults, make_model
from taxtune.models.base import reseeded
from taxtune.recipe_settings import ExecutionSettings
from tests.execution.sleepy import asked


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    from PIL import Image

    files = [tmp_path / f"{i}.png" for i in range(6)]
    for i, file in enumerate(files):
        Image.new("RGB", (16, 16), (40 * i, 0, 0)).save(file)
    return files


class InProcess:
    """Workers in this process, of which those may be lost that a test chooses.

    Args:
        dies: Told a worker's place and its job, or None as it starts; the worker is lost where it says so.
        far: Whether the workers are on another machine.
    """

    def __init__(
        self, spec: str, size: int, dies: Callable[[int, Job | None], bool] = lambda slot, job: False, far: bool = False
    ) -> None:
        self.spec, self.size, self.dies, self.far = spec, size, dies, far
        self.workers: dict[int, Worker] = {}
        self.events: deque[tuple[int, Event]] = deque()
        self.started: Counter[int] = Counter()
        self.jobs: list[tuple[int, Job]] = []
        self.closed = False

    def probe(self) -> Probe:
        assert not self.started  # later there may be no room
        return probe(self.spec, ModelSettings())

    def start(self, slot: int) -> None:
        self.started[slot] += 1
        self.workers[slot] = Worker(self.spec, ModelSettings(), far=self.far)
        self.events.append((slot, Lost("bad luck") if self.dies(slot, None) else self.workers[slot].begin()))

    def give(self, slot: int, job: Job) -> None:
        self.jobs.append((slot, job))
        self.events.append((slot, Lost("bad luck") if self.dies(slot, job) else self.workers[slot].answer(job)))

    def wait(self, seconds: float) -> tuple[int, Event] | None:
        return self.events.popleft() if self.events else None

    def no_room(self) -> str:
        return "no room"

    def close(self) -> None:
        self.closed = True


def questions(n: int, images: list[Path]) -> list[Request]:
    return [Request(f"prompt {i}", images[i % len(images)]) for i in range(n)]


def texts(replies: list[object]) -> list[str]:
    return [getattr(reply, "text", f"failed: {reply}").partition(":")[0] for reply in replies]


def test_a_pool_answers_as_the_model_does_and_an_image_stays_with_its_worker(sleepy, images, tmp_path):
    engine = InProcess(sleepy, 3)
    pool = Pool(engine, ModelSettings())
    wanted = questions(12, images)
    assert texts(pool.answer(wanted)) == [request.prompt for request in wanted]
    pool.answer([Request(f"again {i}", images[i % 6]) for i in range(12)])
    homes = {(slot, request.image_sha256) for slot, job in engine.jobs for request in job.requests}
    assert len(homes) == 6
    assert pool.identity == {"kind": "sleepy", "model": "sleepy"}
    assert (pool.workers, pool.check()) == (3, [])
    assert len(asked(tmp_path)) == 24


@pytest.mark.parametrize("workers", [1, 2])
def test_a_question_that_no_worker_survives_fails_alone(sleepy, images, workers):
    engine = InProcess(sleepy, workers, lambda slot, job: job is not None and "7" in str(job.requests))
    wanted = [Request(f"prompt {'ab7cdefg'[i]}") for i in range(8)]
    replies = Pool(engine, ModelSettings()).answer(wanted)
    failed = [i for i, reply in enumerate(replies) if isinstance(reply, Failure)]
    assert failed == [2]
    assert "3 workers in a row were lost" in replies[2].reason
    assert "bad luck" in replies[2].reason
    assert not replies[2].retryable


@pytest.mark.parametrize(
    "dies",
    [lambda slot, job: job is None, lambda slot, job: job is not None],
    ids=["before the first question", "at every question"],
)
def test_workers_that_keep_being_lost_end_the_run_after_a_few_attempts(sleepy, dies):
    engine = InProcess(sleepy, 2, dies)
    with pytest.raises(ModelError, match="keep ending before they answer; the last: bad luck"):
        Pool(engine, ModelSettings()).answer([Request(f"prompt {i}") for i in range(500)])
    assert engine.started.total() <= 12


def test_a_place_where_every_worker_is_lost_is_left_to_the_others(sleepy, notes):
    engine = InProcess(sleepy, 2, lambda slot, job: slot == 1 and job is not None)
    wanted = [Request(f"prompt {i}") for i in range(60)]
    pool = Pool(engine, ModelSettings())
    assert texts(pool.answer(wanted)) == [request.prompt for request in wanted]
    assert engine.started[1] <= 3
    pool.answer(wanted[:5])
    assert engine.started[1] <= 3
    assert all("Worker 1 was lost 3 times in a row and is left out" in text for text in notes)


def test_a_call_that_is_given_up_leaves_the_workers_to_the_next(sleepy):
    pool = Pool(InProcess(sleepy, 2), ModelSettings())
    stream = pool.stream([Request(f"first {i}") for i in range(50)])
    assert len(list(islice(stream, 3))) == 3
    stream.close()
    assert texts(pool.answer([Request("second")])) == ["second"]


def test_a_worker_with_another_model_is_an_error(sleepy, monkeypatch):
    engine = InProcess(sleepy, 1)
    monkeypatch.setattr(engine, "probe", lambda: Probe({"kind": "sleepy", "model": "sleepy", "dtype": "x"}))
    pool = Pool(engine, ModelSettings())
    for _ in range(2):
        with pytest.raises(ModelError, match="Worker 0 has another model than the others: dtype None and not x"):
            pool.answer([Request("prompt")])


@pytest.mark.parametrize(("prompt", "said"), [("broken", "out of order"), ("bug", "A worker failed: KeyError")])
def test_what_the_model_raises_ends_the_run_and_the_pool_goes_on(sleepy, prompt, said):
    pool = Pool(InProcess(sleepy, 2), ModelSettings())
    with pytest.raises(ModelError, match=said):
        pool.answer([Request(prompt)])
    assert texts(pool.answer([Request("well")])) == ["well"]


def test_faults_and_notes_come_from_the_workers(sleepy, notes):
    pool = Pool(InProcess(sleepy, 2), ModelSettings())
    with count_faults() as faults:
        pool.answer([Request(f"fault {i}") for i in range(9)])
    assert faults == {"timeout": 9}
    assert notes == ["slow today"]


def test_images_travel_once_to_a_worker_that_lacks_the_file(sleepy, images, tmp_path):
    engine = InProcess(sleepy, 2, far=True)
    pool = Pool(engine, ModelSettings())
    wanted = questions(6, images)
    local = pool.answer(wanted)
    assert not any(job.images for _, job in engine.jobs)

    class Away(Worker):
        """Sees no file of this machine but those that it was sent."""

        def _here(self, request: Request) -> bool:
            return str(request.image_sha256) in self._files

    elsewhere = InProcess(sleepy, 2, far=True)
    away = Pool(elsewhere, ModelSettings())
    start = elsewhere.start

    def begin(slot: int) -> None:
        start(slot)
        elsewhere.workers[slot].__class__ = Away

    elsewhere.start = begin
    assert [reply.text for reply in away.answer(wanted)] == [reply.text for reply in local]
    sent = [digest for _, job in elsewhere.jobs for digest in job.images]
    assert len(sent) == 6
    away.answer([Request("again", request.image) for request in wanted])
    assert [digest for _, job in elsewhere.jobs for digest in job.images] == sent


def test_an_image_with_other_content_at_the_far_end_is_sent(sleepy, images):
    worker = Worker(sleepy, ModelSettings(), far=True)
    worker.begin()
    job = Job(0, (Request("prompt", images[0], "0" * 64),), 0)
    assert worker.answer(job).hashes == ["0" * 64]


def test_a_copy_with_another_seed_shares_the_workers_and_has_an_identity_of_its_own(monkeypatch):
    settings = ModelSettings(temperature=1.0, max_tokens=4)
    engine = InProcess("builtin:fieldguide", 2)
    monkeypatch.setattr(engine, "probe", lambda: probe("builtin:fieldguide", settings))
    pool = Pool(engine, settings)
    other = reseeded(pool, 7)
    for each, seed in ((pool, 0), (other, 7)):
        assert each.identity == make_model("builtin:fieldguide", replace(settings, seed=seed)).identity
    assert repr(other) == repr(pool) == "Pool(InProcess, 2 workers)"


def test_workers_of_a_machine_share_its_memory_for_images():
    worker = Worker("builtin:fieldguide", ModelSettings(image_memory_gib=6.0), neighbours=3)
    assert isinstance(worker.begin(), Ready)
    assert worker._model.settings.image_memory_gib == 2.0


def test_an_image_that_is_gone_is_a_failure(sleepy, images):
    wanted = [Request("a", images[0]), Request("b", images[0].with_name("gone.png"))]
    replies = Pool(InProcess(sleepy, 1), ModelSettings()).answer(wanted)
    assert texts(replies)[0] == "a"
    assert "gone.png: The image file does not exist" in replies[1].reason


def test_the_engine_ends_when_nobody_has_the_pool(sleepy):
    engine = InProcess(sleepy, 1)
    Pool(engine, ModelSettings()).answer([Request("prompt")])
    assert engine.closed


@pytest.mark.parametrize(
    ("spec", "settings", "said"),
    [
        (lambda image, prompt: "", {}, "needs a model by name"),
        ("openai/gpt-4o", {}, "A model behind an API needs no workers"),
        ("sleepy", {"gpus_per_worker": 64}, "do not fit on this machine"),
    ],
)
def test_what_cannot_have_workers_says_so(sleepy, spec, settings, said):
    with pytest.raises(ModelError, match=said):
        deploy(spec, execution=ExecutionSettings(engine="processes", **settings))


@pytest.mark.parametrize(
    ("cards", "workers", "share", "seen"),
    [
        ("", None, None, [""]),
        ("", 3, None, ["", "", ""]),
        ("0,1,2,3", None, None, ["0", "1", "2", "3"]),
        ("4,5,6,7", None, 2, ["4,5", "6,7"]),
        ("4,5", None, 1 / 3, ["4", "4", "4", "5", "5", "5"]),
        ("0,1", 2, 0, ["", ""]),
    ],
)
def test_each_process_sees_its_own_gpus_and_its_part_of_the_cores(monkeypatch, cards, workers, share, seen):
    import torch

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", cards)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(cards.split(",")) if cards else 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(12)), raising=False)
    engine = ProcessEngine("local:x", ModelSettings(), workers=workers, gpus_per_worker=share)
    assert engine.size == len(seen)
    environments = [engine.environment(slot) for slot in range(engine.size)]
    assert [each["CUDA_VISIBLE_DEVICES"] for each in environments] == seen
    assert {each["OMP_NUM_THREADS"] for each in environments} == {str(12 // len(seen))}
    assert engine.settings.device == ("cpu" if share == 0 else "auto")


# -- processes ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def pool(sleepy: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    made = deploy(sleepy, execution=ExecutionSettings(engine="processes", workers=2))
    assert isinstance(made, Pool)
    with made:
        yield made


@pytest.mark.heavy
def test_a_worker_that_is_killed_loses_no_question_and_none_is_stored_twice(pool, images, tmp_path):
    wanted = questions(120, images)
    wanted[50] = Request("kills once", images[2])
    with AnswerStore(tmp_path / "answers.db") as store:
        put: Counter[str] = Counter()
        keep = store.put

        def counting(identity, pairs):
            put.update(request.prompt for request, _ in pairs)
            keep(identity, pairs)

        store.put = counting
        replies = ask(pool, wanted, store)
    assert texts(replies) == [request.prompt for request in wanted]
    assert (set(put.values()), len(put)) == ({1}, 120)
    killed = int((tmp_path / "diary.killed").read_text())
    lost = [prompt for pid, _, prompt in asked(tmp_path) if pid == killed]
    # Asked again is what it had not handed over yet, and that only once.
    again = Counter(prompt for _, _, prompt in asked(tmp_path))
    assert max(again.values()) <= 2
    assert {prompt for prompt, times in again.items() if times == 2} <= set(lost)


@pytest.mark.heavy
def test_a_question_that_kills_real_processes_fails_alone(pool):
    wanted = [Request(f"prompt {i}" if i != 5 else "poison") for i in range(12)]
    replies = pool.answer(wanted)
    assert [i for i, reply in enumerate(replies) if isinstance(reply, Failure)] == [5]
    assert "SIGKILL, as the system does where memory runs out" in replies[5].reason


@pytest.mark.heavy
def test_a_process_that_cannot_start_says_why(sleepy):
    pool = deploy(f"{sleepy}:stillborn", execution=ExecutionSettings(engine="processes", workers=1))
    with pytest.raises(ModelError, match="it ended with exit code 3; it last wrote: no licence to live"):
        pool.answer([Request("prompt")])


@pytest.mark.heavy
def test_workers_end_when_the_program_that_started_them_is_killed(sleepy, tmp_path):
    script = """
from taxtune.execution import deploy
from taxtune.models import Request
from taxtune.recipe_settings import ExecutionSettings
pool = deploy("sleepy", execution=ExecutionSettings(engine="processes", workers=2))
pool.answer([Request(f"prompt {i}") for i in range(20000)])
"""
    program = subprocess.Popen([sys.executable, "-c", script])
    try:
        while len({pid for pid, _, _ in asked(tmp_path)}) < 2:
            assert program.poll() is None
            time.sleep(0.1)
    finally:
        program.kill()
        program.wait()
    for pid in {pid for pid, _, _ in asked(tmp_path)}:
        for _ in range(600):
            with suppress(ProcessLookupError):
                os.kill(pid, 0)
                time.sleep(0.1)
                continue
            break
        else:
            pytest.fail("a worker outlived its program")
