"""Label prompts, their embeddings, and the plurals and names that studies make."""

from __future__ import annotations

import numpy as np
import pytest

from taxtune.errors import DataError
from taxtune.studies.embedding import (
    distinct_names,
    embed_labels,
    label_texts,
    read_label_prompts,
    shown_name,
    unit,
)
from taxtune.studies.plurals import plural
from taxtune.taxonomy import Taxonomy


class Lengths:
    """An encoder whose vectors follow the texts' letters; remembers the texts."""

    name = "lengths"

    def __init__(self):
        self.identity: dict[str, str | int | None] = {}
        self.encoded: list[str] = []

    def texts(self, texts):
        self.encoded += texts
        rows = [[len(text), text.count("a") + 1, text.count("b")] for text in texts]
        return unit(np.array(rows, dtype=np.float32))

    stored = texts


def test_the_embedding_is_the_mean_of_unit_vectors_at_length_one():
    encoder = Lengths()
    ours = embed_labels(encoder, ("{label}", "a big {label}"), ["abba", "bob", "abba"])
    expected = encoder.texts(["abba"])[0] + encoder.texts(["a big abba"])[0]
    assert ours[0] == pytest.approx(expected / np.linalg.norm(expected))
    assert np.array_equal(ours[0], ours[2])
    # The repeated label once.
    assert encoder.encoded[:4] == ["abba", "bob", "a big abba", "a big bob"]


def test_sets_and_files_of_templates(tmp_path):
    sets = {name: read_label_prompts(name) for name in ("label", "photo", "photos")}
    assert list(map(len, sets.values())) == [1, 1, 8]
    assert all("{label}" in template for templates in sets.values() for template in templates)
    path = tmp_path / "mine.txt"
    path.write_text("# mine\n\n  {label}, drawn \n{label} — 🦊\n{label}, drawn\n", encoding="utf-8")
    assert read_label_prompts(str(path)) == ("{label}, drawn", "{label} — 🦊")
    messages = {"a\n": "mine.txt:1: .*does not contain {label}"}
    messages |= {"# a\n": "no prompt template", "": "empty"}
    for text, message in messages.items():
        path.write_text(text)
        with pytest.raises(DataError, match=message):
            read_label_prompts(str(path))
    with pytest.raises(DataError, match="Use label, photo, photos"):
        read_label_prompts("imagenet")


def test_names_of_nodes_and_models(tmp_path):
    paths = ["food/apple_pie", "food/Quercus"]
    tree = Taxonomy.from_paths(paths, aliases={"Quercus": ["oak"]})
    assert label_texts(tree) == ["food", "apple pie", "oak"]

    (tmp_path / "a" / "b").mkdir(parents=True)
    for kind in ("sentence", "clip:local-dir"):
        assert shown_name(f"{kind}:{tmp_path}/a/b") == f"{kind}:a/b"
    assert shown_name("clip:hf-hub:laion/CLIP-ViT") == "clip:hf-hub:laion/CLIP-ViT"
    assert distinct_names(["a", "b", "a"]) == ["a", "b", "a (2)"]


@pytest.mark.parametrize(
    ("one", "several"),
    [
        ("song sparrow", "song sparrows"), ("thrush", "thrushes"), ("Red Fox", "Red Foxes"), ("jay", "jays"),
        ("butterfly", "butterflies"), ("Snow Goose", "Snow Geese"), ("harvestman", "harvestmen"), ("ducks", "ducks"),
        ("catfish", "catfish"), ("walrus", "walruses"), ("苍鹭", "苍鹭"), ("spectacled caiman", "spectacled caimans"),
        ("", ""), ("Type 2", "Type 2"), ("dormouse", "dormice"), ("fly", "flies"), ("person", "people"),
        ("mongoose", "mongooses"),
    ],
)  # fmt: skip
def test_plurals(one, several):
    assert plural(one) == several
