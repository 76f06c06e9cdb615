"""What runs in a worker: one model, and the chunks of questions that it is sent."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from taxtune.data.images import content_hash, store_image
from taxtune.errors import ImageError, TaxtuneError
from taxtune.hardware import memory_of_this_machine
from taxtune.models.base import Failure, Identity, Model, ModelSettings, Reply, Request, reseeded
from taxtune.models.faults import count_faults
from taxtune.models.make import make_model
from taxtune.models.names import is_local
from taxtune.progress import Display, showing

__all__ = ["Broken", "Done", "Event", "Job", "Lost", "Missing", "Probe", "Ready", "Worker", "probe"]

T = TypeVar("T")

_DEFAULT_BATCH = 8


@dataclass(frozen=True)
class Job:
    """A chunk of questions for a worker.

    Attributes:
        number: Tells it from every other job.
        requests: The questions; every image has its hash.
        seed: Seed of the sampling.
        images: Contents of images that the worker asked for, by their hash; None where they cannot be had.
    """

    number: int
    requests: tuple[Request, ...]
    seed: int
    images: Mapping[str, bytes | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Ready:
    """A worker has made its model.

    Attributes:
        identity: The model's.
    """

    identity: Identity


@dataclass(frozen=True)
class Done:
    """A worker has answered a job.

    Attributes:
        number: The job's.
        replies: As many as questions, in order.
        batch_size: Questions that the model computes at a time.
        faults: Attempts that failed, by the fault's key.
        notes: What the user should know.
    """

    number: int
    replies: list[Reply]
    batch_size: int
    faults: Mapping[str, int]
    notes: list[str]


@dataclass(frozen=True)
class Missing:
    """A worker cannot read some images of a job and asks for their contents.

    Attributes:
        number: The job's.
        hashes: The images' hashes.
    """

    number: int
    hashes: list[str]


@dataclass(frozen=True)
class Broken:
    """The model cannot answer at all.

    Attributes:
        reason: What it says.
        trace: Where in the code, for an error that nobody foresaw; otherwise "".
    """

    reason: str
    trace: str = ""


@dataclass(frozen=True)
class Lost:
    """A worker has ended before its time.

    Attributes:
        reason: As far as it is known.
    """

    reason: str


Event = Ready | Done | Missing | Broken | Lost


@dataclass(frozen=True)
class Probe:
    """What is known of a model where the workers are.

    Attributes:
        identity: The model's.
        notes: What the user should know before a run.
        error: Why it cannot be asked; None if it can.
    """

    identity: Identity = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    error: str | None = None


def probe(spec: str, settings: ModelSettings) -> Probe:
    """Finds out what a model is and whether it can be asked here, without loading its weights."""
    try:
        model = make_model(spec, settings)
        notes = tuple(getattr(model, "check", tuple)() or ())
        return Probe(dict(model.identity), notes)
    except TaxtuneError as error:
        return Probe(error=str(error))


class Worker:
    """A model that answers jobs.

    Args:
        spec: What `make_model` takes.
        settings: How it is run.
        neighbours: Workers on the machine, this one included, which share its memory for images.
        far: Whether the machine may lack the image files, or have others in their place.
    """

    def __init__(self, spec: str, settings: ModelSettings, *, neighbours: int = 1, far: bool = False) -> None:
        self._spec, self._settings, self._neighbours, self._far = spec, settings, neighbours, far
        self._model: Model | None = None
        self._files: dict[str, Path] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def begin(self) -> Ready | Broken:
        """Makes the model; its weights are loaded at the first question."""
        return _guarded(self._begin)

    def answer(self, job: Job) -> Done | Missing | Broken:
        """Answers a job."""
        return _guarded(lambda: self._answer(job))

    def _begin(self) -> Ready:
        settings = self._settings
        if is_local(self._spec):
            total = settings.image_memory_gib
            total = memory_of_this_machine() / 4 / 1024**3 if total is None else total
            settings = replace(settings, image_memory_gib=total / self._neighbours)
        self._model = make_model(self._spec, settings)
        return Ready(dict(self._model.identity))

    def _answer(self, job: Job) -> Done | Missing:
        assert self._model is not None  # `begin` comes first
        requests = list(job.requests)
        if self._far:
            for digest, content in job.images.items():
                self._keep(digest, content, job)
            missing = sorted({str(r.image_sha256) for r in requests if not self._here(r)})
            if missing:
                return Missing(job.number, missing)
            requests = [replace(r, image=self._files.get(r.image_sha256 or "", r.image)) for r in requests]
        self._model = reseeded(self._model, job.seed)
        with showing(_Notes()) as notes, count_faults() as faults:
            replies = self._model.answer(requests)
        if self._far:
            replies = [_named(reply, *pair) for reply, *pair in zip(replies, requests, job.requests, strict=True)]
        size = int(getattr(self._model, "batch_size", _DEFAULT_BATCH))
        return Done(job.number, replies, size, dict(faults), notes.notes)

    def _here(self, request: Request) -> bool:
        """Tells whether a request's image is in a file that can be read here and has the right content."""
        if request.image is None or request.image_sha256 is None:
            return True
        if request.image_sha256 not in self._files:
            try:
                if content_hash(request.image) != request.image_sha256:
                    return False
            except ImageError:
                return False
            self._files[request.image_sha256] = request.image
        return True

    def _keep(self, digest: str, content: bytes | None, job: Job) -> None:
        if content is None:
            # The file that it is said to be in: the model says what is wrong with it.
            self._files[digest] = next(r.image for r in job.requests if r.image and r.image_sha256 == digest)
            return
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="taxtune-images-")
        self._files[digest] = store_image(content, Path(self._folder.name))


class _Notes(Display):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def _guarded(work: Callable[[], T]) -> T | Broken:
    """Returns what some work returns, or what went wrong: exceptions of packages need not survive a journey."""
    try:
        return work()
    except TaxtuneError as error:
        return Broken(str(error))
    except Exception as error:
        return Broken(f"{type(error).__name__}: {error}", traceback.format_exc())


def _named(reply: Reply, here: Request, asked: Request) -> Reply:
    """Names the user's file in a failure, not the copy that the worker has of it."""
    if isinstance(reply, Failure) and here.image != asked.image:
        return replace(reply, reason=reply.reason.replace(str(here.image), str(asked.image)))
    return reply
