"""The rows of a store in an SQLite file, and what is wrong with the file in words for people."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taxtune.errors import DataError

__all__ = ["FileTable", "Layout"]

_PAGE = 4096  # bytes, SQLite's default
_WAIT_SECONDS = 60.0
_KEYS_A_QUERY = 500
# What SQLite says of a fault, what a person is told, and what to do.
_FAULTS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("damaged",),
        "The store of {table} is damaged, or the file is not a store: {error}.",
        "Move the file away; its {table} will then be regenerated.",
    ),
    (("full",), "The disk is full; {table} cannot be saved.", "Free some space."),
    (("disk i/o",), "Cannot save {table}: {error}.", "The disk may be full or failing. Free some space."),
    (
        ("readonly", "read-only", "unable to open"),
        "The store of {table} cannot be opened for writing: {error}.",
        "Choose a file in a folder that you can write to.",
    ),
    (
        ("locked", "busy"),
        "Another process has held the store of {table} for more than {seconds} seconds.",
        "Wait for it to finish, or choose another file.",
    ),
)
_DAMAGED = ("not a database", "malformed", "corrupt", "no such column", "has no column")


@dataclass(frozen=True, slots=True)
class Layout:
    """What the rows of a store are.

    Attributes:
        table: The table's name.
        columns: The type of each column in SQL, the key first.
        version: Version of the table; one of a later version is refused.
        precious: Whether a fault is an error; otherwise the rows are a cache, which is done without.
    """

    table: str
    columns: Mapping[str, str]
    version: int
    precious: bool

    def create(self, table: str) -> str:
        """Returns the statement that makes the table under a name."""
        body = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        return f"CREATE TABLE IF NOT EXISTS {table} ({body})"


class FileTable:
    """Rows by key in an SQLite file; see `taxtune.store.Store`.

    Args:
        path: The file.
        layout: What its rows are.

    Raises:
        DataError: If the rows are precious and the file cannot be opened.
    """

    def __init__(self, path: Path, layout: Layout) -> None:
        self.path, self.layout = path, layout
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        if layout.precious:
            self._made = not path.exists()
            with self.faults():
                self._db = self._open()

    def find(self, keys: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Returns the rows of those keys that have one, the key first; looking makes no file."""
        found: list[tuple[Any, ...]] = []
        if keys and (self._db is not None or self.path.exists()):
            columns, key = ", ".join(self.layout.columns), next(iter(self.layout.columns))
            query = f"SELECT {columns} FROM {self.layout.table} WHERE {key} IN "
            with self.connected() as db:
                for start in range(0, len(keys), _KEYS_A_QUERY):
                    part = keys[start : start + _KEYS_A_QUERY]
                    found += db.execute(f"{query}({', '.join('?' * len(part))})", part)
        return found

    def add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Keeps rows, all of them or none; where a key has one already, that one stays."""
        columns = self.layout.columns
        with self.connected() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                db.executemany(
                    f"INSERT INTO {self.layout.table} ({', '.join(columns)}) "
                    f"VALUES ({', '.join('?' * len(columns))}) ON CONFLICT DO NOTHING",
                    rows,
                )
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def count(self) -> int:
        """Returns the number of rows."""
        if self._db is None and not self.path.exists():
            return 0
        with self.connected() as db:
            return int(db.execute(f"SELECT COUNT(*) FROM {self.layout.table}").fetchone()[0])

    def means(self, columns: Sequence[str], where: str, value: Any) -> tuple[int, tuple[float | None, ...]]:
        """Returns how many rows have a value in a column, and the mean of other columns over those that have one."""
        means = ", ".join(f"AVG({column})" for column in columns)
        query = f"SELECT COUNT(*), {means} FROM {self.layout.table} WHERE {where} = ?"
        with self.connected() as db:
            count, *found = db.execute(query, (value,)).fetchone()
        return count, tuple(found)

    def close(self) -> None:
        """Closes the file, and removes it where it was made here, has no row and nobody else has it open."""
        with self._lock:
            if self._db is not None:
                unused = self._made and self._is_unused(self._db)
                self._db.close()
                if unused:
                    self._remove()

    @contextlib.contextmanager
    def faults(self) -> Iterator[None]:
        """Makes errors of whatever is wrong with the file of a precious store; a cache goes on without it."""
        try:
            yield
        except (sqlite3.Error, OSError, TypeError, ValueError) as error:
            damaged = not isinstance(error, sqlite3.Error | OSError) or any(w in str(error).lower() for w in _DAMAGED)
            if self.layout.precious:
                raise self._explained(error, damaged=damaged) from error
            if damaged:
                with contextlib.suppress(OSError):
                    os.replace(self.path, self.path.with_name(f"{self.path.name}.damaged"))
                    self._remove("-wal", "-shm")

    @contextlib.contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        """Gives the connection of a precious store, or one of their own to the calls of a cache."""
        with self._lock:
            if self._db is not None:
                yield self._db
            else:
                with contextlib.closing(self._open()) as db:
                    yield db

    def _open(self) -> sqlite3.Connection:
        layout = self.layout
        self.path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            # Readers do not wait for the writer in WAL mode; FULL syncs the log at every commit.
            _use_log(db)
            db.execute("PRAGMA synchronous = FULL")
            version = int(db.execute("PRAGMA user_version").fetchone()[0])
            columns = {str(row[1]) for row in db.execute(f"PRAGMA table_info({layout.table})")}
            if version > layout.version or (columns and columns != set(layout.columns)):
                raise _OtherFileError
            if not columns:
                db.execute(layout.create(layout.table))
                db.execute(f"PRAGMA user_version = {layout.version}")
        except BaseException as error:
            db.close()
            # On a full disk: a file without a table is no use to anyone. Where it is locked, another process makes one.
            if layout.precious and self._made and "locked" not in str(error) and self._is_blank():
                self._remove()
            raise
        return db

    def _is_blank(self) -> bool:
        """Whether the file has no more than SQLite's header, and nothing was logged."""
        log = self.path.with_name(f"{self.path.name}-wal")
        with contextlib.suppress(OSError):
            return self.path.stat().st_size <= _PAGE and not (log.exists() and log.stat().st_size)
        return False

    def _is_unused(self, db: sqlite3.Connection) -> bool:
        try:
            if db.execute(f"SELECT 1 FROM {self.layout.table} LIMIT 1").fetchone() is not None:
                return False
            # Leaving WAL mode takes the file to oneself; it fails at once where somebody else has it open.
            db.execute("PRAGMA busy_timeout = 0")
            return str(db.execute("PRAGMA journal_mode = DELETE").fetchone()[0]) == "delete"
        except sqlite3.Error:
            return False

    def _remove(self, *suffixes: str) -> None:
        for suffix in suffixes or ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                self.path.with_name(self.path.name + suffix).unlink()

    def _explained(self, error: Exception, *, damaged: bool) -> DataError:
        text = str(error).lower()
        if isinstance(error, _OtherFileError):
            message = "The file was written by another version of taxtune or by another program."
            return DataError(message, file=self.path, remedy="Choose another file.")
        if damaged:
            text = "damaged"
        elif isinstance(error, OSError):
            text = "unable to open"
        message, remedy = next(
            (said for words, *said in _FAULTS if any(word in text for word in words)),
            ("The store of {table} cannot be used: {error}.", "Move the file away, or choose another."),
        )
        values = {"table": self.layout.table, "error": error, "seconds": f"{_WAIT_SECONDS:.0f}"}
        return DataError(message.format(**values), file=self.path, remedy=remedy.format(**values))


def _use_log(db: sqlite3.Connection) -> None:
    """Puts a file into WAL mode; where several processes begin one together, SQLite refuses all but one at once."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


class _OtherFileError(ValueError):
    """The file is a database, but no store of this kind."""
