"""Writes the pages of the reference that follow from the code: the keys of a recipe, the commands, and the Python API.

    python docs/code/reference.py           # write docs/reference/{recipe,commands,api}.md
    python docs/code/reference.py --check   # exit with 1 if a page differs from the code
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import taxtune

FOLDER = Path(__file__).parents[1] / "reference"
MADE = "<!-- Written by docs/code/reference.py: change the code, then run it again. -->\n"


# -- recipes -----------------------------------------------------------------------------------------------------------


def recipe_page() -> str:
    """The keys of a recipe, section by section."""
    from taxtune.recipe import Recipe

    lines = [
        MADE,
        "# Recipe keys\n",
        "A recipe is a YAML file. `taxtune init` writes one for your images, `--set KEY=VALUE` replaces a value on the "
        "command line, and an unknown key is an error that suggests the right one. Relative paths are relative to the "
        "recipe's folder, and `${NAME}` in a path is an environment variable.\n",
        *table_of(Recipe),
    ]
    for name, field in Recipe.model_fields.items():
        models = [] if field.exclude else list(models_in(field.annotation))
        lines += [f"\n## `{name}`\n"] if models else []
        for model in models:
            kind = model.model_fields.get("kind")
            if len(models) > 1 and kind is not None:
                name_of_kind = "NAME" if kind.is_required() else kind.default
                lines += [f"\n### `kind: {name_of_kind}`\n"]
            lines += [summary(model), "", *table_of(model)]
        inner = {key: list(models_in(one.annotation)) for model in models for key, one in model.model_fields.items()}
        for key, [section] in ((key, found) for key, found in inner.items() if found):
            lines += [f"\n### `{key}`\n", summary(section), "", *table_of(section)]
    return "\n".join(lines) + "\n"


def table_of(model: type[BaseModel]) -> Iterator[str]:
    described = attributes(model)
    yield "| key | type | default | meaning |"
    yield "| --- | --- | --- | --- |"
    for name, field in model.model_fields.items():
        if field.exclude:
            continue
        sections = list(models_in(field.annotation))
        kind = f"[section](#{name})" if sections else f"`{type_of(field)}`".replace("|", "\\|")
        meaning = field.description or described.get(name) or " Or: ".join(map(summary, sections))
        if not meaning and name == "kind":
            meaning = "The form of this section."
        if not meaning:
            raise SystemExit(f"{model.__name__}.{name} has no description: add it to the docstring of the class.")
        default = "*required*" if field.is_required() else "" if sections else default_of(field)
        yield f"| `{name}` | {kind} | {default} | {' '.join(meaning.split())} |".replace(" ||", " |")


def default_of(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)  # type: ignore[call-arg]
    return "–" if value is None else f"`{json.dumps(value)}`".replace("|", "\\|")


def type_of(field: FieldInfo) -> str:
    signs = {"ge": "≥ ", "gt": "> ", "le": "≤ ", "lt": "< "}
    limits = [s + f"{getattr(rule, key):g}" for rule in field.metadata for key, s in signs.items() if hasattr(rule, key)]
    return ", ".join([type_text(field.annotation), *limits])


def type_text(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_text(arguments[0])
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin in (Union, UnionType):
        return " | ".join(type_text(argument) for argument in arguments if argument is not type(None))
    if origin in (tuple, list):
        return f"list of {type_text(arguments[0])}"
    names = {"str": "text", "bool": "true or false", "int": "integer", "float": "number"}
    return names.get(annotation.__name__, annotation.__name__)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models_in(argument)


def attributes(model: type[BaseModel]) -> dict[str, str]:
    """The descriptions in the "Attributes" sections of a class and those that it inherits from."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        section = re.search(r"^Attributes:\n((?:[ ]+.*\n?|\n)+)", inspect.cleandoc(each.__doc__ or "") + "\n", re.M)
        for match in re.finditer(r"^ {4}(\w+): ((?:.*\n?(?: {8}.*\n?)*))", section[1] if section else "", re.M):
            found[match[1]] = match[2]
    return found


def summary(documented: object) -> str:
    return " ".join(inspect.cleandoc(getattr(documented, "__doc__", None) or "").split("\n\n")[0].split())


# -- commands ----------------------------------------------------------------------------------------------------------


def commands_page() -> str:
    """Every command with its arguments and options."""
    from taxtune.cli.app import app

    lines = [MADE, "# Commands\n", "`taxtune COMMAND --help` prints the same.\n"]
    for name, command in commands(typer.main.get_command(app), "taxtune"):
        text = inspect.cleandoc(command.help or "").replace("\f", "")
        lines += [f"\n## `{name}`\n", " ".join(text.split("\n\n")[0].split()), ""]
        rows = [row for parameter in command.params if (row := parameter_row(parameter))]
        lines += ["| argument or option | default | meaning |", "| --- | --- | --- |", *rows] if rows else []
    return "\n".join(lines) + "\n"


def commands(command: Any, name: str) -> Iterator[tuple[str, click.Command]]:
    children = command.list_commands(None) if hasattr(command, "list_commands") else ()
    for child in children:
        yield from commands(command.get_command(None, child), f"{name} {child}")
    if not children:
        yield name, command


def parameter_row(parameter: click.Parameter) -> str | None:
    if getattr(parameter, "hidden", False) or parameter.name == "help":
        return None
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("-"))
    names = names or f"`{getattr(parameter, 'metavar', None) or str(parameter.name).upper()}`"
    shown = getattr(parameter, "show_default", None)
    default = shown if isinstance(shown, str) else "" if parameter.default in (None, False, ()) else parameter.default
    default = "*required*" if parameter.required else f"`{default}`" if default != "" else ""
    meaning = " ".join((getattr(parameter, "help", None) or "").split())
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (names, default, meaning)) + " |"


# -- Python ------------------------------------------------------------------------------------------------------------


def api_page() -> str:
    """Every public name of `taxtune` with its signature and the first paragraph of its documentation."""
    lines = [
        MADE,
        "# Python API\n",
        "All names are imported from `taxtune` itself; `import taxtune` loads nothing heavy. `help(taxtune.tune)` prints "
        "arguments, results and errors in full.\n",
    ]
    for name in taxtune.__all__:
        value = getattr(taxtune, name)
        if name.startswith("__"):
            continue
        lines += [f"\n## `{name}`\n", summary(value)]
        if not inspect.isclass(value):
            lines += ["", "```python", signature(name, value), "```"]
    return "\n".join(lines) + "\n"


def signature(name: str, function: Any) -> str:
    parameters = []
    for parameter in inspect.signature(function).parameters.values():
        mark = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        if parameter.kind is parameter.KEYWORD_ONLY and not any(part.startswith("*") for part in parameters):
            parameters.append("*")
        parameters.append(f"{mark}{parameter.name}{default}")
    return f"{name}({', '.join(parameters)})"


# ----------------------------------------------------------------------------------------------------------------------

PAGES = {"recipe.md": recipe_page, "commands.md": commands_page, "api.md": api_page}


def main() -> int:
    """Writes the pages, or says which differ from the code."""
    stale = [name for name, page in PAGES.items() if not (FOLDER / name).exists() or (FOLDER / name).read_text() != page()]
    for name in stale:
        if "--check" in sys.argv:
            print(f"docs/reference/{name} differs from the code: run python docs/code/reference.py")
        else:
            (FOLDER / name).write_text(PAGES[name]())
    return int(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    raise SystemExit(main())
