"""What the silhouettes share: eyes and shades."""

from __future__ import annotations

from fieldguide.canvas import RGB, Pen, Point, mix

__all__ = ["EYE", "GLINT", "draw_eye", "shade"]

EYE: RGB = (12, 12, 14)
GLINT: RGB = (245, 245, 245)


def draw_eye(pen: Pen, at: Point, size: float, ring: RGB | None = None) -> None:
    """Draws an eye of radius `size`, in a ring of another colour if one is given."""
    if ring is not None:
        pen.ellipse(at, size * 1.5, size * 1.5, ring)
    pen.ellipse(at, size, size, EYE)
    pen.ellipse((at[0] + size * 0.3, at[1] - size * 0.3), size * 0.3, size * 0.3, GLINT)


def shade(colour: RGB) -> RGB:
    """Returns the colour as it looks on the far side."""
    return mix(colour, (20, 22, 30), 0.28)
