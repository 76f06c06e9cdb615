"""What a similarity is, and how one is made from its specification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from taxtune.encoders.base import FloatMatrix

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["FloatMatrix", "Similarity"]


@runtime_checkable
class Similarity(Protocol):
    """Scores answers against names; `fit` comes before `scores`.

    Attributes:
        name: Its specification, as in "sentence:all-MiniLM-L6-v2".
        needs_images: Whether it scores the example's image instead of the answer.
    """

    name: str
    needs_images: bool

    @property
    def confident(self) -> float | None:
        """The score from which the most similar name is believed where nothing else decides; None for never."""
        ...

    def fit(self, names: Sequence[str]) -> None:
        """Takes in the names that answers will be compared with."""

    def scores(self, answers: Sequence[str], images: Sequence[Image | None] | None = None) -> FloatMatrix:
        """Returns cosine-like scores, at most 1, of shape (answers, names)."""
        ...
