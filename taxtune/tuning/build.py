"""From a recipe to an experiment: one function for each part, and `build`, which makes them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from taxtune import objective as objectives
from taxtune.answers.targets import TARGETS, make_information
from taxtune.data import Example, load_examples
from taxtune.data.boxes import Boxes
from taxtune.data.context import Variable
from taxtune.data.labels import LabelFinder
from taxtune.data.sources import Source
from taxtune.data.splits import Splits, split, split_sizes
from taxtune.errors import ModelError, RecipeError
from taxtune.fieldguide import MANIFEST_FILE
from taxtune.metrics.information import Information
from taxtune.models import AnswerStore, note_kept
from taxtune.models.names import PLUGINS, ModelName, parse_model
from taxtune.objective import Aims, Objective, asks_a_model, read_floor
from taxtune.plugins import plugin_names
from taxtune.policies import Policy, Posterior, SelfConsistency, Single
from taxtune.recipe import Recipe
from taxtune.settings import (
    AUTO,
    SPREAD,
    ChatProposerSettings,
    ContextSettings,
    FieldGuideData,
    FolderData,
    FragmentsProposerSettings,
    INat21Data,
    LocalVLMSettings,
    ManifestData,
    PluginProposerSettings,
)
from taxtune.taxonomy import Domain, Taxonomy
from taxtune.taxonomy.domain import read_part
from taxtune.tuning.context import make_context
from taxtune.tuning.experiment import Experiment
from taxtune.tuning.metrics import MeasureMetric, Metric
from taxtune.tuning.proposers import Proposer, make_kind
from taxtune.tuning.run_folder import answers_of, reads_alone

if TYPE_CHECKING:
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.metrics.registry import Measure
    from taxtune.models import Model
    from taxtune.models.arbiter import ChatArbiter

__all__ = [
    "AnyObjective",
    "LabelledData",
    "Setup",
    "build",
    "build_each",
    "build_with",
    "check_reachable",
    "further_examples",
    "lacks_arbiter",
    "language_model",
    "make_arbiter",
    "make_boxes",
    "make_data",
    "make_mapper",
    "make_measure",
    "make_metrics",
    "make_objective",
    "make_policy",
    "make_proposer",
    "make_splits",
    "make_taxonomy",
    "make_vlm",
    "make_weights",
    "sampling_temperature",
    "trivial_node",
    "tuned_for",
    "with_arbiter",
]

AnyObjective = Objective | Callable[..., float] | str


@dataclass(frozen=True)
class Setup:
    """A recipe, with objects in place of some of its parts; nothing of it is read or made yet.

    Attributes:
        recipe: The recipe.
        folder: Where a run writes. A judge's replies are kept there, too.
        answers: The file of the answers; None for that of the folder (`answers_of`).
        vlm: A model in place of the recipe's; likewise the next four, of which `taxonomy` is a
            whole label tree.
        mapper: What places answers, or its settings.
        policy: What makes one node of several answers.
        proposer: What makes templates.
        taxonomy: The label tree.
        examples: Labelled images in place of the recipe's data.
        metrics: Further metrics of each answer, by name.
    """

    recipe: Recipe
    folder: Path
    answers: str | Path | None = None
    vlm: Model | None = None
    mapper: Mapper | MapperConfig | None = None
    policy: Policy | None = None
    proposer: Proposer | None = None
    taxonomy: Taxonomy | None = None
    examples: Source | None = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    @property
    def given(self) -> dict[str, Any]:
        """The objects by the groups of the recipe that they replace."""
        objects = {
            "taxonomy": self.taxonomy,
            "data": self.examples,
            "vlm": self.vlm,
            "mapper": self.mapper,
            "proposer": self.proposer,
            "policy": self.policy,
        }
        return {group: value for group, value in objects.items() if value is not None}


def build(setup: Setup, objective: AnyObjective | None = None) -> Experiment:
    """Returns the experiment of a recipe with all its parts, tuned for an objective.

    Args:
        setup: The recipe and the objects in place of its parts.
        objective: What to tune for; the recipe's own where left out.

    Raises:
        TaxtuneError: If a part cannot be read or made.
    """
    recipe = setup.recipe
    folder = setup.folder
    # What is wrong with the file is told before images are read.
    with AnswerStore(answers_of(folder, setup.answers)) as store:
        taxonomy, part = make_taxonomy(recipe, setup.taxonomy)
        data = make_data(recipe, taxonomy, part, setup.examples, folder)
        experiment = build_with(setup, taxonomy, part, data, objective)
        note_kept(experiment.vlm, store)
    return experiment


def build_with(
    setup: Setup,
    taxonomy: Taxonomy,
    part: Domain | None,
    data: LabelledData,
    objective: AnyObjective | None = None,
) -> Experiment:
    """Returns the experiment of a recipe whose tree and images are read; see `build`."""
    folder = setup.folder
    recipe = with_arbiter(setup)
    domain = trivial_node(recipe, taxonomy, data.examples)
    if not recipe.prompt.domain:
        recipe = recipe.changed({"prompt.domain": taxonomy.common_name(domain)})
    splits = make_splits(recipe, data.examples)
    vlm = make_vlm(recipe) if setup.vlm is None else setup.vlm
    mapper = make_mapper(recipe, taxonomy, setup.mapper)
    proposer = make_proposer(recipe, data.variables) if setup.proposer is None else setup.proposer
    policy = make_policy(recipe) if setup.policy is None else setup.policy
    weights = make_weights(recipe, taxonomy, part, splits)
    made = make_objective(recipe, objective, setup.metrics)
    return Experiment(
        recipe=recipe,
        folder=folder,
        answers=answers_of(folder, setup.answers),
        given=setup.given,
        taxonomy=taxonomy,
        part=part,
        examples=data.examples,
        context=data.variables,
        splits=splits,
        domain=domain,
        weights=weights,
        vlm=vlm,
        mapper=mapper,
        policy=policy,
        proposer=proposer,
        objective=made,
        own_metrics=setup.metrics,
        metrics=make_metrics(recipe, made, setup.metrics, taxonomy, folder),
    )


def build_each(setup: Setup, objectives: Sequence[AnyObjective | None]) -> list[Experiment]:
    """Returns an experiment for each objective, which share all other parts; see `build`."""
    first = build(setup, objectives[0])
    others = [tuned_for(first, objective) for objective in objectives[1:]]
    return [first, *others]


def tuned_for(experiment: Experiment, objective: AnyObjective | None) -> Experiment:
    """Returns the experiment with another objective, and the metrics that it needs."""
    recipe = experiment.recipe
    own = experiment.own_metrics
    made = make_objective(recipe, objective, own)
    metrics = make_metrics(recipe, made, own, experiment.taxonomy, experiment.folder)
    return replace(experiment, objective=made, metrics=metrics)


# -- the label tree and what is known on it --------------------------------------------------------


def make_taxonomy(recipe: Recipe, given: Taxonomy | None = None) -> tuple[Taxonomy, Domain | None]:
    """Returns the label tree that is scored on, and what it is a part of.

    Returns:
        The tree, restricted to `taxonomy.root` if the recipe has one; and that part of the whole
        tree, None if the tree is the whole.
    """
    path = recipe.taxonomy.path
    source: str | Taxonomy = path
    if given is not None:
        source = given
    elif not path.startswith("builtin:"):
        source = str(recipe.path(path))
    names = source != "builtin:fieldguide"  # whose tree brings its own
    return read_part(source, root=recipe.taxonomy.root, names=names)


def make_weights(
    recipe: Recipe, taxonomy: Taxonomy, part: Domain | None, splits: Splits
) -> Information:
    """Returns the nodes' weights: by leaves, or by the frequencies that the recipe gives."""
    source: str | Path | None = recipe.taxonomy.frequencies
    targets = []
    if source == TARGETS:
        targets = [example.target for example in splits.tuning]
    elif source is not None:
        source = recipe.path(str(source))
    return make_information(taxonomy, source, targets=targets, part=part)


