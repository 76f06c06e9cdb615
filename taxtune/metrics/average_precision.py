"""Average precision of many labels at once, and its bootstrap over images (paper 3, §4.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.metrics.statistics import resample
from taxtune.progress import track_each

__all__ = ["average_precision", "bootstrap_average_precision", "resample_counts"]

FloatArray = NDArray[np.float64]

_CHUNK = 8_000_000  # entries of the table of resampled counts that are gathered for one label at a time


def average_precision(scores: ArrayLike, positive: ArrayLike) -> FloatArray:
    """Scikit-learn's average precision of each label, shape (labels,), in (0, 1]; NaN if no image shows it.

    Args:
        scores: The score of each image under each label, shape (images, labels), finite; larger is surer.
        positive: Whether the image shows the label, same shape.

    Raises:
        ValueError: If the shapes differ, are not two-dimensional, or a score is not finite.
    """
    from sklearn.metrics import average_precision_score

    values, truth = _checked(scores, positive)
    result = np.full(values.shape[1], np.nan)
    for label in track_each(range(values.shape[1]), "labels"):
        if truth[:, label].any():
            result[label] = average_precision_score(truth[:, label], values[:, label])
    return result


def resample_counts(images: int, resamples: int, seed: int) -> NDArray[np.float32]:
    """The number of times each image is drawn in each bootstrap resample, shape (images, resamples)."""
    drawn = resample(lambda counts: counts.astype(np.float32), images, resamples=resamples, seed=seed)
    return np.ascontiguousarray(drawn.T)


def bootstrap_average_precision(scores: ArrayLike, positive: ArrayLike, counts: ArrayLike) -> FloatArray:
    """The average precision of each label in each bootstrap resample of the images, shape (labels, resamples).

    Copies of an image would raise the precision at its rank, so that the mean over resamples lies 0.6 to 1.7 points
    above the estimate for ten images of a label: to its own precision an image therefore adds itself once. Counts of 1
    give `average_precision`. NaN where a resample holds no image of the label.

    Args:
        scores: As for `average_precision`.
        positive: As for `average_precision`.
        counts: Number of draws of each image in each resample, shape (images, resamples); see `resample_counts`. The
            same counts for two score matrices make their comparison paired.
    """
    values, truth = _checked(scores, positive)
    weights = np.asarray(counts, dtype=np.float32)
    if weights.ndim != 2 or len(weights) != len(values):
        raise ValueError(f"counts must have shape ({len(values)}, resamples), not {weights.shape}")
    result = np.full((values.shape[1], weights.shape[1]), np.nan)
    step = max(1, _CHUNK // max(1, len(values)))
    for label in track_each(range(values.shape[1]), "labels"):
        order = np.argsort(-values[:, label], kind="stable")
        own = truth[order, label]
        if not own.any():
            continue
        # An image's precision counts all images up to the end of its run of equal scores; what lies between two such
        # ends is summed at once.
        ordered = -values[order, label]
        ends = np.searchsorted(ordered, ordered[own], side="right")
        own_ends = np.searchsorted(ordered[own], ordered[own], side="right") - 1
        cuts, place = np.unique(ends, return_inverse=True)
        for start in range(0, weights.shape[1], step):
            part = slice(start, start + step)
            copies = weights[order[own], part].astype(np.float64)
            sums = np.add.reduceat(weights[order[: cuts[-1]], part], [0, *cuts[:-1]], axis=0)
            above = np.cumsum(sums, axis=0, dtype=np.float64)[place]
            # What is not drawn weighs 0, whatever its precision.
            precision = (np.cumsum(copies, axis=0)[own_ends] - copies + 1) / (above - copies + 1)
            with np.errstate(invalid="ignore"):
                result[label, part] = (copies * precision).sum(axis=0) / copies.sum(axis=0)
    return result


def _checked(scores: ArrayLike, positive: ArrayLike) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
    values, truth = np.asarray(scores), np.asarray(positive, dtype=bool)
    if values.ndim != 2 or values.shape != truth.shape:
        raise ValueError(f"scores and positive must have one shape (images, labels), not {values.shape}, {truth.shape}")
    if not np.isfinite(values).all():
        image, label = np.argwhere(~np.isfinite(values))[0].tolist()
        raise ValueError(f"the score of image {image} under label {label} is not finite: {values[image, label]}")
    return values, truth
