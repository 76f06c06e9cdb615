"""The silhouettes of owl, penguin, woodpecker and hawk."""

from __future__ import annotations

from fieldguide.canvas import Pen, Point
from fieldguide.parts import EYE, GLINT, draw_eye, shade
from fieldguide.species import Species

__all__ = ["hawk", "owl", "penguin", "woodpecker"]


def owl(pen: Pen, bird: Species) -> None:
    """Draws an owl, upright, full face."""
    paint = bird.paint
    marks = bird.marks
    for x in (-0.16, 0.14):
        pen.ellipse((x, 0.80), 0.12, 0.09, paint["legs"])
    pen.polygon([(-0.22, 0.60), (0.22, 0.60), (0.17, 1.0), (-0.17, 1.0)], paint["tail"])
    body: list[Point] = [
        (0.0, -0.34),
        (0.40, -0.18),
        (0.48, 0.28),
        (0.28, 0.78),
        (0.0, 0.86),
        (-0.28, 0.78),
        (-0.48, 0.28),
        (-0.40, -0.18),
    ]
    pen.blob(body, paint["breast"])
    with pen.inside(lambda p: p.blob(body, paint["breast"])):
        pen.ellipse((0.0, 0.52), 0.36, 0.42, paint["belly"])
        if "bars" in marks:
            for i in range(6):
                y = 0.02 + 0.13 * i
                pen.stroke(
                    [(-0.34, y - 0.02), (0.0, y + 0.05), (0.34, y - 0.02)], 0.040, marks["bars"]
                )
        if "streaks" in marks:
            for i in range(5):
                pen.stroke(
                    [(-0.28 + 0.14 * i, 0.18), (-0.24 + 0.12 * i, 0.76)], 0.05, marks["streaks"]
                )
        if "spots" in marks:
            for row in range(5):
                for column in range(5):
                    x = -0.34 + 0.17 * column + 0.08 * (row % 2)
                    pen.ellipse((x, 0.04 + 0.16 * row), 0.035, 0.022, marks["spots"])
    for side in (-1, 1):
        wing: list[Point] = [
            (side * 0.34, -0.16),
            (side * 0.56, 0.20),
            (side * 0.46, 0.66),
            (side * 0.28, 0.82),
            (side * 0.30, 0.30),
        ]
        pen.blob(wing, paint["wing"])
        if "spots" in marks:
            for i in range(4):
                pen.ellipse(
                    (side * (0.42 - 0.02 * i), 0.10 + 0.15 * i), 0.035, 0.022, marks["spots"]
                )
    pen.ellipse((0.0, -0.44), 0.47, 0.40, paint["crown"])
    if "ear tufts" in marks:
        for side in (-1, 1):
            tuft = [(side * 0.16, -0.72), (side * 0.46, -1.04), (side * 0.44, -0.56)]
            pen.polygon(tuft, marks["ear tufts"])
    if "throat patch" in marks:
        pen.ellipse((0.0, -0.10), 0.26, 0.10, marks["throat patch"])
    for side in (-1, 1):
        pen.ellipse((side * 0.19, -0.42), 0.215, 0.24, paint["face"])
        if "rings" in marks:
            pen.ellipse((side * 0.19, -0.42), 0.17, 0.19, marks["rings"])
            pen.ellipse((side * 0.19, -0.42), 0.13, 0.15, paint["face"])
    pen.polygon([(-0.07, -0.40), (0.07, -0.40), (0.0, -0.20)], paint["beak"])
    for side in (-1, 1):
        at = (side * 0.19, -0.46)
        pen.ellipse(at, 0.105, 0.105, marks.get("yellow eye", (30, 22, 18)))
        pen.ellipse(at, 0.060, 0.060, EYE)
        pen.ellipse((at[0] + 0.025, at[1] - 0.03), 0.02, 0.02, GLINT)


