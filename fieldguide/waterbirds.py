"""The silhouettes of the water birds: duck, heron and ibis."""

from __future__ import annotations

from fieldguide.canvas import Pen, Point
from fieldguide.parts import draw_eye
from fieldguide.species import Species

__all__ = ["duck", "heron", "ibis"]


def duck(pen: Pen, bird: Species) -> None:
    """Draws a duck on the water."""
    paint = bird.paint
    marks = bird.marks
    hull: list[Point] = [
        (0.48, -0.02),
        (0.58, 0.22),
        (0.36, 0.44),
        (-0.30, 0.46),
        (-0.66, 0.22),
        (-0.90, -0.06),
        (-0.50, -0.06),
        (0.0, -0.12),
    ]
    head = (0.50, -0.42)
    hr = 0.22
    pen.polygon([(-0.62, -0.02), (-0.98, -0.16), (-0.80, 0.18)], paint["tail"])
    pen.blob(
        [(0.66, -0.47), (0.80, -0.41), (1.0, -0.33), (0.99, -0.26), (0.80, -0.29), (0.62, -0.31)],
        paint["beak"],
    )

    def outline(p: Pen) -> None:
        p.blob(hull, paint["back"])
        p.polygon([(0.32, -0.40), (0.70, -0.36), (0.60, 0.16), (0.14, 0.06)], paint["back"])

    outline(pen)
    with pen.inside(outline):
        pen.ellipse((-0.1, 0.36), 0.62, 0.26, paint["belly"], turn=-3)
        pen.ellipse((0.46, 0.12), 0.30, 0.34, paint["breast"])
        pen.polygon([(0.2, -0.60), (0.80, -0.60), (0.72, -0.12), (0.22, -0.16)], paint["crown"])
        if "neck ring" in marks:
            pen.stroke([(0.20, -0.14), (0.72, -0.10)], 0.07, marks["neck ring"])
        if "flank line" in marks:
            pen.stroke([(0.26, -0.10), (0.22, 0.30)], 0.06, marks["flank line"])
        pen.polygon([(-0.55, -0.12), (-1.0, -0.20), (-0.9, 0.2), (-0.6, 0.26)], paint["tail"])
    pen.ellipse(head, hr * 1.08, hr, paint["crown"])
    if "nape crest" in marks:
        pen.blob(
            [(0.50, -0.63), (0.26, -0.56), (0.14, -0.20), (0.26, -0.12), (0.36, -0.34)],
            marks["nape crest"],
        )
    if "tuft" in marks:
        pen.blob(
            [(0.40, -0.62), (0.26, -0.56), (0.12, -0.28), (0.20, -0.26), (0.34, -0.44)],
            marks["tuft"],
        )
    if "chin stripe" in marks:
        pen.stroke([(0.62, -0.25), (0.52, -0.22), (0.42, -0.36)], 0.06, marks["chin stripe"])
        pen.stroke([(0.36, -0.55), (0.22, -0.36)], 0.03, marks["chin stripe"])
    wing: list[Point] = [
        (0.24, -0.06),
        (0.16, 0.20),
        (-0.25, 0.28),
        (-0.62, 0.10),
        (-0.74, -0.04),
        (-0.30, -0.13),
    ]
    pen.blob(wing, paint["wing"])
    with pen.inside(lambda p: p.blob(wing, paint["wing"])):
        pen.polygon([(-0.45, -0.2), (-0.9, -0.2), (-0.9, 0.2), (-0.52, 0.12)], paint["wingtip"])
        if "speculum" in marks:
            pen.polygon(
                [(-0.22, 0.08), (-0.48, 0.04), (-0.46, 0.20), (-0.20, 0.24)], marks["speculum"]
            )
        if "shoulder" in marks:
            pen.stroke([(0.30, -0.06), (-0.60, -0.09)], 0.10, marks["shoulder"])
    draw_eye(pen, (0.56, -0.47), 0.032, marks.get("yellow eye"))


