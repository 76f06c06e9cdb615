"""What tests of templates share: values to render with, and the two things that are done with a source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from taxtune.tuning.rules import TemplateRules
from taxtune.tuning.template import Template

SAMPLE: Mapping[str, object] = {
    "question": "What is this an image of?",
    "domain": "bird",
    "ranks": ["order", "family", "genus", "species"],
    "examples": ["bird", "songbird", "song sparrow"],
}
#: A template without variables.
WHAT = Template.parse("What is this?")


def render(source: str, values: Mapping[str, object]) -> str:
    """Returns the prompt of a source."""
    return Template.parse(source, values).render(values)


def check(
    source: str,
    *,
    earlier: Iterable[str] = (),
    forbidden: Iterable[str] = (),
    samples: Sequence[Mapping[str, object]] = (SAMPLE,),
) -> None:
    """Raises a `TemplateError` if a run with these samples and labels refuses a template."""
    TemplateRules(tuple(samples), forbidden=tuple(forbidden)).check(source, earlier)
