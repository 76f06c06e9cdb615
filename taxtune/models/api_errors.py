"""What went wrong in a call to an API: whether to try again, to go on without the answer, or to stop."""

from __future__ import annotations

import os
import re
import time
from calendar import timegm
from collections.abc import Iterable, Iterator
from email.utils import parsedate
from types import ModuleType

from taxtune.errors import ModelError
from taxtune.models.base import Fault
from taxtune.models.transport import LimitError, install

__all__ = [
    "CallError",
    "MessageTooLongError",
    "classify",
    "load_litellm",
    "without_credentials",
    "without_secrets",
]

_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_PAGE_SIGNS = ("<!doctype", "<html")
_FILTER_SIGNS = ("content_filter", "content management policy", "content_policy_violation")
# What litellm says of a body that is empty, no JSON (every JSON error ends with its position), other JSON, or JSON
# without choices; its words differ by version.
_MALFORMED = re.compile(
    r"line \d+ column \d+ \(char \d+\)|empty or invalid response|invalid response object"
    r"|'choices' that is not a list|with no 'choices'"
)


# "Please try again in 1m7.5s", "retry in 20 seconds", '"retryDelay": "7s"'.
_UNIT = r"(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?)(?![a-z])"
_DURATION = re.compile(rf"(\d+(?:\.\d+)?)\s*({_UNIT})", re.IGNORECASE)
_RETRY_IN = re.compile(
    rf"\b(?:retry(?:ing)?|try(?:ing)? again|retrydelay|wait)\b[^\d\n]{{0,20}}((?:\d+(?:\.\d+)?\s*{_UNIT}[\s,]*)+)",
    re.IGNORECASE,
)


class MessageTooLongError(ModelError):
    """A message has more tokens than the model reads."""


class CallError(Exception):
    """A failed attempt.

    Args:
        fault: What it is counted as, which decides what is done about it.
        reason: What the model or its server did, as the rest of a sentence that begins with "The model ...".
        remedy: What to do about a fatal error.
        asked: The seconds that the server asked to wait, or 0.
    """

    def __init__(self, fault: Fault, reason: str, remedy: str = "", *, asked: float = 0.0) -> None:
        super().__init__(reason)
        self.fault, self.reason, self.remedy, self.asked = fault, reason, remedy, asked


def classify(error: BaseException, *, secrets: Iterable[str | None] = ()) -> CallError:
    """Classifies an error that litellm raised; `secrets` are cut out of the reason."""
    own = next((link for link in _chain(error) if isinstance(link, CallError | LimitError)), None)
    if own is not None:
        return CallError(own.fault, _one_line(own.reason, secrets), own.remedy)
    if isinstance(error, TimeoutError):
        return CallError(Fault.TIMEOUT, "did not answer in time")
    status = getattr(error, "status_code", None)
    status = status if isinstance(status, int) else 0
    words = re.sub(
        r"(?:litellm\.)?\b\w*(?:Error|Exception|Timeout)\b(?: Error)?\s*[:-]\s*", "", str(error)
    )
    said = _one_line(words, secrets)
    low, kinds = str(error).lower(), {kind.__name__ for kind in type(error).__mro__}
    if status in (401, 403) or "missing credentials" in low:
        reason = f"rejected the key, or does not allow its use ({status or 'no key'}): {said}"
        return CallError(Fault.KEY, reason, "Check {keys}, or the key that was given.")
    if status == 402 or (
        status == 429 and ("insufficient_quota" in low or "exceeded your current quota" in low)
    ):
        remedy = "Top up the account and continue with --resume; the answers so far are saved."
        return CallError(Fault.NO_CREDIT, f"has no credit left: {said}", remedy)
    if status == 404:
        return CallError(
            Fault.NOT_FOUND, f"was not found: {said}", "Check the model's name and `api_base`."
        )
    if "ContentPolicyViolationError" in kinds or (
        status == 400 and any(sign in low for sign in _FILTER_SIGNS)
    ):
        return CallError(
            Fault.CONTENT_FILTER, f"was blocked by its provider's content filter: {said}"
        )
    if "ContextWindowExceededError" in kinds:
        return CallError(Fault.TOO_LONG, f"rejected the request: {said}")
    if status == 413:
        return CallError(Fault.REJECTED, f"rejected the request as too large: {said}")
    if any(sign in low for sign in _PAGE_SIGNS) and status not in _RETRIED - {500}:
        # A proxy on the way shows such pages for a while; a sign-in page or a wrong address shows them for ever.
        reason = (
            "returned a web page instead of an answer; check `api_base`, which usually ends in /v1"
        )
        return CallError(Fault.MALFORMED, reason)
    # Of an error in place of the choices that has no status, litellm makes one of 422 or none, and drops its words.
    if ((not status or status >= 500) and _MALFORMED.search(low)) or (
        status in (0, 422) and not said
    ):
        return CallError(
            Fault.MALFORMED, "returned nothing, or something that is not a chat completion"
        )
    if "Timeout" in kinds or status == 408:
        return CallError(Fault.TIMEOUT, "did not answer in time")
    asked = _retry_after(error)
    if status == 429:
        wait = f" (it asks to wait {asked:.0f} s)" if asked >= 1 else ""
        return CallError(Fault.RATE_LIMIT, f"is over its rate limit{wait}: {said}", asked=asked)
    if "connection error" in low or kinds & {"APIConnectionError", "ConnectionError"}:
        return CallError(Fault.CONNECTION, f"cannot be reached: {_cause(error) or said}")
    if status in _RETRIED or status >= 500:
        return CallError(Fault.SERVER_ERROR, f"failed ({status}): {said}", asked=asked)
    return CallError(Fault.REJECTED, f"rejected the request: {said}")


