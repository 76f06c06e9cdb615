"""Ctrl-C while a model is asked: exit code 130, one line, and the same command goes on; calls side by side."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from taxtune.models.api_errors import load_litellm
from tests.cli.commands import run_command
from tests.servers import OpenAIServer, slow

STOPPED = "taxtune: stopped; run the same command again to continue: what a model has answered is not asked again."
NAMES = ("cat", "dog", "apple", "bread")

# Each asks a model four times, at most two calls in a batch of replies that is kept.
COMMANDS = {
    "judge": ("study", "judge", "rated.jsonl", "--judge", "openai/x", "--resamples", "20"),
    "measure": (
        "score",
        "measure",
        "rated.jsonl",
        "-m",
        "lave:openai/x",
        "--reference-column",
        "references",
    ),
}


@pytest.fixture(scope="module", autouse=True)
def _litellm_is_loaded():
    load_litellm()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with four rated answers in a file."""
    rows = [
        {
            "id": str(i),
            "question": "What is it?",
            "references": [NAMES[i % 2]],
            "answer": f"a {name}",
            "human": 1 - i % 2,
        }
        for i, name in enumerate(NAMES)
    ]
    (tmp_path / "rated.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(command, server):
    return (
        *COMMANDS[command],
        "--api-base",
        server.api_base,
        "--cache-dir",
        "cache",
        "--concurrency",
        "1",
    )


def kept():
    """How many replies the cache holds."""
    count = 0
    for file in Path("cache").rglob("*.db"):
        with closing(sqlite3.connect(file)) as database:
            count += database.execute("SELECT count(*) FROM answers").fetchone()[0]
    return count


def stops_at_the_third(stop):
    """A model that calls `stop` in place of the third answer, once the first two are kept."""
    calls = 0

    def answer(body):
        nonlocal calls
        calls += 1
        if calls == 3:
            while kept() < 2:
                time.sleep(0.005)
            stop()
            return slow(60)
        return "Yes, an animal. Rating: 3"

    return answer


@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_keeps_the_replies_and_the_same_command_goes_on(
    command, folder, monkeypatch, capsys
):
    with OpenAIServer(stops_at_the_third(lambda: os.kill(os.getpid(), signal.SIGINT))) as server:
        assert run_command(monkeypatch, *asked(command, server)) == 130
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.splitlines()[-1] == STOPPED
        assert said.err.count("stopped") == 1
        assert len(server.chats) == 3
        assert run_command(monkeypatch, *asked(command, server)) == 0, capsys.readouterr().err
        assert len(server.chats) == 3 + 2, "the two replies that are kept are not asked for again"
