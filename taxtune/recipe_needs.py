"""What a recipe needs to run, and what of it is on this machine; nothing is fetched, loaded or asked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from taxtune.drafting.offer import Machine
from taxtune.errors import RecipeError
from taxtune.models.checkpoint import weights_here
from taxtune.models.names import is_local, parse_model
from taxtune.models.weights import KNOWN_MODELS
from taxtune.recipe import (
    AgentProposerSettings,
    ApiVLMSettings,
    JudgeSettings,
    LLMProposerSettings,
    LocalVLMSettings,
    Recipe,
    flatten,
)
from taxtune.shell import program

__all__ = ["Needs", "find_needs"]


@dataclass(frozen=True, slots=True)
class Needs:
    """What a recipe needs.

    Attributes:
        name: The recipe's name.
        description: What it is about.
        page: Web page that the images are from; None where none is said.
        size: How large the images are, in words.
        variables: Environment variables that say where the images are, and so on.
        model: The vision-language model.
        local: Whether the model runs on this machine.
        here: Whether the model needs no download: its weights are on this machine, or it is asked through an API.
        download_gb: Size of the model's weights in GB; None where it is not known.
        gpu_gb: Memory of a GPU that suffices for the model, in GB; None where none is needed or it is not known.
        fits: Whether the machine has room for the model, by a rule of thumb; None where its size is not known.
        gated: Whether the weights are given only to those who have accepted their licence.
        similarity: What the mapper compares answers with names by; all but "lexical" is a model that is downloaded too.
        keys: Environment variables that hold keys for APIs.
        missing: What is missing on this machine, in words, but for the model's weights, which are downloaded on first
            use.
    """

    name: str
    description: str
    page: str | None
    size: str | None
    variables: tuple[str, ...]
    model: str
    local: bool
    here: bool
    download_gb: float | None
    gpu_gb: int | None
    fits: bool | None
    gated: bool
    similarity: str
    keys: tuple[str, ...]
    missing: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns the needs as plain values."""
        return asdict(self) | {"ready": not self.missing}


def find_needs(recipe: Recipe, machine: Machine) -> Needs:
    """Returns what a recipe needs, and what of it is missing on a machine, which is this one but for its memory."""
    from huggingface_hub import get_token

    vlm = recipe.vlm
    known = KNOWN_MODELS.get(vlm.model) if isinstance(vlm, LocalVLMSettings) else None
    texts = (text for text in flatten(recipe.settings()).values() if isinstance(text, str))
    variables = tuple(dict.fromkeys(name for text in texts for name in re.findall(r"\$\{(\w+)\}", text)))
    keys = tuple(dict.fromkeys(_keys(recipe)))
    here = not isinstance(vlm, LocalVLMSettings) or _is_here(recipe, vlm)
    missing = [f"{name} is not set" for name in (*variables, *keys) if name not in os.environ]
    missing += _absent(recipe)
    if not here and known is not None and known.gated and get_token() is None:
        missing.append(f"access to the model: accept its licence on its page, then {program('hf')} auth login")
    return Needs(
        name=recipe.name,
        description=recipe.description,
        page=recipe.data.page,
        size=recipe.data.size,
        variables=variables,
        model=vlm.model,
        local=isinstance(vlm, LocalVLMSettings),
        here=here,
        download_gb=None if known is None else known.download_gb,
        gpu_gb=None if known is None else known.gpu_gb,
        fits=None if known is None else known.needs(machine.device) <= machine.room,
        gated=known is not None and known.gated,
        similarity=recipe.mapper.similarity,
        keys=keys,
        missing=tuple(missing),
    )


def _keys(recipe: Recipe) -> Iterator[str]:
    """Yields the environment variables of keys: those that the recipe names, else the usual ones of the providers."""
    asked = [recipe.vlm, recipe.judge, recipe.proposer]
    for each in asked:
        if isinstance(each, ApiVLMSettings | JudgeSettings | LLMProposerSettings | AgentProposerSettings):
            model = each.model if isinstance(each, ApiVLMSettings) else parse_model(each.model).model
            if each.api_key_env is not None:
                yield each.api_key_env
            elif each.api_base is None and not (isinstance(each, JudgeSettings) and is_local(each.model)):
                yield f"{model.partition('/')[0].upper()}_API_KEY"  # as litellm has it


def _absent(recipe: Recipe) -> Iterator[str]:
    """Yields which of the recipe's files and folders do not exist; those below unset variables are left out."""
    named = [recipe.taxonomy.path, getattr(recipe.data, "path", None), getattr(recipe.data, "images", None)]
    for text in dict.fromkeys(text for text in named if text is not None and not text.startswith("builtin:")):
        with suppress(RecipeError):
            if not (path := recipe.path(text)).exists():
                yield f"{path} does not exist"


def _is_here(recipe: Recipe, vlm: LocalVLMSettings) -> bool:
    return recipe.path(vlm.model).is_dir() or weights_here(vlm.model, vlm.revision)
