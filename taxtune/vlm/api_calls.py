"""What every call of a model behind litellm needs, be it asked about an image, for a template or for a judgement."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from taxtune.errors import TaxtuneError
from taxtune.vlm.api_errors import RetryNotes, retry_after, worth_waiting_for

if TYPE_CHECKING:
    import tenacity

__all__ = [
    "Called",
    "Completion",
    "Effort",
    "Patience",
    "call_model",
    "find_key",
    "price",
    "read_completion",
    "side_by_side",
]

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a call that fails is tried again.

    Attributes:
        max_retries: Further attempts after the first, at least 0.
        first_wait: Seconds before the second attempt, at least on average; doubled before each further one.
        longest_wait: Most seconds before an attempt.
        timeout: Seconds that one attempt may take.
    """

    max_retries: int
    first_wait: float
    longest_wait: float
    timeout: float

    def wait(self, state: tenacity.RetryCallState) -> float:
        """Returns the seconds to wait after a failed attempt."""
        import random

        doubled = self.first_wait * 2.0 ** (state.attempt_number - 1)
        error = state.outcome.exception() if state.outcome is not None else None
        # Without the jitter, calls that were refused together would come back together.
        return min(max(doubled * random.uniform(0.75, 1.25), retry_after(error)), self.longest_wait)


@dataclass(frozen=True, slots=True)
class Called:
    """What came of a call after all its attempts: a response or an error.

    Attributes:
        response: litellm's response, or None.
        error: What the last attempt raised, or None.
        attempts: How many there were.
    """

    response: Any
    error: Exception | None
    attempts: int


class Effort:
    """Whether it is worth trying calls again, told from those made side by side.

    Where a call has failed to its last attempt and none has succeeded, the server is down for all of them, and to wait
    as long for each would only keep the user waiting.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answered = False
        self.stop = threading.Event()
        self.vain = threading.Event()

    def failed(self) -> None:
        """Takes note of a call that failed to its last attempt."""
        with self._lock:
            if not self._answered:
                self.vain.set()

    def succeeded(self) -> None:
        """Takes note of a call that was answered."""
        with self._lock:
            self._answered = True
            self.vain.clear()


def call_model(
    litellm: ModuleType,
    arguments: Mapping[str, Any],
    patience: Patience,
    *,
    notes: RetryNotes,
    effort: Effort | None = None,
) -> Called:
    """Calls a model, again where that can help: after rate limits, time-outs, lost connections and servers' errors.

    The waits double, vary at random, and respect a server's Retry-After.

    Args:
        litellm: The module.
        arguments: What `litellm.completion` is given besides what every call shares.
        patience: How often and how long.
        notes: Told of every attempt that failed and is followed by another.
        effort: The calls side by side with this one, which end its attempts when they are over or in vain; None for a
            call alone.
    """
    import tenacity

    stop: list[Any] = [tenacity.stop_after_attempt(patience.max_retries + 1)]
    if effort is not None:
        stop += [tenacity.stop_when_event_set(effort.stop), tenacity.stop_when_event_set(effort.vain)]

    def attempt() -> Any:
        return litellm.completion(
            **arguments,
            timeout=patience.timeout,
            # tenacity alone repeats a call; two layers of retries would multiply.
            num_retries=0,
            max_retries=0,
            # A model that takes no temperature or seed is not sent one.
            drop_params=True,
        )

    retrying = tenacity.Retrying(
        stop=tenacity.stop_any(*stop),
        wait=patience.wait,
        sleep=tenacity.nap.sleep if effort is None else tenacity.sleep_using_event(effort.stop),
        retry=tenacity.retry_if_exception(lambda error: worth_waiting_for(error, patience.longest_wait)),
        before_sleep=notes,
        reraise=True,
    )
    try:
        response, error = retrying(attempt), None
    except Exception as problem:
        response, error = None, problem
    return Called(response, error, int(retrying.statistics.get("attempt_number", 1)))


def side_by_side(
    items: Sequence[Item], work: Callable[[Item, Effort], Result], concurrency: int, *, name: str
) -> list[Result]:
    """Returns what `work` makes of each item, several at a time, in order; its first error ends everything.

    Args:
        items: What to work on.
        work: Called with an item and what the calls side by side share.
        concurrency: Items under way at a time, at least 1.
        name: Name of the threads.
    """
    effort = Effort()
    open_places: queue.SimpleQueue[int] = queue.SimpleQueue()
    finished: queue.SimpleQueue[tuple[int, Result | None, BaseException | None]] = queue.SimpleQueue()
    for place in range(len(items)):
        open_places.put(place)

    def run() -> None:
        while not effort.stop.is_set():
            try:
                place = open_places.get_nowait()
            except queue.Empty:
                return
            try:
                finished.put((place, work(items[place], effort), None))
            except BaseException as error:
                finished.put((place, None, error))

    results: dict[int, Any] = {}
    # Daemons, so that Ctrl-C does not have to wait for a server that does not answer.
    for _ in range(min(concurrency, len(items))):
        threading.Thread(target=run, name=name, daemon=True).start()
    try:
        for _ in items:
            place, result, error = finished.get()
            if error is not None:
                raise error
            results[place] = result
    finally:
        effort.stop.set()
    return [results[place] for place in range(len(items))]


@dataclass(frozen=True, slots=True)
class Completion:
    """The first choice of a chat completion, as plain values.

    Attributes:
        text: What the model wrote; half surrogate pairs, which no record could hold, are replaced.
        refusal: The provider's own mark of a refusal, or None.
        finish_reason: "stop", "length", "content_filter", ...
        prompt_tokens: Tokens read.
        completion_tokens: Tokens written.
    """

    text: str
    refusal: str | None
    finish_reason: str | None
    prompt_tokens: int
    completion_tokens: int


def read_completion(response: Any) -> Completion | None:
    """Returns a response's first choice, or None where it has none."""
    choices = getattr(response, "choices", None) or []
    if not choices:
        return None
    message = choices[0].message
    text = message.content if isinstance(message.content, str) else ""
    special = getattr(message, "provider_specific_fields", None) or {}
    refusal = getattr(message, "refusal", None) or special.get("refusal")
    usage = getattr(response, "usage", None)
    return Completion(
        text=text.encode("utf-8", "replace").decode("utf-8"),
        refusal=str(refusal) if refusal else None,
        finish_reason=choices[0].finish_reason,
        prompt_tokens=int(getattr(usage, "prompt_tokens", 0) or 0),
        completion_tokens=int(getattr(usage, "completion_tokens", 0) or 0),
    )


