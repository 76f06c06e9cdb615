"""Pictures by the thousand, as arrays, to train on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fieldguide.architecture import IMAGE_SIZE
from fieldguide.draw import Plan, plan
from fieldguide.render import render
from fieldguide.species import all_species

__all__ = ["Pictures", "draw_pictures"]

#: Drawn at this size and then made smaller by the same filter that the model's processor uses.
_DRAWN_SIZE = 2 * IMAGE_SIZE


@dataclass(frozen=True, slots=True)
class Pictures:
    """Pictures and what is on them.

    Attributes:
        images: RGB, shape (n, 64, 64, 3), 0..255.
        species: The number of the species in `all_species()`, shape (n,).
        severity: How bad the conditions are, 0 for clear, shape (n,).
    """

    images: NDArray[np.uint8]
    species: NDArray[np.int64]
    severity: NDArray[np.float64]


def _draw(item: Plan) -> NDArray[np.uint8]:
    image = render(item.species, seed=item.seed, sight=item.sight, size=_DRAWN_SIZE)
    return np.asarray(image.resize((IMAGE_SIZE, IMAGE_SIZE), Image.Resampling.BILINEAR))


def draw_pictures(
    n: int,
    *,
    seed: int,
    workers: int = 1,
    keep: Path | None = None,
    say: Callable[[str], None] = print,
) -> Pictures:
    """Draws `n` pictures, half of them under bad conditions, as `make_dataset` does.

    Args:
        n: How many.
        seed: Of the plan; see `fieldguide.draw.plan`.
        workers: Processes that draw.
        keep: A folder to keep the pictures in, so that a second call need not draw them again.
        say: Where notes on progress go.

    Returns:
        The pictures.
    """
    file = None if keep is None else keep / f"pictures-{seed}-{n}.npz"
    if file is not None and file.exists():
        with np.load(file) as kept:
            return Pictures(kept["images"], kept["species"], kept["severity"])
    say(f"drawing {n} pictures (seed {seed})")
    plans = list(plan(n, seed=seed))
    number = {bird.label: i for i, bird in enumerate(all_species())}
    if workers > 1:
        with ProcessPoolExecutor(workers) as pool:
            images = np.stack(list(pool.map(_draw, plans, chunksize=64)))
    else:
        images = np.stack([_draw(item) for item in plans])
    species = np.array([number[item.species.label] for item in plans], np.int64)
    pictures = Pictures(images, species, np.array([item.sight.severity for item in plans]))
    if file is not None:
        np.savez(file, images=pictures.images, species=pictures.species, severity=pictures.severity)
    return pictures
