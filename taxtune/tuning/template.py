"""Prompt templates: Jinja in a sandbox, checked before anything is rendered.

A template that a language model proposed is untrusted code. Its parse tree is therefore walked *before* anything is
compiled or rendered, and only the nodes listed here pass: plain text, the declared variables, `if`, comparisons and a
few filters whose output can grow no faster than the source. The sandbox behind that is a second wall, not the first.
See docs/reference/templates.md.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import jinja2
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from taxtune.data.context import MAX_ITEMS, MAX_VALUE, VARIABLES
from taxtune.errors import TemplateError
from taxtune.plugins import names_near
from taxtune.tuning.leaks import find_labels

__all__ = [
    "FILTERS",
    "MAX_SOURCE",
    "check_source",
    "check_template",
    "labels_said",
    "normalise_source",
    "render",
    "render_each",
    "variables_of",
]

LISTS = ("ranks", "examples")
"""Those of `VARIABLES` that are lists."""
_TEXT_FILTERS = ("capitalize", "lower", "title", "trim", "upper")
_LIST_FILTERS = ("join", "reverse", "sort", "unique")
FILTERS = tuple(sorted((*_TEXT_FILTERS, *_LIST_FILTERS, "default", "first", "last", "length")))
"""Filters that a template may use; those that make long text of short (center, indent, replace, ...) are left out."""
MAX_SOURCE = 8_000
"""Longest source in characters."""
MAX_RENDERED = 16_000
"""Longest prompt in characters."""
SAMPLE: Mapping[str, object] = {
    "question": "What is this an image of?",
    "domain": "bird",
    "ranks": ["order", "family", "genus", "species"],
    "examples": ["bird", "songbird", "song sparrow"],
}
"""Values that `check_template` renders with where the caller gives none."""

_MAX_NODES, _MAX_DEPTH = 400, 24  # of the parse tree
_MAX_STRING, _MAX_SEPARATOR, _MAX_NUMBER = 500, 100, 1_000_000
_NO_TEXT = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]"
)  # controls and half surrogate pairs
_ALIKE = 16  # images on which two templates that give the same prompts are the same

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
    nodes.For: "Join the list instead, in a text or in lines: {{ ranks | join(', ') }}, {{ ranks | join('\\n- ') }}.",
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
        return cls(
            (*VARIABLES, *own),
            (*LISTS, *(name for name in own if isinstance(variables[name], list))),
        )

    @property
    def listed(self) -> str:
        return (
            " and ".join(map(repr, self.lists))
            if len(self.lists) < 3
            else ", ".join(map(repr, self.lists))
        )


class _Missing(jinja2.Undefined):
    """A value that an image lacks: false, empty, and neither less nor more than anything."""

    def _no(self, other: object) -> bool:
        return False

    __lt__ = __le__ = __gt__ = __ge__ = _no  # type: ignore[assignment]


def check_source(source: str, variables: Mapping[str, object] | None = None) -> None:
    """Refuses a source that is unsafe or broken, by its parse tree alone; nothing is rendered.

    Args:
        source: The Jinja source.
        variables: Names that it may use besides `VARIABLES`, each with a value of its kind.

    Raises:
        TemplateError: The reason, with the line and the construct.
    """
    if not isinstance(source, str):
        raise TemplateError("A template must be text.", value=source)
    _compile(source, _Names.of(variables or {}))


def variables_of(source: str, variables: Mapping[str, object]) -> list[str]:
    """Returns those of the variables that a source uses, in their order."""
    check_source(source, variables)
    used = {name.name for name in _ENVIRONMENT.parse(source).find_all(nodes.Name)}
    return [name for name in variables if name in used]


def check_template(
    source: str,
    *,
    earlier: Iterable[str] = (),
    forbidden_labels: Iterable[str] = (),
    samples: Sequence[Mapping[str, object]] = (),
) -> None:
    """Refuses a template that is unsafe, broken, empty, a repeat, or names the answers.

    Args:
        source: The Jinja source, from anywhere.
        earlier: Sources of earlier templates. A template that equals one of them after whitespace, or gives the same
            prompts with the samples, is a repeat.
        forbidden_labels: Labels and aliases of the tuning images' ground truth, and of the groups above it that earn
            credit (`leaks.group_names`). A label that stands in a variable's value may come into the prompt through
            that variable.
        samples: The variables that the run renders with, of each image where they differ; `SAMPLE` where left out.

    Raises:
        TemplateError: The reason in a sentence or two, fit to go back to the author.
    """
    given = samples or [SAMPLE]
    prompts = dict.fromkeys(render(source, variables) for variables in given)
    alike = tuple(
        tuple(
            (key, tuple(value) if isinstance(value, list) else value)
            for key, value in variables.items()
        )
        for variables in samples[:_ALIKE]
    )
    normal, same = _forms(source, alike)
    for other in earlier:
        other_normal, other_same = _forms(other, alike)
        if other_normal == normal or (samples and other_same == same):
            what = (
                "repeats an earlier one"
                if other_normal == normal
                else "gives the same prompt as an earlier one"
            )
            raise TemplateError(
                f"This template {what}.", remedy="Propose one that differs in wording."
            )
    labels, said = tuple(forbidden_labels), [(prompts, given)]
    if own := given[0].keys() - {*VARIABLES}:
        # Labels that come through an image's values must not excuse those that the template puts together itself.
        kinds = {list: ["-"], int: 1, float: 1}
        bare = {**given[0], **{name: kinds.get(type(given[0][name]), "-") for name in own}}
        with suppress(TemplateError):
            said.append(({render(source, bare): None}, [bare]))
    if found := [
        words
        for texts, variables in said
        for words in labels_said(source, texts, variables, labels)
    ]:
        names = ", ".join(f"'{words}'" for words in list(dict.fromkeys(found))[:3])
        raise TemplateError(
            f"The template gives away the answer: {names} is a ground-truth label of the tuning images, or a group of "
            "such labels.",
            remedy="Name no particular answer; describe how to answer instead.",
        )


def labels_said(
    source: str,
    prompts: Iterable[str],
    samples: Iterable[Mapping[str, object]],
    labels: tuple[str, ...],
) -> list[str]:
    """Returns the words of a template, or of its prompts, that name labels; those in a variable's value do not count.

    Args:
        source: The Jinja source.
        prompts: The rendered source, as a label can be put together from pieces ("mal" ~ "lard").
        samples: The variables that it is rendered with.
        labels: Labels and aliases.
    """
    if not labels:
        return []
    values = [value for variables in samples for value in variables.values()]
    given = dict.fromkeys(
        str(each) for value in values for each in (value if isinstance(value, list) else [value])
    )
    through_variables = set(find_labels(" | ".join(given), labels))
    found = find_labels(source, labels)
    said = find_labels(" | ".join(prompts), labels)
    return found + [words for words in said if words not in {*through_variables, *found}]


def render(source: str, variables: Mapping[str, object]) -> str:
    """Renders a template to a prompt, without the white space around it.

    The source is checked first, so this is safe for any source.

    Args:
        source: The Jinja source.
        variables: A value for each variable that the template uses: of `VARIABLES` text, or a list of text for the
            lists; others are an image's own, texts, numbers or lists of text, and None where it lacks one.

    Raises:
        TemplateError: The source is not acceptable, a variable is missing, or the prompt is empty or too long.
    """
    check_source(source, variables)
    values = _checked_values(variables)
    prompt = ""
    try:
        for part in _compile(source, _Names.of(variables)).generate(values):
            prompt += part
            if len(prompt) > MAX_RENDERED:
                raise TemplateError(
                    f"The rendered prompt is longer than {MAX_RENDERED:,} characters."
                )
    except TemplateError:
        raise
    except jinja2.UndefinedError as error:
        raise TemplateError(
            f"The template cannot be rendered: {(error.message or 'a value is undefined').rstrip('.')}.",
            remedy="A list may be empty; write {{ ranks | last if ranks else domain }}.",
        ) from None
    except (
        Exception
    ) as error:  # whatever odd expression the template holds, it is the template's fault
        raise TemplateError(f"The template cannot be rendered: {error}.") from None
    prompt = prompt.strip()
    if not prompt:
        raise TemplateError("The template gives an empty prompt.", remedy="It must ask something.")
    _refuse_characters(prompt, "prompt")
    return prompt


def render_each(
    source: str, variables: Mapping[str, object], contexts: Sequence[Mapping[str, Any]]
) -> tuple[list[str], list[dict[str, Any]]]:
    """Renders a template for each image, with its own variables; returns the prompts, and what they use of these."""
    names = variables_of(source, contexts[0]) if contexts else []
    used = [{name: context[name] for name in names} for context in contexts]
    prompts: dict[str, str] = {}
    for own in used:
        if (key := repr(own)) not in prompts:
            prompts[key] = render(source, {**variables, **own})
    return [prompts[repr(own)] for own in used], used


def normalise_source(source: str) -> str:
    """Returns the source with white space that makes no difference taken out; equal results mean a repeat."""
    return _squeezed(
        re.sub(r"\s*([-+]?[%}#]\})", r"\1", re.sub(r"(\{[{%#][-+]?)\s*", r"\1", source))
    )


# -- parse trees -------------------------------------------------------------------------------------------------------


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
            # It would come out as Python writes it, or even as an address in memory that changes from run to run.
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
        # Constant, as a separator that is itself a joined list would make the prompt grow without bound.
        raise _refused(node, f"the filter {name!r} takes only constants, without keywords")
    if len(node.args) > (1 if name in ("join", "default", "trim") else 0):
        raise _refused(node, f"the filter {name!r} has too many arguments")
    if name == "join" and any(len(str(arg.as_const())) > _MAX_SEPARATOR for arg in node.args):
        raise _refused(node, f"the separator of 'join' is longer than {_MAX_SEPARATOR} characters")
    if name in _LIST_FILTERS and not _is_list(node.node, names):
        # Joining text puts the separator between its characters; done again and again, it would explode.
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


# -- rendering ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _compile(source: str, names: _Names) -> jinja2.Template:
    """Returns a source that was checked, compiled; `TemplateError` where it is unsafe or broken."""
    if len(source) > MAX_SOURCE:
        raise TemplateError(
            f"The template has {len(source):,} characters, more than {MAX_SOURCE:,}."
        )
    if not source.strip():
        raise TemplateError("The template is empty.", remedy="It must ask something.")
    _refuse_characters(source, "template")
    try:
        tree = _ENVIRONMENT.parse(source)
        _walk(tree, names, itertools.count())
        code = _ENVIRONMENT.compile(tree)
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
    return jinja2.Template.from_code(_ENVIRONMENT, code, {})


def _checked_values(variables: Mapping[str, object]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in variables.items():
        own, is_list = (
            name not in VARIABLES,
            name in LISTS or (name not in VARIABLES and isinstance(value, list)),
        )
        if own and value is None:
            values[name] = _Missing(name=name)
            continue
        items = value if is_list else [value]
        kinds = str | int | float if own and not is_list else str
        if not isinstance(items, list | tuple) or not all(
            isinstance(item, kinds) for item in items
        ):
            kind = "a list of text" if is_list else "text or a number" if own else "text"
            raise TemplateError(f"The variable {name!r} must be {kind}.", value=value)
        if len(items) > MAX_ITEMS or sum(len(str(item)) for item in items) > MAX_VALUE:
            most = f"at most {MAX_VALUE:,} characters" + f" in {MAX_ITEMS} items" * is_list
            raise TemplateError(f"The variable {name!r} is too long: {most}.")
        values[name] = list(items) if is_list else value
    return values


def _squeezed(text: str) -> str:
    """Returns text with single spaces, and without invisible characters."""
    return " ".join("".join(c for c in text if unicodedata.category(c) != "Cf").split())


@lru_cache(maxsize=1 << 14)  # each template of a run is checked against all before it
def _forms(
    source: str, samples: tuple[tuple[tuple[str, object], ...], ...]
) -> tuple[str, tuple[str, ...] | None]:
    """Returns the normalised source, and the prompts, or None where it gives none; equal ones mean a repeat."""
    try:
        given = [
            {key: list(value) if isinstance(value, tuple) else value for key, value in variables}
            for variables in samples
        ]
        return normalise_source(source), tuple(
            _squeezed(render(source, variables)) for variables in given
        )
    except TemplateError:
        return normalise_source(source), None


def _refuse_characters(text: str, what: str) -> None:
    if found := _NO_TEXT.search(text):
        raise TemplateError(
            f"The {what} holds the character U+{ord(found.group()):04X}, which is not text."
        )
