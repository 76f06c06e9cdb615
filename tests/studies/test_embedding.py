from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from taxtune.encoders.base import FloatMatrix
from taxtune.errors import DataError
from taxtune.studies.embedding import embed_labels, label_texts, read_label_prompts, shown_name, unit
from taxtune.taxonomy import Taxonomy


class Lengths:
    """An encoder whose vectors follow the texts' letters; remembers what it was asked."""

    name = "lengths"

    def __init__(self) -> None:
        self.identity: dict[str, str | int | None] = {}
        self.asked: list[str] = []

    def texts(self, texts: Sequence[str]) -> FloatMatrix:
        self.asked += texts
        return unit(np.array([[len(t), t.count("a") + 1, t.count("b")] for t in texts], dtype=np.float32))

    stored = texts


@pytest.mark.parametrize("name", ["label", "photo", "photos"])
def test_the_sets_that_come_with_taxtune(name: str) -> None:
    templates = read_label_prompts(name)
    assert len(templates) == (8 if name == "photos" else 1)
    assert all("{label}" in template for template in templates)


def test_the_embedding_is_the_mean_of_unit_vectors_at_length_one() -> None:
    encoder = Lengths()
    ours = embed_labels(encoder, ("{label}", "a big {label}"), ["abba", "bob", "abba"])
    first, second = encoder.texts(["abba"])[0], encoder.texts(["a big abba"])[0]
    expected = (first + second) / 2
    assert ours[0] == pytest.approx(expected / np.linalg.norm(expected))
    assert np.array_equal(ours[0], ours[2])
    assert encoder.asked[:4] == ["abba", "bob", "a big abba", "a big bob"]  # the repeated label once


def test_a_file_of_templates(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("# mine\n\n  {label}, drawn \n{label} — 🦊\n{label}, drawn\n", encoding="utf-8")
    assert read_label_prompts(str(path)) == ("{label}, drawn", "{label} — 🦊")


@pytest.mark.parametrize(
    ("text", "said"), [("a photo\n", "does not contain {label}"), ("# none\n", "no prompt template"), ("", "empty")]
)
def test_bad_files(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=said):
        read_label_prompts(str(path))


def test_no_such_set() -> None:
    with pytest.raises(DataError, match="Use label, photo, photos"):
        read_label_prompts("imagenet")


def test_names_of_nodes() -> None:
    tree = Taxonomy(["food", "apple_pie", "Quercus"], [-1, 0, 0], aliases=[(), (), ("oak",)])
    assert label_texts(tree) == ["food", "apple pie", "oak"]
    assert label_texts(tree, "label") == ["food", "apple pie", "Quercus"]


def test_paths_are_shown_by_their_last_parts(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert shown_name(f"sentence:{tmp_path}/a/b") == "sentence:a/b"
    assert shown_name(f"clip:local-dir:{tmp_path}/a/b") == "clip:local-dir:a/b"
    (tmp_path / "a" / "model.gguf").touch()
    assert shown_name(f"llm:local:{tmp_path}/a/model.gguf") == "llm:local:a/model.gguf"
    assert shown_name("clip:hf-hub:laion/CLIP-ViT") == "clip:hf-hub:laion/CLIP-ViT"
    assert shown_name("sentence:all-MiniLM-L6-v2") == "sentence:all-MiniLM-L6-v2"
