from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from taxtune import loading
from taxtune.errors import ModelError
from taxtune.models import Answer, ModelSettings, Request, check_model, make_model
from taxtune.models.checkpoint import find_checkpoint

Checkpoints = Callable[[str], Path]

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_a_folder_is_known_by_its_content(checkpoints):
    folder = checkpoints("mllama")
    found = find_checkpoint(str(folder))
    assert found.name == folder.name
    assert found.model_type == "mllama"
    assert found.complete
    assert found.arguments == {}
    assert found.weight_bytes == (folder / "model.safetensors").stat().st_size
    assert find_checkpoint(str(folder)).revision == found.revision


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("builtin:nothing", "Unknown built-in model"),
        ("/no/such/folder", "folder of the model does not exist"),
        ("./nor/this", "folder of the model does not exist"),
    ],
)
def test_names_of_nothing_are_refused(name, message):
    with pytest.raises(ModelError, match=message):
        find_checkpoint(name)


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"no config\.json"):
        find_checkpoint(str(tmp_path))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelError, match="configuration"):
        find_checkpoint(str(tmp_path))


def test_a_model_without_images_is_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(ModelError, match="of the type 'bert'"):
        find_checkpoint(str(tmp_path))


def lay_out_cache(folder, checkpoint):
    """Lays a checkpoint out as the cache of Hugging Face's client does."""
    repo = folder / "hub" / "models--org--tiny"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text(COMMIT)
    shutil.copytree(checkpoint, repo / "snapshots" / COMMIT)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The folder of a cache of Hugging Face's client on a machine without a connection."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(loading._Hub, "out_of_reach", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path


def test_a_name_is_pinned_to_its_commit(checkpoints, pictures, hub):
    lay_out_cache(hub, checkpoints("mllama"))
    model = make_model("local:org/tiny", ModelSettings(max_tokens=3))
    assert (model.identity["model"], model.identity["revision"]) == ("org/tiny", COMMIT)
    assert check_model(model) == []
    (reply,) = model.answer([Request("Bird?", pictures[0])])
    assert isinstance(reply, Answer)


def test_a_model_that_is_not_here_is_named_with_how_to_get_it(hub):
    said = "'org/absent' is not on this machine, and HF_HUB_OFFLINE is set.*hf download org/absent"
    with pytest.raises(ModelError, match=said):
        check_model(make_model("local:org/absent"))


def test_weights_that_are_not_here_are_named(checkpoints, hub):
    lay_out_cache(hub, checkpoints("llava"))
    (hub / "hub/models--org--tiny/snapshots" / COMMIT / "model.safetensors").unlink()
    said = "The weights of 'org/tiny' are not on this machine.*hf download org/tiny"
    with pytest.raises(ModelError, match=said):
        check_model(make_model("local:org/tiny"))
