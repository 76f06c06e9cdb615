"""The answer store: every answer that a model gave, kept on disk, so that no question is asked twice.

It is one SQLite file. An answer's key is a hash of everything that can change it: the model's identity, the rendered
prompt and the image's content. Answers are written a batch at a time and synced to the disk with each, so that neither
a killed process nor a power cut loses more than the batch in flight. Several processes may share a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from taxtune.errors import DataError
from taxtune.models.base import Answer, Identity, Request

__all__ = ["SCHEMA_VERSION", "AnswerStore", "answer_key"]

#: Version of what an answer's key and row mean; a change makes every stored answer a stranger.
SCHEMA_VERSION = 1

_COLUMNS = (
    "key",
    "model",
    "identity",
    "prompt_sha256",
    "prompt",
    "image_sha256",
    "answer",
    "prompt_tokens",
    "completion_tokens",
    "cost_usd",
    "seconds",
    "created",
)
_CREATE = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY NOT NULL,
    model TEXT NOT NULL,
    identity TEXT NOT NULL,
    prompt_sha256 TEXT NOT NULL,
    prompt TEXT NOT NULL,
    image_sha256 TEXT NOT NULL,
    answer TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cost_usd REAL,
    seconds REAL NOT NULL,
    created TEXT NOT NULL
) WITHOUT ROWID
"""
_INSERT = (
    f"INSERT INTO answers ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))}) ON CONFLICT DO NOTHING"
)
_WAIT_SECONDS = 60.0
_KEYS_A_QUERY = 500


def answer_key(identity: Identity, request: Request) -> str:
    """Returns the key of an answer: a SHA-256, in hexadecimal, of everything that can change it."""
    what = {
        "schema": SCHEMA_VERSION,
        "vlm": _asked(identity, request),
        "prompt": request.prompt,
        "image": request.image_sha256 or "",
    }
    return hashlib.sha256(_canonical(what).encode("ascii")).hexdigest()


def _asked(identity: Identity, request: Request) -> Identity:
    # A model that is asked with and without images must not give an answer of the one kind for one of the other.
    return identity if request.image is not None else {**identity, "asked": "text"}


class AnswerStore:
    """Answers on disk. Use it as a context manager, or `close` it.

    Args:
        path: The file; it and its folder are made where they are missing.

    Raises:
        DataError: If the file cannot be opened or written, is damaged, or is no answer store.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._made = not self.path.exists()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise self._fault(error) from error
        try:
            self._prepare()
        except (sqlite3.Error, DataError) as error:
            self._db.close()
            if self._made:  # on a full disk: an empty file is no use to anyone
                self._remove()
            if isinstance(error, DataError):
                raise
            raise self._fault(error) from error

    def _prepare(self) -> None:
        # Readers do not wait for the writer in WAL mode; FULL syncs the log at every commit.
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        version = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        columns = {str(row[1]) for row in self._db.execute("PRAGMA table_info(answers)")}
        if version > SCHEMA_VERSION or (columns and columns != set(_COLUMNS)):
            raise DataError(
                "The file is an answer store of another version of taxtune, or another program's.",
                file=self.path,
                remedy="Name another file for the answers.",
            )
        if not columns:
            self._db.execute(_CREATE)
            self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def get(self, identity: Identity, requests: Sequence[Request]) -> list[Answer | None]:
        """Returns the stored answer to each request, marked as cached, or None where there is none."""
        keys = [answer_key(identity, request) for request in requests]
        found: dict[str, Answer] = {}
        wanted = list(dict.fromkeys(keys))
        try:
            with self._lock:
                for start in range(0, len(wanted), _KEYS_A_QUERY):
                    part = wanted[start : start + _KEYS_A_QUERY]
                    rows = self._db.execute(
                        "SELECT key, answer, prompt_tokens, completion_tokens, cost_usd, seconds FROM answers "
                        f"WHERE key IN ({', '.join('?' * len(part))})",
                        part,
                    )
                    for key, text, prompt_tokens, completion_tokens, cost, seconds in rows:
                        found[key] = Answer(text, True, prompt_tokens, completion_tokens, cost, seconds)
        except sqlite3.Error as error:
            raise self._fault(error) from error
        return [found.get(key) for key in keys]

    def put(self, identity: Identity, answers: Iterable[tuple[Request, Answer]]) -> None:
        """Keeps answers, all of them or, where that fails, none; of two answers to a question the first stays."""
        created = datetime.now(UTC).isoformat(timespec="seconds")
        model = str(identity.get("model", ""))
        rows = [
            (
                answer_key(identity, request),
                model,
                _canonical(_asked(identity, request)),
                hashlib.sha256(request.prompt.encode("utf-8", "surrogatepass")).hexdigest(),
                _storable(request.prompt),
                request.image_sha256 or "",
                _storable(answer.text),
                answer.prompt_tokens,
                answer.completion_tokens,
                answer.cost_usd,
                answer.seconds,
                created,
            )
            for request, answer in answers
        ]
        if not rows:
            return
        try:
            with self._lock:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    self._db.executemany(_INSERT, rows)
                    self._db.execute("COMMIT")
                except BaseException:
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
                    raise
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def __len__(self) -> int:
        try:
            with self._lock:
                return int(self._db.execute("SELECT COUNT(*) FROM answers").fetchone()[0])
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def close(self) -> None:
        """Closes the file; the store cannot be used any more.

        A file that this store made and that never got an answer is removed, unless another process has it open.
        """
        with self._lock:
            unused = self._made and self._is_unused()
            self._db.close()
            if unused:
                self._remove()

    def _remove(self) -> None:
        for name in (self.path.name, f"{self.path.name}-wal", f"{self.path.name}-shm"):
            with contextlib.suppress(OSError):
                self.path.with_name(name).unlink()

    def _is_unused(self) -> bool:
        try:
            if self._db.execute("SELECT 1 FROM answers LIMIT 1").fetchone() is not None:
                return False
            # Leaving WAL mode takes the file to oneself; it fails at once where somebody else has it open.
            self._db.execute("PRAGMA busy_timeout = 0")
            return str(self._db.execute("PRAGMA journal_mode = DELETE").fetchone()[0]) == "delete"
        except sqlite3.Error:
            return False

    def __enter__(self) -> AnswerStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _fault(self, error: Exception) -> DataError:
        text = str(error).lower()
        if "not a database" in text or "malformed" in text or "corrupt" in text:
            return DataError(
                f"The answer store is damaged, or the file is something else: {error}.",
                file=self.path,
                remedy="Move the file away; its answers will be asked for again.",
            )
        if "full" in text:
            return DataError("The disk is full; no answer can be kept.", file=self.path, remedy="Make room on it.")
        if "disk i/o" in text:
            return DataError(
                f"No answer can be kept: {error}.",
                file=self.path,
                remedy="Is the disk full, or failing? Make room on it.",
            )
        if "readonly" in text or "read-only" in text or "unable to open" in text or isinstance(error, OSError):
            return DataError(
                f"The answer store cannot be opened for writing: {error}.",
                file=self.path,
                remedy="Name a file in a folder that you may write to.",
            )
        if "locked" in text or "busy" in text:
            return DataError(
                f"Another process has held the answer store for more than {_WAIT_SECONDS:.0f} seconds.",
                file=self.path,
                remedy="Wait for it to end, or name another file.",
            )
        return DataError(f"The answer store cannot be used: {error}.", file=self.path)


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def _storable(text: str) -> str:
    """Replaces what is no Unicode text (half of a surrogate pair), which SQLite cannot hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
