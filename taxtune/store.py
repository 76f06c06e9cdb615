"""What models gave, kept by content, so nothing is asked or computed twice.

A store is one SQLite file, or a table of a PostgreSQL database that several machines share. A key is a hash of
everything that can change a value: the identity of what computes it and the item that it is computed of. Values are
written a batch at a time, all or none, and synced to the disk with each, so that neither a killed process nor a power
cut loses more than the batch in flight. Several processes may share a store.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from taxtune.errors import DataError
from taxtune.store_file import FileTable, Layout
from taxtune.store_server import ServerTable, is_server

__all__ = ["Identity", "Place", "Store", "cache_folder"]

#: Everything about what computes a value that can change it, by name.
Identity = Mapping[str, str | int | float | None]
#: A file, or a database as SQLAlchemy writes it: "postgresql+psycopg://USER@HOST/DATABASE".
Place = str | Path

Item = TypeVar("Item")
Value = TypeVar("Value")


def cache_folder(folder: Place | None, *below: str) -> Path:
    """Returns the folder that was given, or else a folder in the user's cache.

    Args:
        folder: The folder, or None.
        below: Where in taxtune's part of the user's cache it is where None is given.
    """
    if folder is not None:
        return Path(folder)
    from platformdirs import user_cache_path

    return user_cache_path("taxtune").joinpath(*below)


class Table(Protocol):
    """Rows by key, in a file or on a server. Threads and processes may share it."""

    def find(self, keys: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Returns the rows of those keys that have one, the key first."""
        ...

    def add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Keeps rows, all of them or none; where a key has one already, that one stays."""
        ...

    def count(self) -> int:
        """Returns the number of rows."""
        ...

    def means(self, columns: Sequence[str], where: str, value: Any) -> tuple[int, tuple[float | None, ...]]:
        """Returns how many rows have a value in a column, and the mean of other columns over those that have one."""
        ...

    def close(self) -> None:
        """Ends the use of it."""
        ...

    def faults(self) -> AbstractContextManager[None]:
        """Makes errors for people of whatever goes wrong in a block, or suppresses it where nothing is lost by it."""
        ...


class Store(ABC, Generic[Item, Value]):
    """Values found by content.

    A subclass says how an item becomes a key, and a value a row and back. Of two values of a key the first stays. A
    store that is precious holds what cannot be had again for free, and every fault of the file or the server is an
    error; it is a context manager, or wants to be closed. One that is not is a cache: where the file cannot be used,
    nothing is found and nothing is kept, and a file that is damaged, or another program's, is moved aside
    (`NAME.damaged`) and a new one begun. A cache makes no file before it has something to keep, and needs no closing.

    Args:
        place: The file, which is made with its folder where it is missing, or a PostgreSQL database.

    Raises:
        DataError: If the store is precious and its file cannot be opened or written, is damaged, or is another
            program's; or if the database cannot be used.
        MissingExtraError: If the database's driver is not installed.
    """

    #: The table and its columns in SQL, the key first.
    table: ClassVar[str]
    columns: ClassVar[Mapping[str, str]]
    #: Version of the table; one of a later version is refused.
    version: ClassVar[int] = 0
    precious: ClassVar[bool]

    def __init__(self, place: Place) -> None:
        self.place = place
        layout = Layout(self.table, self.columns, self.version, self.precious)
        self._table: Table
        if is_server(place):
            self._table = ServerTable(str(place), layout)
        elif "://" in str(place):
            raise DataError(
                f"The store of {self.table} can only be a file or a PostgreSQL database.",
                value=str(place).partition("://")[0] + "://…",
                remedy="Write it as postgresql+psycopg://USER@HOST/DATABASE.",
            )
        else:
            self._table = FileTable(Path(place), layout)

    # -- what a subclass says ------------------------------------------------------------------------------------------

    @abstractmethod
    def keys(self, identity: Identity, items: Sequence[Item]) -> list[Any]:
        """Returns the key of each item."""

    @abstractmethod
    def row(self, identity: Identity, item: Item, value: Value) -> tuple[Any, ...] | None:
        """Returns the columns after the key; None for a value that is not worth keeping, so that it is tried again."""

    @abstractmethod
    def value(self, row: Sequence[Any]) -> Value:
        """Returns the value of the columns after the key.

        Raises:
            ValueError: If they hold none, since the file is damaged.
        """

    # -- what everyone does --------------------------------------------------------------------------------------------

    def get(self, identity: Identity, items: Sequence[Item]) -> list[Value | None]:
        """Returns the value of each item, or None where there is none.

        Raises:
            DataError: If the store is precious and cannot be read.
        """
        keys = self.keys(identity, items)
        found: dict[Any, Value] = {}
        with self._table.faults():
            for key, *row in self._table.find(list(dict.fromkeys(keys))):
                found[key] = self.value(row)
        return [found.get(key) for key in keys]

    def put(self, identity: Identity, values: Iterable[tuple[Item, Value]]) -> None:
        """Keeps the values of items, all of them or, where that fails, none.

        Raises:
            DataError: If the store is precious and cannot be written.
        """
        pairs = list(values)
        keys = self.keys(identity, [item for item, _ in pairs])
        described = (self.row(identity, item, value) for item, value in pairs)
        rows = [(key, *row) for key, row in zip(keys, described, strict=True) if row is not None]
        if rows:
            with self._table.faults():
                self._table.add(rows)

    def __len__(self) -> int:
        count = 0
        with self._table.faults():
            count = self._table.count()
        return count  # noqa: RET504 - a cache that cannot be used suppresses the fault

    def close(self) -> None:
        """Ends the use of the file or the server; a precious store cannot be used any more.

        A file that this store made and that never got a value is removed, unless another process has it open.
        """
        self._table.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
