"""One call to a chat model through litellm: retried where a retry can help, explained where it cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from taxtune.errors import ProposerError
from taxtune.vlm.api_calls import find_key, price, read_completion
from taxtune.vlm.api_errors import (
    RetryNotes,
    judge,
    load_litellm,
    needed_keys,
    retry_after,
    without_credentials,
    worth_waiting_for,
)

if TYPE_CHECKING:
    from types import ModuleType

    import tenacity

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
        api_base: Address of the server; the provider's own where left out.
        api_key: The key; the provider's environment variable where left out. Never logged.
        temperature: Sampling temperature; None for the provider's default.
        max_tokens: Most tokens of a reply.
        timeout: Seconds that one call may take.
        max_retries: Further attempts after rate limits, time-outs, 5xx and lost connections.
        first_wait: Seconds before the second attempt; doubles each time. A server's Retry-After is respected.
        longest_wait: Most seconds between two attempts.
        on_note: Called when a call fails and is tried again.
    """

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None,
        api_key: str | None,
        temperature: float | None,
        max_tokens: int,
        timeout: float,
        max_retries: int,
        first_wait: float,
        longest_wait: float,
        on_note: Callable[[str], None] | None = None,
    ) -> None:
        self.model = model
        self.api_base = api_base
        self._api_key = api_key
        self.temperature = temperature
        self.max_tokens = max_tokens
        self.timeout = timeout
        self.max_retries = max_retries
        self.first_wait = first_wait
        self.longest_wait = longest_wait
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
            ProposerError: The key is missing or refused, the model does not exist, or the server is out of reach or
                answers with errors after all attempts.
        """
        import tenacity

        litellm = load_litellm()
        key = self._key(litellm)

        def call() -> Any:
            return litellm.completion(
                model=self.model,
                messages=list(messages),
                api_base=self.api_base,
                api_key=key,
                temperature=self.temperature,
                max_tokens=self.max_tokens,
                seed=seed % 2**31,
                timeout=self.timeout,
                # tenacity alone repeats calls; two layers of retries would multiply.
                num_retries=0,
                max_retries=0,
                # A provider that knows no seed or temperature gets none.
                drop_params=True,
            )

        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.max_retries + 1),
            wait=self._wait,
            retry=tenacity.retry_if_exception(lambda error: worth_waiting_for(error, self.longest_wait)),
            before_sleep=self._notes,
            reraise=True,
        )
        try:
            response = retrying(call)
        except Exception as error:
            if _filtered(error):
                return ChatReply("", "The provider's content filter stopped the request.", 0, 0, None)
            raise self._explain(error) from None
        return self._read(response)

    def check(self) -> None:
        """Tells whether a call could be made, without making one.

        Raises:
            ProposerError: litellm does not know the model's provider, or the key is missing.
        """
        self._key(load_litellm())

    def _key(self, litellm: ModuleType) -> str | None:
        return find_key(
            litellm,
            self.model,
            api_base=self.api_base,
            api_key=self._api_key,
            whose="the proposer's model",
            error=ProposerError,
            otherwise=", or use the proposer 'fragments', which needs no key",
        )

    def _wait(self, state: tenacity.RetryCallState) -> float:
        wait = self.first_wait * 2.0 ** (state.attempt_number - 1)
        error = state.outcome.exception() if state.outcome is not None else None
        return min(max(wait, retry_after(error)), self.longest_wait)

    def _name(self) -> str:
        where = "" if self.api_base is None else f" at {without_credentials(self.api_base)}"
        return f"The proposer's model {self.model!r}{where}"

    def _explain(self, error: Exception) -> ProposerError:
        name = self._name()
        if any(kind.__name__ == "ContextWindowExceededError" for kind in type(error).__mro__):
            return ProposerError(f"{name} finds the message too long.", remedy="Lower 'max_history_tokens'.")
        verdict = judge(error, secrets=(self._api_key,))
        retried = verdict.retry and worth_waiting_for(error, self.longest_wait)
        attempts = f", after {self.max_retries + 1} attempts" if retried else ""
        remedy = verdict.remedy.replace("{keys}", " or ".join(needed_keys(load_litellm(), self.model)))
        if not remedy:
            later = verdict.retry or verdict.passing
            remedy = "Go on with --resume when it answers again." if later else "Check the proposer's settings."
        return ProposerError(f"{name} {verdict.reason.rstrip('.')}{attempts}.", remedy=remedy)

    def _read(self, response: Any) -> ChatReply:
        cost = price(load_litellm(), self.model, response)
        reply = read_completion(response)
        if reply is None:
            return ChatReply("", "The reply is empty.", 0, 0, cost)
        text, written, problem = reply.text, reply.completion_tokens, None
        if reply.refusal is not None:
            problem = "The reply is a refusal, not a template."
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
