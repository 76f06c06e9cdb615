"""Messages for what pydantic finds wrong in a recipe: the file, the line, the key, and the key that was meant."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from taxtune.recipe_file import Override

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

__all__ = ["explain", "members"]


def explain(
    error: ValidationError,
    model: type[BaseModel],
    data: Any,
    path: Path,
    text: str,
    overrides: Sequence[Override] = (),
) -> list[str]:
    """Returns one line a problem.

    Args:
        error: What pydantic found.
        model: The model that the data was checked against.
        data: The data.
        path: The file that the data came from.
        text: The file's text, in which the lines are found.
        overrides: The settings of the command line that are part of the data; their problems name them, not the file.
    """
    lines = []
    for problem in error.errors():
        location = _without_tags(problem["loc"], model)
        if problem["type"] == "union_tag_invalid":
            location.append("kind")
        where = _where(location, path, text, overrides)
        key = ".".join(map(str, location))
        if problem["type"] == "extra_forbidden":
            allowed = _keys_beside(location, model, data)
            near = difflib.get_close_matches(str(location[-1]), allowed, n=1, cutoff=0.5)
            meant = (_in_a_group(location, model, data) or near)[:1]
            hint = f"did you mean {meant[0]!r}?" if meant else f"known keys here: {', '.join(allowed)}."
            lines.append(f"{where}: unknown key {key!r}; {hint}")
        elif problem["type"] == "missing":
            lines.append(f"{where}: the key {key!r} is missing.")
        elif problem["type"] == "union_tag_not_found":
            lines.append(f"{where}: the key '{key}.kind' is missing; one of {', '.join(_kinds(model, key))}.")
        elif problem["type"] == "union_tag_invalid":
            kind, kinds = data[location[0]]["kind"], _kinds(model, location[0])
            near = difflib.get_close_matches(str(kind), kinds, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(kinds)}."
            lines.append(f"{where}: unknown {key} {_short(kind)}; {hint}")
        else:
            given = "" if isinstance(problem["input"], BaseModel) or not key else f" (got {_short(problem['input'])})"
            lines.append(f"{where}: {key + ': ' if key else ''}{_plain(problem)}{given}")
    return lines


def _plain(problem: ErrorDetails) -> str:
    """Returns what is wrong in the words of somebody who writes YAML, not Python."""
    context = problem.get("ctx", {})
    match problem["type"]:
        case "string_type":
            value = problem["input"]
            return "must be text" + ("; put it in quotes" if value is not None and not isinstance(value, list) else "")
        case "int_type" | "int_parsing" | "int_from_float":
            return "must be a whole number"
        case "float_type" | "float_parsing":
            return "must be a number"
        case "finite_number":
            return "must be a finite number"
        case "bool_type" | "bool_parsing":
            return "must be true or false"
        case "greater_than_equal":
            return f"must be at least {context['ge']:g}"
        case "greater_than":
            return f"must be more than {context['gt']:g}"
        case "less_than_equal":
            return f"must be at most {context['le']:g}"
        case "less_than":
            return f"must be less than {context['lt']:g}"
        case "tuple_type":
            return "must be a list, such as [order, family]"
        case "too_long":
            return f"must have at most {context['max_length']} entries"
        case "model_type" | "model_attributes_type" | "dict_type":
            return "must be a group of keys"
        case "literal_error":
            return f"must be one of {context['expected'].replace(' or ', ', ')}"
        case "invalid_key":
            return "a key must be text; put it in quotes"
        case _:
            message = problem["msg"].removeprefix("Value error, ")
            return message[0].lower() + message[1:]


def _where(location: Sequence[Any], path: Path, text: str, overrides: Sequence[Override]) -> str:
    parts = tuple(map(str, location))
    row, found = _row(text, location)
    for override in reversed(overrides):
        if parts[: len(override.key)] == override.key or (not found and override.key[: len(parts)] == parts):
            return f"--set {override.text}"
    return f"{path}:{row}" if row is not None else str(path)


def _short(value: Any, limit: int = 80) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def members(annotation: Any) -> list[type[BaseModel]]:
    """Returns the models that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, UnionType, Annotated):
        return [model for argument in get_args(annotation) for model in members(argument)]
    return []


def _kinds(model: type[BaseModel], key: str) -> list[str]:
    return [member.model_fields["kind"].default for member in members(model.model_fields[key].annotation)]


def _without_tags(location: Sequence[Any], model: type[BaseModel]) -> list[Any]:
    # Pydantic puts the chosen member of a union after the field's name; the YAML has no such level.
    parts = list(location)
    if parts and parts[0] in model.model_fields and len(parts) > 1:
        choices = members(model.model_fields[parts[0]].annotation)
        if len(choices) > 1 and parts[1] in _kinds(model, parts[0]):
            del parts[1]
    return parts


def _keys_beside(location: Sequence[Any], model: type[BaseModel], data: Any) -> list[str]:
    for part in location[:-1]:
        data = data.get(part) if isinstance(data, dict) else None
        choices = members(model.model_fields[part].annotation)
        kind = data.get("kind") if isinstance(data, dict) else None
        model = next(
            (m for m in choices if "kind" in m.model_fields and m.model_fields["kind"].default == kind), choices[0]
        )
    return [name for name, field in model.model_fields.items() if not field.exclude]


def _in_a_group(location: Sequence[Any], model: type[BaseModel], data: Any) -> list[str]:
    """Returns the keys one level down that an unknown key at the top of the recipe names: "data.tuning" of "tuning"."""
    if len(location) > 1:
        return []
    groups = [name for name, field in model.model_fields.items() if members(field.annotation)]
    return [f"{group}.{location[0]}" for group in groups if location[0] in _keys_beside((group, ""), model, data)]


def _row(text: str, location: Sequence[Any]) -> tuple[int | None, bool]:
    """Returns the line of a key, or of the nearest group above it that is there, and whether the key itself is."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    row = None
    for part in location:
        if not isinstance(node, yaml.MappingNode):
            return row, False
        for key, value in node.value:
            if key.value == str(part):
                row, node = key.start_mark.line + 1, value
                break
        else:
            return row, False
    return row, True
