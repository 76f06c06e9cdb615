"""A model that others answer for: workers, each with the model, among whom the questions of a run are dealt."""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from taxtune.data.images import content_hash
from taxtune.errors import ImageError, ModelError
from taxtune.execution.schedule import MOST_LOSSES, Schedule
from taxtune.execution.worker import Broken, Done, Event, Job, Lost, Missing, Probe, Ready
from taxtune.models.base import Failure, Identity, ModelSettings, Reply, Request
from taxtune.models.faults import Fault, count_fault
from taxtune.progress import note

__all__ = ["Engine", "Pool"]

# Times in a row that a worker may be lost without an answer before its place is given up, and images in a row that no
# worker survives before the run ends.
_MOST_LOST, _MOST_GIVEN_UP = 3, 3
_ROUND = 1.0  # seconds
_NO_ROOM = 900.0  # seconds without any worker, after which the run ends
_BYTES_AT_ONCE = 64 * 1024**2
_FAULTS = {fault.key: fault for fault in Fault}


class Engine(Protocol):
    """What starts workers, gives them jobs and hears of them.

    Attributes:
        size: How many workers there are to be, at least one.
    """

    size: int

    def probe(self) -> Probe:
        """Returns what is known of the model where the workers are to be; called before any is started."""
        ...

    def start(self, slot: int) -> None:
        """Starts a worker in a place, counted from 0, also where one was lost; its event is `Ready`."""
        ...

    def give(self, slot: int, job: Job) -> None:
        """Gives a worker a job; its event is `Done`, or `Missing`, and then the job is given again."""
        ...

    def wait(self, seconds: float) -> tuple[int, Event] | None:
        """Returns a worker's place and what happened there; None if nothing did within so many seconds."""
        ...

    def no_room(self) -> str:
        """Returns why no worker starts, for an error."""
        ...

    def close(self) -> None:
        """Ends all workers."""
        ...


@dataclass
class _Slot:
    """A worker's place.

    Attributes:
        started: Whether a worker was started and has not been lost.
        ready: Whether it has made its model.
        job: What it works on; it may belong to a call that was given up.
        places: The places of the job's questions in the call.
        batch: Questions that it computes at a time.
        losses: Workers lost here since one answered.
        retired: Whether no other is started here.
    """

    started: bool = False
    ready: bool = False
    job: Job | None = None
    places: list[int] = field(default_factory=list)
    batch: int = 8
    losses: int = 0
    retired: bool = False


