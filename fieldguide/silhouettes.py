"""The ten silhouettes of the field guide, one a family, each coloured by a species.

Every drawing takes the pencil and a species and draws one bird that looks to the right in the
square from -1 to 1. What it stands, swims or clings to belongs to the scene (`scene.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fieldguide.canvas import Pen
from fieldguide.landbirds import hawk, owl, penguin, woodpecker
from fieldguide.songbirds import crow, finch, tit
from fieldguide.species import Species
from fieldguide.waterbirds import duck, heron, ibis

__all__ = ["SHAPES", "Shape"]


@dataclass(frozen=True, slots=True)
class Shape:
    """A silhouette.

    Attributes:
        draw: Draws the bird.
        setting: What the bird is shown with: "branch", "ground", "water", "reeds", "trunk", "air"
            or "ice".
        feet: The y in the bird's square where its feet, its belly or its water line are.
    """

    draw: Callable[[Pen, Species], None]
    setting: str
    feet: float


#: The silhouettes by the name that `species.yaml` gives them.
SHAPES: dict[str, Shape] = {
    "finch": Shape(finch, "branch", 0.60),
    "tit": Shape(tit, "branch", 0.58),
    "crow": Shape(crow, "ground", 0.73),
    "duck": Shape(duck, "water", 0.34),
    "heron": Shape(heron, "reeds", 0.94),
    "ibis": Shape(ibis, "reeds", 0.82),
    "owl": Shape(owl, "branch", 0.84),
    "penguin": Shape(penguin, "ice", 0.94),
    "woodpecker": Shape(woodpecker, "trunk", 0.0),
    "hawk": Shape(hawk, "air", 0.0),
}
