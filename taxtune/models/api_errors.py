"""What went wrong in a call to an API: whether to try again, to go on without the answer, or to stop."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING

from taxtune.errors import ModelError
from taxtune.models.base import Fault, retry_after
from taxtune.progress import note

if TYPE_CHECKING:
    import tenacity

__all__ = [
    "CallError",
    "MessageTooLongError",
    "RetryNotes",
    "UnusableReplyError",
    "classify",
    "load_litellm",
    "needed_keys",
    "without_credentials",
    "without_secrets",
]

_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_PAGE_SIGNS = ("<!doctype", "<html")
_FILTER_SIGNS = ("content_filter", "content management policy", "content_policy_violation")
# What litellm says of a body that is empty, no JSON (every JSON error ends with its position), or other JSON.
_MALFORMED = re.compile(r"line \d+ column \d+ \(char \d+\)|empty or invalid response|invalid response object")


class MessageTooLongError(ModelError):
    """A message has more tokens than the model reads."""


@dataclass(frozen=True, slots=True)
class CallError:
    """A failed attempt.

    Attributes:
        fault: What it is counted as, which decides what is done about it.
        reason: What the model or its server did, as the rest of a sentence that begins with "The model ...".
        remedy: What to do about a fatal error; "{keys}" stands for the names of the provider's keys.
    """

    fault: Fault
    reason: str
    remedy: str = ""


class UnusableReplyError(Exception):
    """A call gave no reply, or one that holds no answer; arguments as for `CallError`."""

    def __init__(self, fault: Fault, reason: str) -> None:
        super().__init__(reason)
        self.problem = CallError(fault, reason)


def classify(error: BaseException, *, secrets: Iterable[str | None] = ()) -> CallError:
    """Classifies an error that litellm raised; `secrets` are cut out of the reason."""
    if isinstance(error, UnusableReplyError):
        return replace(error.problem, reason=_said(error.problem.reason, secrets))
    status = getattr(error, "status_code", None)
    status = status if isinstance(status, int) else 0
    said = _said(_without_class_names(str(error)), secrets)
    low = str(error).lower()
    if status in (401, 403) or "missing credentials" in low:
        reason = f"rejected the key, or does not allow its use ({status or 'no key'}): {said}"
        return CallError(Fault.KEY, reason, "Check {keys}, or the key that was given.")
    if status == 402 or (status == 429 and ("insufficient_quota" in low or "exceeded your current quota" in low)):
        return CallError(
            Fault.NO_CREDIT,
            f"has no credit left: {said}",
            "Top up the account and continue with --resume; the answers so far are saved.",
        )
    if status == 404:
        return CallError(Fault.NOT_FOUND, f"was not found: {said}", "Check the model's name and `api_base`.")
    if _is(error, "ContentPolicyViolationError") or (status == 400 and any(sign in low for sign in _FILTER_SIGNS)):
        return CallError(Fault.CONTENT_FILTER, f"was blocked by its provider's content filter: {said}")
    if _is(error, "ContextWindowExceededError"):
        return CallError(Fault.TOO_LONG, f"rejected the request: {said}")
    if status == 413:
        return CallError(Fault.REJECTED, f"rejected the request as too large: {said}")
    if any(sign in low for sign in _PAGE_SIGNS) and status not in _RETRIED - {500}:
        # A proxy on the way shows such pages for a while; a sign-in page or a wrong address shows them for ever.
        return CallError(
            Fault.WEB_PAGE, "returned a web page instead of an answer; check `api_base`, which usually ends in /v1"
        )
    if "'choices' that is not a list" in low or "with no 'choices'" in low:  # litellm's words, which differ by version
        return CallError(Fault.NO_CHOICES, "returned a response without choices")
    # Of an error in place of the choices that has no status, litellm makes one of 422 or none, and drops its words.
    if ((not status or status >= 500) and _MALFORMED.search(low)) or (status in (0, 422) and not said):
        return CallError(Fault.MALFORMED, "returned nothing, or something that is not a chat completion")
    if _is(error, "Timeout") or status == 408:
        return CallError(Fault.TIMEOUT, "did not answer in time")
    if status == 429:
        asked = retry_after(error)
        wait = f" (it asks to wait {asked:.0f} s)" if asked >= 1 else ""
        return CallError(Fault.RATE_LIMIT, f"is over its rate limit{wait}: {said}")
    if "connection error" in low or _is(error, "APIConnectionError") or isinstance(error, ConnectionError):
        return CallError(Fault.CONNECTION, f"cannot be reached: {_cause(error) or said}")
    if status in _RETRIED or status >= 500:
        return CallError(Fault.SERVER_ERROR, f"failed ({status}): {said}")
    return CallError(Fault.REJECTED, f"rejected the request: {said}")


class RetryNotes:
    """Tells the user that calls fail and are repeated, once in 15 seconds for all concurrent calls; see tenacity.

    Args:
        name: The model, as messages call it.
        attempts: Most attempts of a call.
        secrets: Texts that are cut out of a note.
    """

    every = 15.0

    def __init__(self, name: str, attempts: int, *, secrets: Iterable[str | None] = ()) -> None:
        self._name, self._attempts, self._secrets = name, attempts, tuple(secrets)
        self._lock, self._last = threading.Lock(), float("-inf")

    def __call__(self, state: tenacity.RetryCallState) -> None:
        """Notes a failed attempt before the wait for the next; for tenacity's `before_sleep`."""
        error = state.outcome.exception() if state.outcome is not None else None
        with self._lock:
            if error is None or time.monotonic() - self._last < self.every:
                return
            self._last = time.monotonic()
        wait = state.next_action.sleep if state.next_action is not None else 0.0
        reason = classify(error, secrets=self._secrets).reason.rstrip(".")
        note(
            f"{self._name} {reason}; trying again in {max(1, round(wait))} s "
            f"(attempt {state.attempt_number + 1} of {self._attempts})."
        )


