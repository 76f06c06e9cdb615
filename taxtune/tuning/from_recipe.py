"""From a recipe to the objects of an experiment: tree, images, model, mapper, proposer, measures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.data import Example, load_examples
from taxtune.errors import RecipeError
from taxtune.fieldguide import MANIFEST_FILE
from taxtune.models.names import PLUGINS, ModelName, parse_model
from taxtune.plugins import plugin_names
from taxtune.policies import Vote
from taxtune.recipe import Recipe
from taxtune.settings import (
    SPREAD,
    FieldGuideData,
    FolderData,
    FragmentsProposerSettings,
    INat21Data,
    LocalVLMSettings,
    ManifestData,
)
from taxtune.taxonomy import Domain, Taxonomy, read_taxonomy
from taxtune.tuning.metrics import MeasureMetric
from taxtune.tuning.objective import asks_a_model
from taxtune.tuning.proposers import Proposer

if TYPE_CHECKING:
    from taxtune.mapping import Mapper
    from taxtune.models import Model

__all__ = [
    "checkpoint_of",
    "examples_of",
    "mapper_of",
    "measure_of",
    "policy_of",
    "proposer_of",
    "taxonomy_of",
    "temperature_of",
    "vlm_of",
]


def taxonomy_of(recipe: Recipe) -> Taxonomy:
    """Returns the whole label tree of the recipe's file."""
    s = recipe.taxonomy
    path = s.path if s.path.startswith("builtin:") else recipe.path(s.path)
    return read_taxonomy(path, names=path != "builtin:fieldguide")  # whose tree brings its own


def examples_of(recipe: Recipe, taxonomy: Taxonomy, *, domain: int | None, part: Domain | None) -> Sequence[Example]:
    """Returns every labelled image of the recipe's data.

    Args:
        recipe: The recipe.
        taxonomy: The label tree, restricted where the recipe says so.
        domain: Only images below this node, where the recipe names one.
        part: The part of the whole tree that `taxonomy` is; None for all of it.
    """
    data = recipe.data
    source: Path = MANIFEST_FILE if isinstance(data, FieldGuideData) else recipe.path(data.path)
    how: dict[str, Any] = {"kind": "manifest" if isinstance(data, FieldGuideData) else data.kind, "images": None}
    if isinstance(data, ManifestData):
        how |= data.model_dump(include={"image_column", "label_column", "pattern"})
    if isinstance(data, ManifestData | INat21Data) and data.images is not None:
        how["images"] = recipe.path(data.images)
    if isinstance(data, ManifestData | FolderData):
        how["skip_broken"] = data.skip_broken
    examples = load_examples(source, taxonomy, **how, domain=domain, part=part)
    if isinstance(data, FieldGuideData):  # numbered in the order in which they were drawn
        return [example for example in examples if int(example.image.stem) < data.count]
    return examples


def policy_of(recipe: Recipe) -> Vote:
    """Returns the recipe's policy: how often an image is asked about, and how the answers make one node."""
    s = recipe.policy
    return Vote(s.samples, s.share)


def temperature_of(recipe: Recipe) -> float | None:
    """Returns the temperature of the model; a vote needs answers that differ, and samples at 1 where that is 0."""
    own = recipe.vlm.temperature
    return 1.0 if recipe.policy.votes and own == 0 else own


def checkpoint_of(recipe: Recipe, settings: LocalVLMSettings) -> str:
    """Returns a folder of the recipe, or else a name on the hub or of a model that comes with taxtune."""
    path = recipe.path(settings.model)
    return str(path) if path.is_dir() else settings.model


