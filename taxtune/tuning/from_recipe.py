"""From a recipe to the objects of an experiment, each built when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.answers.frequencies import TARGETS, make_information
from taxtune.data import Example, load_examples
from taxtune.data.sources import Source
from taxtune.data.splits import Splits, split, split_sizes
from taxtune.errors import RecipeError, TaxtuneError
from taxtune.fieldguide import MANIFEST_FILE
from taxtune.metrics.information import Information
from taxtune.models.names import PLUGINS, ModelName, parse_model
from taxtune.plugins import plugin_names
from taxtune.policies import DIRECT, Policy, Vote
from taxtune.recipe import (
    AgentProposerSettings,
    ExecutionSettings,
    FieldGuideData,
    FolderData,
    FragmentsProposerSettings,
    INat21Data,
    LocalVLMSettings,
    ManifestData,
    RandomProposerSettings,
    Recipe,
    VotePolicySettings,
)
from taxtune.taxonomy import Domain, Taxonomy, read_taxonomy, restrict
from taxtune.tuning.experiment import Experiment, trivial_scores
from taxtune.tuning.history import check_unused, study_name
from taxtune.tuning.metrics import MeasureMetric, Metric
from taxtune.tuning.objective import Aims, Objective, asks_a_model, make_objective, read_floor
from taxtune.tuning.proposers import Proposer
from taxtune.tuning.run_folder import check_folder_is_for
from taxtune.tuning.selection import Round, most_questions, race

if TYPE_CHECKING:
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.metrics.base import MeasureSettings
    from taxtune.models import Model

__all__ = ["Parts"]

# Settings that a resumed run may change: they alter how the work is done, or how much of it, but not what comes out;
# and `max_missing`, `max_off_tree` and `proposer.max_tokens`, since a run that stops for one says to raise it: what is
# void by then stays so.
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
    "proposer.max_retries",
    "proposer.max_tokens",
    "proposer.timeout",
    "seed",  # the part that counts is added
    "storage",
    "tracking.",
    "vlm.batch_size",
    "vlm.concurrency",
    "vlm.device_map",
    "vlm.image_disk_gib",
    "vlm.image_memory_gib",
    "vlm.images_at",
    "vlm.max_retries",
    "vlm.timeout",
)

# What a recipe says of images and trees that holds for those given in their place, too.
_KEPT = {"tuning", "heldout", "block", "root", "domain", "frequencies", "smoothing"}


@dataclass
class Parts:
    """What a recipe asks for, piece by piece, so that `--dry-run` can try each alone.

    Attributes:
        recipe: The recipe.
        folder: Where a run writes; a judge's replies are kept there too.
        vlm: A model in place of the recipe's.
        own_mapper: A mapper in place of the recipe's.
        own_policies: Policies in place of the recipe's.
        own_proposer: A proposer in place of the recipe's.
        own_taxonomy: A whole label tree in place of the recipe's.
        own_examples: Labelled images in place of the recipe's.
        own_metrics: What is taken of each answer besides what the objective needs, by name.
    """

    recipe: Recipe
    folder: Path
    vlm: Model | None = None
    own_mapper: Mapper | None = None
    own_policies: tuple[Policy, ...] = ()
    own_proposer: Proposer | None = None
    own_taxonomy: Taxonomy | None = None
    own_examples: Source | None = None
    own_metrics: Mapping[str, Metric] = field(default_factory=dict)

    def experiment(self, objectives: Sequence[Objective | Callable[..., float] | str] = ()) -> Experiment:
        """Returns the experiment that the recipe describes.

        Args:
            objectives: The objective in place of the recipe's, and those whose measures are wanted besides.

        Raises:
            TaxtuneError: If something of it is missing or wrong.
        """
        recipe, tree, splits = self.recipe, self.taxonomy, self.splits
        names = tuple(objectives) or (recipe.objective.kind,)
        iterations, budget = recipe.limits(self.policy.calls)
        found = [self.objective(name) for name in names]
        needed = dict.fromkeys(name for each in found for name in each.needs if name not in self.own_metrics)
        replaced = self._replaced()
        return Experiment(
            name=recipe.name,
            taxonomy=tree,
            splits=splits,
            vlm=self.model,
            mapper=self.mapper,
            proposer=self.proposer,
            objective=found[0],
            prompt=recipe.prompt,
            domain=self.domain,
            metrics={**self.own_metrics, **{name: self.metric(name) for name in needed}},
            iterations=iterations,
            block=recipe.data.block,
            budget=budget,
            seeds=recipe.seed,
            max_missing=recipe.max_missing,
            max_off_tree=recipe.max_off_tree,
            off_tree=self.mapper.config.off_tree,
            use_images=recipe.mapper.use_images,
            part=self.part,
            policy=self.policy,
            alternatives=self._policies[1:],
            # By the leaves it follows from the tree, and need not be part of a run's identity.
            information=None if recipe.taxonomy.frequencies is None else self.information,
            settings={
                group: replaced[group] | {key: value[key] for key in _KEPT & set(value)} if group in replaced else value
                for group, value in recipe.settings().items()
            },
            fixed={
                key: value
                for key, value in recipe.flat().items()
                if not key.startswith(_FREE) and key.split(".")[0] not in replaced
            }
            | {"seed": recipe.seed.fixed},
            source=recipe.source,
        )

    def _replaced(self) -> dict[str, dict[str, Any]]:
        """Returns the groups of the recipe that an object replaces, with their record; the identity says what it is."""
        tree, data = self.own_taxonomy, self.own_examples
        given = {
            "taxonomy": tree,
            "data": data,
            "vlm": self.vlm,
            "mapper": self.own_mapper,
            "policy": self.own_policies or None,
            "proposer": self.own_proposer,
        }
        found: dict[str, dict[str, Any]] = {name: {"kind": "python"} for name, one in given.items() if one is not None}
        if tree is not None and tree.source:
            found["taxonomy"] = {"path": str(tree.source)}
        if data is not None:
            named = isinstance(data, str | Path)
            found["data"]["path"] = str(data) if named else f"{len(self.examples)} images given in Python"
        return found

    @property
    def storage(self) -> str | None:
        """The database that the history is in; None for a file in the run's folder.

        Raises:
            RecipeError: If its address uses an environment variable that is not set.
        """
        return None if self.recipe.storage is None else self.recipe.expanded(self.recipe.storage)

    def check_folder(self, objectives: Sequence[str] = (), repeats: int | None = None, *, resume: bool = False) -> None:
        """Checks that the folder is free for a run, for a comparison of objectives, or for so many repeats.

        Args:
            objectives: The objectives of a comparison; empty for a run.
            repeats: How many repeats, or None.
            resume: Whether there may be one to go on with, though nothing of another kind.

        Raises:
            ResumeError: If it is not.
        """
        from taxtune.tuning.repeats import repeat_folder, repeat_name

        check_folder_is_for("compare" if objectives else "repeat" if repeats else "tune", self.folder, objectives)
        if resume:
            return
        name, kind = self.recipe.name, self.recipe.objective.kind
        runs = [(self.folder / objective, name, objective) for objective in objectives]
        runs += [(repeat_folder(self.folder, k), repeat_name(name, k), kind) for k in range(repeats or 0)]
        for folder, called, objective in runs or [(self.folder, name, kind)]:
            check_unused(folder, study_name(called, objective, self.storage), self.storage)

    # -- data ----------------------------------------------------------------------------------------------------------

    @cached_property
    def full_taxonomy(self) -> Taxonomy:
        """The whole label tree of the recipe's file."""
        if self.own_taxonomy is not None:
            return self.own_taxonomy
        settings = self.recipe.taxonomy
        path = settings.path if settings.path.startswith("builtin:") else self.recipe.path(settings.path)
        return read_taxonomy(
            path,
            format=settings.format,
            names=settings.english_names,
            root_label=settings.root_label,
        )

    @cached_property
    def part(self) -> Domain | None:
        """The part of the tree that the recipe's `taxonomy.root` restricts everything to; None for the whole."""
        root = self.recipe.taxonomy.root
        return None if root is None else restrict(self.full_taxonomy, root)

    @property
    def taxonomy(self) -> Taxonomy:
        """The label tree, restricted to `taxonomy.root` where the recipe says so."""
        return self.full_taxonomy if self.part is None else self.part.tree

    @cached_property
    def examples(self) -> Sequence[Example]:
        """Every labelled image below the domain."""
        data = self.recipe.data
        if self.own_examples is not None:
            return load_examples(
                self.own_examples,
                self.taxonomy,
                folder=self.folder / "images",
                domain=None if self.recipe.taxonomy.domain is None else self.domain,
                part=self.part,
            )
        images: Path | None = None
        how: dict[str, Any] = {}
        if isinstance(data, FieldGuideData):
            kind, source = "manifest", MANIFEST_FILE
        else:
            kind, source = data.kind, self.recipe.path(data.path)
        if isinstance(data, ManifestData):
            images = None if data.images is None else self.recipe.path(data.images)
            how = data.model_dump(include={"image_column", "label_column", "pattern", "image_suffix"})
        if isinstance(data, ManifestData | FolderData):
            how["skip_broken"] = data.skip_broken
        if isinstance(data, INat21Data):
            images = self.recipe.path(data.images)
        examples = load_examples(
            source,
            self.taxonomy,
            kind=kind,
            images=images,
            **how,
            domain=None if self.recipe.taxonomy.domain is None else self.domain,
            part=self.part,
        )
        if isinstance(data, FieldGuideData):  # numbered in the order in which they were drawn
            return [example for example in examples if int(example.image.stem) < data.count]
        return examples

    @cached_property
    def splits(self) -> Splits:
        """The tuning and held-out splits, disjoint by image content; every image in them is readable."""
        examples, (tuning, heldout) = self.examples, self.sizes
        return split(examples, tuning=tuning, heldout=heldout, seed=self.recipe.seed.split)

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

    def race(self, what: str) -> tuple[tuple[Round, ...], int]:
        """Returns the rounds of the race for an objective and the most images that it asks about.

        Raises:
            TaxtuneError: If there is no such objective.
        """
        recipe = self.recipe
        iterations, budget = recipe.limits(self.policy.calls)
        calls = budget.vlm_calls
        images = None if calls is None else calls // self.policy.calls
        aims = Aims(hr_floor=read_floor(recipe.objective.hr_floor))
        objective = make_objective(what, aims=aims, metrics=tuple(self.own_metrics))
        stages = race(objective, recipe.data.block, self.sizes[0], iterations + 1, images)
        return stages, most_questions(objective, stages)

    @cached_property
    def domain(self) -> int:
        """The node of the trivial answer: the recipe's, or the lowest node above every example's label."""
        if self.recipe.taxonomy.domain is not None:
            return self.taxonomy.resolve(self.recipe.taxonomy.domain)
        return self.taxonomy.common_ancestor({example.target for example in self.examples})

    @cached_property
    def information(self) -> Information:
        """What the nodes weigh: by the share of leaves, or by the frequencies that the recipe gives.

        Raises:
            DataError: If the frequencies cannot be used.
        """
        settings = self.recipe.taxonomy
        given = settings.frequencies
        return make_information(
            self.taxonomy,
            given if given is None or given == TARGETS else self.recipe.path(given),
            smoothing=settings.smoothing or 0.0,
            targets=[] if given != TARGETS else [example.target for example in self.splits.tuning],
            part=self.part,
        )

    # -- what is tuned for ---------------------------------------------------------------------------------------------

    def objective(self, what: Objective | Callable[..., float] | str) -> Objective:
        """Returns an objective on the recipe's tuning split.

        Raises:
            TaxtuneError: If there is none of this name.
        """
        s = self.recipe.objective
        return make_objective(
            what,
            aims=Aims(
                hr_floor=read_floor(s.hr_floor, trivial_scores(self.taxonomy, self.domain, self.splits)[1]),
                hp_target=s.hp_target,
                confidence=s.confidence_level,
                beta=s.beta,
            ),
            metrics=tuple(self.own_metrics),
        )

    def metric(self, name: str) -> Metric:
        """Returns the measure that an objective needs, asked by the recipe's judge where it asks a language model.

        Raises:
            RecipeError: If it needs a judge and the recipe names none, or the key's environment variable is not set.
            TaxtuneError: If the measure cannot be made.
        """
        from taxtune.metrics.base import MeasureSettings
        from taxtune.metrics.registry import make_measure

        recipe = self.recipe
        if asks_a_model(name):
            spec, settings = self._judge(name)
        else:
            spec, settings = name, MeasureSettings(cache_dir=self.folder)
        return MeasureMetric(name, make_measure(spec, settings), self.taxonomy, recipe.prompt.question)

    def _judge(self, name: str) -> tuple[str, MeasureSettings]:
        from taxtune.metrics.base import MeasureSettings
        from taxtune.models import ModelSettings, RetryPolicy

        recipe, s = self.recipe, self.recipe.judge
        if s is None:
            raise RecipeError(
                f"The objective {name!r} needs a judge, but the recipe does not name one.",
                file=recipe.source,
                remedy="Add judge: {model: openai/gpt-4o-mini}, or --set judge.model=...",
            )
        kind, model = name_of = parse_model(s.model)
        if kind == "local" and model and (path := recipe.path(model)).exists():
            name_of = ModelName(kind, str(path))  # a model on this machine is a path of the recipe
        settings = ModelSettings(
            task="text-generation",
            max_tokens=s.max_tokens,
            **recipe.access("judge"),
            temperature=0.0 if kind == "local" else s.temperature,  # a judge on this machine decodes greedily
            concurrency=s.concurrency,
            retry=RetryPolicy(max_retries=s.max_retries, timeout=s.timeout),
            device=s.device,
            dtype=s.dtype,
            batch_size=s.batch_size,
            device_map=s.device_map,
            quantization=s.quantization,
            revision=s.revision,
        )
        own = [None if p is None else recipe.path(p) for p in (s.demonstrations, s.yes_no_demonstrations)]
        return f"{name}:{name_of}", MeasureSettings(
            cache_dir=self.folder,
            judge=settings,
            demonstrations=own[0],
            yes_no_demonstrations=own[1],
        )

    # -- models --------------------------------------------------------------------------------------------------------

    def check_reachable(self) -> None:
        """Checks that the checkpoint of a model on this machine is here or can be fetched, in the blink of an eye.

        Raises:
            ModelError: If it is not.
        """
        from taxtune.models.checkpoint import check_reachable

        s = self.recipe.vlm
        if self.vlm is None and isinstance(s, LocalVLMSettings):
            check_reachable(self._checkpoint(s), s.revision)

    def _checkpoint(self, s: LocalVLMSettings) -> str:
        # A folder is a path of the recipe; anything else is a name on the hub, or a model that comes with taxtune.
        path = self.recipe.path(s.model)
        return str(path) if path.is_dir() else s.model

    @cached_property
    def model(self) -> Model:
        """The vision-language model; weights are loaded at the first question.

        Raises:
            RecipeError: If the key's environment variable is not set.
            ModelError: If a setting is out of range.
        """
        from taxtune.execution import deploy
        from taxtune.models import ModelSettings, RetryPolicy

        if self.vlm is not None:
            return self.vlm
        recipe, s = self.recipe, self.recipe.vlm
        if isinstance(s, LocalVLMSettings):
            settings = ModelSettings(
                revision=s.revision,
                dtype=s.dtype,
                device=s.device,
                batch_size=s.batch_size,
                device_map=s.device_map,
                quantization=s.quantization,
                stop=s.stop,
                image_memory_gib=s.image_memory_gib,
                image_disk_gib=s.image_disk_gib,
                max_tokens=s.max_new_tokens,
                temperature=self.temperature,
                seed=recipe.seed.model,
                system_prompt=s.system_prompt,
            )
            return deploy(str(ModelName("local", self._checkpoint(s))), settings, self.execution)
        plugin = s.model.partition(":")[0] in plugin_names(PLUGINS)
        return deploy(
            s.model if plugin else str(ModelName("api", s.model)),
            ModelSettings(
                **recipe.access("vlm"),
                concurrency=s.concurrency,
                max_tokens=s.max_tokens,
                temperature=self.temperature,
                # A package's model that draws nothing at random need not take a seed.
                seed=0 if self.temperature == 0 else recipe.seed.model,
                retry=RetryPolicy(max_retries=s.max_retries, timeout=s.timeout),
                max_image_side=s.max_image_side,
                images_at={str(recipe.path(folder)): address for folder, address in s.images_at.items()} or None,
                system_prompt=s.system_prompt,
            ),
            self.execution,
        )

    @property
    def execution(self) -> ExecutionSettings:
        """Where the model is run, with the address as it is meant.

        Raises:
            RecipeError: If the address uses an environment variable that is not set.
        """
        settings = self.recipe.execution
        if settings.address is None:
            return settings
        return settings.model_copy(update={"address": self.recipe.ray_address})

    @cached_property
    def policy(self) -> Policy:
        """How often an image is asked about, and how the answers make one place."""
        return self._policies[0]

    @cached_property
    def _policies(self) -> tuple[Policy, ...]:
        if self.own_policies:
            return self.own_policies
        s = self.recipe.policy
        if not isinstance(s, VotePolicySettings):
            return (DIRECT,)
        return tuple(Vote(samples, share) for samples in s.samples for share in s.share)

    @property
    def temperature(self) -> float | None:
        """The temperature of the model: the policy's where it has one, else the model's own."""
        policy = self.recipe.policy
        own = policy.temperature if isinstance(policy, VotePolicySettings) else None
        return self.recipe.vlm.temperature if own is None else own

    @cached_property
    def mapper_config(self) -> MapperConfig:
        """The mapper's settings.

        Raises:
            MapperError: If one is out of range.
        """
        from taxtune.mapping import MapperConfig

        s = self.recipe.mapper
        return MapperConfig(
            preset=s.preset,
            k=s.k,
            thr_top2=s.thr_top2,
            thr_topk=s.thr_topk,
            thr_vote=s.thr_vote,
            wordnet=s.wordnet,
            off_tree=s.off_tree,
        )

    @cached_property
    def mapper(self) -> Mapper:
        """What places answers on the tree.

        Raises:
            MapperError: If the similarity's model cannot be loaded.
        """
        from taxtune.mapping import Mapper
        from taxtune.mapping.similarity import make_similarity

        if self.own_mapper is not None:
            return self.own_mapper
        s = self.recipe.mapper
        spec = s.similarity.replace("clip:", "clip-i2t:", 1) if s.use_images else s.similarity
        return Mapper(self.taxonomy, make_similarity(spec), self.mapper_config)

    @cached_property
    def proposer(self) -> Proposer:
        """What makes the templates.

        Raises:
            RecipeError: If the key's environment variable is not set.
            ProposerError: If its prompts or fragments cannot be read.
        """
        from taxtune.tuning.proposers.agent import AgentProposer
        from taxtune.tuning.proposers.fragments import FragmentsProposer, RandomProposer
        from taxtune.tuning.proposers.llm import LLMProposer

        if self.own_proposer is not None:
            return self.own_proposer
        s = self.recipe.proposer
        if isinstance(s, FragmentsProposerSettings | RandomProposerSettings):
            path = self.recipe.path(s.fragments)
            fragments = path if path.is_file() else s.fragments
            return FragmentsProposer(fragments) if s.kind == "fragments" else RandomProposer(fragments)
        made = AgentProposer if isinstance(s, AgentProposerSettings) else LLMProposer
        given = s.model_dump(exclude={"kind", "model", "api_base", "api_key_env"})
        return made(s.model, **self.recipe.access("proposer"), **given)
