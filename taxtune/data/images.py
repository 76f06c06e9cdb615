"""Reading images safely: bounded, checked, upright and RGB.

An image file is untrusted input. Its size is read from the header and refused before any pixel is decoded, only formats
that need no outside program are opened, and a file is decoded to its end before anyone relies on it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune import atomic
from taxtune.data.hashes import ImageHashes, stamp
from taxtune.errors import ImageError, shortened
from taxtune.progress import note, track
from taxtune.store import Identity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

__all__ = [
    "DEFAULT_MAX_PIXELS",
    "IMAGE_SUFFIXES",
    "MAX_FILE_BYTES",
    "MIN_SIDE",
    "check_images",
    "content_hash",
    "hash_images",
    "is_image_data",
    "load_image",
    "store_image",
]

#: Pixels (width times height) that an image may have unless told otherwise.
DEFAULT_MAX_PIXELS = 50_000_000
#: Pixels that the shorter side of an image must have; nothing can be recognised in less.
MIN_SIDE = 8
#: Bytes that an image file may have.
MAX_FILE_BYTES = 512 * 1024 * 1024
#: File endings that count as images where a folder is searched.
IMAGE_SUFFIXES = frozenset(
    (".avif", ".bmp", ".gif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
)

# Files that are looked up and kept together, and how many there must be for that: few are as soon read.
_BLOCK, _WORTH_KEEPING = 1_000, 1_000

# Formats that Pillow decodes itself. EPS and the like, for which it starts an interpreter, are left out on purpose.
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "MPO", "JPEG2000", "AVIF")
_SAVE_AGAIN = "Save it again as JPEG or PNG, or remove it from the data."


def content_hash(path: str | Path) -> str:
    """Returns the SHA-256 of a file's bytes, in hexadecimal.

    Raises:
        ImageError: If the file is missing or cannot be read.
    """
    return hashlib.sha256(_read(Path(path))).hexdigest()


def load_image(path: str | Path, *, max_pixels: int = DEFAULT_MAX_PIXELS, sha256: str | None = None) -> Image.Image:
    """Reads an image: the first frame, turned upright by its EXIF orientation, in RGB.

    Transparent parts become white. Grey values of more than 8 bits are scaled down to 8: of 16 bits by their full
    range, of 32 bits by the range that occurs where it exceeds 8 bits.

    Args:
        path: The file.
        max_pixels: Largest width times height; larger images are refused before they are decoded.
        sha256: The content hash that the file must still have, or None.

    Raises:
        ImageError: If the file is missing, empty, truncated, corrupt, no image, too small, too large, or was changed
            since `sha256` was taken.
    """
    path = Path(path)
    data = _read(path)
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise ImageError("The image has changed since the run started.", file=path, remedy="Start the run again.")
    return _decode(data, path, max_pixels)


def check_images(
    paths: Iterable[str | Path],
    *,
    max_pixels: int = DEFAULT_MAX_PIXELS,
) -> dict[Path, str]:
    """Reads every image to its end and returns the content hashes.

    Args:
        paths: The files; one named twice is read once.
        max_pixels: Largest width times height of an image.

    Returns:
        The SHA-256 of each file's bytes, by path, in the order given.

    Raises:
        ImageError: If any image cannot be used; it names all of them, each with the reason.
    """
    files = list(dict.fromkeys(map(Path, paths)))
    hashes = hash_images(lambda: files, max_pixels=max_pixels)
    return {file: digest.tobytes().hex() for file, digest in zip(files, hashes, strict=True)}


def hash_images(
    files: Callable[[], Iterable[Path]],
    *,
    max_pixels: int | None,
    named_in: Callable[[int], str | None] = lambda place: None,
    skip_broken: bool = False,
) -> NDArray[np.uint8]:
    """Returns the content hashes of image files, most of them from disk if they were read before.

    Files are read in a few threads. The hashes are kept from thousand to thousand, so that after an end before the time
    the work goes on there. A file that has changed in any way since is read again.

    Args:
        files: Returns the files, each time from the first on; they are not held together.
        max_pixels: Largest width times height of an image; None to read the files without decoding them.
        named_in: Returns where the file at a place is named ("manifest.csv, row 3"), for the message, or None.
        skip_broken: Whether images that cannot be used are noted, each with the reason, and get a hash of zeros.

    Returns:
        SHA-256 of each file's bytes, shape (files, 32).

    Raises:
        ImageError: If any image cannot be used, unless they are skipped; it names all of them, each with the reason.
    """
    import numpy as np

    total = sum(1 for _ in files())
    hashes = np.zeros((total, 32), dtype=np.uint8)
    faults: dict[Path, tuple[int, ImageError]] = {}
    store = ImageHashes() if total >= _WORTH_KEEPING else None
    identity: Identity = {"max_pixels": max_pixels, "decoder": _decoder() if max_pixels is not None else None}

    def examine(path: Path) -> bytes | ImageError:
        try:
            data = _read(path)
            if max_pixels is not None:
                _decode(data, path, max_pixels)
        except ImageError as error:
            return error
        return hashlib.sha256(data).digest()

    # Reading, hashing and decoding all let go of the interpreter lock. A few workers bound the memory as well.
    workers = min(8, 2 * (os.cpu_count() or 1))
    with ThreadPoolExecutor(workers) as pool, track("reading images", total) as task:
        start, every = 0, iter(files())
        while block := list(itertools.islice(every, _BLOCK)):
            # Before they are read: a file that changes meanwhile is not taken for what it was.
            stamps = [stamp(path) if store is not None else "" for path in block]
            none: list[bytes | None] = [None] * len(block)
            known = none if store is None else store.get(identity, stamps)
            fresh = [place for place, digest in enumerate(known) if digest is None]
            task.advance(len(block) - len(fresh), stored=len(block) - len(fresh))
            for place, found in zip(fresh, pool.map(examine, [block[place] for place in fresh]), strict=True):
                if isinstance(found, ImageError):
                    faults.setdefault(block[place], (start + place, found))
                else:
                    known[place] = found
                task.advance()
            if store is not None:
                store.put(identity, [(stamps[place], digest) for place in fresh if (digest := known[place])])
            for place, digest in enumerate(known, start=start):
                if digest is not None:
                    hashes[place] = np.frombuffer(digest, dtype=np.uint8)
            start += len(block)
    if faults:
        unusable = [(fault, named_in(place)) for place, fault in faults.values()]
        if not skip_broken:
            raise _unusable(unusable, files)
        count = f"{len(unusable):,} images cannot be used and are"
        count = "1 image cannot be used and is" if len(unusable) == 1 else count
        note(f"{count} left out:\n" + "\n".join(shortened(_lines(unusable), 20)))
    return hashes


def _lines(faults: Sequence[tuple[ImageError, str | None]]) -> list[str]:
    return [f"  {fault.file}{f' ({where})' if where else ''}: {fault.message}" for fault, where in faults]


def _unusable(faults: Sequence[tuple[ImageError, str | None]], files: Callable[[], Iterable[Path]]) -> ImageError:
    """Returns one error for all images that cannot be used, each with where it is named."""
    if len(faults) == 1:
        ((fault, where),) = faults
        if where is None:
            return fault
        return ImageError(f"{fault.message.rstrip('.')} ({where}).", file=fault.file, remedy=fault.remedy)
    return ImageError(
        f"{len(faults)} of {len(set(files()))} images cannot be used:\n"
        + "\n".join(shortened(_lines(faults)))
        + "\nFix these files or remove them from the data."
    )


def _decoder() -> str:
    """Returns what decides whether an image can be decoded."""
    import PIL

    return f"1, Pillow {PIL.__version__}, {' '.join(_formats())}"


def is_image_data(value: object) -> bool:
    """Tells whether a value is an image that is in no file: a PIL image, bytes, or an object with the key "bytes"."""
    if isinstance(value, Mapping):
        return isinstance(value.get("bytes"), bytes)
    return isinstance(value, bytes) or (hasattr(value, "tobytes") and hasattr(value, "getexif"))


def store_image(value: Any, folder: Path) -> Path:
    """Writes an image that is in no file, once: its file's name is the hash of its content.

    The bytes of an image file are written as they are. A PIL image is turned upright and into RGB, as `load_image`
    does with files, and written as PNG without loss.

    Args:
        value: What `is_image_data` accepts.
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
        if path.is_dir():
            raise ImageError("This is a folder, not an image.", file=path)
        if size == 0:
            raise ImageError("The image file is empty (0 bytes).", file=path, remedy=_SAVE_AGAIN)
        if size > MAX_FILE_BYTES:
            raise ImageError(
                f"The image file has {size:,} bytes; the maximum is {MAX_FILE_BYTES:,}.",
                file=path,
                remedy=_SAVE_AGAIN,
            )
        return path.read_bytes()
    except FileNotFoundError:
        raise ImageError(
            "The image file does not exist.", file=path, remedy="Check the name and the folder of the images."
        ) from None
    except OSError as error:
        raise ImageError(f"The image file cannot be read: {error.strerror or error}.", file=path) from error
    except ValueError:
        raise ImageError("The name of the image file contains a NUL character.", value=str(path)) from None


