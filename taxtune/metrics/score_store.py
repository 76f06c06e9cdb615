"""Scores of pairs on disk, so that a model compares the same two texts once."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

__all__ = ["ScoreStore"]

_SCHEMA = 2
_BATCH = 500
_KEY_BYTES = 16  # millions of pairs are kept: half of 128 bits is beyond any of them meeting


class ScoreStore:
    """A SQLite file of scores by content. Where it cannot be opened, scores are computed and not kept.

    A file that is damaged, or is no such store, is moved aside (`scores.sqlite.damaged`) and a new one is begun.

    Args:
        folder: Where the file `scores.sqlite` lies; None is the user's cache folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        if folder is None:
            from platformdirs import user_cache_path

            folder = user_cache_path("taxtune")
        self.path = folder / "scores.sqlite"

    def get(
        self, identity: Mapping[str, str | int | float | None], items: Sequence[tuple[str, ...]]
    ) -> list[float | None]:
        """Returns the kept score of each item, or None.

        Args:
            identity: Everything about the measure that can change a score.
            items: What is scored: the answer, the reference, and what else belongs to it.
        """
        if not items or not self.path.exists():
            return [None] * len(items)
        keys = _keys(identity, items)
        found: dict[bytes, float] = {}
        try:
            with closing(self._open()) as connection:
                wanted = list(dict.fromkeys(keys))
                for start in range(0, len(wanted), _BATCH):
                    part = wanted[start : start + _BATCH]
                    marks = ",".join("?" * len(part))
                    found.update(connection.execute(f"SELECT key, score FROM scores WHERE key IN ({marks})", part))
        except (sqlite3.Error, OSError) as error:
            self._set_aside_if_damaged(error)
            return [None] * len(items)
        return [found.get(key) for key in keys]

    def put(
        self,
        identity: Mapping[str, str | int | float | None],
        items: Sequence[tuple[str, ...]],
        scores: Sequence[float],
    ) -> None:
        """Keeps scores, all or none; what is not a finite number is not kept, so that it is tried again."""
        rows = [
            (key, float(score))
            for key, score in zip(_keys(identity, items), scores, strict=True)
            if math.isfinite(score)
        ]
        if not rows:
            return
        try:
            with closing(self._open()) as connection, connection:
                connection.executemany("INSERT INTO scores VALUES (?, ?) ON CONFLICT DO NOTHING", rows)
        except (sqlite3.Error, OSError) as error:
            self._set_aside_if_damaged(error)  # a cache that cannot be written to costs time, nothing else

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=30)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("CREATE TABLE IF NOT EXISTS scores (key BLOB PRIMARY KEY, score REAL) WITHOUT ROWID")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _set_aside_if_damaged(self, error: Exception) -> None:
        text = str(error).lower()
        if "not a database" in text or "malformed" in text or "no such column" in text:
            try:
                os.replace(self.path, self.path.with_name(f"{self.path.name}.damaged"))
                for suffix in ("-wal", "-shm"):
                    self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            except OSError:
                return


def _keys(identity: Mapping[str, str | int | float | None], items: Sequence[tuple[str, ...]]) -> list[bytes]:
    described = json.dumps([_SCHEMA, dict(identity)], sort_keys=True).encode()
    head = hashlib.blake2b(described, digest_size=_KEY_BYTES)
    keys = []
    for item in items:
        digest = head.copy()
        # JSON keeps the parts apart: ("ab", "c") is not ("a", "bc"). Half surrogate pairs are escaped.
        digest.update(json.dumps(item).encode())
        keys.append(digest.digest())
    return keys
