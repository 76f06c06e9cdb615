from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taxtune.errors import ModelError
from taxtune.metrics import bertscore
from taxtune.metrics.bertscore import BertScoreMeasure
from taxtune.metrics.registry import MeasureSettings, make_measure
from tests.tiny_text_models import make_bert, make_roberta

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


def token_vectors(folder: Path, layer: int) -> Callable[[str], np.ndarray]:
    """Unit vectors of a text's tokens, those that frame it included, from the whole model, one text at a time."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModel.from_pretrained(folder).float().eval()

    def vectors(text: str) -> np.ndarray:
        inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=64)
        with torch.inference_mode():
            states = network(
                input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], output_hidden_states=True
            ).hidden_states
        found = np.asarray(states[layer][0], dtype=np.float64)
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    return vectors


def greedy_f1(answer: np.ndarray, reference: np.ndarray) -> float:
    """Every token but the framing ones finds its nearest in the other text, in plain loops."""

    def mean_of_best(some: np.ndarray, others: np.ndarray) -> float:
        best = [max(0.0, max(float(token @ other) for other in others)) for token in some[1:-1]]
        return sum(best) / len(best)

    precision, recall = mean_of_best(answer, reference), mean_of_best(reference, answer)
    return 2 * precision * recall / (precision + recall)


def test_f1_by_hand(folder: Path, tmp_path: Path) -> None:
    vectors = token_vectors(folder, 3)
    expected = [greedy_f1(vectors(a), vectors(r)) for a, r in zip(ANSWERS, REFERENCES, strict=True)]
    measure = measure_of(folder, tmp_path)
    assert measure.scores(ANSWERS, REFERENCES) == pytest.approx(expected, abs=1e-5)
    assert measure.scores(["bird"], ["bird"]) == pytest.approx([1], abs=1e-5)
    assert measure.notes == ()


def test_f1_of_the_package_itself(folder: Path, tmp_path: Path) -> None:
    from bert_score import BERTScorer

    scorer = BERTScorer(str(folder), num_layers=3, device="cpu")
    scorer._tokenizer.model_max_length = 64  # the package passes on what the tokenizer says, which is no limit here
    _, _, expected = scorer.score(ANSWERS, REFERENCES)
    assert measure_of(folder, tmp_path).scores(ANSWERS, REFERENCES) == pytest.approx(expected.numpy(), abs=1e-5)


def test_a_score_does_not_depend_on_its_batch(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers, references = [*ANSWERS, "bird " * 40], [*REFERENCES, "b"]
    together = measure_of(folder, tmp_path / "a").scores(answers, references)
    alone = [
        measure_of(folder, tmp_path / "b").scores([a], [r])[0] for a, r in zip(answers[:4], references[:4], strict=True)
    ]
    assert together[:4] == pytest.approx(alone, abs=1e-5)
    monkeypatch.setattr(bertscore, "_KEPT_BYTES", 1)  # embeddings are let go after every pair
    assert measure_of(folder, tmp_path / "c", 1).scores(answers, references) == pytest.approx(together, abs=1e-5)
    monkeypatch.setattr(bertscore, "_TILE", 2)
    assert np.diag(measure_of(folder, tmp_path / "d").matrix(answers, references)) == pytest.approx(together, abs=1e-5)


def test_kept_scores_load_no_model(bert: Path, tmp_path: Path) -> None:
    first = measure_of(bert, tmp_path).scores(ANSWERS, REFERENCES)
    again = measure_of(bert, tmp_path)
    assert again.scores(ANSWERS, REFERENCES).tolist() == first.tolist()
    assert "_network" not in vars(again)
    other = make_measure(f"bertscore:{bert}@2", MeasureSettings("cpu", 64, tmp_path))
    assert other.scores(ANSWERS, REFERENCES).tolist() != first.tolist()


def test_a_text_is_encoded_once_for_all_of_its_pairs(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import bert_score.utils

    seen: list[str] = []
    encode = bert_score.utils.get_bert_embedding

    def counting(texts: list[str], *rest: Any, **named: Any) -> Any:
        seen.extend(texts)
        return encode(texts, *rest, **named)

    monkeypatch.setattr(bert_score.utils, "get_bert_embedding", counting)
    measure_of(bert, tmp_path, 2).matrix(["a", "b", "c", "a"], ["d", "a", "e"])
    assert sorted(seen) == ["a", "b", "c", "d", "e"]


def test_memory_that_runs_out_halves_the_batch(bert: Path, tmp_path: Path) -> None:
    import torch

    expected = measure_of(bert, tmp_path / "a").scores(ANSWERS, REFERENCES)
    measure = measure_of(bert, tmp_path / "b", 8)
    network = measure._network
    sizes: list[int] = []

    class Small(torch.nn.Module):
        def forward(self, tokens: Any, **named: Any) -> Any:
            sizes.append(len(tokens))
            if len(tokens) > 2:
                raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
            return network(tokens, **named)

    vars(measure)["_network"] = Small()
    assert measure.scores(ANSWERS, REFERENCES) == pytest.approx(expected, abs=1e-5)
    assert sizes[:3] == [8, 4, 2]
    assert set(sizes[2:]) <= {1, 2}


def test_numbers_that_are_none_stay_none(bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    measure = measure_of(bert, tmp_path)
    scores = measure.scores(["", "\u200b", "bird"], ["bird", "bird", "\u200b"])
    np.testing.assert_array_equal(scores, [0, np.nan, np.nan])
    with torch.no_grad():
        measure._network.embeddings.word_embeddings.weight[measure._tokenizer.convert_tokens_to_ids("z")] = torch.nan
    scores = measure.scores(["z", "robin"], ["bird", "bird"])
    assert np.isnan(scores[0])
    assert np.isfinite(scores[1])
    assert "Pairs left unscored because the model returned no number: 3." in measure.notes
    assert "Empty candidate" not in capsys.readouterr().err


def test_a_megabyte_is_cut_and_said(bert: Path, tmp_path: Path) -> None:
    vectors = token_vectors(bert, 3)
    measure = measure_of(bert, tmp_path)
    text = "so many birds " * 75_000
    assert measure.scores([text], ["bird"])[0] == pytest.approx(
        greedy_f1(vectors(text[:999]), vectors("bird")), abs=1e-5
    )
    assert measure.notes == ("Texts longer than the model's limit of 64 tokens, which are truncated: 1.",)


def test_robertas_first_word_has_a_blank_before_it(tmp_path: Path) -> None:
    folder = make_roberta(tmp_path)
    measure = measure_of(folder, tmp_path / "cache")
    ids = measure._tokenizer("a")["input_ids"]
    assert measure._tokenizer.convert_ids_to_tokens(ids) == ["<s>", "Ġ", "a", "</s>"]
    # Of the 64 positions two come before the first token's.
    assert np.isfinite(measure.scores(["bird " * 100], ["bird"])).all()
    assert "62 tokens" in measure.notes[0]


def test_layers(bert: Path, tmp_path: Path) -> None:
    settings = MeasureSettings("cpu", cache_dir=tmp_path)
    measure = make_measure(f"bertscore:{bert}", settings)
    assert measure.identity()["layer"] == 3
    assert "layer 3 of 4" in measure.notes[0]
    assert make_measure(f"bertscore:{bert}@1", settings).identity()["layer"] == 1
    with pytest.raises(ModelError, match="has 4 layers"):
        make_measure(f"bertscore:{bert}@5", settings)


def test_a_folder_that_the_package_would_take_for_t5(tmp_path: Path) -> None:
    folder = make_bert(tmp_path / "part5")
    with pytest.raises(ModelError, match="Rename the folder"):
        make_measure(f"bertscore:{folder}", MeasureSettings("cpu"))


def test_a_model_without_weights(tmp_path: Path) -> None:
    folder = make_bert(tmp_path)
    (folder / "model.safetensors").unlink()
    answers: Sequence[str] = ["a"]
    measure = make_measure(f"bertscore:{folder}@3", MeasureSettings("cpu", cache_dir=tmp_path))
    with pytest.raises(ModelError, match="weights"):
        measure.scores(answers, ["b"])
