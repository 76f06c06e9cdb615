"""`taxtune choose`: another template of a finished run becomes its winner."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taxtune.options import JsonOption, opt

__all__ = ["choose"]


def choose(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    iteration: Annotated[
        int, typer.Argument(metavar="ITERATION", help="The number of the template's iteration.")
    ],
    recipe: Annotated[str | None, opt("The recipe of the run.", shown="the run's own")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make another template of a run its winner, such as one of the candidates that the run ends with.

    Only the held-out images that it was not asked about yet are asked about. They were seen before the choice was made
    now, and the report says so; what the objective chose stays beside it. To take a choice back, choose that one.
    """
    from taxtune import runs
    from taxtune.cli import running
    from taxtune.progress import showing
    from taxtune.report.terminal import Terminal
    from taxtune.tuning.build import check_reachable
    from taxtune.tuning.run_folder import finished_run

    earlier = finished_run(run)
    setup = runs.setup_of(earlier, recipe=recipe)
    check_reachable(setup)
    with showing(Terminal(quiet=as_json)):
        result = runs.choose(setup, earlier, iteration, runs.recording_callbacks(setup))
    running.show_result(result, as_json=as_json)
