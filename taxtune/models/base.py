"""What a model is to taxtune: a thing that answers requests, each a prompt with or without an image."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from taxtune.errors import ModelError
from taxtune.models.weights import QUANTIZATIONS
from taxtune.store import Identity

if TYPE_CHECKING:
    import tenacity

__all__ = [
    "Answer",
    "Failure",
    "Fault",
    "Identity",
    "Model",
    "ModelSettings",
    "Reply",
    "Request",
    "RetryPolicy",
    "Task",
    "count_fault",
    "count_faults",
    "reseeded",
    "retry_after",
    "well_formed",
]

# How the layers of a model may be spread over several cards, in the words of accelerate.
_DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
_DTYPES = ("auto", "float32", "bfloat16", "float16")

#: What is wanted of a model, in the words of Hugging Face: answers about images, or text for text.
Task = Literal["image-text-to-text", "text-generation"]


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt, about an image or about none.

    Attributes:
        prompt: The text, ready to be sent.
        image: The image file, or None.
        image_sha256: SHA-256 of the image file's bytes, in hexadecimal; a model that reads the file and finds another
            refuses it. None where it is not known, or there is no image.
        sample: Which of several answers to the same question is wanted, counted from 0. A model that samples draws
            each anew; one that decodes greedily, or takes no seed, may give the same answer again.
    """

    prompt: str
    image: Path | None = None
    image_sha256: str | None = None
    sample: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of a model.

    Attributes:
        text: The text that was generated, white space at the ends removed. It may be empty.
        cached: Whether the answer is a copy: out of the answer store, or of an identical request in the same call.
        prompt_tokens: Tokens read, image tokens included where the model counts them; of a copy, those of the original.
        completion_tokens: Tokens written; of a copy, those of the original.
        cost_usd: Price in US dollars; None where it is unknown, and 0 for a model that runs here.
        seconds: Wall-clock seconds that the answer took (of a batch, an equal share).
        batch: Number of requests computed together; in bfloat16 and float16 an answer may depend on it. None where it
            is not known: behind an API, and of an answer out of the store.
    """

    text: str
    cached: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that got no answer; it is counted as missing and never scored.

    Attributes:
        reason: What went wrong, in one line, without secrets.
        retryable: Whether the same request may be answered later (a rate limit, a time-out, a server's error).
    """

    reason: str
    retryable: bool


Reply = Answer | Failure


