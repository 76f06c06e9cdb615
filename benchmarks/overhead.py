"""What taxtune itself costs beside the model: the command line, an iteration of the loop, and a whole run by part.

    python benchmarks/overhead.py                    # all of it; some minutes
    python benchmarks/overhead.py --only loop        # or commands, or run

CPU seconds are those of the process with all its threads, so that other work on the machine does not count; wall
seconds are given beside them. The loop is that of a real run, with its store, its history and its proposer, of a model
that answers at once; the run is `taxtune tune fieldguide` with MLflow, each part without those inside it.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import hashlib
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from taxtune.report.output import Table

SEED = 7
LOOKED_AT = (10, 100, 1_000, 2_000)
PACKAGES = ("torch", "transformers", "mlflow", "optuna")


# -- commands --------------------------------------------------------------------------------------


def timed(*command: str) -> tuple[float, float]:
    """Returns the CPU and wall seconds of a process and of what it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = time.perf_counter() - start
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def commands(folder: Path, iterations: int, repeats: int) -> Table:
    """Returns the times of commands that have nothing to compute: the least of some repeats."""
    taxtune = (sys.executable, "-m", "taxtune")
    tune = (
        *taxtune,
        "tune",
        "fieldguide",
        "--set",
        f"iterations={iterations}",
        "--out",
        str(folder / "run"),
    )
    first = timed(*tune)
    given = {
        "taxtune --help": (*taxtune, "--help"),
        "taxtune --version": (*taxtune, "--version"),
        "taxtune tune --help": (*taxtune, "tune", "--help"),
        f"taxtune tune fieldguide --resume, finished ({iterations} iterations)": (
            *tune,
            "--resume",
        ),
    }
    rows: list[tuple[object, ...]] = [(f"taxtune tune fieldguide, {iterations} iterations", *first)]
    for name, command in given.items():
        rows.append((name, *map(min, zip(*(timed(*command) for _ in range(repeats)), strict=True))))
    digits = {"CPU seconds": 2, "wall seconds": 2}
    return Table(
        "commands",
        "Commands",
        ("command", "CPU seconds", "wall seconds"),
        tuple(rows),
        digits=digits,
    )


# -- the loop --------------------------------------------------------------------------------------


class Instant:
    """A model that names some node of the tree at once."""

    batch_size = 256
    identity = {"kind": "instant", "model": "instant"}  # noqa: RUF012

    def __init__(self) -> None:
        self.labels: Sequence[str] = ()

    def answer(self, requests: Sequence[Any]) -> list[Any]:
        """Answers each request with a node that depends on its prompt and image."""
        from taxtune.models import Answer

        drawn = (
            hashlib.sha256(f"{each.prompt}{each.image_sha256}".encode()).digest()
            for each in requests
        )
        return [Answer(self.labels[int.from_bytes(each[:4]) % len(self.labels)]) for each in drawn]


