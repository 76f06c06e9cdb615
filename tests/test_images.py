"""Images of every format and mode, large ones, odd ones, and those that are refused."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import PIL
import pytest
from PIL import Image

from taxtune.data import check_images, content_hash, load_image
from taxtune.errors import ImageError
from taxtune.images import IMAGE_SUFFIXES, lacking_decoder


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
    for kind, data in ((b"IHDR", head), (b"IDAT", zlib.compress(b"\0")), (b"IEND", b"")):
        length = struct.pack(">I", len(data))
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        png += length + kind + data + checksum
    return png


def pixels(image):
    return np.asarray(image).astype(int)


# -- what is read ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.png", "a.bmp", "a.tif", "a.ppm", "a.webp"])
def test_lossless_formats_come_back_as_they_were(name, tmp_path):
    options = {"lossless": True} if name.endswith("webp") else {}
    path = save(Image.fromarray(noise()), tmp_path / name, **options)
    image = load_image(path)
    assert image.mode == "RGB"
    np.testing.assert_array_equal(np.asarray(image), noise())


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(orientation, tmp_path):
    upright = Image.new("RGB", (40, 20), "black")
    upright.paste("white", (0, 0, 20, 10))  # the top left quarter
    undo = {
        2: [Image.Transpose.FLIP_LEFT_RIGHT],
        3: [Image.Transpose.ROTATE_180],
        4: [Image.Transpose.FLIP_TOP_BOTTOM],
        5: [Image.Transpose.TRANSPOSE],
        6: [Image.Transpose.ROTATE_90],
        7: [Image.Transpose.TRANSVERSE],
        8: [Image.Transpose.ROTATE_270],
    }
    stored = upright
    for step in undo.get(orientation, []):
        stored = stored.transpose(step)
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = save(stored, tmp_path / "a.png", exif=exif)
    np.testing.assert_array_equal(np.asarray(load_image(path)), np.asarray(upright))


@pytest.mark.parametrize(
    ("mode", "value", "expected"),
    [
        ("1", 1, (255, 255, 255)),
        ("L", 100, (100, 100, 100)),
        ("RGB", (10, 20, 30), (10, 20, 30)),
        ("RGBA", (200, 0, 0, 0), (255, 255, 255)),
        ("RGBA", (200, 0, 0, 255), (200, 0, 0)),
        ("LA", (10, 0), (255, 255, 255)),
        ("LA", (10, 255), (10, 10, 10)),
        ("CMYK", (0, 255, 255, 0), (255, 0, 0)),
        ("I;16", 257 * 128, (128, 128, 128)),
        ("I", 257 * 128, (128, 128, 128)),
        ("F", 0.5, (128, 128, 128)),
        ("F", 100.0, (100, 100, 100)),
        pytest.param(
            "YCbCr",
            (128, 128, 128),
            (128, 128, 128),
            marks=pytest.mark.skipif(
                int(PIL.__version__.split(".")[0]) < 13, reason="Pillow reads none that it wrote"
            ),
        ),
    ],
)
def test_any_mode_becomes_rgb(mode, value, expected, tmp_path):
    tiff = mode in ("F", "CMYK", "YCbCr", "I")
    file = tmp_path / ("a.tif" if tiff else "a.png")
    image = load_image(save(Image.new(mode, (16, 16), value), file))
    assert image.mode == "RGB"
    assert np.abs(pixels(image) - expected).max() <= 1


def test_a_palette_with_a_transparent_colour_is_laid_over_white(tmp_path):
    image = Image.new("P", (16, 16), 1)
    image.putpalette([0, 0, 0, 250, 0, 0])
    image.paste(0, (0, 0, 8, 16))
    path = save(image, tmp_path / "a.png", transparency=0)
    row = pixels(load_image(path))[0]
    assert row[0].tolist() == [255, 255, 255]
    assert row[15].tolist() == [250, 0, 0]


def test_sixteen_bit_grey_is_scaled_and_not_clipped(tmp_path):
    ramp = np.linspace(0, 65_535, 256, dtype=np.uint16)[None, :].repeat(16, axis=0)
    path = save(Image.fromarray(ramp), tmp_path / "a.png")
    row = pixels(load_image(path))[0, :, 0]
    assert np.abs(row - np.arange(256)).max() <= 1


@pytest.mark.parametrize("bits", [8, 10, 12, 14])
def test_fewer_bits_in_a_file_of_sixteen_are_scaled_by_their_own_range(bits, tmp_path):
    ramp = np.linspace(3, 2**bits - 1, 256).astype(np.uint16)[None, :].repeat(16, axis=0)
    for name in ("a.png", "a.tif"):
        image = load_image(save(Image.fromarray(ramp), tmp_path / name))
        row = pixels(image)[0, :, 0]
        assert np.abs(row - np.arange(256)).max() <= 1
    grey = Image.fromarray(np.full((16, 16), 257 * 9, dtype=np.uint16))
    flat = save(grey, tmp_path / "flat.png")
    assert pixels(load_image(flat)).max() == 9


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
    for row, column in ((10, 20), (140, 280)):
        difference = pixels(image)[row, 50] - expected.getpixel((column, 100))
        assert np.abs(difference).max() < 60
    assert check_images([path]) == {path: content_hash(path)}
    monkeypatch.setattr("taxtune.images.MAX_PIXELS", 14_000)
    with pytest.raises(ImageError, match="= 60,000 pixels, and at most 56,000 are allowed"):
        load_image(path)


def test_the_limit_of_pillow_is_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    path = save(Image.fromarray(noise()), tmp_path / "a.png")
    load_image(path)
    assert Image.MAX_IMAGE_PIXELS == 100


def test_many_pixels_in_few_bytes_are_no_photo(tmp_path):
    (tmp_path / "a.png").write_bytes(png_header(9_000, 9_000) + bytes(30_000))
    with pytest.raises(ImageError, match=r"81,000,000 pixels, in 30,\d+ bytes, as no photo has"):
        load_image(tmp_path / "a.png")


# -- formats that not every Pillow reads -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("suffix", "package"), [("heic", "pillow_heif"), ("HIF", "pillow_heif"), ("avif", "PIL")]
)
def test_photos_of_phones_are_read(suffix, package, tmp_path):
    pytest.importorskip(package)
    # Reading makes the formats known.
    load_image(save(Image.new("RGB", (9, 9)), tmp_path / "first.png"))
    source = Image.new("RGB", (64, 48), (200, 30, 30))
    path = tmp_path / f"a.{suffix}"
    source.save(path, "AVIF" if suffix == "avif" else "HEIF")
    assert path.suffix.lower() in IMAGE_SUFFIXES
    assert np.abs(pixels(load_image(path)) - (200, 30, 30)).max() < 12
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
    (tmp_path / name).write_bytes(b"\0\0\0\x1cftyp" + brand + bytes(99))
    with pytest.raises(ImageError, match=needs):
        load_image(tmp_path / name)
    assert lacking_decoder(["a.HEIC", "b.avif", "c.png"]).count("images need") == 2
    assert lacking_decoder(["c.png", "d.txt", "e"]) == ""


# -- what is refused ---------------------------------------------------------------------------------------------------


def bad_files(folder):
    good = Image.fromarray(noise(200, 150))
    good_jpeg = save(good, folder / "good.jpg").read_bytes()
    good_png = save(good, folder / "good.png").read_bytes()
    flipped = bytearray(good_png)
    flipped[len(flipped) // 2] ^= 0xFF
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 50 50\n"
    files = {
        "empty.jpg": (b"", r"empty \(0 bytes\)"),
        "cut.jpg": (good_jpeg[:2000], "corrupt or truncated"),
        "cut.png": (good_png[:2000], "corrupt or truncated"),
        "flipped.png": (bytes(flipped), "corrupt or truncated"),
        "text.jpg": (b"no image at all", "not an image, or its format is not supported"),
        "head.jpg": (b"\xff\xd8\xff\xe0", "corrupt or truncated|not an image"),
        "page.svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not an image, or its format"),
        "script.eps": (eps, "not an image, or its format"),
        "huge.png": (png_header(30_000, 30_000), "too large: 30,000 × 30,000 = 900,000,000 pixels"),
        "large.png": (png_header(8_000, 8_000), "too large: 8,000 × 8,000 = 64,000,000 pixels"),
        "dot.png": (png_header(1, 1), r"1 × 1 pixels; its shorter side must be at least 8"),
        "thin.png": (png_header(500, 7), r"500 × 7 pixels"),
    }
    named = {}
    for name, (data, message) in files.items():
        (folder / name).write_bytes(data)
        named[name] = (folder / name, message)
    (folder / "folder.jpg").mkdir()
    named["missing.jpg"] = (folder / "missing.jpg", "does not exist")
    named["folder.jpg"] = (folder / "folder.jpg", "folder")
    return named


def test_what_is_no_good_is_refused_by_name(tmp_path, subtests):
    for name, (path, message) in bad_files(tmp_path).items():
        with subtests.test(name):
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


def test_a_file_that_changed_is_refused(tmp_path):
    path = save(Image.fromarray(noise()), tmp_path / "a.png")
    before = content_hash(path)
    save(Image.new("RGB", (32, 24)), path)
    with pytest.raises(ImageError, match="changed since the run started"):
        load_image(path, sha256=before)


# -- many at once ------------------------------------------------------------------------------------------------------


def test_all_bad_images_are_named_in_one_error(tmp_path):
    bad = bad_files(tmp_path)
    good = save(Image.fromarray(noise()), tmp_path / "good.png")
    with pytest.raises(ImageError) as caught:
        check_images([good, *(path for path, _ in bad.values())])
    text = str(caught.value)
    assert text.startswith(f"{len(bad)} of {len(bad) + 1} images cannot be used:")
    assert all(f"  {path}: " in text for path, _ in bad.values())
    assert "good.png" not in text
