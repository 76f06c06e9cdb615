"""Draws the field guide as an ordinary data set, a folder of images, a manifest and a taxonomy.

`python -m fieldguide.draw --out FOLDER` draws the images that come with taxtune.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fieldguide.render import Sight, draw_sight, render
from fieldguide.species import Species, all_species, taxonomy_rows
from taxtune.errors import DataError, TaxtuneError
from taxtune.fieldguide import IMAGES

__all__ = ["Plan", "main", "make_dataset", "plan", "write_taxonomy"]

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


def make_dataset(
    folder: str | Path, *, n: int, seed: int, degraded: float = 0.5, size: int = 192
) -> Path:
    """Draws a data set of birds.

    The folder gets `images/*.png`, `manifest.csv` (image, label, common_name, family, order,
    degraded, condition, severity) and `taxonomy.csv`. It appears complete or not at all.

    Args:
        folder: Where to; it must not exist, or be empty.
        n: How many images, at least 1.
        seed: The same arguments give the same data set; different seeds share no image.
        degraded: The share of images under bad conditions (dusk, fog, blur, foliage), 0..1.
        size: Width and height of the images in pixels, 32..1024.

    Returns:
        The folder.

    Raises:
        DataError: If an argument is out of range, or the folder holds something.
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
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(
            "The folder is not empty.",
            file=folder,
            remedy="Name another folder or remove this one.",
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        _write(draft, n=n, seed=seed, degraded=degraded, size=size)
        draft.chmod(0o755)
        if folder.exists():
            folder.rmdir()
        os.replace(draft, folder)
    except OSError as error:
        raise _unwritable(folder, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def _unwritable(folder: Path, error: OSError) -> DataError:
    return DataError(
        f"The data set cannot be written: {error.strerror}.", file=folder, remedy="Make room there."
    )


def _write(folder: Path, *, n: int, seed: int, degraded: float, size: int) -> None:
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Draws from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m fieldguide.draw", description=__doc__)
    parser.add_argument(
        "--out", type=Path, required=True, help="the folder to write the data set to"
    )
    parser.add_argument(
        "--images", type=int, default=IMAGES.n, help="images to draw (default %(default)s)"
    )
    parser.add_argument(
        "--degraded",
        type=float,
        default=IMAGES.degraded,
        help="share under bad conditions (default %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=IMAGES.seed, help="seed of the images (default %(default)s)"
    )
    parser.add_argument(
        "--size", type=int, default=192, help="width and height in pixels (default %(default)s)"
    )
    given = parser.parse_args(arguments)
    try:
        make_dataset(
            given.out, n=given.images, seed=given.seed, degraded=given.degraded, size=given.size
        )
    except TaxtuneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"written to {given.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
