"""Boxes of photos, out of a column or a detector's file, and the crops that models are asked about."""

from __future__ import annotations

import io
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from taxtune.data.names import match_names
from taxtune.errors import DataError, ImageError, shortened
from taxtune.images import MAX_PIXELS, count_pixels, store_image
from taxtune.progress import note
from taxtune.tables import read_text

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Box", "Boxes", "Found", "crop_area"]

#: The category of detections that is asked about where there is one of this name, else all are.
_ASKED = "animal"
_LEAST_SIDE = 64  # pixels of a crop, where the image has them
_SLACK = 0.01  # of a side: a box may stick out so far, and is clipped
_BETWEEN = re.compile(r"[\s,;()\[\]]+")
_FORM = (
    'A box is x, y, width and height, such as "0.1,0.2,0.3,0.4": shares of the width and the height '
    "of the upright image where none is above 1, and otherwise pixels."
)


class Box(NamedTuple):
    """A part of an upright image: left, top, width, height; relative to the image's, or pixels."""

    x: float
    y: float
    width: float
    height: float

    def __str__(self) -> str:
        """Returns the box as a table has it."""
        return ",".join(f"{value:.6g}" for value in self)

    @classmethod
    def parse(cls, cell: object) -> Box | None:
        """Returns the box of a cell, text or four numbers; None for an empty one.

        Raises:
            ImageError: If it is no box.
        """
        if cell is None or cell != cell:
            return None
        parts = _BETWEEN.split(cell) if isinstance(cell, str) else cell
        try:
            numbers = [float(part) for part in parts if part != ""]  # type: ignore[attr-defined]
        except (TypeError, ValueError):
            numbers = [math.nan]
        if not numbers:
            return None
        if len(numbers) != 4 or not all(map(math.isfinite, numbers)):
            raise ImageError("The box is not four numbers.", value=cell, remedy=_FORM)
        box = cls(*numbers)
        if min(box.width, box.height) <= 0:
            raise ImageError("The box has no area.", value=cell, remedy=_FORM)
        return box

    def relative(self, width: int, height: int) -> Box:
        """Returns the box relative to an image of a size in pixels, clipped where it sticks out a bit.

        Raises:
            ImageError: If it sticks out by more than a pixel and a hundredth of the side.
        """
        size = np.array([width, height])
        corners = np.reshape(self, (2, 2)).cumsum(axis=0)
        if max(self) > 1:
            corners = corners / size
        inside = corners.clip(0, 1)
        lengths = inside[1] - inside[0]
        slack = np.maximum(1 / size, _SLACK)
        is_near = (corners >= -slack) & (corners <= 1 + slack)
        if not is_near.all() or not lengths.all():
            raise ImageError(
                f"The box {self} is outside the image of {width} × {height} pixels.", remedy=_FORM
            )
        return Box(*inside[0].round(6).tolist(), *lengths.round(6).tolist())


