"""Without a network: one line at once, and what is in the cache loads."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from taxtune import loading
from taxtune.encoders.clip import ClipEncoder
from taxtune.encoders.sentence import SentenceEncoder
from taxtune.errors import ModelError
from taxtune.models import make_model
from taxtune.models.checkpoint import find_checkpoint
from tests.models.test_checkpoint import COMMIT, lay_out_cache

Checkpoints = Callable[[str], Path]


@contextmanager
def refusing():
    """An address at which nothing listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port = listening.getsockname()[1]
    yield f"http://127.0.0.1:{port}"


@contextmanager
def hanging():
    """An address that takes a connection and then says nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture(params=[refusing, hanging])
def hub(request, tmp_path, monkeypatch):
    """The folder of an empty cache, of a client whose hub is out of reach."""
    with request.param() as address:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(loading._Hub, "out_of_reach", False)
        monkeypatch.setattr(loading._Hub, "until", 0.0)
        yield tmp_path


@pytest.mark.parametrize(
    ("load", "name"),
    [
        (find_checkpoint, "org/absent"),
        (SentenceEncoder, "org/absent"),
        (SentenceEncoder, "absent"),
        (ClipEncoder, "hf-hub:org/absent"),
    ],
)
def test_a_model_that_is_not_here_is_one_clear_error(hub, caplog, load, name):
    if load is SentenceEncoder:
        pytest.importorskip("sentence_transformers")
    with pytest.raises(ModelError) as caught:
        load(name)
    called = {"absent": "sentence-transformers/absent"}.get(name, "org/absent")
    said = str(caught.value)
    assert f"The model {called!r} is not on this machine, and http://127.0.0.1" in said
    assert "cannot be reached. Run `" in said
    assert f"hf download {called}` while online, or give the folder" in said
    assert not [record for record in caplog.records if "etry" in record.getMessage()]


def test_a_model_in_the_cache_loads(hub, checkpoints):
    lay_out_cache(hub, checkpoints("llava"))
    found = find_checkpoint("org/tiny")
    assert (found.revision, found.complete) == (COMMIT, True)
    assert make_model("local:org/tiny").identity["revision"] == COMMIT


def test_who_chose_to_be_offline_is_told_so_and_nobody_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(loading._Hub, "out_of_reach", False)
    monkeypatch.setattr(loading, "_answers", lambda address: pytest.fail("asked all the same"))
    monkeypatch.setattr(loading._Hub, "until", 0.0)
    with pytest.raises(
        ModelError, match="'org/absent' is not on this machine, and HF_HUB_OFFLINE is set"
    ):
        find_checkpoint("org/absent")