# -- images ----------------------------------------------------------------------------------------


class LabelledData(NamedTuple):
    """Labelled images, and the variables that templates may use of each."""

    examples: Sequence[Example]
    variables: tuple[Variable, ...] = ()


def make_data(
    recipe: Recipe,
    taxonomy: Taxonomy,
    part: Domain | None,
    source: Source | None,
    folder: Path,
) -> LabelledData:
    """Returns every labelled image below the domain, with what templates may know of it.

    Args:
        recipe: The recipe.
        taxonomy: The label tree.
        part: What the tree is a part of.
        source: Labelled images in place of the recipe's data.
        folder: The run's folder, for images that are not in files.
    """
    examples = _load_examples(recipe, taxonomy, part, source, folder)
    settings = _context_settings(recipe)
    if settings is None:
        return LabelledData(examples)
    named = getattr(recipe.data, "path", "the data") if source is None else "the data"
    variables, examples = make_context(examples, settings, taxonomy, named)
    return LabelledData(examples, variables)


def further_examples(
    recipe: Recipe,
    taxonomy: Taxonomy,
    part: Domain | None,
    source: Source,
    folder: Path,
    variables: Sequence[Variable],
    candidates: str | None = None,
) -> Sequence[Example]:
    """Returns further labelled images, with the values of a run's variables.

    Args:
        recipe: The recipe.
        taxonomy: The label tree.
        part: What the tree is a part of.
        source: The images.
        folder: The run's folder, for images that are not in files.
        variables: The run's variables, which templates may use of each image.
        candidates: The file of scores that has the candidates of these images, if another than
            that of the run.
    """
    load = _loader(recipe, taxonomy, part)
    boxes = make_boxes(recipe)
    if boxes is not None and "box" in getattr(source, "columns", ()):
        # The detector's file of the run is about other photos.
        boxes = replace(boxes, file=None, column="box")
    examples = load(source, folder=folder / "images", boxes=boxes)
    settings = _context_settings(recipe)
    if settings is None:
        return examples
    if settings.candidates and candidates:
        settings = settings.model_copy(update={"candidates": candidates})
    return make_context(examples, settings, taxonomy, str(source), variables)[1]