def penguin(pen: Pen, bird: Species) -> None:
    """Draws a penguin, upright, flippers down."""
    paint = bird.paint
    marks = bird.marks
    for x in (-0.10, 0.18):
        pen.ellipse((x + 0.06, 0.94), 0.17, 0.06, paint["legs"])
    pen.polygon([(-0.26, 0.62), (-0.50, 0.96), (-0.12, 0.90)], paint["tail"])
    body: list[Point] = [
        (0.10, -0.62),
        (0.28, -0.36),
        (0.38, 0.10),
        (0.34, 0.62),
        (0.08, 0.94),
        (-0.24, 0.84),
        (-0.36, 0.30),
        (-0.26, -0.24),
        (-0.12, -0.58),
    ]
    pen.polygon([(0.24, -0.80), (0.58, -0.70), (0.56, -0.64), (0.24, -0.66)], paint["beak"])

    def outline(p: Pen) -> None:
        p.blob(body, paint["back"])
        p.ellipse((0.08, -0.70), 0.24, 0.22, paint["crown"])

    outline(pen)
    with pen.inside(outline):
        pen.ellipse((0.20, 0.28), 0.30, 0.66, paint["belly"], turn=3)
        pen.ellipse((0.24, -0.10), 0.22, 0.32, paint["breast"])
        pen.ellipse((0.06, -0.66), 0.34, 0.30, paint["crown"])
        if "head patch" in marks:
            pen.stroke([(0.20, -0.86), (0.04, -0.90), (-0.10, -0.82)], 0.12, marks["head patch"])
        if "face loop" in marks:
            pen.stroke(
                [(0.24, -0.86), (-0.04, -0.80), (-0.06, -0.58), (0.14, -0.46)],
                0.10,
                marks["face loop"],
            )
        if "breast band" in marks:
            pen.stroke([(-0.10, -0.12), (0.20, -0.20), (0.46, -0.04)], 0.09, marks["breast band"])
            pen.stroke([(0.44, -0.08), (0.46, 0.56)], 0.09, marks["breast band"])
        if "double band" in marks:
            pen.stroke([(-0.10, -0.30), (0.16, -0.36), (0.40, -0.26)], 0.13, marks["double band"])
            pen.stroke([(-0.10, 0.0), (0.18, -0.06), (0.46, 0.06)], 0.07, marks["double band"])
            pen.stroke([(0.42, 0.04), (0.44, 0.60)], 0.08, marks["double band"])
    flipper: list[Point] = [
        (-0.14, -0.30),
        (0.02, -0.10),
        (-0.08, 0.32),
        (-0.30, 0.60),
        (-0.36, 0.50),
        (-0.26, 0.0),
    ]
    pen.blob(flipper, shade(paint["wing"]))
    if "eye skin" in marks:
        pen.ellipse((0.22, -0.78), 0.06, 0.05, marks["eye skin"])
    draw_eye(pen, (0.17, -0.74), 0.034)


def woodpecker(pen: Pen, bird: Species) -> None:
    """Draws a woodpecker that leans on its tail."""
    paint = bird.paint
    marks = bird.marks
    pen.polygon([(-0.30, 0.44), (-0.10, 0.44), (0.34, 0.98), (0.24, 1.0)], paint["tail"])
    body: list[Point] = [
        (-0.06, -0.42),
        (0.22, -0.26),
        (0.27, 0.14),
        (0.16, 0.50),
        (-0.12, 0.64),
        (-0.34, 0.28),
        (-0.36, -0.06),
        (-0.24, -0.36),
    ]
    pen.polygon([(0.18, -0.76), (0.62, -0.62), (0.18, -0.58)], paint["beak"])

    def outline(p: Pen) -> None:
        p.blob(body, paint["back"])
        p.polygon([(-0.26, -0.60), (0.20, -0.56), (0.20, -0.20), (-0.28, -0.20)], paint["back"])

    outline(pen)
    with pen.inside(outline):
        pen.ellipse((0.20, 0.02), 0.22, 0.46, paint["breast"], turn=3)
        pen.ellipse((0.12, 0.38), 0.22, 0.26, paint["belly"])
        pen.ellipse((0.22, -0.34), 0.18, 0.16, paint["throat"])
        if "vent" in marks:
            pen.ellipse((0.02, 0.54), 0.20, 0.16, marks["vent"])
    pen.ellipse((0.0, -0.66), 0.27, 0.22, paint["face"], turn=8)
    with pen.inside(lambda p: p.ellipse((0.0, -0.66), 0.27, 0.22, paint["face"], turn=8)):
        pen.ellipse((-0.04, -0.84), 0.32, 0.14, paint["crown"], turn=2)
        if "cap" in marks:
            pen.ellipse((-0.04, -0.82), 0.34, 0.17, marks["cap"])
        if "moustache" in marks:
            pen.stroke([(0.22, -0.58), (0.0, -0.50), (-0.22, -0.46)], 0.07, marks["moustache"])
    if "cap" in marks:
        pen.polygon([(0.16, -0.83), (-0.26, -0.92), (-0.28, -0.66)], marks["cap"])
    if "nape" in marks:
        pen.ellipse((-0.22, -0.60), 0.08, 0.13, marks["nape"])
    if "hood" in marks:
        pen.blob(
            [
                (-0.27, -0.66),
                (0.0, -0.44),
                (0.24, -0.58),
                (0.26, -0.28),
                (-0.02, -0.22),
                (-0.30, -0.32),
            ],
            marks["hood"],
        )
    wing: list[Point] = [
        (-0.08, -0.28),
        (0.10, 0.0),
        (0.04, 0.36),
        (-0.12, 0.66),
        (-0.26, 0.52),
        (-0.38, 0.08),
        (-0.28, -0.24),
    ]
    pen.blob(wing, paint["wing"])
    with pen.inside(lambda p: p.blob(wing, paint["wing"])):
        if "rump" in marks:
            pen.ellipse((-0.20, 0.56), 0.18, 0.14, marks["rump"])
        if "shoulder" in marks:
            pen.ellipse((-0.04, -0.06), 0.10, 0.19, marks["shoulder"], turn=-8)
        if "bars" in marks:
            for i in range(3):
                y = 0.22 + 0.12 * i
                pen.stroke([(-0.40, y - 0.06), (0.10, y)], 0.04, marks["bars"])
        if "wing patch" in marks:
            pen.ellipse((-0.12, 0.44), 0.22, 0.24, marks["wing patch"])
    for y in (0.30, 0.44):
        pen.stroke([(0.14, y), (0.34, y - 0.06)], 0.045, paint["legs"])
    draw_eye(pen, (0.08, -0.70), 0.034, marks.get("yellow eye"))


