"""From a recipe's settings to the models of a run: the VLM, the mapper, the proposer, the judge."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from taxtune.errors import RecipeError
from taxtune.models import Model, ModelSettings, RetryPolicy, make_model
from taxtune.recipe import FragmentsProposerSettings, LocalVLMSettings, Recipe
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.proposers import Proposer, make_proposer

if TYPE_CHECKING:
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.metrics.lave import Lave

__all__ = ["lave", "mapper", "mapper_config", "proposer", "vlm"]

Note = Callable[[str], None]


def vlm(recipe: Recipe, note: Note) -> Model:
    """Returns the vision-language model; its weights are loaded at the first question.

    Raises:
        RecipeError: If the key's environment variable is not set.
        ModelError: If a setting is out of range.
    """
    s = recipe.vlm
    if isinstance(s, LocalVLMSettings):
        # A model on this machine is a path of the recipe; anything else is a name on the hub.
        path = None if s.model.startswith("builtin:") else recipe.path(s.model)
        settings = ModelSettings(
            revision=s.revision,
            dtype=s.dtype,
            device=s.device,
            batch_size=s.batch_size,
            max_tokens=s.max_new_tokens,
            temperature=s.temperature,
            system_prompt=s.system_prompt,
        )
        return make_model(f"local:{path if path is not None and path.is_dir() else s.model}", settings)
    settings = ModelSettings(
        api_base=s.api_base,
        api_key=_key(recipe, s.api_key_env, "vlm.api_key_env"),
        concurrency=s.concurrency,
        max_tokens=s.max_tokens,
        temperature=s.temperature,
        retry=RetryPolicy(max_retries=s.max_retries, timeout=s.timeout),
        system_prompt=s.system_prompt,
        on_note=note,
    )
    return make_model(s.model, settings)


def mapper_config(recipe: Recipe) -> MapperConfig:
    """Returns the mapper's settings.

    Raises:
        MapperError: If one is out of range.
    """
    from taxtune.mapping import MapperConfig

    s = recipe.mapper
    return MapperConfig(
        preset=s.preset,
        k=s.k,
        thr_top2=s.thr_top2,
        thr_topk=s.thr_topk,
        thr_vote=s.thr_vote,
        wordnet=s.wordnet,
        off_tree=s.off_tree,
    )


def mapper(recipe: Recipe, taxonomy: Taxonomy) -> Mapper:
    """Returns what places answers on the tree.

    Raises:
        MapperError: If the similarity's model cannot be loaded.
    """
    from taxtune.mapping import Mapper
    from taxtune.mapping.similarity import make_similarity

    s = recipe.mapper
    spec = s.similarity.replace("clip:", "clip-i2t:", 1) if s.use_images else s.similarity
    return Mapper(taxonomy, make_similarity(spec), mapper_config(recipe))


def proposer(recipe: Recipe, note: Note) -> Proposer:
    """Returns what makes the templates.

    Raises:
        RecipeError: If the key's environment variable is not set.
        ProposerError: If its prompts or fragments cannot be read.
    """
    s = recipe.proposer
    if isinstance(s, FragmentsProposerSettings):
        path = recipe.path(s.fragments)
        return make_proposer("fragments", fragments=path if path.is_file() else s.fragments)
    return make_proposer(
        "llm",
        model=s.model,
        api_base=s.api_base,
        api_key=_key(recipe, s.api_key_env, "proposer.api_key_env"),
        temperature=s.temperature,
        max_history_tokens=s.max_history_tokens,
        timeout=s.timeout,
        max_retries=s.max_retries,
        on_note=note,
    )


def lave(recipe: Recipe, folder: Path, note: Note) -> Lave:
    """Returns the judge of the objective "lave"; its replies are kept in `replies.db` in the folder.

    Raises:
        RecipeError: If the recipe names no judge.
        DataError: If its demonstrations cannot be read.
    """
    from taxtune.metrics.judging import Judge
    from taxtune.metrics.lave import Lave, LaveOptions

    s = recipe.judge
    if s is None:
        raise RecipeError("The recipe names no judge.", file=recipe.source)
    spec = s.model
    kind, _, name = spec.partition(":")
    if kind == "local" and name and (path := recipe.path(name)).is_dir():
        spec = f"local:{path}"  # a model on this machine is a path of the recipe
    settings = ModelSettings(
        task="text-generation",
        max_tokens=s.max_tokens,
        api_base=s.api_base,
        api_key=_key(recipe, s.api_key_env, "judge.api_key_env"),
        temperature=0.0 if kind == "local" else s.temperature,  # a judge on this machine decodes greedily
        concurrency=s.concurrency,
        retry=RetryPolicy(max_retries=s.max_retries, timeout=s.timeout),
        device=s.device,
        dtype=s.dtype,
        batch_size=s.batch_size,
        revision=s.revision,
        on_note=note,
    )
    own = [None if p is None else recipe.path(p) for p in (s.demonstrations, s.yes_no_demonstrations)]
    options = LaveOptions(demonstrations=own[0], yes_no_demonstrations=own[1])
    return Lave(f"lave:{s.model}", Judge(make_model(spec, settings), cache_dir=folder), options)


def _key(recipe: Recipe, variable: str | None, key: str) -> str | None:
    if variable is None:
        return None
    if not os.environ.get(variable):
        raise RecipeError(
            f"{key} names the environment variable {variable}, which is not set.",
            file=recipe.source,
            remedy=f"Set it: export {variable}=...",
        )
    return os.environ[variable]
