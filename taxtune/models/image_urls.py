"""Images as a server is sent them: data URLs, made once, since a run asks about them repeatedly."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import TYPE_CHECKING

from taxtune.images import load_image

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["ENCODING", "MAX_SIDE", "ImageUrls", "data_url"]

#: Longer side in pixels to which larger images are scaled down.
MAX_SIDE = 1024
# Up to so many pixels an image is sent without loss; a JPEG of a thumbnail would save little and
# blur much.
_LOSSLESS_PIXELS = 256 * 256
_JPEG_QUALITY = 92
#: What decides the pixels that a server sees, for a model's identity.
ENCODING = f"png<={_LOSSLESS_PIXELS},jpeg{_JPEG_QUALITY}"


class ImageUrls:
    """Makes the data URLs of images and caches them as far as there is room.

    Args:
        max_bytes: Bytes of URLs that are cached; the first to come stay.
    """

    def __init__(self, max_bytes: int = 256 * 2**20) -> None:
        self._room = max_bytes
        self._cache: dict[tuple[Path, str], str] = {}

    def url(self, path: Path, sha256: str | None) -> str:
        """Makes an image's URL, or finds it in the cache.

        Args:
            path: The file.
            sha256: The content hash that the file must have; None if it is not known, and the URL
                is then not cached.

        Raises:
            ImageError: If the file cannot be read, or was changed since `sha256` was taken.
        """
        if sha256 is None:
            return data_url(load_image(path))
        key = (path, sha256)
        if key in self._cache:
            return self._cache[key]
        url = data_url(load_image(path, sha256=sha256))
        # Another thread may have made the same URL meanwhile.
        if key not in self._cache and len(url) <= self._room:
            self._cache[key] = url
            self._room -= len(url)
        return url


def data_url(image: Image.Image, side: int = MAX_SIDE) -> str:
    """Encodes an RGB image, without metadata: as PNG if it is small, else as JPEG.

    Images of more than `side` pixels a side are scaled down. (Not every server reads WebP.)
    """
    from PIL.Image import Resampling

    image = image.copy()
    image.info = {}  # Pillow would write a file's comment again
    image.thumbnail((side, side), Resampling.LANCZOS)  # which never makes an image larger
    kind = "png" if image.width * image.height <= _LOSSLESS_PIXELS else "jpeg"
    stream = io.BytesIO()
    image.save(stream, format=kind, quality=_JPEG_QUALITY)
    encoded = base64.b64encode(stream.getvalue()).decode("ascii")
    return f"data:image/{kind};base64,{encoded}"
