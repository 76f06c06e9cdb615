"""A mapper whose confidence is known: .4 of an answer with a question mark, otherwise .9."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PIL.Image import Image

from taxtune.mapping import Mapper, Placement, Placements

__all__ = ["Unsure"]


class Unsure(Mapper):
    """Places as the default mapper does."""

    def place(
        self,
        answers: Sequence[str],
        images: Sequence[Image | None] | None = None,
        questions: Sequence[str] | None = None,
    ) -> Placements:
        placements = super().place(answers, images, questions)
        return Placements(_known(placement) for placement in placements)


def _known(placement: Placement) -> Placement:
    unsure = "?" in placement.answer
    # Under the paper's presets no confidence is a probability, so that nothing is doubtful.
    doubtful = None if placement.doubtful is None else unsure
    return replace(placement, confidence=0.4 if unsure else 0.9, doubtful=doubtful)
