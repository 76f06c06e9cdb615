"""One conversation with a chat model through litellm: retried where that can help, explained where it cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from taxtune.errors import TaxtuneError
from taxtune.vlm.api_calls import Patience, call_model, find_key, price, read_completion
from taxtune.vlm.api_errors import (
    RetryNotes,
    judge,
    load_litellm,
    needed_keys,
    without_credentials,
    worth_waiting_for,
)

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["Chat", "ChatReply"]

_FILTER_SIGNS = ("content_filter", "content management policy", "content_policy_violation")


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What came back.

    Attributes:
        text: What the model wrote; may be empty.
        problem: Why the text is no reply (a content filter, a refusal, cut off), or None.
        prompt_tokens: Tokens sent.
        completion_tokens: Tokens written.
        cost_usd: Cost in US dollars; None where the price is unknown.
    """

    text: str
    problem: str | None
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None


class Chat:
    """A chat model behind litellm.

    Args:
        model: The model's name with its provider, e.g. "openai/gpt-4o".
        whose: How messages call it, such as "the proposer's model".
        error: What to raise.
        api_base: Address of the server; the provider's own where left out.
        api_key: The key; the provider's environment variable where left out. Never logged.
        temperature: Sampling temperature; None for the provider's default.
        max_tokens: Most tokens of a reply.
        timeout: Seconds that one call may take.
        max_retries: Further attempts after rate limits, time-outs, 5xx and lost connections.
        first_wait: Seconds before the second attempt; doubles each time. A server's Retry-After is respected.
        longest_wait: Most seconds between two attempts.
        without_key: A further remedy for a missing key.
        too_long: The remedy for a message that the model finds too long.
        on_note: Called when a call fails and is tried again.
    """

    def __init__(
        self,
        model: str,
        *,
        whose: str,
        error: type[TaxtuneError],
        api_base: str | None,
        api_key: str | None,
        temperature: float | None,
        max_tokens: int,
        timeout: float,
        max_retries: int,
        first_wait: float,
        longest_wait: float,
        without_key: str = "",
        too_long: str = "Send less text.",
        on_note: Callable[[str], None] | None = None,
    ) -> None:
        self.model = model
        self._whose = whose
        self._error = error
        self.api_base = api_base
        self._api_key = api_key
        self.temperature = temperature
        self.max_tokens = max_tokens
        self.patience = Patience(max_retries, first_wait, longest_wait, timeout)
        self._without_key = without_key
        self._too_long = too_long
        self._notes = RetryNotes(self._name(), max_retries + 1, on_note, secrets=(api_key,))

    def __repr__(self) -> str:
        return f"Chat({self.model!r}, api_base={without_credentials(self.api_base)!r})"

    def count_tokens(self, text: str) -> int:
        """Returns the number of tokens of a text; an estimate where the model's tokenizer is not known."""
        try:
            return int(load_litellm().token_counter(model=self.model, text=text))
        except Exception:  # a tokenizer that cannot be had is no reason to stop
            return len(text) // 3 + 1

    def ask(self, messages: Sequence[dict[str, str]], *, seed: int) -> ChatReply:
        """Returns the model's reply to a conversation.

        Raises:
            TaxtuneError: As the error that was given, if the key is missing or refused, the model does not exist, or
                the server is out of reach or answers with errors after all attempts.
        """
        litellm = load_litellm()
        arguments = {
            "model": self.model,
            "messages": list(messages),
            "api_base": self.api_base,
            "api_key": self._key(litellm),
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": seed % 2**31,
        }
        called = call_model(litellm, arguments, self.patience, notes=self._notes)
        if called.error is None:
            return self._read(called.response)
        if _filtered(called.error):
            return ChatReply("", "The provider's content filter stopped the request.", 0, 0, None)
        raise self._explain(called.error) from None

    def check(self) -> None:
        """Tells whether a call could be made, without making one.

        Raises:
            TaxtuneError: As the error that was given, if litellm does not know the model's provider or the key is
                missing.
        """
        self._key(load_litellm())

    def _key(self, litellm: ModuleType) -> str | None:
        return find_key(
            litellm,
            self.model,
            api_base=self.api_base,
            api_key=self._api_key,
            whose=self._whose,
            error=self._error,
            otherwise=self._without_key,
        )

    def _name(self) -> str:
        where = "" if self.api_base is None else f" at {without_credentials(self.api_base)}"
        return f"{self._whose[0].upper()}{self._whose[1:]} {self.model!r}{where}"

    def _explain(self, error: Exception) -> TaxtuneError:
        name = self._name()
        if any(kind.__name__ == "ContextWindowExceededError" for kind in type(error).__mro__):
            return self._error(f"{name} finds the message too long.", remedy=self._too_long)
        verdict = judge(error, secrets=(self._api_key,))
        retried = verdict.retry and worth_waiting_for(error, self.patience.longest_wait)
        attempts = f", after {self.patience.max_retries + 1} attempts" if retried else ""
        remedy = verdict.remedy.replace("{keys}", " or ".join(needed_keys(load_litellm(), self.model)))
        if not remedy:
            later = verdict.retry or verdict.passing
            remedy = "Go on with --resume when it answers again." if later else f"Check the settings of {self._whose}."
        return self._error(f"{name} {verdict.reason.rstrip('.')}{attempts}.", remedy=remedy)

    def _read(self, response: Any) -> ChatReply:
        cost = price(load_litellm(), self.model, response)
        reply = read_completion(response)
        if reply is None:
            return ChatReply("", "The reply is empty.", 0, 0, cost)
        text, written, problem = reply.text, reply.completion_tokens, None
        if reply.refusal is not None:
            problem = "The reply is a refusal, not what was asked for."
            text = text or reply.refusal
        elif reply.finish_reason == "content_filter":
            problem = "The reply was stopped by the provider's content filter."
        elif reply.finish_reason == "length":
            problem = f"The reply was cut off after {written or self.max_tokens} tokens; be shorter."
        return ChatReply(text, problem, reply.prompt_tokens, written, cost)


def _filtered(error: BaseException) -> bool:
    if any(kind.__name__ == "ContentPolicyViolationError" for kind in type(error).__mro__):
        return True
    return getattr(error, "status_code", None) == 400 and any(sign in str(error).lower() for sign in _FILTER_SIGNS)
