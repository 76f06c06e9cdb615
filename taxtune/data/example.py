"""An image with the node that it shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from taxtune.data.boxes import Box

__all__ = ["Example"]


@dataclass(frozen=True, slots=True)
class Example:
    """An image and the node that it shows.

    Attributes:
        id: The image's name as the source writes it; unique among the examples of a source.
        image: The image file.
        label: The label as the source writes it.
        target: Number of the node that the label names on the taxonomy.
        sha256: SHA-256 of the image file's bytes; "" until the file is read.
        context: What a template may know of it, by variable; None for a text or a number that is
            missing. Examples that were just loaded have the cells as they stand in the source, by
            column.
        group: The name of the group of images that it belongs to, see `taxtune.metrics.groups`; ""
            for one of its own.
        copy_of: The id of the first image that shows the same photo; "" if it is none's copy.
        thumbnail: See `taxtune.images.Checked`; b"" until the file is read.
        taken: When the photo was taken, by its EXIF; None where that does not say, and until then.
        cut_from: The photo that the image is cut out of; None for a whole one.
        box: The box in it, relative to the upright photo.
    """

    id: str
    image: Path
    label: str
    target: int
    sha256: str = ""
    context: Mapping[str, Any] = field(default_factory=dict, hash=False)
    group: str = ""
    copy_of: str = ""
    thumbnail: bytes = field(default=b"", repr=False, compare=False)
    taken: datetime | None = field(default=None, repr=False, compare=False)
    cut_from: Path | None = None
    box: Box | None = None

    @property
    def photo(self) -> Path:
        """The file that the camera wrote: the image, or what it is cut out of."""
        return self.cut_from or self.image

    @property
    def name(self) -> str:
        """What people know the image by: its file's name, of a box with its number: "1.jpg#2"."""
        return self.photo.name + (self.id[self.id.rindex("#") :] if self.box else "")
