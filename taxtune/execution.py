"""Where the questions of a run are answered: in this process, or by the actors of a Ray cluster.

`deploy` makes the model that the settings ask for; both give the same answers under the same identity. On Ray one
driver has many workers, on this machine or on many, each with the whole model.
"""

from __future__ import annotations

import os
import socket
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.data.images import content_hash
from taxtune.errors import ImageError, MissingExtraError, ModelError, TaxtuneError
from taxtune.hardware import memory_of_this_machine
from taxtune.models.base import (
    Failure,
    Fault,
    Identity,
    Model,
    ModelSettings,
    Reply,
    Request,
    count_fault,
    count_faults,
    reseeded,
)
from taxtune.models.names import is_local, make_model, parse_model
from taxtune.progress import Display, note, showing

if TYPE_CHECKING:
    from taxtune.settings import ExecutionSettings

__all__ = ["RayModel", "deploy", "load_ray"]

# Seconds: for an answer at an address, for room on a cluster (which may start a node first), and without any worker.
_CONNECT, _PROBE, _NO_ROOM = 5.0, 300.0, 900.0
# A chunk is so many batches: enough to sort by length and to prepare images while the device computes.
_BATCHES = 4
# Workers that may be lost with a question before it is given up, and in a row without any answer before the run ends.
_MOST_LOST, _MOST_IN_A_ROW = 3, 9
_FAULTS = {fault.key: fault for fault in Fault}


def deploy(
    spec: str | Callable[..., Any] | Model,
    settings: ModelSettings | None = None,
    execution: ExecutionSettings | None = None,
) -> Model:
    """Makes a model that runs where `execution` says, in this process where left out; no weights are loaded yet.

    Args:
        spec: What `make_model` takes; for workers the name of a model, which each of them makes itself.
        settings: How the model is run.
        execution: Where.

    Raises:
        ModelError: If the model cannot be run there, or there is no cluster.
        MissingExtraError: If Ray is wanted and not installed.
    """
    if execution is None or execution.engine == "here":
        return make_model(spec, settings)
    settings = settings or ModelSettings()
    if not isinstance(spec, str) or parse_model(spec).kind == "api":
        raise ModelError(
            "execution.engine 'ray' needs a model that each worker makes for itself, not a function or an API.",
            value=spec,
            remedy="Give local:MODEL or the name of a model of an installed package, or leave out execution.",
        )
    return RayModel(spec, settings, None if execution.workers == "auto" else execution.workers)


def load_ray() -> Any:
    """Imports `ray`.

    Raises:
        MissingExtraError: If it is not installed.
    """
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", "ray", "Running on a Ray cluster") from None
    return ray


@dataclass(frozen=True)
class _Report:
    """Who a worker is, or its replies to a chunk; `error` says why the model cannot answer."""

    identity: Identity = field(default_factory=dict)
    replies: Sequence[Reply] = ()
    batch_size: int = 8
    faults: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()
    error: str | None = None


class _Notes(Display):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


class Worker:
    """An actor: a model that answers chunks of questions.

    Args:
        spec: What `make_model` takes.
        settings: How it is run.
        neighbours: Workers on the machine, this one included, which share its memory for images.
    """

    def __init__(self, spec: str, settings: ModelSettings, neighbours: int = 1) -> None:
        if is_local(spec):
            total = settings.image_memory_gib
            total = memory_of_this_machine() / 4 / 1024**3 if total is None else total
            settings = replace(settings, image_memory_gib=total / neighbours)
        self._spec, self._settings = spec, settings
        self._model: Model

    def begin(self) -> _Report:
        try:
            self._model = make_model(self._spec, self._settings)
            notes = tuple(getattr(self._model, "check", tuple)() or ())
            return _Report(dict(self._model.identity), notes=notes)
        except TaxtuneError as error:
            return _Report(error=str(error))

    def answer(self, requests: Sequence[Request], seed: int) -> _Report:
        try:
            self._model = reseeded(self._model, seed)
            with showing(_Notes()) as notes, count_faults() as faults:
                replies = self._model.answer(requests)
            if len(replies) != len(requests):
                raise ModelError(
                    f"The model gave {len(replies)} answers to {len(requests)} requests."
                )
            size = int(getattr(self._model, "batch_size", 8))
            return _Report(replies=replies, batch_size=size, faults=dict(faults), notes=notes.notes)
        except TaxtuneError as error:  # exceptions of packages need not survive the journey
            return _Report(error=str(error))
        except Exception as error:
            return _Report(
                error=f"A worker failed: {type(error).__name__}: {error}\n{traceback.format_exc()}"
            )


@dataclass
class _Slot:
    """A worker: its actor, whether that has made its model, and the questions of which `call` it works on."""

    actor: Any = None
    ready: bool = False
    call: object = None
    places: list[int] = field(default_factory=list)
    batch: int = 8


