"""The silhouettes of the songbirds: finch, tit and crow, one drawing with three builds."""

from __future__ import annotations

from dataclasses import dataclass

from fieldguide.canvas import Pen, Point
from fieldguide.parts import draw_eye, shade
from fieldguide.species import Species

__all__ = ["crow", "finch", "tit"]


@dataclass(frozen=True, slots=True)
class _Build:
    """The build of a songbird, in units of its square."""

    body: tuple[float, float]
    head: tuple[float, float, float]
    beak: tuple[float, float]
    tail: tuple[float, float]
    legs: float
    notch: float = 0.0


_BUILDS = {
    "finch": _Build(
        body=(0.50, 0.33),
        head=(0.38, -0.40, 0.25),
        beak=(0.24, 0.125),
        tail=(0.62, 0.13),
        legs=0.26,
        notch=0.14,
    ),
    "tit": _Build(
        body=(0.41, 0.36), head=(0.30, -0.30, 0.29), beak=(0.13, 0.05), tail=(0.42, 0.09), legs=0.24
    ),
    "crow": _Build(
        body=(0.54, 0.30),
        head=(0.44, -0.44, 0.23),
        beak=(0.36, 0.115),
        tail=(0.62, 0.15),
        legs=0.38,
    ),
}


def _songbird(pen: Pen, bird: Species, build: _Build) -> None:
    paint = bird.paint
    marks = bird.marks
    rx, ry = build.body
    hx, hy, hr = build.head
    tilt = -32.0
    tail_length, tail_width = build.tail
    if "long tail" in marks:
        tail_length *= 1.15

    # legs and tail lie behind the body
    for x in (-0.02, 0.12):
        pen.stroke([(x, 0.25), (x + 0.03, 0.34 + build.legs)], 0.035, paint["legs"])
        pen.stroke(
            [(x - 0.04, 0.34 + build.legs), (x + 0.13, 0.35 + build.legs)], 0.03, paint["legs"]
        )
    ax = -rx * 0.62
    ay = 0.24
    ex = ax - tail_length * 0.80
    ey = ay + tail_length * 0.58
    nx = 0.58
    ny = 0.80
    notch = build.notch
    pen.polygon(
        [
            (ax - nx * tail_width, ay - ny * tail_width),
            (ex - nx * tail_width, ey - ny * tail_width),
            (ex + notch * 0.8, ey - notch * 0.58),
            (ex + nx * tail_width, ey + ny * tail_width),
            (ax + nx * tail_width * 1.3, ay + ny * tail_width * 1.3),
        ],
        paint["tail"],
    )
    if "tail bars" in marks:
        for t in (0.35, 0.55, 0.75, 0.92):
            x = ax + (ex - ax) * t
            y = ay + (ey - ay) * t
            pen.stroke(
                [(x - nx * 0.13, y - ny * 0.13), (x + nx * 0.13, y + ny * 0.13)],
                0.035,
                marks["tail bars"],
            )

    neck = [
        (hx - hr * 0.95, hy + 0.02),
        (hx + hr * 0.9, hy + hr * 0.35),
        (rx * 0.80, 0.10),
        (-0.22, -0.18),
    ]

    def outline(p: Pen) -> None:
        p.ellipse((0.0, 0.08), rx, ry, paint["back"], turn=tilt)
        p.polygon(neck, paint["back"])
        p.ellipse((hx, hy), hr, hr * 0.95, paint["back"])

    # the beak first, so that the head overlaps its base
    length, depth = build.beak
    bx = hx + hr * 0.80
    by = hy + 0.02
    tip = (bx + hr * 0.2 + length, by + 0.05)
    pen.polygon(
        [(bx, by - depth), (bx + length * 0.6, by - depth * 0.55), tip, (bx, by + depth)],
        paint["beak"],
    )
    pen.stroke([(bx + 0.05, by + 0.01), (tip[0] - 0.02, tip[1])], 0.015, shade(paint["beak"]))

    outline(pen)
    with pen.inside(outline):
        pen.ellipse((hx + 0.02, hy + hr * 1.35), hr * 1.5, hr * 1.25, paint["throat"])
        pen.ellipse((0.28, 0.10), rx * 0.72, ry * 0.95, paint["breast"], turn=-60)
        pen.ellipse((0.05, 0.36), rx * 0.75, ry * 0.55, paint["belly"], turn=-24)
        if "rump" in marks:
            pen.ellipse((-0.36, 0.20), 0.13, 0.11, marks["rump"])
        pen.ellipse((hx, hy), hr * 1.05, hr, paint["crown"])
        pen.ellipse((hx + hr * 0.38, hy + hr * 0.30), hr * 0.85, hr * 0.66, paint["face"])
        if "cap" in marks:
            pen.ellipse((hx - 0.02, hy - hr * 0.72), hr * 1.25, hr * 0.68, marks["cap"], turn=-4)
        if "forehead" in marks:
            pen.ellipse(
                (hx + hr * 0.62, hy - hr * 0.72), hr * 0.5, hr * 0.38, marks["forehead"], turn=40
            )
        if "mask" in marks:
            pen.ellipse((hx + hr * 0.80, hy + hr * 0.05), hr * 0.46, hr * 0.66, marks["mask"])
            pen.ellipse(
                (hx - hr * 0.35, hy - hr * 0.7), hr * 0.6, hr * 0.5, paint["crown"], turn=-30
            )
        if "bib" in marks:
            pen.ellipse(
                (hx + hr * 0.55, hy + hr * 0.98), hr * 0.72, hr * 0.44, marks["bib"], turn=-18
            )
        if "breast stripe" in marks:
            pen.stroke(
                [(hx + 0.05, hy + hr), (0.40, 0.05), (0.30, 0.30), (0.10, 0.46)],
                0.10,
                marks["breast stripe"],
            )
        if "eye stripe" in marks:
            pen.stroke(
                [(hx + hr, hy + 0.01), (hx, hy - 0.02), (hx - hr, hy + 0.05)],
                0.06,
                marks["eye stripe"],
            )
            pen.stroke(
                [(hx - hr * 0.7, hy + 0.1), (hx, hy + hr * 0.85), (hx + hr, hy + hr * 0.7)],
                0.05,
                marks["eye stripe"],
            )
        if "collar" in marks:
            pen.stroke(
                [(hx - hr * 0.9, hy), (hx - 0.08, hy + hr * 0.95), (hx + hr, hy + hr * 1.05)],
                0.06,
                marks["collar"],
            )
        if "moustache" in marks:
            pen.stroke(
                [(hx + hr * 0.75, hy + hr * 0.25), (hx + hr * 0.45, hy + hr * 0.85)],
                0.10,
                marks["moustache"],
            )
    if "crest" in marks:
        crest = [
            (hx + hr * 0.6, hy - hr * 0.75),
            (hx - hr * 0.35, hy - hr * 1.85),
            (hx - hr * 0.9, hy - hr * 0.25),
        ]
        pen.polygon(crest, marks["crest"])

    # the folded wing
    wing: list[Point] = [
        (0.20, -0.14),
        (0.22, 0.10),
        (-0.05, 0.30),
        (-0.50, 0.44),
        (-0.62, 0.40),
        (-0.30, 0.02),
    ]
    if rx < 0.45:
        wing = [(x * 0.86, y * 0.95) for x, y in wing]
    pen.blob(wing, paint["wing"])
    with pen.inside(lambda p: p.blob(wing, paint["wing"])):
        pen.stroke([(-0.25, 0.36), (-0.75, 0.46)], 0.10, paint["wingtip"])
        if "shoulder" in marks:
            pen.ellipse((0.10, -0.02), 0.19, 0.15, marks["shoulder"])
        if "wing bar" in marks:
            pen.stroke([(-0.10, -0.10), (0.02, 0.12), (-0.02, 0.36)], 0.11, marks["wing bar"])
        if "double wing bar" in marks:
            pen.stroke([(0.06, -0.16), (0.16, 0.02), (0.12, 0.26)], 0.09, marks["double wing bar"])
            pen.stroke(
                [(-0.20, -0.08), (-0.08, 0.14), (-0.14, 0.40)], 0.07, marks["double wing bar"]
            )
    draw_eye(pen, (hx + hr * 0.38, hy - hr * 0.10), hr * 0.17)


def finch(pen: Pen, bird: Species) -> None:
    """Draws a finch: a stout cone of a beak and a notched tail."""
    _songbird(pen, bird, _BUILDS["finch"])


def tit(pen: Pen, bird: Species) -> None:
    """Draws a tit: small, round, short of beak and tail."""
    _songbird(pen, bird, _BUILDS["tit"])


def crow(pen: Pen, bird: Species) -> None:
    """Draws a crow: big, with a heavy beak and long legs."""
    _songbird(pen, bird, _BUILDS["crow"])
