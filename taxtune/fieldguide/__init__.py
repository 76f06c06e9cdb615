"""The embedded default: drawn birds, their label tree, and a tiny vision-language model that has learnt them.

All of it is data; the code that drew the birds and trained the model is the folder `fieldguide` of the repository.
"""

from __future__ import annotations

import csv
import hashlib
import shutil
from pathlib import Path
from typing import NamedTuple

__all__ = ["IMAGES", "MANIFEST_FILE", "MODEL_FOLDER", "TAXONOMY_FILE", "Drawn", "export"]

_HERE = Path(__file__).resolve().parent

#: The folder of the embedded model, as `from_pretrained` of transformers takes it.
MODEL_FOLDER = _HERE / "model"

#: The label tree of the field guide, as a table of paths (columns `path`, `rank`, `aliases`).
TAXONOMY_FILE = _HERE / "taxonomy.csv"

#: What is on the images `images/00000.png`, `images/00001.png`, ...: the first `n` of them are the
#: data set of `n`.
MANIFEST_FILE = _HERE / "manifest.csv"


class Drawn(NamedTuple):
    """How images were drawn: the arguments of `fieldguide.draw.make_dataset`."""

    n: int
    degraded: float
    seed: int


#: How the images of the package were drawn.
IMAGES = Drawn(n=400, degraded=0.5, seed=2021)

_PLACES = ("coast", "field", "garden", "marsh", "park", "wood")


def export(folder: str | Path, labelled: int = 300, manifest: str | Path = MANIFEST_FILE) -> None:
    """Writes the images as a user might have them, to try the steps for one's own.

    Args:
        folder: Where to write: `tree.csv`, `photos/` with a sub-folder for each species, and
            `new-photos/` with the images that have no label; the same as `photos.csv` and
            `new-photos.csv`, with the place of each, and `checklist.csv`, which species are where.
            A species lives at one of six places, drawn by its name.
        labelled: How many images have one.
        manifest: What lists the images: those of the package, or more that `python -m
            fieldguide.draw` drew.
    """
    folder = Path(folder)
    manifest = Path(manifest)
    with manifest.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    photos = ["image,label,place"]
    new_photos = ["image,place"]
    for i, row in enumerate(rows):
        label = row["label"]
        target = folder / "photos" / label if i < labelled else folder / "new-photos"
        target.mkdir(parents=True, exist_ok=True)
        file = target / Path(row["image"]).name
        shutil.copyfile(manifest.parent / row["image"], file)
        name = file.relative_to(folder).as_posix()
        if i < labelled:
            photos.append(f"{name},{label},{_place(label)}")
        else:
            new_photos.append(f"{name},{_place(label)}")
    checklist = ["node,place"]
    for label in sorted({row["label"] for row in rows}):
        checklist.append(f"{label},{_place(label)}")
    _write_lines(folder / "photos.csv", photos)
    _write_lines(folder / "new-photos.csv", new_photos)
    _write_lines(folder / "checklist.csv", checklist)
    shutil.copyfile(TAXONOMY_FILE, folder / "tree.csv")


def _place(label: str) -> str:
    """Returns the place at which a species lives."""
    return _PLACES[hashlib.sha256(label.encode()).digest()[0] % len(_PLACES)]


def _write_lines(file: Path, lines: list[str]) -> None:
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
