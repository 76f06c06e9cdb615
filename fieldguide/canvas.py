"""The pencil that the birds are drawn with: smooth shapes in the bird's own coordinates.

A bird is drawn in a square from -1 to 1 (x to the right, where the bird looks; y down). The pencil
turns, mirrors, scales and moves that square onto the picture, and passes every colour through the
light of the scene.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from PIL import Image, ImageDraw

__all__ = ["RGB", "Pen", "Point", "mix"]

RGB = tuple[int, int, int]
Point = tuple[float, float]


def mix(first: RGB, second: RGB, share: float) -> RGB:
    """Returns `first` with a `share` (0..1) of `second` in it."""
    r, g, b = (round(p + (q - p) * share) for p, q in zip(first, second, strict=True))
    return r, g, b


def _smooth(points: Sequence[Point], closed: bool, steps: int = 7) -> list[Point]:
    """Runs a Catmull-Rom spline through `points`."""
    p = np.asarray(points, dtype=float)
    p = np.vstack([p[-1], p, p[:2]]) if closed else np.vstack([p[0], p, p[-1]])
    t = np.linspace(0.0, 1.0, steps, endpoint=False)[:, None]
    pieces = []
    for a, b, c, d in zip(p[:-3], p[1:-2], p[2:-1], p[3:], strict=True):
        pieces.append(
            0.5
            * (
                2 * b
                + (c - a) * t
                + (2 * a - 5 * b + 4 * c - d) * t**2
                + (3 * b - a - 3 * c + d) * t**3
            )
        )
    curve = np.vstack(pieces)
    if not closed:
        curve = np.vstack([curve, p[-2]])
    return [(float(x), float(y)) for x, y in curve]


class Pen:
    """Draws on a picture in the bird's coordinates.

    Args:
        image: The picture, RGB.
        centre: Where the bird's origin lies on the picture, in pixels.
        scale: Pixels per unit of the bird's square.
        flip: Whether the bird looks to the left.
        angle: How far the bird is tilted, in radians, clockwise on the picture.
        light: What the light of the scene makes of a colour of the bird.
    """

    def __init__(
        self,
        image: Image.Image,
        centre: Point,
        scale: float,
        *,
        flip: bool = False,
        angle: float = 0.0,
        light: Callable[[RGB], RGB] = lambda colour: colour,
    ) -> None:
        self.image = image
        self.scale = scale
        self.light = light
        self._centre = centre
        self._sign = -1.0 if flip else 1.0
        self._cos, self._sin = math.cos(angle), math.sin(angle)
        self._draw = ImageDraw.Draw(image)
        self._mask: int | None = None

    def place(self, points: Sequence[Point]) -> list[Point]:
        """Returns where `points` of the bird lie on the picture, in pixels."""
        placed = []
        for x, y in points:
            u = x * self._cos - y * self._sin
            v = x * self._sin + y * self._cos
            placed.append(
                (self._centre[0] + self._sign * u * self.scale, self._centre[1] + v * self.scale)
            )
        return placed

    def _ink(self, colour: RGB) -> RGB | int:
        return self.light(colour) if self._mask is None else self._mask

    def polygon(self, points: Sequence[Point], colour: RGB) -> None:
        """Fills a polygon with straight edges."""
        self._draw.polygon(self.place(points), fill=self._ink(colour))

    def blob(self, points: Sequence[Point], colour: RGB) -> None:
        """Fills the smooth closed curve through `points`."""
        self.polygon(_smooth(points, closed=True), colour)

    def ellipse(
        self, centre: Point, rx: float, ry: float, colour: RGB, *, turn: float = 0.0
    ) -> None:
        """Fills an ellipse with half axes `rx` and `ry`, turned by `turn` degrees clockwise."""
        t = np.linspace(0.0, 2 * math.pi, 36, endpoint=False)
        c = math.cos(math.radians(turn))
        s = math.sin(math.radians(turn))
        x = rx * np.cos(t)
        y = ry * np.sin(t)
        xs = centre[0] + x * c - y * s
        ys = centre[1] + x * s + y * c
        self.polygon([(float(a), float(b)) for a, b in zip(xs, ys, strict=True)], colour)

    def stroke(
        self, points: Sequence[Point], width: float, colour: RGB, *, smooth: bool = True
    ) -> None:
        """Draws a line of `width` (in the bird's units) through `points`, with round ends."""
        line = self.place(_smooth(points, closed=False) if smooth and len(points) > 2 else points)
        ink = self._ink(colour)
        pixels = max(1, round(width * self.scale))
        self._draw.line(line, fill=ink, width=pixels, joint="curve")
        radius = pixels / 2
        if radius > 1:
            for x, y in (line[0], line[-1]):
                self._draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=ink)

    @contextmanager
    def inside(self, outline: Callable[[Pen], None]) -> Iterator[None]:
        """Within the block, only what lies inside the shapes that `outline` draws is painted."""
        mask = Image.new("L", self.image.size, 0)
        page = self.image
        draw = self._draw
        self._draw = ImageDraw.Draw(mask)
        self._mask = 255
        outline(self)
        self._mask = None
        self.image = page.copy()
        self._draw = ImageDraw.Draw(self.image)
        try:
            yield
        finally:
            page.paste(self.image, (0, 0), mask)
            self.image = page
            self._draw = draw
