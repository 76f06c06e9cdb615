"""One call to a chat model through litellm: retried where a retry can help, explained where it cannot."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from taxtune.errors import ProposerError

if TYPE_CHECKING:
    from types import ModuleType

    import tenacity

__all__ = ["Chat", "ChatReply", "without_password"]

_RETRIED_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


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

    def __repr__(self) -> str:
        return f"Chat({self.model!r}, api_base={None if self.api_base is None else without_password(self.api_base)!r})"

    def count_tokens(self, text: str) -> int:
        """Returns the number of tokens of a text; an estimate where the model's tokenizer is not known."""
        try:
            return int(_litellm().token_counter(model=self.model, text=text))
        except Exception:  # a tokenizer that cannot be had is no reason to stop
            return len(text) // 3 + 1

    def ask(self, messages: Sequence[dict[str, str]], *, seed: int) -> ChatReply:
        """Returns the model's reply to a conversation.

        Raises:
            ProposerError: The key is missing or refused, the model does not exist, or the server is out of reach or
                answers with errors after all attempts.
        """
        import tenacity

        litellm = _litellm()
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
            retry=tenacity.retry_if_exception(_may_pass),
            reraise=True,
        )
        try:
            response = retrying(call)
        except Exception as error:
            if _filtered(error):
                return ChatReply("", "The provider's content filter stopped the request.", 0, 0, None)
            raise self._explain(error) from None
        return self._read(response)

    def _key(self, litellm: ModuleType) -> str | None:
        if self._api_key is not None:
            return self._api_key
        missing = list(litellm.validate_environment(self.model).get("missing_keys", ()))
        if not missing:
            return None
        if self.api_base is not None:
            # A server of one's own often wants no key, but the client insists on sending one.
            return "none" if all(name.endswith(("_API_KEY", "_API_BASE")) for name in missing) else None
        raise ProposerError(
            f"The model {self.model!r} needs a key: {' or '.join(missing)} is not set.",
            remedy=f"Set it (export {missing[0]}=...), give the address of a server of your own (api_base), or use the "
            "proposer 'fragments', which needs no key.",
        )

    def _wait(self, state: tenacity.RetryCallState) -> float:
        wait = self.first_wait * 2.0 ** (state.attempt_number - 1)
        error = state.outcome.exception() if state.outcome is not None else None
        return min(max(wait, _retry_after(error)), self.longest_wait)

    def _explain(self, error: Exception) -> ProposerError:
        where = f"{self.model!r}" + (f" at {without_password(self.api_base)}" if self.api_base else "")
        status = getattr(error, "status_code", None)
        said = self._said(error)
        tries = f"after {self.max_retries + 1} attempts" if _may_pass(error) else "and a retry cannot help"
        if status in (401, 403):
            litellm = _litellm()
            names = [n for n in litellm.validate_environment(self.model).get("missing_keys", ()) if n.endswith("_KEY")]
            names = names or [f"{self.model.split('/')[0].upper()}_API_KEY"]
            return ProposerError(
                f"The proposer's model {where} refuses the key or the permission is missing ({status}): {said}",
                remedy=f"Check {' or '.join(names)}.",
            )
        if status == 404:
            return ProposerError(
                f"The proposer's model {where} was not found: {said}", remedy="Check 'model' and 'api_base'."
            )
        if _is(error, "ContextWindowExceededError"):
            return ProposerError(
                f"The history is too long for the proposer's model {where}: {said}",
                remedy="Lower 'max_history_tokens'.",
            )
        if status == 429:
            return ProposerError(
                f"The proposer's model {where} is over its rate limit or quota, {tries}: {said}",
                remedy="Wait or raise the limit, then go on with --resume.",
            )
        if _is(error, "Timeout"):
            return ProposerError(
                f"The proposer's model {where} did not answer within {self.timeout:g} s, {tries}.",
                remedy="Raise 'timeout' or go on later with --resume.",
            )
        if "Connection error" in said or _is(error, "APIConnectionError"):
            return ProposerError(
                f"The proposer's model {where} cannot be reached, {tries}: {said}",
                remedy="Check 'api_base' and the network, then go on with --resume.",
            )
        if _not_completion(said):
            return ProposerError(
                f"What answers as the proposer's model {where} is no chat API, {tries}: {said}",
                remedy="Check 'api_base'; it usually ends in /v1.",
            )
        if isinstance(status, int) and status >= 500:
            return ProposerError(
                f"The proposer's model {where} fails ({status}), {tries}: {said}",
                remedy="Go on later with --resume.",
            )
        return ProposerError(
            f"The proposer's model {where} rejects the request: {said}", remedy="Check the proposer's settings."
        )

    def _said(self, error: Exception) -> str:
        text = re.sub(r"(?:litellm\.)?\b\w*(?:Error|Exception|Timeout)\b(?: Error)?\s*[:-]\s*", "", str(error))
        text = " ".join(text.split())
        for secret in (self._api_key, *(v for k, v in os.environ.items() if k.endswith("_API_KEY"))):
            if secret and len(secret) >= 4:
                text = text.replace(secret, "[key]")
        text = text if len(text) <= 300 else text[:299] + "…"
        return text if text.endswith((".", "…", "!", "?")) else text + "."

    def _read(self, response: Any) -> ChatReply:
        usage = getattr(response, "usage", None)
        sent = int(getattr(usage, "prompt_tokens", 0) or 0)
        written = int(getattr(usage, "completion_tokens", 0) or 0)
        choices = getattr(response, "choices", None) or []
        if not choices:
            return ChatReply("", "The reply is empty.", sent, written, self._cost(response))
        message = choices[0].message
        text = message.content if isinstance(message.content, str) else ""
        special = getattr(message, "provider_specific_fields", None) or {}
        refusal = getattr(message, "refusal", None) or special.get("refusal")
        reason = choices[0].finish_reason
        problem = None
        if refusal:
            problem = "The reply is a refusal, not a template."
            text = text or str(refusal)
        elif reason == "content_filter":
            problem = "The reply was stopped by the provider's content filter."
        elif reason == "length":
            problem = f"The reply was cut off after {written or self.max_tokens} tokens; be shorter."
        return ChatReply(text, problem, sent, written, self._cost(response))

    def _cost(self, response: Any) -> float | None:
        try:
            return float(_litellm().completion_cost(completion_response=response, model=self.model))
        except Exception:  # litellm knows no price for this model
            return None