def without_credentials(address: str | None) -> str | None:
    """Returns an address without the user, the password and the query that may stand in it."""
    if address is None:
        return None
    return re.sub(r"//[^/@]*@", "//", address).split("?", 1)[0].rstrip("/")


def without_secrets(text: str, secrets: Iterable[str | None]) -> str:
    """Returns a text with each secret, and each provider's key in the environment, replaced by "[key]".

    A word, such as the EMPTY or dummy that a server without keys is sent, is no secret: it may be part of an answer.
    """
    for secret in (*secrets, *(value for name, value in os.environ.items() if name.endswith("_API_KEY"))):
        if secret and len(secret) >= 4 and not (secret.isalpha() and len(secret) < 16):
            text = text.replace(secret, "[key]")
    return text


def needed_keys(litellm: ModuleType, model: str) -> list[str]:
    """Returns the names of the environment variables that hold the key of a model's provider."""
    environment = litellm.validate_environment(model)
    names = [name for name in environment.get("missing_keys", ()) if name.endswith("_KEY")]
    return names or [f"{model.split('/', 1)[0].upper()}_API_KEY"]


def load_litellm() -> ModuleType:
    """Imports litellm, kept from fetching its price list, from telemetry and from printing to stdout."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.disable_hf_tokenizer_download = True
    return litellm  # type: ignore[no-any-return]


def _cause(error: BaseException | None) -> str:
    """The system's own words for a lost connection, which only the innermost error has; empty where there are none."""
    cause = ""
    while error is not None:
        if isinstance(error, OSError) and error.strerror:
            cause = error.strerror
        error = error.__cause__ or error.__context__
    return cause


def _is(error: BaseException, name: str) -> bool:
    return any(kind.__name__ == name for kind in type(error).__mro__)


def _without_class_names(text: str) -> str:
    return re.sub(r"(?:litellm\.)?\b\w*(?:Error|Exception|Timeout)\b(?: Error)?\s*[:-]\s*", "", text)


def _said(text: str, secrets: Iterable[str | None], limit: int = 200) -> str:
    """A server's words in one line, without secrets and images."""
    text = re.sub(r"data:image/[^\s'\"]+", "[image]", " ".join(text.split()))
    text = without_secrets(text, secrets)
    if any(sign in text.lower() for sign in _PAGE_SIGNS):
        text = "with a web page"
    return text if len(text) <= limit else text[: limit - 1] + "…"
