"""Prompt templates: Jinja in a sandbox, checked before anything is rendered.

A template that a language model proposed is untrusted code. Its parse tree is therefore walked *before* anything is
compiled or rendered, and only what is listed here passes: plain text, the declared variables, `if`, `for` over the
declared lists, comparisons and a few filters whose output can grow no faster than the source. The sandbox behind that
is a second wall, not the first. What a template may do is told in docs/reference/templates.md.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from taxtune.errors import TemplateError
from taxtune.tuning.leaks import find_labels
from taxtune.tuning.template_tree import FILTERS, LISTS, LOOP_ATTRIBUTES, TESTS, VARIABLES, check_tree

__all__ = [
    "FILTERS",
    "LOOP_ATTRIBUTES",
    "MAX_RENDERED",
    "MAX_SOURCE",
    "SAMPLE",
    "TESTS",
    "VARIABLES",
    "check_source",
    "check_template",
    "labels_said",
    "normalise_source",
    "render",
]

SAMPLE: Mapping[str, object] = {
    "question": "What is this an image of?",
    "domain": "bird",
    "ranks": ["order", "family", "genus", "species"],
    "examples": ["bird", "songbird", "song sparrow"],
}
"""Values that `check_template` renders with where the caller gives none."""

MAX_SOURCE = 8_000
"""Longest source in characters."""
MAX_RENDERED = 16_000
"""Longest prompt in characters."""

_MAX_VALUE = 2_000  # characters of a variable's value
_MAX_ITEMS = 32  # of a list variable
_MAX_WORK = 2_000_000  # characters that go through filters in one rendering

_work: ContextVar[list[int] | None] = ContextVar("work", default=None)
_empty_joins: ContextVar[list[int]] = ContextVar("empty_joins")


def check_source(source: str) -> None:
    """Refuses a source that is unsafe or broken, by its parse tree alone; nothing is rendered.

    Raises:
        TemplateError: The reason, with the line and the construct.
    """
    _compiled(source)


def check_template(
    source: str,
    *,
    earlier: Iterable[str] = (),
    forbidden_labels: Iterable[str] = (),
    sample: Mapping[str, object] | None = None,
) -> None:
    """Refuses a template that is unsafe, broken, empty, a repeat, prints an empty list, or names the answers.

    Args:
        source: The Jinja source, from anywhere.
        earlier: Sources of earlier templates. A template that equals one of them after whitespace, or gives the same
            prompt with `sample`, is a repeat.
        forbidden_labels: Labels and aliases of the tuning images' ground truth, and of the groups above it that earn
            credit (`leaks.group_names`). Words that a template must be free to use (the domain's root, e.g. "bird",
            and its aliases) are left out by the caller. A label that stands in a variable's value may come into the
            prompt through that variable.
        sample: The variables that the run renders with; `SAMPLE` where there is none.

    Raises:
        TemplateError: The reason in a sentence or two, fit to go back to whoever wrote the template.
    """
    check_source(source)
    variables = SAMPLE if sample is None else sample
    token = _empty_joins.set([])
    try:
        prompt = render(source, variables)
        if _empty_joins.get():
            raise TemplateError(
                "The template prints an empty list, so that the sentence around it breaks off.",
                remedy="Leave it out, or put it into {% if ... %}" + _empty_lists(variables),
            )
    finally:
        _empty_joins.reset(token)
    normal, same = normalise_source(source), _squeezed(prompt)
    values = () if sample is None else _hashable(sample)
    for other in earlier:
        other_normal, other_prompt = _forms(other, values)
        if other_normal == normal:
            raise TemplateError("This template repeats an earlier one.", remedy="Propose one that differs in wording.")
        if sample is not None and other_prompt == same:
            raise TemplateError(
                "This template gives word for word the same prompt as an earlier one.",
                remedy="Propose one that differs in wording.",
            )
    if found := labels_said(source, prompt, variables, tuple(forbidden_labels)):
        names = ", ".join(f"'{words}'" for words in found[:3])
        raise TemplateError(
            f"The template gives away the answer: {names} is a ground-truth label of the tuning images, or a group of "
            "such labels.",
            remedy="Name no particular answer; describe how to answer instead.",
        )


def labels_said(source: str, prompt: str, variables: Mapping[str, object], labels: tuple[str, ...]) -> list[str]:
    """Returns the words of a template, or of its prompt, that name labels; those in a variable's value do not count.

    Args:
        source: The Jinja source.
        prompt: What it renders to, as a label can be put together from pieces ("mal" ~ "lard").
        variables: What it is rendered with.
        labels: Labels and aliases.
    """
    if not labels:
        return []
    given: list[str] = []
    for value in variables.values():
        given.extend([value] if isinstance(value, str) else [str(item) for item in value])  # type: ignore[attr-defined]
    through_variables = set(find_labels(" | ".join(given), labels))
    found = find_labels(source, labels)
    return found + [words for words in find_labels(prompt, labels) if words not in {*through_variables, *found}]


def render(source: str, variables: Mapping[str, object]) -> str:
    """Renders a template to a prompt, without the white space around it.

    The source is checked first, so this is safe for any source.

    Args:
        source: The Jinja source.
        variables: A value for each of `VARIABLES` that the template uses: text, or a list of text for the lists.

    Raises:
        TemplateError: The source is not acceptable, a variable is missing, or the prompt is empty or too long.
    """
    template = _compiled(source)
    values = _checked_values(variables)
    parts: list[str] = []
    length = 0
    token = _work.set([_MAX_WORK])
    try:
        for part in template.generate(values):
            parts.append(part)
            length += len(part)
            if length > MAX_RENDERED:
                raise TemplateError(
                    f"The rendered prompt is longer than {MAX_RENDERED:,} characters.", remedy="Shorten it."
                )
    except TemplateError:
        raise
    except jinja2.UndefinedError as error:
        said = (error.message or "a value is undefined").rstrip(".")
        raise TemplateError(
            f"The template cannot be rendered: {said}.",
            remedy="Test a list before taking an item of it, with {% if %} or as in "
            "{{ ranks | last if ranks else domain }}" + _empty_lists(values),
        ) from None
    except Exception as error:  # whatever odd expression the template holds, it is the template's fault
        raise TemplateError(f"The template cannot be rendered: {error}.") from None
    finally:
        _work.reset(token)
    prompt = "".join(parts).strip()
    if not prompt:
        raise TemplateError("The template gives an empty prompt.", remedy="It must ask something.")
    _refuse_characters(prompt, "prompt")
    return prompt


def normalise_source(source: str) -> str:
    """Returns the source with white space that makes no difference taken out; equal results mean a repeat."""
    return _squeezed(re.sub(r"\s*([-+]?[%}#]\})", r"\1", re.sub(r"(\{[{%#][-+]?)\s*", r"\1", source)))


def _empty_lists(variables: Mapping[str, object]) -> str:
    """Returns the end of a remedy: which lists have no items in this run."""
    empty = [f"'{name}'" for name in LISTS if not variables.get(name)]
    if not empty:
        return "."
    return f": {' and '.join(empty)} {'has' if len(empty) == 1 else 'have'} no items here."


def _squeezed(text: str) -> str:
    """Returns text with single spaces, and without the characters that nobody sees."""
    return " ".join("".join(c for c in text if unicodedata.category(c) != "Cf").split())


def _measured(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a filter that counts the characters it goes through: loops over filters would take minutes otherwise."""

    @wraps(function)  # with jinja's marks of what the filter is passed
    def measured(*arguments: Any) -> Any:
        result = function(*arguments)
        left = _work.get()
        if left is not None:
            left[0] -= sum(_size(value) for value in (*arguments, result))
            if left[0] < 0:
                raise TemplateError("The template takes too long to render.", remedy="Use fewer filters in loops.")
        return result

    return measured


