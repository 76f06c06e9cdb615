"""What the site makes from the code: the keys of a recipe from its model, the command line from Typer, the Python API.

MkDocs calls `on_files` before it reads the pages (`hooks` in mkdocs.yml).
"""

from __future__ import annotations

import html
import json
import subprocess
import sys
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import taxtune
from griffe import Docstring
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from pydantic import BaseModel
from pydantic.fields import FieldInfo

RECIPE_INTRO = """\
# Recipe keys

A recipe is a YAML file. `taxtune init` writes one for your images, `--set KEY=VALUE` replaces a value on the command
line, and an unknown key is an error that suggests the right one. Relative paths are relative to the recipe's folder, and
`${NAME}` in a path is an environment variable. This page is generated from the model that reads recipes
(`taxtune.recipe.Recipe`).
"""

API_INTRO = """\
# Python API

Everything on this page is imported from `taxtune` itself: `from taxtune import Mapper`. Importing `taxtune` loads nothing
heavy; each name is loaded when it is first used.
"""

# The order and the titles of the packages on the page about the API; others follow in alphabetical order.
API_TITLES = {
    "api": "Tuning and scoring",
    "tuning": "Tuning",
    "taxonomy": "Taxonomies",
    "mapping": "Placing answers",
    "metrics": "Scores",
    "models": "Models",
    "recipe": "Recipes",
    "errors": "Errors",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages to the site's files."""
    files.append(File.generated(config, "reference/api.md", content=api_page()))
    files.append(File.generated(config, "reference/recipe.md", content=recipe_page()))
    files.append(File.generated(config, "reference/cli.md", content=command_line_page()))
    return files


def api_page() -> str:
    """Returns the page about every public name of `taxtune`, by the package that it is from."""
    by_package: dict[str, list[str]] = {}
    for name in taxtune.__all__:
        if not name.startswith("__"):
            package = (getattr(getattr(taxtune, name), "__module__", "") + ".").split(".")[1]
            by_package.setdefault(package, []).append(name)
    by_package.get("api", []).sort(key=lambda name: name != "tune")
    order = [*API_TITLES, *sorted(set(by_package) - set(API_TITLES))]
    lines = [API_INTRO]
    for package in order:
        if names := by_package.get(package):
            lines += [f"## {API_TITLES.get(package, package.capitalize())}\n"]
            lines += [f"::: taxtune.{name}\n" for name in names]
    return "\n".join(lines)


def command_line_page() -> str:
    """Returns the page about all commands and options, as `typer ... utils docs` writes it."""
    command = [sys.executable, "-m", "typer", "taxtune.cli.app", "utils", "docs", "--name", "taxtune"]
    text = subprocess.run([*command, "--title", "Command line"], check=True, capture_output=True, text=True).stdout
    return html.unescape(text)


def recipe_page() -> str:
    """Returns the page about all keys of a recipe, section by section."""
    from taxtune.recipe import Recipe

    lines = [RECIPE_INTRO, "## The recipe itself\n", *_table(Recipe)]
    for name, field in Recipe.model_fields.items():
        models = list(_models(field.annotation))
        if not models or field.exclude:
            continue
        lines += [f"\n## `{name}`\n"]
        for model in models:
            kind = model.model_fields.get("kind")
            if len(models) > 1 and kind is not None:
                lines += [f"### `kind: {kind.default}`\n"]
            lines += [_summary(model), "", *_table(model), ""]
    return "\n".join(lines)


def _table(model: type[BaseModel]) -> Iterator[str]:
    described = _attributes(model)
    yield "| key | type | default | meaning |"
    yield "| --- | --- | --- | --- |"
    for name, field in model.model_fields.items():
        if field.exclude:
            continue
        if sections := list(_models(field.annotation)):
            kind, default = f"[section](#{name})", "*required*" if field.is_required() else ""
            described.setdefault(name, " Or: ".join(_summary(section) for section in sections))
        else:
            kind, default = f"`{_type(field)}`".replace("|", "\\|"), _default(field)
        if name == "kind" and name not in described and field.description is None:
            described[name] = "Which form of the section this is."
        meaning = " ".join((field.description or described.get(name, "")).split()).replace("|", "\\|")
        if not meaning:
            raise PluginError(f"{model.__name__}.{name} says nothing about itself: add it to the class's docstring")
        yield f"| `{name}` | {kind} | {default} | {meaning} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "*required*"
    value = field.get_default(call_default_factory=True)
    return "–" if value is None else f"`{json.dumps(value)}`".replace("|", "\\|")


def _type(field: FieldInfo) -> str:
    text = _type_text(field.annotation)
    bounds = {"ge": "≥ ", "gt": "> ", "le": "≤ ", "lt": "< "}
    limits = [sign + f"{getattr(rule, key):g}" for rule in field.metadata for key, sign in bounds.items() if hasattr(rule, key)]
    return ", ".join([text, *limits])


def _type_text(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type_text(arguments[0])
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin in (Union, UnionType):
        return " | ".join(_type_text(each) for each in arguments if each is not type(None))
    if origin in (tuple, list):
        return f"list of {_type_text(arguments[0])}"
    return {"str": "text", "bool": "true or false", "int": "integer", "float": "number"}.get(
        annotation.__name__, annotation.__name__
    )


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _attributes(model: type[BaseModel]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        for section in Docstring(each.__doc__ or "", lineno=1).parse("google", warnings=False):
            if section.kind.value == "attributes":
                found |= {item.name: item.description for item in section.value}
    return found


def _summary(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").split("\n\n")[0].strip()
