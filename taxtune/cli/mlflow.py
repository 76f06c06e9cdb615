"""`taxtune mlflow`: look at a run in MLflow's own pages."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from taxtune.cli.interrupts import terminable
from taxtune.errors import TaxtuneError
from taxtune.options import opt

__all__ = ["mlflow"]

_HOST = "127.0.0.1"


def mlflow(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of tune or compare, or a database of MLflow's (SQLite).")
    ],
    port: Annotated[int | None, opt("Port to use.", shown="5000, or the next that is free", min=1, max=65535)] = None,
) -> None:
    """Look at a run in MLflow: start its server on this machine, until Ctrl-C.

    Its address is printed as soon as it listens. The run's folder may have been moved or renamed since.
    """
    from taxtune.tracking.store import UI_ENVIRONMENT, bring_along

    database = _database(run)
    bring_along(database)
    port = _free_port() if port is None else port
    if _listens(port):
        raise TaxtuneError(f"Another program listens on port {port}.", remedy="Choose another one with --port.")
    os.environ.update({**UI_ENVIRONMENT, **os.environ})
    raise typer.Exit(run_server(server_command(database, port), port))


def run_server(command: Sequence[str], port: int) -> int:
    """Runs a server and prints its address when it listens on the port; returns its exit code, 0 after Ctrl-C."""
    with terminable(), subprocess.Popen(command) as server:
        try:
            while server.poll() is None and not _listens(port):
                time.sleep(0.1)
            if server.poll() is None:
                print(f"http://{_HOST}:{port}", flush=True)
            return server.wait()
        except KeyboardInterrupt:  # how a server is meant to end
            server.terminate()
            return 0


def server_command(database: Path, port: int) -> list[str]:
    """Returns the command that serves a database, with a single worker: there is one reader."""
    address = f"sqlite:///{database.resolve().as_posix()}"
    serve = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", address]
    return [*serve, "--host", _HOST, "--port", str(port), "--workers", "1"]


def _database(run: Path) -> Path:
    """Returns the database of a run, which of a comparison's run is beside the others.

    Raises:
        TaxtuneError: If there is none.
    """
    from taxtune.tracking.store import DATABASE

    for file in (run, run / DATABASE, run.parent / DATABASE):
        if file.is_file():
            return file
    raise TaxtuneError(
        "There is no record of MLflow's here.",
        file=run / DATABASE,
        remedy="Give the folder of a run that was recorded in it (tracking.mlflow). A run that was recorded with "
        "MLFLOW_TRACKING_URI is on that server.",
    )


def _free_port(first: int = 5000) -> int:
    return next((port for port in range(first, first + 100) if not _listens(port)), first)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((_HOST, port)) == 0
