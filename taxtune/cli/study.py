"""`taxtune study NAME`: the papers' experiments, each command made from what its study's settings declare."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperGroup

from taxtune.atomic import check_folder
from taxtune.cli.help import Command
from taxtune.options import JsonOption, JsonRowsOption, OutOption
from taxtune.studies import STUDIES

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from taxtune.studies.settings import StudySettings

__all__ = ["click_command", "study_app", "study_command"]


class _Studies(TyperGroup):
    """Imports a study when its command is used: each needs pandas, and `taxtune --help` answers at once."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(STUDIES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in STUDIES:
            return None
        return click_command(cmd_name, f"taxtune.studies.{cmd_name}")


study_app = typer.Typer(
    name="study",
    cls=_Studies,
    help="Run the papers' experiments on your data: tables, figures, JSON.",
    no_args_is_help=True,
)


def click_command(name: str, module: str) -> Any:
    """Returns the command of a study under a name, for a group that imports it when it is used."""
    app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    app.command(name, cls=Command)(study_command(name, module))
    return typer.main.get_command(app)


def study_command(name: str, module: str) -> Callable[..., None]:
    """Returns the function of a study's command: an option for each of its settings, --out and --json.

    `run` in the module takes the settings. The docstring of `run`, up to its arguments, is the command's help.
    """
    study = importlib.import_module(module)
    kind: type[StudySettings] = get_type_hints(study.run)["settings"]

    def command(out: Path | None, as_json: bool, **given: Any) -> None:
        from taxtune.report.output import publish

        # An option that was not given is None, whatever its default is.
        settings = kind(**{name: value for name, value in given.items() if value is not None})
        if out is not None:
            check_folder(out)  # before anything long
        publish(study.run(settings), out=out, as_json=as_json)

    parameters = []
    for field_name, field in kind.ordered_fields().items():
        default = inspect.Parameter.empty if field.is_required() else field.default
        if isinstance(default, tuple | Mapping):
            default = None  # help shows no default of what repeats
        parameters.append(_parameter(field_name, _annotation(field), default))
    json_option = JsonRowsOption if kind.rows_in_json else JsonOption
    parameters.append(_parameter("out", OutOption, None))
    parameters.append(_parameter("as_json", json_option, False))
    command.__name__ = name
    command.__doc__ = re.split(r"\n\n(?:Args|Raises):", inspect.cleandoc(study.run.__doc__))[0]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _annotation(field: FieldInfo) -> Any:
    """Returns the type that Typer reads: text for enumerations and objects, a list for options that repeat."""
    from taxtune.studies.settings import bare_type, field_info

    kind = bare_type(field)
    is_optional = kind is not field.annotation
    origin = get_origin(kind)
    repeats = isinstance(origin, type) and issubclass(origin, tuple | Mapping)
    if repeats:
        kind = get_args(kind)[0]
    if kind is Any or get_origin(kind) is Literal:
        kind = str
    if repeats:
        kind = list[kind]  # type: ignore[valid-type]
    if is_optional or repeats:
        kind |= None
    return Annotated[kind, field_info(field)]
