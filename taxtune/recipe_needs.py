"""What a recipe needs that is missing on this machine; nothing is fetched, loaded or asked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress

from taxtune.errors import RecipeError
from taxtune.models.checkpoint import weights_here
from taxtune.models.names import is_local, parse_model
from taxtune.models.weights import KNOWN_MODELS
from taxtune.recipe import Recipe, flatten
from taxtune.settings import ApiVLMSettings, ChatProposerSettings, JudgeSettings, LocalVLMSettings
from taxtune.shell import program

__all__ = ["missing_for"]


def missing_for(recipe: Recipe) -> list[str]:
    """What is missing to run a recipe, in words: variables, keys, files, access to the model, and its download last."""
    from huggingface_hub import get_token

    texts = [text for text in flatten(recipe.settings()).values() if isinstance(text, str)]
    variables = [name for text in texts for name in re.findall(r"\$\{(\w+)\}", text)]
    missing = [f"{name} is not set" for name in dict.fromkeys([*variables, *_keys(recipe)]) if name not in os.environ]
    missing += _absent(recipe)
    vlm = recipe.vlm
    if isinstance(vlm, LocalVLMSettings) and not (
        recipe.path(vlm.model).is_dir() or weights_here(vlm.model, vlm.revision)
    ):
        known = KNOWN_MODELS.get(vlm.model)
        if known is not None and known.gated and get_token() is None:
            missing.append(f"access to the model: accept its licence on its page, then {program('hf')} auth login")
        size = "" if known is None else f", {known.download_gb:.1f} GB, for a GPU with {known.gpu_gb} GB"
        missing.append(f"the model is downloaded on first use{size}")
    return missing


def _keys(recipe: Recipe) -> Iterator[str]:
    """Environment variables of keys: those that the recipe names, else the usual ones of the providers."""
    for settings in (recipe.vlm, recipe.judge, recipe.proposer):
        if isinstance(settings, ApiVLMSettings | JudgeSettings | ChatProposerSettings):
            model = settings.model if isinstance(settings, ApiVLMSettings) else parse_model(settings.model).model
            if settings.api_base is None and not (isinstance(settings, JudgeSettings) and is_local(settings.model)):
                yield f"{model.partition('/')[0].upper()}_API_KEY"  # as litellm has it


def _absent(recipe: Recipe) -> Iterator[str]:
    """The recipe's files and folders that do not exist; those below unset variables are left out."""
    named = [recipe.taxonomy.path, getattr(recipe.data, "path", None), getattr(recipe.data, "images", None)]
    for text in dict.fromkeys(text for text in named if text is not None and not text.startswith("builtin:")):
        with suppress(RecipeError):
            if not (path := recipe.path(text)).exists():
                yield f"{path} does not exist"
