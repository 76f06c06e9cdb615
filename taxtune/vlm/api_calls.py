"""What every call of a model behind litellm needs, be it asked about an image or for a template."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

from taxtune.errors import TaxtuneError

__all__ = ["Completion", "find_key", "price", "read_completion"]


@dataclass(frozen=True, slots=True)
class Completion:
    """The first choice of a chat completion, as plain values.

    Attributes:
        text: What the model wrote; half surrogate pairs, which no record could hold, are replaced.
        refusal: The provider's own mark of a refusal, or None.
        finish_reason: "stop", "length", "content_filter", ...
        prompt_tokens: Tokens read.
        completion_tokens: Tokens written.
    """

    text: str
    refusal: str | None
    finish_reason: str | None
    prompt_tokens: int
    completion_tokens: int


def read_completion(response: Any) -> Completion | None:
    """Returns a response's first choice, or None where it has none."""
    choices = getattr(response, "choices", None) or []
    if not choices:
        return None
    message = choices[0].message
    text = message.content if isinstance(message.content, str) else ""
    special = getattr(message, "provider_specific_fields", None) or {}
    refusal = getattr(message, "refusal", None) or special.get("refusal")
    usage = getattr(response, "usage", None)
    return Completion(
        text=text.encode("utf-8", "replace").decode("utf-8"),
        refusal=str(refusal) if refusal else None,
        finish_reason=choices[0].finish_reason,
        prompt_tokens=int(getattr(usage, "prompt_tokens", 0) or 0),
        completion_tokens=int(getattr(usage, "completion_tokens", 0) or 0),
    )


def price(litellm: ModuleType, model: str, response: Any) -> float | None:
    """Returns what a response cost in US dollars, or None where litellm knows no price for the model."""
    try:
        return float(litellm.completion_cost(completion_response=response, model=model))
    except Exception:
        return None


def find_key(
    litellm: ModuleType,
    model: str,
    *,
    api_base: str | None,
    api_key: str | None,
    whose: str,
    error: type[TaxtuneError],
    otherwise: str = "",
) -> str | None:
    """Returns the key to send; None leaves it to litellm, which finds the provider's in the environment.

    Args:
        litellm: The module.
        model: litellm's name of the model.
        api_base: The address of a server of one's own, or None.
        api_key: A key that was given, or None.
        whose: How messages call the model, such as "the model".
        error: What to raise.
        otherwise: A further remedy for a missing key.

    Raises:
        TaxtuneError: As `error`, if litellm does not know the provider or the key is missing.
    """
    try:
        litellm.get_llm_provider(model, api_base=api_base)
    except Exception:
        raise error(
            f"litellm knows no provider for {whose} {model!r}.",
            remedy="Write the provider before the name, such as openai/gpt-4o (openai/ also for a server of your "
            "own that speaks OpenAI's protocol).",
        ) from None
    if api_key is not None:
        return api_key
    missing = list(litellm.validate_environment(model).get("missing_keys", ()))
    if not missing:
        return None
    if api_base is not None:
        # A server of one's own often wants no key, but the client insists on sending one.
        return "none" if all(name.endswith(("_API_KEY", "_API_BASE")) for name in missing) else None
    remedy = f"Set it (export {missing[0]}=...), or give the address of a server of your own (api_base)"
    raise error(
        f"{whose[0].upper()}{whose[1:]} {model!r} needs a key: {' or '.join(missing)} is not set.",
        remedy=f"{remedy}{otherwise}.",
    )
