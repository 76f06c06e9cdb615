"""`taxtune report` and `taxtune mlflow`: look at a run, as a page and in MLflow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from taxtune.errors import DataError, TaxtuneError
from taxtune.options import opt

__all__ = ["mlflow", "report"]


def report(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder of tune, compare or evaluate.")
    ],
    out: Annotated[
        Path | None, opt("The file to write.", shown="report.html in the run's folder")
    ] = None,
    table: Annotated[
        Literal["latex", "csv", "markdown"] | None,
        opt("Print the table of scores for a paper and write no page."),
    ] = None,
) -> None:
    """Write the report of a run again, from its records."""
    from taxtune.report.html import save_report
    from taxtune.report.paper import write
    from taxtune.tuning.run_folder import read_result

    if table is not None:
        if out is not None:
            raise DataError(
                "A table is printed, and no page is written.", value=out, remedy="Leave --out out."
            )
        typer.echo(write(read_result(run), table), nl=False)
        return
    if out is not None and (out.is_dir() or out.suffix.lower() not in (".html", ".htm")):
        raise DataError(
            "A report is one HTML file.", file=out, remedy="Give a name that ends in .html."
        )
    typer.echo(save_report(read_result(run), out))


def mlflow(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="Folder of tune or compare, or a database of MLflow's (SQLite)."
        ),
    ],
    port: Annotated[int, opt("Port to use.", min=1, max=65535)] = 5000,
) -> None:
    """Look at a run in MLflow: start its server on this machine, until Ctrl-C.

    The run's folder may have been moved or renamed since.
    """
    from taxtune.tracking.store import DATABASE, UI_ENVIRONMENT, bring_along, page_of, record_folder
    from taxtune.tuning.history import read_note

    database = run if run.is_file() else record_folder(run) / DATABASE
    if not database.exists():
        raise TaxtuneError(
            "There is no record of MLflow's here.",
            file=database,
            remedy="Give the folder of a run with tracking.mlflow; one made with "
            "MLFLOW_TRACKING_URI is on that server.",
        )
    bring_along(database)
    arguments = [
        "--backend-store-uri",
        f"sqlite:///{database.resolve().as_posix()}",
        "--port",
        str(port),
        "--host",
        "127.0.0.1",
        # There is one reader.
        "--workers",
        "1",
    ]
    os.environ.update({**UI_ENVIRONMENT, **os.environ})
    # A database that was given may hold the runs of many.
    page = page_of(database, read_note(run, "mlflow_run")) if run.is_dir() else ""
    print(f"http://127.0.0.1:{port}{page} (in a few seconds; Ctrl-C ends it)", flush=True)
    serve = [sys.executable, "-m", "mlflow", "server", *arguments]
    with subprocess.Popen(serve) as server:
        try:
            raise typer.Exit(server.wait())
        except KeyboardInterrupt:  # how a server is meant to end
            server.terminate()
