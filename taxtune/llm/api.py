"""Text models behind an API: any that litellm reaches, many prompts at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import ModuleType

from taxtune.errors import ModelError
from taxtune.llm.base import LLMSettings
from taxtune.vlm.api_calls import Effort, Patience, call_model, find_key, price, read_completion, side_by_side
from taxtune.vlm.api_errors import RetryNotes, judge, load_litellm, needed_keys, without_credentials
from taxtune.vlm.base import Answer, Failure, Identity, Reply

__all__ = ["ApiLLM"]


class ApiLLM:
    """A text model behind an API.

    Several prompts are under way at a time. What may pass (a rate limit, a time-out, a lost connection, a server's
    error) is tried again; what is left after the last attempt is a failure, and so is an empty reply, a refusal that
    the provider marks as one, and a web page. A key that is refused, a model that does not exist and an exhausted
    account end the work at once.

    Args:
        model: The model's name with its provider, as litellm writes it ("openai/gpt-4o-mini").
        settings: How it is asked.

    Raises:
        ModelError: If a setting is out of range.
    """

    def __init__(self, model: str, settings: LLMSettings) -> None:
        for name, least in (("concurrency", 1), ("max_tokens", 1), ("max_retries", 0)):
            if getattr(settings, name) < least:
                raise ModelError(f"{name} must be at least {least}.", value=getattr(settings, name))
        if settings.timeout <= 0:
            raise ModelError("timeout must be more than 0 seconds.", value=settings.timeout)
        self.model = model
        self._settings = settings
        self.batch_size = 2 * settings.concurrency
        self._patience = Patience(
            settings.max_retries, settings.first_wait, settings.longest_wait, timeout=settings.timeout
        )
        self._name = f"The model {model!r}" + (
            f" at {without_credentials(settings.api_base)}" if settings.api_base else ""
        )
        self._notes = RetryNotes(self._name, settings.max_retries + 1, settings.on_note, secrets=(settings.api_key,))

    def __repr__(self) -> str:
        return f"ApiLLM({self.model!r}, api_base={without_credentials(self._settings.api_base)!r})"

    @property
    def identity(self) -> Identity:
        """Everything that can change a reply, as far as this side of the API knows; never the key."""
        return {
            "kind": "api",
            "model": self.model,
            "api_base": without_credentials(self._settings.api_base),
            "max_tokens": self._settings.max_tokens,
            "temperature": self._settings.temperature,
        }

    def check(self) -> list[str]:
        """Checks, without calling the model, that it can be called.

        Raises:
            ModelError: If litellm knows no such provider, or the key is missing.
        """
        self._key(load_litellm())
        return []

    def reply(self, prompts: Sequence[str]) -> list[Reply]:
        """Replies to prompts, in the same order and number.

        Raises:
            ModelError: If the key is missing or refused, the model does not exist or the account is exhausted.
        """
        if not prompts:
            return []
        litellm = load_litellm()
        key = self._key(litellm)

        def reply_one(prompt: str, effort: Effort) -> Reply:
            return self._reply_one(litellm, key, prompt, effort)

        return side_by_side(prompts, reply_one, self._settings.concurrency, name="taxtune-llm")

    def _reply_one(self, litellm: ModuleType, key: str | None, prompt: str, effort: Effort) -> Reply:
        started = time.perf_counter()
        settings = self._settings
        arguments = {
            "model": self.model,
            # Half a surrogate pair, which a broken answer may hold, cannot be sent.
            "messages": [{"role": "user", "content": prompt.encode("utf-8", "replace").decode("utf-8")}],
            "api_base": settings.api_base,
            "api_key": key,
            "temperature": settings.temperature,
            "max_tokens": settings.max_tokens,
        }
        called = call_model(litellm, arguments, self._patience, notes=self._notes, effort=effort)
        if called.error is not None:
            verdict = judge(called.error, secrets=(key, settings.api_key))
            if verdict.fatal:
                remedy = verdict.remedy.replace("{keys}", " or ".join(needed_keys(litellm, self.model)))
                remedy = remedy.replace("go on with --resume", "give the command again; replies that came are kept")
                raise ModelError(f"{self._name} {verdict.reason.rstrip('.')}.", remedy=remedy)
            if verdict.passing:
                effort.failed()
            tries = f" ({called.attempts} attempts)" if called.attempts > 1 else ""
            return Failure(f"{self._name} {verdict.reason.rstrip('.')}{tries}.", retryable=verdict.passing)
        effort.succeeded()
        completion = read_completion(called.response)
        if completion is None:
            return Failure(f"{self._name} gave a response without a reply.", retryable=True)
        if completion.refusal is not None:
            return Failure(f"{self._name} refused: {' '.join(completion.refusal.split())[:200]}", retryable=False)
        if completion.finish_reason == "content_filter":
            return Failure(f"The content filter of {self.model!r} stopped the reply.", retryable=False)
        text = completion.text.strip()
        if not text:
            within = f" within max_tokens = {settings.max_tokens}" if completion.finish_reason == "length" else ""
            return Failure(f"{self._name} gave an empty reply{within}.", retryable=False)
        return Answer(
            text=text,
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
            cost_usd=price(litellm, self.model, called.response),
            seconds=time.perf_counter() - started,
        )

    def _key(self, litellm: ModuleType) -> str | None:
        return find_key(
            litellm,
            self.model,
            api_base=self._settings.api_base,
            api_key=self._settings.api_key,
            whose="the model",
            error=ModelError,
        )