class _Crew:
    """The workers, shared by a model and its copies with other seeds; Ray ends them with the last reference."""

    def __init__(self, spec: str, settings: ModelSettings, workers: int | None) -> None:
        self.ray = load_ray()
        if not self.ray.is_initialized():
            _connect(self.ray)
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        gpus = 0.0 if settings.device == "cpu" else sum(node.get("GPU", 0.0) for node in nodes)
        size = workers or max(int(gpus) or len(nodes), 1)
        # So that no node has more workers than it has cores for; what a node lacks is waited for.
        cores = int(sum(node.get("CPU", 0.0) for node in nodes)) // size
        cores = max(1, min([cores, *(int(node["CPU"]) for node in nodes if node.get("CPU"))]))
        self.needs = {"num_gpus": int(gpus > 0), "num_cpus": cores}
        rooms = (node.get("GPU", 0.0) if gpus else node.get("CPU", 0.0) // cores for node in nodes)
        self.arguments = (spec, settings, max(1, min(size, int(max(rooms, default=1)))))
        self.slots = [_Slot() for _ in range(size)]
        self.open: dict[Any, _Slot] = {}
        # The worker of each image, which has it decoded, and what the network makes of it.
        self.homes: dict[str, int] = {}
        self.report: _Report | None = None

    def start(self) -> None:
        """Starts the workers that are not there."""
        variables = {
            "OMP_NUM_THREADS": str(self.needs["num_cpus"]),
            "TOKENIZERS_PARALLELISM": "false",
        }
        actor = self.ray.remote(Worker).options(
            **self.needs, max_restarts=0, runtime_env={"env_vars": variables}
        )
        for slot in self.slots:
            if slot.actor is None:
                slot.actor = actor.remote(*self.arguments)
                self.open[slot.actor.begin.remote()] = slot

    def first(self) -> _Report:
        """The report of the first worker; raises a ModelError where there is no room, or the model cannot be asked."""
        if self.report is None:
            self.start()
            ready, _ = self.ray.wait(list(self.open), timeout=_PROBE)
            if not ready:
                raise ModelError(self.no_room())
            try:
                self.report = self.ray.get(ready[0])
            except self.ray.exceptions.RayError as error:
                raise ModelError(
                    f"A node of the Ray cluster cannot make the model: {_first_line(error)}."
                ) from error
        if self.report.error is not None:
            raise ModelError(self.report.error)
        return self.report

    def welcome(self, slot: _Slot, report: _Report) -> None:
        """Lets a worker that has made its model take questions; raises a ModelError if that is not the first's."""
        theirs, ours = report.identity, self.first().identity
        other = sorted(key for key in {*theirs, *ours} if theirs.get(key) != ours.get(key))
        if report.error is not None or other:
            slot.actor = None
            told = ", ".join(f"{key} {theirs.get(key)} and not {ours.get(key)}" for key in other)
            raise ModelError(
                report.error or f"A worker has another model than the others: {told}.",
                remedy="Install the same packages on all nodes, and set vlm.device rather than auto.",
            )
        slot.ready = True

    def no_room(self) -> str:
        free = self.ray.available_resources()
        return (
            f"The Ray cluster has no room for a worker, which takes {self.needs['num_gpus']} GPU and "
            f"{self.needs['num_cpus']} CPU on one node; {free.get('GPU', 0):g} GPU and {free.get('CPU', 0):g} CPU are "
            "free. Start more nodes, end other work, or lower execution.workers."
        )


class RayModel:
    """A model whose questions are dealt among workers, all about an image to the same one as far as possible.

    Its identity is the model's own. What a lost worker had is asked again, one question at a time; a question with
    which three workers are lost becomes a failure. A cluster that the program is connected to is used as it is.

    Args:
        spec: What `make_model` takes.
        settings: How the model is run.
        workers: How many; None for as many as the cluster's GPUs make, or one for each node where there are none.

    Raises:
        MissingExtraError: If Ray is not installed.
        ModelError: If there is no cluster at `RAY_ADDRESS`, or none can be started on this machine.
    """

    def __init__(self, spec: str, settings: ModelSettings, workers: int | None = None) -> None:
        self.settings = settings
        self._crew = _Crew(spec, settings, workers)
        self.workers = len(self._crew.slots)

    @property
    def identity(self) -> Identity:
        """The model's identity where the workers are; only the seed differs between copies."""
        identity = self._crew.first().identity
        return (
            {**identity, "seed": self.settings.seed}
            if identity.get("seed") is not None
            else identity
        )

    def check(self) -> list[str]:
        """Checks that the model can be asked where the workers are; see `LocalModel.check`."""
        return list(self._crew.first().notes)

    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        """Answers requests, in the same order and number; see `stream`."""
        return [reply for _, reply in sorted(self.stream(requests), key=lambda pair: pair[0])]

    def stream(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        """Gives (place, reply) as workers answer, each place once, in any order; closing it lets go of the rest.

        Raises:
            ModelError: If the model cannot answer at all, workers keep being lost, or one has another model than the
                others.
        """
        crew, asked = self._crew, dict[int, Request]()
        queues: list[deque[int]] = [deque() for _ in crew.slots]
        for place, request in enumerate(requests):
            try:
                asked[place] = request = _located(request)
            except ImageError as error:
                yield place, Failure(str(error), retryable=False)
            else:
                home = crew.homes.setdefault(
                    request.image_sha256 or request.prompt, len(crew.homes) % len(queues)
                )
                queues[home].append(place)
        again: deque[int] = deque()  # what was lost, one at a time
        losses: Counter[int] = Counter()
        told: set[str] = set()
        call, done, in_a_row, heard = object(), 0, 0, time.monotonic()
        crew.start()
        while done < len(asked):
            for slot, queue in zip(crew.slots, queues, strict=True):
                if slot.ready and not slot.places:
                    slot.call, slot.places = call, _take(slot.batch, queue, queues, again)
                    if slot.places:
                        chunk = [asked[place] for place in slot.places]
                        crew.open[slot.actor.answer.remote(chunk, self.settings.seed)] = slot
            finished, _ = crew.ray.wait(list(crew.open), timeout=1.0)
            if finished or any(slot.ready for slot in crew.slots):
                heard = time.monotonic()
            elif time.monotonic() - heard > _NO_ROOM:
                raise ModelError(crew.no_room())
            if not finished and not any(node["Alive"] for node in crew.ray.nodes()):
                raise ModelError(
                    "All nodes of the Ray cluster have ended.", remedy="Start them, and continue."
                )
            for reference in finished:
                slot = crew.open.pop(reference)
                places, slot.places = slot.places if slot.call is call else [], []
                try:
                    report: _Report = crew.ray.get(reference)
                except crew.ray.exceptions.RayError as error:
                    said = _first_line(error)
                    slot.actor, slot.ready = None, False
                    in_a_row += 1
                    losses.update(places)
                    if len(places) == 1 and losses[places[0]] >= _MOST_LOST:
                        done += 1
                        reason = (
                            f"{_MOST_LOST} workers were lost with this question; the last: {said}"
                        )
                        yield places[0], Failure(reason, retryable=False)
                    else:
                        again.extend(places)
                    if in_a_row >= _MOST_IN_A_ROW:
                        message = f"The workers keep ending before they answer; the last: {said}."
                        remedy = "Give each worker more memory: fewer workers, or a smaller vlm.batch_size."
                        raise ModelError(message, remedy=remedy) from error
                    crew.start()
                    continue
                if not slot.ready:
                    crew.welcome(slot, report)
                elif places:
                    if report.error is not None:
                        raise ModelError(report.error)
                    slot.batch, in_a_row, done = report.batch_size, 0, done + len(places)
                    for text in [text for text in dict.fromkeys(report.notes) if text not in told]:
                        told.add(text)  # every worker says the same
                        note(text)
                    for key, times in report.faults.items():
                        for _ in range(times):
                            count_fault(_FAULTS[key])
                    yield from zip(places, report.replies, strict=True)


def _take(
    batch: int, own: deque[int], queues: Sequence[deque[int]], again: deque[int]
) -> list[int]:
    """The questions that a worker is asked next: lost ones, its own, or else some of the longest queue."""
    if again:
        return [again.popleft()]
    queue = own or max(queues, key=len)
    half = -(-len(queue) // 2)  # few at the end, so that workers finish together
    size = (
        min(len(queue), _BATCHES * batch, max(batch, half))
        if queue is own
        else min(_BATCHES * batch, half)
    )
    return [queue.popleft() if queue is own else queue.pop() for _ in range(size)]


def _located(request: Request) -> Request:
    if request.image is None:
        return request
    digest = request.image_sha256 or content_hash(request.image)
    return replace(request, image=Path(request.image).absolute(), image_sha256=digest)


def _connect(ray: Any) -> None:
    address = os.environ.get("RAY_ADDRESS")
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    try:
        if colon:  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), timeout=_CONNECT).close()
        ray.init(
            address=address, log_to_driver=False, logging_level="ERROR", include_dashboard=False
        )
    except (OSError, RuntimeError, ValueError) as error:
        if address is None:
            raise ModelError(
                f"Ray cannot be started on this machine: {_first_line(error)}."
            ) from error
        remedy = (
            "Start one with `ray start --head`, or unset RAY_ADDRESS for a cluster on this machine."
        )
        raise ModelError(
            "There is no Ray cluster at RAY_ADDRESS.", value=address, remedy=remedy
        ) from error


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
