"""Images of every format and mode, large ones, odd ones, and those that are refused."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import PIL
import pytest
from PIL import Image
from PIL.Image import Transpose

from taxtune.data import check_images, content_hash, load_image
from taxtune.errors import ImageError
from taxtune.images import IMAGE_SUFFIXES, lacking_decoder

WHITE = 255
PILLOW, _, _ = PIL.__version__.partition(".")
WRITTEN_AND_NOT_READ = pytest.mark.skipif(
    int(PILLOW) < 13, reason="Pillow reads none that it wrote"
)


def noise(width=32, height=24, channels=3):
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (height, width, channels), dtype=np.uint8)


def save(image, path, **options):
    image.save(path, **options)
    return path


def png_header(width, height):
    """Returns a PNG that says it has such a size, in a few dozen bytes."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n"
    chunks = {b"IHDR": head, b"IDAT": zlib.compress(b"\0"), b"IEND": b""}
    for kind, data in chunks.items():
        length = struct.pack(">I", len(data))
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        png += length + kind + data + checksum
    return png


def pixels(image):
    return np.asarray(image).astype(int)


def error(image, expected):
    """Returns by how much a pixel differs at most from a colour, or from a grey."""
    return np.abs(pixels(image) - expected).max()


@pytest.fixture
def photo(tmp_path):
    """The file of a photo."""
    return save(Image.fromarray(noise()), tmp_path / "photo.png")


# -- what is read ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.png", "a.bmp", "a.tif", "a.ppm", "a.webp"])
def test_lossless_formats_come_back_as_they_were(name, tmp_path):
    options = {"lossless": True} if name.endswith("webp") else {}
    path = save(Image.fromarray(noise()), tmp_path / name, **options)
    image = load_image(path)
    assert image.mode == "RGB"
    np.testing.assert_array_equal(np.asarray(image), noise())


@pytest.mark.parametrize(
    ("orientation", "steps"),
    [
        (1, []),
        (2, [Transpose.FLIP_LEFT_RIGHT]),
        (3, [Transpose.ROTATE_180]),
        (4, [Transpose.FLIP_TOP_BOTTOM]),
        (5, [Transpose.TRANSPOSE]),
        (6, [Transpose.ROTATE_90]),
        (7, [Transpose.TRANSVERSE]),
        (8, [Transpose.ROTATE_270]),
    ],
)
def test_exif_orientation_is_applied(orientation, steps, tmp_path):
    upright = Image.new("RGB", (40, 20), "black")
    upright.paste("white", (0, 0, 20, 10))  # the top left quarter
    stored = upright
    for step in steps:
        stored = stored.transpose(step)
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = save(stored, tmp_path / "a.png", exif=exif)
    image = load_image(path)
    np.testing.assert_array_equal(np.asarray(image), np.asarray(upright))


@pytest.fixture
def as_read(tmp_path):
    """Writes an image of one value in a mode and returns it as it is read."""

    def make(mode, value):
        is_tiff = mode in ("F", "CMYK", "YCbCr", "I")
        file = tmp_path / ("a.tif" if is_tiff else "a.png")
        save(Image.new(mode, (16, 16), value), file)
        image = load_image(file)
        assert image.mode == "RGB"
        return image

    return make


@pytest.mark.parametrize(("mode", "value"), [("RGBA", (200, 0, 0, 0)), ("LA", (10, 0))])
def test_what_is_transparent_becomes_white(mode, value, as_read):
    assert error(as_read(mode, value), WHITE) == 0


@pytest.mark.parametrize(
    ("mode", "value", "rgb"),
    [
        ("RGB", (10, 20, 30), (10, 20, 30)),
        ("RGBA", (200, 0, 0, 255), (200, 0, 0)),
        ("CMYK", (0, 255, 255, 0), (255, 0, 0)),
    ],
)
def test_colours_of_any_mode_become_rgb(mode, value, rgb, as_read):
    assert error(as_read(mode, value), rgb) <= 1


