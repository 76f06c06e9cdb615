"""An experiment: everything that a tuning run is about, built once (`taxtune.tuning.build`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from taxtune.data import Example
from taxtune.data.context import Variable
from taxtune.data.splits import Splits
from taxtune.errors import ModelError, RecipeError, TaxtuneError
from taxtune.metrics.groups import unit_of
from taxtune.metrics.information import Information
from taxtune.metrics.table import Predictions
from taxtune.objective import Objective
from taxtune.policies import Policy
from taxtune.policies.allowed import Checklist, read_checklist
from taxtune.policies.paths import IntArray
from taxtune.progress import note
from taxtune.recipe import Recipe
from taxtune.settings import BudgetSettings, LabelWords
from taxtune.tables import column_key
from taxtune.taxonomy import Domain, Taxonomy
from taxtune.tuning.asker import Asker
from taxtune.tuning.context import Known, describe_variables
from taxtune.tuning.evaluation import Evaluator, compare_templates
from taxtune.tuning.leaks import group_names
from taxtune.tuning.metrics import MeasureMetric, Metric
from taxtune.tuning.proposers import Goal, Proposer
from taxtune.tuning.proposers.evidence import GRADED, measures_of
from taxtune.tuning.records import groups_of
from taxtune.tuning.rules import TemplateRules, baseline_notes, label_names
from taxtune.tuning.selection import Rung, rungs
from taxtune.tuning.thresholds import CrossFit, can_choose

if TYPE_CHECKING:
    from taxtune.mapping import Mapper
    from taxtune.models import AnswerStore, Model
    from taxtune.tuning.records import Difference, HeldoutResult
    from taxtune.tuning.template import Template

__all__ = ["Experiment", "checklist_notes", "make_checklist", "make_rungs"]

# What a recipe says of images and trees that holds for those given in their place, too.
_KEPT = {"tuning", "heldout", "first_rung", "group", "context", *LabelWords.model_fields}
_KEPT |= {"root", "domain", "frequencies", "allowed"}


@dataclass(frozen=True)
class Experiment:
    """Everything that a tuning run is about.

    Attributes:
        recipe: The recipe.
        folder: Where a run writes.
        answers: The file of the answers.
        given: The objects that replace parts of the recipe, by the group of its keys.
        taxonomy: The label tree that is scored on.
        part: What the tree is a part of, if the recipe restricts it.
        examples: Every labelled image below the domain.
        context: What templates may know of each image.
        splits: The tuning and the held-out split, disjoint by image content.
        domain: The node of the trivial answer.
        weights: The nodes' weights.
        vlm: The vision-language model.
        mapper: What places answers on the tree.
        policy: What makes one node of several answers.
        proposer: What makes the templates.
        objective: What makes one template better than another.
        own_metrics: The run's own metrics, whatever the objective.
        metrics: All metrics of each answer by name: the run's own, and those that the objective
            needs.
    """

    recipe: Recipe
    folder: Path
    answers: Path
    given: Mapping[str, Any]
    taxonomy: Taxonomy
    part: Domain | None
    examples: Sequence[Example]
    context: tuple[Variable, ...]
    splits: Splits
    domain: int
    weights: Information
    vlm: Model
    mapper: Mapper
    policy: Policy
    proposer: Proposer
    objective: Objective
    own_metrics: Mapping[str, Metric]
    metrics: Mapping[str, Metric]

    @property
    def full_taxonomy(self) -> Taxonomy:
        """The whole label tree."""
        return self.taxonomy if self.part is None else self.part.full

    @property
    def iterations(self) -> int:
        """The most templates after the baseline."""
        return self.recipe.limits(self.policy.samples)[0]

    @property
    def budget(self) -> BudgetSettings:
        """What the run may spend."""
        return self.recipe.limits(self.policy.samples)[1]

    @cached_property
    def rungs(self) -> tuple[Rung, ...]:
        """How many templates are asked about how many of the tuning images, one after the other."""
        tuning = len(self.splits.tuning)
        return make_rungs(self.recipe, self.policy, self.objective, tuning)

    @property
    def variables(self) -> dict[str, object]:
        """What a template may refer to, whatever the image."""
        return self.recipe.prompt.variables

    @cached_property
    def allowed(self) -> Checklist | None:
        """What may occur where and when; None if anything may."""
        # Read when it is needed, so that what is wrong with the baseline is reported first.
        return make_checklist(self.recipe, self.taxonomy, self.part)

    @property
    def asker(self) -> Asker:
        """What asks about images and places the answers."""
        return Asker(
            model=self.vlm,
            mapper=self.mapper,
            policy=self.policy.fitted(self.cross_fit),
            variables=self.variables,
            allowed=self.allowed,
        )

    @property
    def cross_fit(self) -> CrossFit:
        """What chooses the threshold of a policy that leaves it open, for what is tuned for."""
        return CrossFit(
            information=self.weights,
            value=self.objective.value,
            off_tree=self.mapper.config.off_tree,
        )

    def evaluator(self, store: AnswerStore | None) -> Evaluator:
        """Returns the evaluator, which asks and scores a template."""
        return Evaluator(
            asker=self.asker,
            information=self.weights,
            store=store,
            metrics=tuple(self.metrics.values()),
            needs=self.objective.needs,
            off_tree=self.mapper.config.off_tree,
        )

    def compare(
        self,
        evaluator: Evaluator,
        templates: Mapping[str, Template],
        on_heldout: Callable[[str, int], None],
        *,
        split: Literal["heldout", "tuning"] = "heldout",
        known: Mapping[str, HeldoutResult] = {},
    ) -> tuple[tuple[HeldoutResult, ...], tuple[Difference, ...]]:
        """Asks about the images of a split with each template; see `compare_templates`."""
        examples = self.splits.tuning
        name = "tuning"
        if split == "heldout":
            examples = self.splits.heldout
            name = "held-out"
        unit = unit_of(self.recipe.data.group, groups_of(examples))
        new = [template for template in templates.values() if template.source not in known]
        evaluator.submit(new, examples)
        return compare_templates(
            evaluator,
            templates,
            examples,
            on_heldout,
            split=name,
            seed=self.recipe.seed,
            max_missing=self.recipe.max_missing,
            known=known,
            unit=unit,
        )

    @cached_property
    def rules(self) -> TemplateRules:
        """What a template may be."""
        labels = label_names(self.taxonomy, self.domain, self.splits.tuning)
        groups = self._group_names()
        return TemplateRules.of(self.recipe.prompt, self.context, self.splits, labels, groups)

    def _group_names(self) -> tuple[str, ...]:
        """Returns the names of groups of the tuning images' labels, if they earn credit."""
        if GRADED.isdisjoint(measures_of(self.objective)):
            return ()
        prompt = self.recipe.prompt
        own = (prompt.baseline, prompt.question, prompt.domain, *prompt.ranks, *prompt.examples)
        heldout = [example.target for example in self.splits.heldout]
        return group_names(self.taxonomy, self.domain, self._targets.tolist(), heldout, own=own)

    def notes(self) -> list[str]:
        """Returns notes on the baseline and on images whose truth or place the checklist lacks.

        Raises:
            TemplateError: If the baseline cannot be used, with the recipe's file and the key.
        """
        return baseline_notes(self.recipe, self.rules) + checklist_notes(self.allowed, self.splits)

    @cached_property
    def trivial(self) -> tuple[float, float]:
        """HP and hR of always answering the domain's root on the tuning split."""
        return self._trivial_means["hp"], self._trivial_means["hr"]

    @cached_property
    def _trivial_means(self) -> dict[str, float]:
        """The mean of each score, by name, of always answering the domain's root."""
        target = self._targets
        nodes = np.full_like(target, self.domain)
        nowhere = np.zeros(len(target), dtype=bool)
        answers = Predictions(self.weights, nodes, target, nowhere)
        table = answers.table()
        groups = groups_of(self.splits.tuning)
        return table.grouped(groups).means()

    @cached_property
    def _targets(self) -> IntArray:
        """The targets of the tuning images, shape (n,)."""
        return np.array([example.target for example in self.splits.tuning], dtype=np.int64)

    @cached_property
    def _described(self) -> tuple[Known, ...]:
        return describe_variables(self.context, self.splits.tuning, self.rules.forbidden)

    def goal(self) -> Goal:
        """Returns the goal as the proposer sees it."""
        trivial = self._trivial_means
        prompt = self.recipe.prompt
        return Goal(
            objective=self.objective,
            trivial_hp=trivial["hp"],
            trivial_hr=trivial["hr"],
            domain=prompt.domain,
            question=prompt.question,
            ranks=list(prompt.ranks),
            tuning_images=self.rungs[0].images,
            off_tree=self.mapper.config.off_tree,
            trivial_ihp=trivial["ihp"],
            trivial_ihr=trivial["ihr"],
            examples=tuple(prompt.examples),
            taxonomy=self.taxonomy,
            domain_node=self.domain,
            context=self._described,
            images={example.id: example.image for example in self.splits.tuning},
        )

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The settings, as nested plain values, for the record."""
        settings = self.recipe.settings()
        for group, value in self.given.items():  # the identity says what it is
            kept = {key: item for key, item in settings[group].items() if key in _KEPT}
            settings[group] = {"kind": "python", **kept}
            if group == "taxonomy" and value.source:
                settings[group] = {"path": str(value.source), **kept}
            elif group == "data":
                path = f"{len(self.examples)} images given in Python"
                if isinstance(value, str | Path):
                    path = str(value)
                settings[group]["path"] = path
        if self.recipe.source is None:  # made in Python, where objectives are free
            settings["objective"] = {"kind": self.objective.name, **self.objective.identity()}
        return settings

    def check_models(self) -> None:
        """Checks that the model, the proposer and the measures can be asked, before that costs.

        Raises:
            TaxtuneError: If one of them cannot, or the policy does not go with them.
        """
        policy = f"The policy {self.policy.identity()['kind']!r}"
        calls = self.policy.samples
        if calls > 1 and self.vlm.identity.get("temperature") == 0:
            raise ModelError(
                f"{policy} asks {calls} times about an image, but the model decodes greedily and "
                "repeats itself.",
                remedy="Set vlm.temperature to 1.",
            )
        measured = []
        for name, metric in self.metrics.items():
            if isinstance(metric, MeasureMetric):
                measured.append(name)
        if measured and not self.policy.keeps_text:
            raise TaxtuneError(
                f"{policy} makes a node of more than one answer, which leaves no text for "
                f"{' and '.join(measured)}.",
                remedy="Tune for hp, hr_at_hp, accuracy or another score of nodes, or leave out "
                "the policy.",
            )
        if self.policy.is_open and not can_choose(self.objective):
            raise TaxtuneError(
                "A threshold cannot be chosen for an objective that is held to the baseline's "
                "scores, or that needs more than where the answers are placed.",
                value=self.objective.name,
                remedy="Set policy.threshold, such as 0.9; or objective.hr_floor to a number, where "
                "there is one.",
            )
        arbiter = getattr(self.mapper, "arbiter", None)
        for asked in (self.vlm, self.proposer, arbiter, *self.metrics.values()):
            check = getattr(asked, "check", None)  # an object of the user's need not have it
            for text in (check and check()) or ():
                note(text)


def make_checklist(recipe: Recipe, taxonomy: Taxonomy, part: Domain | None) -> Checklist | None:
    """Returns the checklist of nodes that may occur where and when, None if there is none.

    Raises:
        RecipeError: If the data lack a column that the checklist goes by.
        DataError: If it cannot be read.
    """
    path = recipe.taxonomy.allowed
    if path is None:
        return None
    checklist = read_checklist(recipe.path(path), taxonomy, part=part)
    columns = recipe.data.context.columns
    known = {column_key(column.removeprefix("exif:")) for column in columns}
    missing = ", ".join(name for name in checklist.variables if name not in known)
    if missing:
        raise RecipeError(
            f"The checklist goes by {missing}, which images lack.",
            file=recipe.source,
            remedy=f"Name these columns of the data: data: {{context: [{missing}]}}; the month may "
            "be exif:month.",
        )
    return checklist


def checklist_notes(allowed: Checklist | None, splits: Splits) -> list[str]:
    """Returns notes on images of the splits whose truth, or whose place, a checklist lacks."""
    if allowed is None:
        return []
    examples = (*splits.tuning, *splits.heldout)
    targets = [example.target for example in examples]
    return allowed.notes(targets, [example.context for example in examples])


def make_rungs(
    recipe: Recipe, policy: Policy, objective: Objective, tuning: int
) -> tuple[Rung, ...]:
    """Returns the rungs of successive halving, each with its numbers of images and templates.

    Args:
        recipe: The recipe, with the size of the first rung and what the run may spend.
        policy: The policy, with its number of answers for each image.
        objective: What is tuned for.
        tuning: Size of the tuning split.
    """
    iterations, budget = recipe.limits(policy.samples)
    images = None
    if budget.vlm_calls is not None:
        images = budget.vlm_calls // policy.samples
    first = min(recipe.data.first_rung or tuning, tuning)
    always = int(objective.held_to_baseline)
    return rungs(first, tuning, iterations + 1, images, always=always)
