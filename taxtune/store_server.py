"""The rows of a store in a PostgreSQL database, and what is wrong with the server in words for people."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from taxtune.errors import DataError, MissingExtraError
from taxtune.progress import note
from taxtune.store_file import Layout

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["ServerTable", "is_server", "shown"]

_WAIT_SECONDS = 60.0
_KEYS_A_QUERY = 10_000
# What SQLite calls otherwise; its REAL has 8 bytes, PostgreSQL's has 4.
_TYPES = {"BLOB": "BYTEA", "REAL": "DOUBLE PRECISION", "INTEGER": "BIGINT"}
Result = TypeVar("Result")


def is_server(place: str | Path | None) -> TypeGuard[str]:
    """Tells whether a place is the address of a PostgreSQL database."""
    return isinstance(place, str) and re.match(r"postgresql(\+\w+)?://", place) is not None


def shown(url: str) -> str:
    """Returns the address of a database without its password."""
    from sqlalchemy.engine import make_url

    return make_url(url).render_as_string(hide_password=True)


class ServerTable:
    """Rows by key in a table `taxtune_NAME` of a PostgreSQL database; see `taxtune.store.Store`.

    A connection that breaks is made anew: a server may be started again between two batches, and for a minute a batch
    waits for it. A batch that is sent again because the answer to it was lost changes nothing.

    Args:
        url: The database, as SQLAlchemy writes it.
        layout: What the rows are.

    Raises:
        DataError: If the database cannot be used, or its table is another version's.
        MissingExtraError: If the driver is not installed.
    """

    def __init__(self, url: str, layout: Layout) -> None:
        self.url, self.layout = url, layout
        self._name = f"taxtune_{layout.table}"
        self._patience = 0.0  # an address that is wrong is told at once
        with self.faults():
            from sqlalchemy import create_engine

            # Values are prompts and answers, too long for the message of an error.
            self._engine = create_engine(url, pool_pre_ping=True, hide_parameters=True)
            self._run(self._make)
        self._patience = _WAIT_SECONDS

    def find(self, keys: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Returns the rows of those keys that have one, the key first."""
        columns, key = ", ".join(self.layout.columns), next(iter(self.layout.columns))
        query = f"SELECT {columns} FROM {self._name} WHERE {key} = ANY(:keys)"
        found: list[tuple[Any, ...]] = []
        for start in range(0, len(keys), _KEYS_A_QUERY):
            part = {"keys": list(keys[start : start + _KEYS_A_QUERY])}
            found += self._run(partial(_rows, query, part))
        return found

    def add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Keeps rows, all of them or none; where a key has one already, that one stays."""
        columns = list(self.layout.columns)
        statement = (
            f"INSERT INTO {self._name} ({', '.join(columns)}) "
            f"VALUES ({', '.join(f':{name}' for name in columns)}) ON CONFLICT DO NOTHING"
        )
        # In one order everywhere: two that wait for each other's rows would wait for ever.
        values = [dict(zip(columns, row, strict=True)) for row in sorted(rows, key=lambda row: row[0])]
        self._run(lambda db: _do(db, statement, values))

    def count(self) -> int:
        """Returns the number of rows."""
        return self._run(lambda db: int(_do(db, f"SELECT COUNT(*) FROM {self._name}").scalar_one()))

    def means(self, columns: Sequence[str], where: str, value: Any) -> tuple[int, tuple[float | None, ...]]:
        """Returns how many rows have a value in a column, and the mean of other columns over those that have one."""
        means = ", ".join(f"AVG({column})" for column in columns)
        query = f"SELECT COUNT(*), {means} FROM {self._name} WHERE {where} = :value"
        ((count, *found),) = self._run(partial(_rows, query, {"value": value}))
        return count, tuple(None if each is None else float(each) for each in found)

    def close(self) -> None:
        """Closes the connections."""
        self._engine.dispose()

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Makes errors for people of whatever is wrong with the server."""
        from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

        remedy = "Check that the server is running and reachable, and that user, password and database are right."
        try:
            yield
        except (ArgumentError, NoSuchModuleError) as error:
            remedy = "Write it as postgresql+psycopg://USER@HOST/DATABASE."
            raise DataError(f"SQLAlchemy cannot use the database's address: {error}.", remedy=remedy) from error
        except ImportError as error:
            raise MissingExtraError("psycopg", "postgresql", "A store in PostgreSQL") from error
        except DBAPIError as error:
            message = f"The store of {self.layout.table} in {shown(self.url)} cannot be used"
            raise DataError(f"{message}: {_said(error)}.", remedy=remedy) from error
        except (TypeError, ValueError) as error:
            message = f"The store of {self.layout.table} in {shown(self.url)} is damaged: {error}."
            raise DataError(message, remedy=f"Restore the table {self._name}, or delete the row.") from error

    def _make(self, db: Connection) -> None:
        """Makes the table where it is missing, and checks that it is one of ours."""
        if _do(db, "SELECT to_regclass(:name)", {"name": self._name}).scalar_one() is None:
            # Of several that make the same table at once, PostgreSQL refuses all but one.
            _do(db, "SELECT pg_advisory_xact_lock(hashtext(:name))", {"name": self._name})
            _do(db, re.sub(r"\b(BLOB|REAL|INTEGER)\b", lambda m: _TYPES[m[0]], self.layout.create(self._name)))
            _do(db, f"COMMENT ON TABLE {self._name} IS 'taxtune, version {self.layout.version}'")
        about = _do(db, "SELECT obj_description(to_regclass(:name))", {"name": self._name}).scalar_one()
        version = re.fullmatch(r"taxtune, version (\d+)", about or "")
        columns = set(_do(db, f"SELECT * FROM {self._name} LIMIT 0").keys())
        if version is None or int(version[1]) > self.layout.version or columns != set(self.layout.columns):
            raise DataError(
                f"The table {self._name} in {shown(self.url)} was made by another version of taxtune or by another "
                "program.",
                remedy="Choose another database.",
            )

    def _run(self, work: Callable[[Connection], Result]) -> Result:
        """Returns what work in one transaction returns; where the server is away, it is waited for."""
        from sqlalchemy.exc import OperationalError

        start, pause = time.monotonic(), 0.1
        while True:
            try:
                with self._engine.begin() as connection:
                    return work(connection)
            except OperationalError as error:
                if time.monotonic() - start + pause > self._patience:
                    raise
                if pause == 0.1:
                    note(f"{shown(self.url)} does not answer, trying again for a minute: {_said(error)}")
            time.sleep(pause)
            pause = min(2 * pause, 2.0)


def _do(db: Connection, statement: str, values: Any = None) -> Any:
    from sqlalchemy import text

    return db.execute(text(statement), values)


def _rows(query: str, values: Any, db: Connection) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in _do(db, query, values)]


def _said(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).strip().split("\n", 1)[0].rstrip(".")
