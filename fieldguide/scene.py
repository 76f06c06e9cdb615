"""What surrounds a bird on its picture, and what bad conditions do to the sight of it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from fieldguide.canvas import RGB, Pen, mix

__all__ = ["CONDITIONS", "background", "foliage", "light_for", "perch", "weather"]

FloatImage = NDArray[np.float32]

#: The ways in which a picture is spoilt: low light, mist, a shaken lens, and leaves in front of the
#: bird.
CONDITIONS = ("dusk", "fog", "blur", "foliage")

#: Top and bottom colours of the backgrounds.
_BACKGROUNDS: dict[str, tuple[tuple[RGB, RGB], ...]] = {
    "sky": (
        ((118, 170, 222), (214, 230, 242)),
        ((150, 190, 228), (236, 232, 222)),
        ((176, 188, 200), (222, 226, 230)),
    ),
    "leaves": (
        ((96, 132, 78), (168, 190, 128)),
        ((62, 98, 66), (128, 150, 92)),
        ((150, 158, 96), (206, 196, 140)),
    ),
    "water": (
        ((132, 168, 190), (74, 116, 146)),
        ((186, 200, 206), (106, 138, 150)),
        ((148, 172, 150), (84, 118, 108)),
    ),
    "snow": (
        ((196, 212, 228), (238, 242, 247)),
        ((178, 196, 214), (226, 232, 240)),
        ((206, 208, 216), (244, 243, 242)),
    ),
    "dusk": (
        ((92, 84, 120), (226, 156, 118)),
        ((120, 110, 128), (206, 174, 150)),
        ((108, 120, 142), (196, 184, 172)),
    ),
}

_USUAL = {
    "branch": ("sky", "leaves", "snow", "dusk"),
    "ground": ("sky", "leaves", "snow", "dusk"),
    "water": ("water",),
    "reeds": ("water", "leaves", "sky", "dusk"),
    "trunk": ("leaves", "sky", "snow", "dusk"),
    "air": ("sky", "dusk", "snow"),
    "ice": ("snow", "sky", "water"),
}


def background(rng: Generator, setting: str, size: int) -> Image.Image:
    """Paints a background of `size` pixels square that suits the setting: a gradient with soft spots."""
    kind = str(rng.choice(_USUAL[setting]))
    top, bottom = _BACKGROUNDS[kind][int(rng.integers(3))]
    shift = rng.normal(0, 9, 3)
    ramp = np.linspace(0, 1, size, dtype=np.float32)[:, None, None]
    page = (np.array(top, np.float32) + shift) * (1 - ramp) + (
        np.array(bottom, np.float32) + shift
    ) * ramp
    image = Image.fromarray(
        np.clip(np.broadcast_to(page, (size, size, 3)), 0, 255).astype(np.uint8)
    )
    draw = ImageDraw.Draw(image)
    mean = mix(top, bottom, 0.5)
    for _ in range(int(rng.integers(3, 9))):
        x, y = rng.uniform(0, size, 2)
        r = rng.uniform(0.04, 0.22) * size
        shade = mix(
            mean,
            (255, 255, 255) if rng.random() < 0.5 else (30, 40, 36),
            float(rng.uniform(0.08, 0.32)),
        )
        draw.ellipse((x - r, y - r * 0.7, x + r, y + r * 0.7), fill=shade)
    return image.filter(ImageFilter.GaussianBlur(size * 0.03))


def perch(pen: Pen, rng: Generator, setting: str, feet: float, *, front: bool) -> None:
    """Draws what the bird sits on, stands in or swims on.

    Args:
        pen: The pencil.
        rng: Where the variation comes from; the calls for `front=False` and `front=True` each draw
            their own.
        setting: As in `silhouettes.Shape`.
        feet: The y of the bird's feet or water line.
        front: Whether to draw what lies before the bird (waves, blades of reed) rather than behind
            it.
    """
    if setting == "branch" and not front:
        bark = mix((96, 72, 52), (60, 52, 46), float(rng.random()))
        slope = rng.uniform(-0.12, 0.12)
        pen.stroke(
            [
                (-2.6, feet + 0.06 - 2.6 * slope),
                (0.0, feet + 0.06),
                (2.6, feet + 0.06 + 2.6 * slope),
            ],
            0.12,
            bark,
        )
        for _ in range(int(rng.integers(0, 4))):
            x = float(rng.uniform(-1.8, 1.8))
            pen.stroke(
                [(x, feet + 0.06), (x + rng.uniform(-0.4, 0.4), feet + rng.uniform(0.35, 0.7))],
                0.05,
                bark,
            )
    elif setting == "ground" and not front:
        soil = mix((122, 128, 84), (150, 128, 96), float(rng.random()))
        pen.polygon([(-4, feet), (4, feet), (4, 4), (-4, 4)], soil)
    elif setting == "ice" and not front:
        floor = mix((232, 240, 247), (178, 172, 160), float(rng.random()))
        pen.polygon([(-4, feet - 0.06), (4, feet - 0.06), (4, 4), (-4, 4)], floor)
    elif setting == "trunk" and not front:
        bark = mix((110, 86, 64), (78, 72, 66), float(rng.random()))
        pen.polygon([(0.28, -4), (0.86, -4), (0.90, 4), (0.30, 4)], bark)
        for _ in range(6):
            x = float(rng.uniform(0.34, 0.82))
            y = float(rng.uniform(-1.4, 1.4))
            pen.stroke(
                [(x, y), (x + 0.02, y + rng.uniform(0.1, 0.4))], 0.03, mix(bark, (30, 26, 22), 0.5)
            )
    elif setting in {"water", "reeds"}:
        ripple = mix((150, 180, 196), (92, 128, 140), float(rng.random()))
        if front and setting == "water":
            pen.polygon([(-4, feet), (4, feet), (4, feet + 0.22), (-4, feet + 0.22)], ripple)
            for _ in range(4):
                x = float(rng.uniform(-1.3, 0.9))
                y = feet + float(rng.uniform(0.03, 0.5))
                pen.stroke([(x, y), (x + 0.4, y)], 0.03, mix(ripple, (245, 250, 252), 0.55))
        elif front:
            pen.polygon([(-4, feet - 0.02), (4, feet - 0.02), (4, 4), (-4, 4)], ripple)
        else:
            green = mix((120, 140, 84), (166, 150, 96), float(rng.random()))
            for _ in range(int(rng.integers(0, 7))):
                x = float(rng.uniform(-1.7, 1.7))
                pen.stroke(
                    [(x, feet), (x + rng.uniform(-0.25, 0.25), feet - rng.uniform(0.5, 1.5))],
                    0.035,
                    green,
                )


def light_for(condition: str, severity: float, rng: Generator) -> tuple[Callable[[RGB], RGB], RGB]:
    """Returns the change that the light makes to a bird's colours, and the tone that they all fade to.

    Args:
        condition: One of `CONDITIONS`, or "clear".
        severity: How bad it is, 0..1.
        rng: Where the variation comes from.
    """
    grey = float(rng.uniform(-8, 8))
    if condition == "dusk":
        tone: RGB = (int(34 + grey), int(34 + grey), int(42 + grey))
        share = 1 - (1 - severity) ** 2.6
    elif condition == "fog":
        level = 96 + 50 * severity + grey
        tone = (int(level), int(level + 3), int(level + 7))
        share = 1 - (1 - severity) ** 2.5
    elif condition == "blur":
        tone = (int(84 + grey), int(80 + grey), int(76 + grey))
        share = 0.88 * severity**0.6
    elif condition == "foliage":
        tone = (int(92 + grey), int(94 + grey), int(88 + grey))
        share = 0.80 * severity**0.7
    else:
        tone = (128, 128, 128)
        share = 0.0
    return lambda colour: mix(colour, tone, share), tone


def foliage(
    image: Image.Image, rng: Generator, centre: tuple[float, float], scale: float, severity: float
) -> None:
    """Hangs leaves in front of the bird, the more the worse."""
    draw = ImageDraw.Draw(image)
    count = round(5 + 26 * severity**1.5)
    for _ in range(count):
        angle = rng.uniform(0, 2 * math.pi)
        reach = scale * math.sqrt(rng.uniform(0, 1.05))
        x = centre[0] + reach * math.cos(angle)
        y = centre[1] + reach * math.sin(angle)
        length = scale * rng.uniform(0.24, 0.42)
        turn = rng.uniform(0, math.pi)
        c = math.cos(turn)
        s = math.sin(turn)
        t = np.linspace(-1, 1, 9)
        width = 0.36 * (1 - t**2)
        xs = np.concatenate([t, t[::-1]]) * length
        ys = np.concatenate([width, -width[::-1]]) * length
        points = []
        for a, b in zip(xs, ys, strict=True):
            points.append((float(x + a * c - b * s), float(y + a * s + b * c)))
        green = mix((58, 96, 48), (136, 150, 70), float(rng.random()))
        draw.polygon(points, fill=green)
        draw.line(
            [points[0], points[8]],
            fill=mix(green, (230, 235, 200), 0.3),
            width=max(1, round(scale * 0.02)),
        )


def weather(
    image: Image.Image, condition: str, severity: float, tone: RGB, rng: Generator
) -> Image.Image:
    """Spoils the finished picture: veils it, blurs it, takes its colour and adds the noise of a sensor.

    Args:
        image: The picture.
        condition: One of `CONDITIONS`, or "clear".
        severity: How bad it is, 0..1.
        tone: The tone that `light_for` returned.
        rng: Where the variation comes from.

    Returns:
        The spoilt picture, of the same size.
    """
    size = image.width
    if condition == "blur":
        image = image.filter(ImageFilter.GaussianBlur(size * 0.075 * severity**1.2))
    elif condition in {"fog", "dusk"}:
        image = image.filter(ImageFilter.GaussianBlur(size * 0.028 * max(0.0, severity - 0.3)))
    pixels: FloatImage = np.asarray(image, np.float32)
    if condition == "dusk":
        # Light fails on everything; at the end the bird hardly stands out from the shadow behind
        # it.
        veil = 0.15 + 0.80 * severity**2.2
        pixels = pixels * (1 - veil) + (np.array(tone, np.float32) + 22) * veil
    elif condition == "fog":
        veil = 0.30 + 0.58 * severity**1.3
        pixels = pixels * (1 - veil) + (np.array(tone, np.float32) + 62) * veil
    if condition != "clear":
        luma = pixels @ np.array([0.299, 0.587, 0.114], np.float32)
        loss = min(1.0, 0.35 + 0.75 * severity) if condition != "foliage" else 0.7 * severity
        pixels = pixels * (1 - loss) + luma[..., None] * loss
    grain = 3.0 if condition == "clear" else 4.0 + 9.0 * severity
    # Grain of the size of the 64-pixel picture, so that it does not vanish when the picture is made
    # smaller.
    coarse = rng.normal(0, grain, (64, 64)).astype(np.float32)
    noise = np.asarray(Image.fromarray(coarse).resize((size, size), Image.Resampling.NEAREST))
    return Image.fromarray(np.clip(pixels + noise[..., None], 0, 255).astype(np.uint8))