def heron(pen: Pen, bird: Species) -> None:
    """Draws a heron: an S of a neck, a dagger of a beak, long legs."""
    paint = bird.paint
    marks = bird.marks
    for x in (-0.12, 0.04):
        pen.stroke(
            [(x, 0.28), (x + 0.05, 0.62), (x - 0.02, 1.0)], 0.042, paint["legs"], smooth=False
        )
    body: list[Point] = [
        (0.22, -0.04),
        (0.24, 0.18),
        (0.0, 0.36),
        (-0.34, 0.42),
        (-0.66, 0.52),
        (-0.42, 0.14),
        (-0.10, -0.08),
    ]
    neck: list[Point] = [
        (0.16, 0.08),
        (0.34, -0.10),
        (0.20, -0.32),
        (0.06, -0.54),
        (0.12, -0.78),
        (0.30, -0.84),
    ]
    pen.polygon([(0.36, -0.91), (0.96, -0.80), (0.36, -0.78)], paint["beak"])
    pen.polygon([(-0.40, 0.26), (-0.70, 0.56), (-0.46, 0.50)], paint["tail"])
    pen.stroke(neck, 0.135, paint["breast"])
    if "neck stripe" in marks:
        pen.stroke([(x - 0.035, y) for x, y in neck], 0.045, marks["neck stripe"])
    pen.blob(body, paint["back"])
    with pen.inside(lambda p: p.blob(body, paint["back"])):
        pen.ellipse((0.20, 0.12), 0.16, 0.24, paint["breast"])
        pen.ellipse((0.02, 0.36), 0.26, 0.12, paint["belly"])
    wing: list[Point] = [
        (0.08, 0.0),
        (0.04, 0.22),
        (-0.26, 0.36),
        (-0.60, 0.48),
        (-0.40, 0.16),
        (-0.12, -0.02),
    ]
    pen.blob(wing, paint["wing"])
    with pen.inside(lambda p: p.blob(wing, paint["wing"])):
        pen.stroke([(-0.16, 0.34), (-0.64, 0.52)], 0.13, paint["wingtip"])
    pen.ellipse((0.30, -0.85), 0.145, 0.095, paint["face"], turn=6)
    pen.ellipse((0.27, -0.90), 0.12, 0.055, paint["crown"], turn=6)
    if "eye stripe" in marks:
        pen.stroke([(0.36, -0.90), (0.26, -0.90), (0.10, -0.86)], 0.055, marks["eye stripe"])
    if "plume" in marks:
        pen.stroke([(0.20, -0.90), (0.04, -0.86), (-0.12, -0.74)], 0.04, marks["plume"])
    draw_eye(pen, (0.355, -0.865), 0.024)


def ibis(pen: Pen, bird: Species) -> None:
    """Draws an ibis with its sickle of a beak, or a spoonbill."""
    paint = bird.paint
    marks = bird.marks
    for x in (-0.10, 0.06):
        pen.stroke([(x, 0.30), (x + 0.05, 0.56), (x, 0.86)], 0.05, paint["legs"], smooth=False)
    body: list[Point] = [
        (0.40, -0.10),
        (0.36, 0.18),
        (0.08, 0.36),
        (-0.36, 0.32),
        (-0.72, 0.16),
        (-0.40, -0.10),
        (0.02, -0.20),
    ]
    neck: list[Point] = [(0.26, 0.02), (0.46, -0.12), (0.44, -0.32), (0.42, -0.50)]
    pen.polygon([(-0.50, 0.0), (-0.86, 0.16), (-0.78, 0.28), (-0.46, 0.26)], paint["tail"])
    if "spoon bill" in marks:
        pen.stroke([(0.52, -0.56), (0.74, -0.40), (0.90, -0.24)], 0.075, paint["beak"])
        pen.ellipse((0.92, -0.22), 0.12, 0.085, marks["spoon bill"], turn=42)
    else:
        pen.stroke(
            [(0.52, -0.60), (0.72, -0.55), (0.88, -0.38), (0.92, -0.14)], 0.06, paint["beak"]
        )
    pen.stroke(neck, 0.17, paint["breast"])
    pen.blob(body, paint["back"])
    with pen.inside(lambda p: p.blob(body, paint["back"])):
        pen.ellipse((0.34, 0.06), 0.20, 0.30, paint["breast"])
        pen.ellipse((0.02, 0.34), 0.36, 0.16, paint["belly"])
    wing: list[Point] = [
        (0.20, -0.10),
        (0.14, 0.14),
        (-0.20, 0.24),
        (-0.66, 0.18),
        (-0.78, 0.12),
        (-0.30, -0.10),
    ]
    pen.blob(wing, paint["wing"])
    with pen.inside(lambda p: p.blob(wing, paint["wing"])):
        pen.polygon([(-0.42, -0.2), (-0.9, 0.0), (-0.9, 0.3), (-0.50, 0.26)], paint["wingtip"])
        if "shoulder" in marks:
            pen.stroke([(0.14, -0.06), (0.02, 0.12), (-0.26, 0.20)], 0.09, marks["shoulder"])
    pen.ellipse((0.45, -0.56), 0.145, 0.125, paint["crown"])
    pen.ellipse((0.53, -0.55), 0.085, 0.075, paint["face"])
    draw_eye(pen, (0.49, -0.59), 0.026)
