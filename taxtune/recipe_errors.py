"""Messages for what pydantic finds wrong in a recipe: the file, the line, the key, and the key that was meant."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

__all__ = ["explain"]


def explain(error: ValidationError, model: type[BaseModel], data: Any, path: Path, text: str) -> list[str]:
    """Returns one line a problem.

    Args:
        error: What pydantic found.
        model: The model that the data was checked against.
        data: The data.
        path: The file that the data came from.
        text: The file's text, in which the lines are found.
    """
    lines = []
    for problem in error.errors():
        location = _without_tags(problem["loc"], model)
        row = _row(text, location)
        where = f"{path}:{row}" if row is not None else str(path)
        key = ".".join(map(str, location))
        if problem["type"] == "extra_forbidden":
            allowed = _keys_beside(location, model, data)
            near = difflib.get_close_matches(str(location[-1]), allowed, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known keys here: {', '.join(allowed)}."
            lines.append(f"{where}: unknown key {key!r}; {hint}")
        elif problem["type"] == "missing":
            lines.append(f"{where}: the key {key!r} is missing.")
        elif problem["type"] == "union_tag_not_found":
            lines.append(f"{where}: the key '{key}.kind' is missing; one of {', '.join(_kinds(model, key))}.")
        elif problem["type"] == "union_tag_invalid":
            kinds = _kinds(model, key)
            near = difflib.get_close_matches(str(data[key]["kind"]), kinds, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(kinds)}."
            lines.append(f"{where}: unknown {key}.kind {data[key]['kind']!r}; {hint}")
        else:
            message = problem["msg"].removeprefix("Value error, ")
            message = message[0].lower() + message[1:]
            given = "" if isinstance(problem["input"], (dict, BaseModel)) else f" (got {problem['input']!r})"
            lines.append(f"{where}: {key + ': ' if key else ''}{message}{given}")
    return lines


def _members(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, UnionType, Annotated):
        return [model for argument in get_args(annotation) for model in _members(argument)]
    return []


def _kinds(model: type[BaseModel], key: str) -> list[str]:
    return [member.model_fields["kind"].default for member in _members(model.model_fields[key].annotation)]


def _without_tags(location: Sequence[Any], model: type[BaseModel]) -> list[Any]:
    # Pydantic puts the chosen member of a union after the field's name; the YAML has no such level.
    parts = list(location)
    if parts and parts[0] in model.model_fields and len(parts) > 1:
        members = _members(model.model_fields[parts[0]].annotation)
        if len(members) > 1 and parts[1] in _kinds(model, parts[0]):
            del parts[1]
    return parts


def _keys_beside(location: Sequence[Any], model: type[BaseModel], data: Any) -> list[str]:
    for part in location[:-1]:
        data = data.get(part) if isinstance(data, dict) else None
        members = _members(model.model_fields[part].annotation)
        kind = data.get("kind") if isinstance(data, dict) else None
        model = next(
            (m for m in members if "kind" in m.model_fields and m.model_fields["kind"].default == kind), members[0]
        )
    return [name for name, field in model.model_fields.items() if not field.exclude]


def _row(text: str, location: Sequence[Any]) -> int | None:
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    row = None
    for part in location:
        if not isinstance(node, yaml.MappingNode):
            return row
        for key, value in node.value:
            if key.value == str(part):
                row, node = key.start_mark.line + 1, value
                break
        else:
            return row
    return row
