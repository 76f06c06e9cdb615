"""Images in a request: text that names a file or an address, or that is the content itself."""

from __future__ import annotations

import base64
import binascii
import urllib.request
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlparse
from urllib.request import url2pathname

from taxtune.errors import ImageError

__all__ = ["MAX_BYTES", "read_image"]

#: Of an image file; a photo of 50 megapixels has some 20 MB.
MAX_BYTES = 32 * 1024**2
_LONGEST_PATH = 4096
_SECONDS = 20
_SHOWN = 80


def read_image(text: str, *, content_only: bool = False) -> Path | bytes:
    """Returns the file that a text names, or the content that it is or that its address leads to.

    Args:
        text: A path, a `file:`, `http:` or `https:` address, a `data:` address, or an image file in base64.
        content_only: Take only the last two, so that whoever may send requests can have nothing else read.

    Raises:
        ImageError: If it is none of them, cannot be fetched, or is larger than `MAX_BYTES`.
    """
    scheme = text[:8].partition(":")[0].lower()
    if scheme == "data":
        return _sized(_data(text), text)
    content = _base64(text)
    if content_only:
        if content is None:
            raise ImageError(
                "The text is not an image file in base64.",
                value=text[:_SHOWN],
                remedy="Send the content of the image in base64, or as a data: address.",
            )
        return _sized(content, text)
    if scheme in ("http", "https"):
        return _fetched(text)
    path = Path(url2pathname(urlparse(text).path)) if scheme == "file" else Path(text)
    # A JPEG in base64 begins with "/9j/", as a path may.
    if content is not None and (len(text) > _LONGEST_PATH or not path.exists()):
        return _sized(content, text)
    return path


def _data(text: str) -> bytes:
    head, comma, content = text.partition(",")
    if not comma:
        raise ImageError("The data: address has no content.", value=text[:_SHOWN])
    if not head.lower().endswith(";base64"):
        return unquote_to_bytes(content)
    found = _base64(content)
    if found is None:
        raise ImageError("The data: address is not base64.", value=text[:_SHOWN])
    return found


def _base64(text: str) -> bytes | None:
    try:
        return base64.b64decode("".join(text.split()), validate=True) or None
    except (binascii.Error, ValueError):
        return None


def _fetched(address: str) -> bytes:
    try:
        request = urllib.request.Request(address, headers={"User-Agent": "taxtune"})
        with urllib.request.urlopen(request, timeout=_SECONDS) as reply:
            content = reply.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ImageError(f"The image cannot be fetched: {error}.", value=address[:_SHOWN]) from error
    return _sized(content, address)


def _sized(content: bytes, text: str) -> bytes:
    if len(content) > MAX_BYTES:
        raise ImageError(
            f"The image file has more than {MAX_BYTES // 1024**2} MB.",
            value=text[:_SHOWN],
            remedy="Send a smaller one.",
        )
    return content
