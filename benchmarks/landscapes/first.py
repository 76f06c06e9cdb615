"""Records the scores of weak classifiers of the drawings, which a model may come after (`benchmarks/cascade.py`).

Run `python benchmarks/landscapes/first.py --out benchmarks/landscapes/first.npz`; it takes a minute. Logistic
regressions, their penalty chosen by cross-validation, learn the species from 640 drawings: from their pixels (24 × 24,
60 principal components) or from the mean of the embedded model's image features. The 640 are drawn after the 1,280 of
the landscape, with the same seed, so that they are a third of all and none of them is compared.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from record import DEGRADED, IMAGES, SEED

from fieldguide.draw import make_dataset
from taxtune.fieldguide import MODEL_FOLDER, TAXONOMY_FILE
from taxtune.images import load_image
from taxtune.taxonomy import read_taxonomy

TRAINED_ON = IMAGES // 2
#: Both sides in pixels, and the principal components that are kept of them.
SIDE = 24
COMPONENTS = 60
_BATCH = 64
#: Inverse penalties to choose from.
_PENALTIES = np.geomspace(1e-3, 10, 9)

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def read_pixels(pictures: Sequence[Image.Image]) -> FloatArray:
    """Returns small copies of pictures as rows of numbers from 0 to 1."""
    rows = []
    for picture in pictures:
        small = picture.resize((SIDE, SIDE), Image.Resampling.BOX)
        rows.append(np.asarray(small, dtype=np.float64).ravel() / 255)
    return np.array(rows)


def read_features(pictures: Sequence[Image.Image]) -> FloatArray:
    """Returns the mean of the embedded model's features over the patches of each picture."""
    import torch
    from transformers import AutoProcessor, MllamaForConditionalGeneration

    process = AutoProcessor.from_pretrained(MODEL_FOLDER).image_processor
    vision = MllamaForConditionalGeneration.from_pretrained(MODEL_FOLDER).eval().model.vision_model
    names = ("pixel_values", "aspect_ratio_ids", "aspect_ratio_mask")
    means = []
    for start in range(0, len(pictures), _BATCH):
        shown = process([[one] for one in pictures[start : start + _BATCH]], return_tensors="pt")
        with torch.inference_mode():
            seen = vision(**{name: shown[name] for name in names}).last_hidden_state
        means.append(seen.flatten(1, -2).mean(dim=1).double().numpy())
    return np.concatenate(means)


def classify(learner: Any, rows: FloatArray, labels: IntArray) -> NDArray[np.float16]:
    """Returns the log-probability of each label, in their order, for the rows of the landscape.

    Args:
        learner: A classifier of scikit-learn, which learns from the rows after them.
        rows: What is known of each image.
        labels: The label of each image.
    """
    learner.fit(rows[IMAGES:], labels[IMAGES:])
    logs: NDArray[np.float16] = learner.predict_log_proba(rows[:IMAGES]).astype(np.float16)
    return logs


def record(images: Path) -> dict[str, Any]:
    """Returns the arrays by name (README.md) for a folder with the drawings to compare and to learn from."""
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def regression() -> Any:
        return LogisticRegressionCV(
            Cs=_PENALTIES,
            l1_ratios=(0,),
            scoring="neg_log_loss",
            max_iter=1000,
            use_legacy_attributes=False,
        )

    with (images / "manifest.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    tree = read_taxonomy(TAXONOMY_FILE, names=False)
    targets = np.array([tree.resolve(row["label"]) for row in rows])
    pictures = [load_image(images / row["image"]) for row in rows]
    by_pixels = make_pipeline(PCA(COMPONENTS, whiten=True, random_state=0), regression())
    by_features = make_pipeline(StandardScaler(), regression())
    return {
        "pixels": classify(by_pixels, read_pixels(pictures), targets),
        "features": classify(by_features, read_features(pictures), targets),
        "nodes": np.unique(targets).astype(np.uint8),
        "targets": targets[:IMAGES].astype(np.uint8),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the file to write (.npz)")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = make_dataset(
            Path(name) / "images", n=IMAGES + TRAINED_ON, seed=SEED, degraded=DEGRADED
        )
        arrays = record(folder)
    np.savez_compressed(given.out, **arrays)
    for name in ("pixels", "features"):
        right = arrays["nodes"][arrays[name].argmax(axis=1)] == arrays["targets"]
        print(f"{name}: {right.mean():.3f} of {IMAGES:,} images right")


if __name__ == "__main__":
    main()
