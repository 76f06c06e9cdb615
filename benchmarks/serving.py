"""A server behind the OpenAI protocol: how many calls are under way, and what sending an image costs.

Run `python benchmarks/serving.py`. The servers run in this process, on 127.0.0.1, and compute nothing: they wait as
long as a GPU would take, refuse what is too much, or let it queue. So the table compares ways to keep a server busy, on
the same server; it says nothing of a real one's speed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from taxtune.data import content_hash, load_image
from taxtune.models import Answer, Request
from taxtune.models.api import ApiModel
from taxtune.models.api_errors import load_litellm
from taxtune.models.image_urls import data_url
from taxtune.report.output import Cell, Table
from tests.servers import OpenAIServer, Reply, model_settings, slow, status

FIXED = (4, 12, 48)


class Server:
    """A server, and what it refused.

    Args:
        answer: The reply to a call while so many are under way, or None where it is refused.
        options: Of the server: `slots`, `when_full`.
    """

    def __init__(self, answer: Callable[[int], Reply], **options: Any) -> None:
        self.refused = 0
        self._answer = answer
        self.http = OpenAIServer(self._reply, **options)

    def _reply(self, _: dict[str, Any]) -> Reply:
        reply = self._answer(self.http._at_once)
        self.refused += reply.code != 200
        return reply


def allowing(rate: int) -> Callable[[int], Reply]:
    """Returns a server's answers that allow so many calls in any second, and tell the others when to come again."""
    recent: deque[float] = deque()
    lock = threading.Lock()

    def answer(_: int) -> Reply:
        with lock:
            now = time.monotonic()
            while recent and recent[0] <= now - 1:
                recent.popleft()
            if len(recent) >= rate:
                return status(429, retry_after=recent[0] + 1 - now)
            recent.append(now)
            return slow(0.2, "A: a robin.")

    return answer


SERVERS: dict[str, Callable[[], Server]] = {
    "12 slots, then a queue": lambda: Server(lambda _: slow(0.25, "A: a robin."), slots=12),
    "12 slots, then 429": lambda: Server(
        lambda _: slow(0.25, "A: a robin."), slots=12, when_full=status(429)
    ),
    "a batch: 0.2 s + 10 ms per call": lambda: Server(
        lambda busy: slow(0.2 + 0.01 * busy, "A: a robin.")
    ),
    "20 calls a second, Retry-After": lambda: Server(allowing(20)),
}


@contextmanager
def asking(server: Server, fixed: int | None) -> Iterator[ApiModel]:
    """Gives a model behind a server that runs within the block."""
    with server.http as http:
        settings = model_settings(
            http, task="text-generation", api_key="k", first_wait=0.5, max_retries=20
        )
        yield ApiModel("openai/bench", replace(settings, concurrency=fixed or "auto"))


def measure(make: Callable[[], Server], fixed: int | None, calls: int) -> tuple[float, int, int]:
    """Returns answers a second, calls refused, and the most calls under way."""
    server = make()
    requests = [Request(f"{number}") for number in range(calls)]
    with asking(server, fixed) as model:
        before = server.refused + server.http.refused
        started = time.perf_counter()
        answered = sum(isinstance(reply, Answer) for reply in model.answer(requests))
        seconds = time.perf_counter() - started
    assert answered == calls, "a call was not answered"
    return calls / seconds, server.refused + server.http.refused - before, server.http.most_at_once


def image_costs(images: int, prompts: int) -> Table:
    """Returns the time to make the messages of every prompt about every image."""
    rows: list[tuple[Cell, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number in range(images):
            path = Path(folder) / f"{number}.jpg"
            noise = Image.effect_noise((1024, 768), 20 + number)
            Image.merge(
                "RGB", (noise, noise.rotate(180), Image.linear_gradient("L").resize(noise.size))
            ).save(path)
            paths.append(path)
        hashes = {path: content_hash(path) for path in paths}
        requests = [Request(f"{n}", path, hashes[path]) for n in range(prompts) for path in paths]

        def made_anew(request: Request) -> str:
            assert request.image is not None
            return data_url(load_image(request.image, sha256=request.image_sha256))

        def by(model: ApiModel) -> Callable[[Request], str]:
            return lambda request: str(model.messages(request)[0]["content"][0]["image_url"]["url"])

        here = "http://127.0.0.1:9/v1"
        for way, url in (
            ("made anew for each question", made_anew),
            ("made once, the file's own bytes", by(ApiModel("openai/bench", model_settings(here)))),
        ):
            started = time.process_time()
            size = sum(len(url(request)) for request in requests)
            cost = time.process_time() - started
            rows.append((way, 1000 * cost / len(requests), size / len(requests) / 1024))
    title = f"{prompts} prompts about {images} JPEGs of 1024 × 768"
    return Table(
        "images",
        title,
        ("an image is", "CPU ms a question", "KiB a question"),
        tuple(rows),
        {"KiB a question": 1},
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200, help="Calls per row.")
    parser.add_argument(
        "--fixed", type=int, nargs="+", default=FIXED, help="Fixed numbers of calls under way."
    )
    parser.add_argument("--images", type=int, default=20, help="Images of the second table.")
    arguments = parser.parse_args()
    load_litellm()
    rows: list[tuple[Cell, ...]] = []
    for name, make in SERVERS.items():
        for fixed in (*arguments.fixed, None):
            speed, refused, most = measure(make, fixed, arguments.calls)
            rows.append((name, str(fixed or "auto"), speed, refused, most))
    title = f"{arguments.calls} calls of a server"
    columns = ("server", "concurrency", "answers a second", "calls refused", "most under way")
    print(Table("servers", title, columns, tuple(rows), {"answers a second": 1}).markdown())
    print(image_costs(arguments.images, 30).markdown())


if __name__ == "__main__":
    main()
