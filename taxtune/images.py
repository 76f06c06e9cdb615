"""Reading images safely: bounded, checked, upright and RGB.

An image file is untrusted input. Its size is read from the header and refused before any pixel is
decoded, only formats that need no outside program are opened, and a file is decoded to its end
before anyone relies on it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from taxtune import atomic
from taxtune.errors import ImageError, Problems, install_extra, shortened
from taxtune.progress import note, track

if TYPE_CHECKING:
    from PIL import Image

__all__ = [
    "IMAGE_SUFFIXES",
    "MAX_FILE_BYTES",
    "MAX_PIXELS",
    "MIN_SIDE",
    "Checked",
    "check_images",
    "content_hash",
    "count_pixels",
    "is_image_data",
    "lacking_decoder",
    "load_image",
    "read_exif",
    "store_image",
]

#: Pixels (width times height) that an image may have in memory; one of up to four times as many is
#: read at half size.
MAX_PIXELS = 50_000_000
#: Pixels that the shorter side of an image must have; nothing can be recognised in less.
MIN_SIDE = 8
#: Bytes that an image file may have.
MAX_FILE_BYTES = 512 * 1024 * 1024
#: File endings that count as images where a folder is searched.
IMAGE_SUFFIXES = frozenset(
    (
        ".avif",
        ".bmp",
        ".gif",
        ".heic",
        ".heif",
        ".hif",
        ".jfif",
        ".jp2",
        ".jpe",
        ".jpeg",
        ".jpg",
        ".png",
        ".ppm",
    )
) | {".tif", ".tiff", ".webp"}

# Formats that Pillow decodes itself. EPS and the like, for which it starts an interpreter, are left
# out on purpose.
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "MPO", "JPEG2000", "AVIF", "HEIF")
# What reads the formats that not every Pillow reads, and the endings of their files.
_DECODERS = {"AVIF": "Pillow 11.3 or newer", "HEIF": f"pillow-heif: {install_extra('heif')}"}
_ENDINGS = {".avif": "AVIF", ".heic": "HEIF", ".heif": "HEIF", ".hif": "HEIF"}
# Most pixels of a large image for each byte of its file: a PNG of one colour has a thousand.
_MOST_PER_BYTE = 2_000
# The lock of Pillow's own limit, which is the whole process's.
_LIMIT = threading.Lock()
# The lock of large images, which are decoded one at a time.
_LARGE = threading.Lock()
# A file of 16 bits whose values stay below this holds those of a sensor of fewer bits.
_FEWER_BITS = 2**14
_EXIF_TIME = "%Y:%m:%d %H:%M:%S"
_SAVE_AGAIN = "Save it again as JPEG or PNG, or remove it from the data."


def content_hash(path: str | Path) -> str:
    """Returns the SHA-256 of a file's bytes, in hexadecimal.

    Raises:
        ImageError: If the file is missing or cannot be read.
    """
    return hashlib.sha256(_read(Path(path))).hexdigest()


def load_image(path: str | Path, *, sha256: str | None = None) -> Image.Image:
    """Reads an image: the first frame, turned upright by its EXIF orientation, in RGB.

    Transparent parts become white. Grey values of 16 bits are scaled to 8; those of 32 bits, and of
    14 bits or fewer in a file of 16, by the range that occurs. An image of more than `MAX_PIXELS`
    is read at half its width and height.

    Args:
        path: The file.
        sha256: The content hash that the file must still have, or None.

    Raises:
        ImageError: If the file is missing, empty, truncated, corrupt, no image, too small, has more
            than four times `MAX_PIXELS` pixels or more of them than its bytes can hold, or was
            changed since `sha256` was taken.
    """
    path = Path(path)
    data = _read(path)
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise ImageError(
            "The image has changed since the run started.", file=path, remedy="Start the run again."
        )
    return _decode(data, path)


class Checked(NamedTuple):
    """The SHA-256 of a file's bytes, its image in little (16 × 16 × 3 bytes), and when it was taken."""

    sha256: str
    thumbnail: bytes
    taken: datetime | None


