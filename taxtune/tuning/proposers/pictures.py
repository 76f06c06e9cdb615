"""Pictures of the worst failures, with answers without names, for a model that takes images."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from taxtune.images import load_image, store_image
from taxtune.metrics.diagnosis import ErrorType
from taxtune.tuning.proposers.base import Goal
from taxtune.tuning.proposers.evidence import (
    HiddenAnswer,
    hidden_answers,
    measures_of,
    score_columns,
)
from taxtune.tuning.records import IterationRecord

__all__ = ["SIDE", "Picture", "contact_sheet", "worst_failures"]

SIDE = 512  # pixels of the longer side of a picture that is sent; small images are sent as they are


@dataclass(frozen=True, slots=True)
class Picture:
    """A tuning image, its place among them from 1, and the answer about it, names hidden."""

    number: int
    example: str
    file: Path
    answer: HiddenAnswer


def worst_failures(
    record: IterationRecord, goal: Goal, most: int, *, salt: object = None
) -> list[Picture]:
    """Returns an iteration's worst failures of which files are known.

    The goal's scores say what is worse, but wrong answers come before vague ones, and no two alike
    before all others.

    Args:
        record: The iteration.
        goal: What is being tuned for, with the files.
        most: The most failures.
        salt: Draws between those that are equally bad.
    """
    rows = [row for row in record.rows if row.counts and row.example in goal.images]
    if goal.taxonomy is None or not rows:
        return []
    measures = (*measures_of(goal.objective, met=record.feasible), "hp", "hr")
    columns = score_columns(rows, measures).values()
    hidden = hidden_answers(rows, goal, template=record.template)

    def rank(i: int) -> tuple[object, ...]:
        is_vague = hidden[i].kind in (ErrorType.TOO_GENERAL, ErrorType.ABSTAINED)
        salted = repr((salt, rows[i].example))
        drawn = hashlib.sha256(salted.encode()).digest()
        return (is_vague, *(float(column[i]) for column in columns), drawn)

    wrong = [i for i, answer in enumerate(hidden) if answer.kind != ErrorType.CORRECT]
    wrong.sort(key=rank)
    # The first of those that are alike come before all others.
    first = {hidden[i]: i for i in reversed(wrong)}
    wrong.sort(key=lambda i: first[hidden[i]] != i)
    places = {example: place for place, example in enumerate(goal.images, 1)}
    pictures = []
    for i in wrong[:most]:
        example = rows[i].example
        file = goal.images[example]
        pictures.append(Picture(places[example], example, file, hidden[i]))
    return pictures


def contact_sheet(pictures: Sequence[Picture], folder: Path) -> Path:
    """Writes pictures as one image, two in a row, numbered from 1, and returns its file."""
    from PIL import Image, ImageDraw, ImageFont

    wide = min(2, len(pictures))
    high = (len(pictures) + 1) // 2
    sheet = Image.new("RGB", (SIDE * wide, SIDE * high), "white")
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(48)
    for i, picture in enumerate(pictures):
        left = SIDE * (i % 2)
        top = SIDE * (i // 2)
        tile = load_image(picture.file)
        tile.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
        sheet.paste(tile, (left, top))
        number = str(i + 1)
        draw.text((left + 8, top), number, "black", font, stroke_width=4, stroke_fill="white")
    return store_image(sheet, folder)
