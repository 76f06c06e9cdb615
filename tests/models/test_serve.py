"""The API against a real server: `transformers serve` with a checkpoint that `LocalVLM` runs as well."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from taxtune.data import content_hash
from taxtune.models import Answer, AnswerStore, ModelSettings, Request, RetryPolicy, ask, make_model
from taxtune.models.checkpoint import BUILTIN

pytestmark = pytest.mark.heavy

PROMPTS = ["What is this an image of? Answer in the format 'A: <answer>.'", "Which bird is this?"]


@pytest.fixture(scope="module", autouse=True)
def _serving_is_installed() -> None:
    try:
        from transformers.utils.import_utils import is_serve_available
    except ImportError:
        pytest.skip("`transformers serve` took no model on its command line before transformers 5")

    if not is_serve_available():
        pytest.skip("transformers[serving] is not installed (pip install '.[transformers-serve]')")


@contextmanager
def serving(folder: Path, log: Path) -> Iterator[str]:
    """Runs `transformers serve` on a free port until the block ends; gives the address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    start = "from transformers.cli.transformers import main; main()"
    options = ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--dtype", "float32"]
    with log.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", start, "serve", *options, str(folder)],
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )
        try:
            deadline = time.monotonic() + 150
            while True:
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                        break
                except (urllib.error.URLError, OSError):
                    time.sleep(0.3)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.mark.parametrize("which", ["tiny", "fieldguide"])
def test_the_served_model_answers_as_the_local_one(
    which: str, checkpoints: Callable[[str], Path], pictures: list[Path], tmp_path: Path
) -> None:
    folder = checkpoints("mllama") if which == "tiny" else BUILTIN["builtin:fieldguide"]
    if not (folder / "config.json").is_file():
        pytest.skip("the field guide's model is not in this checkout")
    questions = [Request(p, i, content_hash(i)) for p in PROMPTS for i in pictures]
    local = make_model(f"local:{folder}", ModelSettings(device="cpu", dtype="float32", max_tokens=12)).answer(questions)
    with serving(folder, tmp_path / "log.txt") as api_base, AnswerStore(tmp_path / "answers.db") as store:
        # The server is pinned to this folder and wants to hear its name.
        served = make_model(
            f"openai/{folder}",
            ModelSettings(api_base=api_base, max_tokens=12, concurrency=2, retry=RetryPolicy(max_retries=1)),
        )
        replies = ask(served, questions, store)
        assert [r.text if isinstance(r, Answer) else r for r in replies] == [
            r.text for r in local if isinstance(r, Answer)
        ]
        assert all(isinstance(r, Answer) and r.prompt_tokens > 0 and r.completion_tokens > 0 for r in replies)
        assert len(store) == len(questions)
    # The server is gone: the store alone answers.
    again = ask(served, questions, AnswerStore(tmp_path / "answers.db"))
    assert all(isinstance(r, Answer) and r.cached for r in again)
