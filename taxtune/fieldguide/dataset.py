"""The field guide as an ordinary data set: a folder of images, a manifest and a taxonomy."""

from __future__ import annotations

import csv
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from taxtune.errors import DataError
from taxtune.fieldguide.render import Sight, draw_sight, render
from taxtune.fieldguide.species import Species, all_species, taxonomy_rows

__all__ = ["DRAWING", "Plan", "make_dataset", "plan", "write_taxonomy"]

#: Raised whenever the drawing changes, so that a data set made by an older version is not taken for the same one.
DRAWING = 1

_COLUMNS = ("image", "label", "common_name", "family", "order", "degraded", "condition", "severity")


@dataclass(frozen=True, slots=True)
class Plan:
    """One picture that is to be drawn.

    Attributes:
        index: Its number in the data set.
        species: The bird on it.
        sight: The conditions under which it is seen.
        seed: The seed of the picture.
    """

    index: int
    species: Species
    sight: Sight
    seed: int


def plan(n: int, *, seed: int, degraded: float = 0.5) -> Iterator[Plan]:
    """Draws up `n` pictures: every species equally often (to within one), conditions at random.

    Args:
        n: How many.
        seed: The same seed gives the same plan; plans of different seeds share no picture.
        degraded: The share of pictures under bad conditions, 0..1.

    Yields:
        The plans, in order.
    """
    rng = np.random.default_rng([seed, 0x61F])
    birds = all_species()
    deck: list[int] = []
    for index in range(n):
        if not deck:
            deck = [int(i) for i in rng.permutation(len(birds))]
        bird = birds[deck.pop()]
        yield Plan(index, bird, draw_sight(rng, degraded), int(rng.integers(2**62)))


def write_taxonomy(file: Path) -> None:
    """Writes the label tree of the field guide as a table of paths (columns `path`, `rank`, `aliases`)."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        table = csv.DictWriter(stream, ("path", "rank", "aliases"), lineterminator="\n")
        table.writeheader()
        table.writerows(taxonomy_rows())


def make_dataset(folder: str | Path, *, n: int = 280, seed: int = 0, degraded: float = 0.5, size: int = 192) -> Path:
    """Draws a data set of birds.

    The folder gets `images/*.png`, `manifest.csv` (image, label, common_name, family, order, degraded, condition,
    severity), `taxonomy.csv` and `dataset.json` (how it was made). It appears complete or not at all. A folder that
    holds the very same data set already is left as it is.

    Args:
        folder: Where to; it must not exist, be empty, or hold the same data set.
        n: How many images, at least 1.
        seed: The same arguments give the same data set; different seeds share no image.
        degraded: The share of images under bad conditions (dusk, fog, blur, foliage), 0..1.
        size: Width and height of the images in pixels, 32..1024.

    Returns:
        The folder.

    Raises:
        DataError: If an argument is out of range, or the folder holds something else.
    """
    folder = Path(folder)
    if n < 1:
        raise DataError("A field guide needs at least one image.", value=n)
    if seed < 0:
        raise DataError("The seed of a field guide must not be negative.", value=seed)
    if not 0.0 <= degraded <= 1.0:
        raise DataError("The share of degraded images must lie between 0 and 1.", value=degraded)
    if not 32 <= size <= 1024:
        raise DataError("The images of a field guide must be 32 to 1024 pixels wide.", value=size)
    made = {"drawing": DRAWING, "images": n, "seed": seed, "degraded": degraded, "size": size}
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        if _same(folder, made):
            return folder
        raise DataError(
            "The folder exists and holds something other than this data set.",
            file=folder,
            remedy="Name another folder or remove this one.",
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        _write(draft, made, n=n, seed=seed, degraded=degraded, size=size)
        draft.chmod(0o755)
        if folder.exists():
            folder.rmdir()
        os.replace(draft, folder)
    except OSError as error:
        if _same(folder, made):  # another process made the same data set meanwhile
            return folder
        raise _unwritable(folder, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def _unwritable(folder: Path, error: OSError) -> DataError:
    return DataError(
        f"The data set cannot be written: {error.strerror}.",
        file=folder,
        remedy="Make room there, or let XDG_CACHE_HOME name a folder that can be written to.",
    )


def _same(folder: Path, made: dict[str, int | float]) -> bool:
    try:
        found = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(found == made)


def _write(folder: Path, made: dict[str, int | float], *, n: int, seed: int, degraded: float, size: int) -> None:
    (folder / "images").mkdir()
    with (folder / "manifest.csv").open("w", newline="", encoding="utf-8") as stream:
        manifest = csv.DictWriter(stream, _COLUMNS, lineterminator="\n")
        manifest.writeheader()
        for item in plan(n, seed=seed, degraded=degraded):
            bird = item.species
            name = f"images/{item.index:05d}.png"
            render(bird, seed=item.seed, sight=item.sight, size=size).save(folder / name)
            manifest.writerow(
                {
                    "image": name,
                    "label": bird.label,
                    "common_name": bird.names[0],
                    "family": bird.family,
                    "order": bird.order,
                    "degraded": "yes" if item.sight.severity > 0 else "no",
                    "condition": item.sight.condition,
                    "severity": f"{item.sight.severity:.3f}",
                }
            )
    write_taxonomy(folder / "taxonomy.csv")
    (folder / "dataset.json").write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
