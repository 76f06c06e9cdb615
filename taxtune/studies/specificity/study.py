"""Are right texts of any specificity told from subtly wrong ones? Paper 3, §5, Table 3 and Figure 5.

For every image its right texts of one kind are to be ranked above its wrong texts of one kind, by the score of image
and text; the mean over images of the average precision is a cell of Table 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics.average_precision import average_precision
from taxtune.metrics.statistics import Interval, Sample, bootstrap
from taxtune.studies.output import Cell, StudyReport, Table
from taxtune.studies.specificity.hard_negatives import NEGATIVES, POSITIVES
from taxtune.studies.specificity.text_scores import ScoredTexts

__all__ = ["Specificity", "specificity", "specificity_report"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Specificity:
    """Retrieval of right texts against wrong ones.

    Attributes:
        scored: The scores.
        precision: The average precision of each image, by kind of right and of wrong texts; NaN where the image has
            none of a kind, shape (images,).
        means: Their means with bootstrap intervals over the images; NaN where no image has both kinds.
        notes: Stated, counted exclusions.
    """

    scored: ScoredTexts
    precision: dict[tuple[str, str], FloatArray]
    means: dict[tuple[str, str], Interval]
    notes: tuple[str, ...]


def specificity(
    scored: ScoredTexts, *, negatives: int | None = None, resamples: int = 1000, seed: int = 0
) -> Specificity:
    """Returns the mean average precision of every kind of right texts against every kind of wrong ones.

    Args:
        scored: The scores.
        negatives: How many wrong texts of a kind an image should have: images with fewer are counted. None is the most
            that any image has.
        resamples: Bootstrap resamples of the images; 0 for no intervals.
        seed: Seed of the resampling.
    """
    precision = {(right, wrong): _precisions(scored, right, wrong) for right in POSITIVES for wrong in NEGATIVES}
    sample = Sample({f"{right} {wrong}": values for (right, wrong), values in precision.items()})
    found = bootstrap(sample, resamples=resamples, seed=seed)
    means = {key: found[f"{key[0]} {key[1]}"] for key in precision}
    total = len(scored.images)
    notes = list(scored.notes)
    for kind, shown in (POSITIVES | NEGATIVES).items():
        sizes = np.array([len(texts.get(kind, ())) for texts in scored.scores])
        none = int((sizes == 0).sum())
        if none:
            notes.append(f"{none:,} of {total:,} images have no text of the kind {shown!r}: left out of its cells.")
        if kind in NEGATIVES:
            wanted = int(sizes.max()) if negatives is None else negatives
            few = int(((sizes > 0) & (sizes < wanted)).sum())
            if few:
                mean = float(sizes[sizes > 0].mean())
                notes.append(
                    f"{few:,} of {total:,} images have fewer than {wanted:,} texts of the kind {shown!r} "
                    f"(mean {mean:.1f}): all of them are taken."
                )
    level = sum(_is_level(texts) for texts in scored.scores)
    if level:
        notes.append(f"{level:,} of {total:,} images have one score for all their texts: nothing is told apart.")
    return Specificity(scored, precision, means, tuple(notes))


def _is_level(texts: Mapping[str, FloatArray]) -> bool:
    scores = np.concatenate([np.zeros(0), *texts.values()])
    return len(scores) > 1 and bool(scores.max() == scores.min())


def _precisions(scored: ScoredTexts, right: str, wrong: str) -> FloatArray:
    values = np.full(len(scored.images), np.nan)
    for i, texts in enumerate(scored.scores):
        own, others = texts.get(right, np.zeros(0)), texts.get(wrong, np.zeros(0))
        if len(own) and len(others):
            truth = np.arange(len(own) + len(others)) < len(own)
            # One "label" whose "images" are the texts.
            values[i] = average_precision(np.concatenate([own, others])[:, np.newaxis], truth[:, np.newaxis])[0]
    return values


def specificity_report(results: Sequence[Specificity], settings: dict[str, Any]) -> StudyReport:
    """Returns the tables, figures and numbers of the study.

    Args:
        results: One a model or file of scores.
        settings: What is needed to run the study again.
    """
    from taxtune.studies.specificity.figure import draw_scores

    figures: dict[str, Any] = {}
    for i, result in enumerate(results, start=1):
        stem = "specificity-scores" if len(results) == 1 else f"specificity-scores-{i}"
        figures[stem] = lambda scored=result.scored: draw_scores(scored)
    notes = [n if len(results) == 1 else f"{r.scored.name}: {n}" for r in results for n in r.notes]
    return StudyReport(
        study="specificity",
        title="Are right texts of any specificity told from subtly wrong ones?",
        settings=settings,
        tables=(_retrieval(results), _intervals(results, settings), _distributions(results)),
        figures=figures,
        notes=tuple(dict.fromkeys(notes)),
    )


def _retrieval(results: Sequence[Specificity]) -> Table:
    columns = tuple(f"vs {shown}" for shown in NEGATIVES.values())
    rows: list[tuple[Cell, ...]] = [
        (result.scored.name, shown, *(100 * result.means[right, wrong].estimate for wrong in NEGATIVES))
        for result in results
        for right, shown in POSITIVES.items()
    ]
    return Table(
        "specificity",
        "Image-to-text retrieval, mAP in % (paper 3, Table 3)",
        ("scores", "right texts", *columns),
        tuple(rows),
        digits=dict.fromkeys(columns, 2),
        notes=(
            "Rows: the right texts of an image; columns: the wrong ones that they are ranked among. Related images "
            "share an object label with it; altered captions are its own with one object swapped for one that is not "
            "there.",
        ),
    )


def _intervals(results: Sequence[Specificity], settings: dict[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        for (right, wrong), mean in result.means.items():
            images = int(np.isfinite(result.precision[right, wrong]).sum())
            kinds = (POSITIVES[right], NEGATIVES[wrong])
            rows.append((result.scored.name, *kinds, images, 100 * mean.estimate, 100 * mean.low, 100 * mean.high))
    columns = ("scores", "right texts", "wrong texts", "images", "mAP", "low", "high")
    return Table(
        "intervals",
        "The same with 95 % intervals",
        columns,
        tuple(rows),
        digits=dict.fromkeys(columns[4:], 2),
        notes=(f"Percentile bootstrap over the images, {settings.get('resamples', 0):,} resamples.",),
    )


def _distributions(results: Sequence[Specificity]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        single = _means(result.scored, "single")
        for kind, shown in (POSITIVES | NEGATIVES).items():
            parts = [texts[kind] for texts in result.scored.scores if len(texts.get(kind, ()))]
            if not parts:
                continue
            values = np.concatenate(parts)
            below = float("nan")
            if kind in NEGATIVES:
                gaps = single - _means(result.scored, kind)
                gaps = gaps[np.isfinite(gaps)]
                below = 100 * float((gaps < 0).mean()) if gaps.size else float("nan")
            side = "right" if kind in POSITIVES else "wrong"
            rows.append(
                (result.scored.name, side, shown, len(values), float(values.mean()), float(values.std()), below)
            )
    return Table(
        "distributions",
        "Scores by kind of text (paper 3, Figure 5)",
        ("scores", "side", "texts", "n", "mean", "SD", "above one label"),
        tuple(rows),
        digits={"above one label": 1},
        notes=(
            "Above one label: images, in %, whose wrong texts of this kind score higher on average than the right "
            "prompt with one label.",
        ),
    )


def _means(scored: ScoredTexts, kind: str) -> FloatArray:
    """Returns the mean score of each image's texts of a kind; NaN where it has none."""
    return np.array(
        [float(texts[kind].mean()) if len(texts.get(kind, ())) else float("nan") for texts in scored.scores]
    )
