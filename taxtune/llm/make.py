"""From a specification to a text model."""

from __future__ import annotations

from taxtune.errors import ModelError
from taxtune.llm.base import DEFAULT_LOCAL, LLM, LLMSettings

__all__ = ["make_llm"]


def make_llm(spec: str, settings: LLMSettings | None = None) -> LLM:
    """Returns the text model that a specification names; nothing is loaded or asked yet.

    Args:
        spec: "local:MODEL", a Hugging Face name or a folder, run by transformers on this machine ("local" alone is
            Llama-3.2-3B-Instruct); or any model that litellm reaches, with its provider ("openai/gpt-4o-mini").
        settings: How it is run.

    Raises:
        ModelError: If the specification is empty or a setting is out of range.
    """
    settings = settings or LLMSettings()
    kind, _, model = spec.partition(":")
    if not spec.strip() or (kind == "local" and spec.endswith(":")):
        raise ModelError("No model is named.", value=spec, remedy="Write local:MODEL or PROVIDER/MODEL.")
    if kind == "local":
        from taxtune.llm.local import LocalLLM

        return LocalLLM(model or DEFAULT_LOCAL, settings)
    from taxtune.llm.api import ApiLLM

    return ApiLLM(spec, settings)