def _context_settings(recipe: Recipe) -> ContextSettings | None:
    """Returns the settings of the variables, with the path of a file; None if there are none."""
    settings = recipe.data.context
    if settings.candidates:
        path = str(recipe.path(settings.candidates))
        return settings.model_copy(update={"candidates": path})
    return settings if settings.columns else None


def _load_examples(
    recipe: Recipe,
    taxonomy: Taxonomy,
    part: Domain | None,
    source: Source | None,
    folder: Path,
) -> Sequence[Example]:
    """Returns the labelled images, with the cells that are wanted of them."""
    data = recipe.data
    domain = None
    if recipe.taxonomy.domain is not None:
        domain = taxonomy.resolve(recipe.taxonomy.domain)
    load = partial(_loader(recipe, taxonomy, part), domain=domain)
    if source is not None:
        return load(source, folder=folder / "images")
    if isinstance(data, FieldGuideData):
        examples = load(MANIFEST_FILE, kind="manifest")
        # Numbered in the order in which they were drawn.
        return [example for example in examples if int(example.image.stem) < data.count]
    crops = (folder / "images").absolute()
    load = partial(load, folder=crops, boxes=make_boxes(recipe))
    if isinstance(data, FolderData):
        return load(recipe.path(data.path), kind="folder", skip_broken=data.skip_broken)
    images = None if data.images is None else recipe.path(data.images)
    if isinstance(data, INat21Data):
        return load(recipe.path(data.path), kind="inat21", images=images)
    return load(
        recipe.path(data.path),
        kind="manifest",
        images=images,
        image_column=data.image_column,
        label_column=data.label_column,
        pattern=data.pattern,
        skip_broken=data.skip_broken,
    )