def without_credentials(address: str | None) -> str | None:
    """Returns an address without the user, the password and the query that may stand in it."""
    if address is None:
        return None
    return re.sub(r"//[^/@]*@", "//", address).split("?", 1)[0].rstrip("/")


def without_secrets(text: str, secrets: Iterable[str | None]) -> str:
    """Returns a text with each secret, and each provider's key in the environment, replaced by "[key]".

    A word, such as the EMPTY or dummy that a server without keys is sent, is no secret: it may be part of an answer.
    """
    for secret in (
        *secrets,
        *(value for name, value in os.environ.items() if name.endswith("_API_KEY")),
    ):
        if secret and len(secret) >= 4 and not (secret.isalpha() and len(secret) < 16):
            text = text.replace(secret, "[key]")
    return text


def load_litellm() -> ModuleType:
    """Imports litellm, kept from fetching its price list, from telemetry and from printing to stdout."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.disable_hf_tokenizer_download = True
    install(litellm)
    return litellm  # type: ignore[no-any-return]


def _retry_after(error: BaseException) -> float:
    """The seconds that a server asked to wait, in a header or in its words; 0 where it did not."""
    response = getattr(error, "response", None)
    for headers in (
        getattr(error, "litellm_response_headers", None),
        getattr(response, "headers", None),
    ):
        value = str((headers or {}).get("retry-after", "")).strip()
        if seconds := re.fullmatch(r"(\d+(?:\.\d+)?)\s*s?", value):
            return float(seconds[1])
        if date := parsedate(value):
            # By the server's own clock, which may differ from this machine's; dates of HTTP are in GMT.
            now = parsedate((headers or {}).get("date", "")) or time.gmtime()
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


def _cause(error: BaseException | None) -> str:
    """The system's own words for a lost connection, which only the innermost error has; empty where there are none."""
    causes = [
        link.strerror for link in _chain(error) if isinstance(link, OSError) and link.strerror
    ]
    return causes[-1] if causes else ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yields an error and what caused it, down to the innermost."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _one_line(text: str, secrets: Iterable[str | None], limit: int = 200) -> str:
    """A server's words in one line, without secrets and images."""
    text = without_secrets(
        re.sub(r"data:image/[^\s'\"]+", "[image]", " ".join(text.split())), secrets
    )
    if any(sign in text.lower() for sign in _PAGE_SIGNS):
        text = "with a web page"
    return text if len(text) <= limit else text[: limit - 1] + "…"
