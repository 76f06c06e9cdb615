"""Images as a server is sent them: made once, the file's own bytes where they will do, or by reference."""

from __future__ import annotations

import base64
import io
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from taxtune.data.images import DEFAULT_MAX_PIXELS, load_image
from taxtune.errors import ModelError

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["ENCODING", "ImageUrls", "data_url"]

# Up to so many pixels an image is sent without loss; a JPEG of a thumbnail would save little and blur much.
_LOSSLESS_PIXELS = 256 * 256
_JPEG_QUALITY = 92
#: What decides the pixels that a server sees, for a model's identity.
ENCODING = f"file,png<={_LOSSLESS_PIXELS},jpeg{_JPEG_QUALITY}"
_ORIENTATION = 0x0112
# Segments of a JPEG that hold no pixels: Exif and XMP, which may tell where a photo was taken, IPTC, and comments.
_METADATA = frozenset((0xE1, 0xED, 0xFE))
_START_OF_SCAN = 0xDA


class ImageUrls:
    """Makes the URLs of images, and keeps them as far as the room goes: images of a run stay while its prompts change.

    What is kept is not let go: of images that come in turn, the least recently used is the one that is wanted next.

    A JPEG or PNG file that is upright, RGB or grey, opaque and no larger than wanted is sent as it is, without its
    metadata; or by reference where the server can reach it, which is the same to the model. Any other image is sent
    as PNG if it is small, and as JPEG if it is not. No WebP is sent, which would be smaller, as not every server reads
    it.

    Args:
        max_side: Longer side in pixels to which larger images are scaled down; None for none.
        max_pixels: Largest width times height of an image file.
        at: Folders that the server can reach, each with its address there ("https://...", "file:///...").
        max_bytes: Bytes of URLs that are kept.

    Raises:
        ModelError: If an address is none.
    """

    def __init__(
        self,
        max_side: int | None,
        *,
        max_pixels: int = DEFAULT_MAX_PIXELS,
        at: Mapping[str, str] | None = None,
        max_bytes: int = 256 * 2**20,
    ) -> None:
        self._max_side = max_side
        self._max_pixels = max_pixels
        self._at = {Path(os.path.abspath(folder)): address.rstrip("/") for folder, address in (at or {}).items()}
        for address in self._at.values():
            if not address.startswith(("file://", "http://", "https://")):
                raise ModelError(
                    "images_at needs an address for each folder.",
                    value=address,
                    remedy="Use https://... or file:///...",
                )
        self._room = max_bytes
        self._kept: dict[tuple[Path, str | None], str] = {}
        self._lock = threading.Lock()
        # Of questions about one image that are asked side by side, one makes the URL and the others wait for it.
        self._making = tuple(threading.Lock() for _ in range(16))

    def url(self, path: Path, sha256: str | None) -> str:
        """Returns an image's URL.

        Args:
            path: The file.
            sha256: The content hash that the file must have; None if it is not known, and the URL is then not kept.

        Raises:
            ImageError: If the file cannot be read, or was changed since `sha256` was taken.
        """
        key = (path, sha256)
        with self._making[hash(key) % len(self._making)]:
            with self._lock:
                if key in self._kept:
                    return self._kept[key]
            url = self._made(path, sha256)
            with self._lock:
                if sha256 is not None and len(url) <= self._room:
                    self._kept[key] = url
                    self._room -= len(url)
            return url

    def _made(self, path: Path, sha256: str | None) -> str:
        image = load_image(path, max_pixels=self._max_pixels, sha256=sha256)
        data = path.read_bytes()
        kind = _kind(data) if self._max_side is None or max(image.size) <= self._max_side else None
        if kind is None:
            return data_url(image, self._max_side)
        place = Path(os.path.abspath(path))
        for folder, address in self._at.items():
            if place.is_relative_to(folder):
                return f"{address}/{quote(place.relative_to(folder).as_posix())}"
        return _encoded(kind, _without_metadata(data) if kind == "jpeg" else _saved(image, "PNG"))


def data_url(image: Image.Image, max_side: int | None) -> str:
    """Returns an RGB image as a data URL: PNG if it is small, JPEG otherwise, scaled down to `max_side` pixels."""
    from PIL import Image as PillowImage

    if max_side is not None and max(image.size) > max_side:
        image = image.copy()
        image.thumbnail((max_side, max_side), PillowImage.Resampling.LANCZOS)
    if image.width * image.height <= _LOSSLESS_PIXELS:
        return _encoded("png", _saved(image, "PNG"))
    return _encoded("jpeg", _saved(image, "JPEG"))


def _encoded(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"


def _saved(image: Image.Image, kind: str) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format=kind, quality=_JPEG_QUALITY)
    return stream.getvalue()


def _kind(data: bytes) -> str | None:
    """Returns "jpeg" or "png" for a file that every server reads as the same pixels; None for any other."""
    from PIL import Image as PillowImage

    with PillowImage.open(io.BytesIO(data)) as image:
        plain = (
            image.format in ("JPEG", "PNG")
            and image.mode in ("RGB", "L")
            and "transparency" not in image.info
            and not getattr(image, "is_animated", False)
            and image.getexif().get(_ORIENTATION, 1) == 1
        )
        return str(image.format).lower() if plain else None


def _without_metadata(jpeg: bytes) -> bytes:
    """Returns a JPEG file without Exif, XMP, IPTC and comments; its pixels are untouched."""
    kept, at = [jpeg[:2]], 2
    while jpeg[at + 1] != _START_OF_SCAN:
        end = at + 2 + int.from_bytes(jpeg[at + 2 : at + 4])
        if jpeg[at + 1] == 0xFF:  # a fill byte
            end = at + 1
        elif jpeg[at + 1] not in _METADATA:
            kept.append(jpeg[at:end])
        at = end
    return b"".join((*kept, jpeg[at:]))
