"""The parse trees that a template may have: what is not listed here is refused before anything is compiled."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from jinja2 import nodes

from taxtune.errors import TemplateError

__all__ = ["FILTERS", "LISTS", "LOOP_ATTRIBUTES", "TESTS", "VARIABLES", "check_tree"]

VARIABLES = ("question", "domain", "ranks", "examples")
"""What a template may use: `question` and `domain` are text, `ranks` (broadest first) and `examples` lists of text."""

LISTS = ("ranks", "examples")
"""Those of them that are lists."""
_TEXT_FILTERS = ("capitalize", "lower", "title", "trim", "upper")
_ANY_FILTERS = ("default", "first", "last", "length")
_LIST_FILTERS = ("join", "reverse", "sort", "unique")
FILTERS = tuple(sorted((*_TEXT_FILTERS, *_ANY_FILTERS, *_LIST_FILTERS)))
"""Filters that a template may use; those that make long text of short (center, indent, replace, ...) are left out."""
TESTS = ("defined", "even", "none", "odd")
"""Tests that a template may use after `is`."""
LOOP_ATTRIBUTES = ("first", "index", "index0", "last", "length")
"""Attributes of `loop` that a template may use; no other attribute is allowed anywhere."""

_MAX_NODES = 400
_MAX_DEPTH = 24  # of the parse tree
_MAX_LOOPS = 2  # one in the other
_MAX_STRING = 500
_MAX_SEPARATOR = 100
_MAX_NUMBER = 1_000_000

_NAMES: dict[str, str] = {
    "Add": "arithmetic (+)",
    "Assign": "{% set %}",
    "AssignBlock": "{% set %}",
    "Block": "{% block %}",
    "Call": "a call",
    "CallBlock": "{% call %}",
    "Dict": "a dictionary",
    "Div": "arithmetic (/)",
    "Extends": "{% extends %}",
    "FilterBlock": "{% filter %}",
    "FloorDiv": "arithmetic (//)",
    "FromImport": "{% from ... import %}",
    "Import": "{% import %}",
    "Include": "{% include %}",
    "Macro": "{% macro %}",
    "Mod": "arithmetic (%)",
    "Mul": "multiplication (*)",
    "NSRef": "a namespace",
    "Pow": "a power (**)",
    "Scope": "{% autoescape %}",
    "Sub": "arithmetic (-)",
    "With": "{% with %}",
}

# Nodes that need no look at themselves; their children are walked.
_PLAIN = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.If,
    nodes.CondExpr,
    nodes.Compare,
    nodes.Operand,
    nodes.And,
    nodes.Or,
    nodes.Not,
    nodes.Concat,
    nodes.List,
    nodes.Tuple,
)

# Nodes that make text of their children, or hide a list in them.
_NO_LISTS = (nodes.Output, nodes.Concat, nodes.List, nodes.Tuple)


def check_tree(tree: nodes.Template) -> None:
    """Refuses a parse tree that holds anything but plain text, variables, `if`, `for` and simple filters.

    Raises:
        TemplateError: The reason, with the line and the construct.
    """
    _Walker().walk(tree)


class _Walker:
    """Walks a parse tree and refuses every node that is not known to be harmless."""

    def __init__(self) -> None:
        self._count = 0

    def walk(self, tree: nodes.Template) -> None:
        self._visit(tree, targets=(), loops=0, depth=0)

    def _visit(self, node: nodes.Node, *, targets: tuple[str, ...], loops: int, depth: int) -> None:
        self._count += 1
        if self._count > _MAX_NODES:
            raise TemplateError("The template has too many parts.", remedy="Write plain text with few variables.")
        if depth > _MAX_DEPTH:
            raise _refused(node, "it is nested too deeply", "Use less nesting.")
        if isinstance(node, nodes.For):
            self._loop(node, targets=targets, loops=loops, depth=depth)
            return
        if isinstance(node, nodes.Getattr):
            _check_attribute(node, loops)
            return
        if isinstance(node, nodes.Name):
            _check_name(node, targets, loops)
        elif isinstance(node, nodes.Const):
            _check_constant(node)
        elif isinstance(node, nodes.Filter):
            _check_filter(node)
        elif isinstance(node, nodes.Test):
            if node.name not in TESTS:
                raise _refused(node, f"the test 'is {node.name}' is not allowed", f"Allowed: {', '.join(TESTS)}.")
            if node.args or node.kwargs or node.dyn_args or node.dyn_kwargs:
                raise _refused(node, f"the test 'is {node.name}' takes no arguments")
        elif isinstance(node, nodes.Getitem):
            _check_item(node)
        elif isinstance(node, nodes.Slice):
            for bound in (node.start, node.stop, node.step):
                if bound is not None and not _is_integer(bound):
                    raise _refused(node, "a slice must have constant bounds")
        elif isinstance(node, nodes.Neg):
            if not isinstance(node.node, nodes.Const) or not isinstance(node.node.value, int | float):
                raise _refused(node, "arithmetic (-) is not allowed")
        elif not isinstance(node, _PLAIN):
            kind = type(node).__name__
            what = _NAMES.get(kind, f"the construct {kind}")
            if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name):
                what = f"the call {node.node.name}(...)"
            elif isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
                what = f"the call .{node.node.attr}(...)"
            raise _refused(node, f"{what} is not allowed", "Use plain text, variables, if, for and simple filters.")
        for child in node.iter_child_nodes():
            if isinstance(node, _NO_LISTS) and _may_be_list(child):
                # It would come out as Python writes it, or even as an address in memory that changes from run to run.
                raise _refused(child, "a list cannot be printed directly", "Join it: {{ ranks | join(', ') }}.")
            self._visit(child, targets=targets, loops=loops, depth=depth + 1)

    def _loop(self, node: nodes.For, *, targets: tuple[str, ...], loops: int, depth: int) -> None:
        if node.recursive:
            raise _refused(node, "a recursive loop is not allowed")
        if loops >= _MAX_LOOPS:
            raise _refused(node, f"more than {_MAX_LOOPS} nested loops are not allowed")
        if not isinstance(node.target, nodes.Name):
            raise _refused(node, "a loop must have one loop variable")
        name = node.target.name
        # A loop variable that hid a list would pass text off as a list.
        if name in VARIABLES or name == "loop" or name in targets:
            raise _refused(node, f"the loop variable {name!r} hides another variable", "Give it another name.")
        if not _is_list(node.iter):
            what = ""
            if isinstance(node.iter, nodes.Call) and isinstance(node.iter.node, nodes.Name):
                what = f"; the call {node.iter.node.name}(...) is not allowed"
            raise _refused(node, f"a loop may only go over {_join(LISTS)}{what}")
        self._visit(node.iter, targets=targets, loops=loops, depth=depth + 1)
        inside = (*targets, name)
        if node.test is not None:
            self._visit(node.test, targets=inside, loops=loops, depth=depth + 1)
        for child in node.body:
            self._visit(child, targets=inside, loops=loops + 1, depth=depth + 1)
        for child in node.else_:
            self._visit(child, targets=targets, loops=loops, depth=depth + 1)


def _check_attribute(node: nodes.Getattr, loops: int) -> None:
    on_loop = isinstance(node.node, nodes.Name) and node.node.name == "loop"
    if not on_loop:
        raise _refused(node, f"the attribute access .{_short(node.attr)} is not allowed", "Variables are plain text.")
    if loops == 0:
        raise _refused(node, "'loop' is known only inside a for loop")
    if node.attr not in LOOP_ATTRIBUTES:
        allowed = ", ".join(f"loop.{name}" for name in LOOP_ATTRIBUTES)
        raise _refused(node, f"loop.{_short(node.attr)} is not allowed", f"Allowed: {allowed}.")


def _check_name(node: nodes.Name, targets: tuple[str, ...], loops: int) -> None:
    name = node.name
    if name in VARIABLES or name in targets:
        return
    if name == "loop" and loops:
        raise _refused(node, "'loop' can only be used as in loop.index")
    near = difflib.get_close_matches(name, [*VARIABLES, *targets], n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise _refused(node, f"unknown variable {_short(name)!r}", f"{hint}The variables are {', '.join(VARIABLES)}.")


def _check_constant(node: nodes.Const) -> None:
    value = node.value
    if isinstance(value, str):
        if len(value) > _MAX_STRING:
            raise _refused(node, f"a string of {len(value):,} characters is too long", "Write it as plain text.")
    elif value is not None and not (isinstance(value, int | float) and abs(value) <= _MAX_NUMBER):
        raise _refused(node, "this constant is not allowed")


def _check_filter(node: nodes.Filter) -> None:
    name = node.name
    if name not in FILTERS:
        near = difflib.get_close_matches(name, FILTERS, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise _refused(node, f"the filter {_short(name)!r} is not allowed", f"{hint}Allowed: {', '.join(FILTERS)}.")
    if node.node is None:
        raise _refused(node, "{% filter %} is not allowed")
    if node.kwargs or node.dyn_args or node.dyn_kwargs or not all(isinstance(arg, nodes.Const) for arg in node.args):
        # Constant, as a separator that is itself a joined list would make the prompt grow without bound.
        raise _refused(node, f"the filter {name!r} takes only constants, without keywords")
    if len(node.args) > (1 if name in ("join", "default", "trim") else 0):
        raise _refused(node, f"the filter {name!r} has too many arguments")
    if name == "join" and any(len(str(arg.as_const())) > _MAX_SEPARATOR for arg in node.args):
        raise _refused(node, f"the separator of 'join' is longer than {_MAX_SEPARATOR} characters")
    if name in _LIST_FILTERS and not _is_list(node.node):
        # Joining text puts the separator between its characters; done again and again, it would explode.
        raise _refused(node, f"the filter {name!r} works only on {_join(LISTS)}")
    if name in _TEXT_FILTERS and _may_be_list(node.node):
        raise _refused(node, f"the filter {name!r} works only on text", "Join the list first.")


def _check_item(node: nodes.Getitem) -> None:
    if not _is_list(node.node):
        raise _refused(node, f"only {_join(LISTS)} can be indexed")
    if not isinstance(node.arg, nodes.Slice) and not _is_integer(node.arg):
        raise _refused(node, "an index must be a constant number")


def _is_list(node: nodes.Node | None) -> bool:
    if isinstance(node, nodes.Name):
        return node.name in LISTS
    if isinstance(node, nodes.Getitem):
        return isinstance(node.arg, nodes.Slice) and _is_list(node.node)
    if isinstance(node, nodes.Filter):
        return node.name in ("reverse", "sort", "unique") and _is_list(node.node)
    return False


def _may_be_list(node: nodes.Node | None) -> bool:
    if isinstance(node, nodes.CondExpr):
        return _may_be_list(node.expr1) or _may_be_list(node.expr2)
    if isinstance(node, nodes.And | nodes.Or):
        return _may_be_list(node.left) or _may_be_list(node.right)
    if isinstance(node, nodes.Filter) and node.name == "default":
        return _may_be_list(node.node)
    return isinstance(node, nodes.List | nodes.Tuple) or _is_list(node)


def _is_integer(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Neg):
        node = node.node
    return isinstance(node, nodes.Const) and type(node.value) is int


def _refused(node: nodes.Node, message: str, remedy: str | None = None) -> TemplateError:
    line = next((part.lineno for part in (node, *node.find_all(nodes.Node)) if part.lineno), 1)
    return TemplateError(f"Line {line}: {message}.", remedy=remedy)


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


def _join(names: Iterable[str]) -> str:
    return " and ".join(f"'{name}'" for name in names)
