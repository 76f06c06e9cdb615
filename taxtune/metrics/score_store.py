"""Scores of pairs on disk, so that a model compares the same two texts once."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from taxtune.store import Identity, Store, cache_folder

__all__ = ["ScoreStore"]

_SCHEMA = 2
_KEY_BYTES = 16  # millions of pairs are kept: half of 128 bits is beyond any of them meeting


class ScoreStore(Store[tuple[str, ...], float]):
    """Scores by what is scored: the answer, the reference, and what else belongs to it. A cache.

    What is not a finite number is not kept, so that it is tried again.

    Args:
        folder: The folder that has it as `scores.sqlite`; None is the user's cache folder.
    """

    table = "scores"
    columns: ClassVar[Mapping[str, str]] = {"key": "BLOB PRIMARY KEY", "score": "REAL"}
    precious = False

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(cache_folder(folder) / "scores.sqlite")

    def keys(self, identity: Identity, items: Sequence[tuple[str, ...]]) -> list[bytes]:
        """Returns the key of each item."""
        described = json.dumps([_SCHEMA, dict(identity)], sort_keys=True).encode()
        head = hashlib.blake2b(described, digest_size=_KEY_BYTES)
        keys = []
        for item in items:
            digest = head.copy()
            # JSON keeps the parts apart: ("ab", "c") is not ("a", "bc"). Half surrogate pairs are escaped.
            digest.update(json.dumps(item).encode())
            keys.append(digest.digest())
        return keys

    def row(self, identity: Identity, item: tuple[str, ...], value: float) -> tuple[float] | None:
        """Returns the score."""
        return (float(value),) if math.isfinite(value) else None

    def value(self, row: Sequence[Any]) -> float:
        """Returns the score of a row."""
        return float(row[0])
