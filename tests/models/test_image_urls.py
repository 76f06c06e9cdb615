from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from taxtune.data import content_hash, load_image
from taxtune.errors import ImageError
from taxtune.models.image_urls import ImageUrls, data_url

ORIENTATION, SOFTWARE = 0x0112, 0x0131


def picture(width: int = 300, height: int = 200) -> Image.Image:
    """Noise over a gradient: what a lossy copy changes."""
    noise = Image.effect_noise((width, height), 60)
    return Image.merge("RGB", (noise, Image.linear_gradient("L").resize((width, height)), noise.rotate(180)))


def sent(url: str) -> tuple[str, bytes]:
    head, _, data = url.partition(",")
    return head, base64.b64decode(data)


def pixels(data: bytes) -> bytes:
    return Image.open(io.BytesIO(data)).convert("RGB").tobytes()


def exif(**tags: Any) -> Image.Exif:
    made = Image.Exif()
    made[SOFTWARE] = tags.get("software", "a secret of the camera")
    if "orientation" in tags:
        made[ORIENTATION] = tags["orientation"]
    return made


@pytest.mark.parametrize(("size", "kind", "sent"), [((3000, 1500), "JPEG", (1024, 512)), ((64, 64), "PNG", (64, 64))])
def test_a_large_image_is_scaled_down_and_sent_as_jpeg(size: tuple[int, int], kind: str, sent: tuple[int, int]) -> None:
    data = base64.b64decode(data_url(Image.new("RGB", size, "red"), 1024).partition(",")[2])
    opened = Image.open(io.BytesIO(data))
    assert (opened.format, opened.size) == (kind, sent)


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("progressive", [False, True])
def test_a_jpeg_is_sent_as_it_is_without_its_metadata(mode: str, progressive: bool, tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    picture().convert(mode).save(
        path, quality=97, exif=exif(orientation=1), comment="a secret in a comment", progressive=progressive
    )
    first = 4 + int.from_bytes(path.read_bytes()[4:6])
    path.write_bytes(path.read_bytes()[:first] + bytes(5) + path.read_bytes()[first:])  # as some cameras do
    head, data = sent(ImageUrls().url(path, None))
    assert head == "data:image/jpeg;base64"
    assert b"secret" in path.read_bytes()
    assert b"secret" not in data
    assert len(data) < path.stat().st_size
    assert pixels(data) == load_image(path).tobytes()


def test_a_png_is_sent_without_loss_however_large_and_without_its_metadata(tmp_path: Path) -> None:
    path = tmp_path / "drawing.png"
    picture(600, 400).save(path, exif=exif())
    head, data = sent(ImageUrls().url(path, None))
    assert head == "data:image/png;base64"
    assert b"secret" not in data
    assert pixels(data) == load_image(path).tobytes()


@pytest.mark.parametrize(
    ("name", "made", "options"),
    [
        ("turned.jpg", picture(), {"exif": exif(orientation=6)}),
        ("print.jpg", picture().convert("CMYK"), {}),
        ("seen-through.png", picture().convert("RGBA"), {}),
        ("palette.gif", picture().convert("P"), {}),
        ("web.webp", picture(), {"lossless": True}),
        ("moving.png", picture(), {"save_all": True, "append_images": [picture().rotate(90)]}),
    ],
)
def test_a_file_that_servers_may_read_differently_is_sent_as_taxtune_reads_it(
    name: str, made: Image.Image, options: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / name
    made.save(path, **options)
    assert ImageUrls().url(path, None) == data_url(load_image(path), 1024)


def test_an_image_is_made_once_and_kept_as_far_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / f"{i}.png" for i in range(3)]
    for i, path in enumerate(paths):
        Image.new("RGB", (64, 64), (i, 0, 0)).save(path)
    hashes = [content_hash(path) for path in paths]
    read: list[Path] = []

    def reading(path: Path, **given: Any) -> Image.Image:
        read.append(path)
        return load_image(path, **given)

    monkeypatch.setattr("taxtune.models.image_urls.load_image", reading)
    size = sum(len(ImageUrls().url(path, None)) for path in paths)
    read.clear()
    urls = ImageUrls(size - 1)
    for i in (0, 1, 2, 0, 1, 2):
        urls.url(paths[i], hashes[i])
    assert read == [paths[0], paths[1], paths[2], paths[2]], "there is no room for the third"


def test_a_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.new("RGB", (64, 64)).save(path)
    with pytest.raises(ImageError, match="has changed"):
        ImageUrls().url(path, "0" * 64)
