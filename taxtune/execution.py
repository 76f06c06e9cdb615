"""Where the questions of a run are answered: in this process, or by the actors of a Ray cluster.

`deploy` makes the model that the settings ask for; both give the same answers under the same
identity. On Ray one driver has many workers, on this machine or on many, each with the whole model.
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

from taxtune.errors import ImageError, MissingExtraError, ModelError, TaxtuneError
from taxtune.hardware import memory_of_this_machine
from taxtune.images import content_hash
from taxtune.models.base import (
    Failure,
    Fault,
    Identity,
    Model,
    ModelSettings,
    Reply,
    Request,
    StreamingModel,
    count_fault,
    count_faults,
)
from taxtune.models.names import is_local, make_model, parse_model
from taxtune.progress import Display, note, showing

if TYPE_CHECKING:
    from taxtune.settings import ExecutionSettings

__all__ = ["RayModel", "deploy", "load_ray"]

# Seconds for an answer at an address.
_CONNECT = 5.0
# Seconds for room on a cluster, which may start a node first.
_PROBE = 300.0
# Seconds without any worker.
_NO_ROOM = 900.0
# A chunk is so many batches: enough to sort by length and to prepare images while the device
# computes.
_BATCHES = 4
# Workers that may be lost with a question before it is given up.
_MOST_LOST = 3
# Workers that may be lost in a row, without any answer, before the run ends.
_MOST_IN_A_ROW = 9
_FAULTS = {fault.key: fault for fault in Fault}


def deploy(
    spec: str | Callable[..., Any] | Model,
    settings: ModelSettings | None = None,
    execution: ExecutionSettings | None = None,
) -> Model:
    """Makes a model that runs where `execution` says, in this process where left out.

    No weights are loaded yet.

    Args:
        spec: What `make_model` takes; for workers the name of a model, which each of them makes
            itself.
        settings: How the model is run.
        execution: Where.

    Raises:
        ModelError: If the model cannot be run there, or there is no cluster.
        MissingExtraError: If Ray is wanted and not installed.
    """
    if execution is None or execution.engine == "here":
        return make_model(spec, settings)
    if not isinstance(spec, str) or parse_model(spec).kind == "api":
        raise ModelError(
            "execution.engine 'ray' needs a model that each worker makes for itself, not a "
            "function or an API.",
            value=spec,
            remedy="Give local:MODEL or the name of a model of an installed package, or leave out "
            "execution.",
        )
    workers = None if execution.workers == "auto" else execution.workers
    return RayModel(spec, settings or ModelSettings(), workers)


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


# -- a worker --------------------------------------------------------------------------------------


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
            if total is None:
                total = memory_of_this_machine() / 4 / 1024**3
            settings = replace(settings, image_memory_gib=total / neighbours)
        self._spec = spec
        self._settings = settings
        self._model: Model

    def begin(self) -> _Report:
        try:
            self._model = make_model(self._spec, self._settings)
            notes = tuple(getattr(self._model, "check", tuple)() or ())
            return _Report(identity=dict(self._model.identity), notes=notes)
        except TaxtuneError as error:
            return _Report(error=str(error))

    def answer(self, requests: Sequence[Request]) -> _Report:
        try:
            with showing(_Notes()) as display, count_faults() as faults:
                replies = self._model.answer(requests)
        except TaxtuneError as error:  # exceptions of packages need not survive the journey
            return _Report(error=str(error))
        except Exception as error:
            problem = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
            return _Report(error=f"A worker failed: {problem}")
        if len(replies) != len(requests):
            error_text = f"The model gave {len(replies)} answers to {len(requests)} requests."
            return _Report(error=error_text)
        return _Report(
            replies=replies,
            batch_size=int(getattr(self._model, "batch_size", 8)),
            faults=dict(faults),
            notes=display.notes,
        )


# -- the driver ------------------------------------------------------------------------------------


class _Questions:
    """The questions of one call, and which workers are to be asked them.

    Attributes:
        open: Questions without a reply.
        lost_in_a_row: Workers that were lost since the last reply.
        notes: Notes that the user was shown: every worker has the same.
    """

    def __init__(self, workers: int) -> None:
        self.open = 0
        self.lost_in_a_row = 0
        self.notes: set[str] = set()
        self._requests: dict[int, Request] = {}
        self._queues: list[deque[int]] = [deque() for _ in range(workers)]
        self._lost: deque[int] = deque()
        self._losses: Counter[int] = Counter()

    def add(self, place: int, request: Request, worker: int) -> None:
        """Adds a question for a worker."""
        self._requests[place] = request
        self._queues[worker].append(place)
        self.open += 1

    def chunk(self, places: Sequence[int]) -> list[Request]:
        """Returns the requests at places."""
        return [self._requests[place] for place in places]

    def take(self, worker: int, batch: int) -> list[int]:
        """Takes the places that a worker is asked next.

        These are a lost one, its own, or else some of the longest queue.
        """
        if self._lost:
            return [self._lost.popleft()]
        queue = self._queues[worker]
        if queue:
            half = -(-len(queue) // 2)  # few at the end, so that workers finish together
            size = min(len(queue), _BATCHES * batch, max(batch, half))
            return [queue.popleft() for _ in range(size)]
        longest = max(self._queues, key=len)
        size = min(_BATCHES * batch, -(-len(longest) // 2))
        return [longest.pop() for _ in range(size)]

    def lose(self, places: Sequence[int]) -> bool:
        """Tells whether lost questions are given up; otherwise each is asked again, on its own."""
        self._losses.update(places)
        if len(places) == 1 and self._losses[places[0]] >= _MOST_LOST:
            return True
        self._lost.extend(places)
        return False


@dataclass
class _Slot:
    """A worker as the driver sees it.

    Attributes:
        number: Its number.
        actor: The actor; None where it is lost.
        ready: Whether that has made its model.
        questions: The call whose questions it works on.
        places: Their places.
        batch: The questions that keep it busy.
    """

    number: int
    actor: Any = None
    ready: bool = False
    questions: _Questions | None = None
    places: list[int] = field(default_factory=list)
    batch: int = 8


class RayModel(StreamingModel):
    """A model whose questions are dealt among workers; all about an image go to the same one.

    (As far as possible.) Its identity is the model's own. What a lost worker had is asked again,
    one question at a time; a question with which three workers are lost becomes a failure. A
    cluster that the program is connected to is used as it is.

    Args:
        spec: What `make_model` takes.
        settings: How the model is run.
        workers: How many; None for as many as the cluster's GPUs make, or one for each node where
            there are none.

    Raises:
        MissingExtraError: If Ray is not installed.
        ModelError: If there is no cluster at `RAY_ADDRESS`, or none can be started on this machine.
    """

    def __init__(self, spec: str, settings: ModelSettings, workers: int | None = None) -> None:
        self.settings = settings
        self._ray = load_ray()
        if not self._ray.is_initialized():
            _connect(self._ray)
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        all_cores = [node.get("CPU", 0.0) for node in nodes]
        all_gpus = [node.get("GPU", 0.0) for node in nodes]
        gpus = 0.0 if settings.device == "cpu" else sum(all_gpus)
        #: Number of workers.
        self.workers = workers or max(int(gpus) or len(nodes), 1)
        # So that no node has more workers than it has cores for; what a node lacks is waited for.
        fewest = min((int(cores) for cores in all_cores if cores), default=1)
        cores = max(1, min(int(sum(all_cores)) // self.workers, fewest))
        self._needs = {"num_gpus": int(gpus > 0), "num_cpus": cores}
        room = max(all_gpus if gpus else (of_node // cores for of_node in all_cores), default=1)
        neighbours = max(1, min(self.workers, int(room)))
        self._arguments = (spec, settings, neighbours)
        self._slots = [_Slot(number) for number in range(self.workers)]
        self._under_way: dict[Any, _Slot] = {}
        # The worker of each image, which has it decoded and its features.
        self._homes: dict[str, int] = {}
        self._first_report: _Report | None = None

    @property
    def identity(self) -> Identity:
        """The model's identity where the workers are."""
        return self._first().identity

    def check(self) -> list[str]:
        """Checks that the model can be asked where the workers are; see `LocalModel.check`."""
        return list(self._first().notes)

    def stream(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        """Gives (place, reply) as workers answer, each place once, in any order.

        Closing it lets go of the rest.

        Raises:
            ModelError: If the model cannot answer at all, workers keep being lost, or one has
                another model than the others.
        """
        questions = _Questions(self.workers)
        for place, request in enumerate(requests):
            try:
                located = _located(request)
            except ImageError as error:
                yield place, Failure(str(error), retryable=False)
                continue
            content = located.image_sha256 or located.prompt
            home = self._homes.setdefault(content, len(self._homes) % self.workers)
            questions.add(place, located, home)
        self._start()
        last_heard = time.monotonic()
        while questions.open:
            self._deal(questions)
            finished, _ = self._ray.wait(list(self._under_way), timeout=1.0)
            if finished or any(slot.ready for slot in self._slots):
                last_heard = time.monotonic()
            elif time.monotonic() - last_heard > _NO_ROOM:
                raise ModelError(self._no_room())
            if not finished and not any(node["Alive"] for node in self._ray.nodes()):
                message = "All nodes of the Ray cluster have ended."
                raise ModelError(message, remedy="Start them, and continue.")
            for reference in finished:
                yield from self._finish(reference, questions)

    def _deal(self, questions: _Questions) -> None:
        """Asks the workers that are free."""
        for slot in self._slots:
            if not slot.ready or slot.places:
                continue
            slot.questions = questions
            slot.places = questions.take(slot.number, slot.batch)
            if slot.places:
                chunk = questions.chunk(slot.places)
                self._under_way[slot.actor.answer.remote(chunk)] = slot

    def _finish(self, reference: Any, questions: _Questions) -> Iterator[tuple[int, Reply]]:
        """Gives the replies of a worker; those to an earlier, closed call are dropped."""
        slot = self._under_way.pop(reference)
        places = slot.places if slot.questions is questions else []
        slot.places = []
        try:
            report: _Report = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            slot.actor = None
            slot.ready = False
            problem = _first_line(error)
            if questions.lose(places):
                questions.open -= 1
                reason = f"{_MOST_LOST} workers were lost with this question; the last: {problem}"
                yield places[0], Failure(reason, retryable=False)
            questions.lost_in_a_row += 1
            if questions.lost_in_a_row >= _MOST_IN_A_ROW:
                raise ModelError(
                    f"The workers keep ending before they answer; the last: {problem}.",
                    remedy="Give each worker more memory: fewer workers, or a smaller "
                    "vlm.batch_size.",
                ) from error
            self._start()
            return
        if not slot.ready:
            self._welcome(slot, report)
        elif places:
            if report.error is not None:
                raise ModelError(report.error)
            slot.batch = report.batch_size
            questions.lost_in_a_row = 0
            questions.open -= len(places)
            for text in report.notes:
                if text not in questions.notes:
                    questions.notes.add(text)
                    note(text)
            for key in Counter(report.faults).elements():
                count_fault(_FAULTS[key])
            yield from zip(places, report.replies, strict=True)

    # -- workers -----------------------------------------------------------------------------------

    def _start(self) -> None:
        """Starts the workers that are not there."""
        variables = {
            "OMP_NUM_THREADS": str(self._needs["num_cpus"]),
            "TOKENIZERS_PARALLELISM": "false",
        }
        actor = self._ray.remote(Worker).options(
            **self._needs, max_restarts=0, runtime_env={"env_vars": variables}
        )
        for slot in self._slots:
            if slot.actor is None:
                slot.actor = actor.remote(*self._arguments)
                self._under_way[slot.actor.begin.remote()] = slot

    def _first(self) -> _Report:
        """Returns the report of the first worker.

        Raises:
            ModelError: If there is no room, or the model cannot be asked.
        """
        if self._first_report is None:
            self._start()
            ready, _ = self._ray.wait(list(self._under_way), timeout=_PROBE)
            if not ready:
                raise ModelError(self._no_room())
            try:
                self._first_report = self._ray.get(ready[0])
            except self._ray.exceptions.RayError as error:
                message = f"A node of the Ray cluster cannot make the model: {_first_line(error)}."
                raise ModelError(message) from error
        if self._first_report.error is not None:
            raise ModelError(self._first_report.error)
        return self._first_report

    def _welcome(self, slot: _Slot, report: _Report) -> None:
        """Lets a worker that has made its model take questions.

        Raises:
            ModelError: If that model is not the first worker's.
        """
        theirs = report.identity
        ours = self._first().identity
        differences = []
        for key in sorted({*theirs, *ours}):
            if theirs.get(key) != ours.get(key):
                differences.append(f"{key} {theirs.get(key)} and not {ours.get(key)}")
        if report.error is not None or differences:
            slot.actor = None
            message = f"A worker has another model than the others: {', '.join(differences)}."
            raise ModelError(
                report.error or message,
                remedy="Install the same packages on all nodes, and set vlm.device rather than "
                "auto.",
            )
        slot.ready = True

    def _no_room(self) -> str:
        free = self._ray.available_resources()
        return (
            f"The Ray cluster has no room for a worker, which takes {self._needs['num_gpus']} GPU "
            f"and {self._needs['num_cpus']} CPU on one node; {free.get('GPU', 0):g} GPU and "
            f"{free.get('CPU', 0):g} CPU are free. Start more nodes, end other work, or lower "
            "execution.workers."
        )


def _located(request: Request) -> Request:
    """Returns a request with the absolute path and the hash of its image."""
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
            message = f"Ray cannot be started on this machine: {_first_line(error)}."
            raise ModelError(message) from error
        raise ModelError(
            "There is no Ray cluster at RAY_ADDRESS.",
            value=address,
            remedy="Start one with `ray start --head`, or unset RAY_ADDRESS for a cluster on this "
            "machine.",
        ) from error


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