def _loader(
    recipe: Recipe, taxonomy: Taxonomy, part: Domain | None
) -> Callable[..., list[Example]]:
    """Returns `load_examples` with what a recipe says of all its images."""
    return partial(
        load_examples,
        taxonomy=taxonomy,
        part=part,
        columns=recipe.data.context.columns,
        words=recipe.data,
        group=recipe.data.group,
    )


def make_boxes(recipe: Recipe) -> Boxes | None:
    """Returns where the boxes of the photos are; None where photos are asked about as they are."""
    data = recipe.data
    if not isinstance(data, ManifestData | FolderData) or data.box is None:
        return None
    boxes = Boxes(margin=data.margin, least_confidence=data.least_confidence)
    name = data.box.lower()
    if name.endswith(".json"):
        file = recipe.path(data.box)
        return replace(boxes, file=file)
    return replace(boxes, column=data.box)


def make_splits(recipe: Recipe, examples: Sequence[Example]) -> Splits:
    """Returns the tuning and held-out splits, disjoint by image content, of readable images."""
    data = recipe.data
    tuning, heldout = split_sizes(len(examples), data.tuning, data.heldout)
    is_number = isinstance(data.heldout, int)
    return split(
        examples,
        tuning=tuning,
        heldout=heldout,
        seed=recipe.seed,
        may_be_short=not is_number,
        root=0,  # of every tree
    )


def trivial_node(recipe: Recipe, taxonomy: Taxonomy, examples: Sequence[Example]) -> int:
    """Returns the node of the trivial answer: the recipe's, or the lowest above every label.

    Images on which nothing is there have no part in it.
    """
    if recipe.taxonomy.domain is not None:
        return taxonomy.resolve(recipe.taxonomy.domain)
    finder = LabelFinder(taxonomy, words=recipe.data)
    root = taxonomy.root
    at_root = {example.label for example in examples if example.target == root}
    empty = finder.empty(at_root)
    targets = {example.target for example in examples if example.label not in empty}
    return taxonomy.common_ancestor(targets or {root})


# -- models ----------------------------------------------------------------------------------------


def make_vlm(recipe: Recipe) -> Model:
    """Returns the vision-language model; weights are loaded at the first question."""
    from taxtune.execution import deploy
    from taxtune.models import ModelSettings, RetryPolicy

    vlm = recipe.vlm
    temperature = sampling_temperature(recipe)
    if isinstance(vlm, LocalVLMSettings):
        shared = vlm.model_dump(exclude={"kind", "model", "temperature"})
        if vlm.device in SPREAD:
            shared |= {"device": "auto", "device_map": vlm.device}
        settings = ModelSettings(**shared, temperature=temperature, seed=recipe.seed)
        name = str(ModelName("local", _checkpoint(recipe, vlm)))
        return deploy(name, settings, recipe.execution)
    settings = ModelSettings(
        api_base=recipe.access("vlm"),
        concurrency=vlm.concurrency,
        max_tokens=vlm.max_tokens,
        temperature=temperature,
        reasoning_effort=vlm.reasoning_effort,
        extra=vlm.extra,
        # A package's model that draws nothing at random need not take a seed.
        seed=0 if temperature == 0 else recipe.seed,
        retry=RetryPolicy(max_retries=vlm.max_retries, timeout=vlm.timeout),
    )
    is_plugin = vlm.model.partition(":")[0] in plugin_names(PLUGINS)
    name = vlm.model if is_plugin else str(ModelName("api", vlm.model))
    return deploy(name, settings, recipe.execution)


def sampling_temperature(recipe: Recipe) -> float | None:
    """Returns the temperature of the model; 1 instead of 0 for answers that must differ."""
    temperature = recipe.vlm.temperature
    return 1.0 if recipe.policy.samples > 1 and temperature == 0 else temperature


