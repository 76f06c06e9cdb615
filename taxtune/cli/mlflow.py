"""`taxtune mlflow`: look at a run in MLflow's own pages."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from taxtune.errors import TaxtuneError

__all__ = ["mlflow"]

_HOST = "127.0.0.1"


def mlflow(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of tune or compare, or a database of MLflow's (SQLite).")
    ],
    port: Annotated[
        int | None,
        typer.Option("--port", min=1, max=65535, show_default="5000, or the next that is free", help="Port to use."),
    ] = None,
) -> None:
    """Look at a run in MLflow: start its server on this machine, until Ctrl-C.

    The run's folder may have been moved or renamed since.
    """
    from taxtune.tracking.store import UI_ENVIRONMENT, bring_along

    database = _database(run)
    bring_along(database)
    port = _free_port() if port is None else port
    sys.stdout.write(f"http://{_HOST}:{port}\n")
    sys.stdout.flush()
    os.environ.update({**UI_ENVIRONMENT, **os.environ})
    start(server_command(database, port))


def start(command: Sequence[str]) -> None:
    """Becomes another program; on Windows, which cannot, it waits for it."""
    if os.name == "nt":
        raise typer.Exit(subprocess.run(command, check=False).returncode)
    os.execv(command[0], list(command))


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
        "MLFLOW_TRACKING_URI or tracking.uri is on that server.",
    )


def _free_port(first: int = 5000) -> int:
    for port in range(first, first + 100):
        with socket.socket() as probe:
            if probe.connect_ex((_HOST, port)) != 0:
                return port
    return first