def _litellm() -> ModuleType:
    # Otherwise litellm fetches its price list from the net when it is imported.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    litellm.telemetry = False
    litellm.suppress_debug_info = True  # it prints advice to stdout, where results go
    litellm.disable_hf_tokenizer_download = True
    return litellm  # type: ignore[no-any-return]


def _is(error: BaseException, name: str) -> bool:
    return any(kind.__name__ == name for kind in type(error).__mro__)


def _filtered(error: BaseException) -> bool:
    signs = ("content_filter", "content management policy", "content_policy_violation")
    return _is(error, "ContentPolicyViolationError") or (
        getattr(error, "status_code", None) == 400 and any(sign in str(error).lower() for sign in signs)
    )


def _may_pass(error: BaseException) -> bool:
    """Whether the same call may succeed a little later."""
    status = getattr(error, "status_code", None)
    text = str(error)
    if status == 429 and ("insufficient_quota" in text or "exceeded your current quota" in text):
        return False
    if "Missing credentials" in text:
        return False
    if status in _RETRIED_STATUS:
        return True
    return status is None and (_is(error, "APIConnectionError") or isinstance(error, ConnectionError | TimeoutError))


def _not_completion(said: str) -> bool:
    signs = ("<!doctype", "<html", "Expecting value", "Empty or invalid response", "Invalid response object")
    return any(sign.lower() in said.lower() for sign in signs)


def _retry_after(error: BaseException | None) -> float:
    for headers in (
        getattr(error, "litellm_response_headers", None),
        getattr(getattr(error, "response", None), "headers", None),
    ):
        value = None if headers is None else headers.get("retry-after")
        try:
            return max(float(value), 0.0) if value is not None else 0.0
        except ValueError:
            continue  # a date; the doubling wait will do
    return 0.0


def without_password(address: str) -> str:
    """Returns an address without the user name and password that may stand in it."""
    return re.sub(r"//[^/@]*@", "//", address)
