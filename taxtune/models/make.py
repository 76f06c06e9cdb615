"""From what a user names or hands over to a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from inspect import getattr_static
from typing import Any, cast

from taxtune.errors import ModelError, TaxtuneError
from taxtune.models.base import Model, ModelSettings
from taxtune.models.functions import FunctionModel
from taxtune.plugins import find_plugin

__all__ = ["DEFAULT_LOCAL", "PLUGINS", "make_model"]

#: What "local" alone stands for where text is wanted: the judge of paper 2.
DEFAULT_LOCAL = "meta-llama/Llama-3.2-3B-Instruct"
#: The group of entry points under which packages add models of their own: a name and a factory.
PLUGINS = "taxtune.vlms"


def make_model(spec: str | Callable[..., Any] | Model, settings: ModelSettings | None = None) -> Model:
    """Returns the model that is meant; nothing is loaded or asked yet.

    Args:
        spec: A model, as it is; a function (see `FunctionModel`); or the name of one: "local:MODEL" for a Hugging Face
            name or a folder that transformers runs on this machine, "builtin:fieldguide", "NAME" or "NAME:MODEL" for
            a model that an installed package adds (see `taxtune.plugins`), else any model that litellm reaches, with
            its provider ("openai/gpt-4o").
        settings: How it is run.

    Raises:
        ModelError: If nothing is named, the package's factory fails or gives no model, or a function cannot be called
            with an image and a prompt.
        TaxtuneError: If two packages offer the name, or what it stands for cannot be imported.
    """
    settings = settings or ModelSettings()
    if not isinstance(spec, str):
        return _as_model(spec, settings)
    kind, colon, name = spec.partition(":")
    if not spec.strip() or (kind == "local" and colon and not name):
        raise ModelError("The model's name is empty.", value=spec, remedy="Write local:MODEL or PROVIDER/MODEL.")
    if kind in ("local", "builtin"):
        return _local(spec if kind == "builtin" else name, settings)
    factory = find_plugin(PLUGINS, kind)
    if factory is not None:
        return _from_plugin(factory, kind, name, settings)
    from taxtune.models.api import ApiModel

    return ApiModel(spec, settings)


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
