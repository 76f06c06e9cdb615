"""Draws the picture of README.md: `python docs/code/one_photo.py RUN IMAGE`, with the demo's run and images/00320.png.

One held-out image, with the baseline's answer and the winner's. All words of it are read from the run.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import pandas as pd
from PIL import Image

import taxtune
from taxtune import fieldguide
from taxtune.metrics.outcomes import GENERAL, WRONG
from taxtune.report.summary import summarise

FILE = Path(__file__).parents[1] / "images" / "one-photo.webp"
INK, GREY, RIGHT, BAD = "#1b1b1b", "#666666", "#00694b", "#a63c00"


def main(run: str, example: str) -> None:
    """Writes the picture.

    Args:
        run: Folder of the demo's comparison.
        example: A held-out image that the baseline gets wrong and the winner names in general, as `answers()` has it.

    Raises:
        SystemExit: If the run's answers to this image are others.
    """
    result = taxtune.load_run(run)
    baseline, winner = result.heldout[:2]
    rows = [next(row for row in held.rows if row.example == example) for held in (baseline, winner)]
    if [row.state for row in rows] != [WRONG, GENERAL]:
        sys.exit(
            f"{example}: {rows[0].answer!r}, then {rows[1].answer!r}. Choose an image that is wrong, then general."
        )
    manifest = pd.read_csv(Path(fieldguide.__file__).with_name("manifest.csv"), index_col="image")
    name = manifest.loc[example, "common_name"]

    figure = plt.figure(figsize=(9.6, 3.4), facecolor="white")
    photo = figure.add_axes((0.012, 0.1, 0.3, 0.8471))
    photo.imshow(Image.open(result.provenance.images[example]), interpolation="lanczos")
    photo.set_axis_off()
    figure.text(0.162, 0.03, f"label: {name}", ha="center", fontsize=11, color=GREY)
    tuned = summarise(result).winners[0].prompt
    for top, who, prompt, row, colour, verdict in (
        (0.93, "Baseline prompt", baseline.template, rows[0], BAD, "✗ wrong"),
        (0.5, "Tuned prompt", tuned, rows[1], RIGHT, "✓ right, but general"),
    ):
        figure.text(0.35, top, who, va="top", fontsize=11, weight="bold", color=INK)
        lines = "\n".join(textwrap.wrap(prompt, 84))
        figure.text(0.35, top - 0.085, lines, va="top", fontsize=9.5, color=GREY, linespacing=1.35)
        height = top - 0.085 - 0.072 * (lines.count("\n") + 1) - 0.035
        said = figure.text(0.35, height, f"“{row.answer}”", va="top", fontsize=17, color=colour, weight="bold")
        end = said.get_window_extent(figure.canvas.get_renderer()).x1 / figure.bbox.width
        figure.text(end + 0.02, height - 0.015, verdict, va="top", fontsize=12, color=colour)
    figure.savefig(FILE, dpi=150, pil_kwargs={"quality": 90})


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
