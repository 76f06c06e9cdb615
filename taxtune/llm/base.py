"""What a text model is to taxtune: a thing that replies to prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from taxtune.vlm.base import Identity, Reply

__all__ = ["DEFAULT_LOCAL", "LLM", "LLMSettings"]

#: The judge of paper 2.
DEFAULT_LOCAL = "meta-llama/Llama-3.2-3B-Instruct"


@runtime_checkable
class LLM(Protocol):
    """A text model.

    Attributes:
        batch_size: Prompts a call of `reply` that keep it busy.
    """

    batch_size: int

    @property
    def identity(self) -> Identity:
        """Everything that can change a reply: kind, model, revision, decoding; never a key."""
        ...

    def check(self) -> list[str]:
        """Checks, without asking anything, that the model can be asked; returns what the user should know.

        Raises:
            ModelError: If it cannot.
        """
        ...

    def reply(self, prompts: Sequence[str]) -> list[Reply]:
        """Replies to prompts, each a conversation of its own, in the same order and number.

        Raises:
            ModelError: If the model cannot reply at all, so that going on is senseless.
        """
        ...


@dataclass(frozen=True, slots=True)
class LLMSettings:
    """How a text model is run; each kind takes what concerns it.

    Attributes:
        max_tokens: Longest reply, in tokens.
        api_base: Address of an OpenAI-compatible server; None is the provider's own.
        api_key: The key; None is the provider's environment variable. Part of no record.
        temperature: Sampling temperature of a model behind an API; None for the provider's default, which some models
            insist on. A model on this machine decodes greedily.
        concurrency: Calls under way at a time.
        timeout: Seconds that one attempt may take.
        max_retries: Further attempts after rate limits, time-outs, servers' errors and lost connections.
        first_wait: Seconds before the second attempt; doubles each time.
        longest_wait: Most seconds between two attempts.
        device: Where a model on this machine runs: "auto", "cpu", "cuda", ...
        dtype: "auto", "float32", "bfloat16" or "float16".
        batch_size: Prompts that a model on this machine computes at once; halved where memory runs out.
        revision: Branch, tag or commit of a model on Hugging Face.
        on_note: Called, from any thread, when calls fail and are tried again.
    """

    max_tokens: int = 256
    api_base: str | None = None
    api_key: str | None = None
    temperature: float | None = 0.0
    concurrency: int = 8
    timeout: float = 60.0
    max_retries: int = 5
    first_wait: float = 1.0
    longest_wait: float = 60.0
    device: str = "auto"
    dtype: str = "auto"
    batch_size: int = 8
    revision: str | None = None
    on_note: Callable[[str], None] | None = None
