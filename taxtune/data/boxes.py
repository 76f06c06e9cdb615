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

from pydantic import BaseModel, Field, ValidationError

from taxtune.data.names import match_names
from taxtune.errors import DataError, ImageError, shortened
from taxtune.images import load_image, store_image, upright_size
from taxtune.progress import note
from taxtune.tables import read_text

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Box", "Boxes", "crop_area", "cut_box", "cut_out"]

#: The category that is asked about in a detector's file that has it; in others all are.
_ASKED = "animal"
#: Pixels that a side of a crop has at least, where the image has them.
_LEAST_SIDE = 64
#: Share of the image's side by which a box may stick out; it is clipped.
_SLACK = 0.01
#: Of a pixel: what the digits of a relative box may be off.
_ROUNDING = 0.02
_QUALITY = 95  # of JPEG
_BETWEEN = re.compile(r"[\s,;()\[\]]+")
_FORM = (
    'A box is x, y, width and height, such as "0.1,0.2,0.3,0.4": shares of the image\'s width and '
    "height where none is above 1, else pixels of the upright image."
)


class Box(NamedTuple):
    """A part of an image: its left upper corner and its size, in shares of the image's or in pixels."""

    x: float
    y: float
    width: float
    height: float

    def __str__(self) -> str:
        """Returns the box as a table has it."""
        return ",".join(f"{share:.6g}" for share in self)

    @classmethod
    def parse(cls, cell: object) -> Box | None:
        """Returns the box of a cell; None for an empty one.

        Raises:
            ValueError: If it is no box.
        """
        if cell is None or cell != cell:
            return None
        parts = _BETWEEN.split(cell) if isinstance(cell, str) else cell
        try:
            numbers = [float(part) for part in parts if part != ""]  # type: ignore[attr-defined]
        except (TypeError, ValueError):
            raise ValueError("is not four numbers") from None
        if not numbers:
            return None
        if len(numbers) != 4 or not all(map(math.isfinite, numbers)):
            raise ValueError("is not four numbers")
        box = cls(*numbers)
        if min(box.width, box.height) <= 0:
            raise ValueError("has no area")
        return box

    def within(self, width: int, height: int) -> Box:
        """Returns the box relative to an image of a size in pixels, clipped where it sticks out a bit.

        Raises:
            ValueError: If it sticks out further than a pixel and a hundredth of the side.
        """
        sides = (1.0, 1.0) if max(self) <= 1 else (float(width), float(height))
        spans = []
        starts = zip(self[:2], self[2:], sides, (width, height), strict=True)
        for start, length, side, pixels in starts:
            low = start / side
            high = (start + length) / side
            slack = max(1 / pixels, _SLACK)
            if low < -slack or high > 1 + slack or low >= 1 or high <= 0:
                raise ValueError(f"is outside the image of {width} × {height} pixels")
            low = max(low, 0.0)
            spans.append((low, min(high, 1.0) - low))
        (x, w), (y, h) = spans
        return Box(*(round(share, 6) for share in (x, y, w, h)))


class _Detection(BaseModel):
    category: str
    conf: float
    bbox: tuple[Annotated[float, Field(ge=-_SLACK, le=1, allow_inf_nan=False)], ...] = Field(
        min_length=4, max_length=4
    )


class _Photo(BaseModel):
    file: str
    detections: list[_Detection] | None = None
    failure: str | None = None


_UNSEEN = _Photo(file="", failure="its file does not name the photo")


class _Detections(BaseModel):
    """A file of detections in MegaDetector's format: https://lila.science/megadetector-output-format."""

    images: list[_Photo]
    detection_categories: dict[str, str]