def write_fragments(file: Path, slots: int = 4, choices: int = 12) -> None:
    """Writes fragments with more compositions than a long run can try."""
    lines = ["name: many", "slots:"]
    for slot in range(slots):
        lines += [f"  - id: s{slot}", f"    about: Part {slot}.", "    choices:"]
        texts = [
            f"Part {slot} in wording {choice}, of a {{{{ domain }}}}." for choice in range(choices)
        ]
        for choice, text in enumerate(texts):
            lines.append(f"      - {{id: c{choice}, text: {json.dumps(text)}}}")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def loop(folder: Path, iterations: int) -> Table:
    """Returns the time of an iteration without a model, after so many of them."""
    from taxtune.recipe import load_recipe
    from taxtune.tuning.build import Setup, build
    from taxtune.tuning.loop import Tuner

    write_fragments(folder / "many.yaml")
    data = ("data.count=60", "data.tuning=40", "data.heldout=20", "data.first_rung=20")
    many = (
        f"iterations={iterations}",
        f"proposer.fragments={folder / 'many.yaml'}",
        "tracking.mlflow=false",
    )
    vlm = Instant()
    parts = Setup(load_recipe("fieldguide", [*data, *many]), folder / "loop", vlm=vlm)
    experiment = build(parts)
    vlm.labels = experiment.taxonomy.labels
    stamps: list[tuple[float, float]] = []

    def stamp(record: Any, best: Any) -> None:
        stamps.append((time.process_time(), time.perf_counter()))
        if record.iteration == iterations:
            raise KeyboardInterrupt  # what comes after the loop is part of the run below

    with contextlib.suppress(KeyboardInterrupt):
        Tuner(experiment, parts.folder, callbacks=[stamp]).run()
    rows = []
    for after in sorted({min(each, iterations) for each in LOOKED_AT}):
        begin = max(1, after - max(5, after // 10))
        passed = [
            (b - a) / (after - begin) for a, b in zip(stamps[begin], stamps[after], strict=True)
        ]
        rows.append((after, *passed))
    heads = ("after iterations", "CPU seconds", "wall seconds")
    title = "An iteration of the loop (20 images, a model that answers at once), mean over the last tenth"
    return Table("loop", title, heads, tuple(rows), digits={"CPU seconds": 3, "wall seconds": 3})


# -- a run by part ---------------------------------------------------------------------------------


class Clock:
    """What the main thread spends in each of several parts, without the parts inside a part."""

    def __init__(self) -> None:
        self.cpu: dict[str, float] = defaultdict(float)
        self.wall: dict[str, float] = defaultdict(float)
        self._open = ["everything else"]
        self._since = self._now()

    def wrap(self, owner: Any, name: str, part: str) -> None:
        """Has every call of a function count as a part."""
        inner: Callable[..., Any] = getattr(owner, name)

        def timed(*arguments: Any, **options: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return inner(*arguments, **options)
            self._switch()
            self._open.append(part)
            try:
                return inner(*arguments, **options)
            finally:
                self._switch()
                self._open.pop()

        setattr(owner, name, timed)

    def stop(self) -> None:
        """Counts what has passed until now."""
        self._switch()

    def _switch(self) -> None:
        now = self._now()
        self.cpu[self._open[-1]] += now[0] - self._since[0]
        self.wall[self._open[-1]] += now[1] - self._since[1]
        self._since = now

    @staticmethod
    def _now() -> tuple[float, float]:
        return time.thread_time(), time.perf_counter()


LOOP = ("propose and check", "render, place and score", "history", "told to MLflow")


def run_by_part(folder: Path, iterations: int) -> None:
    """Runs the field guide with MLflow and prints, as JSON, what each part took."""
    clock = Clock()
    clock.wrap(builtins, "__import__", "imports")
    from taxtune import runs
    from taxtune.recipe import load_recipe
    from taxtune.report import html
    from taxtune.report.progress import TuningProgress
    from taxtune.report.terminal import Terminal
    from taxtune.tracking import TrackingCallback
    from taxtune.tuning import asker, build, evaluation, experiment, loop

    for owner, name, part in (
        (build, "build", "read tree and images"),
        (asker.Asker, "ask", "the model and the store of its answers"),
        (loop.Tuner, "_propose", "propose and check"),
        (evaluation.Evaluator, "evaluate", "render, place and score"),
        (loop.History, "__init__", "open the history"),
        *(
            (loop.History, name, "history")
            for name in ("claim", "propose", "templates", "finish", "keep", "write")
        ),
        (TrackingCallback, "on_start", "open MLflow's store"),
        (TrackingCallback, "on_iteration", "told to MLflow"),
        *(
            (TrackingCallback, name, "MLflow, waited for at the end")
            for name in ("on_result", "on_stop")
        ),
        (loop, "next_steps", "the choices of successive halving"),
        (loop, "choose", "the choices of successive halving"),
        (experiment, "compare_templates", "statistics"),
        (loop, "write_result", "figures, report and result"),
        (html, "write_report", "figures, report and result"),
    ):
        clock.wrap(owner, name, part)
    parts = build.Setup(load_recipe("fieldguide", [f"iterations={iterations}"]), folder)
    built = build.build(parts)
    progress = TuningProgress(Terminal(quiet=True))
    watching = [progress, *runs.recording_callbacks(parts)]
    loop.Tuner(built, folder, callbacks=watching).run()
    clock.stop()
    others = time.process_time() - time.thread_time()
    print(json.dumps({"cpu": clock.cpu, "wall": clock.wall, "threads": others}))


def run_table(folder: Path, iterations: int) -> Table:
    """Returns the time of each part of a run, in a process of its own, which loads everything first."""
    command = (
        sys.executable,
        __file__,
        "--by-part",
        str(folder / "by-part"),
        "--run-iterations",
        str(iterations),
    )
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    total = sum(found["cpu"].values()) + found["threads"]
    wall = sum(found["wall"].values())
    rows: list[tuple[object, ...]] = []
    for part, seconds in sorted(found["cpu"].items(), key=lambda item: -item[1]):
        rows.append(
            (
                part,
                seconds,
                100 * seconds / total,
                found["wall"][part],
                100 * found["wall"][part] / wall,
            )
        )
    rows.append(
        (
            "other threads: MLflow, reading ahead",
            found["threads"],
            100 * found["threads"] / total,
            None,
            None,
        )
    )
    looped = [sum(found[kind].get(part, 0.0) for part in LOOP) for kind in ("cpu", "wall")]
    rows.append(
        ("of these the loop", looped[0], 100 * looped[0] / total, looped[1], 100 * looped[1] / wall)
    )
    rows.append(("total", total, 100.0, wall, 100.0))
    heads = ("part", "CPU seconds", "% of CPU", "wall seconds", "% of wall")
    title = f"taxtune tune fieldguide, {iterations} iterations and successive halving, by part"
    digits = {"CPU seconds": 2, "% of CPU": 1, "wall seconds": 2, "% of wall": 1}
    return Table("run", title, heads, tuple(rows), digits=digits)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("commands", "loop", "run"), help="one of the tables")
    parser.add_argument(
        "--iterations", type=int, default=2_000, help="iterations of the loop (default %(default)s)"
    )
    parser.add_argument(
        "--run-iterations", type=int, default=20, help="of the run (default %(default)s)"
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=3,
        help="of each command; the least counts (default %(default)s)",
    )
    parser.add_argument("--by-part", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.by_part is not None:
        run_by_part(given.by_part, given.run_iterations)
        return
    packages = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    print(
        f"{os.cpu_count()} CPUs ({platform.machine()}), Python {platform.python_version()}, {packages}\n"
    )
    with tempfile.TemporaryDirectory(prefix="taxtune-overhead-") as folder:
        tables: dict[str, Callable[[], Table]] = {
            "commands": lambda: commands(Path(folder), given.run_iterations, given.repeats),
            "run": lambda: run_table(Path(folder), given.run_iterations),
            "loop": lambda: loop(Path(folder), given.iterations),
        }
        for name, table in tables.items():
            if given.only in (None, name):
                print(table().markdown(), flush=True)


if __name__ == "__main__":
    main()
