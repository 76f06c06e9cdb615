"""The Typer application that the commands register with."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from taxtune.cli.audit import audit
from taxtune.cli.calibrate import calibrate
from taxtune.cli.classify import classify
from taxtune.cli.init import init
from taxtune.cli.interrupts import stoppable
from taxtune.cli.measure import measure
from taxtune.cli.mlflow import mlflow
from taxtune.cli.place import place
from taxtune.cli.recipes import recipes
from taxtune.cli.report import report
from taxtune.cli.score import score
from taxtune.cli.serve import serve
from taxtune.cli.study import study_app, study_command
from taxtune.cli.taxonomy import taxonomy_app
from taxtune.cli.tune import compare, evaluate, tune
from taxtune.progress import showing

__all__ = ["app"]

app = typer.Typer(
    name="taxtune",
    help="Tune the prompts of vision-language models against a label taxonomy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


# How --help writes the types of options that have no metavar of their own; a choice is shown as its values.
_TYPES = {
    "bool": "",
    "str": "TEXT",
    "int": "N",
    "float": "NUMBER",
    "path": "PATH",
    "file": "FILE",
    "directory": "FOLDER",
}


class _PlainTypes:
    """A command whose `--help` has "--seed N" for "--seed <int range>", and no type for a flag or an argument."""

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if not hasattr(param, "display_type"):
                continue  # an older typer, which writes no such types
            if param.param_type_name == "argument":
                param.display_type = _no_type
            elif param.metavar is None:
                kind = param.display_type(ctx).strip("<>").removesuffix(" range")
                kind = kind.removeprefix("list[").removesuffix("]")
                param.metavar = _TYPES.get(kind, kind if "|" in kind else kind.upper())
        return params


def _no_type(ctx: Any) -> str:
    return ""


class _PlainCommand(_PlainTypes, TyperCommand):
    pass


class _PlainGroup(_PlainTypes, TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Finds a command by one word or by two: `score measure FILE` has other options than `score FILE`."""
        pair = " ".join(args[:2])
        return super().resolve_command(ctx, [pair, *args[2:]] if pair in self.commands else args)


def _with_plain_types(application: typer.Typer) -> None:
    """Makes every command of an application, and of those within it, write types plainly."""
    application.info.cls = _PlainGroup
    for command in application.registered_commands:
        command.cls = _PlainCommand
    for group in application.registered_groups:
        group.cls = _PlainGroup
        if group.typer_instance is not None:
            _with_plain_types(group.typer_instance)


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
    from taxtune.report.progress import Terminal

    context.with_resource(showing(Terminal()))


app.add_typer(taxonomy_app, name="taxonomy")
app.add_typer(study_app, name="study")
# In the order of the work; the parts that stand on their own come last.
app.command()(init)
app.command()(recipes)
app.command()(tune)
app.command()(evaluate)
app.command()(compare)
app.command()(stoppable(calibrate))
app.command()(stoppable(classify))
app.command()(stoppable(serve))
app.command()(stoppable(report))
app.command()(mlflow)
app.command()(stoppable(audit))
app.command()(stoppable(place))
app.command()(stoppable(score))
# Sub-commands of score in all but their parameters, see `_PlainGroup.resolve_command`.
app.command("score measure", hidden=True)(stoppable(measure))
app.command("score diagnose", hidden=True)(study_command("diagnosis"))
_with_plain_types(app)
