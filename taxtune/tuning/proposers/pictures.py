"""Pictures of the worst failures, for a proposer's model that takes images: which ones, and how they are sent.

What is sent is the pixels and the answer without names. The truth, the file's name and its metadata stay here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taxtune.data.images import load_image
from taxtune.metrics.diagnosis import ErrorType
from taxtune.models.image_urls import data_url
from taxtune.tuning.proposers.base import Goal
from taxtune.tuning.proposers.evidence import HiddenAnswer, hidden_answers, measures_of, row_values
from taxtune.tuning.proposers.messages import Messages
from taxtune.tuning.records import IterationRecord, SampleResult, Turn

__all__ = ["SIDE", "Picture", "best_of", "picture_parts", "shown_turn", "worst_failures"]

SIDE = 512
"""Longer side in pixels of a picture that is sent; smaller images are sent as they are."""

_VAGUE = (ErrorType.TOO_GENERAL, ErrorType.ABSTAINED)


@dataclass(frozen=True, slots=True)
class Picture:
    """A tuning image with the answer about it, names hidden; `number` is its place among the tuning images, from 1."""

    number: int
    example: str
    file: Path
    answer: HiddenAnswer


def best_of(history: Sequence[IterationRecord]) -> IterationRecord | None:
    """Returns the best scored iteration, the earlier of equals; None where there is none with rows."""
    scored = [record for record in history if record.value is not None and record.rows]
    return max(scored, key=lambda record: (record.feasible, record.value, -record.iteration), default=None)


def worst_failures(
    rows: Sequence[SampleResult],
    goal: Goal,
    most: int,
    template: str | None,
    *,
    met: bool = True,
    salt: object = None,
) -> list[Picture]:
    """Returns the worst failures whose files are known: wrong answers before vague ones, no two alike before others.

    Args:
        rows: Rows of answers to a template.
        goal: What is being tuned for: its scores say what is worse, the main one first.
        most: How many.
        template: The template, whose words may stand in the answers.
        met: Whether the template meets the objective's constraints; otherwise what they hold comes first.
        salt: What decides between failures that are equally bad, such as the seed and the iteration.
    """
    answered = [row for row in rows if row.node is not None and row.unrated is None and row.example in goal.images]
    if goal.taxonomy is None or not answered:
        return []
    measured = (row_values(answered, name) for name in (*measures_of(goal.objective, met=met), "hp", "hr"))
    values = [each for each in measured if each is not None]
    hidden = hidden_answers(answered, goal, template=template)

    def badness(i: int) -> tuple[Any, ...]:
        drawn = hashlib.sha256(repr((salt, answered[i].example)).encode()).digest()
        return (hidden[i].kind in _VAGUE, *(float(value[i]) for value in values), drawn)

    failed = sorted((i for i, answer in enumerate(hidden) if answer.kind != ErrorType.CORRECT), key=badness)
    first = list({hidden[i]: i for i in reversed(failed)}.values())[::-1]
    numbers = {example: number for number, example in enumerate(goal.images, 1)}
    return [
        Picture(numbers[answered[i].example], answered[i].example, goal.images[answered[i].example], hidden[i])
        for i in [*first, *(i for i in failed if i not in first)][:most]
    ]


def picture_parts(pictures: Sequence[Picture], messages: Messages) -> list[dict[str, Any]]:
    """Returns pictures as parts of a message in OpenAI's form, each below its caption.

    Raises:
        ImageError: If a file cannot be read any more.
    """
    parts: list[dict[str, Any]] = []
    for picture in pictures:
        parts.append({"type": "text", "text": messages.text("pictures/caption.j2", picture=picture)})
        parts.append({"type": "image_url", "image_url": {"url": data_url(load_image(picture.file), SIDE)}})
    return parts


def shown_turn(pictures: Sequence[Picture]) -> Turn:
    """Returns the turn that records which images were sent, by id."""
    return Turn("pictures", "", ", ".join(picture.example for picture in pictures))