def check_reachable(setup: Setup) -> None:
    """Checks that the checkpoint of a local model is here or can be fetched; torch is not loaded.

    Raises:
        ModelError: If it is not.
    """
    from taxtune.models import checkpoint

    vlm = setup.recipe.vlm
    if setup.vlm is None and isinstance(vlm, LocalVLMSettings):
        checkpoint.check_reachable(_checkpoint(setup.recipe, vlm), vlm.revision)


def _checkpoint(recipe: Recipe, vlm: LocalVLMSettings) -> str:
    """Returns a folder of the recipe, or a name on the hub or of a model of taxtune's."""
    path = recipe.path(vlm.model)
    return str(path) if path.is_dir() else vlm.model


def language_model(recipe: Recipe, name: str) -> ModelName:
    """Returns the language model that a recipe names; a local one may be a path of the recipe."""
    kind, model = parse_model(name)
    if kind == "local" and model:
        path = recipe.path(model)
        if path.exists():
            model = str(path)
    return ModelName(kind, model)


# -- mapper and policy -----------------------------------------------------------------------------


def make_mapper(
    recipe: Recipe, taxonomy: Taxonomy, given: Mapper | MapperConfig | None = None
) -> Mapper:
    """Returns the mapper, which places answers on the tree: the recipe's, or the given one."""
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.mapping.similarity import make_similarity

    if isinstance(given, MapperConfig):
        return Mapper(taxonomy, config=given)
    if given is not None:
        return given
    settings = recipe.mapper
    config = MapperConfig(preset=settings.preset, off_tree=settings.off_tree)
    similarity = make_similarity(settings.similarity)
    return Mapper(taxonomy, similarity, config, arbiter=make_arbiter(recipe))


def with_arbiter(setup: Setup) -> Recipe:
    """Returns the recipe of a setup with the model that its `mapper.arbiter: auto` stands for.

    A run in the setup's folder that was begun without one goes on without one.

    Raises:
        TaxtuneError: If a file names a server for that model that the user does not trust.
    """
    recipe = setup.recipe
    if recipe.mapper.arbiter != AUTO:
        return recipe
    changes: dict[str, Any] = {"mapper.arbiter": None}
    group = _group_of_arbiter(setup) if _takes_arbiter(setup) else None
    if group is not None:
        changes["mapper.arbiter"] = getattr(recipe, group).model
        base = recipe.access(group)
        if recipe.mapper.api_base is None:
            changes["mapper.api_base"] = base
    return recipe.changed(changes)


def lacks_arbiter(setup: Setup) -> bool:
    """Tells whether a setup's answers are read alone only since its recipe has no chat model."""
    is_open = setup.recipe.mapper.arbiter == AUTO and _takes_arbiter(setup)
    return is_open and _group_of_arbiter(setup) is None


def _takes_arbiter(setup: Setup) -> bool:
    """Tells whether a chat model may read a setup's answers: texts decide, and no run began alone."""
    recipe = setup.recipe
    policy = make_policy(recipe) if setup.policy is None else setup.policy
    reads = setup.mapper is None and recipe.mapper.takes_arbiter
    return reads and not isinstance(policy, Posterior) and not reads_alone(setup.folder)


def _group_of_arbiter(setup: Setup) -> str | None:
    """Returns the group of the recipe whose chat model reads answers as well, if there is one."""
    recipe = setup.recipe
    group = None
    if recipe.judge is not None:
        group = "judge"
    elif setup.proposer is None and isinstance(recipe.proposer, ChatProposerSettings):
        group = "proposer"
    with suppress(ModelError):  # which is told of the part that names the model
        if group is not None and parse_model(getattr(recipe, group).model):
            return group
    return None


def make_arbiter(recipe: Recipe) -> ChatArbiter | None:
    """Returns the chat model that reads answers, if the recipe names one; see `with_arbiter`."""
    name = recipe.mapper.arbiter
    if name in (None, AUTO):
        return None
    from taxtune.models.arbiter import ChatArbiter, arbiter_settings

    model = str(language_model(recipe, str(name)))
    return ChatArbiter(model, arbiter_settings(model, recipe.access("mapper")))


