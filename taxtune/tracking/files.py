"""What a run leaves among MLflow's artifacts: texts, tables, and small pictures in the tables.

MLflow's own `log_table` takes a call for each of two copies of each picture, and appends to a table that is there. Here
everything goes into one folder that is handed over in one call, and what is there already is replaced, so that a run
that is resumed leaves what one that went through leaves.
"""

from __future__ import annotations

import io
import json
import math
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from taxtune.atomic import write_text
from taxtune.tracking.values import Table, plain

__all__ = ["Files", "Pictures"]

#: Longest side of a picture in pixels, and its WebP quality.
_SIDE, _QUALITY = 128, 80
_TABLES = "mlflow.loggedArtifacts"  # the tag by which MLflow's pages find tables


class Pictures:
    """Small copies of images, each made once.

    Args:
        images: Image files by example id.
    """

    def __init__(self, images: Mapping[str, Path]) -> None:
        self._images = images
        self._made: dict[str | None, bytes] = {}

    def of(self, example: str | None) -> bytes:
        """Returns the small copy of an example's image as WebP; a grey square where there is none."""
        if example not in self._made:
            self._made[example] = self._make(None if example is None else self._images.get(example))
        return self._made[example]

    def _make(self, file: Path | None) -> bytes:
        from PIL import Image, ImageOps

        small = Image.new("RGB", (_SIDE // 4, _SIDE // 4), "lightgrey")
        if file is not None:
            try:
                with Image.open(file) as picture:
                    picture.draft("RGB", (2 * _SIDE, 2 * _SIDE))  # a large JPEG is decoded at a fraction of its size
                    picture.thumbnail((2 * _SIDE, 2 * _SIDE))
                    small = ImageOps.exif_transpose(picture).convert("RGB")
            except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
                pass  # the run has read it before, and the table is true without it
        small.thumbnail((_SIDE, _SIDE))
        written = io.BytesIO()
        small.save(written, "WEBP", quality=_QUALITY)
        return written.getvalue()


class Files:
    """Files that are put among a run's artifacts together; used in a `with` block.

    Args:
        pictures: Where tables have their pictures from.
    """

    def __init__(self, pictures: Pictures) -> None:
        self._pictures = pictures
        self._tables: list[str] = []
        self._temporary = tempfile.TemporaryDirectory(prefix="taxtune-")
        self._folder = Path(self._temporary.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._temporary.cleanup()

    def text(self, name: str, text: str) -> None:
        """Adds a text file."""
        write_text(self._folder / name, text)

    def json(self, name: str, value: Any) -> None:
        """Adds a JSON file; passwords in addresses are left out."""
        self.text(name, json.dumps(plain(value), ensure_ascii=False, indent=2))

    def copy(self, file: Path, folder: str = "") -> None:
        """Adds a copy of a file, if there is one."""
        if file.exists():
            (self._folder / folder).mkdir(exist_ok=True)
            shutil.copy(file, self._folder / folder / file.name)

    def table(self, name: str, columns: Table, *, pictures: int = 0) -> None:
        """Adds a table, if it has rows.

        Args:
            name: The file's name; it ends in .json.
            columns: The columns; pictures need one called "example".
            pictures: How many rows have the image's small copy in a first column; the others have a grey square.
        """
        if not any(columns.values()):
            return
        if pictures:
            columns = {"picture": self._picture_cells(name, columns["example"], pictures), **columns}
        rows = [[_known(value) for value in row] for row in zip(*columns.values(), strict=True)]
        self.text(name, json.dumps({"columns": list(columns), "data": rows}, ensure_ascii=False, default=float))
        self._tables.append(name)

    def _picture_cells(self, name: str, examples: list[str], most: int) -> list[dict[str, str]]:
        folder = f"table_images/{Path(name).stem}"
        (self._folder / folder).mkdir(parents=True)
        cells = []
        for number, example in enumerate(examples[:most]):
            path = f"{folder}/{number:03d}.webp"
            (self._folder / path).write_bytes(self._pictures.of(example))
            cells.append(_cell(path))
        if len(examples) > most:
            # MLflow shows a column as pictures only where all of its cells are some.
            path = f"{folder}/none.webp"
            (self._folder / path).write_bytes(self._pictures.of(None))
            cells += [_cell(path)] * (len(examples) - most)
        return cells

    def log(self, client: Any, run: str) -> dict[str, str]:
        """Hands everything over and returns the tags by which MLflow's pages find the tables."""
        client.log_artifacts(run, str(self._folder))
        return {_TABLES: json.dumps([{"path": name, "type": "table"} for name in self._tables])} if self._tables else {}


def _cell(path: str) -> dict[str, str]:
    """Returns a cell as `mlflow.Image` makes one in a table; the small copy serves as the full one, too."""
    return {"type": "image", "filepath": path, "compressed_filepath": path}


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
