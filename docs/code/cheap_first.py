"""Makes a small classifier of the field guide's birds, and its scores: `python docs/code/cheap_first.py [FOLDER]`.

    photos/, photos.csv, scores.csv    drawings with their labels, and what the classifier says of them
    new-photos/, new-scores.csv        more drawings; their labels, which only made data can have, are in new-truth.csv

The classifier is a logistic regression on a mosaic of 12 x 12 squares and the shares of 64 colours. It learns from
drawings that are not kept. The same call writes the same files. It runs in a clone of the repository.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import pandas as pd
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fieldguide.draw import plan
from fieldguide.render import render

SIDE, SQUARES = 48, 12


@dataclass
class Photos:
    """Photos of one folder: their names, labels and features."""

    folder: Path | None = None
    names: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    features: list[np.ndarray] = field(default_factory=list)

    def add(self, drawing: Image.Image, label: str) -> None:
        """Looks at a drawing, and keeps it where there is a folder."""
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            name = f"IMG_{len(self.names):04d}.png"
            drawing.save(self.folder / name)
            self.names.append(f"{self.folder.name}/{name}")
        self.labels.append(label)
        self.features.append(features_of(drawing))


def features_of(drawing: Image.Image) -> np.ndarray:
    """Returns the colours of a coarse mosaic, and how much there is of each of 64 colours."""
    small = drawing.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BOX)
    mosaic = small.resize((SQUARES, SQUARES), Image.Resampling.BOX)
    levels = np.asarray(small).reshape(-1, 3) // 64
    colours = np.bincount(levels @ [16, 4, 1], minlength=64) / SIDE**2
    return np.concatenate([np.asarray(mosaic).ravel() / 255, 3 * np.sqrt(colours)])


def main(folder: str = ".", learnt: int = 1200, labelled: int = 500, new: int = 600) -> None:
    """Draws, learns, and writes the files."""
    here = Path(folder)
    parts = Photos(), Photos(here / "photos"), Photos(here / "new-photos")
    ends = np.cumsum([learnt, labelled, new])
    for item in plan(int(ends[-1]), seed=37, degraded=0.25):
        part = parts[np.searchsorted(ends, item.index, side="right")]
        part.add(render(item.species, seed=item.seed, sight=item.sight), item.species.label)
    classifier = make_pipeline(StandardScaler(), LogisticRegression(C=0.03, max_iter=1000))
    classifier.fit(parts[0].features, parts[0].labels)
    for part, prefix, truth in ((parts[1], "", "photos.csv"), (parts[2], "new-", "new-truth.csv")):
        labels = pd.DataFrame({"image": part.names, "label": part.labels})
        labels.to_csv(here / truth, index=False)
        scores = pd.DataFrame(classifier.predict_proba(part.features), columns=classifier.classes_)
        scores.insert(0, "image", part.names)
        scores.round(6).to_csv(here / f"{prefix}scores.csv", index=False)
        right = np.mean(classifier.predict(part.features) == part.labels)
        print(f"{prefix}scores.csv: {len(part.names)} photos; the highest score is right on {right:.0%}")


if __name__ == "__main__":
    main(*sys.argv[1:])
