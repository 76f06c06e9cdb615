"""Workers on a Ray cluster of two nodes, all on this machine."""

from __future__ import annotations

import os
import socket
import sys
from collections import Counter
from itertools import islice
from unittest.mock import Mock

import pytest
from PIL import Image

from taxtune.errors import MissingExtraError, ModelError
from taxtune.execution import Worker, deploy
from taxtune.images import content_hash
from taxtune.models import AnswerStore, Failure, ModelSettings, Request, ask, count_faults
from taxtune.settings import ExecutionSettings
from tests.execution.sleepy import asked

RAY = ExecutionSettings(engine="ray")


def test_without_the_extra_the_message_names_it(sleepy, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[ray\]'"):
        deploy(sleepy, execution=RAY)


@pytest.mark.parametrize("address", ["127.0.0.1:{port}", "ray://127.0.0.1:{port}"])
def test_an_address_without_a_cluster_is_named(sleepy, address, monkeypatch):
    pytest.importorskip("ray", reason="ray is not installed: pip install '.[ray]'")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = address.format(port=free.getsockname()[1])
    monkeypatch.setenv("RAY_ADDRESS", nobody)
    with pytest.raises(ModelError, match=f"no Ray cluster at RAY_ADDRESS.*{nobody}"):
        deploy(sleepy, execution=RAY)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (lambda image, prompt: "", "not a function or an API"),
        ("openai/gpt-4o", "not a function or an API"),
    ],
)
def test_what_cannot_have_workers_says_so(spec, said):
    with pytest.raises(ModelError, match=said):
        deploy(spec, execution=RAY)


def test_a_model_that_miscounts_is_an_error():
    worker = Worker("builtin:fieldguide", ModelSettings())
    worker._model = Mock(answer=lambda requests: [], batch_size=1)
    assert worker.answer([Request("a")]).error == "The model gave 0 answers to 1 requests."


@pytest.mark.heavy
def test_workers_answer_as_the_model_does(cluster, sleepy, tmp_path, notes):
    files = [tmp_path / f"{i}.png" for i in range(6)]
    for i, file in enumerate(files):
        Image.new("RGB", (16, 16), (40 * i, 0, 0)).save(file)
    model = deploy(sleepy, execution=RAY)
    assert model.workers == 2
    assert model.check() == []
    assert model.identity == {"kind": "sleepy", "model": "sleepy"}

    wanted = [Request(f"prompt {i}", files[i % 6]) for i in range(48)]
    replies = model.answer([*wanted, Request("gone", tmp_path / "gone.png")])
    prompts = [reply.text.partition(":")[0] for reply in replies[:-1]]
    assert prompts == [request.prompt for request in wanted]
    assert "gone.png: The image file does not exist" in replies[-1].reason
    # An image stays with its worker, but for the last questions.
    homes = Counter((pid, seen) for pid, seen, _ in asked(tmp_path))
    assert sum(sorted(homes.values())[-6:]) >= 30

    with count_faults() as faults:
        model.answer([Request(f"fault {i}") for i in range(9)])
    assert (faults, notes) == ({"timeout": 9}, ["slow today"])

    stream = model.stream([Request(f"first {i}") for i in range(50)])
    assert len(list(islice(stream, 3))) == 3
    stream.close()
    assert [reply.text for reply in model.answer([Request("second")])] == ["second: nothing"]

    for prompt, said in (("broken", "out of order"), ("bug", "A worker failed: KeyError")):
        with pytest.raises(ModelError, match=said):
            model.answer([Request(prompt)])

    replies = model.answer([Request(f"prompt {i}" if i != 5 else "poison") for i in range(12)])
    assert [i for i, reply in enumerate(replies) if isinstance(reply, Failure)] == [5]
    assert "3 workers were lost with this question" in replies[5].reason
    with pytest.raises(ModelError, match="keep ending before they answer"):
        model.answer([Request(f"poison {i}") for i in range(20)])
    assert len(model.answer([Request("well")])) == 1


@pytest.mark.heavy
def test_what_a_worker_cannot_make_is_told(cluster, sleepy):
    with pytest.raises(ModelError, match=r"cannot make the model|no licence"):
        deploy(f"{sleepy}:stillborn", execution=RAY).check()


@pytest.mark.heavy
def test_a_node_that_is_killed_loses_no_question_and_none_is_stored_twice(
    cluster, sleepy, tmp_path
):
    image = tmp_path / "image.png"
    Image.new("RGB", (16, 16)).save(image)
    model = deploy(sleepy, execution=RAY)
    wanted = [Request(f"prompt {i}", image if i % 2 else None) for i in range(600)]
    with AnswerStore(tmp_path / "answers.db") as store:
        put = Counter()
        keep, stream, killed = store.put, model.stream, []

        def counting(identity, pairs):
            put.update(request.prompt for request, _ in pairs)
            keep(identity, pairs)

        def watched(requests):
            for place, reply in stream(requests):
                if not killed and len({pid for pid, _, _ in asked(tmp_path)}) == 2:
                    killed.append(cluster.nodes.pop())
                    cluster.remove_node(killed[0], allow_graceful=False)
                yield place, reply

        store.put, model.stream = counting, watched
        replies = ask(model, wanted, store)
        assert killed
        seen = [content_hash(image)[:8] if request.image else "nothing" for request in wanted]
        assert [reply.text for reply in replies] == [
            f"{r.prompt}: {s}" for r, s in zip(wanted, seen, strict=True)
        ]
        assert (set(put.values()), len(put)) == ({1}, 600)
        again = Counter(prompt for _, _, prompt in asked(tmp_path))
        assert max(again.values()) <= 2
        # The node comes back, and so does a worker.
        cluster.nodes.append(
            cluster.add_node(num_cpus=1, num_gpus=1, object_store_memory=80 * 1024**2)
        )
        assert len(model.answer([Request(f"more {i}") for i in range(20)])) == 20


@pytest.mark.heavy
def test_a_cluster_whose_only_node_ends_is_said(sleepy, tmp_path):
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install '.[ray]'")
    from ray._private import worker

    variables = {name: os.environ[name] for name in ("PYTHONPATH", "SLEEPY_DIARY")}
    small = {"num_cpus": 1, "object_store_memory": 80 * 1024**2, "include_dashboard": False}
    ray.init(
        **small, runtime_env={"env_vars": variables}, log_to_driver=False, logging_level="ERROR"
    )
    try:
        model = deploy(sleepy, ModelSettings(device="cpu"), RAY)
        assert model.identity["kind"] == "sleepy"
        replies = model.stream([Request(f"{i}") for i in range(10_000)])
        next(replies)
        worker._global_node.kill_raylet()
        with pytest.raises(ModelError, match="All nodes of the Ray cluster have ended"):
            list(replies)
    finally:
        ray.shutdown()
