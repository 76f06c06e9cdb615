"""`taxtune report`: the report of a run once more."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taxtune.errors import DataError
from taxtune.options import opt

__all__ = ["report"]


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of tune, compare or evaluate.")],
    out: Annotated[Path | None, opt("The file to write.", shown="report.html in the run's folder")] = None,
) -> None:
    """Write the report of a run again, from its records."""
    from taxtune.report.html import save_report
    from taxtune.tuning.run_folder import read_result

    if out is not None and (out.is_dir() or out.suffix.lower() not in (".html", ".htm")):
        raise DataError("A report is one HTML file.", file=out, remedy="Give a name that ends in .html.")
    typer.echo(save_report(read_result(run), out))
