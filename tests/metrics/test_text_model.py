from __future__ import annotations

import types
from pathlib import Path

import pytest

from taxtune.errors import ModelError
from taxtune.metrics.text_models import find_text_model, token_limit
from tests.tiny_text_models import make_bert


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection, without waiting for one."""
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


def test_a_folder_is_found_and_told_apart_by_its_content(tmp_path: Path) -> None:
    folder = make_bert(tmp_path)
    first = find_text_model(str(folder))
    assert (first.name, first.source, first.commit) == ("tiny-bert-0", str(folder), None)
    assert first.revision is not None
    assert first.revision.startswith("sha256:")
    assert find_text_model(str(folder)).revision == first.revision
    (folder / "model.safetensors").write_bytes(b"other weights")
    assert find_text_model(str(folder)).revision != first.revision


def test_an_absent_model_says_how_to_get_it(offline: None) -> None:
    with pytest.raises(ModelError) as caught:
        find_text_model("taxtune-tests/no-such-model")
    assert "'taxtune-tests/no-such-model'" in str(caught.value)
    assert "hf download taxtune-tests/no-such-model" in str(caught.value)
    assert "folder" in str(caught.value)


def test_folders_that_are_no_models(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json"):
        find_text_model(str(tmp_path))
    with pytest.raises(ModelError, match="does not exist"):
        find_text_model(str(tmp_path / "none"))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelError):
        find_text_model(str(tmp_path))


@pytest.mark.parametrize(
    ("said", "config", "limit"),
    [
        (512, {"max_position_embeddings": 512, "model_type": "bert"}, 512),
        (10**30, {"max_position_embeddings": 512, "model_type": "deberta-v2"}, 512),
        (10**30, {"max_position_embeddings": 514, "model_type": "roberta", "pad_token_id": 1}, 512),
        (128, {"max_position_embeddings": 514, "model_type": "roberta", "pad_token_id": 1}, 128),
        (10**30, {"model_type": "t5"}, 512),
    ],
)
def test_token_limit(said: int, config: dict[str, object], limit: int) -> None:
    assert token_limit(types.SimpleNamespace(model_max_length=said), types.SimpleNamespace(**config)) == limit
