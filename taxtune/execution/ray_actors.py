"""Workers as actors of a Ray cluster, on this machine or on many."""

from __future__ import annotations

import os
import socket
from typing import Any

from taxtune.errors import MissingExtraError, ModelError
from taxtune.execution.worker import Event, Job, Lost, Probe, Worker, probe
from taxtune.models.base import ModelSettings

__all__ = ["RayEngine", "load_ray"]

# Seconds: for an answer at an address, and for room on a cluster, which may have to start a node first.
_CONNECT, _PROBE = 5.0, 300.0


def load_ray() -> Any:
    """Returns the module `ray`.

    Raises:
        MissingExtraError: If it is not installed.
    """
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", "ray", "Running on a Ray cluster") from None
    return ray


class RayEngine:
    """Starts actors and talks with them. A cluster that the program is connected to already is used as it is.

    Args:
        spec: What `make_model` takes.
        settings: How the model is run.
        address: "HOST:PORT", "ray://HOST:PORT" or "auto"; None for `RAY_ADDRESS`, or else a cluster on this machine,
            which is started if there is none.
        workers: How many; None for as many as the cluster's GPUs make, or one for each node where there are none.
        gpus_per_worker: GPUs that each worker reserves, which may be a fraction; None for 1 where there are any.

    Raises:
        MissingExtraError: If Ray is not installed.
        ModelError: If there is no cluster at the address.
    """

    def __init__(
        self,
        spec: str,
        settings: ModelSettings,
        *,
        address: str | None = None,
        workers: int | None = None,
        gpus_per_worker: float | None = None,
    ) -> None:
        self.spec, self.settings = spec, settings
        self._ray = load_ray()
        if not self._ray.is_initialized():
            _connect(self._ray, address)
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        gpus = 0.0 if settings.device == "cpu" else sum(node.get("GPU", 0.0) for node in nodes)
        share = gpus_per_worker if gpus_per_worker is not None else float(gpus > 0)
        fit = int(gpus / share) if share else len(nodes)
        self.size = workers or max(fit, 1)
        # So that no node has more workers than it has cores for; what a node lacks is waited for.
        cores = int(sum(node.get("CPU", 0.0) for node in nodes)) // self.size
        cores = max(1, min([cores, *(int(node["CPU"]) for node in nodes if node.get("CPU"))]))
        self.needs = {"num_gpus": share, "num_cpus": cores}
        rooms = (node.get("GPU", 0.0) // share if share else node.get("CPU", 0.0) // cores for node in nodes)
        self._neighbours = max(1, min(self.size, int(max(rooms, default=1))))
        self._actors: dict[int, Any] = {}
        self._open: dict[Any, int] = {}

    def probe(self) -> Probe:
        """Returns what is known of the model on a node that has room for a worker."""
        asked = self._ray.remote(probe).options(**self.needs, max_retries=1).remote(self.spec, self.settings)
        try:
            found: Probe = self._ray.get(asked, timeout=_PROBE)
        except self._ray.exceptions.GetTimeoutError:
            self._ray.cancel(asked)
            return Probe(error=self.no_room())
        except self._ray.exceptions.RayError as error:
            return Probe(error=f"A node of the Ray cluster cannot make the model: {_said(error)}")
        return found

    def no_room(self) -> str:
        """Returns what a worker needs and the cluster has, for an error."""
        there = {key: f"{n:g}" for key, n in self._ray.cluster_resources().items() if key in ("CPU", "GPU")}
        free = {key: f"{n:g}" for key, n in self._ray.available_resources().items() if key in ("CPU", "GPU")}
        has = ", ".join(f"{n} {key} ({free.get(key, '0')} free)" for key, n in there.items()) or "none"
        return (
            f"The Ray cluster has no room for a worker, which takes {self.needs['num_gpus']:g} GPU and "
            f"{self.needs['num_cpus']} CPU on one node; the cluster has {has}. Start more nodes, end other work, or "
            "lower execution.gpus_per_worker (0 for the CPU)."
        )

    def start(self, slot: int) -> None:
        """Starts a worker in a place, whose event will be `Ready`."""
        if slot in self._actors:
            self._ray.kill(self._actors[slot])
        environment = {"OMP_NUM_THREADS": str(self.needs["num_cpus"]), "TOKENIZERS_PARALLELISM": "false"}
        options = {**self.needs, "max_restarts": 0, "max_task_retries": 0, "runtime_env": {"env_vars": environment}}
        actor = (
            self._ray.remote(Worker)
            .options(**options)
            .remote(self.spec, self.settings, neighbours=self._neighbours, far=True)
        )
        self._actors[slot] = actor
        self._open[actor.begin.remote()] = slot

    def give(self, slot: int, job: Job) -> None:
        """Sends a worker a job, whose event will be `Done` or `Missing`."""
        self._open[self._actors[slot].answer.remote(job)] = slot

    def wait(self, seconds: float) -> tuple[int, Event] | None:
        """Returns a worker's place and what happened there; None if nothing did within so many seconds."""
        ready, _ = self._ray.wait(list(self._open), timeout=seconds)
        if not ready:
            return None
        slot = self._open.pop(ready[0])
        try:
            return slot, self._ray.get(ready[0])
        except self._ray.exceptions.RayError as error:
            return slot, Lost(_said(error))

    def close(self) -> None:
        """Ends all workers. The connection to the cluster, which others may use as well, ends with the program."""
        if self._ray.is_initialized():
            for actor in self._actors.values():
                self._ray.kill(actor)
        self._actors.clear()
        self._open.clear()


def _connect(ray: Any, address: str | None) -> None:
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    no_cluster = ModelError(
        "There is no Ray cluster at execution.address.",
        value=address,
        remedy="Start one with `ray start --head`, check the address and the port (6379, or 10001 after ray://), or "
        "leave the address out for a cluster on this machine.",
    )
    if colon:  # Ray itself would try for minutes
        try:
            socket.create_connection((host, int(port)), timeout=_CONNECT).close()
        except (OSError, ValueError):
            raise no_cluster from None
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        if address is None and "RAY_ADDRESS" not in os.environ:
            raise ModelError(f"Ray cannot be started on this machine: {_said(error)}") from error
        raise no_cluster from error


def _said(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