def hawk(pen: Pen, bird: Species) -> None:
    """Draws a hawk from below, wings spread."""
    paint = bird.paint
    marks = bird.marks
    if "forked tail" in marks:
        tail: list[Point] = [(-0.11, 0.22), (0.11, 0.22), (0.27, 0.86), (0.0, 0.62), (-0.27, 0.86)]
    else:
        tail = [
            (-0.11, 0.22),
            (0.11, 0.22),
            (0.27, 0.70),
            (0.12, 0.77),
            (-0.12, 0.77),
            (-0.27, 0.70),
        ]
    pen.polygon(tail, paint["tail"])
    for side in (-1, 1):
        half = (
            *(
                (0.06, -0.26),
                (0.34, -0.36),
                (0.62, -0.34),
                (0.86, -0.24),
                (1.05, -0.02),
                (0.95, 0.0),
                (0.99, 0.10),
            ),
            *(
                (0.86, 0.06),
                (0.88, 0.17),
                (0.75, 0.10),
                (0.74, 0.20),
                (0.56, 0.13),
                (0.30, 0.20),
                (0.06, 0.24),
            ),
        )
        wing: list[Point] = [(side * x, y) for x, y in half]
        pen.polygon(wing, paint["wing"])

        def shape(p: Pen, points: list[Point] = wing) -> None:
            p.polygon(points, paint["wing"])

        with pen.inside(shape):
            pen.polygon(
                [(side * 0.74, -0.4), (side * 1.2, -0.4), (side * 1.2, 0.4), (side * 0.68, 0.4)],
                paint["wingtip"],
            )
            pen.stroke(
                [(side * 0.05, -0.22), (side * 0.34, -0.31), (side * 0.62, -0.29)],
                0.13,
                paint["back"],
            )
            if "wing rim" in marks:
                pen.stroke(
                    [(side * 0.10, 0.20), (side * 0.34, 0.16), (side * 0.74, 0.15)],
                    0.07,
                    marks["wing rim"],
                )
            if "trailing edge" in marks:
                pen.stroke(
                    [(side * 0.06, 0.22), (side * 0.34, 0.17), (side * 0.70, 0.14)],
                    0.07,
                    marks["trailing edge"],
                )
            if "hand patch" in marks:
                pen.ellipse((side * 0.70, 0.0), 0.13, 0.12, marks["hand patch"])
    body: list[Point] = [
        (0.0, -0.48),
        (0.14, -0.30),
        (0.16, 0.0),
        (0.10, 0.34),
        (0.0, 0.40),
        (-0.10, 0.34),
        (-0.16, 0.0),
        (-0.14, -0.30),
    ]
    pen.polygon([(-0.05, -0.60), (0.05, -0.60), (0.0, -0.74)], paint["beak"])
    pen.blob(body, paint["breast"])
    with pen.inside(lambda p: p.blob(body, paint["breast"])):
        pen.ellipse((0.0, 0.20), 0.2, 0.26, paint["belly"])
        if "belly band" in marks:
            pen.stroke([(-0.2, 0.04), (0.2, 0.04)], 0.14, marks["belly band"])
        if "streaks" in marks:
            for x in (-0.08, 0.0, 0.08):
                pen.stroke([(x, -0.24), (x, 0.24)], 0.03, marks["streaks"])
    pen.ellipse((0.0, -0.50), 0.13, 0.14, paint["crown"])
    for side in (-1, 1):
        pen.ellipse((side * 0.06, -0.54), 0.022, 0.022, EYE)
