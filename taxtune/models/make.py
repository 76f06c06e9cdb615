"""From what a user names or hands over to a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from inspect import getattr_static
from typing import Any, cast

from taxtune.errors import ModelError, TaxtuneError
from taxtune.models.base import Model, ModelSettings
from taxtune.models.functions import FunctionModel
from taxtune.models.names import PLUGINS, parse_model
from taxtune.plugins import find_plugin

__all__ = ["DEFAULT_LOCAL", "make_model"]

#: What "local" alone stands for where text is wanted: the judge of paper 2.
DEFAULT_LOCAL = "meta-llama/Llama-3.2-3B-Instruct"


def make_model(spec: str | Callable[..., Any] | Model, settings: ModelSettings | None = None) -> Model:
    """Returns the model that is meant; nothing is loaded or asked yet.

    Args:
        spec: A model, as it is; a function (see `FunctionModel`); or the name of one, such as "openai/gpt-4o" or
            "local:HuggingFaceTB/SmolVLM-Instruct" (see `taxtune.models.names`).
        settings: How it is run.

    Raises:
        ModelError: If the name stands for nothing, the package's factory fails or gives no model, or a function cannot
            be called with an image and a prompt.
        TaxtuneError: If two packages offer the name, or what it stands for cannot be imported.
    """
    settings = settings or ModelSettings()
    if not isinstance(spec, str):
        return _as_model(spec, settings)
    kind, model = parse_model(spec)
    if kind == "local":
        return _local(model, settings)
    if kind == "plugin":
        plugin, _, name = model.partition(":")
        return _from_plugin(find_plugin(PLUGINS, plugin), plugin, name, settings)
    from taxtune.models.api import ApiModel

    return ApiModel(model, settings)


def _local(name: str, settings: ModelSettings) -> Model:
    if settings.task == "text-generation":
        from taxtune.models.text import LocalLLM

        return LocalLLM(name or DEFAULT_LOCAL, settings)
    if not name:
        raise ModelError("The model's name is empty.", value="local", remedy="Write local:MODEL.")
    from taxtune.models.vision import LocalVLM

    return LocalVLM(name, settings)


def _from_plugin(factory: Callable[..., Any], kind: str, name: str, settings: ModelSettings) -> Model:
    """Calls a package's factory with the settings that differ from the defaults, and `model` where one is named."""
    default = ModelSettings()
    given = {
        one.name: getattr(settings, one.name)
        for one in fields(settings)
        if getattr(settings, one.name) != getattr(default, one.name)
    }
    try:
        return _as_model(factory(**given, **({"model": name} if name else {})), settings)
    except Exception as error:
        said = str(error) if isinstance(error, TaxtuneError) else f"{type(error).__name__}: {error}"
        raise ModelError(f"The model {kind!r}, which a package provides, cannot be created: {said}") from error


def _as_model(given: Callable[..., Any] | Model, settings: ModelSettings) -> Model:
    # Not `isinstance`, which computes the identity in Python 3.11: it may hash the weights, or not be known yet.
    if callable(getattr(given, "answer", None)) and getattr_static(given, "identity", None) is not None:
        return cast(Model, given)
    return FunctionModel(
        cast(Callable[..., Any], given),
        batch_size=8 if settings.batch_size == "auto" else settings.batch_size,
        concurrency=8 if settings.concurrency == "auto" else settings.concurrency,
        max_pixels=settings.max_pixels,
    )
