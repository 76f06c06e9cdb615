"""The content hashes of image files, kept on disk, so that a data set is read once and not at every start."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from taxtune.store import Identity, Store, cache_folder

__all__ = ["ImageHashes", "stamp"]

# What was changed less than this many nanoseconds ago may be changed again within a tick of the file system's clock.
_SETTLED = 2_000_000_000


class ImageHashes(Store[str, bytes]):
    """The SHA-256 of the content of image files, by the stamp of the file. A cache.

    The identity says what else was found out about the files: whether they were decoded, and by which limits.

    Args:
        folder: Where the file `hashes.sqlite` lies; None is the user's cache folder.
    """

    table = "hashes"
    columns: ClassVar[Mapping[str, str]] = {"key": "BLOB PRIMARY KEY", "sha256": "BLOB"}
    precious = False

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(cache_folder(folder, "images") / f"{self.table}.sqlite")

    def keys(self, identity: Identity, items: Sequence[str]) -> list[bytes]:
        """Returns the key of each stamp."""
        head = json.dumps(dict(identity), sort_keys=True).encode()
        return [
            hashlib.blake2b(head + item.encode("utf-8", "surrogatepass"), digest_size=16).digest() for item in items
        ]

    def row(self, identity: Identity, item: str, value: bytes) -> tuple[bytes] | None:
        """Returns the hash as a row; none for a file without a stamp."""
        return (value,) if item else None

    def value(self, row: Sequence[Any]) -> bytes:
        """Returns the hash of a row."""
        if not isinstance(row[0], bytes) or len(row[0]) != hashlib.sha256().digest_size:
            raise ValueError("this is no SHA-256")
        return row[0]


def stamp(path: Path) -> str:
    """Returns what changes whenever a file does: its path, size, inode, and the times of its last changes.

    "" for one that is not there, or that was changed so recently that the times may not show another change.
    """
    try:
        state = path.stat()
    except (OSError, ValueError):
        return ""
    if time.time_ns() - max(state.st_mtime_ns, state.st_ctime_ns) < _SETTLED:
        return ""
    return f"{os.path.abspath(path)}\0{state.st_size}\0{state.st_ino}\0{state.st_mtime_ns}\0{state.st_ctime_ns}"
