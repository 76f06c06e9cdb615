"""The Typer application that the commands register with."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from taxtune.cli.audit import audit
from taxtune.cli.calibrate import calibrate
from taxtune.cli.choose import choose
from taxtune.cli.classify import classify, serve
from taxtune.cli.evaluate import evaluate
from taxtune.cli.help import Command
from taxtune.cli.init import init
from taxtune.cli.printing import tell
from taxtune.cli.recipes import recipes
from taxtune.cli.review import mlflow, report
from taxtune.cli.score import place, score
from taxtune.cli.study import click_command, study_app
from taxtune.cli.taxonomy import taxonomy_app
from taxtune.cli.tune import compare, tune
from taxtune.progress import showing

__all__ = ["app"]

_KEPT = "run the same command again to continue: what a model has answered is not asked again."


# Sub-commands of score in all but their parameters: the modules that declare them, imported when they are used.
_SCORE_COMMANDS = {
    "score measure": "taxtune.cli.measure",
    "score diagnose": "taxtune.studies.diagnosis",
}


class _Group(TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Finds a command by one word or by two: `score measure FILE` has other options than `score FILE`."""
        pair = " ".join(args[:2])
        if pair in _SCORE_COMMANDS:
            args = [pair, *args[2:]]
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in _SCORE_COMMANDS:
            return click_command(cmd_name, _SCORE_COMMANDS[cmd_name])
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: Any) -> Any:
        """Runs a command; Ctrl-C and SIGTERM end it with one line on standard error, and exit code 130 or 143."""
        code = 130

        def terminate(*_: object) -> None:
            nonlocal code
            code = 143
            handler: Any = signal.getsignal(signal.SIGINT)
            if not callable(handler):
                # Of a job in the background it is "ignore".
                handler = signal.default_int_handler
            handler(signal.SIGINT, None)

        before = signal.signal(signal.SIGTERM, terminate)
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            if sys.stderr.isatty():
                # The terminal has written ^C where the cursor was.
                print(file=sys.stderr)
            tell(f"stopped; {getattr(stop, '__notes__', [_KEPT])[-1]}")
            raise typer.Exit(code) from None
        finally:
            signal.signal(signal.SIGTERM, before)


app = typer.Typer(
    name="taxtune",
    cls=_Group,
    help="Tune the prompts of vision-language models against a label taxonomy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
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
    from taxtune.report.terminal import Terminal

    context.with_resource(showing(Terminal()))


# In the order of the work; the parts that stand on their own come last.
_PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Tune a prompt": (init, recipes, tune, evaluate, compare, calibrate),
    "Use and review a run": (choose, classify, serve, report, mlflow, audit),
    "Taxonomies and answers": (place, score),
}
for panel, commands in _PANELS.items():
    for command in commands:
        app.command(cls=Command, rich_help_panel=panel)(command)
app.add_typer(taxonomy_app, name="taxonomy", rich_help_panel="Taxonomies and answers")
app.add_typer(study_app, name="study", rich_help_panel="Taxonomies and answers")
