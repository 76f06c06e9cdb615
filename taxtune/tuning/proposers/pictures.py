"""Pictures of the worst failures, for a proposer's model that takes images: pixels, and answers without names."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from taxtune.images import load_image, store_image
from taxtune.metrics.diagnosis import ErrorType
from taxtune.tuning.proposers.base import Goal
from taxtune.tuning.proposers.evidence import HiddenAnswer, hidden_answers, measures_of, row_values
from taxtune.tuning.records import IterationRecord

__all__ = ["SIDE", "Picture", "contact_sheet", "worst_failures"]

SIDE = 512  # pixels of the longer side of a picture that is sent; small images are sent as they are


@dataclass(frozen=True, slots=True)
class Picture:
    """A tuning image with the answer about it, names hidden; `number` is its place among the tuning images, from 1."""

    number: int
    example: str
    file: Path
    answer: HiddenAnswer


def worst_failures(
    record: IterationRecord, goal: Goal, most: int, *, salt: object = None
) -> list[Picture]:
    """Returns an iteration's worst failures of which files are known; `salt` draws between those that are equally bad.

    The goal's scores say what is worse, but wrong answers come before vague ones, and no two alike before all others.
    """
    rows = [
        row
        for row in record.rows
        if row.node is not None and row.unrated is None and row.example in goal.images
    ]
    if goal.taxonomy is None or not rows:
        return []
    measures = (*measures_of(goal.objective, met=record.feasible), "hp", "hr")
    values = [each for name in measures if (each := row_values(rows, name)) is not None]
    hidden = hidden_answers(rows, goal, template=record.template)

    def rank(i: int) -> tuple[object, ...]:
        vague = hidden[i].kind in (ErrorType.TOO_GENERAL, ErrorType.ABSTAINED)
        drawn = hashlib.sha256(repr((salt, rows[i].example)).encode()).digest()
        return (vague, *(float(value[i]) for value in values), drawn)

    failed = sorted(
        (i for i, answer in enumerate(hidden) if answer.kind != ErrorType.CORRECT), key=rank
    )
    first = {hidden[i]: i for i in reversed(failed)}.values()
    places = {example: place for place, example in enumerate(goal.images, 1)}
    chosen = [
        (rows[i].example, hidden[i]) for i in sorted(failed, key=lambda i: i not in first)[:most]
    ]
    return [
        Picture(places[example], example, goal.images[example], answer)
        for example, answer in chosen
    ]


def contact_sheet(pictures: Sequence[Picture], folder: Path) -> Path:
    """Writes pictures as one image into a folder, for a model that takes one: two in a row, numbered from 1."""
    from PIL import Image, ImageDraw, ImageFont

    sheet = Image.new(
        "RGB", (SIDE * min(2, len(pictures)), SIDE * ((len(pictures) + 1) // 2)), "white"
    )
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(48)
    for i, picture in enumerate(pictures):
        corner = (SIDE * (i % 2), SIDE * (i // 2))
        tile = load_image(picture.file)
        tile.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
        sheet.paste(tile, corner)
        draw.text(
            (corner[0] + 8, corner[1]),
            str(i + 1),
            "black",
            font,
            stroke_width=4,
            stroke_fill="white",
        )
    return store_image(sheet, folder)