@pytest.mark.parametrize(
    ("mode", "value", "grey"),
    [
        ("1", 1, WHITE),
        ("L", 100, 100),
        ("LA", (10, 255), 10),
        ("I;16", 257 * 128, 128),
        ("I", 257 * 128, 128),
        ("F", 0.5, 128),
        ("F", 100.0, 100),
        pytest.param("YCbCr", (128, 128, 128), 128, marks=WRITTEN_AND_NOT_READ),
    ],
)
def test_greys_of_any_mode_become_rgb(mode, value, grey, as_read):
    assert error(as_read(mode, value), grey) <= 1


def test_a_palette_with_a_transparent_colour_is_laid_over_white(tmp_path):
    image = Image.new("P", (16, 16), 1)
    image.putpalette([0, 0, 0, 250, 0, 0])
    image.paste(0, (0, 0, 8, 16))
    image = load_image(save(image, tmp_path / "a.png", transparency=0))
    assert image.getpixel((0, 0)) == (255, 255, 255)
    assert image.getpixel((15, 0)) == (250, 0, 0)


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
@pytest.mark.parametrize(
    ("least", "most"), [(0, 65_535), (3, 255), (3, 1023), (3, 4095), (3, 16_383)]
)
def test_a_file_of_sixteen_bits_is_scaled_by_its_own_range(least, most, name, tmp_path):
    ramp = np.linspace(least, most, 256).astype(np.uint16)
    rows = np.broadcast_to(ramp, (16, 256))
    image = load_image(save(Image.fromarray(rows), tmp_path / name))
    scaled = pixels(image)[0, :, 0]
    assert np.abs(scaled - np.arange(256)).max() <= 1


def test_one_grey_of_sixteen_bits_is_not_scaled_by_its_range(tmp_path):
    grey = np.full((16, 16), 257 * 9, dtype=np.uint16)
    image = load_image(save(Image.fromarray(grey), tmp_path / "a.png"))
    assert pixels(image).max() == 9


# -- large images ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "webp"])
@pytest.mark.parametrize("mode", ["RGB", "L", "P"])
def test_a_large_photo_is_read_at_half_size(suffix, mode, tmp_path, monkeypatch):
    monkeypatch.setattr("taxtune.images.MAX_PIXELS", 40_000)
    source = Image.new("RGB", (300, 200), (200, 30, 30))
    source.paste((20, 20, 220), (0, 0, 150, 200))
    exif = Image.Exif()
    exif[0x0112] = 6
    if mode == "P" and suffix in ("jpg", "webp"):
        pytest.skip("has no palette")
    path = save(source.convert(mode), tmp_path / f"a.{suffix}", exif=exif)
    image = load_image(path)
    assert image.size == (100, 150)  # turned upright after that
    expected = source.convert(mode).convert("RGB")
    top = image.crop((50, 10, 51, 11))
    assert error(top, expected.getpixel((20, 100))) < 60
    bottom = image.crop((50, 140, 51, 141))
    assert error(bottom, expected.getpixel((280, 100))) < 60
    assert check_images([path])[path].sha256 == content_hash(path)
    monkeypatch.setattr("taxtune.images.MAX_PIXELS", 14_000)
    with pytest.raises(ImageError, match="= 60,000 pixels, and at most 56,000 are allowed"):
        load_image(path)


def test_the_limit_of_pillow_is_as_it_was(photo, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    load_image(photo)
    assert Image.MAX_IMAGE_PIXELS == 100


def test_many_pixels_in_few_bytes_are_no_photo(tmp_path):
    file = tmp_path / "a.png"
    file.write_bytes(png_header(9_000, 9_000) + bytes(30_000))
    with pytest.raises(ImageError, match=r"81,000,000 pixels, in 30,\d+ bytes, as no photo has"):
        load_image(file)


# -- formats that not every Pillow reads -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("suffix", "format", "package"),
    [("heic", "HEIF", "pillow_heif"), ("HIF", "HEIF", "pillow_heif"), ("avif", "AVIF", "PIL")],
)
def test_photos_of_phones_are_read(suffix, format, package, photo, tmp_path):
    pytest.importorskip(package)
    load_image(photo)  # which makes the formats known
    path = tmp_path / f"a.{suffix}"
    Image.new("RGB", (64, 48), (200, 30, 30)).save(path, format)
    assert path.suffix.lower() in IMAGE_SUFFIXES
    assert error(load_image(path), (200, 30, 30)) < 12
    assert lacking_decoder([path]) == ""
    other = path.rename(tmp_path / "named.jpg")  # as some programs save them
    assert load_image(other).size == (64, 48)


