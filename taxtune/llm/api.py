"""Text models behind an API: any that litellm reaches, many prompts at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence

from taxtune.errors import ModelError
from taxtune.llm.base import LLMSettings
from taxtune.vlm.api_calls import Effort, Patience, side_by_side
from taxtune.vlm.api_errors import load_litellm, without_credentials
from taxtune.vlm.api_model import ApiModel
from taxtune.vlm.base import Identity, Reply

__all__ = ["ApiLLM"]


class ApiLLM(ApiModel):
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

    error = ModelError
    gives = "reply"
    go_on = "give the command again; replies that came are kept"

    def __init__(self, model: str, settings: LLMSettings) -> None:
        super().__init__(
            model,
            api_base=settings.api_base,
            api_key=settings.api_key,
            concurrency=settings.concurrency,
            max_tokens=settings.max_tokens,
            temperature=settings.temperature,
            patience=Patience(
                settings.max_retries, settings.first_wait, settings.longest_wait, timeout=settings.timeout
            ),
            on_note=settings.on_note,
        )

    @property
    def identity(self) -> Identity:
        """Everything that can change a reply, as far as this side of the API knows; never the key."""
        return {
            "kind": "api",
            "model": self.model,
            "api_base": without_credentials(self.api_base),
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
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
            # Half a surrogate pair, which a broken answer may hold, cannot be sent.
            message = {"role": "user", "content": prompt.encode("utf-8", "replace").decode("utf-8")}
            return self._ask(litellm, key, [message], effort, started=time.perf_counter())

        return side_by_side(prompts, reply_one, self.concurrency, name="taxtune-llm")
