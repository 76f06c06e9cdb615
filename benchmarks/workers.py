"""Iterations an hour of one tuning run with 1, 2 and 4 workers, asking a model of a known latency.

    python benchmarks/workers.py --workers 1 2 4 --seconds 0.1 --iterations 16

Each worker is a process with a folder of its own, as a machine would be. History and answers are on a PostgreSQL server
that the benchmark starts and ends, or, where PostgreSQL is not installed or with --sqlite, the workers share a folder.
The model sleeps and computes nothing, as one behind an API does for the machine that asks it: what is measured is how
well the workers share a run, and what the run itself costs. A race is on: the templates of each of its rounds are
shared, too. Time begins when all workers have loaded everything, and ends with the race.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from contextlib import nullcontext
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import taxtune
from taxtune.models import Answer

FINISH = ("Answer in one word.", "Name the family if unsure.", "Be careful.")


class Sleeper:
    """A model that takes so many seconds for an answer, and notes each question."""

    batch_size = 1

    def __init__(self, seconds: float, log: Path) -> None:
        self.identity = {"kind": "sleeper", "model": f"{seconds:g} s"}
        self.seconds, self.log = seconds, log

    def answer(self, requests: Any) -> list[Answer]:
        """Returns the same answer to everything."""
        with self.log.open("a") as file:
            file.writelines(f"{request.prompt}|{request.image_sha256}\n" for request in requests)
        time.sleep(self.seconds * len(requests))
        return [Answer("A finch.", seconds=self.seconds) for _ in requests]


class Numbered(taxtune.Proposer):
    """Proposes by the number of the iteration alone."""

    def propose(self, history: Any, goal: Any, *, iteration: int, seed: int, check: Any) -> taxtune.Proposal:
        """Returns the template of an iteration."""
        return taxtune.Proposal(f"Photo {iteration}: which bird is this? {FINISH[iteration % len(FINISH)]}")


def work(options: dict[str, Any], folder: Path, storage: str | None, seconds: float, together: Barrier) -> None:
    """One worker: the whole run, as far as the others do not do it."""

    class Timed:
        def on_start(self, tuner: Any, done: Any) -> None:
            together.wait()
            self.began = self.ended = time.time()
            self.idle = self.cpu = time.process_time()

        def on_iteration(self, record: Any, best: Any) -> None:
            self.ended, self.cpu = time.time(), time.process_time()

        def on_race(self, record: Any) -> None:
            self.ended, self.cpu = time.time(), time.process_time()

        def on_result(self, tuner: Any, result: Any) -> None:
            took = {"began": self.began, "ended": self.ended, "cpu": self.cpu - self.idle}
            (folder / f"took-{time.time_ns()}.json").write_text(json.dumps(took))

    folder.mkdir(parents=True, exist_ok=True)
    taxtune.tune(
        **options,
        vlm=Sleeper(seconds, folder / "asked.log"),
        proposer=Numbered(),
        out=folder,
        settings={"storage": storage, "tracking.mlflow": False},
        resume=True,
        callbacks=[Timed()],
    )


def measure(workers: int, arguments: argparse.Namespace, folder: Path, storage: str | None) -> dict[str, float]:
    """Returns what a run took with so many workers."""
    changes = {
        "iterations": arguments.iterations,
        "data.count": 4 * arguments.images,
        "data.tuning": 2 * arguments.images,
        "data.heldout": arguments.images,
        "data.block": arguments.images // 2,
        "objective.kind": "hp",
        "max_off_tree": 1,
        "name": f"workers-{workers}",
    }
    options = {
        "recipe": taxtune.load_recipe("fieldguide", [f"{key}={value}" for key, value in changes.items()]),
    }
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(workers)
    folders = [folder / (f"machine-{i}" if storage else "run") for i in range(workers)]
    processes = [
        context.Process(target=work, args=(options, each, storage, arguments.seconds, together)) for each in folders
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode != 0:
            raise SystemExit(f"A worker ended with exit code {process.exitcode}.")
    took = [json.loads(file.read_text()) for file in folder.rglob("took-*.json")]
    asked = [line for file in folder.rglob("asked.log") for line in file.read_text().splitlines()]
    return {
        "seconds": max(each["ended"] for each in took) - min(each["began"] for each in took),
        "cpu": sum(each["cpu"] for each in took),
        "questions": len(asked),
        "twice": len(asked) - len(set(asked)),
    }


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--seconds", type=float, default=0.1, help="seconds that the model takes for an answer")
    parser.add_argument("--iterations", type=int, default=16)
    parser.add_argument("--images", type=int, default=40, help="held-out images; half as many in the block")
    parser.add_argument("--sqlite", action="store_true", help="share a folder, without PostgreSQL")
    arguments = parser.parse_args()

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.databases import installed, postgresql

    served = installed() and not arguments.sqlite
    print(f"history and answers: {'PostgreSQL' if served else 'SQLite in a shared folder'}")
    print(f"model: {arguments.seconds:g} s an answer, one question of a worker at a time\n")
    print("| workers | seconds | iterations an hour | speed-up | CPU s of all workers | questions | asked twice |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    first = None
    for workers in arguments.workers:
        with tempfile.TemporaryDirectory() as folder, postgresql() if served else nullcontext() as server:
            found = measure(workers, arguments, Path(folder), server.url if server is not None else None)
        hourly = 3600 * (arguments.iterations + 1) / found["seconds"]
        first = first or found["seconds"]
        print(
            f"| {workers} | {found['seconds']:.1f} | {hourly:,.0f} | {first / found['seconds']:.2f} | "
            f"{found['cpu']:.1f} | {found['questions']:,.0f} | {found['twice']:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
