"""Prints how large taxtune is: lines per room, modules, tests, commands, recipe keys, words of documentation.

python -m tests.size
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import networkx as nx
import typer

from taxtune.cli.app import app
from taxtune.recipe import Recipe
from tests.test_architecture import ROOT, import_graph, modules


def lines(paths: list[Path]) -> int:
    return sum(len(path.read_text().splitlines()) for path in paths)


def leaf_commands(command: Any) -> list[Any]:
    children = command.list_commands(None) if hasattr(command, "list_commands") else ()
    return [leaf for name in children for leaf in leaf_commands(command.get_command(None, name))] or [command]


def recipe_keys(schema: dict[str, Any], definitions: dict[str, Any], seen: frozenset[str] = frozenset()) -> set[str]:
    """The names of the settings of a recipe, a nested one with its path."""
    keys: set[str] = set()
    for name, value in schema.get("properties", {}).items():
        references = set(re.findall(r"'#/\$defs/(\w+)'", str(value))) - seen
        nested = {
            f"{name}.{key}"
            for reference in references
            for key in recipe_keys(definitions[reference], definitions, seen | references)
        }
        keys |= nested or {name}
    return keys


def main() -> None:
    """Prints the figures, one per line."""
    rooms: Counter[str] = Counter()
    for path in modules().values():
        parts = path.relative_to(ROOT / "taxtune").parts
        rooms[parts[0] if len(parts) > 1 else "."] += lines([path])
    for room, count in rooms.most_common():
        print(f"{count:7,d}  taxtune/{room}")
    circles = [circle for circle in nx.strongly_connected_components(import_graph()) if len(circle) > 1]
    root = typer.main.get_command(app)
    schema = Recipe.model_json_schema()
    pages = [page.read_text() for page in sorted((ROOT / "docs").rglob("*.md"))]
    written = [page for page in pages if not page.startswith("<!-- Written by")]
    figures = {
        "lines of taxtune (at most 41,000)": rooms.total(),
        "modules (230)": len(modules()),
        "lines of tests (31,000)": lines(sorted((ROOT / "tests").rglob("*.py"))),
        "modules in the largest import circle (0)": max(map(len, circles), default=0),
        "commands (15)": sum(not each.hidden for each in getattr(root, "commands", {}).values()),
        "commands with sub-commands": len(leaf_commands(root)),
        "recipe keys (60)": len(recipe_keys(schema, schema.get("$defs", {}))),
        "words of documentation (35,000)": sum(len(page.split()) for page in written),
        "words of pages written by the code": sum(len(page.split()) for page in pages if page not in written),
    }
    for name, figure in figures.items():
        print(f"{figure:7,d}  {name}")


if __name__ == "__main__":
    main()
