"""Prompt templates: Jinja in a sandbox, checked before anything is rendered.

A template that a language model proposed is untrusted code. Its parse tree is therefore walked
*before* anything is compiled or rendered, and only the nodes listed here pass: plain text, the
declared variables, `if`, comparisons and a few filters whose output can grow no faster than the
source. The sandbox behind that is a second wall, not the first. See docs/reference/templates.md.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jinja2
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from taxtune.data.context import MAX_ITEMS, MAX_VALUE, VARIABLES
from taxtune.errors import TemplateError
from taxtune.plugins import names_near

__all__ = ["FILTERS", "MAX_SOURCE", "Template", "squeezed"]

LISTS = ("ranks", "examples")
"""Those of `VARIABLES` that are lists."""
_TEXT_FILTERS = ("capitalize", "lower", "title", "trim", "upper")
_LIST_FILTERS = ("join", "reverse", "sort", "unique")
FILTERS = tuple(sorted((*_TEXT_FILTERS, *_LIST_FILTERS, "default", "first", "last", "length")))
"""Filters that a template may use; those that make long text of short (center, replace, ...) are left
out."""
MAX_SOURCE = 8_000
"""Longest source in characters."""
MAX_RENDERED = 16_000
"""Longest prompt in characters."""

_MAX_NODES, _MAX_DEPTH = 400, 24  # of the parse tree
_MAX_STRING, _MAX_SEPARATOR, _MAX_NUMBER = 500, 100, 1_000_000
_NO_TEXT = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]"
)  # controls and half surrogate pairs

# Nodes that need no look at themselves; their children are walked.
_PLAIN = (
    *(
        nodes.Template,
        nodes.Output,
        nodes.TemplateData,
        nodes.If,
        nodes.CondExpr,
        nodes.Compare,
        nodes.Operand,
    ),
    *(nodes.And, nodes.Or, nodes.Not, nodes.Concat, nodes.List, nodes.Tuple),
)
# Nodes that make text of their children, or hide a list in them.
_NO_LISTS = (nodes.Output, nodes.Concat, nodes.List, nodes.Tuple)
# What to write instead of nodes that are refused.
_INSTEAD = {
    nodes.For: "Join the list instead, in a text or in lines: {{ ranks | join(', ') }}, "
    "{{ ranks | join('\\n- ') }}.",
    nodes.Test: "Write a plain condition, such as {% if ranks %}.",
}

_ENVIRONMENT = ImmutableSandboxedEnvironment(
    undefined=jinja2.StrictUndefined,
    autoescape=False,
    trim_blocks=True,
    lstrip_blocks=True,
    cache_size=0,
)
_ENVIRONMENT.globals.clear()
_ENVIRONMENT.filters = {name: _ENVIRONMENT.filters[name] for name in FILTERS}


class _Names(NamedTuple):
    """The names of the variables, and those of them that are lists."""

    all: tuple[str, ...] = VARIABLES
    lists: tuple[str, ...] = LISTS

    @classmethod
    def of(cls, variables: Mapping[str, object]) -> _Names:
        own = [name for name in variables if name not in VARIABLES]
        own_lists = [name for name in own if isinstance(variables[name], list)]
        return cls(all=(*VARIABLES, *own), lists=(*LISTS, *own_lists))

    @property
    def listed(self) -> str:
        separator = " and " if len(self.lists) < 3 else ", "
        return separator.join(map(repr, self.lists))


class _Missing(jinja2.Undefined):
    """A value that an image lacks: false, empty, and neither less nor more than anything."""

    def _no(self, other: object) -> bool:
        return False

    __lt__ = __le__ = __gt__ = __ge__ = _no  # type: ignore[assignment]


@dataclass(frozen=True)
class Template:
    """A template that has been parsed and found harmless; `parse` makes it.

    Attributes:
        source: The Jinja source.
        variables: Names of the variables that it uses.
    """

    source: str
    variables: frozenset[str]
    _names: _Names = field(repr=False, compare=False)
    _compiled: jinja2.Template = field(repr=False, compare=False)

    @classmethod
    def parse(cls, source: str, variables: Mapping[str, object] | None = None) -> Template:
        """Returns the template of a source; its parse tree is judged, and nothing is rendered.

        Args:
            source: The Jinja source.
            variables: Names that it may use besides `VARIABLES`, each with a value of its kind.

        Raises:
            TemplateError: If it is unsafe or broken; the reason has the line and the construct.
        """
        if not isinstance(source, str):
            raise TemplateError("A template must be text.", value=source)
        names = _Names.of(variables or {})
        tree = _parse_tree(source, names)
        used = frozenset(name.name for name in tree.find_all(nodes.Name))
        compiled = _compile(tree)
        return cls(source=source, variables=used, _names=names, _compiled=compiled)

    @property
    def key(self) -> str:
        """The source without white space that makes no difference; equal keys mean a repeat."""
        opened = re.sub(r"(\{[{%#][-+]?)\s*", r"\1", self.source)
        return squeezed(re.sub(r"\s*([-+]?[%}#]\})", r"\1", opened))

    def render(self, values: Mapping[str, object]) -> str:
        """Returns the prompt for the values, without the white space around it.

        Args:
            values: A value for each variable that the template uses: of `VARIABLES` text, or a list
                of text for the lists; others are an image's own, texts, numbers or lists of text,
                and None if it lacks one.

        Raises:
            TemplateError: If a variable is missing, or the prompt is empty or too long.
        """
        checked = _checked_values(values, self._names)
        prompt = ""
        try:
            for part in self._compiled.generate(checked):
                prompt += part
                if len(prompt) > MAX_RENDERED:
                    raise TemplateError(
                        f"The rendered prompt is longer than {MAX_RENDERED:,} characters."
                    )
        except TemplateError:
            raise
        except jinja2.UndefinedError as error:
            message = (error.message or "a value is undefined").rstrip(".")
            raise TemplateError(
                f"The template cannot be rendered: {message}.",
                remedy="A list may be empty; write {{ ranks | last if ranks else domain }}.",
            ) from None
        except Exception as error:
            # Whatever odd expression the template holds, it is the template's fault.
            raise TemplateError(f"The template cannot be rendered: {error}.") from None
        prompt = prompt.strip()
        if not prompt:
            raise TemplateError(
                "The template gives an empty prompt.", remedy="It must ask something."
            )
        _refuse_characters(prompt, "prompt")
        return prompt

    def render_each(
        self, values: Mapping[str, object], contexts: Sequence[Mapping[str, Any]]
    ) -> tuple[list[str], list[dict[str, Any]]]:
        """Returns the prompt of each image, and the values of its own that it uses.

        Args:
            values: The values of the variables that all images share.
            contexts: The further variables of each image.

        Raises:
            TemplateError: If the template cannot be rendered for an image.
        """
        prompts: dict[str, str] = {}
        rendered = []
        used = []
        for context in contexts:
            own = {name: value for name, value in context.items() if name in self.variables}
            key = repr(own)
            if key not in prompts:
                prompts[key] = self.render({**values, **own})
            rendered.append(prompts[key])
            used.append(own)
        return rendered, used


def squeezed(text: str) -> str:
    """Returns text with single spaces, and without invisible characters."""
    visible = (char for char in text if unicodedata.category(char) != "Cf")
    return " ".join("".join(visible).split())


# -- parse trees -----------------------------------------------------------------------------------


def _walk(node: nodes.Node, names: _Names, counter: Iterator[int], depth: int = 0) -> None:
    """Refuses a parse tree with a node that is not known to be harmless."""
    if next(counter) >= _MAX_NODES:
        raise TemplateError(
            "The template has too many parts.", remedy="Write plain text with few variables."
        )
    if depth > _MAX_DEPTH:
        raise _refused(node, "it is nested too deeply", "Use less nesting.")
    _check_node(node, names)
    for child in node.iter_child_nodes():
        if isinstance(node, _NO_LISTS) and _may_be_list(child, names):
            # It would come out as Python writes it, or even as an address in memory that changes
            # from run to run.
            raise _refused(
                child, "a list cannot be printed directly", "Join it: {{ ranks | join(', ') }}."
            )
        _walk(child, names, counter, depth + 1)


def _check_node(node: nodes.Node, names: _Names) -> None:
    """Refuses a node that is not harmless whatever its children."""
    match node:
        case nodes.Name() if node.name not in names.all:
            raise _refused(
                node, f"unknown variable {node.name!r}", names_near(node.name, names.all)
            )
        case nodes.Const(value=str() as text) if len(text) > _MAX_STRING:
            raise _refused(
                node, f"a string of {len(text):,} characters is too long", "Write it as plain text."
            )
        case nodes.Const(value=int() | float() as number) if not abs(number) <= _MAX_NUMBER:
            raise _refused(node, "this number is too large")
        case nodes.Filter():
            _check_filter(node, names)
        case nodes.Getitem() if not (
            isinstance(node.arg, nodes.Slice) and _is_list(node.node, names)
        ):
            raise _refused(
                node, f"only slices of {names.listed} can be taken", "Use the filter first or last."
            )
        case nodes.Slice() if not all(map(_is_bound, (node.start, node.stop, node.step))):
            raise _refused(node, "a slice must have constant bounds")
        case nodes.Name() | nodes.Const() | nodes.Getitem() | nodes.Slice():
            pass
        case nodes.Neg() if _is_bound(node):
            pass
        case _ if not isinstance(node, _PLAIN):
            name = f" {node.attr!r}" if isinstance(node, nodes.Getattr) else ""
            what = f"the construct {type(node).__name__}{name} is not allowed"
            raise _refused(
                node,
                what,
                _INSTEAD.get(type(node), "Use plain text, variables, if and simple filters."),
            )


def _check_filter(node: nodes.Filter, names: _Names) -> None:
    name = node.name
    if name not in FILTERS:
        raise _refused(node, f"the filter {name!r} is not allowed", names_near(name, FILTERS))
    if (
        node.kwargs
        or node.dyn_args
        or node.dyn_kwargs
        or not all(isinstance(arg, nodes.Const) for arg in node.args)
    ):
        # Constant, as a separator that is itself a joined list would make the prompt grow without
        # bound.
        raise _refused(node, f"the filter {name!r} takes only constants, without keywords")
    if len(node.args) > (1 if name in ("join", "default", "trim") else 0):
        raise _refused(node, f"the filter {name!r} has too many arguments")
    if name == "join" and any(len(str(arg.as_const())) > _MAX_SEPARATOR for arg in node.args):
        raise _refused(node, f"the separator of 'join' is longer than {_MAX_SEPARATOR} characters")
    if name in _LIST_FILTERS and not _is_list(node.node, names):
        # Joining text puts the separator between its characters; done again and again, it would
        # explode.
        raise _refused(node, f"the filter {name!r} works only on {names.listed}")
    if name in _TEXT_FILTERS and _may_be_list(node.node, names):
        raise _refused(node, f"the filter {name!r} works only on text", "Join the list first.")


def _is_list(node: nodes.Node | None, names: _Names) -> bool:
    if isinstance(node, nodes.Name):
        return node.name in names.lists
    if isinstance(node, nodes.Getitem):
        return isinstance(node.arg, nodes.Slice) and _is_list(node.node, names)
    return (
        isinstance(node, nodes.Filter)
        and node.name in ("reverse", "sort", "unique")
        and _is_list(node.node, names)
    )


def _may_be_list(node: nodes.Node | None, names: _Names) -> bool:
    if isinstance(node, nodes.CondExpr):
        return _may_be_list(node.expr1, names) or _may_be_list(node.expr2, names)
    if isinstance(node, nodes.And | nodes.Or):
        return _may_be_list(node.left, names) or _may_be_list(node.right, names)
    if isinstance(node, nodes.Filter) and node.name == "default":
        return _may_be_list(node.node, names)
    return isinstance(node, nodes.List | nodes.Tuple) or _is_list(node, names)


def _is_bound(node: nodes.Node | None) -> bool:
    node = node.node if isinstance(node, nodes.Neg) else node
    return node is None or (isinstance(node, nodes.Const) and type(node.value) is int)


def _refused(node: nodes.Node, message: str, remedy: str | None = None) -> TemplateError:
    line = next((part.lineno for part in (node, *node.find_all(nodes.Node)) if part.lineno), 1)
    return TemplateError(f"Line {line}: {message[:150]}.", remedy=remedy)


# -- parsing and rendering -------------------------------------------------------------------------


def _parse_tree(source: str, names: _Names) -> nodes.Template:
    """Returns the parse tree of a source.

    Raises:
        TemplateError: If the source is unsafe or broken.
    """
    if len(source) > MAX_SOURCE:
        raise TemplateError(
            f"The template has {len(source):,} characters, more than {MAX_SOURCE:,}."
        )
    if not source.strip():
        raise TemplateError("The template is empty.", remedy="It must ask something.")
    _refuse_characters(source, "template")
    with _as_template_errors():
        tree = _ENVIRONMENT.parse(source)
        _walk(tree, names, itertools.count())
    return tree


def _compile(tree: nodes.Template) -> jinja2.Template:
    """Returns a compiled parse tree that was judged."""
    with _as_template_errors():
        code = _ENVIRONMENT.compile(tree)
    return jinja2.Template.from_code(_ENVIRONMENT, code, {})


@contextmanager
def _as_template_errors() -> Iterator[None]:
    """Turns errors of Jinja, and of Python in it, into reasons."""
    try:
        yield
    except TemplateError:
        raise
    except jinja2.TemplateSyntaxError as error:
        message = (error.message or "it cannot be parsed").rstrip(".")
        raise TemplateError(f"Syntax error in line {error.lineno}: {message}.") from None
    except RecursionError:
        raise TemplateError(
            "The template is nested too deeply.", remedy="Use less nesting."
        ) from None
    except Exception as error:  # e.g. a number with thousands of digits
        raise TemplateError(f"The template cannot be read: {error}.") from None


def _checked_values(values: Mapping[str, object], names: _Names) -> dict[str, Any]:
    """Returns the values as templates take them.

    Raises:
        TemplateError: If a value is too long or not of its variable's kind.
    """
    checked: dict[str, Any] = {}
    for name, value in values.items():
        is_own = name not in VARIABLES
        if is_own and value is None:
            checked[name] = _Missing(name=name)
        elif name in names.lists or (name not in names.all and isinstance(value, list)):
            checked[name] = _checked_list(name, value)
        else:
            checked[name] = _checked_text(name, value, is_own)
    return checked


def _checked_list(name: str, value: object) -> list[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise TemplateError(f"The variable {name!r} must be a list of text.", value=value)
    if len(value) > MAX_ITEMS or sum(map(len, value)) > MAX_VALUE:
        raise TemplateError(
            f"The variable {name!r} is too long: at most {MAX_VALUE:,} characters in {MAX_ITEMS} "
            "items."
        )
    return list(value)


def _checked_text(name: str, value: object, is_own: bool) -> str | int | float:
    is_number = is_own and isinstance(value, int | float)
    if not is_number and not isinstance(value, str):
        kind = "text or a number" if is_own else "text"
        raise TemplateError(f"The variable {name!r} must be {kind}.", value=value)
    if len(str(value)) > MAX_VALUE:
        raise TemplateError(f"The variable {name!r} is too long: at most {MAX_VALUE:,} characters.")
    return value  # type: ignore[return-value]


def _refuse_characters(text: str, what: str) -> None:
    found = _NO_TEXT.search(text)
    if found:
        raise TemplateError(
            f"The {what} holds the character U+{ord(found.group()):04X}, which is not text."
        )
