from __future__ import annotations

import types

import numpy as np
import pytest

from taxtune.errors import ModelError
from taxtune.metrics.bertscore import BertScoreMeasure, token_limit
from taxtune.metrics.registry import MeasureSettings, make_measure
from tests.tiny_text_models import make_bert

pytest.importorskip("bert_score")

ANSWERS = ["a robin", "house sparrow (small)", "bird", "an oak tree in a field", "🐦", "a robin"]
REFERENCES = ["bird", "field sparrow", "bird", "oak", "robin", "turdus"]


@pytest.fixture(scope="module", params=["bert", "deberta"])
def folder(request, tmp_path_factory):
    """BERT, and DeBERTa as the paper's model is one."""
    return make_bert(tmp_path_factory.mktemp("bert"), family=request.param)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return make_bert(tmp_path_factory.mktemp("bert"), seed=7)


def measure_of(folder, cache, batch_size=64):
    measure = make_measure(f"bertscore:{folder}@3", MeasureSettings("cpu", batch_size, cache))
    assert isinstance(measure, BertScoreMeasure)
    return measure


def test_f1_of_the_package_itself(folder, tmp_path):
    from bert_score import BERTScorer

    scorer = BERTScorer(str(folder), num_layers=3, device="cpu")
    scorer._tokenizer.model_max_length = (
        64  # the package passes on what the tokenizer says, which is no limit here
    )
    _, _, expected = scorer.score(ANSWERS, REFERENCES)
    assert measure_of(folder, tmp_path).scores(ANSWERS, REFERENCES) == pytest.approx(
        expected.numpy(), abs=1e-5
    )


def test_numbers_that_are_none_stay_none(bert, tmp_path, capsys):
    import torch

    measure = measure_of(bert, tmp_path)
    scores = measure.scores(["", "\u200b", "bird"], ["bird", "bird", "\u200b"])
    np.testing.assert_array_equal(scores, [0, np.nan, np.nan])
    embeddings = measure._scorer._model.embeddings.word_embeddings
    with torch.no_grad():
        embeddings.weight[measure._tokenizer.convert_tokens_to_ids("z")] = torch.nan
    scores = measure.scores(["z", "robin"], ["bird", "bird"])
    assert np.isnan(scores[0])
    assert np.isfinite(scores[1])
    assert "Pairs left unscored because the model returned no number: 3." in measure.notes
    assert "Empty candidate" not in capsys.readouterr().err


def test_a_folder_is_told_apart_by_its_content_and_its_layers(tmp_path):
    folder = make_bert(tmp_path)
    first = measure_of(folder, tmp_path).identity()
    assert (first["model"], first["layer"]) == (folder.name, 3)
    assert str(first["revision"]).startswith("sha256:")
    assert measure_of(folder, tmp_path).identity() == first
    measure = make_measure(f"bertscore:{folder}", MeasureSettings("cpu"))
    assert "bert-score knows no best layer" in measure.notes[0]
    with pytest.raises(ModelError, match=r"layers.*99"):
        make_measure(f"bertscore:{folder}@99", MeasureSettings("cpu"))
    (folder / "model.safetensors").write_bytes(b"other weights")
    assert measure_of(folder, tmp_path).identity()["revision"] != first["revision"]
    with pytest.raises(ModelError, match="weights of"):
        measure_of(folder, tmp_path).scores(["a"], ["b"])


def test_an_absent_model_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for model, said in (
        ("taxtune-tests/no-such-model", r"hf download taxtune-tests/no-such-model.*folder"),
        (str(tmp_path), r"config\.json"),
        (str(tmp_path / "none"), "does not exist"),
    ):
        with pytest.raises(ModelError, match=said):
            make_measure(f"bertscore:{model}", MeasureSettings("cpu"))


def test_long_texts_are_counted(bert, tmp_path):
    measure = measure_of(bert, tmp_path)
    assert 0 < measure.scores(["so many birds " * 1000], ["bird"])[0] < 1
    assert measure.notes == (
        "Texts longer than the model's limit of 64 tokens, which are truncated: 1.",
    )


@pytest.mark.parametrize(
    ("said", "config", "limit"),
    [
        (512, {"max_position_embeddings": 512}, 512),  # BERT
        (10**30, {"max_position_embeddings": 512}, 512),  # DeBERTa
        (10**30, {"max_position_embeddings": 514}, 512),  # RoBERTa
        (128, {"max_position_embeddings": 514}, 128),
        (10**30, {}, 512),  # T5
    ],
)
def test_token_limit(said, config, limit):
    tokenizer = types.SimpleNamespace(model_max_length=said)
    assert token_limit(tokenizer, types.SimpleNamespace(**config)) == limit
