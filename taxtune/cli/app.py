"""The Typer application that the commands register with."""

from __future__ import annotations

from typing import Annotated

import typer

from taxtune.cli.audit import audit
from taxtune.cli.diagnose import diagnose
from taxtune.cli.init import init
from taxtune.cli.interrupts import stoppable
from taxtune.cli.measure import measure
from taxtune.cli.place import place
from taxtune.cli.score import score
from taxtune.cli.studies import study_app
from taxtune.cli.taxonomy import taxonomy_app
from taxtune.cli.tune import compare, evaluate, tune
from taxtune.progress import showing
from taxtune.report.progress import Terminal

__all__ = ["app"]

app = typer.Typer(
    name="taxtune",
    help="Tune the prompts of vision-language models against a label taxonomy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        import taxtune

        typer.echo(f"taxtune {taxtune.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Tune the prompts of vision-language models against a label taxonomy."""
    context.with_resource(showing(Terminal()))


app.add_typer(taxonomy_app, name="taxonomy")
app.add_typer(study_app, name="study")
app.command()(init)
app.command()(stoppable(place))
app.command()(stoppable(audit))
app.command()(stoppable(score))
app.command()(stoppable(measure))
app.command()(stoppable(diagnose))
app.command()(tune)
app.command()(evaluate)
app.command()(compare)
