"""What models gave, kept by content in one SQLite file, so nothing is asked or computed twice.

A key is a hash of everything that can change a value: the identity of what computes it and the item
that it is computed of. Values are written a batch at a time, all or none, and synced to the disk
with each, so that neither a killed process nor a power cut loses more than the batch in flight.
Several processes may share a store.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from taxtune.atomic import check_in_place
from taxtune.errors import DataError
from taxtune.progress import note

__all__ = ["Identity", "Store", "cache_folder", "open_to_read"]

#: Everything about what computes a value that can change it, by name.
Identity = Mapping[str, str | int | float | None]

Item = TypeVar("Item")
Value = TypeVar("Value")
Result = TypeVar("Result")

# Seconds that another process may keep a file locked.
_WAIT_SECONDS = 20.0
# Seconds after which the user is told so.
_TELL_SECONDS = 1.5
_KEYS_A_QUERY = 500
_DAMAGED = ("not a database", "malformed", "corrupt", "no such column", "has no column")


def cache_folder(folder: str | Path | None, *below: str) -> Path:
    """Returns the folder that was given, or else a folder in the user's cache.

    Args:
        folder: The folder, or None.
        below: Where in taxtune's part of the user's cache it is where None is given.
    """
    if folder is not None:
        return Path(folder)
    from platformdirs import user_cache_path

    return user_cache_path("taxtune").joinpath(*below)


def open_to_read(file: Path) -> sqlite3.Connection:
    """Opens a database without making or changing a file, whoever writes to it."""
    # Without a log beside it, nobody writes to the file, and it is read without a lock.
    has_log = file.with_name(f"{file.name}-wal").exists()
    address = f"{file.absolute().as_uri()}?mode=ro{'' if has_log else '&immutable=1'}"
    return sqlite3.connect(address, uri=True, timeout=10)


class Store(ABC, Generic[Item, Value]):
    """Values found by content.

    A subclass says how an item becomes a key, and a value a row and back. Of two values of a key
    the first stays. Every fault of the file of a precious store is an error. Any other store is a
    cache: where the file cannot be used, nothing is found and nothing is kept, and a damaged file
    is moved aside (`NAME.damaged`). No store makes a file before it has something to keep.

    Args:
        path: The file, which is made with its folder where it is missing.

    Raises:
        DataError: If the store is precious and its file cannot be used, or is another program's.
    """

    #: The table and its columns in SQL, the key first.
    table: ClassVar[str]
    columns: ClassVar[Mapping[str, str]]
    #: Version of the table; one of a later version is refused.
    version: ClassVar[int] = 0
    precious: ClassVar[bool]

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        if self.precious:
            with self._faults():
                there = next(path for path in (self.path, *self.path.parents) if path.exists())
                is_inside_file = there != self.path and not there.is_dir()
                if is_inside_file or not os.access(there, os.W_OK):
                    raise PermissionError("nothing may be written there")
                self._read(f"SELECT 1 FROM {self.table} LIMIT 1")

    @abstractmethod
    def keys(self, identity: Identity, items: Sequence[Item]) -> list[Any]:
        """Returns the key of each item."""

    @abstractmethod
    def row(self, identity: Identity, item: Item, value: Value) -> tuple[Any, ...] | None:
        """Returns the columns after the key.

        It is None for a value that is not worth keeping, so that it is tried again.
        """

    @abstractmethod
    def value(self, row: Sequence[Any]) -> Value:
        """Returns the value of the columns after the key.

        Raises:
            ValueError: If they hold none, since the file is damaged.
        """

    def get(self, identity: Identity, items: Sequence[Item]) -> list[Value | None]:
        """Returns the value of each item, or None where there is none.

        Raises:
            DataError: If the store is precious and cannot be read.
        """
        keys = self.keys(identity, items)
        distinct = list(dict.fromkeys(keys))
        columns = list(self.columns)
        query = f"SELECT {', '.join(columns)} FROM {self.table} WHERE {columns[0]} IN"
        values: dict[Any, Value] = {}
        with self._faults():
            for start in range(0, len(distinct), _KEYS_A_QUERY):
                part = distinct[start : start + _KEYS_A_QUERY]
                marks = ", ".join("?" * len(part))
                for key, *row in self._read(f"{query} ({marks})", part):
                    values[key] = self.value(row)
        return [values.get(key) for key in keys]

    def put(self, identity: Identity, values: Iterable[tuple[Item, Value]]) -> None:
        """Keeps the values of items, all of them or, where that fails, none.

        Raises:
            DataError: If the store is precious and cannot be written.
        """
        pairs = list(values)
        keys = self.keys(identity, [item for item, _ in pairs])
        rows = []
        for key, (item, value) in zip(keys, pairs, strict=True):
            row = self.row(identity, item, value)
            if row is not None:
                rows.append((key, *row))
        if not rows:
            return
        columns = ", ".join(self.columns)
        marks = ", ".join("?" * len(self.columns))
        insert = f"INSERT INTO {self.table} ({columns}) VALUES ({marks}) ON CONFLICT DO NOTHING"

        def write() -> None:
            with self._connected() as db, db:  # all or none
                db.execute("BEGIN IMMEDIATE")
                db.executemany(insert, rows)

        with self._faults():
            self._patiently(write)

    def __len__(self) -> int:
        counts: list[tuple[Any, ...]] = []
        with self._faults():
            counts = self._read(f"SELECT COUNT(*) FROM {self.table}")
        return sum(count for (count,) in counts)

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _read(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Returns the rows of a query; looking makes no file."""
        if self._db is None and not self.path.exists():
            return []

        def read() -> list[tuple[Any, ...]]:
            with self._connected() as db:
                return db.execute(query, values).fetchall()

        return self._patiently(read)

    def _patiently(self, work: Callable[[], Result]) -> Result:
        """Returns the result of `work`, which is repeated while another process locks the file."""
        start = time.monotonic()
        has_noted = False
        while True:
            try:
                return work()
            except sqlite3.OperationalError as error:
                waited = time.monotonic() - start
                if "locked" not in str(error) or waited > _WAIT_SECONDS:
                    raise
                if waited > _TELL_SECONDS and not has_noted:
                    has_noted = True
                    note(
                        f"another program has {self.path} locked; waiting for it, "
                        f"{_WAIT_SECONDS:.0f} s at most"
                    )
            time.sleep(0.01)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Gives the connection of a precious store, or one of their own to the calls of a cache."""
        with self._lock:
            if self.precious:
                self._db = self._db or self._open()
                yield self._db
            else:
                with contextlib.closing(self._open()) as db:
                    yield db

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.precious:
            check_in_place(self.path)
        # `_patiently` waits. SQLite would look ten times a second, which loses to a busy writer.
        db = sqlite3.connect(self.path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            self._make_table(db)  # first: a file of another program stays as it is
            # Readers do not wait for the writer in WAL mode; FULL syncs the log at every commit.
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
        except BaseException:
            db.close()
            raise
        return db

    def _make_table(self, db: sqlite3.Connection) -> None:
        """Makes the table, or extends that of an earlier version of taxtune.

        Raises:
            ValueError: If the file is another program's or a later version's.
        """
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        columns = {str(row[1]) for row in db.execute(f"PRAGMA table_info({self.table})")}
        missing = {name: kind for name, kind in self.columns.items() if name not in columns}
        is_other = bool(columns) and any("NOT NULL" in kind for kind in missing.values())
        tables = db.execute("SELECT name FROM sqlite_master WHERE name <> ?", [self.table])
        # SQLite makes some of its own, such as the index of the key.
        is_other |= any(not name.startswith("sqlite_") for (name,) in tables)
        if version > self.version or columns - set(self.columns) or is_other:
            raise ValueError("another program, or another version of taxtune, wrote the file")
        if not missing:
            return
        if not columns:
            body = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
            db.execute(f"CREATE TABLE IF NOT EXISTS {self.table} ({body})")
        else:
            for name, kind in missing.items():
                try:
                    db.execute(f"ALTER TABLE {self.table} ADD COLUMN {name} {kind}")
                except sqlite3.OperationalError as error:
                    if "duplicate column" not in str(error):  # another process was quicker
                        raise
        db.execute(f"PRAGMA user_version = {self.version}")

    @contextlib.contextmanager
    def _faults(self) -> Iterator[None]:
        """Raises the faults of a precious store's file as errors; a cache goes on without it."""
        try:
            yield
        except (sqlite3.Error, OSError, TypeError, ValueError) as error:
            has_damage = any(words in str(error).lower() for words in _DAMAGED)
            is_damaged = has_damage or not isinstance(error, sqlite3.Error | OSError)
            if self.precious:
                raise self._fault(error, is_damaged) from error
            if is_damaged:
                with contextlib.suppress(OSError):
                    os.replace(self.path, self.path.with_name(f"{self.path.name}.damaged"))
                    for suffix in ("-wal", "-shm"):
                        self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    def _fault(self, error: Exception, is_damaged: bool) -> DataError:
        """Returns the error of a precious store's file."""
        problem = "cannot be used"
        remedy = "Free some space, or choose a file that you can write to."
        if "locked" in str(error):
            remedy = "Close the program that has it open, and run the same command again."
        if is_damaged:
            problem = "is damaged"
            remedy = f"Move the file away; its {self.table} will then be regenerated."
        if "another program" in str(error):
            problem = "cannot be used"
            remedy = "Choose another file, or move this one away."
        message = f"The store of {self.table} {problem}: {error}."
        return DataError(message, file=self.path, remedy=remedy)
