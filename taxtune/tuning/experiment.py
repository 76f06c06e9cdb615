"""What is tuned, as objects: tree, images, model, mapper, proposer, objective, and how much of each.

A recipe (`taxtune.tuning.from_recipe`) and Python code (`taxtune.api`) build the same `Experiment`; the loop knows
nothing of either.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taxtune.data.splits import Splits
from taxtune.errors import ModelError, TaxtuneError, TemplateError
from taxtune.metrics.hierarchical import score
from taxtune.metrics.information import Information, information_scores, leaf_information
from taxtune.models.base import Identity, reseeded
from taxtune.policies import DIRECT, Policy
from taxtune.progress import note
from taxtune.recipe_settings import BudgetSettings, PromptSettings, SeedSettings
from taxtune.taxonomy import Domain, Taxonomy
from taxtune.tuning.evaluation import Evaluator
from taxtune.tuning.leaks import group_names
from taxtune.tuning.objective import Objective
from taxtune.tuning.outlook import Outlook, make_outlook
from taxtune.tuning.proposers import Goal, Proposer
from taxtune.tuning.proposers.evidence import GRADED, measures_of
from taxtune.tuning.selection import Round, race
from taxtune.tuning.template import check_template, labels_said, render

if TYPE_CHECKING:
    from taxtune.mapping import Mapper
    from taxtune.models import AnswerStore, Model
    from taxtune.tuning.metrics import Metric
    from taxtune.tuning.records import Selection

__all__ = ["Experiment", "check_baseline", "check_own", "label_names", "template_variables", "trivial_scores"]


def _ignore(text: str) -> None:
    pass


def trivial_scores(taxonomy: Taxonomy, domain: int, splits: Splits) -> tuple[float, float]:
    """Returns hP and hR of always answering the domain's root on the tuning split."""
    target = np.array([example.target for example in splits.tuning])
    scores = score(taxonomy, np.full_like(target, domain), target)
    return scores.hp, scores.hr


def template_variables(prompt: PromptSettings) -> dict[str, object]:
    """Returns what a template may refer to."""
    return {
        "question": prompt.question,
        "domain": prompt.domain,
        "ranks": list(prompt.ranks),
        "examples": list(prompt.examples),
    }


def label_names(taxonomy: Taxonomy, domain: int, splits: Splits) -> tuple[str, ...]:
    """Returns the names of the tuning images' labels, but for the domain's own, which every template may say."""
    names = {name for e in splits.tuning if e.target != domain for name in taxonomy.names(e.target)}
    return tuple(sorted(names))


def check_own(template: str, name: str, prompt: PromptSettings, labels: tuple[str, ...]) -> list[str]:
    """Checks a template that the user wrote, which may list the labels; what a proposer writes may not.

    Args:
        template: The Jinja source.
        name: What notes call it: "The baseline".
        prompt: What it is rendered with.
        labels: The names of the tuning images' labels.

    Returns:
        What the user should know of it.

    Raises:
        TemplateError: If it cannot be used.
    """
    variables = template_variables(prompt)
    check_template(template, sample=variables)
    said = labels_said(template, render(template, variables), variables, labels)
    if not said:
        return []
    more = f" and {len(said) - 3} more" if len(said) > 3 else ""
    names = ", ".join(map(repr, said[:3]))
    return [f"{name} has labels in the prompt ({names}{more}): its results hold for this list of labels."]


def check_baseline(prompt: PromptSettings, labels: tuple[str, ...], source: Path | None) -> list[str]:
    """Checks the template that a run begins with; see `check_own`.

    Raises:
        TemplateError: Naming the recipe, where there is one, and the key.
    """
    try:
        return check_own(prompt.baseline, "The baseline", prompt, labels)
    except TemplateError as error:
        key = "baseline" if source is None else "prompt.baseline"
        raise TemplateError(f"{key}: {error.message}", file=source, remedy=error.remedy) from None


