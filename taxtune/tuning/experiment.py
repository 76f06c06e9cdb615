"""An experiment: a recipe, with objects in place of some of its parts; each part is built when it is first needed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taxtune.answers.frequencies import TARGETS, make_information
from taxtune.data import Example, load_examples
from taxtune.data.sources import Source
from taxtune.data.splits import Splits, split, split_sizes
from taxtune.errors import ModelError, TaxtuneError, TemplateError
from taxtune.metrics.hierarchical import score
from taxtune.metrics.information import Information, information_scores
from taxtune.policies import Vote
from taxtune.progress import note
from taxtune.recipe import Recipe
from taxtune.settings import BudgetSettings, LocalVLMSettings, PromptSettings
from taxtune.taxonomy import Domain, Taxonomy, restrict
from taxtune.tuning import from_recipe
from taxtune.tuning.evaluation import Evaluator
from taxtune.tuning.leaks import group_names
from taxtune.tuning.metrics import MeasureMetric, Metric
from taxtune.tuning.objective import Aims, Objective, make_objective, read_floor
from taxtune.tuning.proposers import Goal, Proposer
from taxtune.tuning.proposers.evidence import GRADED, measures_of
from taxtune.tuning.run_folder import check_folder_is_for, check_unused
from taxtune.tuning.selection import Round, most_questions, rounds
from taxtune.tuning.template import check_template, labels_said, render

if TYPE_CHECKING:
    from taxtune.mapping import Mapper
    from taxtune.models import AnswerStore, Model

__all__ = ["AnyObjective", "Experiment", "template_variables"]

AnyObjective = Objective | Callable[..., float] | str

# Settings that a resumed run may change: they alter how the work is done, or how much of it, but not the result; and
# `max_missing`, `max_off_tree` and `proposer.max_tokens`, since a run that stops for one says to raise it.
_FREE = (
    "budget.",
    "description",
    "effort",
    "execution.",
    "iterations",
    "judge",  # what of it can change a rating is in the identity of a run that asks it
    "max_missing",
    "max_off_tree",
    "policy.",  # what of it can change a place is in the policy's identity and the model's
    "objective.kind",  # a comparison runs a recipe with several; each run's own kind is in the identity
    "proposer.max_tokens",
    "seed",  # the part that counts is added
    "tracking.",
    "vlm.batch_size",
    "vlm.concurrency",
    "vlm.max_retries",
)
# What a recipe says of images and trees that holds for those given in their place, too.
_KEPT = {"tuning", "heldout", "block", "root", "domain", "frequencies"}


def template_variables(prompt: PromptSettings) -> dict[str, object]:
    """Returns the variables of a template."""
    return {
        "question": prompt.question,
        "domain": prompt.domain,
        "ranks": list(prompt.ranks),
        "examples": list(prompt.examples),
    }


class Experiment:
    """Everything that a tuning run is about.

    Args:
        recipe: The recipe.
        folder: Where a run writes; a judge's replies are kept there too.
        objective: An objective in place of the recipe's.
        vlm: A model in place of the recipe's.
        mapper: A mapper in place of the recipe's.
        policy: A policy in place of the recipe's.
        proposer: A proposer in place of the recipe's.
        taxonomy: A whole label tree in place of the recipe's.
        examples: Labelled images in place of the recipe's.
        metrics: Further metrics of each answer, by name.
    """

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        objective: AnyObjective | None = None,
        *,
        vlm: Model | None = None,
        mapper: Mapper | None = None,
        policy: Vote | None = None,
        proposer: Proposer | None = None,
        taxonomy: Taxonomy | None = None,
        examples: Source | None = None,
        metrics: Mapping[str, Metric] | None = None,
    ) -> None:
        self.recipe, self.folder = recipe, folder
        self.own_metrics = dict(metrics or {})
        self._objective = objective
        given = {
            "taxonomy": taxonomy,
            "data": examples,
            "vlm": vlm,
            "mapper": mapper,
            "policy": policy,
            "proposer": proposer,
        }
        self.given: dict[str, Any] = {group: one for group, one in given.items() if one is not None}

    def tuned_for(self, objective: AnyObjective | None = None) -> Experiment:
        """Returns the experiment with all parts built, tuned for an objective, or for its own.

        Raises:
            TaxtuneError: If a part is missing or wrong.
        """
        _ = self.splits, self.vlm, self.mapper, self.proposer, self.weights
        other = copy(self)  # which shares what is built
        if objective is not None:
            other._objective = objective
            for name in ("objective", "metrics", "forbidden", "stages"):
                other.__dict__.pop(name, None)
        _ = other.metrics
        return other

    # -- data ----------------------------------------------------------------------------------------------------------

    @cached_property
    def full_taxonomy(self) -> Taxonomy:
        """The whole label tree."""
        tree: Taxonomy | None = self.given.get("taxonomy")
        return from_recipe.taxonomy_of(self.recipe) if tree is None else tree

    @cached_property
    def part(self) -> Domain | None:
        """The part of the tree that the recipe's `taxonomy.root` restricts everything to; None for the whole."""
        root = self.recipe.taxonomy.root
        return None if root is None else restrict(self.full_taxonomy, root)

    @property
    def taxonomy(self) -> Taxonomy:
        """The label tree that is scored on, restricted to `taxonomy.root` where the recipe says so."""
        return self.full_taxonomy if self.part is None else self.part.tree

    @cached_property
    def examples(self) -> Sequence[Example]:
        """Every labelled image below the domain."""
        domain = None if self.recipe.taxonomy.domain is None else self.domain
        if "data" not in self.given:
            return from_recipe.examples_of(self.recipe, self.taxonomy, domain=domain, part=self.part)
        folder = self.folder / "images"
        return load_examples(self.given["data"], self.taxonomy, folder=folder, domain=domain, part=self.part)

    @cached_property
    def splits(self) -> Splits:
        """The tuning and held-out splits, disjoint by image content; every image in them is readable."""
        tuning, heldout = self.sizes
        return split(self.examples, tuning=tuning, heldout=heldout, seed=self.seed)

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """The sizes of the tuning and the held-out split, for which images are read only where the recipe has none."""
        tuning, heldout = self.recipe.data.tuning, self.recipe.data.heldout
        if tuning is not None and heldout is not None:
            return tuning, heldout
        try:
            return split_sizes(len(self.examples), tuning, heldout)
        except TaxtuneError:  # what is wrong with the images is told where they are needed
            return split_sizes(1000, tuning, heldout)

    @cached_property
    def domain(self) -> int:
        """The node of the trivial answer: the recipe's, or the lowest node above every example's label."""
        if self.recipe.taxonomy.domain is not None:
            return self.taxonomy.resolve(self.recipe.taxonomy.domain)
        return self.taxonomy.common_ancestor({example.target for example in self.examples})

    @cached_property
    def weights(self) -> Information:
        """The nodes' weights: by the share of leaves, or by the frequencies that the recipe gives.

        Raises:
            DataError: If the frequencies cannot be used.
        """
        settings = self.recipe.taxonomy
        given = settings.frequencies
        return make_information(
            self.taxonomy,
            given if given is None or given == TARGETS else self.recipe.path(given),
            targets=[] if given != TARGETS else [example.target for example in self.splits.tuning],
            part=self.part,
        )

    @cached_property
    def trivial(self) -> tuple[float, float]:
        """HP and hR of always answering the domain's root on the tuning split."""
        target = np.array([example.target for example in self.splits.tuning])
        scores = score(self.taxonomy, np.full_like(target, self.domain), target)
        return scores.hp, scores.hr

    # -- settings ------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Names the MLflow runs and the registered prompt."""
        return self.recipe.name

    @property
    def source(self) -> Path | None:
        """The recipe's file."""
        return self.recipe.source

    @property
    def prompt(self) -> PromptSettings:
        """The baseline, and what templates may refer to."""
        return self.recipe.prompt

    @property
    def seed(self) -> int:
        """Seed of the splits, the proposer, the model and the bootstrap."""
        return self.recipe.seed

    @property
    def iterations(self) -> int:
        """Templates to try after the baseline, at most."""
        return self.recipe.limits(self.policy.samples)[0]

    @property
    def budget(self) -> BudgetSettings:
        """What the run may spend."""
        return self.recipe.limits(self.policy.samples)[1]

    @property
    def off_tree(self) -> str:
        """How an answer off the tree is scored: "child" (of the root, never right) or "root"."""
        return self.mapper.config.off_tree

    @property
    def variables(self) -> dict[str, object]:
        """What a template may refer to."""
        return template_variables(self.prompt)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The settings, as nested plain values, for the record."""
        replaced, objective = self._replaced, self.objective
        settings = {
            group: replaced[group] | {key: value[key] for key in _KEPT & set(value)} if group in replaced else value
            for group, value in self.recipe.settings().items()
        }
        if self.source is None:  # made in Python, where objectives are free
            settings["objective"] = {"kind": objective.name, **objective.identity()}
        return settings

    @property
    def _replaced(self) -> dict[str, dict[str, Any]]:
        """The groups of the recipe that an object replaces, with their record; the identity says what it is."""
        replaced: dict[str, dict[str, Any]] = {group: {"kind": "python"} for group in self.given}
        tree, data = self.given.get("taxonomy"), self.given.get("data")
        if tree is not None and tree.source:
            replaced["taxonomy"] = {"path": str(tree.source)}
        if data is not None:
            named = isinstance(data, str | Path)
            replaced["data"]["path"] = str(data) if named else f"{len(self.examples)} images given in Python"
        return replaced

    # -- what is tuned for ---------------------------------------------------------------------------------------------

    @cached_property
    def objective(self) -> Objective:
        """What makes one template better than another."""
        return self.make_objective(self.recipe.objective.kind if self._objective is None else self._objective)

    def make_objective(self, objective: AnyObjective) -> Objective:
        """Returns an objective on the tuning split.

        Raises:
            TaxtuneError: If there is none of this name.
        """
        s = self.recipe.objective
        aims = Aims(hr_floor=read_floor(s.hr_floor), hp_target=s.hp_target, confidence=s.confidence_level)
        return make_objective(objective, aims=aims, metrics=tuple(self.own_metrics))

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """Further metrics of each answer, by name: the run's own, and those that the objective needs."""
        needed = [name for name in self.objective.needs if name not in self.own_metrics]
        return {**self.own_metrics, **{name: self.measure(name) for name in needed}}

    def measure(self, name: str) -> MeasureMetric:
        """Returns the measure that an objective needs; see `taxtune.tuning.from_recipe.measure_of`."""
        return from_recipe.measure_of(self.recipe, name, self.taxonomy, self.folder)

    @cached_property
    def stages(self) -> tuple[Round, ...]:
        """The rounds of the race: how many templates are asked about how many of the tuning images."""
        return self.race_of(self.objective)[0]

    def race_of(self, objective: AnyObjective) -> tuple[tuple[Round, ...], int]:
        """Returns the rounds of the race for an objective and the most images that it asks about.

        Raises:
            TaxtuneError: If there is no such objective.
        """
        made, tuning = self.make_objective(objective), self.sizes[0]
        calls = self.budget.vlm_calls
        images = None if calls is None else calls // self.policy.samples
        block = min(self.recipe.data.block or tuning, tuning)
        stages = rounds(block, tuning, self.iterations + 1, images, always=int(made.held_to_baseline))
        return stages, most_questions(made, stages)

    # -- models --------------------------------------------------------------------------------------------------------

    @cached_property
    def vlm(self) -> Model:
        """The vision-language model; weights are loaded at the first question."""
        given: Model | None = self.given.get("vlm")
        return from_recipe.vlm_of(self.recipe) if given is None else given

    @cached_property
    def mapper(self) -> Mapper:
        """What places answers on the tree."""
        given: Mapper | None = self.given.get("mapper")
        return from_recipe.mapper_of(self.recipe, self.taxonomy) if given is None else given

    @cached_property
    def proposer(self) -> Proposer:
        """What makes the templates."""
        given: Proposer | None = self.given.get("proposer")
        return from_recipe.proposer_of(self.recipe) if given is None else given

    @property
    def policy(self) -> Vote:
        """How often an image is asked about, and how the answers make one node."""
        given: Vote | None = self.given.get("policy")
        return from_recipe.policy_of(self.recipe) if given is None else given

    def evaluator(self, store: AnswerStore | None) -> Evaluator:
        """Returns the evaluator, which asks and scores a template."""
        return Evaluator(
            self.taxonomy,
            self.vlm,
            self.mapper,
            store=store,
            variables=self.variables,
            off_tree=self.off_tree,
            information=self.weights,
            metrics=tuple(self.metrics.values()),
            needs=self.objective.needs,
            policy=self.policy,
        )

    # -- templates -----------------------------------------------------------------------------------------------------

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Names of the tuning images' labels, but for the domain's own, which every template may say."""
        targets = {example.target for example in self.splits.tuning} - {self.domain}
        return tuple(sorted({name for target in targets for name in self.taxonomy.names(target)}))

    @cached_property
    def forbidden(self) -> tuple[str, ...]:
        """Names that a template must not give away: of the tuning images' labels, and of groups that earn credit."""
        if GRADED.isdisjoint(measures_of(self.objective)):
            return self.labels
        prompt = self.prompt
        groups = group_names(
            self.taxonomy,
            self.domain,
            [example.target for example in self.splits.tuning],
            [example.target for example in self.splits.heldout],
            own=(prompt.baseline, prompt.question, prompt.domain, *prompt.ranks, *prompt.examples),
        )
        return tuple(dict.fromkeys((*self.labels, *groups)))

    def check(self, template: str, earlier: tuple[str, ...] = ()) -> None:
        """Checks a template that a proposer wrote.

        Raises:
            TemplateError: With a reason fit for the proposer.
        """
        check_template(template, earlier=earlier, forbidden_labels=self.forbidden, sample=self.variables)

    def check_own(self, template: str, name: str) -> None:
        """Checks a template that the user wrote, which may list the labels; notes that it does.

        Args:
            template: The Jinja source.
            name: Its name.

        Raises:
            TemplateError: If it cannot be used.
        """
        for text in self._own_notes(template, f"The template {name!r}"):
            note(text)

    def baseline_notes(self) -> list[str]:
        """Returns notes for the user on the template that the run begins with.

        Raises:
            TemplateError: If it cannot be used, naming the recipe, where there is one, and the key.
        """
        try:
            return self._own_notes(self.prompt.baseline, "The baseline")
        except TemplateError as error:
            key = "baseline" if self.source is None else "prompt.baseline"
            raise TemplateError(f"{key}: {error.message}", file=self.source, remedy=error.remedy) from None

    def _own_notes(self, template: str, name: str) -> list[str]:
        check_template(template, sample=self.variables)
        listed = labels_said(template, render(template, self.variables), self.variables, self.labels)
        if not listed:
            return []
        more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
        names = ", ".join(map(repr, listed[:3]))
        return [f"{name} has labels in the prompt ({names}{more}): its results hold for this list of labels."]

    def goal(self) -> Goal:
        """Returns the goal as the proposer sees it."""
        target = np.array([example.target for example in self.splits.tuning])
        bits = information_scores(self.weights, np.full_like(target, self.domain), target)
        prompt = self.prompt
        return Goal(
            objective=self.objective,
            trivial_hp=self.trivial[0],
            trivial_hr=self.trivial[1],
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

    # -- before it runs, and when it goes on ---------------------------------------------------------------------------

    def check_folder(self, objectives: Sequence[str] = (), *, resume: bool = False) -> None:
        """Checks that the folder is free for a run, or for a comparison of objectives.

        Raises:
            ResumeError: If it is not; with `resume` only if it holds something of another kind.
        """
        check_folder_is_for("compare" if objectives else "tune", self.folder, objectives)
        for folder in () if resume else [self.folder / name for name in objectives] or [self.folder]:
            check_unused(folder)

    def check_reachable(self) -> None:
        """Checks that the checkpoint of a model on this machine is here or can be fetched, without importing torch.

        Raises:
            ModelError: If it is not.
        """
        from taxtune.models.checkpoint import check_reachable

        s = self.recipe.vlm
        if "vlm" not in self.given and isinstance(s, LocalVLMSettings):
            check_reachable(from_recipe.checkpoint_of(self.recipe, s), s.revision)

    def check_models(self) -> None:
        """Checks that the model, the proposer and the measures can be asked, before that costs.

        Raises:
            TaxtuneError: If one cannot: weights, a key or a provider are missing; or the policy takes several answers
                of a model that always gives the same one, or leaves no text to measure.
        """
        kind, calls = self.policy.identity()["kind"], self.policy.samples
        if calls > 1 and self.vlm.identity.get("temperature") == 0:
            raise ModelError(
                f"The policy {kind!r} asks {calls} times about an image, but the model decodes greedily: all answers "
                "would be the same.",
                remedy="Set vlm.temperature to 1.",
            )
        measured = [name for name, metric in self.metrics.items() if isinstance(metric, MeasureMetric)]
        if calls > 1 and measured:
            raise TaxtuneError(
                f"{' and '.join(measured)} would measure the text of an answer, but the policy {kind!r} makes one node "
                f"of {calls} answers.",
                remedy="Tune for hp, hr_at_hp, accuracy or another score of nodes, or set policy.samples to 1.",
            )
        for each in (self.vlm, self.proposer, *self.metrics.values()):
            for text in getattr(each, "check", tuple)() or ():  # an object of the user's need not have it
                note(text)

    def identity(self) -> dict[str, Any]:
        """Returns the settings that must stay the same for a run to be resumed, by dotted key."""
        tree, needs = self.taxonomy, self.objective.needs
        fixed = {
            key: value
            for key, value in self.recipe.flat().items()
            if not key.startswith(_FREE) and key.split(".")[0] not in self.given
        }
        named: dict[str, Mapping[str, Any]] = {
            "recipe": fixed | {"seed": self.seed},
            "vlm": self.vlm.identity,
            "mapper": self.mapper.identity(),
            "proposer": self.proposer.identity(),
            "policy": self.policy.identity(),
        }
        # A judge is known by the name that recipes have for it.
        named |= {
            "judge" if name in needs else f"metrics.{name}": metric.identity() for name, metric in self.metrics.items()
        }
        return {
            **{f"{group}.{key}": value for group, values in named.items() for key, value in values.items()},
            **({} if self.part is None else {"domain root": "/".join(self.full_taxonomy.path(self.part.root))}),
            "objective": self.objective.name,
            **self.objective.identity(),
            "taxonomy": _digest([tree.labels, tree.parents.tolist(), [tree.names(v)[1:] for v in range(len(tree))]]),
            # By the leaves they follow from the taxonomy.
            **({} if self.recipe.taxonomy.frequencies is None else {"weights": _digest(self.weights.weight.tolist())}),
            "tuning images": _digest([(e.sha256, e.target) for e in self.splits.tuning]),
            "held-out images": _digest([(e.sha256, e.target) for e in self.splits.heldout]),
        }


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=False, default=list).encode()).hexdigest()[:16]
