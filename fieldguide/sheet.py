"""Draws the contact sheet of `docs/explanation/fieldguide.md`: `python -m fieldguide.sheet FILE.png`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from fieldguide.render import Sight, render
from fieldguide.scene import CONDITIONS
from fieldguide.species import Species, all_species, families

__all__ = ["contact_sheet", "main"]

_COLUMNS = 7


def contact_sheet(*, size: int = 104) -> Image.Image:
    """Draws every species once in good light, and birds under each of the bad conditions as they get worse.

    Args:
        size: Width and height of one picture, in pixels.
    """
    birds = all_species()
    first: dict[str, Species] = {}
    for bird in birds:
        first.setdefault(bird.family, bird)
    cells = [(render(bird, seed=i + 100, size=size), bird.names[0]) for i, bird in enumerate(birds)]
    cells += [(Image.new("RGB", (size, size), "white"), "")] * (-len(cells) % _COLUMNS)
    names = list(families())
    for row, condition in enumerate(CONDITIONS):
        for column in range(_COLUMNS):
            bird = first[names[(3 * row + column) % len(names)]]
            severity = 0.35 + 0.10 * column
            image = render(
                bird, seed=900 + 10 * row + column, sight=Sight(condition, severity), size=size
            )
            cells.append((image, f"{condition} {severity:.2f}"))
    height = size + 16
    page = Image.new("RGB", (_COLUMNS * size, len(cells) // _COLUMNS * height), "white")
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(9)
    for i, (image, text) in enumerate(cells):
        x = i % _COLUMNS * size
        y = i // _COLUMNS * height
        page.paste(image, (x, y))
        draw.text((x + size / 2, y + size + 8), text, fill="black", font=font, anchor="mm")
    return page


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the contact sheet; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m fieldguide.sheet", description=__doc__)
    parser.add_argument("file", type=Path, help="the PNG file to write")
    contact_sheet().save(parser.parse_args(arguments).file, optimize=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
