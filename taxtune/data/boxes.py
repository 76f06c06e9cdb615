"""Boxes of photos, out of a column or a detector's file, and the crops that models are asked about."""

from __future__ import annotations

import io
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from taxtune.data.names import match_names
from taxtune.errors import DataError, ImageError, shortened
from taxtune.images import store_image, upright_size
from taxtune.progress import note
from taxtune.tables import read_text

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Box", "Boxes", "Part", "crop_area", "cut_box", "relative_box"]

#: The category of detections that is asked about where there is one of this name, else all are.
_ASKED = "animal"
_LEAST_SIDE = 64  # pixels of a crop, where the image has them
_SLACK = 0.01  # of a side: a box may stick out so far, and is clipped
_ROUNDING = 0.02  # pixels that the digits of a relative box may be off
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
        scale = np.ones(2) if max(self) <= 1 else size
        low = np.array(self[:2]) / scale
        high = low + np.array(self[2:]) / scale
        slack = np.maximum(1 / size, _SLACK)
        outside = (low < -slack) | (high > 1 + slack) | (low >= 1) | (high <= 0)
        if outside.any():
            message = f"The box is outside the image of {width} × {height} pixels."
            raise ImageError(message, value=str(self), remedy=_FORM)
        low = low.clip(0, 1)
        lengths = high.clip(0, 1) - low
        return Box(*low.round(6).tolist(), *lengths.round(6).tolist())


class Part(NamedTuple):
    """A box of a photo, or a photo without any.

    Attributes:
        place: Which of the photos it is of.
        name: What it is called: "1.jpg#2", or as the photo.
        box: The box, relative to the photo; None without one, or why it is not known.
    """

    place: int
    name: str
    box: Box | ImageError | None


_Share = Annotated[float, Field(ge=-_SLACK, le=1, allow_inf_nan=False)]


class _Detection(BaseModel):
    category: str
    conf: float
    bbox: tuple[_Share, _Share, _Share, _Share]


class _Photo(BaseModel):
    file: str
    detections: list[_Detection] | None = None
    failure: str | None = None


class _Detections(BaseModel):
    """MegaDetector's results, as https://lila.science/megadetector-output-format has them."""

    images: list[_Photo]
    detection_categories: dict[str, str]


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
        self,
        names: Sequence[str],
        photos: Sequence[Path],
        cells: Sequence[object],
        rows: Sequence[str],
    ) -> list[Part]:
        """Returns the boxes of photos, in their order; of a photo without a box itself.

        Args:
            names: What the photos are called, here and in the detector's file.
            photos: Their files.
            cells: The cell of the column for each.
            rows: Where each is named ("row 3"), for messages.

        Raises:
            DataError: If boxes cannot be used, with all of them, or the file cannot.
        """
        given: Sequence[Sequence[object]] = [[cell] for cell in cells]
        if self.file is not None:
            given = _detected(self.file, self.least_confidence, names)
        parts = []
        faults = []
        numbers: Counter[Path] = Counter()
        for place, own_cells in enumerate(given):
            name = names[place]
            boxes: list[Box | ImageError | None] = []
            for cell in own_cells:
                try:
                    boxes.append(relative_box(photos[place], cell))
                except ImageError as error:
                    faults.append(f"  {rows[place]}: {name}: {error.message} (got {cell!r:.60})")
            for box in boxes or [None]:
                own_name = name
                if isinstance(box, Box):
                    numbers[photos[place]] += 1
                    own_name = f"{name}#{numbers[photos[place]]}"
                parts.append(Part(place, own_name, box))
        if faults:
            listed = "\n".join(shortened(faults, 20))
            count = "1 box" if len(faults) == 1 else f"{len(faults):,} boxes"
            raise DataError(f"{count} cannot be used:\n{listed}\n{_FORM}", file=self.file)
        return parts


def relative_box(photo: Path, cell: object) -> Box | ImageError | None:
    """Returns the box of a cell, relative to its photo; None for an empty cell.

    A reason why the box is not known is returned as it is.

    Raises:
        ImageError: If the box cannot be used.
    """
    if isinstance(cell, ImageError):
        return cell
    box = Box.parse(cell)
    if box is None:
        return None
    try:
        width, height = upright_size(photo)
    except ImageError:  # told with all images that cannot be read
        return box
    return box.relative(width, height)