@pytest.mark.parametrize(
    ("name", "brand", "needs"),
    [
        ("a.heic", b"heic", r"HEIF images need pillow-heif: pip install '\.\[heif\]'"),
        ("a.jpg", b"mif1", "HEIF images need pillow-heif"),
        ("a.avif", b"avif", "AVIF images need Pillow"),
    ],
)
def test_without_its_package_a_photo_says_which(name, brand, needs, tmp_path, monkeypatch):
    monkeypatch.setattr("taxtune.images._formats", lambda: ("JPEG", "PNG"))
    file = tmp_path / name
    file.write_bytes(b"\0\0\0\x1cftyp" + brand + bytes(99))
    with pytest.raises(ImageError, match=needs):
        load_image(file)
    assert lacking_decoder(["a.HEIC", "b.avif", "c.png"]).count("images need") == 2
    assert lacking_decoder(["c.png", "d.txt", "e"]) == ""


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.fixture
def bad_files(tmp_path):
    """Files that are no good, with what is said of each."""
    good = Image.fromarray(noise(200, 150))
    jpeg = save(good, tmp_path / "good.jpg").read_bytes()
    png = save(good, tmp_path / "good.png").read_bytes()
    flipped = bytearray(png)
    flipped[len(flipped) // 2] ^= 0xFF
    files = {
        "empty.jpg": (b"", r"empty \(0 bytes\)"),
        "cut.jpg": (jpeg[:2000], "corrupt or truncated"),
        "cut.png": (png[:2000], "corrupt or truncated"),
        "flipped.png": (bytes(flipped), "corrupt or truncated"),
        "head.jpg": (b"\xff\xd8\xff\xe0", "corrupt or truncated|not an image"),
    }
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 50 50\n"
    files |= {
        "text.jpg": (b"no image at all", "not an image, or its format is not supported"),
        "page.svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not an image, or its format"),
        "script.eps": (eps, "not an image, or its format"),
    }
    files |= {
        "huge.png": (png_header(30_000, 30_000), "too large: 30,000 × 30,000 = 900,000,000 pixels"),
        "large.png": (png_header(8_000, 8_000), "too large: 8,000 × 8,000 = 64,000,000 pixels"),
        "dot.png": (png_header(1, 1), r"1 × 1 pixels; its shorter side must be at least 8"),
        "thin.png": (png_header(500, 7), r"500 × 7 pixels"),
    }
    messages = {tmp_path / "missing.jpg": "does not exist"}
    folder = tmp_path / "folder.jpg"
    folder.mkdir()
    messages[folder] = "folder"
    for name, (data, message) in files.items():
        path = tmp_path / name
        path.write_bytes(data)
        messages[path] = message
    return messages


def test_what_is_no_good_is_refused_by_name(bad_files, subtests):
    for path, message in bad_files.items():
        with subtests.test(path.name):
            with pytest.raises(ImageError, match=message) as caught:
                load_image(path)
            assert str(path) in str(caught.value)
            with pytest.raises(ImageError, match=message):
                check_images([path])


def test_a_bomb_is_refused_before_it_is_decoded(tmp_path, monkeypatch):
    bomb = tmp_path / "bomb.png"
    bomb.write_bytes(png_header(9_000, 9_000))
    load = "PIL.ImageFile.ImageFile.load"
    monkeypatch.setattr(load, lambda *_: pytest.fail("the pixels were decoded"))
    with pytest.raises(ImageError, match="too large"):
        load_image(bomb)


def test_a_file_that_changed_is_refused(photo):
    before = content_hash(photo)
    save(Image.new("RGB", (32, 24)), photo)
    with pytest.raises(ImageError, match="changed since the run started"):
        load_image(photo, sha256=before)


# -- many at once ------------------------------------------------------------------------------------------------------


def test_all_bad_images_are_named_in_one_error(bad_files, photo):
    with pytest.raises(ImageError) as caught:
        check_images([photo, *bad_files])
    text = str(caught.value)
    n = len(bad_files)
    assert text.startswith(f"{n} of {n + 1} images cannot be used:")
    for path in bad_files:
        assert f"  {path}: " in text
    assert photo.name not in text
