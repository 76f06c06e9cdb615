from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from taxtune.encoders import FloatMatrix
from taxtune.encoders.store import folder_digest, stored_embeddings

NAMES = ["Blue Jay", "House Sparrow", "∅", "苍鹭"]


class Encoder:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, texts: Sequence[str]) -> FloatMatrix:
        self.calls += 1
        return np.arange(len(texts) * 3, dtype=np.float32).reshape(len(texts), 3)


def test_embeddings_are_computed_once(tmp_path: Path) -> None:
    encode = Encoder()
    first = stored_embeddings({"model": "m"}, NAMES, encode, tmp_path)
    second = stored_embeddings({"model": "m"}, NAMES, encode, tmp_path)
    assert encode.calls == 1
    assert (first == second).all()
    assert not list(tmp_path.glob("*.tmp"))


def test_another_model_or_other_names_are_another_file(tmp_path: Path) -> None:
    encode = Encoder()
    for identity, names in (({"model": "m"}, NAMES), ({"model": "n"}, NAMES), ({"model": "m"}, NAMES[::-1])):
        stored_embeddings(identity, names, encode, tmp_path)
    assert encode.calls == 3
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 cut", b"not a zip at all"])
def test_a_damaged_file_is_made_again(tmp_path: Path, damage: bytes) -> None:
    encode = Encoder()
    stored_embeddings({"model": "m"}, NAMES, encode, tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage)
    assert stored_embeddings({"model": "m"}, NAMES, encode, tmp_path).shape == (len(NAMES), 3)
    stored_embeddings({"model": "m"}, NAMES, encode, tmp_path)
    assert encode.calls == 2


def test_pickles_and_wrong_shapes_are_not_read(tmp_path: Path) -> None:
    encode = Encoder()
    stored_embeddings({"model": "m"}, NAMES, encode, tmp_path)
    (file,) = tmp_path.iterdir()
    np.savez(file, embeddings=np.array([{"a": 1}], dtype=object))
    stored_embeddings({"model": "m"}, NAMES, encode, tmp_path)
    np.savez(file, embeddings=np.zeros((2, 3), dtype=np.float32))
    stored_embeddings({"model": "m"}, NAMES, encode, tmp_path)
    assert encode.calls == 3


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    assert stored_embeddings({"model": "m"}, NAMES, Encoder(), blocked).shape == (len(NAMES), 3)


def test_folder_digest_changes_with_the_weights(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"one")
    before = folder_digest(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"two")
    assert folder_digest(tmp_path) != before