class Found(NamedTuple):
    """The boxes of a photo by name ("1.jpg#2"), and why they are not known, where they are not."""

    boxes: Mapping[str, Box]
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Boxes:
    """Where the boxes of photos are, and how they are cut out.

    Attributes:
        column: The column of the boxes, in a table.
        file: MegaDetector's file, in place of the column.
        margin: What is added on each side, as a share of the box's longer side, at least 0.
        least_confidence: The confidence below which a detection does not count, in [0, 1].
    """

    column: str = "box"
    file: Path | None = None
    margin: float = 0.1
    least_confidence: float = 0.2

    def find(
        self, names: Sequence[str], cells: Sequence[object], rows: Sequence[str]
    ) -> list[Found]:
        """Returns the boxes of each photo.

        Args:
            names: What the photos are called, here and in the detector's file.
            cells: The cell of the column for each.
            rows: Where each is named ("row 3"), for messages.

        Raises:
            DataError: If cells are no boxes, with all of them, or the file cannot be used.
        """
        given: Sequence[tuple[Sequence[object], str | None]] = [([cell], None) for cell in cells]
        if self.file is not None:
            given = _detected(self.file, self.least_confidence, names)
        found = []
        faults = []
        numbers: Counter[str] = Counter()
        for name, row, (own_cells, failure) in zip(names, rows, given, strict=True):
            boxes = {}
            for cell in own_cells:
                try:
                    box = Box.parse(cell)
                except ImageError as error:
                    faults.append(f"  {row}: {name}: {error.message} (got {cell!r:.60})")
                    continue
                if box is not None:
                    numbers[name] += 1
                    boxes[f"{name}#{numbers[name]}"] = box
            found.append(Found(boxes, failure))
        if faults:
            listed = "\n".join(shortened(faults, 20))
            count = "1 box" if len(faults) == 1 else f"{len(faults):,} boxes"
            raise DataError(f"{count} cannot be used:\n{listed}\n{_FORM}", file=self.file)
        return found

    def cut(self, photo: Path, image: Image.Image, box: Box, folder: Path) -> tuple[Path, Box]:
        """Writes the crop of a box of a photo, which is loaded already, to a folder.

        Returns:
            The crop, named by the hash of its content, and the box relative to the photo.

        Raises:
            ImageError: If the box is outside the photo.
        """
        scale = 2 if count_pixels(photo) > MAX_PIXELS else 1  # see `load_image`
        box = box.relative(scale * image.width, scale * image.height)
        crop = image.crop(crop_area(image.width, image.height, box, self.margin))
        stream = io.BytesIO()
        crop.save(stream, "JPEG", quality=95, subsampling=0)
        return store_image(stream.getvalue(), folder), box


def crop_area(width: int, height: int, box: Box, margin: float) -> tuple[int, int, int, int]:
    """Returns the left, upper, right and lower edge of a relative box's crop, in pixels.

    It is a square about the box with its margin, moved to lie inside the image. Of an image that is
    too narrow for the square it takes the whole side.
    """
    size = np.array([width, height])
    low, high = np.rint(np.reshape(box, (2, 2)).cumsum(axis=0) * size)
    side = max(_LEAST_SIDE, math.ceil((high - low).max() * (1 + 2 * margin)))
    lengths = np.minimum(side, size)
    first = (low - (lengths - (high - low)) // 2).clip(0, size - lengths)
    left, upper = map(int, first)
    right, lower = map(int, first + lengths)
    return left, upper, right, lower


def _detected(
    file: Path, least: float, names: Sequence[str]
) -> list[tuple[Sequence[object], str | None]]:
    """Returns the boxes of photos in MegaDetector's file, or why it has none; notes what is in it.

    Its format is that of https://lila.science/megadetector-output-format.
    """
    text = read_text(file, error=DataError, what="file of detections")
    counts: Counter[str] = Counter()
    found = {}
    photo: Any = None
    try:
        content = json.loads(text)
        categories = content["detection_categories"]
        animals = [key for key, name in categories.items() if name.casefold() == _ASKED]
        for photo in content["images"]:
            sure = [each for each in photo.get("detections") or () if each["conf"] >= least]
            kinds = [str(each["category"]) for each in sure]
            counts.update(categories[kind] for kind in kinds)
            wanted = animals or categories
            pairs = zip(sure, kinds, strict=True)
            asked = [each["bbox"] for each, kind in pairs if kind in wanted]
            failure = photo.get("failure")
            found[photo["file"]] = (asked, failure and f"The detector failed: {failure}")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"The file does not have MegaDetector's format ({type(error).__name__}: {error}).",
            file=file,
            value=photo,
            remedy="It has images, each with file and detections, each of these with category, conf "
            "and bbox, and detection_categories.",
        ) from error
    matches = match_names(names, found)
    if not matches:
        remedy = f"Its first photo is {next(iter(found), None)!r}, the first here {names[0]!r}."
        message = "The file has no detections of these photos."
        raise DataError(message, file=file, remedy=remedy)
    told = ", ".join(f"{count:,} {category}" for category, count in counts.most_common())
    only = f", of which only {_ASKED}s are asked about" if animals else ""
    note(f"{file}: {told or 'nothing'} with a confidence of {least:g} or more{only}")
    lacking = ((), "The detector's file does not name the photo.")
    return [found.get(matches.get(name, ""), lacking) for name in names]
