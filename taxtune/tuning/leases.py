"""Who works on what in a tuning run: leases, kept in the database that holds the run.

A worker has a row for everything that it holds, and every few seconds it changes all its rows, as a sign of life. A
lease is taken by one statement that changes one row, or none where another worker was quicker, so that any number of
processes and machines can share a database. A worker is dead when its rows have not changed for a while, measured by
the clock of the worker that looks; clocks of different machines are never compared. On the worker's own machine nobody
waits for that: it locks a file in the run's folder, and the operating system drops that lock when the process ends,
however it ends.
"""

from __future__ import annotations

import contextlib
import platform
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Engine, Row, Table

__all__ = ["Leases", "make_table"]

_POLL_SECONDS = 0.2


@cache
def _table() -> Table:
    from sqlalchemy import Column, Integer, MetaData, String, Table

    return Table(
        "taxtune_leases",
        MetaData(),
        Column("run", String(250), primary_key=True),
        Column("name", String(100), primary_key=True),
        Column("holder", String(400), nullable=False),
        Column("beat", Integer, nullable=False),
    )


def make_table(engine: Engine) -> None:
    """Makes the table of leases in a database where it is missing."""
    _table().create(engine, checkfirst=True)


class Leases:
    """The leases of one worker on one run.

    Args:
        engine: The database, with the table of leases.
        run: The run's name in the database.
        folder: Where the workers of this machine keep their lock files; it exists.
        machine: What this machine is called; its network name where left out.
        patience: Seconds without a sign of life after which a worker of another machine counts as dead. A worker gives
            six in that time.
    """

    def __init__(
        self,
        engine: Engine,
        run: str,
        folder: Path,
        *,
        machine: str | None = None,
        patience: float = 60.0,
    ) -> None:
        self._engine, self._run, self._folder = engine, run, folder
        self.machine = platform.node() if machine is None else machine
        self._worker = uuid.uuid4().hex
        self._holder = f"{self.machine}/{self._worker}"
        self._patience = patience
        self._seen: dict[str, tuple[str, int, float]] = {}
        self._closed = threading.Event()
        self._alive = FileLock(self._file(self._worker))
        self._alive.acquire()
        self.take(self._worker)  # an idle worker is a worker, too
        threading.Thread(target=self._live, name="taxtune-heartbeat", daemon=True).start()

    def take(self, name: str) -> bool:
        """Takes a lease that nobody living holds, and returns whether it could."""
        from sqlalchemy.exc import IntegrityError

        row = self._row(name)
        if row is None:
            with contextlib.suppress(IntegrityError), self._engine.begin() as connection:  # another was quicker
                connection.execute(_table().insert().values(run=self._run, name=name, holder=self._holder, beat=0))
                return True
            return False
        # The beat is part of the condition: a worker that gives a sign of life in this moment keeps its lease.
        return not self._lives(row) and self._change(name, holder=row.holder, beat=row.beat)

    def renew(self, name: str) -> bool:
        """Returns whether this worker still holds a lease, and gives a sign of life for it."""
        return self._change(name, holder=self._holder)

    def release(self, name: str) -> None:
        """Gives up a lease."""
        with self._engine.begin() as connection:
            connection.execute(_table().delete().where(*self._where(name=name, holder=self._holder)))

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Waits for a lease, holds it for the block, and gives it up."""
        while not self.take(name):
            time.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            self.release(name)

    def others(self) -> bool:
        """Tells whether another worker lives, or may live."""
        with self._engine.connect() as connection:
            rows = connection.execute(_table().select().where(*self._where())).all()
        return any(row.holder != self._holder and self._lives(row) for row in rows)

    def close(self) -> None:
        """Gives up all leases; the database may be gone by now."""
        if self._closed.is_set():
            return  # the first time did it, and SQLite would make the database anew
        self._closed.set()
        with contextlib.suppress(Exception), self._engine.begin() as connection:
            connection.execute(_table().delete().where(*self._where(holder=self._holder)))
        self._alive.release()
        self._file(self._worker).unlink(missing_ok=True)

    def clear(self) -> None:
        """Removes every lease of the run, whoever holds it."""
        with self._engine.begin() as connection:
            connection.execute(_table().delete().where(*self._where()))

    def _live(self) -> None:
        while not self._closed.wait(self._patience / 6):
            # A database that cannot be reached for a moment is not the end: the run's own next step says what is wrong.
            with contextlib.suppress(Exception):
                self._change(holder=self._holder)

    def _change(self, name: str | None = None, **condition: str | int) -> bool:
        """Makes the rows that meet the condition this worker's, with another beat; returns whether there were any."""
        named = {} if name is None else {"name": name}
        with self._engine.begin() as connection:
            beat = _table().c.beat + 1
            change = _table().update().where(*self._where(**named, **condition)).values(holder=self._holder, beat=beat)
            return connection.execute(change).rowcount > 0

    def _where(self, **values: str | int) -> list[ColumnElement[bool]]:
        return [_table().c[key] == value for key, value in {"run": self._run, **values}.items()]

    def _row(self, name: str) -> Row[tuple[str, str, str, int]] | None:
        with self._engine.connect() as connection:
            return connection.execute(_table().select().where(*self._where(name=name))).one_or_none()

    def _lives(self, row: Row[tuple[str, str, str, int]]) -> bool:
        if row.holder == self._holder:
            return True
        machine, _, worker = row.holder.rpartition("/")
        if machine == self.machine and self._file(worker).exists():
            try:
                with FileLock(self._file(worker), timeout=0):
                    return False
            except Timeout:
                return True
        now = time.monotonic()
        holder, beat, since = self._seen.get(row.name, (row.holder, None, now))
        if (holder, beat) != (row.holder, row.beat):
            self._seen[row.name] = (row.holder, row.beat, now)
            return True
        return now - since <= self._patience

    def _file(self, worker: str) -> Path:
        return self._folder / f"worker-{worker}.lock"