def well_formed(text: str) -> str:
    """Makes text that can be sent, stored and tokenized: half a surrogate pair becomes "?", and NUL U+FFFD."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


@runtime_checkable
class Model(Protocol):
    """A model: a vision-language model, a language model, or a function.

    Optional members: `stream(requests)` gives (place, reply) as replies come, in any order, each place once; it gets
    all requests at once, and closing it drops the rest. `batch_size` is the number of requests that keep the model busy
    (8 where it is missing), and those of a call of `answer` where there is no `stream`. `check()` finds out without a
    request whether the model can be asked: it returns notes for the user or raises `ModelError`.
    """

    @property
    def identity(self) -> Identity:
        """Everything that can change an answer: kind, model, revision, decoding; never a key."""
        ...

    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        """Answers requests, each on its own, in the same order and number.

        Raises:
            ModelError: If the model cannot answer at all, so that there is no point in going on.
        """
        ...


def reseeded(model: Model, seed: int) -> Model:
    """Makes a copy that samples with another seed and shares what is loaded; the same model where it draws nothing."""
    settings = getattr(model, "settings", None)
    if not isinstance(settings, ModelSettings) or settings.temperature == 0 or settings.seed == seed:
        return model
    other = copy(model)
    other.settings = replace(settings, seed=seed)  # type: ignore[attr-defined]
    return other


def retry_after(error: BaseException | None) -> float:
    """The seconds that a server asked to wait (Retry-After); 0 where it did not."""
    for headers in (
        getattr(error, "litellm_response_headers", None),
        getattr(getattr(error, "response", None), "headers", None),
    ):
        value = None if headers is None else headers.get("retry-after")
        try:
            if value is not None:
                return max(float(value), 0.0)
        except ValueError:
            continue  # a date: the doubling wait will do
    return 0.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a call that failed is tried again.

    The waits double, vary at random, and respect a server's Retry-After.

    Attributes:
        max_retries: Further attempts after the first, at least 0.
        first_wait: Seconds before the second attempt, at least on average; doubled before each further one.
        longest_wait: Most seconds before an attempt.
        timeout: Seconds that one attempt may take, from the call to the last byte of the reply.
    """

    max_retries: int = 5
    first_wait: float = 1.0
    longest_wait: float = 60.0
    timeout: float = 60.0

    def __post_init__(self) -> None:
        if self.max_retries < 0:
            raise ModelError("max_retries must be at least 0.", value=self.max_retries)
        if self.timeout <= 0:
            raise ModelError("timeout must be more than 0 seconds.", value=self.timeout)

    def wait(self, state: tenacity.RetryCallState) -> float:
        """The seconds to wait after a failed attempt; for tenacity's `wait`."""
        import random

        doubled = self.first_wait * 2.0 ** (state.attempt_number - 1)
        error = state.outcome.exception() if state.outcome is not None else None
        # Without the jitter, calls that were refused together would come back together.
        return min(max(doubled * random.uniform(0.75, 1.25), retry_after(error)), self.longest_wait)


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How a model is run; each kind takes what concerns it.

    Attributes:
        task: "image-text-to-text" for answers about images, "text-generation" for text alone.
        max_tokens: Longest answer, in tokens; at least 1.
        temperature: 0 for greedy decoding, or a sampling temperature up to 10. None leaves it to an API's provider, as
            some models insist; a model on this machine then decodes greedily.
        api_base: Address of an OpenAI-compatible server, usually ending in /v1; None is the provider's own.
        api_key: The key; None is the provider's environment variable. It is part of no record.
        concurrency: Concurrent calls of an API, or of an async function, at least 1. "auto" is 16 for an API and 8 for
            a function.
        retry: When a failed call of an API is tried again.
        revision: Branch, tag or commit of a model on Hugging Face; its commit goes into the identity.
        dtype: "float32", "bfloat16", "float16" or "auto", which suits the device (see `number_format`).
        device: "cpu", "cuda", "cuda:1", "mps" or "auto": the first CUDA card, else MPS, else the CPU.
        batch_size: Requests that a model on this machine computes at a time, at least 1; halved where memory runs out.
            "auto" is what fits into the memory of a CUDA card, and 8 elsewhere.
        device_map: Spreads the layers over several cards, as accelerate does ("auto", "balanced", "balanced_low_0",
            "sequential"); None keeps the model on `device`.
        quantization: Weights of a model on this machine in fewer bits: "4bit" (NF4) or "8bit" (LLM.int8()) by
            bitsandbytes, "int8", "int4" or "float8" by torchao; None keeps them in `dtype`.
        seed: Seed of the sampling, without effect at temperature 0; an API is sent it unless it is 0.
        image_memory_gib: GiB of memory for encoded images of a model on this machine; None is a quarter of the
            machine's memory, and 0 keeps none.

    Raises:
        ModelError: If a setting is out of range.
    """

    task: Task = "image-text-to-text"
    max_tokens: int = 64
    temperature: float | None = 0.0
    api_base: str | None = None
    api_key: str | None = field(default=None, repr=False)
    concurrency: int | Literal["auto"] = "auto"
    retry: RetryPolicy = RetryPolicy()
    revision: str | None = None
    dtype: str = "auto"
    device: str = "auto"
    batch_size: int | Literal["auto"] = "auto"
    device_map: str | None = None
    quantization: str | None = None
    seed: int = 0
    image_memory_gib: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_tokens", "concurrency", "batch_size"):
            value = getattr(self, name)
            if value != "auto" and value < 1:
                raise ModelError(f"{name} must be at least 1.", value=value)
        if not 0 <= (self.image_memory_gib or 0) < float("inf"):
            raise ModelError("image_memory_gib must be 0 or more.", value=self.image_memory_gib)
        if self.temperature is not None and not 0 <= self.temperature <= 10:
            raise ModelError("temperature must be between 0 (greedy) and 10.", value=self.temperature)
        for name, known in (("dtype", _DTYPES), ("device_map", _DEVICE_MAPS), ("quantization", QUANTIZATIONS)):
            value = getattr(self, name)
            if value is not None and value not in known:
                raise ModelError(f"Unknown {name}.", value=value, remedy=f"Use one of {', '.join(known)}.")
        if self.device_map is not None and self.device != "auto":
            raise ModelError("A device_map chooses the devices itself.", remedy="Leave device: auto.")


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
    # Some models never answer some prompts: a run must not stop for that, as it would stop there each time.
    EMPTY = "empty_text", None, False
    # Refusals may be random, so another attempt may help; to insist after a second one costs money, and accounts.
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
