"""What a template of a run may be: what proposers write, and what the user wrote.

A proposer's template must not repeat an earlier one, must give a prompt for every image, and must
not name an answer, or it would be tuned to cheat. Labels can be put together from pieces ("mal" ~
"lard"), so the prompts are searched, too. A label that stands in a variable's value may come into
the prompt through that variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from taxtune.data import Example
from taxtune.data.context import VARIABLES, Variable
from taxtune.data.splits import Splits
from taxtune.errors import TemplateError
from taxtune.recipe import Recipe
from taxtune.settings import PromptSettings
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.leaks import find_labels
from taxtune.tuning.template import Template, squeezed

__all__ = ["TemplateRules", "baseline_notes", "label_names"]

_ALIKE = 16  # images on which two templates that give the same prompts are the same
# Values of an image's variables that name no label, by the type of the value.
_NAMELESS: Mapping[type, object] = {list: ["-"], int: 1, float: 1}


@dataclass(frozen=True)
class TemplateRules:
    """What a template of a run may be.

    Attributes:
        samples: What templates render with: the variables of each image of the splits, the same
            ones once.
        labels: Names of the tuning images' labels.
        forbidden: Names that a proposer's template must not give away: `labels`, and names of
            groups that earn credit.
    """

    samples: tuple[Mapping[str, object], ...]
    labels: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    # Those of earlier templates by source: each new one is compared with all of them.
    _forms: dict[str, _Form | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of(
        cls,
        prompt: PromptSettings,
        context: Sequence[Variable],
        splits: Splits,
        labels: Sequence[str],
        groups: Iterable[str] = (),
    ) -> TemplateRules:
        """Returns the rules of a run.

        Args:
            prompt: The recipe's variables.
            context: What templates may know of each image.
            splits: The images.
            labels: Names of the tuning images' labels.
            groups: Names of groups that earn credit.
        """
        samples: dict[str, Mapping[str, object]] = {}
        for example in (*splits.tuning, *splits.heldout):
            own = example.context if context else {}
            samples.setdefault(repr(own), {**prompt.variables, **own})
        return cls(
            samples=tuple(samples.values()),
            labels=tuple(labels),
            forbidden=tuple(dict.fromkeys((*labels, *groups))),
        )

    def parse(self, source: str) -> Template:
        """Returns the template of a source.

        Raises:
            TemplateError: If it is unsafe or broken.
        """
        return Template.parse(source, self.samples[0])

    def check(self, source: str, earlier: Iterable[str] = ()) -> None:
        """Checks a template that a proposer wrote.

        Args:
            source: The Jinja source.
            earlier: Sources that it must not repeat; a repeat only costs calls.

        Raises:
            TemplateError: The reason in a sentence or two, fit for the proposer.
        """
        template = self.parse(source)
        prompts = [template.render(values) for values in self.samples]
        self._refuse_repeat(_Form.of(template, prompts), earlier)
        named = _named_labels(source, prompts, self.samples, self.forbidden)
        own = self._own_variables()
        if own:
            # Labels that come through an image's values must not excuse those that the template
            # puts together itself.
            values = dict(self.samples[0])
            for name in own:
                values[name] = _NAMELESS.get(type(values[name]), "-")
            with suppress(TemplateError):
                prompt = template.render(values)
                named += _named_labels(source, [prompt], [values], self.forbidden)
        if named:
            names = ", ".join(f"'{words}'" for words in list(dict.fromkeys(named))[:3])
            raise TemplateError(
                f"The template gives away the answer: {names} is a ground-truth label of the tuning "
                "images, or a group of such labels.",
                remedy="Name no particular answer; describe how to answer instead.",
            )

    def notes(self, source: str, name: str) -> list[str]:
        """Checks a template that the user wrote, and returns a note if it lists labels, as it may.

        Raises:
            TemplateError: If it cannot be used.
        """
        template = self.parse(source)
        prompts = [template.render(values) for values in self.samples]
        listed = _named_labels(source, prompts, self.samples, self.labels)
        if not listed:
            return []
        more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
        names = ", ".join(map(repr, listed[:3]))
        return [
            f"{name} has labels in the prompt ({names}{more}): its results hold for this list of "
            "labels."
        ]

    def prompt(self, template: Template) -> str:
        """Returns the prompt of a template; its source if images have prompts of their own."""
        if template.variables.isdisjoint(self._own_variables()):
            return template.render(self.samples[0])
        return template.source

    def _own_variables(self) -> list[str]:
        """Returns the names of the variables that have a value for each image."""
        return [name for name in self.samples[0] if name not in VARIABLES]

    def _refuse_repeat(self, form: _Form, earlier: Iterable[str]) -> None:
        """Raises a `TemplateError` if a template is one of the earlier ones in other words."""
        for source in earlier:
            if source not in self._forms:
                self._forms[source] = self._form_of(source)
            known = self._forms[source]
            if known is None:
                continue
            if known.key == form.key:
                what = "repeats an earlier one"
            elif known.prompts == form.prompts:
                what = "gives the same prompt as an earlier one"
            else:
                continue
            remedy = "Propose one that differs in wording."
            raise TemplateError(f"This template {what}.", remedy=remedy)

    def _form_of(self, source: str) -> _Form | None:
        """Returns the form of a source, None if it cannot be used."""
        try:
            template = self.parse(source)
            prompts = [template.render(values) for values in self.samples[:_ALIKE]]
        except TemplateError:
            return None
        return _Form.of(template, prompts)


class _Form(NamedTuple):
    """What a template is known by: its source and some of its prompts, without white space."""

    key: str
    prompts: tuple[str, ...]

    @classmethod
    def of(cls, template: Template, prompts: Sequence[str]) -> _Form:
        """Returns the form of a template with its prompts of the samples."""
        return cls(template.key, tuple(squeezed(prompt) for prompt in prompts[:_ALIKE]))


def _named_labels(
    source: str,
    prompts: Iterable[str],
    samples: Iterable[Mapping[str, object]],
    labels: tuple[str, ...],
) -> list[str]:
    """Returns the words of a source, or of its prompts, that name labels.

    Args:
        source: The Jinja source.
        prompts: Its prompts, as a label can be put together from pieces ("mal" ~ "lard").
        samples: The variables that they are rendered with; words of a value do not count in a
            prompt.
        labels: Labels and aliases.
    """
    if not labels:
        return []
    values: dict[str, None] = {}
    for variables in samples:
        for value in variables.values():
            items = value if isinstance(value, list) else [value]
            values |= dict.fromkeys(map(str, items))
    found = find_labels(source, labels)
    excused = {*found, *find_labels(" | ".join(values), labels)}
    rendered = find_labels(" | ".join(dict.fromkeys(prompts)), labels)
    return found + [words for words in rendered if words not in excused]


def label_names(taxonomy: Taxonomy, domain: int, examples: Iterable[Example]) -> tuple[str, ...]:
    """Returns the names of images' labels but for the domain's, which every template may say.

    The root is no name of what an image shows, but the truth of one that shows nothing.
    """
    targets = {example.target for example in examples} - {domain, taxonomy.root}
    return tuple(sorted({name for target in targets for name in taxonomy.names(target)}))


def baseline_notes(recipe: Recipe, rules: TemplateRules) -> list[str]:
    """Returns notes on the template that a run begins with.

    Raises:
        TemplateError: If it cannot be used, with the recipe's file and the key.
    """
    try:
        return rules.notes(recipe.prompt.baseline, "The baseline")
    except TemplateError as error:
        key = "baseline" if recipe.source is None else "prompt.baseline"
        message = f"{key}: {error.message}"
        raise TemplateError(message, file=recipe.source, remedy=error.remedy) from None
