"""The shape of the code: no circle of imports, and how large each room is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parents[1]


def modules() -> dict[str, Path]:
    """The modules of taxtune, by name."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted((ROOT / "taxtune").rglob("*.py"))
    }


def imported(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import of a module, those inside functions included, those for type checking alone not."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for other in node.orelse:
                yield from imported(other)
        else:
            yield from imported(node)


def import_graph() -> nx.DiGraph:
    """An edge from each module to each module that it imports."""
    known = modules()
    graph = nx.DiGraph()
    graph.add_nodes_from(known)
    for name, path in known.items():
        for node in imported(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            else:
                parents = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
                base = parents[: len(parents) - node.level + 1] if node.level else []
                module = ".".join([*base, *([node.module] if node.module else [])])
                targets = [f"{module}.{alias.name}" for alias in node.names]
                targets = [target if target in known else module for target in targets]
            graph.add_edges_from(
                (name, target) for target in targets if target in known and target != name
            )
    return graph


def test_no_circle_of_imports() -> None:
    circles = [
        sorted(circle)
        for circle in nx.strongly_connected_components(import_graph())
        if len(circle) > 1
    ]
    assert not circles, f"Modules import each other: {circles}."