def vlm_of(recipe: Recipe) -> Model:
    """Returns the vision-language model; weights are loaded at the first question.

    Raises:
        RecipeError: If the key's environment variable is not set.
        ModelError: If a setting is out of range.
    """
    from taxtune.execution import deploy
    from taxtune.models import ModelSettings, RetryPolicy

    s, temperature = recipe.vlm, temperature_of(recipe)
    if isinstance(s, LocalVLMSettings):
        shared = s.model_dump(exclude={"kind", "model", "temperature"})
        if s.device in SPREAD:
            shared |= {"device": "auto", "device_map": s.device}
        settings = ModelSettings(**shared, temperature=temperature, seed=recipe.seed)
        return deploy(str(ModelName("local", checkpoint_of(recipe, s))), settings, recipe.execution)
    plugin = s.model.partition(":")[0] in plugin_names(PLUGINS)
    settings = ModelSettings(
        api_base=recipe.access("vlm"),
        concurrency=s.concurrency,
        max_tokens=s.max_tokens,
        temperature=temperature,
        # A package's model that draws nothing at random need not take a seed.
        seed=0 if temperature == 0 else recipe.seed,
        retry=RetryPolicy(max_retries=s.max_retries, timeout=s.timeout),
    )
    return deploy(s.model if plugin else str(ModelName("api", s.model)), settings, recipe.execution)


def mapper_of(recipe: Recipe, taxonomy: Taxonomy) -> Mapper:
    """Returns the mapper, which places answers on the tree.

    Raises:
        MapperError: If a setting is out of range, or the similarity's model cannot be loaded.
    """
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.mapping.similarity import make_similarity

    s = recipe.mapper
    return Mapper(taxonomy, make_similarity(s.similarity), MapperConfig(preset=s.preset, off_tree=s.off_tree))


def proposer_of(recipe: Recipe) -> Proposer:
    """Returns the proposer, which makes the templates.

    Raises:
        RecipeError: If the key's environment variable is not set.
        ProposerError: If its prompts or fragments cannot be read.
    """
    from taxtune.tuning.proposers.agent import AgentProposer
    from taxtune.tuning.proposers.fragments import FragmentsProposer, RandomProposer
    from taxtune.tuning.proposers.llm import LLMProposer

    s = recipe.proposer
    if isinstance(s, FragmentsProposerSettings):
        path = recipe.path(s.fragments)
        fragments = path if path.is_file() else s.fragments
        return FragmentsProposer(fragments) if s.kind == "fragments" else RandomProposer(fragments)
    shared: dict[str, Any] = {"api_base": recipe.access("proposer"), "max_tokens": s.max_tokens}
    if s.kind == "agent":
        return AgentProposer(s.model, **shared)
    if not s.evidence:  # scores alone leave room for all past templates
        shared["max_history_tokens"] = 10_000
    return LLMProposer(s.model, evidence=s.evidence, **shared)


def measure_of(recipe: Recipe, name: str, taxonomy: Taxonomy, folder: Path) -> MeasureMetric:
    """Returns the measure that an objective needs, asked by the recipe's judge where it asks a language model.

    Args:
        recipe: The recipe.
        name: The measure.
        taxonomy: The label tree.
        folder: Where a judge's replies are kept.

    Raises:
        RecipeError: If it needs a judge and the recipe names none, or the key's environment variable is not set.
        TaxtuneError: If the measure cannot be made.
    """
    from taxtune.metrics.registry import MeasureSettings, make_measure
    from taxtune.models import ModelSettings

    question = recipe.prompt.question
    if not asks_a_model(name):
        return MeasureMetric(name, make_measure(name, MeasureSettings(cache_dir=folder)), taxonomy, question)
    s = recipe.judge
    if s is None:
        raise RecipeError(
            f"The objective {name!r} needs a judge, but the recipe does not name one.",
            file=recipe.source,
            remedy="Add judge: {model: openai/gpt-4o-mini}, or --set judge.model=...",
        )
    kind, model = name_of = parse_model(s.model)
    if kind == "local" and model and (path := recipe.path(model)).exists():
        name_of = ModelName(kind, str(path))  # a model on this machine is a path of the recipe
    judge = ModelSettings(
        task="text-generation",
        max_tokens=256,
        api_base=recipe.access("judge"),
        temperature=0.0,
    )
    settings = MeasureSettings(cache_dir=folder, judge=judge)
    return MeasureMetric(name, make_measure(f"{name}:{name_of}", settings), taxonomy, question)
