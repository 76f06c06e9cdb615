"""Reading YAML: a recipe's file, and the settings of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from taxtune.errors import RecipeError
from taxtune.tables import read_text

__all__ = ["load_yaml", "parse_override", "read_mapping"]


class _Loader(yaml.SafeLoader):
    """Refuses aliases, by which a small file is a large one, and a key that stands twice."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            problem = "aliases (*name) are not read; write the value out"
            raise yaml.composer.ComposerError(None, None, problem, mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        first: dict[tuple[str, str], int] = {}
        for key in [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]:
            row = first.setdefault((key.tag, key.value), key.start_mark.line + 1)
            if row != key.start_mark.line + 1:
                problem = f"the key {key.value!r} is repeated here; it is already in line {row}"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
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
        RecipeError: If the file cannot be read, is empty, no UTF-8, no YAML or no mapping, or a key
            stands twice.
    """
    text = read_text(path, error=RecipeError, what="recipe")
    try:
        data = load_yaml(text)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        row = None if mark is None else int(mark.line) + 1
        raise RecipeError(
            f"The recipe is not valid YAML: {_problem(error)}.", file=path, row=row
        ) from None
    if not isinstance(data, dict):
        raise RecipeError(
            "The recipe must be a mapping of keys to values, such as 'name: mine'.", file=path
        )
    return data, text


def parse_override(text: str) -> tuple[str, Any]:
    """Reads KEY=VALUE; returns the dotted key and the value, which is YAML.

    Raises:
        RecipeError: If there is no key or the value is not YAML.
    """
    key, separator, value = text.partition("=")
    key = key.strip()
    if not separator or not all(key.split(".")):
        raise RecipeError(
            "A setting on the command line must be KEY=VALUE.",
            value=text,
            remedy="For example: --set iterations=10",
        )
    try:
        return key, load_yaml(value)
    except (yaml.YAMLError, RecursionError) as error:
        raise RecipeError(
            f"The value of --set {key} is not valid YAML: {_problem(error)}.",
            value=value,
            remedy=f"Put text with braces, brackets or colons in quotes of its own: --set '{key}=\"...\"'",
        ) from None


def _problem(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(getattr(error, "problem", None) or getattr(error, "reason", None) or error).rstrip(
        "."
    )
