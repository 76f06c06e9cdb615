"""A mapper whose confidence is known: .4 of an answer with a question mark, otherwise .9."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PIL.Image import Image

from taxtune.mapping import Mapper, Placements

__all__ = ["Unsure"]


class Unsure(Mapper):
    """Places as the default mapper does."""

    def place(
        self, answers: Sequence[str], images: Sequence[Image | None] | None = None
    ) -> Placements:
        found = super().place(answers, images)
        return Placements(
            replace(one, confidence=0.4 if "?" in one.answer else 0.9) for one in found
        )
