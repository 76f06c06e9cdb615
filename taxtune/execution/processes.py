"""Workers as processes of this machine: one for each GPU, or several that share the cores.

A worker is a fresh Python process that reads jobs from its standard input and writes events to its standard output, all
of them pickled. It imports nothing of the program that started it, and ends when that does, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import IO, Any

from taxtune.errors import ModelError
from taxtune.execution.worker import Event, Job, Lost, Probe, Worker, probe
from taxtune.models.base import ModelSettings

__all__ = ["ProcessEngine", "serve"]

_START = "import sys; sys.path[:] = {path!r}; from taxtune.execution.processes import serve; serve()"
_CARDS = "CUDA_VISIBLE_DEVICES"


class ProcessEngine:
    """Starts worker processes and talks with them.

    Args:
        spec: What `make_model` takes.
        settings: How the model is run.
        workers: How many; None for one for each GPU (or `gpus_per_worker` of them), and one where there is none.
        gpus_per_worker: GPUs that each worker sees: a whole number, or a fraction where several share one; None for 1
            where there are any.

    Raises:
        ModelError: If there are not so many GPUs.
    """

    def __init__(
        self, spec: str, settings: ModelSettings, *, workers: int | None = None, gpus_per_worker: float | None = None
    ) -> None:
        cards = _cards(settings.device)
        share = gpus_per_worker if gpus_per_worker is not None else float(bool(cards))
        fit = workers or 1
        if share > 0:
            fit = len(cards) * int(1 / share) if share < 1 else len(cards) // int(share)
        elif settings.device == "auto" and gpus_per_worker is not None:
            settings = replace(settings, device="cpu")
        if fit < (workers or 1):
            raise ModelError(
                f"{workers or 1} workers with {share:g} GPU each do not fit on this machine, which has "
                f"{len(cards) or 'no'} GPU{'' if len(cards) == 1 else 's'} for them.",
                remedy="Lower execution.workers or execution.gpus_per_worker, or set the latter to 0 for the CPU.",
            )
        self.spec, self.settings = spec, settings
        self.size = workers or fit
        self._cards, self._share = cards, share
        self._events: queue.SimpleQueue[tuple[int, Event]] = queue.SimpleQueue()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def probe(self) -> Probe:
        """Returns what is known of the model on this machine."""
        return probe(self.spec, self.settings)

    def environment(self, slot: int) -> Mapping[str, str]:
        """Returns the environment of a worker: its own GPUs, and its part of the cores."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        own = {"OMP_NUM_THREADS": str(max(1, cores // self.size)), "TOKENIZERS_PARALLELISM": "false", **os.environ}
        if self._cards:
            cards, share = self._cards, self._share
            whole = slice(slot * int(share), (slot + 1) * int(share))
            own[_CARDS] = cards[slot // int(1 / share)] if 0 < share < 1 else ",".join(cards[whole])
        return own

    def start(self, slot: int) -> None:
        """Starts a worker in a place, whose event will be `Ready`."""
        log = tempfile.TemporaryFile()  # noqa: SIM115 - read when the worker ends
        former = self._processes.get(slot)
        process = subprocess.Popen(
            [sys.executable, "-c", _START.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=self.environment(slot),
        )
        self._processes[slot] = process
        if former is not None:
            former.kill()
        threading.Thread(target=self._listen, args=(slot, process, log), daemon=True).start()
        self._send(slot, (self.spec, self.settings, self.size))

    def give(self, slot: int, job: Job) -> None:
        """Sends a worker a job, whose event will be `Done`."""
        self._send(slot, job)

    def wait(self, seconds: float) -> tuple[int, Event] | None:
        """Returns a worker's place and what happened there; None if nothing did within so many seconds."""
        with contextlib.suppress(queue.Empty):
            return self._events.get(timeout=seconds)
        return None

    def close(self) -> None:
        """Ends all workers."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()

    def no_room(self) -> str:
        """Returns why no worker starts, for an error."""
        return "No worker process has made its model."

    def _listen(self, slot: int, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
        """Passes on what a worker says, and that it has ended, unless another has taken its place."""
        assert process.stdin is not None
        assert process.stdout is not None

        def tell(event: Event) -> None:
            if self._processes.get(slot) is process:
                self._events.put((slot, event))

        with process.stdin, process.stdout, log:
            with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
                while True:
                    tell(pickle.load(process.stdout))
            process.kill()  # one that talks nonsense
            tell(Lost(_last_words(process.wait(), log)))

    def _send(self, slot: int, what: object) -> None:
        stream = self._processes[slot].stdin
        assert stream is not None
        with contextlib.suppress(OSError):  # one that has ended is heard of as lost
            pickle.dump(what, stream)
            stream.flush()


def _cards(device: str) -> list[str]:
    """Returns the names of the GPUs that the model may run on, as CUDA_VISIBLE_DEVICES has them."""
    if device not in ("auto", "cuda"):
        return []
    import torch

    named = [name.strip() for name in os.environ.get(_CARDS, "").split(",") if name.strip()]
    return (named or [str(i) for i in range(torch.cuda.device_count())])[: torch.cuda.device_count()]


def _last_words(code: int, log: IO[bytes]) -> str:
    """Returns why a process ended, as far as its exit code and what it wrote last tell."""
    how = f"it ended with exit code {code}"
    if code < 0:
        name = signal.Signals(-code).name
        out_of_memory = ", as the system does where memory runs out" if name == "SIGKILL" else ""
        how = f"it was ended by {name}{out_of_memory}"
    log.seek(max(0, log.seek(0, os.SEEK_END) - 2000))
    said = log.read().decode("utf-8", "replace").strip().splitlines()
    return f"{how}; it last wrote: {said[-1].strip()}" if said else how


def serve() -> None:
    """Is a worker process: reads the model's name and settings, then jobs, until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the process that started this one decides
    talk = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the model prints must not come between the events
    told: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def read() -> None:
        try:
            while True:
                told.put(pickle.load(sys.stdin.buffer))
        except (EOFError, OSError, pickle.UnpicklingError):
            os._exit(0)  # whoever started this process is gone, and nobody waits for what it computes

    threading.Thread(target=read, daemon=True).start()

    def say(event: Event) -> None:
        pickle.dump(event, talk)
        talk.flush()

    spec, settings, neighbours = told.get()
    worker = Worker(spec, settings, neighbours=neighbours)
    say(worker.begin())
    while True:
        say(worker.answer(told.get()))
