"""What a vision-language model is to taxtune: a thing that answers questions about images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

__all__ = ["VLM", "Answer", "Failure", "Identity", "Question", "Reply"]

#: Everything about a model that can change an answer, by name. It never holds a key or another secret.
Identity = dict[str, str | int | float | None]


@dataclass(frozen=True, slots=True)
class Question:
    """One prompt about one image.

    Attributes:
        prompt: A rendered template.
        image: The image file.
        image_sha256: SHA-256 of the image file's bytes, in hexadecimal. A model refuses a file that no longer has it.
    """

    prompt: str
    image: Path
    image_sha256: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said.

    Attributes:
        text: The text that was generated, white space at the ends removed. It may be empty.
        cached: Whether the answer is a copy: out of the answer store, or of an identical question in the same call.
        prompt_tokens: Tokens read, image tokens included where the model counts them; of a copy, those of the original.
        completion_tokens: Tokens written; of a copy, those of the original.
        cost_usd: Price in US dollars; None where it is unknown, and 0 for a model that runs here.
        seconds: Wall-clock seconds that the answer took (of a batch, an equal share).
    """

    text: str
    cached: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Failure:
    """A question that got no answer; it is counted as missing and never scored.

    Attributes:
        reason: What went wrong, in one line, without secrets.
        retryable: Whether the same question may be answered later (a rate limit, a time-out, a server's error).
    """

    reason: str
    retryable: bool


Reply = Answer | Failure


@runtime_checkable
class VLM(Protocol):
    """A vision-language model."""

    @property
    def identity(self) -> Identity:
        """Everything that can change an answer: kind, model, revision, dtype, decoding."""
        ...

    def answer(self, questions: Sequence[Question]) -> list[Reply]:
        """Answers questions, in the same order and number.

        Raises:
            VLMError: If the model cannot answer at all, so that going on is senseless.
        """
        ...
