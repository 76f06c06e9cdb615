"""What a chat model wrote, as a record that no secret is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from taxtune.errors import ModelError
from taxtune.models.api_errors import CallError, UnusableReplyError, without_secrets
from taxtune.models.base import Fault, well_formed

__all__ = ["Completion", "NoAnswerError", "ToolCall", "hide_secrets", "read_completion"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool that a chat model asks for.

    Attributes:
        id: What the result is sent back under.
        name: The tool; it need not be one that was offered.
        arguments: The arguments as the model wrote them: JSON, unless it made a mistake.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Completion:
    """What a chat model wrote, with tokens and cost over all attempts.

    Attributes:
        text: Its words, which may be none; half surrogate pairs, which no record could hold, are replaced.
        refusal: The provider's own mark of a refusal, or None.
        finish_reason: "stop", "length", "content_filter", ...; None where the provider gives none.
        tool_calls: The tools that it wants called, in order.
        prompt_tokens: Tokens read.
        completion_tokens: Tokens written.
        cost_usd: Cost in US dollars; None where litellm knows no price for the model.
    """

    text: str
    refusal: str | None = None
    finish_reason: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None


class NoAnswerError(ModelError):
    """A model did not answer, after all attempts; it may later.

    Attributes:
        spent: What the attempts consumed; its text is empty.
    """

    def __init__(self, message: str, *, remedy: str, spent: Completion) -> None:
        super().__init__(message, remedy=remedy)
        self.spent = spent


def read_completion(litellm: ModuleType, model: str, response: Any) -> Completion:
    """Returns a response's first choice.

    Raises:
        UnusableReplyError: If it has none.
    """
    choices = getattr(response, "choices", None) or []
    if not choices:
        raise UnusableReplyError(CallError(Fault.NO_CHOICES, "returned a response without choices"))
    message = choices[0].message
    text = message.content if isinstance(message.content, str) else ""
    special = getattr(message, "provider_specific_fields", None) or {}
    refusal = getattr(message, "refusal", None) or special.get("refusal")
    usage = getattr(response, "usage", None)
    try:
        cost = float(litellm.completion_cost(completion_response=response, model=model))
    except Exception:  # no price is known
        cost = None
    return Completion(
        text=well_formed(text),
        refusal=str(refusal) if refusal else None,
        finish_reason=choices[0].finish_reason,
        tool_calls=tuple(
            ToolCall(
                id=str(call.id or f"call-{number}"),
                name=well_formed(str(call.function.name or "")),
                arguments=well_formed(str(call.function.arguments or "")),
            )
            for number, call in enumerate(getattr(message, "tool_calls", None) or ())
        ),
        prompt_tokens=int(getattr(usage, "prompt_tokens", 0) or 0),
        completion_tokens=int(getattr(usage, "completion_tokens", 0) or 0),
        cost_usd=cost,
    )


def hide_secrets(completion: Completion, secrets: Sequence[str | None]) -> Completion:
    """Returns a completion in which no secret stands that the server echoes, since it goes into records."""
    return replace(
        completion,
        text=without_secrets(completion.text, secrets),
        refusal=None if completion.refusal is None else without_secrets(completion.refusal, secrets),
        tool_calls=tuple(
            replace(call, name=without_secrets(call.name, secrets), arguments=without_secrets(call.arguments, secrets))
            for call in completion.tool_calls
        ),
    )
