from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from taxtune.metrics.registry import MeasureSettings, make_measure
from taxtune.metrics.text_models import NliMeasure, as_sentence
from tests.tiny_text_models import make_nli

ANSWERS = ["field sparrow", "A bird", "It is probably an oak.", "robin", "🐦", "field sparrow"]
REFERENCES = ["bird", "field sparrow", "oak", "truck", "Aves", "bird"]


@pytest.fixture(scope="module", params=["bert", "deberta-v2"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """BERT, and DeBERTa-v2 as the paper's model is one."""
    return make_nli(tmp_path_factory.mktemp("nli"), family=request.param)


def measure_of(folder: Path, cache: Path, kind: str = "nli-forward", batch_size: int = 64) -> NliMeasure:
    measure = make_measure(f"{kind}:{folder}", MeasureSettings("cpu", batch_size, cache))
    assert isinstance(measure, NliMeasure)
    return measure


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("field sparrow", "This is a field sparrow."),
        ("Oak", "This is an Oak."),
        ("A bird", "This is a bird."),
        ("the  bird\n", "This is the bird."),
        ("This is a bird", "This is a bird."),
        ("The picture shows an owl", "The picture shows an owl."),
        ("A bird!", "A bird!"),
        ("鸟。", "鸟。"),
        ("trash can", "This is a trash can."),
        ("Iris", "This is an Iris."),
    ],
)
def test_names_become_sentences(text: str, sentence: str) -> None:
    assert as_sentence(text) == sentence
    assert as_sentence(sentence) == sentence


def test_probabilities_pair_by_pair_in_both_directions(folder: Path, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModelForSequenceClassification.from_pretrained(folder).eval()

    def entailment(premise: str, hypothesis: str) -> float:
        with torch.inference_mode():
            logits = network(**tokenizer(premise, hypothesis, return_tensors="pt")).logits[0].double()
        return float(torch.exp(logits[1]) / torch.exp(logits).sum())  # the label "Entailment" is the second

    said = [(as_sentence(a), as_sentence(r)) for a, r in zip(ANSWERS, REFERENCES, strict=True)]
    # Texts of different lengths share a batch: padding moves nothing.
    forward = measure_of(folder, tmp_path).scores(ANSWERS, REFERENCES)
    assert forward == pytest.approx([entailment(a, r) for a, r in said], abs=1e-5)
    backward = measure_of(folder, tmp_path, "nli-backward", 2).scores(ANSWERS, REFERENCES)
    assert backward == pytest.approx([entailment(r, a) for a, r in said], abs=1e-5)
    assert np.abs(forward - backward).max() > 1e-3
    table = measure_of(folder, tmp_path / "other", batch_size=3).matrix(ANSWERS, REFERENCES)
    assert np.diag(table) == pytest.approx(forward, abs=1e-5)


def test_long_and_empty_texts_and_nan(folder: Path, tmp_path: Path) -> None:
    import torch

    measure = measure_of(folder, tmp_path)
    scores = measure.scores(["", "so many birds " * 75_000, "bird"], ["bird", "bird", ""])
    assert scores[0] == 0
    assert 0 < scores[1] < 1
    assert np.isnan(scores[2])
    assert measure.notes[-1] == (
        "Different pairs longer than the 64 tokens that the model reads, cut in the longer text: 1."
    )
    with torch.no_grad():
        measure._network.classifier.bias.fill_(torch.nan)
    assert np.isnan(measure.scores(["new"], ["bird"])).all()
    assert "Pairs left unscored because the model returned no number: 1." in measure.notes
