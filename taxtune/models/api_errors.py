"""What went wrong in a call to an API: whether to retry, to do without the answer, or to stop."""

from __future__ import annotations

import os
import re
import time
from calendar import timegm
from collections.abc import Iterator
from email.utils import parsedate
from types import ModuleType

from taxtune.errors import ModelError, one_line
from taxtune.models.base import CallError, Fault
from taxtune.models.transport import install

__all__ = [
    "MessageTooLongError",
    "classify",
    "load_litellm",
    "without_credentials",
    "without_secrets",
]

_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
# The names of classes that litellm puts before a server's words.
_CLASS_NAME = re.compile(r"(?:litellm\.)?\b\w*(?:Error|Exception|Timeout)\b(?: Error)?\s*[:-]\s*")
_FILTER_SIGNS = ("content_filter", "content management policy", "content_policy_violation")
# What litellm says of a body that is empty, no JSON (every JSON error ends with its position),
# other JSON, or JSON without choices; its words differ by version.
_MALFORMED = re.compile(
    r"line \d+ column \d+ \(char \d+\)|empty or invalid response|invalid response object"
    r"|'choices' that is not a list|with no 'choices'"
)
# "Please try again in 1m7.5s", "retry in 20 seconds", '"retryDelay": "7s"'.
_UNIT = r"(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?)(?![a-z])"
_DURATION = re.compile(rf"(\d+(?:\.\d+)?)\s*({_UNIT})", re.IGNORECASE)
_RETRY_IN = re.compile(
    r"\b(?:retry(?:ing)?|try(?:ing)? again|retrydelay|wait)\b[^\d\n]{0,20}"
    rf"((?:\d+(?:\.\d+)?\s*{_UNIT}[\s,]*)+)",
    re.IGNORECASE,
)


class MessageTooLongError(ModelError):
    """A message has more tokens than the model reads."""


def classify(error: BaseException, secret: str | None = None) -> CallError:
    """Classifies an error that litellm raised; the secret is cut out of the reason."""
    own = next((link for link in _chain(error) if isinstance(link, CallError)), None)
    if own is not None:
        return CallError(own.fault, _one_line(own.reason, secret), own.remedy)
    if isinstance(error, TimeoutError):
        return CallError(Fault.TIMEOUT, "did not answer in time")
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        status = 0
    words = _one_line(_CLASS_NAME.sub("", str(error)), secret)
    text = str(error).lower()
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if status in (401, 403) or "missing credentials" in text:
        reason = f"rejected the key, or does not allow its use ({status or 'no key'}): {words}"
        return CallError(Fault.KEY, reason, "Check {keys}, or the key that was given.")
    is_out_of_quota = "insufficient_quota" in text or "exceeded your current quota" in text
    if status == 402 or (status == 429 and is_out_of_quota):
        remedy = "Top up the account and continue with --resume; the answers so far are saved."
        return CallError(Fault.NO_CREDIT, f"has no credit left: {words}", remedy)
    if status == 404:
        remedy = "Check the model's name and `api_base`."
        return CallError(Fault.NOT_FOUND, f"was not found: {words}", remedy)
    is_filtered = status == 400 and any(sign in text for sign in _FILTER_SIGNS)
    if is_filtered or "ContentPolicyViolationError" in kinds:
        reason = f"was blocked by its provider's content filter: {words}"
        return CallError(Fault.CONTENT_FILTER, reason)
    if "ContextWindowExceededError" in kinds:
        return CallError(Fault.TOO_LONG, f"rejected the request: {words}")
    if status == 413:
        return CallError(Fault.REJECTED, f"rejected the request as too large: {words}")
    if _is_page(text) and status not in _RETRIED - {500}:
        # A proxy on the way shows such pages for a while; a sign-in page or a wrong address shows
        # them for ever.
        reason = (
            "returned a web page instead of an answer; check `api_base`, which usually ends in /v1"
        )
        return CallError(Fault.MALFORMED, reason)
    # Of an error in place of the choices that has no status, litellm makes one of 422 or none, and
    # drops its words.
    is_unread = (not status or status >= 500) and _MALFORMED.search(text)
    if is_unread or (status in (0, 422) and not words):
        reason = "returned nothing, or something that is not a chat completion"
        return CallError(Fault.MALFORMED, reason)
    if "Timeout" in kinds or status == 408:
        return CallError(Fault.TIMEOUT, "did not answer in time")
    asked = _retry_after(error)
    if status == 429:
        wait = f" (it asks to wait {asked:.0f} s)" if asked >= 1 else ""
        return CallError(Fault.RATE_LIMIT, f"is over its rate limit{wait}: {words}", asked=asked)
    if "connection error" in text or kinds & {"APIConnectionError", "ConnectionError"}:
        return CallError(Fault.CONNECTION, f"cannot be reached: {_cause(error) or words}")
    if status in _RETRIED or status >= 500:
        return CallError(Fault.SERVER_ERROR, f"failed ({status}): {words}", asked=asked)
    return CallError(Fault.REJECTED, f"rejected the request: {words}")