def make_policy(recipe: Recipe) -> Policy:
    """Returns the policy of a recipe."""
    settings = recipe.policy
    if settings.kind == "posterior":
        return Posterior(settings.threshold, settings.names)
    if settings.samples == 1:
        return Single()
    policy = SelfConsistency(settings.samples)
    return policy if settings.threshold is None else policy.with_threshold(settings.threshold)


# -- what is tuned for -----------------------------------------------------------------------------


def make_objective(
    recipe: Recipe, objective: AnyObjective | None = None, metrics: Mapping[str, Metric] = {}
) -> Objective:
    """Returns the objective, which says which of two templates is better.

    Args:
        recipe: The recipe, which has the aims.
        objective: An objective or its name; the recipe's where left out.
        metrics: The run's own metrics by name, which an objective may name.
    """
    settings = recipe.objective
    aims = Aims(
        hr_floor=read_floor(settings.hr_floor),
        hp_target=settings.hp_target,
        confidence=settings.confidence_level,
    )
    chosen = settings.kind if objective is None else objective
    return objectives.make_objective(chosen, aims=aims, metrics=tuple(metrics))


def make_metrics(
    recipe: Recipe,
    objective: Objective,
    own: Mapping[str, Metric],
    taxonomy: Taxonomy,
    folder: Path,
) -> dict[str, Metric]:
    """Returns the metrics of each answer: the run's own, and those that the objective needs."""
    metrics = dict(own)
    for name in objective.needs:
        if name not in own:
            measure = make_measure(recipe, name, folder)
            metrics[name] = MeasureMetric(name, measure, taxonomy, recipe.prompt.question)
    return metrics


def make_measure(recipe: Recipe, name: str, folder: Path) -> Measure:
    """Returns a measure that an objective needs; the recipe's judge rates for those that ask one.

    Args:
        recipe: The recipe.
        name: Name of the measure.
        folder: Where a judge's replies are kept.

    Raises:
        RecipeError: If it needs a judge and the recipe names none.
    """
    from taxtune.metrics import registry
    from taxtune.models import ModelSettings

    if not asks_a_model(name):
        return registry.make_measure(name, registry.MeasureSettings(cache_dir=folder))
    if recipe.judge is None:
        raise RecipeError(
            f"The objective {name!r} needs a judge, but the recipe does not name one.",
            file=recipe.source,
            remedy="Add judge: {model: openai/gpt-4o-mini}, or --set judge.model=...",
        )
    judge = ModelSettings(
        task="text-generation",
        max_tokens=256,
        api_base=recipe.access("judge"),
        temperature=0.0,
    )
    settings = registry.MeasureSettings(cache_dir=folder, judge=judge)
    model = language_model(recipe, recipe.judge.model)
    return registry.make_measure(f"{name}:{model}", settings)


def make_proposer(recipe: Recipe, variables: Sequence[Variable] = ()) -> Proposer:
    """Returns the proposer, which writes the templates."""
    proposer = recipe.proposer
    if isinstance(proposer, PluginProposerSettings):
        return make_kind(proposer.kind, **(proposer.model_extra or {}))
    if isinstance(proposer, FragmentsProposerSettings):
        path = recipe.path(proposer.fragments)
        fragments = path if path.is_file() else proposer.fragments
        return make_kind(proposer.kind, fragments=fragments, context=tuple(variables))
    settings = proposer.model_dump(include={"model", "max_tokens", "pictures"})
    settings["api_base"] = recipe.access("proposer")
    if proposer.kind == "llm":
        settings["evidence"] = proposer.evidence
        if not proposer.evidence:  # scores alone leave room for all past templates
            settings["max_history_tokens"] = 10_000
    return make_kind(proposer.kind, **settings)