class _Crew:
    """The workers, shared by a pool and its copies with other seeds; ended when none of these is left."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.slots = {number: _Slot() for number in range(engine.size)}
        self.lock = threading.Lock()
        self.numbers = itertools.count()
        self.probe: Probe | None = None
        self.close = weakref.finalize(self, engine.close)

    def start(self) -> None:
        """Starts the workers that are not there."""
        for number, slot in self.slots.items():
            if not slot.started and not slot.retired:
                self.engine.start(number)
                slot.started = True


class Pool:
    """A model whose questions are dealt among workers, each of which holds the model.

    Its identity is the model's own, so that answers are kept under the same key wherever they come from. All questions
    about an image go to the same worker as far as possible, since that has the image ready. What a lost worker had is
    asked again elsewhere; no question is answered twice. A question with which three workers are lost, alone the last
    time, becomes a failure.

    Args:
        engine: What the workers are: processes of this machine, or actors of a Ray cluster.
        settings: How the model is run.
    """

    def __init__(self, engine: Engine, settings: ModelSettings) -> None:
        self.settings = settings
        self._crew = _Crew(engine)

    def __repr__(self) -> str:
        return f"Pool({type(self._crew.engine).__name__}, {self._crew.engine.size} workers)"

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return self._crew.engine.size

    @property
    def identity(self) -> Identity:
        """The model's identity where the workers are.

        Raises:
            ModelError: If the model or the device is not there.
        """
        found = self._probe().identity
        # Only the seed differs between copies, and workers that are busy need not be asked about it.
        return {**found, "seed": self.settings.seed} if found.get("seed") is not None else found

    def check(self) -> list[str]:
        """Checks that the model can be asked where the workers are; see `LocalModel.check`.

        Raises:
            ModelError: If it cannot.
        """
        return list(self._probe().notes)

    def _probe(self) -> Probe:
        found = self._crew.probe or self._crew.engine.probe()
        if found.error is not None:
            raise ModelError(found.error)
        self._crew.probe = found
        return found

    def close(self) -> None:
        """Ends the workers, as the end of the program does, or of the last reference to the pool; for good."""
        self._crew.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # -- answering -----------------------------------------------------------------------------------------------------

    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        """Answers requests, in the same order and number; see `stream`."""
        replies = dict(self.stream(requests))
        return [replies[place] for place in range(len(requests))]

    def stream(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        """Gives (place, reply) as workers answer, each place once, in any order; closing it lets go of the rest.

        Raises:
            ModelError: If the model cannot answer at all, workers keep being lost, or one has another model than the
                pool.
        """
        if not requests:
            return
        ready: list[Request] = []
        places: list[int] = []
        for place, request in enumerate(requests):
            try:
                ready.append(_settled(request))
                places.append(place)
            except ImageError as error:
                yield place, Failure(str(error), retryable=False)
        identity = self.identity  # before there are workers, which may take all the room that there is
        with self._crew.lock:
            self._crew.start()
            call = _Call(self._crew, ready, self.settings.seed, identity)
            for place, reply in call.replies():
                yield places[place], reply


class _Call:
    """One call of `stream`: deals its questions until all are done."""

    def __init__(self, crew: _Crew, requests: Sequence[Request], seed: int, identity: Identity) -> None:
        self.crew, self.engine = crew, crew.engine
        self.requests = requests
        self.seed = seed
        self.identity = dict(identity)
        self.schedule = Schedule(requests, [number for number, slot in crew.slots.items() if not slot.retired])
        self.jobs: set[int] = set()
        self.given_up: set[str] = set()
        self.noted: Counter[str] = Counter()

    def replies(self) -> Iterator[tuple[int, Reply]]:
        """Gives replies until all questions are done."""
        heard = time.monotonic()
        while self.schedule.open:
            self._deal()
            found = self.engine.wait(_ROUND)
            if found is not None:
                number, event = found
                yield from self._handle(number, self.crew.slots[number], event)
            if found is not None or any(slot.ready for slot in self.crew.slots.values()):
                heard = time.monotonic()
            elif time.monotonic() - heard > _NO_ROOM:
                raise ModelError(self.engine.no_room())

    def _deal(self) -> None:
        for number, slot in self.crew.slots.items():
            if slot.ready and slot.job is None:
                places = self.schedule.take(number, slot.batch)
                if places:
                    asked = tuple(self.requests[place] for place in places)
                    slot.job, slot.places = Job(next(self.crew.numbers), asked, self.seed), places
                    self.jobs.add(slot.job.number)
                    self.engine.give(number, slot.job)

    def _handle(self, number: int, slot: _Slot, event: Event) -> Iterator[tuple[int, Reply]]:
        job, mine = slot.job, slot.job is not None and slot.job.number in self.jobs
        if isinstance(event, Ready):
            self._check_identity(number, slot, event.identity)
        elif isinstance(event, Done):
            slot.job, slot.losses, slot.batch = None, 0, event.batch_size
            if mine:
                yield from self._done(slot, event)
        elif isinstance(event, Missing):
            if mine and job is not None:
                self.engine.give(number, replace(job, images=_contents(job, event.hashes)))
            else:
                slot.job = None
        elif isinstance(event, Lost):
            yield from self._lost(number, slot, event, mine)
        elif mine or not slot.ready:
            slot.job, slot.started = None, slot.ready
            raise _error(event)
        else:
            slot.job = None

    def _check_identity(self, number: int, slot: _Slot, identity: Identity) -> None:
        """Raises a `ModelError` where a worker's model would give answers that belong under another key."""
        # A worker is made with the pool's first seed, and told the seed of each job.
        other = {key for key in {*identity, *self.identity} - {"seed"} if identity.get(key) != self.identity.get(key)}
        slot.ready = slot.started = not other
        if other:
            told = ", ".join(f"{key} {identity.get(key)} and not {self.identity.get(key)}" for key in sorted(other))
            raise ModelError(
                f"Worker {number} has another model than the others: {told}.",
                remedy="Install the same packages on all nodes, and set vlm.device and vlm.dtype rather than auto.",
            )

    def _done(self, slot: _Slot, event: Done) -> Iterator[tuple[int, Reply]]:
        if len(event.replies) != len(slot.places):
            raise ModelError(f"The model gave {len(event.replies)} answers to {len(slot.places)} requests.")
        for text in event.notes:
            self.noted[text] += 1
            if self.noted[text] == 1:  # every worker says the same
                note(text)
        for key, times in event.faults.items():
            for _ in range(times):
                count_fault(_FAULTS[key])
        self.given_up.clear()
        self.schedule.done(slot.places)
        yield from zip(slot.places, event.replies, strict=True)

    def _lost(self, number: int, slot: _Slot, event: Lost, mine: bool) -> Iterator[tuple[int, Reply]]:
        """Starts another worker, and gives up the question that none survived."""
        began = slot.ready
        slot.started, slot.ready, slot.job = False, False, None
        slot.losses += 1
        for place in self.schedule.lost(number, slot.places) if mine else ():
            request = self.requests[place]
            self.given_up.add(request.image_sha256 or request.prompt)
            self.schedule.done([place])
            about = f"{request.image}: " if request.image is not None else ""
            reason = f"{about}{MOST_LOSSES} workers in a row were lost with this question; the last: {event.reason}"
            yield place, Failure(reason, retryable=False)
        others = any(other is not slot and not other.retired for other in self.crew.slots.values())
        # If the last worker gets as far as the questions, it is they that tell whether one of them is at fault.
        if len(self.given_up) >= _MOST_GIVEN_UP or (slot.losses >= _MOST_LOST and not others and not began):
            slot.losses = 0
            raise ModelError(
                f"The workers keep ending before they answer; the last: {event.reason}",
                remedy="Give each worker more memory (fewer workers, a smaller vlm.batch_size), or see what the model "
                "does with execution.engine=here.",
            )
        slot.retired = slot.losses >= _MOST_LOST and others
        if slot.retired:
            note(f"Worker {number} was lost {slot.losses} times in a row and is left out; the last: {event.reason}")
        self.crew.start()


def _error(event: Broken) -> ModelError:
    if not event.trace:
        return ModelError(event.reason)
    error = ModelError(f"A worker failed: {event.reason}")
    error.add_note(event.trace)
    return error


def _settled(request: Request) -> Request:
    """Returns a request that means the same wherever it is read.

    Raises:
        ImageError: If the image cannot be read.
    """
    if request.image is None:
        return request
    digest = request.image_sha256 or content_hash(request.image)
    return replace(request, image=Path(request.image).absolute(), image_sha256=digest)


def _contents(job: Job, hashes: Sequence[str]) -> dict[str, bytes | None]:
    """Returns the contents of images, as many as may travel at once; None for those that cannot be read here."""
    files = {request.image_sha256: request.image for request in job.requests}
    found: dict[str, bytes | None] = {}
    size = 0
    for digest in hashes:
        content, file = None, files.get(digest)
        with suppress(OSError, ImageError):
            if file is not None and content_hash(file) == digest:
                content = file.read_bytes()
        found[digest] = content
        size += len(content or b"")
        if size >= _BYTES_AT_ONCE:
            break
    return found
