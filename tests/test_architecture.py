"""The shape of the code: no circle of imports, and rooms that import only from those above them.

Imports inside functions and those for type checking alone count as well.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parents[1]


@cache
def modules():
    """Returns the modules of taxtune, by name."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted((ROOT / "taxtune").rglob("*.py"))
    }


def imported(name, path):
    """Yields the names that a module imports, each as a module and as a name in one."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                parents = package.split(".")
                parents = parents[: len(parents) - node.level + 1]
                module = ".".join([*parents, *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                yield inner if inner in modules() else module


@cache
def import_graph():
    """Returns a graph with an edge from each module to each module that it imports."""
    known = modules()
    graph = nx.DiGraph()
    graph.add_nodes_from(known)
    for name, path in known.items():
        for target in imported(name, path):
            if target in known and target != name:
                graph.add_edge(name, target)
    return graph


def rows_of_rooms():
    """Returns the rooms of each row of the table in ARCHITECTURE.md, from the top."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.partition("\n## Rooms\n")[2].partition("\n## ")[0]
    rows = []
    for line in section.splitlines():
        if line.startswith("| `"):
            names = re.findall(r"`([^`]+)`", line.split("|")[1])
            rows.append([name.removesuffix("/").removesuffix(".py") for name in names])
    return rows


def room_of(module):
    """Returns the room of a module: the folder or the module right below `taxtune`."""
    return module.split(".")[1]


def test_every_module_is_in_one_row_and_every_room_is_there():
    listed = [room for row in rows_of_rooms() for room in row]
    assert len(listed) == len(set(listed)), "A room stands in two rows."
    assert set(listed) == {room_of(name) for name in modules() if name != "taxtune"}


def test_rooms_import_only_from_rows_above():
    rank = {}
    for number, row in enumerate(rows_of_rooms()):
        rank.update(dict.fromkeys(row, number))
    upside_down = []
    for name, target in import_graph().edges:
        # The package itself only names what is public, and nobody needs it.
        if "taxtune" in (name, target):
            continue
        if rank[room_of(target)] > rank[room_of(name)]:
            upside_down.append(f"{name} -> {target}")
    assert not upside_down, "These import from rooms below:\n" + "\n".join(sorted(upside_down))


def test_no_circle_of_imports():
    groups = nx.strongly_connected_components(import_graph())
    circles = [sorted(group) for group in groups if len(group) > 1]
    assert not circles, f"Modules import each other: {circles}."
