from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from taxtune.encoders import TextEncoder
from taxtune.encoders.clip import ClipEncoder
from taxtune.encoders.sentence import SentenceEncoder
from taxtune.errors import ModelError
from tests.tiny_text_models import make_clip, make_sentence_model


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    pytest.importorskip("open_clip")
    folder = tmp_path_factory.mktemp("clip")
    return ClipEncoder(
        make_clip(folder, context_length=16), device="cpu", cache_dir=folder, batch_size=2
    )


def test_a_model_without_weights_is_no_model(tmp_path):
    """open_clip would make up random ones and only warn."""
    pytest.importorskip("open_clip")
    with pytest.raises(ModelError, match=r"cannot be loaded.*ViT-B-32.*ARCHITECTURE@WEIGHTS"):
        ClipEncoder("ViT-B-32", device="cpu")
    model = make_clip(tmp_path)
    next(Path(model.removeprefix("local-dir:")).glob("*.bin")).unlink()
    with pytest.raises(ModelError, match="could not be loaded"):
        ClipEncoder(model, device="cpu")


def test_vectors_have_unit_length_whatever_the_batch(clip):
    assert isinstance(clip, TextEncoder)
    texts = ["a bird", "a blue bird on a branch", "x", "", "🦆"]
    together = clip.texts(texts)
    assert together.dtype == np.float32
    assert np.linalg.norm(together, axis=1) == pytest.approx(np.ones(5), abs=1e-5)
    assert together == pytest.approx(
        np.concatenate([clip.texts([text]) for text in texts]), abs=1e-5
    )
    images = clip.images([Image.new("RGB", (40, 30), "red"), Image.effect_noise((30, 40), 90)])
    assert images.shape == (2, 16)
    assert not np.allclose(images[0], images[1])


def test_texts_beyond_the_context_are_told(clip):
    assert clip.context_length == 16
    assert clip.truncated(["a bird", "bird " * 40, "", "bird " * 13]).tolist() == [
        False,
        True,
        False,
        False,
    ]


@pytest.mark.heavy
def test_where_memory_runs_out_the_batch_is_halved(clip, monkeypatch):
    open_clip = pytest.importorskip("open_clip")
    clip = ClipEncoder(clip.name.removeprefix("clip:"), device="cpu", batch_size=4)
    texts = [f"bird {i}" for i in range(5)]
    expected = clip.texts(texts)
    encode = open_clip.CLIP.encode_text
    sizes = []

    def tight(model, tokens):
        sizes.append(len(tokens))
        if len(tokens) > 1:
            raise RuntimeError("CUDA out of memory. Tried to allocate")
        return encode(model, tokens)

    monkeypatch.setattr(open_clip.CLIP, "encode_text", tight)
    assert clip.texts(texts) == pytest.approx(expected, abs=1e-5)
    assert sizes == [4, 2, 1, 1, 1, 1, 1]

    def full(model, pixels):
        raise MemoryError

    monkeypatch.setattr(open_clip.CLIP, "encode_image", full)
    with pytest.raises(ModelError, match="with a single image"):
        clip.images([Image.new("RGB", (40, 30), "red")] * 3)


def test_a_sentence_encoder_shrinks_its_batches_too(tmp_path, monkeypatch):
    library = pytest.importorskip("sentence_transformers")
    encoder = SentenceEncoder(str(make_sentence_model(tmp_path)), device="cpu", batch_size=8)
    texts = [f"bird {'sings ' * i}" for i in range(5)]
    expected = encoder.texts(texts)
    encode = library.SentenceTransformer.encode
    sizes = []

    def tight(model, texts, batch_size, **more):
        sizes.append(batch_size)
        if batch_size > 2:
            raise RuntimeError("MPS backend out of memory")
        return encode(model, texts, batch_size=batch_size, **more)

    monkeypatch.setattr(library.SentenceTransformer, "encode", tight)
    assert encoder.texts(texts) == pytest.approx(expected, abs=1e-6)
    assert encoder.texts(texts[:1]).shape == expected[:1].shape
    assert sizes == [5, 2, 1]
    assert encoder.texts([]).shape[0] == 0


def test_halves_of_surrogate_pairs_are_question_marks(clip):
    assert clip.texts(["a \ud800 bird"]) == pytest.approx(clip.texts(["a ? bird"]), abs=1e-6)
    assert clip.stored(["a \udfff bird"]).shape == (1, 16)
    assert not clip.truncated(["\ud800"])[0]