def _size(value: object) -> int:
    if isinstance(value, str):
        return len(value)
    return sum(map(_size, value)) if isinstance(value, list | tuple) else 1


def _noted(join: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a join that takes note where there is nothing to join."""

    @wraps(join)
    def noted(context: Any, value: Any, *arguments: Any) -> Any:
        if not value:
            _empty_joins.get([]).append(1)
        return join(context, value, *arguments)

    return noted


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True, cache_size=0
    )
    environment.globals.clear()
    environment.filters["join"] = _noted(environment.filters["join"])
    environment.filters = {name: _measured(environment.filters[name]) for name in FILTERS}
    environment.tests = {name: test for name, test in environment.tests.items() if name in TESTS}
    return environment


_ENVIRONMENT = _environment()


def _compiled(source: str) -> jinja2.Template:
    if not isinstance(source, str):
        raise TemplateError("A template must be text.", value=source)
    if len(source) > MAX_SOURCE:
        raise TemplateError(
            f"The template has {len(source):,} characters, more than {MAX_SOURCE:,}.", remedy="Shorten it."
        )
    if not source.strip():
        raise TemplateError("The template is empty.", remedy="It must ask something.")
    _refuse_characters(source, "template")
    return _compile(source)


@lru_cache(maxsize=256)
def _compile(source: str) -> jinja2.Template:
    try:
        tree = _ENVIRONMENT.parse(source)
        check_tree(tree)
        code = _ENVIRONMENT.compile(tree)
    except TemplateError:
        raise
    except jinja2.TemplateSyntaxError as error:
        message = (error.message or "it cannot be parsed").rstrip(".")
        raise TemplateError(f"Syntax error in line {error.lineno}: {message}.") from None
    except RecursionError:
        raise TemplateError("The template is nested too deeply.", remedy="Use less nesting.") from None
    except Exception as error:  # e.g. a number with thousands of digits
        raise TemplateError(f"The template cannot be read: {error}.") from None
    return jinja2.Template.from_code(_ENVIRONMENT, code, {})


def _checked_values(variables: Mapping[str, object]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in variables.items():
        if name not in VARIABLES:
            raise TemplateError(f"There is no variable {name!r}.", remedy=f"The variables are {', '.join(VARIABLES)}.")
        items = value if name in LISTS else [value]
        if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
            kind = "a list of text" if name in LISTS else "text"
            raise TemplateError(f"The variable {name!r} must be {kind}.", value=value)
        if len(items) > _MAX_ITEMS or any(len(item) > _MAX_VALUE for item in items):
            raise TemplateError(
                f"The variable {name!r} is too long: at most {_MAX_ITEMS} items of {_MAX_VALUE:,} characters."
            )
        values[name] = list(items) if name in LISTS else value
    return values


def _hashable(variables: Mapping[str, object]) -> tuple[tuple[str, object], ...]:
    return tuple((key, tuple(value) if isinstance(value, list) else value) for key, value in variables.items())


@lru_cache(maxsize=1 << 14)  # each template of a run is checked against all before it
def _forms(source: str, variables: tuple[tuple[str, object], ...]) -> tuple[str, str | None]:
    """Returns what a repeat is known by: the normalised source, and the prompt, or None where it gives none."""
    try:
        values = {key: list(value) if isinstance(value, tuple) else value for key, value in variables}
        return normalise_source(source), _squeezed(render(source, values))
    except TemplateError:
        return normalise_source(source), None


def _refuse_characters(text: str, what: str) -> None:
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\r\t":
            raise TemplateError(f"The {what} holds the character U+{ord(character):04X}, which is not text.")