@dataclass(frozen=True, slots=True)
class Boxes:
    """Where the boxes of photos are, and how they are cut out.

    Attributes:
        column: The column of the boxes, in a table.
        file: A detector's file, in place of the column.
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
    ) -> list[list[Box] | ImageError]:
        """Returns the boxes of photos, relative to them, or why they are not known, in their order.

        Args:
            names: What the photos are called, which a detector's file may call them, too.
            photos: Their files.
            cells: The cell of the column for each photo; not used if there is a detector's file.
            rows: Where each is named ("row 3"), for messages.

        Raises:
            DataError: If boxes cannot be used, with all of them; or the file cannot.
        """
        given: Sequence[Sequence[object] | ImageError] = [[cell] for cell in cells]
        if self.file is not None:
            given = self._detected(self.file, names)
        found: list[list[Box] | ImageError] = []
        faults = []
        for photo, own_cells, row in zip(photos, given, rows, strict=True):
            if isinstance(own_cells, ImageError):
                found.append(own_cells)
                continue
            own = []
            for cell in own_cells:
                try:
                    own += _boxes_within(photo, cell)
                except ValueError as error:
                    faults.append(f"  {row}: {photo.name}: the box {cell!r:.60} {error}")
            found.append(own)
        if faults:
            listed = "\n".join(shortened(faults, 20))
            count = "1 box" if len(faults) == 1 else f"{len(faults):,} boxes"
            message = f"{count} cannot be used:\n{listed}\n{_FORM}"
            raise DataError(message, file=self.file)
        return found

    def _detected(self, file: Path, names: Sequence[str]) -> list[list[Box] | ImageError]:
        """Returns the boxes that the detector's file has of photos; notes which there are."""
        detections = _read_detections(file)
        entries = {photo.file: photo for photo in detections.images}
        matches = match_names(names, entries)
        if not matches:
            remedy = (
                f"Its first photo is {next(iter(entries), None)!r}, the first here {names[0]!r}."
            )
            raise DataError("The file has no detections of these photos.", file=file, remedy=remedy)
        categories = detections.detection_categories
        has_animals = _ASKED in map(str.casefold, categories.values())
        found: list[list[Box] | ImageError] = []
        counts: Counter[str] = Counter()
        for name in names:
            photo = entries.get(matches.get(name, ""), _UNSEEN)
            if photo.failure is not None:
                found.append(ImageError(f"The detector failed: {photo.failure}"))
                continue
            boxes = []
            for detection in photo.detections or ():
                category = categories.get(detection.category, "unknown").casefold()
                if detection.conf < self.least_confidence:
                    continue
                counts[category] += 1
                if category == _ASKED or not has_animals:
                    boxes.append(Box(*detection.bbox))
            found.append(boxes)
        self._note(len(names), len(entries) - len(matches), counts)
        return found

    def _note(self, photos: int, others: int, counts: Counter[str]) -> None:
        told = ", ".join(f"{count:,} {category}" for category, count in counts.most_common())
        text = (
            f"boxes of {photos:,} photos with a confidence of {self.least_confidence:g} or more: "
        )
        text += told or "none"
        if counts.keys() - {_ASKED} and _ASKED in counts:
            text += f"; those of the category {_ASKED} are asked about"
        if others:
            text += f"; {others:,} more photos of the file are not here"
        note(f"{self.file}: {text}")


def _boxes_within(photo: Path, cell: object) -> list[Box]:
    """Returns the box of a cell, relative to its photo; none for an empty cell."""
    box = Box.parse(cell)
    if box is None:
        return []
    try:
        return [box.within(*upright_size(photo))]
    except ImageError:  # told with all images that cannot be read
        return [box]


def _read_detections(file: Path) -> _Detections:
    text = read_text(file, error=DataError, what="file of detections")
    try:
        return _Detections.model_validate_json(text)
    except ValidationError as error:
        lines = []
        for fault in error.errors():
            place = ".".join(map(str, fault["loc"]))
            lines.append(f"  {place or 'all'}: {fault['msg']} (got {fault['input']!r:.60})")
        listed = "\n".join(shortened(lines, 20))
        raise DataError(
            f"The file does not have MegaDetector's format:\n{listed}\nGive its results as "
            "{images: [{file, detections: [{category, conf, bbox}]}], detection_categories}, each "
            "bbox with x, y, width and height as shares of the image's.",
            file=file,
        ) from None


def crop_area(width: int, height: int, box: Box, margin: float) -> tuple[int, int, int, int]:
    """Returns the left, upper, right and lower edge of a box's crop, in pixels of the image.

    It is a square about the box with its margin, moved to lie inside the image. Of an image that is
    too narrow for the square it takes the whole side.

    Args:
        width: The image's width.
        height: Its height.
        box: The box, relative to the image.
        margin: See `Boxes`.
    """
    spans = []
    for start, length, pixels in ((box.x, box.width, width), (box.y, box.height, height)):
        low = min(math.floor(start * pixels + _ROUNDING), pixels - 1)
        high = math.ceil((start + length) * pixels - _ROUNDING)
        spans.append((low, min(max(high, low + 1), pixels)))
    longest = max(high - low for low, high in spans)
    side = max(_LEAST_SIDE, math.ceil(longest * (1 + 2 * margin)))
    edges = []
    for (low, high), pixels in zip(spans, (width, height), strict=True):
        length = min(side, pixels)
        around = low - (length - (high - low)) // 2
        first = min(max(around, 0), pixels - length)
        edges.append((first, first + length))
    (left, right), (upper, lower) = edges
    return left, upper, right, lower


def cut_out(photo: Path, cell: object, margin: float, folder: Path) -> Path | None:
    """Writes the crop of a photo's box; returns None where the cell has no box.

    Raises:
        ImageError: If the photo or its box cannot be used; a cell may be the reason why.
    """
    if isinstance(cell, ImageError):
        raise cell
    try:
        boxes = _boxes_within(photo, cell)
    except ValueError as error:
        raise ImageError(f"The box {error}.", value=cell, remedy=_FORM) from None
    return cut_box(load_image(photo), boxes[0], margin, folder) if boxes else None


def cut_box(image: Image.Image, box: Box, margin: float, folder: Path) -> Path:
    """Writes the crop of a box, relative to its image; the file's name is the hash of its content."""
    crop = image.crop(crop_area(image.width, image.height, box, margin))
    stream = io.BytesIO()
    crop.save(stream, "JPEG", quality=_QUALITY, subsampling=0)
    return store_image(stream.getvalue(), folder)
