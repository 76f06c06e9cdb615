from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from taxtune.errors import ModelError
from taxtune.metrics.chunks import RuleChunker, make_chunker


def rules(text: str) -> list[str]:
    return list(RuleChunker().chunks([text])[0])


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        ("This is a field sparrow.", ["field sparrow"]),
        (
            "The image shows a small brown bird, likely a House Sparrow (Passer domesticus), perched on a branch.",
            ["image", "small brown bird", "House Sparrow", "Passer domesticus", "branch"],
        ),
        ("I think it is either a cat or a dog", ["cat", "dog"]),
        ("a species of sparrow", ["species of sparrow", "sparrow"]),
        ("the leaf of a maple tree", ["leaf of maple tree", "leaf", "maple tree"]),
        ("of course of", ["course"]),
        ("1. Robin\n2. Blue Jay\n- Great tit", ["Robin", "Blue Jay", "Great tit"]),
        ("small Blue Jay", ["small Blue Jay", "Blue Jay"]),
        ("trash can's canopy", ["trash can's canopy"]),
        ("A trash can", ["trash can"]),
        ("It can be a robin", ["robin"]),
        ("Jack-in-the-pulpit", ["Jack-in-the-pulpit"]),
        ("Malus ×domestica", ["Malus ×domestica"]),
        ("b) robin, e.g. a thrush", ["robin", "thrush"]),
        ("苍鹭，一种鸟。", ["苍鹭", "一种鸟"]),
        ("🐦 bird 🐦 robin 🐦", ["bird", "robin"]),
        ("हिन्दी पक्षी", ["हिन्दी पक्षी"]),
        ("طائر صغير، عصفور", ["طائر صغير", "عصفور"]),
        ("is the a of", []),
        ("", []),
        ("... 42 !", []),
    ],
)
def test_rules(text: str, chunks: list[str]) -> None:
    assert rules(text) == chunks


# -- spaCy -------------------------------------------------------------------------------------------------------------

# Parts of speech, heads and roles of the words of a few sentences, which a trained parser would find.
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
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a real spaCy pipeline with a parse by table and a ruler of entities."""
    spacy = pytest.importorskip("spacy")

    @spacy.Language.component("taxtune_test_parse")
    def parse(document: Any) -> Any:
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


def test_spacy_gives_noun_chunks_and_entities(pipeline: Path) -> None:
    chunker = make_chunker(f"spacy:{pipeline}")
    first, empty, other = chunker.chunks(["this is a field sparrow from Kansas", "", "nothing \n known"])
    # Noun chunks "this", "a field sparrow" and "Kansas"; entities "field" and "Kansas".
    assert first == ("this", "a field sparrow", "field", "Kansas")
    assert empty == ()
    assert other == ()
    assert chunker.identity["chunker"] == "spacy"
    assert chunker.identity["pipeline"] == "en_pipeline"


def test_a_pipeline_that_is_not_installed() -> None:
    pytest.importorskip("spacy")
    with pytest.raises(ModelError, match=r"python -m spacy download en_nowhere`.* or use concept:@rules"):
        make_chunker("spacy:en_nowhere")
