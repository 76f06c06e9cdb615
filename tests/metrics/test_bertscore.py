from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from taxtune.metrics.registry import MeasureSettings, make_measure
from taxtune.metrics.text_models import BertScoreMeasure
from tests.tiny_text_models import make_bert

pytest.importorskip("bert_score")

ANSWERS = ["a robin", "house sparrow (small)", "bird", "an oak tree in a field", "🐦", "a robin"]
REFERENCES = ["bird", "field sparrow", "bird", "oak", "robin", "turdus"]


@pytest.fixture(scope="module", params=["bert", "deberta"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """BERT, and DeBERTa as the paper's model is one."""
    return make_bert(tmp_path_factory.mktemp("bert"), family=request.param)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bert(tmp_path_factory.mktemp("bert"), seed=7)


def measure_of(folder: Path, cache: Path, batch_size: int = 64) -> BertScoreMeasure:
    measure = make_measure(f"bertscore:{folder}@3", MeasureSettings("cpu", batch_size, cache))
    assert isinstance(measure, BertScoreMeasure)
    return measure


def test_f1_of_the_package_itself(folder: Path, tmp_path: Path) -> None:
    from bert_score import BERTScorer

    scorer = BERTScorer(str(folder), num_layers=3, device="cpu")
    scorer._tokenizer.model_max_length = 64  # the package passes on what the tokenizer says, which is no limit here
    _, _, expected = scorer.score(ANSWERS, REFERENCES)
    assert measure_of(folder, tmp_path).scores(ANSWERS, REFERENCES) == pytest.approx(expected.numpy(), abs=1e-5)


def test_numbers_that_are_none_stay_none(bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
