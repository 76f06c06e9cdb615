from __future__ import annotations

import json
import types
from pathlib import Path

import pytest

from taxtune.errors import ModelError
from taxtune.metrics.registry import Measure, MeasureSettings, make_measure
from taxtune.metrics.text_models import token_limit
from tests.tiny_text_models import make_nli


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection, without waiting for one."""
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


def find(model: str | Path) -> Measure:
    return make_measure(f"nli-forward:{model}", MeasureSettings("cpu"))


def test_a_folder_is_told_apart_by_its_content(tmp_path: Path) -> None:
    folder = make_nli(tmp_path)
    first = find(folder).identity()
    assert first["model"] == folder.name
    assert str(first["revision"]).startswith("sha256:")
    assert find(folder).identity() == first
    (folder / "model.safetensors").write_bytes(b"other weights")
    assert find(folder).identity()["revision"] != first["revision"]
    with pytest.raises(ModelError, match="weights of"):
        find(folder).scores(["a"], ["b"])


def test_an_absent_model_says_how_to_get_it(offline: None, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"hf download taxtune-tests/no-such-model.*folder"):
        find("taxtune-tests/no-such-model")
    with pytest.raises(ModelError, match=r"config\.json"):
        find(tmp_path)
    with pytest.raises(ModelError, match="does not exist"):
        find(tmp_path / "none")


def test_a_model_without_a_label_of_entailment(tmp_path: Path) -> None:
    folder = make_nli(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {"0": "good", "1": "bad", "2": "ugly"}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"which of its labels stands for entailment.*good, bad"):
        find(folder)


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
