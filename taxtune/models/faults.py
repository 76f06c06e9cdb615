"""Ways in which a call of a model fails: what to do about each, and the count of them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum

__all__ = ["Fault", "count_fault", "count_faults"]


class Fault(Enum):
    """A way in which a call fails.

    Attributes:
        key: What it is called in records.
        retries: Further attempts that it is worth; None for as many as the retry policy allows.
        passes: Whether the same call may succeed later, so that a run which lacks answers for it had better stop than
            blame the template.
    """

    def __init__(self, key: str, retries: int | None, passes: bool) -> None:
        self.key = key
        self.retries = retries
        self.passes = passes

    RATE_LIMIT = "rate_limit", None, True
    SERVER_ERROR = "server_error", None, True
    TIMEOUT = "timeout", None, True
    CONNECTION = "lost_connection", None, True
    MALFORMED = "malformed_response", None, True
    WEB_PAGE = "web_page", None, True
    NO_CHOICES = "no_choices", None, True
    # Some models say nothing about some images, or to some prompts, whenever they are asked: a run must not stop for
    # that, as it would stop there again each time it is continued.
    EMPTY = "empty_text", None, False
    # A sampled reply, or a classifier on a busy server, refuses at random now and then, which another attempt mends.
    # A second refusal is the provider's verdict: to insist costs money, and accounts are closed for it.
    REFUSAL = "refusal", 1, False
    CONTENT_FILTER = "content_filter", 1, False
    # The same limit cuts off the next attempt as well.
    CUT_OFF = "cut_off", 0, False
    TOO_LONG = "too_long", 0, False
    REJECTED = "rejected_request", 0, False
    FUNCTION = "function_error", 0, True
    KEY = "rejected_key", 0, False
    NO_CREDIT = "no_credit", 0, False
    NOT_FOUND = "not_found", 0, False

    @property
    def fatal(self) -> bool:
        """Whether every other call would fail alike."""
        return self in (Fault.KEY, Fault.NO_CREDIT, Fault.NOT_FOUND)


_counts: ContextVar[Counter[str] | None] = ContextVar("taxtune_faults", default=None)
_lock = threading.Lock()


@contextmanager
def count_faults() -> Iterator[Counter[str]]:
    """Counts the attempts that fail within the block, by the fault's key; those of an inner block count there alone."""
    found: Counter[str] = Counter()
    token = _counts.set(found)
    try:
        yield found
    finally:
        _counts.reset(token)


def count_fault(fault: Fault) -> None:
    """Takes note of an attempt that failed."""
    counts = _counts.get()
    if counts is not None:
        with _lock:
            counts[fault.key] += 1
