"""What the name of a model says, the same on the command line, in recipes and in Python.

- `PROVIDER/MODEL`, `api:MODEL`: a model behind an API, as litellm names it ("openai/gpt-4o").
- `local:MODEL`, `hf:MODEL`: a checkpoint on this machine, by its name on Hugging Face, its folder or its file.
- `builtin:NAME`: a checkpoint that comes with taxtune ("builtin:fieldguide").
- `NAME`, `NAME:MODEL`: a model that an installed package adds (see `taxtune.plugins`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from taxtune.errors import ModelError
from taxtune.plugins import plugin_names

__all__ = ["PLUGINS", "ModelName", "api_name", "is_local", "parse_model"]

#: The group of entry points under which packages add models of their own: a name and a factory.
PLUGINS = "taxtune.vlms"
# litellm lists its providers, all in lower case, but importing it takes seconds: these need no list.
_USUAL = ("anthropic", "azure", "bedrock", "gemini", "groq", "hosted_vllm", "mistral", "ollama", "openai", "openrouter")
_GRAMMAR = "Write PROVIDER/MODEL for an API (openai/gpt-4o), or local:MODEL for a checkpoint."


class ModelName(NamedTuple):
    """What a name stands for.

    Attributes:
        kind: "local", "api" or "plugin".
        model: What it is called there: "openai/gpt-4o", "HuggingFaceTB/SmolVLM-Instruct", "builtin:fieldguide"; empty
            where "local" stands alone.
    """

    kind: Literal["local", "api", "plugin"]
    model: str

    @property
    def absolute(self) -> ModelName:
        """The same, with the folder of a checkpoint as an absolute path."""
        here = self.kind == "local" and Path(self.model).is_dir()
        return ModelName("local", str(Path(self.model).resolve())) if here and self.model else self

    def __str__(self) -> str:
        """The name in full, which `parse_model` reads without a list of providers."""
        return self.model if self.kind == "plugin" or self.model.startswith("builtin:") else f"{self.kind}:{self.model}"


def parse_model(name: str) -> ModelName:
    """Returns what the name of a model stands for.

    Args:
        name: The name, as above.

    Raises:
        ModelError: If it names nothing, or neither a provider nor a kind of model.
    """
    kind, colon, rest = name.partition(":")
    if not name.strip() or (colon and kind in ("local", "hf", "api", "builtin") and not rest.strip()):
        raise ModelError("The model's name is empty.", value=name, remedy=_GRAMMAR)
    if kind in ("local", "hf") and (colon or kind == "local"):
        return parse_model(rest) if rest.startswith("builtin:") else ModelName("local", rest)
    if kind == "api" and colon:
        return ModelName("api", rest)
    if kind == "builtin" and colon:
        return ModelName("local", name)
    if kind in plugin_names(PLUGINS):
        return ModelName("plugin", name)
    provider, slash, _ = name.partition("/")
    folder = Path(name).expanduser().exists()
    if slash and (provider in _USUAL or (not folder and provider.islower() and provider in _providers())):
        return ModelName("api", name)
    said = f"{provider!r} is not a provider that litellm knows" if slash else "The model's name has no provider"
    if folder:
        said = "This is a file or folder"
    raise ModelError(
        f"{said}.",
        value=name,
        remedy=f"Write local:{name} for a checkpoint on Hugging Face or in a folder, or PROVIDER/MODEL for an API "
        "(openai/gpt-4o).",
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
        raise ModelError(f"{whose} needs a model behind an API.", value=name, remedy="Write PROVIDER/MODEL.")
    return model


def _providers() -> frozenset[str]:
    from taxtune.models.api_errors import load_litellm

    return frozenset(str(getattr(one, "value", one)) for one in load_litellm().provider_list)
