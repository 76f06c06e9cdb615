from __future__ import annotations

import base64
import io
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

from taxtune.data import content_hash, load_image
from taxtune.errors import ImageError
from taxtune.models.image_urls import ImageUrls

SOFTWARE = 0x0131


@pytest.mark.parametrize(
    ("size", "kind", "sent"),
    [
        ((3000, 1500), "JPEG", (1024, 512)),
        ((300, 220), "JPEG", (300, 220)),
        ((64, 64), "PNG", (64, 64)),
    ],
)
def test_a_small_image_is_sent_without_loss_and_a_large_one_is_scaled_down(
    size, kind, sent, tmp_path
):
    path = tmp_path / "photo.jpg"
    exif = Image.Exif()
    exif[SOFTWARE] = "a secret of the camera"
    Image.new("RGB", size, "red").save(path, exif=exif, comment="a secret in a comment")
    data = base64.b64decode(ImageUrls().url(path, None).partition(",")[2])
    opened = Image.open(io.BytesIO(data))
    assert (opened.format, opened.size) == (kind, sent)
    assert b"secret" in path.read_bytes()
    assert b"secret" not in data


def test_an_image_is_made_once_and_kept_as_far_as_there_is_room(tmp_path, monkeypatch):
    paths = [tmp_path / f"{i}.png" for i in range(3)]
    for i, path in enumerate(paths):
        Image.new("RGB", (64, 64), (i, 0, 0)).save(path)
    hashes = [content_hash(path) for path in paths]
    read = []

    def reading(path, **given):
        read.append(path)
        return load_image(path, **given)

    monkeypatch.setattr("taxtune.models.image_urls.load_image", reading)
    size = sum(len(ImageUrls().url(path, None)) for path in paths)
    read.clear()
    urls = ImageUrls(size - 1)
    for i in (0, 1, 2, 0, 1, 2):
        urls.url(paths[i], hashes[i])
    assert read == [paths[0], paths[1], paths[2], paths[2]], "there is no room for the third"


def test_a_url_that_several_threads_make_at_once_takes_its_room_once(tmp_path, monkeypatch):
    paths = [tmp_path / f"{i}.png" for i in range(2)]
    for i, path in enumerate(paths):
        Image.new("RGB", (64, 64), (i, 0, 0)).save(path)
    hashes = [content_hash(path) for path in paths]
    both = threading.Barrier(2)
    read = []

    def reading(path, **given):
        read.append(path)
        if path == paths[0]:
            both.wait(timeout=30)  # until the other thread is here, too
        return load_image(path, **given)

    urls = ImageUrls(sum(len(ImageUrls().url(path, None)) for path in paths))
    monkeypatch.setattr("taxtune.models.image_urls.load_image", reading)
    with ThreadPoolExecutor(2) as pool:
        assert len(set(pool.map(urls.url, [paths[0]] * 2, [hashes[0]] * 2))) == 1
    for _ in range(2):
        urls.url(paths[1], hashes[1])
    assert read == [paths[0], paths[0], paths[1]]


def test_a_file_that_was_changed_is_refused(tmp_path):
    path = tmp_path / "a.png"
    Image.new("RGB", (64, 64)).save(path)
    with pytest.raises(ImageError, match="has changed"):
        ImageUrls().url(path, "0" * 64)