def check_images(
    paths: Iterable[str | Path],
    *,
    named_in: Mapping[Path, str] | None = None,
    skip_broken: bool = False,
    problems: Problems | None = None,
    then: Callable[[Path, Image.Image], None] | None = None,
) -> dict[Path, Checked]:
    """Reads every image to its end, in a few threads.

    Args:
        paths: The files; one named twice is read once.
        named_in: Where a file is named ("manifest.csv, row 3"), for messages.
        skip_broken: Whether images that cannot be used are left out and noted.
        problems: What the error is added to, instead of being raised.
        then: Called with each file and its image, as `load_image` returns it, in any order. Of an
            `ImageError` that it raises the image cannot be used.

    Returns:
        The hash, the thumbnail and the time of each file by path, in order.

    Raises:
        ImageError: If any image cannot be used, unless they are skipped; it names them, each with
            the reason.
    """
    from PIL.Image import Resampling

    files = list(dict.fromkeys(map(Path, paths)))

    def examine(path: Path) -> Checked | ImageError:
        try:
            data = _read(path)
            image = _decode(data, path)
            if then is not None:
                then(path, image)
        except ImageError as error:
            return error
        # By all pixels, so that the size of the image makes no difference.
        little = image.resize((16, 16), Resampling.BILINEAR, reducing_gap=4.0)
        taken = read_exif(path).get("taken")
        return Checked(hashlib.sha256(data).hexdigest(), little.tobytes(), taken)

    checked: dict[Path, Checked] = {}
    faults: dict[Path, ImageError] = {}
    # Reading, hashing and decoding all let go of the interpreter lock. A few workers bound the
    # memory as well.
    with (
        ThreadPoolExecutor(min(8, 2 * (os.cpu_count() or 1))) as pool,
        track("reading images", len(files)) as task,
    ):
        for file, outcome in zip(files, pool.map(examine, files), strict=True):
            if isinstance(outcome, ImageError):
                faults[file] = outcome
            else:
                checked[file] = outcome
            task.advance()
    if not faults:
        return checked
    named = {file: f" ({where})" for file, where in (named_in or {}).items()}
    lines = [f"  {file}{named.get(file, '')}: {fault.message}" for file, fault in faults.items()]
    listed = "\n".join(shortened(lines, 20))
    if not skip_broken:
        error = ImageError(
            f"{len(faults)} of {len(files)} images cannot be used:\n{listed}\nFix or remove these "
            "files, or leave them out: add --skip-broken to `taxtune init`, data.skip_broken to a recipe."
        )
        if problems is None:
            raise error
        problems.append(error)
        return checked
    count = f"{len(faults):,} images cannot be used and are"
    if len(faults) == 1:
        count = "1 image cannot be used and is"
    note(f"{count} left out:\n{listed}")
    return checked


def read_exif(path: str | Path) -> dict[str, Any]:
    """Returns when, where and by which camera a photo was taken.

    These are taken, month, hour, latitude and longitude (degrees, to a tenth), and camera (maker,
    model and serial number). What the file does not tell, or not as EXIF has it, is left out.
    """
    from PIL import ExifTags, Image

    tags = ExifTags.Base
    found: dict[str, Any] = {}
    with contextlib.suppress(Exception), Image.open(path, formats=_formats()) as image:
        exif = image.getexif()
        details = exif.get_ifd(ExifTags.IFD.Exif)
        serial = details.get(tags.BodySerialNumber)
        camera = (exif.get(tags.Make), exif.get(tags.Model), serial)
        parts = [str(part).strip("\0 ") for part in camera if part]
        found["camera"] = " ".join(parts)
        with contextlib.suppress(KeyError, ValueError, TypeError):
            taken = datetime.strptime(details[tags.DateTimeOriginal], _EXIF_TIME)
            found |= {"taken": taken, "month": taken.month, "hour": taken.hour}
        gps = exif.get_ifd(ExifTags.IFD.GPSInfo)
        for name, number, most in (("latitude", 2, 90), ("longitude", 4, 180)):
            with contextlib.suppress(KeyError, ValueError, TypeError, ArithmeticError):
                degrees, minutes, seconds = map(float, gps[number])
                angle = degrees + minutes / 60 + seconds / 3600
                if 0 <= angle <= most:
                    found[name] = round(
                        -angle if gps[number - 1].upper() in ("S", "W") else angle, 1
                    )
    return found


