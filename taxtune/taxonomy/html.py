"""A tree as a piece of HTML for notebooks: collapsible, escaped, and of bounded size."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from taxtune.taxonomy.tree import Taxonomy

__all__ = ["tree_html"]

_NODES = 400
_CHILDREN = 25
_OPEN = 2
_NAME = 80
_ALIASES = 3


def tree_html(tree: Taxonomy) -> str:
    """Returns a tree as nested `<details>`, its upper levels open.

    Levels are filled from the top until 400 nodes are shown, at most 25 children of each; the others are counted.
    """
    shown = {0}
    front = [0]
    while front and len(shown) < _NODES:
        front = [child for node in front for child in tree.children(node)[:_CHILDREN].tolist()][: _NODES - len(shown)]
        shown.update(front)
    size = f"{len(tree):,} nodes, {len(tree.leaves):,} leaves, height {tree.height}"
    # Every shown node comes after its parent and before its siblings to the right: a stack, no recursion.
    parts = [f'<div style="font-family:sans-serif;line-height:1.5"><div><b>Taxonomy</b> – {size}</div>']
    stack: list[int | str] = [0]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            parts.append(node)
            continue
        children = tree.children(node).tolist()
        inside = [child for child in children if child in shown]
        if not children:
            parts.append(f'<div style="margin-left:1.1em">{_name(tree, node)}</div>')
            continue
        opened = " open" if tree.depth[node] < _OPEN and inside else ""
        parts.append(
            f'<details{opened} style="margin-left:1.1em"><summary>{_name(tree, node)} '
            f'<span style="opacity:.6">({len(children):,})</span></summary>'
        )
        more = len(children) - len(inside)
        left_out = f'<div style="margin-left:1.1em;opacity:.6">… {more:,} more</div>' if more else ""
        stack += [f"{left_out}</details>", *reversed(inside)]
    return "".join((*parts, "</div>"))


def _name(tree: Taxonomy, node: int) -> str:
    label, others = _short(tree.labels[node]), tree.aliases[node]
    text = escape(label)
    if others:
        some = ", ".join(map(_short, others[:_ALIASES])) + (", …" if len(others) > _ALIASES else "")
        text += f' <span style="opacity:.6">{escape(some)}</span>'
    return text


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"