def without_credentials(address: str | None) -> str | None:
    """Returns an address without the user, the password and the query that may stand in it."""
    if address is None:
        return None
    return re.sub(r"//[^/@]*@", "//", address).split("?", 1)[0].rstrip("/")


def without_secrets(text: str, secret: str | None) -> str:
    """Returns a text with a secret, and each provider's key in the environment, as "[key]".

    A word, such as the EMPTY or dummy that a server without keys is sent, is no secret: it may be
    part of an answer.
    """
    keys = [value for name, value in os.environ.items() if name.endswith("_API_KEY")]
    for key in (secret, *keys):
        if key and len(key) >= 4 and not (key.isalpha() and len(key) < 16):
            text = text.replace(key, "[key]")
    return text


def load_litellm() -> ModuleType:
    """Imports litellm, kept from fetching its prices, from telemetry and from printing."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.disable_hf_tokenizer_download = True
    install(litellm)
    return litellm  # type: ignore[no-any-return]


def _retry_after(error: BaseException) -> float:
    """Returns the seconds that a server asked to wait, in a header or in its words, or 0."""
    response = getattr(error, "response", None)
    of_litellm = getattr(error, "litellm_response_headers", None)
    for headers in (of_litellm or {}, getattr(response, "headers", None) or {}):
        value = str(headers.get("retry-after", "")).strip()
        seconds = re.fullmatch(r"(\d+(?:\.\d+)?)\s*s?", value)
        if seconds:
            return float(seconds[1])
        date = parsedate(value)
        if date:
            # By the server's own clock, which may differ from this machine's; dates of HTTP are in
            # GMT.
            now = parsedate(headers.get("date", "")) or time.gmtime()
            return max(0.0, float(timegm(date) - timegm(now)))
    asked = _RETRY_IN.search(str(error))
    if asked is None:
        return 0.0
    return sum(float(number) * _seconds(unit) for number, unit in _DURATION.findall(asked[1]))


def _seconds(unit: str) -> float:
    """Returns the seconds of a unit of time by its name or sign."""
    unit = unit.lower()
    if unit.startswith(("ms", "milli")):
        return 0.001
    return {"s": 1.0, "m": 60.0, "h": 3600.0}[unit[0]]


def _cause(error: BaseException) -> str:
    """Returns the system's words for a lost connection, which only the innermost error has."""
    words = ""
    for link in _chain(error):
        if isinstance(link, OSError) and link.strerror:
            words = link.strerror
    return words


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yields an error and what caused it, down to the innermost."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_page(text: str) -> bool:
    return any(sign in text.lower() for sign in ("<!doctype", "<html"))


def _one_line(text: str, secret: str | None, limit: int = 200) -> str:
    """Returns a server's words in one line, without secrets and images."""
    text = re.sub(r"data:image/[^\s'\"]+", "[image]", one_line(text))
    text = without_secrets(text, secret)
    if _is_page(text):
        text = "with a web page"
    return text if len(text) <= limit else text[: limit - 1] + "…"
