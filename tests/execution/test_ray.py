"""Workers on a Ray cluster of several nodes, all on this machine, of which one is killed."""

from __future__ import annotations

import os
import socket
import sys
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from taxtune.data.images import content_hash
from taxtune.errors import MissingExtraError, ModelError
from taxtune.execution import deploy
from taxtune.execution.pool import Pool
from taxtune.models import AnswerStore, Request, ask
from taxtune.recipe_settings import ExecutionSettings
from tests.execution.sleepy import asked


def test_without_the_extra_the_message_names_it(sleepy, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[ray\]'"):
        deploy(sleepy, execution=ExecutionSettings(engine="ray"))


@pytest.mark.parametrize("address", ["127.0.0.1:{port}", "ray://127.0.0.1:{port}"])
def test_an_address_without_a_cluster_is_named(sleepy, address):
    pytest.importorskip("ray", reason="ray is not installed: pip install '.[ray]'")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = address.format(port=free.getsockname()[1])
    with pytest.raises(ModelError, match=f"no Ray cluster at execution.address.*{nobody}"):
        deploy(sleepy, execution=ExecutionSettings(engine="ray", address=nobody))


@pytest.mark.heavy
def test_a_node_that_is_killed_loses_no_question_and_none_is_stored_twice(cluster, sleepy, tmp_path):
    image = tmp_path / "image.png"
    Image.new("RGB", (16, 16)).save(image)
    # The same file under a name that is good in this process alone, as on another machine.
    file = os.open(image, os.O_RDONLY)
    mine = Path(f"/proc/self/fd/{file}")
    pool = deploy(sleepy, execution=ExecutionSettings(engine="ray"))
    assert isinstance(pool, Pool)
    assert pool.workers == 2
    wanted = [Request(f"prompt {i}", mine if i % 2 else None) for i in range(600)]
    with AnswerStore(tmp_path / "answers.db") as store, pool:
        put: Counter[str] = Counter()
        keep, stream, killed = store.put, pool.stream, []

        def counting(identity, pairs):
            put.update(request.prompt for request, _ in pairs)
            keep(identity, pairs)

        def watched(requests):
            for place, reply in stream(requests):
                if not killed and len({pid for pid, _, _ in asked(tmp_path)}) == 2:
                    killed.append(cluster.nodes.pop())
                    cluster.remove_node(killed[0], allow_graceful=False)
                yield place, reply

        store.put, pool.stream = counting, watched
        replies = ask(pool, wanted, store)
        assert killed
        seen = [content_hash(image)[:8] if request.image else "nothing" for request in wanted]
        assert [reply.text for reply in replies] == [f"{r.prompt}: {s}" for r, s in zip(wanted, seen, strict=True)]
        assert (set(put.values()), len(put)) == ({1}, 600)
        again = Counter(prompt for _, _, prompt in asked(tmp_path))
        assert max(again.values()) <= 2
        # The node comes back, and so does a worker.
        cluster.nodes.append(cluster.add_node(num_cpus=1, num_gpus=1, object_store_memory=80 * 1024**2))
        assert len(pool.answer([Request(f"more {i}") for i in range(20)])) == 20
    os.close(file)
