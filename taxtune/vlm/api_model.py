"""What models behind an API share, be they asked about images or about text alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar

from taxtune.errors import TaxtuneError
from taxtune.vlm.api_calls import Effort, Patience, call_model, find_key, price, read_completion
from taxtune.vlm.api_errors import RetryNotes, judge, needed_keys, without_credentials
from taxtune.vlm.base import Answer, Failure, Reply

__all__ = ["ApiModel"]

_QUOTED = 200


class ApiModel:
    """A model that litellm reaches, asked several times at once.

    A subclass says which error it raises and how its messages call what the model says.

    Args:
        model: The model's name with its provider, as litellm writes it ("openai/gpt-4o").
        api_base: Address of the server; None is the provider's own.
        api_key: The key; None is the provider's environment variable. It is part of no record.
        concurrency: Calls under way at a time, at least 1.
        max_tokens: Longest reply, in tokens; at least 1.
        temperature: Sampling temperature from 0 to 10, or None for the provider's default.
        patience: How long a call that fails is tried again.
        on_note: Called, from any thread, when calls fail and are tried again.

    Raises:
        TaxtuneError: As the class's `error`, if an argument is out of range.
    """

    error: ClassVar[type[TaxtuneError]]
    #: What it gives: "answer", "reply".
    gives: ClassVar[str]
    #: How to go on after an error that every call would meet.
    go_on: ClassVar[str] = "go on with --resume"

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None,
        api_key: str | None,
        concurrency: int,
        max_tokens: int,
        temperature: float | None,
        patience: Patience,
        on_note: Callable[[str], None] | None,
    ) -> None:
        for name, value, least in (
            ("concurrency", concurrency, 1),
            ("max_tokens", max_tokens, 1),
            ("max_retries", patience.max_retries, 0),
        ):
            if value < least:
                raise self.error(f"{name} must be at least {least}.", value=value)
        if patience.timeout <= 0:
            raise self.error("timeout must be more than 0 seconds.", value=patience.timeout)
        if temperature is not None and not 0 <= temperature <= 10:
            raise self.error("temperature must lie between 0 (greedy) and 10.", value=temperature)
        self.model = model
        self.api_base = api_base
        self.concurrency = concurrency
        self.max_tokens = max_tokens
        self.temperature = temperature
        #: Questions or prompts a call that keep the server busy.
        self.batch_size = 2 * concurrency
        self._api_key = api_key
        self._patience = patience
        self._name = f"The model {model!r}" + (f" at {without_credentials(api_base)}" if api_base else "")
        self._notes = RetryNotes(self._name, patience.max_retries + 1, on_note, secrets=(api_key,))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, api_base={without_credentials(self.api_base)!r})"

    def _key(self, litellm: ModuleType) -> str | None:
        """Returns the key to send, or None where litellm finds it.

        Raises:
            TaxtuneError: As `error`, if litellm knows no such provider, or the key is missing.
        """
        return find_key(
            litellm, self.model, api_base=self.api_base, api_key=self._api_key, whose="the model", error=self.error
        )

    def _ask(
        self,
        litellm: ModuleType,
        key: str | None,
        messages: Sequence[Mapping[str, Any]],
        effort: Effort,
        *,
        started: float,
    ) -> Reply:
        """Returns what the model says to messages, or a failure.

        Args:
            litellm: The module.
            key: The key to send.
            messages: The conversation.
            effort: What the calls side by side share.
            started: When the work on it began, on `time.perf_counter`.

        Raises:
            TaxtuneError: As `error`, if every call would meet the same: a key that is refused, no such model.
        """
        arguments = {
            "model": self.model,
            "messages": messages,
            "api_base": self.api_base,
            "api_key": key,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
        }
        called = call_model(litellm, arguments, self._patience, notes=self._notes, effort=effort)
        if called.error is not None:
            return self._lost(litellm, called.error, called.attempts, key, effort)
        effort.succeeded()
        return self._read(litellm, called.response, started)

    def _lost(self, litellm: ModuleType, error: Exception, attempts: int, key: str | None, effort: Effort) -> Failure:
        """Makes a failure of an error, or ends the run."""
        verdict = judge(error, secrets=(key, self._api_key))
        said = f"{self._name} {verdict.reason.rstrip('.')}"
        if verdict.fatal:
            remedy = verdict.remedy.replace("{keys}", " or ".join(needed_keys(litellm, self.model)))
            raise self.error(f"{said}.", remedy=remedy.replace(ApiModel.go_on, self.go_on))
        if verdict.passing:
            effort.failed()
        tries = f" ({attempts} attempts)" if attempts > 1 else ""
        return Failure(f"{said}{tries}.", retryable=verdict.passing)

    def _read(self, litellm: ModuleType, response: Any, started: float) -> Reply:
        completion = read_completion(response)
        if completion is None:
            return Failure(f"{self._name} gave a response without any {self.gives}.", retryable=True)
        if completion.refusal is not None:
            refusal = " ".join(completion.refusal.split())
            quoted = refusal if len(refusal) <= _QUOTED else refusal[: _QUOTED - 1] + "…"
            return Failure(f"{self._name} refused: {quoted}", retryable=False)
        if completion.finish_reason == "content_filter":
            return Failure(f"The content filter of {self.model!r} stopped the {self.gives}.", retryable=False)
        text = completion.text.strip()
        if not text:
            within = f" within max_tokens = {self.max_tokens}" if completion.finish_reason == "length" else ""
            return Failure(f"{self._name} gave an empty {self.gives}{within}.", retryable=False)
        return Answer(
            text=text,
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
            cost_usd=price(litellm, self.model, response),
            seconds=time.perf_counter() - started,
        )
