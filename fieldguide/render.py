"""Draws a picture of a bird: one species, one seed, one degree of bad conditions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from PIL import Image

from fieldguide.canvas import RGB, Pen, mix
from fieldguide.scene import CONDITIONS, background, foliage, light_for, perch, weather
from fieldguide.silhouettes import SHAPES
from fieldguide.species import Species

__all__ = ["Sight", "draw_sight", "render"]

#: Pictures are drawn at this many times their size and then made smaller, for smooth edges.
_OVERSAMPLING = 2


@dataclass(frozen=True, slots=True)
class Sight:
    """The conditions under which a bird is seen.

    Attributes:
        condition: "clear" or one of `fieldguide.scene.CONDITIONS`.
        severity: How bad they are: 0 for clear, else 0..1. From about 0.5 on a species can no
            longer be told; from about 0.85 on often not even the family.
    """

    condition: str = "clear"
    severity: float = 0.0


def draw_sight(rng: np.random.Generator, degraded: float) -> Sight:
    """Draws the conditions of one picture: clear, or with probability `degraded` one of the bad ones.

    The severity of bad conditions is uniform between 0.3 and 1.
    """
    if rng.random() >= degraded:
        return Sight()
    return Sight(str(rng.choice(CONDITIONS)), float(rng.uniform(0.3, 1.0)))


def render(
    species: Species, *, seed: int, sight: Sight | None = None, size: int = 192
) -> Image.Image:
    """Draws one bird.

    Scale, place, pose, side, background and small differences of colour follow from the seed; the
    same arguments give the same picture.

    Args:
        species: Whom to draw.
        seed: Any number that is not negative.
        sight: The conditions; clear if left out.
        size: Width and height in pixels, at least 16.

    Returns:
        A square RGB picture.
    """
    if size < 16:
        raise ValueError(f"size must be at least 16 pixels, not {size}")
    sight = sight or Sight()
    rng = np.random.default_rng(seed)
    shape = SHAPES[species.shape]
    page = size * _OVERSAMPLING
    image = background(rng, shape.setting, page)

    flip = bool(rng.random() < 0.5)
    level = shape.setting in {"water", "reeds", "ground", "ice"}
    angle = math.radians(float(rng.normal(0, 3 if level else 7)))
    if shape.setting == "air":
        angle = math.radians(float(rng.normal(0, 24)))
    scale = page * float(rng.uniform(0.30, 0.42))
    centre = (
        page * (0.5 + float(rng.uniform(-0.08, 0.08))),
        page * (0.5 + float(rng.uniform(-0.06, 0.06))),
    )

    light, tone = light_for(sight.condition, sight.severity, rng)
    cast = mix(
        (128, 128, 128),
        (int(rng.integers(256)), int(rng.integers(256)), int(rng.integers(256))),
        0.5,
    )
    warmth = float(rng.uniform(0.0, 0.10))
    exposure = float(rng.uniform(0.90, 1.06))

    def lit(colour: RGB) -> RGB:
        r, g, b = (min(255, round(c * exposure)) for c in mix(colour, cast, warmth))
        return light((r, g, b))

    # The pencil of the perch stays level: a tilted bird does not tilt the ground.
    scenery = Pen(image, centre, scale, flip=flip, angle=angle if shape.setting == "trunk" else 0.0)
    perch(scenery, rng, shape.setting, shape.feet, front=False)
    shape.draw(Pen(image, centre, scale, flip=flip, angle=angle, light=lit), species)
    perch(scenery, rng, shape.setting, shape.feet, front=True)
    if sight.condition == "foliage":
        foliage(image, rng, centre, scale, sight.severity)
    image = image.resize((size, size), Image.Resampling.BOX)
    return weather(image, sight.condition, sight.severity, tone, rng)