def count_pixels(image: str | Path | bytes) -> int:
    """Returns the number of pixels that an image says it has, 0 where that cannot be read."""
    from PIL import Image

    stream = io.BytesIO(image) if isinstance(image, bytes) else image
    with contextlib.suppress(Exception), Image.open(stream, formats=_formats()) as opened:
        return int(opened.width * opened.height)
    return 0


def is_image_data(value: object) -> bool:
    """Returns whether a value is an image that is in no file.

    Such are a PIL image, bytes, and an object with the key "bytes".
    """
    if isinstance(value, Mapping):
        return isinstance(value.get("bytes"), bytes)
    return isinstance(value, bytes) or (hasattr(value, "tobytes") and hasattr(value, "getexif"))


def store_image(value: Any, folder: Path) -> Path:
    """Writes an image that is in no file, once: its file's name is the hash of its content.

    Args:
        value: What `is_image_data` accepts: bytes, written as they are, or a PIL image, written
            upright as PNG.
        folder: Where images are kept.

    Returns:
        The file, `folder/ab/abcdef….png`; it has no ending if its format is unknown.

    Raises:
        ImageError: If a PIL image cannot be decoded or turned into RGB.
        TaxtuneError: If the file cannot be written.
    """
    from PIL import Image

    data = value["bytes"] if isinstance(value, Mapping) else value
    ending = ".png"
    if isinstance(data, bytes):
        digest = hashlib.sha256(data)
        try:
            with Image.open(io.BytesIO(data), formats=_formats()) as image:
                ending = f".{(image.format or '').lower()}".rstrip(".")
        except Exception:  # whoever reads the file says what is wrong with it
            ending = ""
    else:
        pixels = _upright(data, None)
        # Of the pixels, not of the PNG, whose bytes differ between versions of zlib.
        digest = hashlib.sha256(f"{pixels.width}x{pixels.height}:".encode() + pixels.tobytes())
    name = digest.hexdigest()
    path = folder / name[:2] / f"{name}{ending}"
    if not path.exists():
        if not isinstance(data, bytes):
            stream = io.BytesIO()
            pixels.save(stream, "PNG", compress_level=1)
            data = stream.getvalue()
        atomic.write_bytes(path, data)
    return path


