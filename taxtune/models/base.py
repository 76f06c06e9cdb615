"""What a model is to taxtune: it answers requests, each a prompt with or without an image."""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import pydantic.dataclasses
from pydantic import Field

from taxtune.store import Identity

__all__ = [
    "OTHERWISE",
    "Answer",
    "CallError",
    "Candidates",
    "Failure",
    "Fault",
    "Identity",
    "Model",
    "ModelSettings",
    "ModelUsage",
    "Reply",
    "Request",
    "RetryPolicy",
    "StreamingModel",
    "Task",
    "count_fault",
    "count_faults",
    "total_cost",
]

#: What is wanted of a model, in the words of Hugging Face: answers about images, or text for text.
Task = Literal["image-text-to-text", "text-generation"]
Count = Annotated[int, Field(ge=1)] | Literal["auto"]
#: Ends an outcome that begins like a name, and is the outcome of everything that is no name.
OTHERWISE = "…"


@dataclass(frozen=True, slots=True)
class Candidates:
    """Names that a model is asked to weigh, besides the answer that it gives.

    Attributes:
        names: The most specific names, one or more of each leaf.
        broader: Names of inner nodes, the deepest first. Where an answer holds none of `names`, the
            first of these that it holds tells where in it a name stands.
        weigh_broader: Whether these get probabilities as well.
    """

    names: tuple[str, ...]
    broader: tuple[str, ...] = ()
    weigh_broader: bool = False

    @property
    def weighed(self) -> tuple[str, ...]:
        """The names that get probabilities, each once."""
        names = self.names + self.broader if self.weigh_broader else self.names
        return tuple(dict.fromkeys(names))


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt, about an image or about none.

    Attributes:
        prompt: The text, ready to be sent.
        image: The image file, or None.
        image_sha256: SHA-256 of the image file's bytes, in hexadecimal; a model that reads the file
            and finds another refuses it. None where it is not known, or there is no image.
        sample: Which of several answers to the same question is wanted, counted from 0. A model
            that samples draws each anew; one that decodes greedily, or takes no seed, may give the
            same answer again.
        candidates: Names whose probabilities are wanted with the answer, which is then the greedy
            one; None for none.
    """

    prompt: str
    image: Path | None = None
    image_sha256: str | None = None
    sample: int = 0
    candidates: Candidates | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of a model.

    Attributes:
        text: The text that was generated, white space at the ends removed. It may be empty.
        cached: Whether the answer is a copy: out of the answer store, or of an identical request in
            the same call.
        prompt_tokens: Tokens read, image tokens included where the model counts them; of a copy,
            those of the original.
        completion_tokens: Tokens written; of a copy, those of the original.
        cost_usd: Price in US dollars; None where it is unknown, and 0 for a model that runs here.
        seconds: Wall-clock seconds that the answer took (of a batch, an equal share).
        batch: Number of requests computed together; in bfloat16 and float16 an answer may depend on
            it. None where it is not known: behind an API, and of an answer out of the store.
        outcomes: Natural logarithms of the probabilities of what the model might have named where
            its answer has a name, as far as it tells: by name; by how names begin, with `OTHERWISE`
            at the end, for those that were not told apart; and by `OTHERWISE` alone for all that is
            no name. They sum to 1. None where there are none.
        cut: Whether it was cut off at the longest answer, and did not end by itself; None where
            that is not known.
    """

    text: str
    cached: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0
    batch: int | None = None
    outcomes: Mapping[str, float] | None = field(default=None, hash=False)
    cut: bool | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that got no answer; it is counted as missing and never scored.

    Attributes:
        reason: What went wrong, in one line, without secrets.
        retryable: Whether the same request may be answered later (a rate limit, a time-out, a
            server's error).
        unfinished: What the model wrote, and was paid for, before it was cut off without an answer;
            None for a failed call.
    """

    reason: str
    retryable: bool
    unfinished: Answer | None = None

    @property
    def cut(self) -> bool:
        """Whether the model was cut off before it gave an answer."""
        return self.unfinished is not None and bool(self.unfinished.cut)


Reply = Answer | Failure


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Calls to one model.

    Attributes:
        calls: Answers that it gave; in these, tokens were sent and written.
        from_store: Answers that were on disk.
        prompt_tokens: Tokens sent.
        completion_tokens: Tokens written.
        cost_usd: Price of the calls in US dollars, 0 for a model that runs here; None where no
            price is known.
        faults: Calls that failed, those made again included, by the kind of fault ("rate_limit",
            ...).
    """

    calls: int = 0
    from_store: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    faults: dict[str, int] = field(default_factory=dict, hash=False)

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.prompt_tokens + self.completion_tokens

    @classmethod
    def of(cls, replies: Sequence[Reply], faults: Mapping[str, int]) -> ModelUsage:
        """Returns the usage of replies; `faults` are the attempts that failed (`count_faults`)."""
        written = [reply.unfinished if isinstance(reply, Failure) else reply for reply in replies]
        answers = [answer for answer in written if answer is not None]
        new = [answer for answer in answers if not answer.cached]
        return cls(
            calls=len(new),
            from_store=len(answers) - len(new),
            prompt_tokens=sum(answer.prompt_tokens for answer in new),
            completion_tokens=sum(answer.completion_tokens for answer in new),
            cost_usd=total_cost(answer.cost_usd for answer in new),
            faults=dict(faults),
        )

    def __add__(self, other: ModelUsage) -> ModelUsage:
        """Returns the sum; a cost that is unknown on either side counts as nothing there."""
        faults = Counter(self.faults) + Counter(other.faults)
        most_frequent_first = sorted(faults.items(), key=lambda item: (-item[1], item[0]))
        return ModelUsage(
            calls=self.calls + other.calls,
            from_store=self.from_store + other.from_store,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cost_usd=total_cost((self.cost_usd, other.cost_usd)),
            faults=dict(most_frequent_first),
        )


def total_cost(costs: Iterable[float | None]) -> float | None:
    """Returns the sum of the costs that are known; None if none is."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None


@runtime_checkable
class Model(Protocol):
    """A model: a vision-language model, a language model, or a function.

    Optional members: `stream(requests)` gives (place, reply) as replies come, in any order, each
    place once; it gets all requests at once, and closing it drops the rest. `batch_size` is the
    number of requests that keep the model busy (8 where it is missing), and those of a call of
    `answer` where there is no `stream`. `check()` finds out without a request whether the model can
    be asked: it returns notes for the user or raises `ModelError`. `forget()` tells the model that
    its replies so far are stored.
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


class StreamingModel(ABC):
    """A `Model` that gives replies as they come."""

    @abstractmethod
    def stream(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        """Gives (place, reply) as replies come; see `Model`."""

    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        """Answers requests, in the same order and number; see `stream`."""
        replies = dict(self.stream(requests))
        return [replies[place] for place in range(len(requests))]


@pydantic.dataclasses.dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a call that failed is tried again.

    The waits double, vary at random, and respect a server's Retry-After.

    Attributes:
        max_retries: Further attempts after the first, at least 0.
        first_wait: Seconds before the second attempt, on average; doubled before each further one.
        longest_wait: Most seconds before an attempt.
        timeout: Seconds that one attempt may take, from the call to the end of the reply.
    """

    max_retries: int = Field(default=5, ge=0)
    first_wait: float = 1.0
    longest_wait: float = 60.0
    timeout: float = Field(default=60.0, gt=0)

    def wait(self, attempt: int, asked: float) -> float:
        """Returns the seconds to wait after a failed attempt.

        Args:
            attempt: The number of the attempt, from 1.
            asked: The seconds that the server asked to wait, or 0.
        """
        # Without the jitter, calls that were refused together would come back together.
        doubled = self.first_wait * 2.0 ** (attempt - 1) * random.uniform(0.75, 1.25)
        return min(max(doubled, asked), self.longest_wait)


@pydantic.dataclasses.dataclass(frozen=True, slots=True)
class ModelSettings:
    """How a model is run; each kind takes what concerns it.

    A setting out of range is a `pydantic.ValidationError`.

    Attributes:
        task: "image-text-to-text" for answers about images, "text-generation" for text alone.
        max_tokens: Longest answer, in tokens; at least 1.
        temperature: 0 for greedy decoding, or a sampling temperature. None leaves it to an API's
            provider, as some models insist; a model on this machine then decodes greedily.
        reasoning_effort: How long an API's model may think, as its provider names it ("low"); None
            leaves it to that.
        extra: Further fields of a call of an API, as the provider names them.
        api_base: Address of an OpenAI-compatible server, usually ending in /v1; None is the
            provider's own.
        api_key: The key; None is the provider's environment variable. It is part of no record.
        concurrency: Concurrent calls of an API, or of an async function, at least 1. "auto" is 16
            for an API and 8 for a function.
        retry: When a failed call of an API is tried again.
        revision: Branch, tag or commit of a model on Hugging Face; its commit goes into the
            identity.
        dtype: "float32", "bfloat16", "float16" or "auto", which suits the device (see
            `number_format`).
        device: "cpu", "cuda", "cuda:1", "mps" or "auto": the first CUDA card, else MPS, else the
            CPU.
        batch_size: Requests that a model on this machine computes at a time, at least 1; halved
            where memory runs out. "auto" is what fits into the memory of a CUDA card, and 8
            elsewhere.
        device_map: Spreads the layers over several cards, as accelerate does; None keeps the model
            on `device`.
        quantization: Weights of a model on this machine in fewer bits, by bitsandbytes: "4bit"
            (NF4) or "8bit" (LLM.int8()); None keeps them in `dtype`.
        seed: Seed of the sampling, without effect at temperature 0; an API is sent it unless it is
            0.
        image_memory_gib: GiB of memory for encoded images of a model on this machine; None is a
            quarter of the machine's memory, and 0 keeps none.
    """

    task: Task = "image-text-to-text"
    max_tokens: int = Field(default=64, ge=1)
    temperature: float | None = Field(default=0.0, ge=0)
    reasoning_effort: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    api_base: str | None = None
    api_key: str | None = Field(default=None, repr=False)
    concurrency: Count = "auto"
    retry: RetryPolicy = RetryPolicy()
    revision: str | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str = "auto"
    batch_size: Count = "auto"
    device_map: Literal["auto", "balanced", "balanced_low_0", "sequential"] | None = None
    quantization: Literal["4bit", "8bit"] | None = None
    seed: int = 0
    image_memory_gib: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class Fault(Enum):
    """A way in which a call fails.

    Attributes:
        key: What it is called in records.
        retries: Further attempts that it is worth; None for as many as the retry policy allows.
        passes: Whether the same call may succeed later, so that a run which lacks answers for it
            had better stop than blame the template.
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
    # Some models never answer some prompts: a run must not stop for that, as it would stop there
    # each time.
    EMPTY = "empty_text", None, False
    # Refusals may be random, so another attempt may help; to insist after a second one costs money,
    # and accounts.
    REFUSAL = "refusal", 1, False
    CONTENT_FILTER = "content_filter", 1, False
    # The same limit cuts off the next attempt as well.
    CUT_OFF = "cut_off", 0, False
    TOO_LONG = "too_long", 0, False
    REJECTED = "rejected_request", 0, False
    # The same call without the parameter follows at once.
    PARAMETER = "refused", 0, False
    FUNCTION = "function_error", 0, True
    KEY = "rejected_key", 0, False
    NO_CREDIT = "no_credit", 0, False
    NOT_FOUND = "not_found", 0, False

    @property
    def fatal(self) -> bool:
        """Whether every other call would fail alike."""
        return self in (Fault.KEY, Fault.NO_CREDIT, Fault.NOT_FOUND)


class CallError(Exception):
    """A failed attempt.

    Args:
        fault: What it is counted as, which decides what is done about it.
        reason: What the model or its server did, as the rest of a sentence that begins with "The
            model ...".
        remedy: What to do about a fatal error.
        asked: The seconds that the server asked to wait, or 0.
    """

    def __init__(self, fault: Fault, reason: str, remedy: str = "", *, asked: float = 0.0) -> None:
        super().__init__(reason)
        self.fault = fault
        self.reason = reason
        self.remedy = remedy
        self.asked = asked


_counts: ContextVar[Counter[str] | None] = ContextVar("taxtune_faults", default=None)
_lock = threading.Lock()


@contextmanager
def count_faults() -> Iterator[Counter[str]]:
    """Counts the attempts that fail within the block, by the fault's key.

    Those of an inner block count there alone.
    """
    counts: Counter[str] = Counter()
    token = _counts.set(counts)
    try:
        yield counts
    finally:
        _counts.reset(token)


def count_fault(fault: Fault, detail: str = "") -> None:
    """Counts an attempt that failed.

    Args:
        fault: The kind of fault.
        detail: Tells faults of a kind apart, such as the name of a refused parameter.
    """
    counts = _counts.get()
    if counts is None:
        return
    key = f"{fault.key}_{detail}" if detail else fault.key
    with _lock:
        counts[key] += 1
