from __future__ import annotations

import hashlib
import re
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from PIL import Image

from taxtune.data.embeddings import checked_images, stored_images
from taxtune.encoders.clip import ClipEncoder
from taxtune.encoders.vectors import stored_embeddings
from taxtune.errors import ImageError
from tests.tiny_text_models import make_clip

MODEL = {"kind": "clip", "model": "m", "weights": "w"}


class Encoder:
    """Stands for a CLIP model: a picture's vector is the mean of its colours, and calls are counted."""

    batch_size = 2
    preprocessing = "none"

    def __init__(self, folder, **identity):
        self.cache_dir = folder
        self.identity: dict[str, str | int | None] = MODEL | identity
        self.seen: list[int] = []

    def images(self, images):
        self.seen.append(len(images))
        means = np.array(
            [np.asarray(image, dtype=np.float32).mean(axis=(0, 1)) for image in images]
        )
        return means / np.linalg.norm(means, axis=1, keepdims=True)


@pytest.fixture
def files(tmp_path):
    made = []
    for i, colour in enumerate(("red", "green", "blue", "white", "tan")):
        made.append(tmp_path / f"{i}.png")
        Image.new("RGB", (20, 20), colour).save(made[-1])
    return made


def encode(encoder, files, **options):
    return stored_images(encoder, files, **options)


def test_names_do_not_matter_and_content_does(tmp_path, files):
    encoder = Encoder(tmp_path / "cache")
    encode(encoder, files)
    moved = files[0].rename(tmp_path / "moved.png")
    encoder.seen.clear()
    assert encode(encoder, [moved])[0, 0] == pytest.approx(1)
    assert encoder.seen == []
    Image.new("RGB", (20, 20), "blue").save(moved)
    Image.new("RGB", (21, 20), "lime").save(files[1])
    vectors = encode(encoder, [moved, files[1], files[2]])
    assert encoder.seen == [1]  # the first is now the same file as the third
    assert vectors == pytest.approx(np.array([[0, 0, 1], [0, 1, 0], [0, 0, 1]]), abs=1e-6)


def test_another_model_or_preprocessing_encodes_anew(tmp_path, files):
    encode(Encoder(tmp_path), files[:1])
    other = Encoder(tmp_path, weights="x")
    encode(other, files[:1])
    cropped = Encoder(tmp_path)
    cropped.preprocessing = "crop"
    encode(cropped, files[:1])
    assert other.seen == cropped.seen == [1]


def test_broken_images_are_errors_whatever_is_kept(tmp_path, files):
    encoder = Encoder(tmp_path / "cache")
    encode(encoder, files)
    files[0].write_bytes(files[0].read_bytes()[:40])
    with pytest.raises(ImageError, match=r"0\.png"):
        encode(encoder, files)
    files[1].unlink()
    with pytest.raises(ImageError, match=r"1\.png: .*does not exist"):
        encode(encoder, files[1:])
    # Known by a hash, an image that is not that any more is no match.
    with pytest.raises(ImageError, match="changed since"):
        encode(encoder, [files[2]], sha256=[hashlib.sha256(b"other").hexdigest()])


def test_only_what_is_new_is_checked(tmp_path, files, monkeypatch, recorder):
    encoder = Encoder(tmp_path / "cache")
    hashes = checked_images(encoder, files)
    assert hashes == [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    encode(encoder, files[:3], sha256=hashes[:3])
    recorder.steps.clear()
    assert checked_images(encoder, [*files, files[0]]) == [*hashes, hashes[0]]
    assert recorder.of("reading images") == [(0, 2), (1, 2), (2, 2)]
    files[1].unlink()
    files[3].write_bytes(files[3].read_bytes()[:50])
    with pytest.raises(
        ImageError, match=r"(?s)2 of 3 images cannot be used.*1\.png.*does not exist.*3\.png"
    ):
        checked_images(encoder, files)


def test_a_real_model(tmp_path, files, monkeypatch):
    open_clip = pytest.importorskip("open_clip")
    encoder = ClipEncoder(
        make_clip(tmp_path), device="cpu", cache_dir=tmp_path / "cache", batch_size=2
    )
    assert "Resize" in encoder.preprocessing
    assert not re.search("0x[0-9a-f]", encoder.preprocessing)
    vectors = stored_images(encoder, files)
    assert vectors == pytest.approx(encoder.images([Image.open(file) for file in files]), abs=1e-5)
    monkeypatch.setattr(open_clip.CLIP, "encode_image", lambda *_: pytest.fail("encoded again"))
    assert (stored_images(encoder, files) == vectors).all()


# -- names -----------------------------------------------------------------------------------------

NAMES = ["Blue Jay", "House Sparrow", "∅", "苍鹭", "half \ud83d"]


class Names:
    """Embeds texts by their place, and counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, texts):
        self.calls += 1
        return np.arange(1, len(texts) * 3 + 1, dtype=np.float32).reshape(len(texts), 3)


@pytest.mark.parametrize("names", [NAMES, [str(i) for i in range(9000)], []])
def test_a_list_of_names_is_embedded_once(tmp_path, names):
    embed = Names()
    first = stored_embeddings({"model": "m"}, names, embed, tmp_path)
    second = stored_embeddings({"model": "m"}, names, embed, tmp_path)
    assert embed.calls == (1 if names else 2)
    assert first.shape == second.shape == (len(names), 3)
    assert (first == second).all()
    assert second.dtype == np.float32
    for file in tmp_path.rglob("names.sqlite"):
        with closing(sqlite3.connect(file)) as db:
            ((longest,),) = db.execute("SELECT max(length(vector)) FROM names")
        assert longest < 100_000, "SQLite takes no value of 1 GB, which a million names would be"


def test_another_model_or_another_list_is_embedded_anew(tmp_path):
    embed = Names()
    for identity, names in (("m", NAMES), ("n", NAMES), ("m", NAMES[::-1]), ("m", NAMES[:3])):
        stored_embeddings({"model": identity}, names, embed, tmp_path)
    assert embed.calls == 4
    for identity, names in (("m", NAMES), ("n", NAMES)):
        stored_embeddings({"model": identity}, names, embed, tmp_path)
    assert embed.calls == 4
