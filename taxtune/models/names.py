"""Names of models, the same on the command line, in recipes and in Python, and their models.

- `PROVIDER/MODEL` ("openai/gpt-4o"), or `api:PROVIDER/MODEL` for any provider of litellm: a model
  behind an API.
- `local:MODEL`, `hf:MODEL`: a checkpoint on this machine, by its name on Hugging Face, its folder
  or its file.
- `builtin:NAME`: a checkpoint that comes with taxtune ("builtin:fieldguide").
- `NAME`, `NAME:MODEL`: a model that an installed package adds (see `taxtune.plugins`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from inspect import getattr_static
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from taxtune.errors import ModelError, TaxtuneError
from taxtune.models.base import Model, ModelSettings
from taxtune.models.functions import FunctionModel
from taxtune.plugins import find_plugin, plugin_names

__all__ = [
    "DEFAULT_LOCAL",
    "PLUGINS",
    "ModelName",
    "api_name",
    "is_local",
    "make_model",
    "parse_model",
]

#: What "local" alone stands for where text is wanted: the judge of paper 2.
DEFAULT_LOCAL = "meta-llama/Llama-3.2-3B-Instruct"
#: The group of entry points under which packages add models of their own: a name and a factory.
PLUGINS = "taxtune.vlms"
#: Providers that need no `api:` before them; litellm knows some hundred, but importing it takes
#: seconds.
_PROVIDERS = frozenset(
    [
        "anthropic",
        "azure",
        "azure_ai",
        "baseten",
        "bedrock",
        "cerebras",
        "cloudflare",
        "cohere",
        "cohere_chat",
        "dashscope",
        "databricks",
        "deepinfra",
        "deepseek",
        "featherless_ai",
        "fireworks_ai",
        "friendliai",
        "gemini",
        "github",
        "github_copilot",
        "groq",
        "hosted_vllm",
        "huggingface",
        "hyperbolic",
        "lambda_ai",
        "litellm_proxy",
        "llamafile",
        "lm_studio",
        "meta_llama",
        "minimax",
        "mistral",
        "moonshot",
        "nebius",
        "novita",
        "nscale",
        "nvidia_nim",
        "oci",
        "ollama",
        "ollama_chat",
        "openai",
        "openai_like",
        "openrouter",
        "ovhcloud",
        "perplexity",
        "predibase",
        "replicate",
        "sagemaker",
        "sambanova",
        "scaleway",
        "snowflake",
        "together_ai",
        "vertex_ai",
        "vllm",
        "volcengine",
        "watsonx",
        "xai",
        "xinference",
        "zai",
    ]
)


class ModelName(NamedTuple):
    """What a name stands for.

    Attributes:
        kind: "local", "api" or "plugin".
        model: What it is called there: "openai/gpt-4o", "HuggingFaceTB/SmolVLM-Instruct",
            "builtin:fieldguide"; empty where "local" stands alone.
    """

    kind: Literal["local", "api", "plugin"]
    model: str

    @property
    def absolute(self) -> ModelName:
        """The same, with the folder of a checkpoint as an absolute path."""
        if self.kind != "local" or not self.model or not Path(self.model).is_dir():
            return self
        return ModelName("local", str(Path(self.model).resolve()))

    def __str__(self) -> str:
        """Returns the full name, which `parse_model` reads without a list of providers."""
        if self.kind == "plugin" or self.model.startswith("builtin:"):
            return self.model
        return f"{self.kind}:{self.model}"


def parse_model(name: str) -> ModelName:
    """Returns the parsed name of a model.

    Raises:
        ModelError: If it names nothing, or neither a provider nor a kind of model.
    """
    kind, colon, rest = name.partition(":")
    needs_rest = colon and kind in ("local", "hf", "api", "builtin")
    if not name.strip() or (needs_rest and not rest.strip()):
        remedy = "Write PROVIDER/MODEL or local:MODEL."
        raise ModelError("The model's name is empty.", value=name, remedy=remedy)
    if kind == "local" or (kind == "hf" and colon):
        return ModelName("local", rest)
    if kind == "api" and colon:
        return ModelName("api", rest)
    if kind == "builtin" and colon:
        return ModelName("local", name)
    if kind in plugin_names(PLUGINS):
        return ModelName("plugin", name)
    provider, slash, _ = name.partition("/")
    if slash and provider in _PROVIDERS:
        return ModelName("api", name)
    if Path(name).expanduser().exists():
        problem = "This is a file or folder."
    elif slash:
        problem = f"{provider!r} is not a well-known provider."
    else:
        problem = "The model's name has no provider."
    raise ModelError(
        problem,
        value=name,
        remedy=f"Write local:{name} for a checkpoint on Hugging Face or in a folder, "
        "PROVIDER/MODEL for an API (openai/gpt-4o), or "
        f"api:{name if slash else 'PROVIDER/MODEL'} for any other provider of litellm's.",
    )


def is_local(name: str) -> bool:
    """Tells whether a name stands for a model on this machine.

    Raises:
        ModelError: If it stands for nothing.
    """
    return parse_model(name).kind == "local"


def api_name(name: str, whose: str) -> str:
    """Returns litellm's name of a model that must be behind an API.

    Args:
        name: The model's name.
        whose: What needs it, for the message: "The proposer".

    Raises:
        ModelError: If it is another kind of model.
    """
    kind, model = parse_model(name)
    if kind != "api":
        message = f"{whose} needs a model behind an API."
        raise ModelError(message, value=name, remedy="Write PROVIDER/MODEL.")
    return model


def make_model(
    spec: str | Callable[..., Any] | Model, settings: ModelSettings | None = None
) -> Model:
    """Returns the model that is meant; nothing is loaded or asked yet.

    Args:
        spec: A model, as it is; a function (see `FunctionModel`); or the name of one, such as
            "openai/gpt-4o" or "local:HuggingFaceTB/SmolVLM-Instruct" (see `taxtune.models.names`).
        settings: How it is run.

    Raises:
        ModelError: If the name stands for nothing, the package's factory fails or gives no model,
            or a function cannot be called with an image and a prompt.
        TaxtuneError: If two packages offer the name, or what it stands for cannot be imported.
    """
    settings = settings or ModelSettings()
    if not isinstance(spec, str):
        return _as_model(spec, settings)
    kind, model = parse_model(spec)
    if kind == "plugin":
        return _from_plugin(model, settings)
    if kind == "api":
        from taxtune.models.api import ApiModel

        return ApiModel(model, settings)
    if settings.task == "text-generation":
        from taxtune.models.local import LocalLLM

        return LocalLLM(model or DEFAULT_LOCAL, settings)
    if not model:
        raise ModelError("The model's name is empty.", value=spec, remedy="Write local:MODEL.")
    from taxtune.models.vision import LocalVLM

    return LocalVLM(model, settings)


def _from_plugin(name: str, settings: ModelSettings) -> Model:
    """Calls a package's factory with the settings that differ from the defaults.

    It gets `model` as well where one is named.
    """
    kind, _, model = name.partition(":")
    factory = find_plugin(PLUGINS, kind)
    default = ModelSettings()
    arguments = {}
    for setting in fields(settings):
        value = getattr(settings, setting.name)
        if value != getattr(default, setting.name):
            arguments[setting.name] = value
    if model:
        arguments["model"] = model
    try:
        return _as_model(factory(**arguments), settings)
    except Exception as error:
        problem = str(error)
        if not isinstance(error, TaxtuneError):
            problem = f"{type(error).__name__}: {error}"
        message = f"The model {kind!r}, which a package provides, cannot be created: {problem}"
        raise ModelError(message) from error


def _as_model(given: Callable[..., Any] | Model, settings: ModelSettings) -> Model:
    # Not `isinstance`, which computes the identity in Python 3.11: it may hash the weights, or not
    # be known yet.
    has_identity = getattr_static(given, "identity", None) is not None
    if has_identity and callable(getattr(given, "answer", None)):
        return cast(Model, given)
    return FunctionModel(
        cast(Callable[..., Any], given),
        batch_size=8 if settings.batch_size == "auto" else settings.batch_size,
        concurrency=8 if settings.concurrency == "auto" else settings.concurrency,
    )