@cache
def _formats() -> tuple[str, ...]:
    from PIL import Image

    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _decode(data: bytes, path: Path, max_pixels: int) -> Image.Image:
    from PIL import Image, UnidentifiedImageError

    try:
        image: Image.Image = Image.open(io.BytesIO(data), formats=_formats())
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        pixels = re.search(r"\d+", str(error))
        raise _too_large(path, f"{int(pixels.group()):,}" if pixels else "far too many", max_pixels) from error
    except UnidentifiedImageError:
        raise ImageError(
            f"This is not an image, or its format is not supported (supported formats: {', '.join(_formats())}).",
            file=path,
            remedy=_SAVE_AGAIN,
        ) from None
    except Exception as error:  # a parser that meets a malformed header may raise nearly anything
        raise _corrupt(path, error) from error
    width, height = image.size
    if width * height > max_pixels:
        raise _too_large(path, f"{width:,} × {height:,} = {width * height:,}", max_pixels)
    if min(width, height) < MIN_SIDE:
        raise ImageError(
            f"The image has {width} × {height} pixels; its shorter side must be at least {MIN_SIDE}.",
            file=path,
            remedy="Remove it from the data or give a larger copy.",
        )
    return _upright(image, path)


def _upright(image: Image.Image, path: Path | None) -> Image.Image:
    from PIL import ImageOps

    try:
        image.load()  # to the end of the file: a truncated one shows only now
    except Exception as error:
        raise _corrupt(path, error) from error
    with contextlib.suppress(Exception):  # the pixels are sound; broken metadata holds no orientation to apply
        image = ImageOps.exif_transpose(image)
    try:
        return _to_rgb(image)
    except Exception as error:
        raise ImageError(
            f"The image's colour mode {image.mode!r} cannot be converted to RGB: {error}.",
            file=path,
            remedy=_SAVE_AGAIN,
        ) from error