def price(litellm: ModuleType, model: str, response: Any) -> float | None:
    """Returns what a response cost in US dollars, or None where litellm knows no price for the model."""
    try:
        return float(litellm.completion_cost(completion_response=response, model=model))
    except Exception:
        return None


def find_key(
    litellm: ModuleType,
    model: str,
    *,
    api_base: str | None,
    api_key: str | None,
    whose: str,
    error: type[TaxtuneError],
    otherwise: str = "",
) -> str | None:
    """Returns the key to send; None leaves it to litellm, which finds the provider's in the environment.

    Args:
        litellm: The module.
        model: litellm's name of the model.
        api_base: The address of a server of one's own, or None.
        api_key: A key that was given, or None.
        whose: How messages call the model, such as "the model".
        error: What to raise.
        otherwise: A further remedy for a missing key.

    Raises:
        TaxtuneError: As `error`, if litellm does not know the provider or the key is missing.
    """
    try:
        litellm.get_llm_provider(model, api_base=api_base)
    except Exception:
        raise error(
            f"litellm knows no provider for {whose} {model!r}.",
            remedy="Write the provider before the name, such as openai/gpt-4o (openai/ also for a server of your "
            "own that speaks OpenAI's protocol).",
        ) from None
    if api_key is not None:
        return api_key
    missing = list(litellm.validate_environment(model).get("missing_keys", ()))
    if not missing:
        return None
    if api_base is not None:
        # A server of one's own often wants no key, but the client insists on sending one.
        return "none" if all(name.endswith(("_API_KEY", "_API_BASE")) for name in missing) else None
    remedy = f"Set it (export {missing[0]}=...), or give the address of a server of your own (api_base)"
    raise error(
        f"{whose[0].upper()}{whose[1:]} {model!r} needs a key: {' or '.join(missing)} is not set.",
        remedy=f"{remedy}{otherwise}.",
    )
