"""`--batch` and `--resume`: questions in a provider's batches, submitted by one command and fetched by a later one."""

from __future__ import annotations

import csv
import json
import shutil
import threading
from dataclasses import replace

import pytest

from taxtune.classifier import labels
from taxtune.fieldguide import MANIFEST_FILE
from tests.cli.commands import run_captured, run_refused, run_well
from tests.cli.processes import Started
from tests.servers import BatchServer

SMALL = (
    "data.count=60 data.tuning=6 data.first_rung=6 data.heldout=12 iterations=2 objective.kind=hp"
)
BASELINE = "What is this an image of?"


def answer(body):
    """Answers the baseline with what is often wrong, and any other prompt with what never is."""
    (prompt,) = (part["text"] for part in body["messages"][0]["content"] if "text" in part)
    return "A: a bird of prey." if prompt.startswith(BASELINE) else "A: a bird."


@pytest.fixture(scope="module")
def server(litellm):
    with BatchServer(answer) as running:
        yield running


@pytest.fixture(scope="module")
def litellm():
    """litellm; its import takes seconds."""
    from taxtune.models.api_errors import load_litellm

    return load_litellm()


def settings(server):
    vlm = f"vlm={{kind: api, model: openai/gpt-4o, api_base: '{server.api_base}'}}"
    given = (*SMALL.split(), vlm, "proposer={kind: fragments}", "tracking.mlflow=false")
    return [word for each in given for word in ("--set", each)]


def tune(server, folder, *more):
    return run_captured("tune", "fieldguide", *settings(server), "--out=run", *more, folder=folder)


@pytest.fixture(scope="module")
def tuned(server, tmp_path_factory):
    """A folder with a run that was tuned in batches, and what its commands said."""
    folder = tmp_path_factory.mktemp("tuned")
    said = [tune(server, folder, "--batch"), tune(server, folder, "--resume")]
    asked = len(server.chats)
    server.end()
    said.append(tune(server, folder, "--resume"))
    assert len(server.chats) == asked
    return folder, said


@pytest.fixture
def here(tuned, tmp_path):
    """A folder with the run and photos/, of which one is broken."""
    shutil.copytree(tuned[0] / "run", tmp_path / "run")
    (tmp_path / "photos").mkdir()
    for i in range(4):
        shutil.copy(MANIFEST_FILE.parent / "images" / f"0000{i}.png", tmp_path / "photos")
    (tmp_path / "photos" / "broken.png").write_bytes(b"no image")
    return tmp_path


def classify(folder, *more):
    return run_captured("classify", "run", "photos", "--out=a.csv", *more, folder=folder)


def test_held_out_questions_of_a_run_are_one_batch(tuned, server):
    folder, said = tuned
    assert [done.code for done in said] == [75, 75, 0], said
    for done in said[:2]:
        assert "questions are with the provider since" in done.err
        assert "error:" not in done.err
        assert "--resume" in done.err.splitlines()[-1]
    result = json.loads((folder / "run" / "result.json").read_text())
    (batch,) = server.batches[:1]
    templates = {held["template"] for held in result["heldout"]}
    assert len(templates) > 1
    assert len(server.lines(batch)) == 12 * len(templates)
    usages = [held["usage"]["vlm"] for held in result["heldout"]]
    assert sum(usage["calls"] for usage in usages) == 12 * len(templates)
    half = 11 * 1.25e-6 + 7 * 5e-6
    assert sum(usage["cost_usd"] or 0 for usage in usages) == pytest.approx(12 * 2 * half)


def test_a_search_that_is_killed_asks_in_batches_when_it_is_resumed(server, tmp_path):
    before = len(server.batches)
    begun = threading.Event()
    reply = server._reply

    def late(request):
        """Keeps the first question of the search waiting."""
        begun.set()
        return replace(reply(request), delay=60)

    server._reply = late
    words = ["tune", "fieldguide", *settings(server), "--set", "seed=1", "--out=run"]
    process = Started(*words, "--batch", folder=tmp_path)
    try:
        assert begun.wait(120), process.poll()
    finally:
        process.kill()
        process.wait()
        server._reply = reply
    assert run_captured(*words, "--resume", folder=tmp_path).code == 75
    assert len(server.batches) == before + 1


def test_all_images_are_one_batch(here, server, monkeypatch):
    monkeypatch.setattr(labels, "_BATCH", 2)
    before = len(server.batches)
    chats = len(server.chats)
    refused = run_refused("classify", "run", "photos", "--out=a.csv", "--resume", folder=here)
    assert "Nothing was submitted" in refused
    for option in ("--batch", "--batch", "--resume"):
        done = classify(here, option)
        assert done.code == 75
        assert "4 questions are with the provider" in done.err
        assert not (here / "a.csv").exists()
    server.end()
    assert classify(here, "--resume").code == 0
    rows = list(csv.DictReader((here / "a.csv").open()))
    assert len(rows) == 5
    assert sum(bool(row["failure"]) for row in rows) == 1
    assert len(server.batches) == before + 1
    assert len(server.chats) == chats
    assert len(server.lines(server.batches[-1])) == 4


def test_a_command_that_is_killed_when_it_has_submitted_pays_once(here, server):
    before = len(server.batches)
    accepted = threading.Event()
    reply = server._reply

    def late(request):
        """Accepts a batch and keeps the client waiting for the reply."""
        told = reply(request)
        if request.method == "POST" and request.path.endswith("/batches"):
            accepted.set()
            return replace(told, delay=60)
        return told

    server._reply = late
    process = Started("classify", "run", "photos", "--out=a.csv", "--batch", folder=here)
    try:
        assert accepted.wait(120), process.poll()
    finally:
        process.kill()
        process.wait()
        server._reply = reply
    server.end()
    assert classify(here, "--resume").code == 0
    assert len(server.batches) == before + 1


def test_a_model_without_batches_is_told_before_anything_is_asked(server, tmp_path):
    run = ["tune", "fieldguide", "--set", "tracking.mlflow=false", "--out=run", "--batch"]
    assert "cannot be asked in batches" in run_refused(*run, folder=tmp_path)
    assert not (tmp_path / "answers.db").exists()


def test_the_exit_code_is_in_the_help():
    for command in ("tune", "classify"):
        assert "75" in run_well(command, "--help").out