def _read(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size == 0:
            raise ImageError("The image file is empty (0 bytes).", file=path, remedy=_SAVE_AGAIN)
        if size > MAX_FILE_BYTES:
            message = f"The image file has {size:,} bytes; the maximum is {MAX_FILE_BYTES:,}."
            raise ImageError(message, file=path, remedy=_SAVE_AGAIN)
        return path.read_bytes()
    except FileNotFoundError:
        remedy = "Check the name and the folder of the images."
        raise ImageError("The image file does not exist.", file=path, remedy=remedy) from None
    except (OSError, ValueError) as error:  # a name may hold a NUL character
        raise ImageError(f"The image file cannot be read: {error}.", file=path) from error


def lacking_decoder(names: Iterable[str | Path]) -> str:
    """Returns a sentence on packages that files need to be read, by their endings; "" for none."""
    formats = {_ENDINGS.get(Path(name).suffix.lower(), "") for name in names} - {"", *_formats()}
    needs = " and ".join(f"{format} images need {_DECODERS[format]}" for format in sorted(formats))
    return f"{needs}." if needs else ""


@cache
def _formats() -> tuple[str, ...]:
    from PIL import Image

    Image.init()
    with contextlib.suppress(ImportError):
        import pillow_heif

        pillow_heif.register_heif_opener()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _decode(data: bytes, path: Path) -> Image.Image:
    from PIL import UnidentifiedImageError

    try:
        image = _opened(data)
    except UnidentifiedImageError:
        brand = data[8:12] if data[4:8] == b"ftyp" else b""  # of both formats' container
        if said := lacking_decoder(
            ["a.avif" if brand.startswith(b"avi") else "a.heic"] if brand else []
        ):
            raise ImageError(said.rstrip("."), file=path, remedy=_SAVE_AGAIN) from None
        message = f"This is not an image, or its format is not supported (supported formats: {', '.join(_formats())})."
        raise ImageError(message, file=path, remedy=_SAVE_AGAIN) from None
    except Exception as error:  # a parser that meets a malformed header may raise nearly anything
        raise _corrupt(path, error) from error
    width, height = image.size
    pixels = width * height
    is_bomb = pixels > MAX_PIXELS and pixels > _MOST_PER_BYTE * len(data)
    if is_bomb or pixels > 4 * MAX_PIXELS:
        allowed = (
            f"in {len(data):,} bytes, as no photo has"
            if is_bomb
            else f"and at most {4 * MAX_PIXELS:,} are allowed"
        )
        message = f"The image is too large: {width:,} × {height:,} = {pixels:,} pixels, {allowed}."
        raise ImageError(message, file=path, remedy="Reduce its size.")
    if min(width, height) < MIN_SIDE:
        message = f"The image has {width} × {height} pixels; its shorter side must be at least {MIN_SIDE}."
        raise ImageError(
            message, file=path, remedy="Remove it from the data or give a larger copy."
        )
    if pixels > MAX_PIXELS:
        with _LARGE:  # one at a time: others than JPEG are decoded whole before they are reduced
            _halve(image, path)
    return _upright(image, path)


def _opened(data: bytes) -> Image.Image:
    """Opens an image whatever its size, which is looked at before a pixel is decoded."""
    from PIL import Image

    with _LIMIT:
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            return Image.open(io.BytesIO(data), formats=_formats())
        finally:
            Image.MAX_IMAGE_PIXELS = limit


def _halve(image: Image.Image, path: Path) -> None:
    from PIL import Image

    width, height = image.size
    try:
        image.thumbnail((width // 2, height // 2), Image.Resampling.BOX, reducing_gap=1.0)
    except Exception as error:
        raise _corrupt(path, error) from error


def _upright(image: Image.Image, path: Path | None) -> Image.Image:
    from PIL import ImageOps

    try:
        image.load()  # to the end of the file: a truncated one shows only now
    except Exception as error:
        raise _corrupt(path, error) from error
    with contextlib.suppress(
        Exception
    ):  # the pixels are sound; broken metadata holds no orientation to apply
        image = ImageOps.exif_transpose(image)
    try:
        return _to_rgb(image)
    except Exception as error:
        message = f"The image's colour mode {image.mode!r} cannot be converted to RGB: {error}."
        raise ImageError(message, file=path, remedy=_SAVE_AGAIN) from error


def _corrupt(path: Path | None, error: Exception) -> ImageError:
    detail = " ".join(str(error).split()) or type(error).__name__
    return ImageError(
        f"The image is corrupt or truncated: {detail}.", file=path, remedy=_SAVE_AGAIN
    )


def _to_rgb(image: Image.Image) -> Image.Image:
    from PIL import Image

    if image.mode.startswith("I") or image.mode == "F":
        image = _to_eight_bits(image)
    if image.mode in ("RGBA", "RGBa", "LA", "La", "PA") or "transparency" in image.info:
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    # A copy carries no file name, palette or metadata along.
    return image.convert("RGB") if image.mode != "RGB" else image.copy()


def _to_eight_bits(image: Image.Image) -> Image.Image:
    """Scales a grey image of more than 8 bits; Pillow's own conversion would clip it to white."""
    import numpy as np
    from PIL import Image

    values = np.nan_to_num(np.asarray(image).astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(values.min()), float(values.max())
    if image.mode.startswith("I;16") and low < high < _FEWER_BITS:
        values = (values - low) / (high - low) * 255
    elif image.mode.startswith("I;16") or (low >= 0 and 255 < high <= 65_535):
        values = values / 257
    elif image.mode == "F" and low >= 0 and high <= 1:
        values = values * 255
    elif low < 0 or high > 255:
        values = (values - low) / (high - low) * 255
    return Image.fromarray(np.clip(np.rint(values), 0, 255).astype(np.uint8), mode="L")
