"""`taxtune report`: the report of a run once more, or one report of several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taxtune.errors import DataError
from taxtune.options import opt

__all__ = ["report"]


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Folders of tune, compare or evaluate; several are put side by side."),
    ],
    out: Annotated[
        Path | None, opt("The file to write.", shown="report.html in the run's folder; for several runs in this one")
    ] = None,
) -> None:
    """Write the report of a run again, from its records, or one report that puts several runs side by side.

    Runs that were asked about the same held-out images are compared image by image.
    """
    from taxtune.report.combined import combine_results
    from taxtune.report.html import save_report
    from taxtune.tuning.run_folder import read_result

    if out is not None and (out.is_dir() or out.suffix.lower() not in (".html", ".htm")):
        raise DataError("A report is one HTML file.", file=out, remedy="Give a name that ends in .html.")
    if len(runs) == 1:
        typer.echo(save_report(read_result(runs[0]), out))
        return
    results = dict(zip(_names(runs), map(read_result, runs), strict=True))
    typer.echo(save_report(combine_results(results), Path("report.html") if out is None else out))


def _names(folders: list[Path]) -> list[str]:
    """The names of runs: the ends of their folders' paths, as long as it takes to tell them apart.

    Raises:
        DataError: If a run is given twice.
    """
    paths = [folder.resolve() for folder in folders]
    for i, path in enumerate(paths):
        if path in paths[:i]:
            raise DataError("The run is given twice.", file=folders[i])
    length = 1
    while len({path.parts[-length:] for path in paths}) < len(paths):
        length += 1
    return ["/".join(path.parts[-length:]) for path in paths]
