"""What a template of a run may be: what proposers write, and what the user wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from taxtune.data import Example
from taxtune.data.context import Variable, blank
from taxtune.data.splits import Splits
from taxtune.errors import TemplateError
from taxtune.recipe import Recipe
from taxtune.settings import PromptSettings
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.template import check_template, labels_said, render, variables_of

__all__ = ["TemplateRules", "baseline_notes", "label_names"]


@dataclass(frozen=True)
class TemplateRules:
    """What a template of a run may be.

    Attributes:
        variables: What a template may refer to, whatever the image.
        context: What templates may know of each image.
        samples: What templates render with: the variables of each image of the splits, the same
            ones once.
        labels: Names of the tuning images' labels.
        forbidden: Names that a proposer's template must not give away: `labels`, and names of
            groups that earn credit.
    """

    variables: Mapping[str, object]
    context: tuple[Variable, ...]
    samples: tuple[Mapping[str, object], ...]
    labels: tuple[str, ...]
    forbidden: tuple[str, ...]

    @classmethod
    def of(
        cls,
        prompt: PromptSettings,
        context: tuple[Variable, ...],
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
        variables = prompt.variables
        samples: dict[str, Mapping[str, object]] = {}
        for example in (*splits.tuning, *splits.heldout):
            own = example.context if context else {}
            samples.setdefault(repr(own), {**variables, **own})
        return cls(
            variables=variables,
            context=context,
            samples=tuple(samples.values()),
            labels=tuple(labels),
            forbidden=tuple(dict.fromkeys((*labels, *groups))),
        )

    def check(self, template: str, earlier: tuple[str, ...] = ()) -> None:
        """Checks a template that a proposer wrote.

        Args:
            template: The Jinja source.
            earlier: Sources that it must not repeat.

        Raises:
            TemplateError: The reason, fit for the proposer.
        """
        check_template(
            template, earlier=earlier, forbidden_labels=self.forbidden, samples=self.samples
        )

    def notes(self, template: str, name: str) -> list[str]:
        """Checks a template that the user wrote, and returns a note if it lists labels, as it may.

        Args:
            template: The Jinja source.
            name: What the note calls it.

        Raises:
            TemplateError: If it cannot be used.
        """
        check_template(template, samples=self.samples)
        prompts = [render(template, variables) for variables in self.samples]
        listed = labels_said(template, prompts, self.samples, self.labels)
        if not listed:
            return []
        more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
        names = ", ".join(map(repr, listed[:3]))
        return [
            f"{name} has labels in the prompt ({names}{more}): its results hold for this list of "
            "labels."
        ]

    def prompt(self, template: str) -> str:
        """Returns the prompt of a template; the template if images have prompts of their own."""
        if variables_of(template, blank(self.context)):
            return template
        return render(template, self.variables)


def label_names(taxonomy: Taxonomy, domain: int, examples: Iterable[Example]) -> tuple[str, ...]:
    """Returns the names of images' labels but for the domain's, which every template may say."""
    targets = {example.target for example in examples} - {domain}
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
