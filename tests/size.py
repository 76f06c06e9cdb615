"""Prints how large taxtune is: tokens per room and how packed they are, modules, commands, recipe keys, words of pages.

python -m tests.size
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import networkx as nx
import typer

from taxtune.cli.app import app
from taxtune.recipe import Recipe
from tests.density import Density, density, joined
from tests.test_architecture import ROOT, import_graph, modules

#: What each folder is to have in the end.
WANTED = {
    "taxtune": "290,000 tokens, 11.0 a statement, nine in ten at most 20, no packed module, no long function",
    "tests": "290,000 tokens, 12.0 a statement",
}
#: A module of more than `SMALL` lines is packed from `PACKED` tokens a statement, a function long from `LONG` lines.
SMALL, PACKED, LONG = 40, 13.0, 80


def measured(folder: str) -> dict[Path, Density]:
    """Returns the density of each module of a folder, with its path in the folder."""
    root = ROOT / folder
    return {file.relative_to(root): density(file) for file in sorted(root.rglob("*.py"))}


def packed(modules: dict[Path, Density]) -> list[Path]:
    """Returns the modules of more than `SMALL` lines that have too many tokens a statement."""
    return [path for path, one in modules.items() if one.lines > SMALL and one.mean > PACKED]


def long_functions(modules: dict[Path, Density]) -> list[str]:
    """Returns the functions of more than `LONG` lines."""
    return [
        name for one in modules.values() for name, lines in one.functions.items() if lines > LONG
    ]


def leaf_commands(command: Any) -> list[Any]:
    children = command.list_commands(None) if hasattr(command, "list_commands") else ()
    return [
        leaf for name in children for leaf in leaf_commands(command.get_command(None, name))
    ] or [command]


def recipe_keys(
    schema: dict[str, Any], definitions: dict[str, Any], seen: frozenset[str] = frozenset()
) -> set[str]:
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


def show(name: str, parts: Iterable[Density]) -> None:
    """Prints the density of some modules together."""
    whole = joined(parts)
    print(
        f"{whole.tokens:7,d} tokens, {whole.mean:4.1f} a statement, nine in ten at most {whole.most:2d}  {name}"
    )


def main() -> None:
    """Prints the figures, one per line."""
    for folder, wanted in WANTED.items():
        found = measured(folder)
        show(folder, found.values())
        rooms: dict[str, list[Density]] = {}
        for path, one in found.items():
            rooms.setdefault(path.parts[0] if len(path.parts) > 1 else ".", []).append(one)
        for room, parts in sorted(rooms.items(), key=lambda item: -joined(item[1]).tokens):
            show(f"{folder}/{room}", parts)
        print(f"{len(packed(found)):7,d}  packed modules of {folder}")
        print(f"{len(long_functions(found)):7,d}  long functions of {folder}")
        print(f"         wanted: {wanted}\n")
    circles = [
        circle for circle in nx.strongly_connected_components(import_graph()) if len(circle) > 1
    ]
    root = typer.main.get_command(app)
    schema = Recipe.model_json_schema()
    pages = [page.read_text() for page in sorted((ROOT / "docs").rglob("*.md"))]
    written = [page for page in pages if not page.startswith("<!-- Written by")]
    figures = {
        "modules": len(modules()),
        "modules in the largest import circle (0)": max(map(len, circles), default=0),
        "commands (15)": sum(not each.hidden for each in getattr(root, "commands", {}).values()),
        "commands with sub-commands": len(leaf_commands(root)),
        "recipe keys (60)": len(recipe_keys(schema, schema.get("$defs", {}))),
        "words of documentation (35,000)": sum(len(page.split()) for page in written),
        "words of pages written by the code": sum(
            len(page.split()) for page in pages if page not in written
        ),
    }
    for name, figure in figures.items():
        print(f"{figure:7,d}  {name}")


if __name__ == "__main__":
    main()