def _too_large(path: Path, pixels: str, max_pixels: int) -> ImageError:
    return ImageError(
        f"The image is too large: {pixels} pixels, and at most {max_pixels:,} are allowed.",
        file=path,
        remedy="Reduce its size.",
    )


def _corrupt(path: Path | None, error: Exception) -> ImageError:
    detail = " ".join(str(error).split()) or type(error).__name__
    return ImageError(f"The image is corrupt or truncated: {detail}.", file=path, remedy=_SAVE_AGAIN)


def _to_rgb(image: Image.Image) -> Image.Image:
    from PIL import Image

    if image.mode.startswith("I") or image.mode == "F":
        image = _to_eight_bits(image)
    if image.mode in ("RGBA", "RGBa", "LA", "La", "PA") or "transparency" in image.info:
        layer = image.convert("RGBA")
        ground = Image.new("RGBA", layer.size, "white")
        ground.alpha_composite(layer)
        image = ground
    # A copy carries no file name, palette or metadata along.
    return image.convert("RGB") if image.mode != "RGB" else image.copy()


def _to_eight_bits(image: Image.Image) -> Image.Image:
    """Scales a grey image of more than 8 bits; Pillow's own conversion would clip it to white."""
    import numpy as np
    from PIL import Image

    values = np.nan_to_num(np.asarray(image).astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(values.min()), float(values.max())
    if image.mode.startswith("I;16") or (low >= 0 and 255 < high <= 65_535):
        values = values / 257
    elif image.mode == "F" and low >= 0 and high <= 1:
        values = values * 255
    elif low < 0 or high > 255:
        values = (values - low) / (high - low) * 255
    return Image.fromarray(np.clip(np.rint(values), 0, 255).astype(np.uint8), mode="L")
