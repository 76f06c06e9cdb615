"""Images as a server is sent them: made once, as data URLs with the file's own bytes where they will do."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import TYPE_CHECKING

from taxtune.data.images import load_image

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["ENCODING", "MAX_SIDE", "ImageUrls", "data_url"]

#: Longer side in pixels to which larger images are scaled down.
MAX_SIDE = 1024
# Up to so many pixels an image is sent without loss; a JPEG of a thumbnail would save little and blur much.
_LOSSLESS_PIXELS = 256 * 256
_JPEG_QUALITY = 92
#: What decides the pixels that a server sees, for a model's identity.
ENCODING = f"file,png<={_LOSSLESS_PIXELS},jpeg{_JPEG_QUALITY}"
_ORIENTATION = 0x0112
# Segments of a JPEG that hold no pixels: Exif and XMP, which may tell where a photo was taken, IPTC, and comments.
_METADATA = frozenset((0xE1, 0xED, 0xFE))
_START_OF_SCAN = b"\xff\xda"


class ImageUrls:
    """Makes the data URLs of images and keeps them as far as there is room, since a run asks about the same images.

    A JPEG or PNG file that is upright, RGB or grey, opaque and small enough is sent as it is, without its metadata; any
    other image as PNG if it is small, and as JPEG if it is not. (Not every server reads WebP.)

    Args:
        max_bytes: Bytes of URLs that are kept; the first to come stay.
    """

    def __init__(self, max_bytes: int = 256 * 2**20) -> None:
        self._room = max_bytes
        self._kept: dict[tuple[Path, str | None], str] = {}

    def url(self, path: Path, sha256: str | None) -> str:
        """Makes an image's URL, or finds it among those that are kept.

        Args:
            path: The file.
            sha256: The content hash that the file must have; None if it is not known, and the URL is then not kept.

        Raises:
            ImageError: If the file cannot be read, or was changed since `sha256` was taken.
        """
        key = (path, sha256)
        if key in self._kept:
            return self._kept[key]
        image, data = load_image(path, sha256=sha256), path.read_bytes()
        kind = _kind(data) if max(image.size) <= MAX_SIDE else None
        if kind is None:
            url = data_url(image, MAX_SIDE)
        else:
            url = _encoded(kind, _without_metadata(data) if kind == "jpeg" else _saved(image, "PNG"))
        if sha256 is not None and key not in self._kept and len(url) <= self._room:
            self._kept[key] = url
            self._room -= len(url)
        return url


def data_url(image: Image.Image, max_side: int | None) -> str:
    """Encodes an RGB image as a data URL: PNG if it is small, JPEG otherwise, scaled down to `max_side` pixels."""
    from PIL import Image as PillowImage

    if max_side is not None and max(image.size) > max_side:
        image = image.copy()
        image.thumbnail((max_side, max_side), PillowImage.Resampling.LANCZOS)
    kind = "png" if image.width * image.height <= _LOSSLESS_PIXELS else "jpeg"
    return _encoded(kind, _saved(image, kind.upper()))


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
    """Cuts Exif, XMP, IPTC and comments out of a JPEG file; its pixels are untouched."""
    kept, at = [jpeg[:2]], 2
    while jpeg[at : at + 2] != _START_OF_SCAN:
        end = at + 2 + int.from_bytes(jpeg[at + 2 : at + 4])
        if jpeg[at] != 0xFF or jpeg[at + 1] in (0x00, 0xFF):  # between segments, where some cameras write zeros
            end = at + 1
        elif jpeg[at + 1] not in _METADATA:
            kept.append(jpeg[at:end])
        at = end
    return b"".join((*kept, jpeg[at:]))
