"""Reading a recipe's YAML file, and the settings that the command line puts in place of the file's."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from taxtune.errors import RecipeError
from taxtune.tables import read_text

__all__ = ["Override", "apply_overrides", "load_yaml", "parse_override", "read_mapping"]


@dataclass(frozen=True, slots=True)
class Override:
    """A setting of the command line.

    Attributes:
        text: As it was typed, "data.tuning=40".
        key: The key's parts.
        value: The value, read as YAML.
    """

    text: str
    key: tuple[str, ...]
    value: Any


class _Loader(yaml.SafeLoader):
    """Refuses aliases, by which a small file is a large one, and a key that stands twice."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(
                None,
                None,
                "aliases (*name) are not read; write the value out",
                self.peek_event().start_mark,  # type: ignore[no-untyped-call]
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        first: dict[tuple[str, str], int] = {}
        for key in [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]:
            row = first.setdefault((key.tag, key.value), key.start_mark.line + 1)
            if row != key.start_mark.line + 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} is repeated here; it is already in line {row}", key.start_mark
                )
        return super().construct_mapping(node, deep)


def load_yaml(text: str) -> Any:
    """Parses YAML text; every file that people write or receive is read by it.

    Raises:
        yaml.YAMLError: If it is no YAML, a key stands twice, or it has aliases.
        RecursionError: If it is nested too deeply.
    """
    return yaml.load(text, Loader=_Loader)


def read_mapping(path: Path) -> tuple[dict[str, Any], str]:
    """Returns the mapping that a YAML file holds, and the file's text.

    Raises:
        RecipeError: If the file cannot be read, is empty, no UTF-8, no YAML or no mapping, or a key stands twice.
    """
    text = read_text(path, error=RecipeError, what="recipe")
    try:
        data = load_yaml(text)
    except yaml.YAMLError as error:
        raise RecipeError(
            f"The recipe is not valid YAML: {_problem(error)}.", file=path, row=_line(error, text)
        ) from None
    except RecursionError:
        raise RecipeError("The recipe is nested too deeply.", file=path) from None
    if not isinstance(data, dict):
        raise RecipeError("The recipe must be a mapping of keys to values, such as 'name: mine'.", file=path)
    return data, text


def parse_override(text: str) -> Override:
    """Reads KEY=VALUE.

    Raises:
        RecipeError: If there is no key or the value is not YAML.
    """
    key, separator, value = text.partition("=")
    parts = tuple(part.strip() for part in key.split("."))
    if not separator or not all(parts):
        raise RecipeError(
            "A setting on the command line must be KEY=VALUE.", value=text, remedy="For example: --set iterations=10"
        )
    try:
        return Override(text, parts, load_yaml(value))
    except (yaml.YAMLError, RecursionError) as error:
        problem = _problem(error) if isinstance(error, yaml.YAMLError) else "it is nested too deeply"
        raise RecipeError(
            f"The value of --set {key} is not valid YAML: {problem}.",
            value=value,
            remedy=f"Put text with braces, brackets or colons in quotes of its own: --set '{key}=\"...\"'",
        ) from None


def apply_overrides(
    data: Mapping[str, Any], overrides: Sequence[Override], kinds: Mapping[str, Mapping[str, frozenset[str]]]
) -> dict[str, Any]:
    """Returns a copy of the data with the overrides in it, the last of equals.

    Where an override changes the `kind` of a group, the file's keys that only the former kind knows go with it, so that
    `--set proposer.kind=fragments` is enough to leave a chat model and its settings.

    Args:
        data: What the file holds.
        overrides: The settings of the command line.
        kinds: For each group that has kinds, the keys that each kind knows.

    Raises:
        RecipeError: If a key leads through a value that is no group.
    """
    result = copy.deepcopy(dict(data))
    for override in overrides:
        if len(override.key) == 2 and override.key[1] == "kind":
            _leave_kind(result, override, kinds.get(override.key[0], {}))
    for override in overrides:
        *parents, last = override.key
        group = result
        for parent in parents:
            below = group.setdefault(parent, {})
            if below is None:
                below = group[parent] = {}
            if not isinstance(below, dict):
                raise RecipeError(f"--set {override.text}: {parent!r} is a value, not a group of keys.")
            group = below
        group[last] = override.value
    return result


def _leave_kind(data: dict[str, Any], override: Override, kinds: Mapping[str, frozenset[str]]) -> None:
    group = data.get(override.key[0])
    if not isinstance(group, dict):
        return
    former, chosen = group.get("kind"), override.value
    if not isinstance(former, str) or former not in kinds or not isinstance(chosen, str) or chosen not in kinds:
        return  # a kind that does not exist is told of later
    for key in kinds[former] - kinds[chosen]:
        group.pop(key, None)


def _problem(error: yaml.YAMLError) -> str:
    return str(getattr(error, "problem", None) or getattr(error, "reason", None) or error).rstrip(".")


def _line(error: yaml.YAMLError, text: str) -> int | None:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return int(mark.line) + 1
    position = getattr(error, "position", None)
    return None if position is None else text.count("\n", 0, position) + 1
