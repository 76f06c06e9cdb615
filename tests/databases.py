"""A PostgreSQL server of our own, where PostgreSQL is installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

__all__ = ["Server", "installed", "postgresql"]


def _found(name: str) -> str | None:
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return shutil.which(name, path=os.pathsep.join([*map(str, places), os.environ.get("PATH", "")]))


def installed() -> bool:
    """Tells whether there is a PostgreSQL server to start, and its driver."""
    return _found("initdb") is not None and find_spec("psycopg") is not None


def _program(name: str) -> str:
    found = _found(name)
    if found is None:
        pytest.skip(f"PostgreSQL is not installed ({name} is missing)")
    return found


@dataclass(frozen=True)
class Server:
    """A server that runs; `url` is that of an empty database in it, for SQLAlchemy."""

    url: str
    start: Callable[[], None]
    stop: Callable[[], None]


@contextmanager
def postgresql() -> Iterator[Server]:
    """Starts a server with an empty database; skips where PostgreSQL is not installed."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    # The server refuses to run as root, and its packages bring a user for it.
    user = "postgres" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="taxtune-pg-") as folder, socket.socket() as probe:
        if user is not None:
            shutil.chown(folder, user)
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()

        def run(*command: str) -> None:
            subprocess.run(command, check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL)

        data = f"{folder}/data"
        run(_program("initdb"), "-D", data, "-U", "taxtune", "-A", "trust", "--no-sync")
        options = f"-p {port} -h 127.0.0.1 -k {folder} -c fsync=off"
        server = _program("pg_ctl")

        def start() -> None:
            run(server, "-D", data, "-w", "-l", f"{folder}/log", "-o", options, "start")

        def stop() -> None:
            run(server, "-D", data, "-w", "-m", "immediate", "stop")

        start()
        try:
            yield Server(f"postgresql+psycopg://taxtune:unused@127.0.0.1:{port}/postgres", start, stop)
        finally:
            if Path(data, "postmaster.pid").exists():
                stop()
