"""`taxtune mlflow`: look at a run in MLflow's own pages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from taxtune.errors import TaxtuneError
from taxtune.options import opt

__all__ = ["mlflow"]


def mlflow(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of tune or compare, or a database of MLflow's (SQLite).")
    ],
    port: Annotated[int, opt("Port to use.", min=1, max=65535)] = 5000,
) -> None:
    """Look at a run in MLflow: start its server on this machine, until Ctrl-C.

    The run's folder may have been moved or renamed since.
    """
    from taxtune.tracking.store import DATABASE, UI_ENVIRONMENT, bring_along

    # A comparison's run has its record beside the others'.
    database = next((file for file in (run, run / DATABASE, run.parent / DATABASE) if file.is_file()), None)
    if database is None:
        remedy = "Give the folder of a run with tracking.mlflow; one made with MLFLOW_TRACKING_URI is on that server."
        raise TaxtuneError("There is no record of MLflow's here.", file=run / DATABASE, remedy=remedy)
    bring_along(database)
    address = f"sqlite:///{database.resolve().as_posix()}"
    serve = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", address, "--port", str(port)]
    os.environ.update({**UI_ENVIRONMENT, **os.environ})
    print(f"http://127.0.0.1:{port} (in a few seconds; Ctrl-C ends it)", flush=True)
    # With a single worker: there is one reader.
    with subprocess.Popen([*serve, "--host", "127.0.0.1", "--workers", "1"]) as server:
        try:
            raise typer.Exit(server.wait())
        except KeyboardInterrupt:  # how a server is meant to end
            server.terminate()