def _detected(file: Path, least: float, names: Sequence[str]) -> list[list[Box | ImageError]]:
    """Returns the boxes that a detector's file has of photos; notes what else it has."""
    content = _read_detections(file)
    entries = {photo.file: photo for photo in content.images}
    matches = match_names(names, entries)
    if not matches:
        remedy = f"Its first photo is {next(iter(entries), None)!r}, the first here {names[0]!r}."
        message = "The file has no detections of these photos."
        raise DataError(message, file=file, remedy=remedy)
    categories = {key: name.casefold() for key, name in content.detection_categories.items()}
    asked = {_ASKED} & {*categories.values()} or {*categories.values()}
    lacking = _Photo(file="", failure="its file does not name the photo")
    found: list[list[Box | ImageError]] = []
    counts: Counter[str] = Counter()
    failed = []
    for name in names:
        photo = entries.get(matches.get(name, ""), lacking)
        boxes: list[Box | ImageError] = []
        for detection in photo.detections or ():
            category = categories.get(detection.category, "unknown")
            if detection.conf >= least:
                counts[category] += 1
                boxes += [Box(*detection.bbox)] if category in asked else []
        if photo.failure is not None:
            boxes = [ImageError(f"The detector failed: {photo.failure}")]
            failed.append(name)
        found.append(boxes)
    told = ", ".join(f"{count:,} {category}" for category, count in counts.most_common())
    text = f"{file}: boxes with a confidence of {least:g} or more: {told or 'none'}"
    if not asked.issuperset(counts):
        text += f", of which those of the category {_ASKED} are asked about"
    if failed:
        text += (
            f"; the detector failed on {len(failed):,} photos: {', '.join(shortened(failed, 5))}"
        )
    if len(entries) > len(matches):
        text += f"; {len(entries) - len(matches):,} photos of the file are not here"
    note(text)
    return found


def _read_detections(file: Path) -> _Detections:
    text = read_text(file, error=DataError, what="file of detections")
    try:
        return _Detections.model_validate_json(text)
    except ValidationError as error:
        lines = []
        for fault in error.errors():
            place = ".".join(map(str, fault["loc"]))
            lines.append(f"  {place}: {fault['msg']} (got {fault['input']!r:.60})")
        listed = "\n".join(shortened(lines, 20))
        raise DataError(
            f"The file does not have MegaDetector's format:\n{listed}\nIt has images, each with file "
            "and detections, each of these with category, conf and bbox (x, y, width and height, "
            "relative), and detection_categories.",
            file=file,
        ) from None


def crop_area(width: int, height: int, box: Box, margin: float) -> tuple[int, int, int, int]:
    """Returns the left, upper, right and lower edge of a box's crop, in pixels of the image.

    It is a square about the box with its margin, moved to lie inside the image. Of an image that is
    too narrow for the square it takes the whole side.

    Args:
        width: The image's width in pixels.
        height: Its height.
        box: The box, relative to the image.
        margin: See `Boxes`.
    """
    size = np.array([width, height])
    start = np.array(box[:2]) * size
    end = start + np.array(box[2:]) * size
    low = np.floor(start + _ROUNDING).clip(0, size - 1)
    high = np.ceil(end - _ROUNDING).clip(low + 1, size)
    side = max(_LEAST_SIDE, math.ceil((high - low).max() * (1 + 2 * margin)))
    lengths = np.minimum(side, size)
    before = (lengths - (high - low)) // 2
    first = (low - before).clip(0, size - lengths)
    left, upper = map(int, first)
    right, lower = map(int, first + lengths)
    return left, upper, right, lower


def cut_box(image: Image.Image, box: Box, margin: float, folder: Path) -> Path:
    """Writes the crop of a relative box, as JPEG; the file's name is the hash of its content."""
    crop = image.crop(crop_area(image.width, image.height, box, margin))
    stream = io.BytesIO()
    crop.save(stream, "JPEG", quality=95, subsampling=0)
    return store_image(stream.getvalue(), folder)
