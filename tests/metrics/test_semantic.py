from __future__ import annotations

import numpy as np
import pytest

from taxtune.errors import ModelError
from taxtune.metrics.base import PairsMeasure
from taxtune.metrics.registry import MEASURES, MeasureSettings, make_measure
from taxtune.metrics.semantic import SentenceMeasure
from tests.tiny_text_models import make_sentence_model

ANSWERS = ["a robin", "A house sparrow (Passer domesticus).", "🐦 طائر", "a robin", "truck"]
REFERENCES = ["bird", "sparrow", "bird", "thrush", "bird"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("sentence_transformers")
    return make_sentence_model(tmp_path_factory.mktemp("sentence"))


def sentence(folder, cache, batch_size=2):
    measure = make_measure(f"sentence:{folder}", MeasureSettings("cpu", batch_size, cache))
    assert isinstance(measure, SentenceMeasure)
    return measure


def test_cosines_by_hand(folder, tmp_path):
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModel.from_pretrained(folder).eval()

    def vector(text):
        with torch.inference_mode():
            hidden = network(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        return np.asarray(hidden.mean(dim=0), dtype=np.float64)

    def cosine(left, right):
        return float(left @ right / np.sqrt((left @ left) * (right @ right)))

    expected = [cosine(vector(a), vector(r)) for a, r in zip(ANSWERS, REFERENCES, strict=True)]
    measure = sentence(folder, tmp_path)
    assert measure.scores(ANSWERS, REFERENCES) == pytest.approx(expected, abs=1e-5)
    table = measure.matrix(ANSWERS, REFERENCES)
    assert np.diag(table) == pytest.approx(expected, abs=1e-5)
    assert (measure.name, measure.label) == (f"sentence:{folder}", "SentBERT")
    assert measure.notes == ()


class FixedEncoder:
    """Two-dimensional vectors by table: a unit vector, its opposite, one of zeros, one of NaN."""

    name = "sentence:fixed"
    identity: dict[str, str | int | None] = {"kind": "fixed"}  # noqa: RUF012
    vectors = {  # noqa: RUF012
        "east": (1, 0),
        "west": (-1, 0),
        "north": (0, 1),
        "zero": (0, 0),
        "broken": (np.nan, 0),
    }

    token_limit = 512

    def truncated(self, texts):
        return [False] * len(texts)

    def __init__(self):
        self.batches: list[list[str]] = []

    def texts(self, texts):
        self.batches.append(list(texts))
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)

    def stored(self, texts):
        return self.texts(texts)


class Fixed(SentenceMeasure):
    kind = MEASURES["sentence"]

    def __init__(self, encoder, settings):
        PairsMeasure.__init__(self, "model", settings)
        self.encoder = encoder


def test_the_range_and_vectors_that_are_none(tmp_path, recorder):
    encoder = FixedEncoder()
    settings = MeasureSettings("cpu", 2, tmp_path)
    measure = Fixed(encoder, settings)
    answers = ["east", "east", "east", "zero", "broken"]
    references = ["east", "west", "north", "east", "east"]
    np.testing.assert_array_equal(measure.scores(answers, references), [1, -1, 0, np.nan, np.nan])
    assert encoder.batches == [
        ["broken", "north"],
        ["east", "zero"],
        ["west"],
    ]  # each text once, the longest first
    assert recorder.of(measure.label) == [(0, 5), (5, 5)]
    table = measure.matrix(["east", "zero"], ["west", "broken"])
    np.testing.assert_array_equal(table, [[-1, np.nan], [np.nan, np.nan]])
    assert measure.notes == ("Pairs left unscored because the model returned no number: 5.",)


def test_a_model_that_is_not_there(tmp_path, monkeypatch):
    pytest.importorskip("sentence_transformers")
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match=r"hf download sentence-transformers/no-such-model"):
        make_measure("sentence:no-such-model", MeasureSettings("cpu"))
    with pytest.raises(ModelError, match="does not exist"):
        make_measure(f"sentence:{tmp_path / 'none'}", MeasureSettings("cpu"))