@dataclass(frozen=True)
class Experiment:
    """Everything that a tuning run is about.

    Attributes:
        name: Names the MLflow runs and the registered prompt.
        taxonomy: The label tree that is scored on.
        splits: The tuning and the held-out images.
        vlm: Answers the questions.
        mapper: Places the answers.
        proposer: Makes the templates.
        objective: What makes one template better than another.
        prompt: The baseline, and what templates may refer to.
        domain: The node of the trivial answer.
        metrics: What is taken of each answer besides hP, hR and accuracy, by name.
        iterations: Templates to try after the baseline, at most.
        block: Tuning images that every template is asked about; None for all.
        budget: What the run may spend.
        seeds: Seeds the proposer and, with the split's, the bootstrap; the model has its own already.
        max_missing: Largest share of images without an answer, or without a value of what the objective needs, before
            an iteration is void.
        max_off_tree: Largest share of the baseline's answers to the tuning images that may be off the tree.
        off_tree: How an answer off the tree is scored: "child" (of the root, never right) or "root".
        use_images: Give the images to the mapper's similarity (CLIP image-to-text).
        part: What `taxonomy` is a part of; None where it is the whole.
        information: What the nodes weigh; by their share of leaves where left out.
        policy: How often an image is asked about, and how the answers make one place.
        alternatives: Other policies, that make do with the same answers: the finalists are judged by each of them, too.
        settings: What was asked for, as nested plain values, for the record.
        fixed: The settings that a resumed run must not change, by dotted key.
        source: The file that the settings were read from.
    """

    name: str
    taxonomy: Taxonomy
    splits: Splits
    vlm: Model
    mapper: Mapper
    proposer: Proposer
    objective: Objective
    prompt: PromptSettings
    domain: int
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    iterations: int = 30
    block: int | None = None
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    seeds: SeedSettings = field(default_factory=SeedSettings)
    max_missing: float = 0.1
    max_off_tree: float = 0.5
    off_tree: str = "child"
    use_images: bool = False
    part: Domain | None = None
    information: Information | None = None
    policy: Policy = DIRECT
    alternatives: tuple[Policy, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    source: Path | None = None

    def repeated(self, k: int, name: str) -> Experiment:
        """Returns the k-th repeat, from 0, under another name: the same images, other seeds of proposer and model."""
        seeds = self.seeds.repeated(k)
        return replace(
            self,
            name=name,
            vlm=reseeded(self.vlm, seeds.model),
            seeds=seeds,
            settings={**self.settings, "seed": seeds.model_dump()},
            fixed={**self.fixed, "seed": seeds.fixed},
        )

    @cached_property
    def stages(self) -> tuple[Round, ...]:
        """The rounds of the race: how many templates are asked about how many of the tuning images."""
        calls = self.budget.vlm_calls
        images = None if calls is None else calls // self.policy.calls
        return race(self.objective, self.block, len(self.splits.tuning), self.iterations + 1, images)

    @property
    def full_taxonomy(self) -> Taxonomy:
        """The whole label tree."""
        return self.taxonomy if self.part is None else self.part.full

    @cached_property
    def weights(self) -> Information:
        """What the nodes weigh."""
        return leaf_information(self.taxonomy) if self.information is None else self.information

    @cached_property
    def trivial(self) -> tuple[float, float]:
        """HP and hR of always answering the domain's root on the tuning split."""
        return trivial_scores(self.taxonomy, self.domain, self.splits)

    @cached_property
    def outlook(self) -> Outlook:
        """What the tuning images can show, before anything is asked."""
        targets = [example.target for example in self.splits.tuning]
        return make_outlook(self.taxonomy, self.domain, targets, self.weights, [self.objective])

    @cached_property
    def variables(self) -> dict[str, object]:
        """What a template may refer to."""
        return template_variables(self.prompt)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Names of the tuning images' labels."""
        return label_names(self.taxonomy, self.domain, self.splits)

    @cached_property
    def forbidden(self) -> tuple[str, ...]:
        """Names that a template must not give away: of the tuning images' labels, and of groups that earn credit."""
        labels = self.labels
        if GRADED.isdisjoint(measures_of(self.objective)):
            return labels
        prompt = self.prompt
        groups = group_names(
            self.taxonomy,
            self.domain,
            [example.target for example in self.splits.tuning],
            [example.target for example in self.splits.heldout],
            own=(prompt.baseline, prompt.question, prompt.domain, *prompt.ranks, *prompt.examples),
        )
        return tuple(dict.fromkeys((*labels, *groups)))

    def check(self, template: str, earlier: tuple[str, ...] = ()) -> None:
        """Checks a template that nobody vouches for.

        Raises:
            TemplateError: With a reason fit for the proposer.
        """
        check_template(template, earlier=earlier, forbidden_labels=self.forbidden, sample=self.variables)

    def check_baseline(self) -> None:
        """Checks the template that the run begins with, and notes that it lists labels if it does.

        Raises:
            TemplateError: Naming the recipe, where there is one, and the key.
        """
        for text in check_baseline(self.prompt, self.labels, self.source):
            note(text)

    def check_own(self, template: str, name: str) -> None:
        """Checks a template that the user wrote, and notes that it lists labels if it does.

        Args:
            template: The Jinja source.
            name: Its name.

        Raises:
            TemplateError: If it cannot be used.
        """
        for text in check_own(template, f"The template {name!r}", self.prompt, self.labels):
            note(text)

    def goal(self) -> Goal:
        """Returns what the proposer is told."""
        hp, hr = self.trivial
        target = np.array([example.target for example in self.splits.tuning])
        bits = information_scores(self.weights, np.full_like(target, self.domain), target)
        prompt = self.prompt
        return Goal(
            objective=self.objective,
            trivial_hp=hp,
            trivial_hr=hr,
            domain=prompt.domain,
            question=prompt.question,
            ranks=list(prompt.ranks),
            tuning_images=self.stages[0].images,
            off_tree=self.off_tree,
            trivial_ihp=bits.ihp,
            trivial_ihr=bits.ihr,
            examples=tuple(prompt.examples),
            taxonomy=self.taxonomy,
            domain_node=self.domain,
        )

    def evaluator(self, store: AnswerStore | None) -> Evaluator:
        """Returns what asks and scores a template."""
        return Evaluator(
            self.taxonomy,
            self.vlm,
            self.mapper,
            store=store,
            variables=self.variables,
            use_images=self.use_images,
            off_tree=self.off_tree,
            information=self.weights,
            metrics=tuple(self.metrics.values()),
            needs=self.objective.needs,
            policy=self.policy,
        )

    def policy_of(self, selection: Selection | None) -> Policy:
        """Returns the policy that a winner was chosen with."""
        chosen = {} if selection is None else selection.policy
        return next((one for one in self.alternatives if dict(one.identity()) == chosen), self.policy)

    def check_models(self) -> None:
        """Checks that the model, the proposer and the measures can be asked, before that costs.

        Raises:
            TaxtuneError: If one cannot: weights, a key or a provider are missing; or the policy takes several answers
                of a model that always gives the same one, or leaves no text to measure.
        """
        if self.policy.calls > 1:
            self._check_policy()
        if any(other.calls > self.policy.calls for other in self.alternatives):
            raise TaxtuneError(
                "The first policy must take at least as many answers as any other, which make do with its answers.",
                remedy="Put the largest number of samples first.",
            )
        for each in (self.vlm, self.proposer, *self.metrics.values()):
            # What is somebody's own need not be able to check itself.
            for text in getattr(each, "check", tuple)() or ():
                note(text)

    def _check_policy(self) -> None:
        from taxtune.tuning.metrics import MeasureMetric

        kind = self.policy.identity()["kind"]
        if self.vlm.identity.get("temperature") == 0:
            raise ModelError(
                f"The policy {kind!r} asks {self.policy.calls} times about an image, but the model decodes greedily: "
                "all answers would be the same.",
                remedy="Set policy.temperature, or the temperature of the model, to 1.",
            )
        measured = [name for name, metric in self.metrics.items() if isinstance(metric, MeasureMetric)]
        if measured:
            raise TaxtuneError(
                f"{' and '.join(measured)} would measure the text of an answer, but the policy {kind!r} makes one node "
                f"of {self.policy.calls} answers.",
                remedy="Tune for hp, hr_at_hp, accuracy or another score of nodes, or set policy.kind to direct.",
            )

    def fingerprint(self) -> str:
        """Returns a hash of all that a finished result depends on, known without loading what answers."""
        return _digest([self.settings, self.identity(vlm=getattr(self.vlm, "content", None))])

    def identity(self, *, vlm: Identity | None = None) -> dict[str, Any]:
        """Returns what must stay the same for a run to be resumed, by dotted key.

        Args:
            vlm: What there is in place of the model's own identity.
        """
        tree = self.taxonomy
        names = [tree.names(v)[1:] for v in range(len(tree))]
        whole = {} if self.part is None else {"domain root": "/".join(self.full_taxonomy.path(self.part.root))}
        # By the leaves they follow from the taxonomy.
        weights = {} if self.information is None else {"weights": _digest(self.information.weight.tolist())}
        # A judge is known by the name that recipes have for it.
        judged = {name: metric for name, metric in self.metrics.items() if name in self.objective.needs}
        return {
            **{f"recipe.{key}": value for key, value in self.fixed.items()},
            **whole,
            "objective": self.objective.name,
            **self.objective.identity(),
            "taxonomy": _digest([tree.labels, tree.parents.tolist(), names]),
            **weights,
            "tuning images": _digest([(e.sha256, e.target) for e in self.splits.tuning]),
            "held-out images": _digest([(e.sha256, e.target) for e in self.splits.heldout]),
            **{f"vlm.{key}": value for key, value in (vlm or self.vlm.identity).items()},
            **{f"mapper.{key}": value for key, value in self.mapper.identity().items()},
            **{f"proposer.{key}": value for key, value in self.proposer.identity().items()},
            **{f"policy.{key}": value for key, value in self.policy.identity().items()},
            **{f"policy.{i}": str(dict(one.identity())) for i, one in enumerate(self.alternatives, 2)},
            **{f"judge.{key}": value for metric in judged.values() for key, value in metric.identity().items()},
            **{
                f"metrics.{name}.{key}": value
                for name, metric in self.metrics.items()
                if name not in judged
                for key, value in metric.identity().items()
            },
        }

    def details(self) -> dict[str, dict[str, dict[str, str]]]:
        """Returns what the hashes of the splits in the identity stand for: the content and label of each image."""
        splits = (("tuning images", self.splits.tuning), ("held-out images", self.splits.heldout))
        return {
            name: {e.id: {"content": e.sha256[:16], "label": "/".join(self.taxonomy.path(e.target))} for e in examples}
            for name, examples in splits
        }


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=False, default=list).encode()).hexdigest()[:16]
