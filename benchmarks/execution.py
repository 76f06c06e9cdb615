"""What dealing questions among workers costs, and that an image stays with its worker.

Run `python benchmarks/execution.py`. The model only waits: 0.2 s for an image that it has not seen
yet, and 0.05 s for a question, so that the least time a run can take is known, and cores do not
count. The questions are those of tuning: one prompt after another about the same images.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from taxtune.execution import deploy
from taxtune.images import content_hash
from taxtune.models import Request
from taxtune.settings import ExecutionSettings

ENCODE = 0.2
ANSWER = 0.05
MODEL = f"""
import time
from taxtune.models import Answer

class Waiting:
    def __init__(self):
        self.seen = set()
    identity = {{"kind": "waiting", "model": "waiting"}}
    def answer(self, requests):
        return [self.one(request) for request in requests]
    def one(self, request):
        new = request.image_sha256 not in self.seen
        self.seen.add(request.image_sha256)
        time.sleep(({ENCODE} if new else 0.0) + {ANSWER})
        return Answer("encoded" if new else "kept")
"""


@contextmanager
def model_and_images(count: int) -> Iterator[list[Path]]:
    """Installs the model's package for this program and its workers; yields image files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        info = folder / "waiting-1.0.dist-info"
        info.mkdir()
        (folder / "waiting.py").write_text(MODEL)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: waiting\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[taxtune.vlms]\nwaiting = waiting:Waiting\n")
        sys.path.insert(0, name)
        os.environ["PYTHONPATH"] = os.pathsep.join(
            filter(None, [name, os.environ.get("PYTHONPATH")])
        )
        files = [folder / f"{i}.png" for i in range(count)]
        for i, file in enumerate(files):
            Image.new("RGB", (16, 16), (i % 256, i // 256, 0)).save(file)
        yield files


def measure(engine: str, workers: int, files: list[Path], prompts: int) -> tuple[float, float, int]:
    """Returns seconds until the first answer of every worker, seconds for all answers, and images encoded."""
    model = deploy("waiting", execution=ExecutionSettings(engine=engine, workers=workers))
    start = time.perf_counter()
    # Questions without an image, more than one worker is given at once: until all have answered
    # some.
    model.answer([Request(f"warm up {i}") for i in range(16 * workers)])
    ready = time.perf_counter()
    encoded = 0
    for prompt in range(prompts):
        replies = model.answer(
            [Request(f"prompt {prompt}", file, content_hash(file)) for file in files]
        )
        encoded += sum(reply.text == "encoded" for reply in replies)
    ended = time.perf_counter()
    return ready - start, ended - ready, encoded


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=40)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--without-ray", action="store_true", help="Leave out Ray.")
    given = parser.parse_args()
    cases = [("here", 1)]
    print(
        "| engine | workers | start, s | answers, s | least possible, s | ratio | images encoded |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with model_and_images(given.images) as files:
        if not given.without_ray:
            import ray

            variables = {"PYTHONPATH": os.environ["PYTHONPATH"]}
            ray.init(
                "local",
                num_cpus=max(given.workers),
                object_store_memory=80 * 1024**2,
                include_dashboard=False,
                log_to_driver=False,
                runtime_env={"env_vars": variables},
            )
            cases += [("ray", workers) for workers in given.workers]
        for engine, workers in cases:
            start, seconds, encoded = measure(engine, workers, files, given.prompts)
            least = given.images * (ENCODE + given.prompts * ANSWER) / workers
            figures = f"{start:.1f} | {seconds:.2f} | {least:.2f} | {seconds / least:.3f} | {encoded} of {given.images}"
            print(f"| {engine} | {workers} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
