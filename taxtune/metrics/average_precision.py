"""Average precision of many labels at once, and its bootstrap over images (paper 3, §4.1).

The average precision of a label is the mean, over its positive images, of the precision among all images that score at
least as high: Σ (R_i − R_{i−1}) P_i over distinct thresholds, as scikit-learn's `average_precision_score` has it.
Images with equal scores stand together, so no order among them is made up: a label whose images all score the
same has the AP of its share of positive images. Written over the positive images, a label costs one sort of its scores
and a look-up of each positive image, and 50,000 images × 1,820 labels are a matter of seconds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.metrics.statistics import resample
from taxtune.progress import track_each

__all__ = ["average_precision", "bootstrap_average_precision", "resample_counts"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

# Entries of the table of resampled counts that are gathered for one label at a time.
_CHUNK = 8_000_000


def average_precision(scores: ArrayLike, positive: ArrayLike) -> FloatArray:
    """Returns the average precision of each label.

    Args:
        scores: The score of each image under each label, shape (images, labels), finite; larger is surer.
        positive: Whether the image shows the label, same shape.

    Returns:
        Shape (labels,), in (0, 1]; NaN for a label that no image shows, whose average precision is undefined.

    Raises:
        ValueError: If the shapes differ, are not two-dimensional, or a score is not finite.
    """
    values, truth = _checked(scores, positive)
    result = np.full(values.shape[1], np.nan)
    for label in track_each(range(values.shape[1]), "labels"):
        column = np.ascontiguousarray(values[:, label])
        own = np.sort(column[truth[:, label]])
        if own.size:
            # How many of all images, and how many of the positive ones, score at least as high as each positive one.
            above = column.size - np.searchsorted(np.sort(column), own, side="left")
            positives_above = own.size - np.searchsorted(own, own, side="left")
            result[label] = float(np.mean(positives_above / above))
    return result


def resample_counts(images: int, resamples: int, seed: int) -> NDArray[np.float32]:
    """Returns how often each image is drawn in each bootstrap resample, shape (images, resamples).

    Args:
        images: The number of images, at least 1.
        resamples: The number of resamples, each of `images` draws with replacement.
        seed: The same seed gives the same draws.
    """
    drawn = resample(lambda counts: counts.astype(np.float32), images, resamples=resamples, seed=seed)
    return np.ascontiguousarray(drawn.T)


def bootstrap_average_precision(
    scores: ArrayLike,
    positive: ArrayLike,
    counts: ArrayLike,
) -> FloatArray:
    """Returns the average precision of each label in each bootstrap resample of the images.

    An image that is drawn several times would help itself: its copies stand with it and raise the precision at its
    place, so that the mean over resamples lies above the estimate, by 0.6 to 1.7 points for ten images a label. To its
    own precision an image therefore adds itself once, however often it is drawn; counts of 1 give `average_precision`.

    Args:
        scores: As for `average_precision`.
        positive: As for `average_precision`.
        counts: How often each image occurs in each resample, shape (images, resamples); see `resample_counts`. The same
            counts for two score matrices make their comparison paired.

    Returns:
        Shape (labels, resamples); NaN where a resample holds no image of the label.

    Raises:
        ValueError: If shapes do not fit, or a score is not finite.
    """
    values, truth = _checked(scores, positive)
    weights = np.asarray(counts, dtype=np.float32)
    if weights.ndim != 2 or len(weights) != len(values):
        raise ValueError(f"counts must have shape ({len(values)}, resamples), not {weights.shape}")
    result = np.full((values.shape[1], weights.shape[1]), np.nan)
    step = max(1, _CHUNK // max(1, len(values)))
    for label in track_each(range(values.shape[1]), "labels"):
        for start in range(0, weights.shape[1], step):
            part = slice(start, start + step)
            result[label, part] = _weighted(values[:, label], truth[:, label], weights[:, part])
    return result


def _weighted(column: NDArray[np.floating], own: BoolArray, weights: NDArray[np.float32]) -> FloatArray:
    """Returns the average precision of one label with the images counted by each column of `weights`."""
    if not own.any():
        return np.full(weights.shape[1], np.nan)
    order = np.argsort(-column, kind="stable")
    ordered, truth = column[order], own[order]
    # Runs of equal scores: a threshold lies at the end of a run, and only runs with a positive image matter.
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    run = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(ordered))))
    wanted = np.unique(run[truth])
    # Everything after the threshold before, up to and including the wanted run, is one segment.
    ends = np.append(starts[1:], len(ordered))[wanted]
    segments = np.concatenate([[0], ends[:-1]])
    drawn = weights[order[: ends[-1]]]
    own_counts = weights[order[truth]].astype(np.float64)
    place = np.searchsorted(wanted, run[truth])
    firsts = np.searchsorted(place, np.arange(len(wanted)))
    above = np.cumsum(np.add.reduceat(drawn, segments, axis=0), axis=0, dtype=np.float64)[place]
    positives_above = np.cumsum(np.add.reduceat(own_counts, firsts, axis=0), axis=0)[place]
    total = own_counts.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        # However often an image is drawn, to its own precision it adds itself once. One that is not drawn weighs 0.
        precision = (positives_above - own_counts + 1) / (above - own_counts + 1)
        gained = (own_counts * precision).sum(axis=0)
        return np.asarray(np.where(total > 0, gained / total, np.nan), dtype=np.float64)


def _checked(scores: ArrayLike, positive: ArrayLike) -> tuple[NDArray[np.floating], BoolArray]:
    values = np.asarray(scores)
    truth = np.asarray(positive, dtype=bool)
    if values.ndim != 2 or values.shape != truth.shape:
        raise ValueError(f"scores and positive must have one shape (images, labels), not {values.shape}, {truth.shape}")
    if not np.isfinite(values).all():
        image, label = np.argwhere(~np.isfinite(values))[0].tolist()
        raise ValueError(f"the score of image {image} under label {label} is not finite: {values[image, label]}")
    return values, truth
