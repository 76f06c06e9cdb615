"""An experiment: a recipe, with objects in place of some of its parts; each part is built when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taxtune.answers.targets import TARGETS, make_information
from taxtune.data import Example, load_examples
from taxtune.data.context import Variable, blank
from taxtune.data.sources import Source
from taxtune.data.splits import Splits, split, split_sizes
from taxtune.errors import ModelError, RecipeError, TaxtuneError, TemplateError
from taxtune.fieldguide import MANIFEST_FILE
from taxtune.metrics.hierarchical import score
from taxtune.metrics.information import Information, information_scores
from taxtune.models.names import PLUGINS, ModelName, parse_model
from taxtune.plugins import plugin_names
from taxtune.policies import Policy, Posterior, SelfConsistency, Single
from taxtune.policies.allowed import Checklist, read_checklist
from taxtune.progress import note
from taxtune.recipe import Recipe
from taxtune.settings import (
    SPREAD,
    ContextSettings,
    FieldGuideData,
    FolderData,
    FragmentsProposerSettings,
    INat21Data,
    LocalVLMSettings,
    ManifestData,
    PolicySettings,
    PromptSettings,
)
from taxtune.tables import column_key
from taxtune.taxonomy import Domain, Taxonomy, read_taxonomy, restrict
from taxtune.tuning.asker import Asker
from taxtune.tuning.context import Known, describe_variables, make_context
from taxtune.tuning.evaluation import Evaluator
from taxtune.tuning.leaks import group_names
from taxtune.tuning.metrics import MeasureMetric, Metric
from taxtune.tuning.objective import Aims, Objective, asks_a_model, make_objective, read_floor
from taxtune.tuning.proposers import Goal, Proposer
from taxtune.tuning.proposers.evidence import GRADED, measures_of
from taxtune.tuning.selection import Rung, most_questions, rungs
from taxtune.tuning.template import check_template, labels_said, render, variables_of
from taxtune.tuning.thresholds import CrossFit, can_choose

if TYPE_CHECKING:
    from taxtune.mapping import Mapper
    from taxtune.models import AnswerStore, Model
    from taxtune.models.arbiter import ChatArbiter

__all__ = ["AnyObjective", "Experiment", "policy_of", "temperature_of", "template_variables"]

AnyObjective = Objective | Callable[..., float] | str

# What a recipe says of images and trees that holds for those given in their place, too.
_KEPT = {"tuning", "heldout", "block", "context", "root", "domain", "frequencies", "allowed"}


def template_variables(prompt: PromptSettings) -> dict[str, object]:
    """Returns the variables of a template."""
    return {
        "question": prompt.question,
        "domain": prompt.domain,
        "ranks": list(prompt.ranks),
        "examples": list(prompt.examples),
    }


def policy_of(settings: PolicySettings) -> Policy:
    """Returns the policy of a recipe."""
    if settings.kind == "posterior":
        return Posterior(settings.threshold, settings.names)
    if settings.samples == 1:
        return Single()
    policy = SelfConsistency(settings.samples)
    return policy if settings.threshold is None else policy.with_threshold(settings.threshold)


def temperature_of(recipe: Recipe) -> float | None:
    """Returns the temperature of the model; self-consistency needs answers that differ: 1 where that is 0."""
    own = recipe.vlm.temperature
    return 1.0 if recipe.policy.samples > 1 and own == 0 else own


class Experiment:
    """Everything that a tuning run is about.

    Args:
        recipe: The recipe.
        folder: Where a run writes; a judge's replies are kept there too.
        vlm: A model in place of the recipe's; likewise the next four, of which `taxonomy` is a whole label tree.
        mapper: What places answers.
        policy: What makes one node of several answers.
        proposer: What makes templates.
        taxonomy: The label tree.
        examples: Labelled images in place of the recipe's data.
        metrics: Further metrics of each answer, by name.
    """

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        *,
        vlm: Model | None = None,
        mapper: Mapper | None = None,
        policy: Policy | None = None,
        proposer: Proposer | None = None,
        taxonomy: Taxonomy | None = None,
        examples: Source | None = None,
        metrics: Mapping[str, Metric] | None = None,
    ) -> None:
        self.recipe, self.folder, self.own_metrics = recipe, folder, dict(metrics or {})
        self._objective: AnyObjective | None = None
        self.policy = policy or policy_of(recipe.policy)
        # The most templates after the baseline, and what the run may spend.
        self.iterations, self.budget = recipe.limits(self.policy.samples)
        objects = {
            "taxonomy": taxonomy,
            "data": examples,
            "vlm": vlm,
            "mapper": mapper,
            "proposer": proposer,
        }
        objects["policy"] = policy
        self.given: dict[str, Any] = {
            group: one for group, one in objects.items() if one is not None
        }
        named = {
            "full_taxonomy" if group == "taxonomy" else group: one
            for group, one in self.given.items()
        }
        self.__dict__ |= named  # what is given needs no building

    def tuned_for(self, objective: AnyObjective | None = None) -> Experiment:
        """Returns the experiment with all parts built, tuned for an objective, or for its own."""
        _ = self.splits, self.vlm, self.mapper, self.proposer, self.weights
        other = copy(self)  # which shares what is built
        if objective is not None:
            other._objective = objective
            for name in ("objective", "metrics", "forbidden", "_described", "stages"):
                other.__dict__.pop(name, None)
        _ = other.metrics
        return other

    @cached_property
    def full_taxonomy(self) -> Taxonomy:
        """The whole label tree."""
        path = self.recipe.taxonomy.path
        source = path if path.startswith("builtin:") else self.recipe.path(path)
        return read_taxonomy(
            source, names=path != "builtin:fieldguide"
        )  # whose tree brings its own

    @cached_property
    def part(self) -> Domain | None:
        """The part of the tree that the recipe's `taxonomy.root` restricts everything to; None for the whole."""
        root = self.recipe.taxonomy.root
        return None if root is None else restrict(self.full_taxonomy, root)

    @property
    def taxonomy(self) -> Taxonomy:
        """The label tree that is scored on, restricted to `taxonomy.root` where the recipe says so."""
        return self.full_taxonomy if self.part is None else self.part.tree

    @property
    def examples(self) -> Sequence[Example]:
        """Every labelled image below the domain."""
        return self._images[1]

    @property
    def context(self) -> tuple[Variable, ...]:
        """What templates may know of each image."""
        return self._images[0] if self._known else ()

    @cached_property
    def _images(self) -> tuple[tuple[Variable, ...], Sequence[Example]]:
        examples = self._loaded()
        source = (
            "the data" if "data" in self.given else getattr(self.recipe.data, "path", "the data")
        )
        return (
            make_context(examples, self._known, self.taxonomy, source)
            if self._known
            else ((), examples)
        )

    @property
    def _known(self) -> ContextSettings | None:
        """What templates may know, with the path of a file; None for nothing."""
        settings = self.recipe.data.context
        path = settings.candidates and str(self.recipe.path(settings.candidates))
        return (
            settings.model_copy(update={"candidates": path}) if settings.columns or path else None
        )

    def further(self, source: Source) -> list[Example]:
        """Returns further labelled images, with what the run's templates may know of them."""
        columns, folder = self.recipe.data.context.columns, self.folder / "images"
        found = load_examples(source, self.taxonomy, folder=folder, part=self.part, columns=columns)
        return (
            make_context(found, self._known, self.taxonomy, str(source), self.context)[1]
            if self._known
            else found
        )

    def _loaded(self) -> Sequence[Example]:
        """Returns the images with the cells that are wanted of them."""
        data, recipe = self.recipe.data, self.recipe
        below: dict[str, Any] = {
            "domain": None if recipe.taxonomy.domain is None else self.domain,
            "part": self.part,
        }
        below["columns"] = data.context.columns
        if "data" in self.given:
            return load_examples(
                self.given["data"], self.taxonomy, folder=self.folder / "images", **below
            )
        if isinstance(data, FieldGuideData):
            examples = load_examples(MANIFEST_FILE, self.taxonomy, kind="manifest", **below)
            # Numbered in the order in which they were drawn.
            return [example for example in examples if int(example.image.stem) < data.count]
        how: dict[str, Any] = {"kind": data.kind, **below}
        if isinstance(data, ManifestData):
            how |= data.model_dump(include={"image_column", "label_column", "pattern"})
        if isinstance(data, ManifestData | INat21Data) and data.images is not None:
            how["images"] = recipe.path(data.images)
        if isinstance(data, ManifestData | FolderData):
            how["skip_broken"] = data.skip_broken
        return load_examples(recipe.path(data.path), self.taxonomy, **how)

    @cached_property
    def splits(self) -> Splits:
        """The tuning and held-out splits, disjoint by image content; every image in them is readable."""
        tuning, heldout = self.sizes
        return split(self.examples, tuning=tuning, heldout=heldout, seed=self.recipe.seed)

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
        """The nodes' weights: by the share of leaves, or by the frequencies that the recipe gives."""
        given = self.recipe.taxonomy.frequencies
        source = given if given is None or given == TARGETS else self.recipe.path(given)
        targets = [example.target for example in self.splits.tuning] if given == TARGETS else []
        return make_information(self.taxonomy, source, targets=targets, part=self.part)

    @cached_property
    def allowed(self) -> Checklist | None:
        """What may occur where and when; None where anything may."""
        path, source = self.recipe.taxonomy.allowed, self.recipe.source
        if path is None:
            return None
        checklist = read_checklist(self.recipe.path(path), self.taxonomy, part=self.part)
        known = {
            column_key(column.removeprefix("exif:")) for column in self.recipe.data.context.columns
        }
        if missing := ", ".join(name for name in checklist.variables if name not in known):
            remedy = f"Name these columns of the data: data: {{context: [{missing}]}}; the month may be exif:month."
            raise RecipeError(
                f"The checklist goes by {missing}, which images lack.", file=source, remedy=remedy
            )
        return checklist

    def allowed_notes(self) -> list[str]:
        """Returns notes on images of the splits whose truth the checklist lacks, and whose place."""
        both = (*self.splits.tuning, *self.splits.heldout)
        return (
            self.allowed.notes([e.target for e in both], [e.context for e in both])
            if self.allowed
            else []
        )

    @cached_property
    def trivial(self) -> tuple[float, float]:
        """HP and hR of always answering the domain's root on the tuning split."""
        target = np.array([example.target for example in self.splits.tuning])
        scores = score(self.taxonomy, np.full_like(target, self.domain), target)
        return scores.hp, scores.hr

    @property
    def variables(self) -> dict[str, object]:
        """What a template may refer to, whatever the image."""
        return template_variables(self.recipe.prompt)

    @cached_property
    def samples(self) -> tuple[Mapping[str, object], ...]:
        """What templates render with: the variables of each image of the splits, the same ones once."""
        if not self.context:
            return (self.variables,)
        contexts = {repr(e.context): e.context for e in (*self.splits.tuning, *self.splits.heldout)}
        return tuple({**self.variables, **values} for values in contexts.values())

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The settings, as nested plain values, for the record."""
        settings, objective = self.recipe.settings(), self.objective
        for group, one in self.given.items():  # the identity says what it is
            kept = {key: value for key, value in settings[group].items() if key in _KEPT}
            settings[group] = {"kind": "python", **kept}
            if group == "taxonomy" and one.source:
                settings[group] = {"path": str(one.source), **kept}
            elif group == "data":
                named = isinstance(one, str | Path)
                settings[group]["path"] = (
                    str(one) if named else f"{len(self.examples)} images given in Python"
                )
        if self.recipe.source is None:  # made in Python, where objectives are free
            settings["objective"] = {"kind": objective.name, **objective.identity()}
        return settings

    @cached_property
    def objective(self) -> Objective:
        """What makes one template better than another."""
        return self.make_objective(
            self.recipe.objective.kind if self._objective is None else self._objective
        )

    def make_objective(self, objective: AnyObjective) -> Objective:
        """Returns an objective on the tuning split."""
        s = self.recipe.objective
        aims = Aims(
            hr_floor=read_floor(s.hr_floor), hp_target=s.hp_target, confidence=s.confidence_level
        )
        return make_objective(objective, aims=aims, metrics=tuple(self.own_metrics))

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """Further metrics of each answer, by name: the run's own, and those that the objective needs."""
        needed = [name for name in self.objective.needs if name not in self.own_metrics]
        return {**self.own_metrics, **{name: self.measure(name) for name in needed}}

    def measure(self, name: str) -> MeasureMetric:
        """Returns a measure that an objective needs; the recipe's judge rates, where a language model is to."""
        from taxtune.metrics.registry import MeasureSettings, make_measure
        from taxtune.models import ModelSettings

        recipe, called, judge = self.recipe, name, None
        if asks_a_model(name):
            if recipe.judge is None:
                raise RecipeError(
                    f"The objective {name!r} needs a judge, but the recipe does not name one.",
                    file=recipe.source,
                    remedy="Add judge: {model: openai/gpt-4o-mini}, or --set judge.model=...",
                )
            by = self._llm(recipe.judge.model)
            called, base = f"{name}:{by}", recipe.access("judge")
            judge = ModelSettings(
                task="text-generation", max_tokens=256, api_base=base, temperature=0.0
            )
        made = make_measure(called, MeasureSettings(cache_dir=self.folder, judge=judge))
        return MeasureMetric(name, made, self.taxonomy, recipe.prompt.question)

    @cached_property
    def stages(self) -> tuple[Rung, ...]:
        """The rounds of the race: how many templates are asked about how many of the tuning images."""
        return self.race_of(self.objective)[0]

    def race_of(self, objective: AnyObjective) -> tuple[tuple[Rung, ...], int]:
        """Returns the rounds of the race for an objective and the most images that it asks about."""
        made, tuning = self.make_objective(objective), self.sizes[0]
        calls = self.budget.vlm_calls
        images = None if calls is None else calls // self.policy.samples
        block = min(self.recipe.data.block or tuning, tuning)
        stages = rungs(
            block, tuning, self.iterations + 1, images, always=int(made.held_to_baseline)
        )
        return stages, most_questions(made, stages)

    @cached_property
    def vlm(self) -> Model:
        """The vision-language model; weights are loaded at the first question."""
        from taxtune.execution import deploy
        from taxtune.models import ModelSettings, RetryPolicy

        recipe, s, temperature = self.recipe, self.recipe.vlm, temperature_of(self.recipe)
        if isinstance(s, LocalVLMSettings):
            shared = s.model_dump(exclude={"kind", "model", "temperature"})
            if s.device in SPREAD:
                shared |= {"device": "auto", "device_map": s.device}
            settings = ModelSettings(**shared, temperature=temperature, seed=recipe.seed)
            return deploy(str(ModelName("local", self._checkpoint(s))), settings, recipe.execution)
        plugin = s.model.partition(":")[0] in plugin_names(PLUGINS)
        settings = ModelSettings(
            api_base=recipe.access("vlm"),
            concurrency=s.concurrency,
            max_tokens=s.max_tokens,
            temperature=temperature,
            reasoning_effort=s.reasoning_effort,
            extra=s.extra,
            # A package's model that draws nothing at random need not take a seed.
            seed=0 if temperature == 0 else recipe.seed,
            retry=RetryPolicy(max_retries=s.max_retries, timeout=s.timeout),
        )
        return deploy(
            s.model if plugin else str(ModelName("api", s.model)), settings, recipe.execution
        )

    def _llm(self, name: str) -> ModelName:
        """Returns the language model that a name of the recipe means: one on this machine is a path of the recipe."""
        kind, model = parse_model(name)
        path = self.recipe.path(model) if kind == "local" and model else None
        return ModelName(kind, model if path is None or not path.exists() else str(path))

    def _checkpoint(self, settings: LocalVLMSettings) -> str:
        """Returns a folder of the recipe, or else a name on the hub or of a model that comes with taxtune."""
        path = self.recipe.path(settings.model)
        return str(path) if path.is_dir() else settings.model

    @cached_property
    def mapper(self) -> Mapper:
        """What places answers on the tree."""
        from taxtune.mapping import Mapper, MapperConfig
        from taxtune.mapping.similarity import make_similarity

        s = self.recipe.mapper
        config = MapperConfig(preset=s.preset, off_tree=s.off_tree)
        return Mapper(self.taxonomy, make_similarity(s.similarity), config, arbiter=self.arbiter)

    @cached_property
    def arbiter(self) -> ChatArbiter | None:
        """The chat model that is asked about doubtful placements, if any."""
        if self.recipe.mapper.arbiter is None:
            return None
        from taxtune.models.arbiter import ChatArbiter

        self.recipe.access("mapper")
        return ChatArbiter(str(self._llm(self.recipe.mapper.arbiter)))

    @cached_property
    def proposer(self) -> Proposer:
        """What makes the templates."""
        from taxtune.tuning.proposers.agent import AgentProposer
        from taxtune.tuning.proposers.fragments import FragmentsProposer, RandomProposer
        from taxtune.tuning.proposers.llm import LLMProposer

        s = self.recipe.proposer
        if isinstance(s, FragmentsProposerSettings):
            path = self.recipe.path(s.fragments)
            fragments = path if path.is_file() else s.fragments
            known = self.context
            return (
                FragmentsProposer(fragments, known)
                if s.kind == "fragments"
                else RandomProposer(fragments, known)
            )
        shared: dict[str, Any] = {
            "api_base": self.recipe.access("proposer"),
            "max_tokens": s.max_tokens,
        }
        shared["pictures"] = s.pictures
        if s.kind == "agent":
            return AgentProposer(s.model, **shared)
        if not s.evidence:  # scores alone leave room for all past templates
            shared["max_history_tokens"] = 10_000
        return LLMProposer(s.model, evidence=s.evidence, **shared)

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
        prompt = self.recipe.prompt
        groups = group_names(
            self.taxonomy,
            self.domain,
            [example.target for example in self.splits.tuning],
            [example.target for example in self.splits.heldout],
            own=(prompt.baseline, prompt.question, prompt.domain, *prompt.ranks, *prompt.examples),
        )
        return tuple(dict.fromkeys((*self.labels, *groups)))

    def prompt(self, template: str) -> str:
        """Returns the prompt of a template; the template where images have prompts of their own."""
        return (
            template
            if variables_of(template, blank(self.context))
            else render(template, self.variables)
        )

    def check(self, template: str, earlier: tuple[str, ...] = ()) -> None:
        """Checks a template that a proposer wrote; a `TemplateError` has a reason fit for the proposer."""
        check_template(
            template, earlier=earlier, forbidden_labels=self.forbidden, samples=self.samples
        )

    def baseline_notes(self) -> list[str]:
        """Returns notes on the template that the run begins with; an error names the recipe and the key."""
        source = self.recipe.source
        try:
            return self.own_notes(self.recipe.prompt.baseline, "The baseline")
        except TemplateError as error:
            key = "baseline" if source is None else "prompt.baseline"
            raise TemplateError(
                f"{key}: {error.message}", file=source, remedy=error.remedy
            ) from None

    def own_notes(self, template: str, name: str) -> list[str]:
        """Checks a template that the user wrote, which may list the labels; returns a note if it does."""
        check_template(template, samples=self.samples)
        prompts = [render(template, variables) for variables in self.samples]
        listed = labels_said(template, prompts, self.samples, self.labels)
        if not listed:
            return []
        more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
        names = ", ".join(map(repr, listed[:3]))
        return [
            f"{name} has labels in the prompt ({names}{more}): its results hold for this list of labels."
        ]

    @cached_property
    def _described(self) -> tuple[Known, ...]:
        return describe_variables(self.context, self.splits.tuning, self.forbidden)

    def goal(self) -> Goal:
        """Returns the goal as the proposer sees it."""
        target = np.array([example.target for example in self.splits.tuning])
        bits, prompt = (
            information_scores(self.weights, np.full_like(target, self.domain), target),
            self.recipe.prompt,
        )
        return Goal(
            objective=self.objective,
            trivial_hp=self.trivial[0],
            trivial_hr=self.trivial[1],
            domain=prompt.domain,
            question=prompt.question,
            ranks=list(prompt.ranks),
            tuning_images=self.stages[0].images,
            off_tree=self.mapper.config.off_tree,
            trivial_ihp=bits.ihp,
            trivial_ihr=bits.ihr,
            examples=tuple(prompt.examples),
            taxonomy=self.taxonomy,
            domain_node=self.domain,
            context=self._described,
            images={example.id: example.image for example in self.splits.tuning},
        )

    def check_reachable(self) -> None:
        """Checks that the checkpoint of a model on this machine is here or can be fetched, without importing torch."""
        from taxtune.models.checkpoint import check_reachable

        s = self.recipe.vlm
        if "vlm" not in self.given and isinstance(s, LocalVLMSettings):
            check_reachable(self._checkpoint(s), s.revision)

    def check_models(self) -> None:
        """Checks that the model, the proposer and the measures can be asked, before that costs."""
        policy, calls = f"The policy {self.policy.identity()['kind']!r}", self.policy.samples
        if calls > 1 and self.vlm.identity.get("temperature") == 0:
            raise ModelError(
                f"{policy} asks {calls} times about an image, but the model decodes greedily and repeats itself.",
                remedy="Set vlm.temperature to 1.",
            )
        measured = [
            name for name, metric in self.metrics.items() if isinstance(metric, MeasureMetric)
        ]
        if measured and not self.policy.keeps_text:
            raise TaxtuneError(
                f"{policy} makes a node of more than one answer, which leaves no text for {' and '.join(measured)}.",
                remedy="Tune for hp, hr_at_hp, accuracy or another score of nodes, or leave out the policy.",
            )
        if self.policy.is_open and not can_choose(self.objective):
            raise TaxtuneError(
                "A threshold cannot be chosen for an objective that is held to the baseline's scores, or that needs "
                "more than where the answers are placed.",
                value=self.objective.name,
                remedy="Set policy.threshold, such as 0.9; or objective.hr_floor to a number, where there is one.",
            )
        for each in (
            self.vlm,
            self.proposer,
            getattr(self.mapper, "arbiter", None),
            *self.metrics.values(),
        ):
            for text in (
                getattr(each, "check", tuple)() or ()
            ):  # an object of the user's need not have it
                note(text)
