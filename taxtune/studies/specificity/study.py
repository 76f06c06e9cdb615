"""Does a model prefer right texts of any specificity to subtly wrong ones? Paper 3, §5, Table 3 and Figure 5.

For every image its right texts of one kind are to be ranked above its wrong texts of one kind, by the score of image
and text; the mean over images of the average precision is a cell of Table 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError, ModelError
from taxtune.metrics.average_precision import average_precision
from taxtune.metrics.statistics import Interval, Sample, bootstrap
from taxtune.report.output import Cell, StudyReport, Table, intervals_table, numbered
from taxtune.shell import python
from taxtune.studies.embedding import distinct_names, make_clip, read_label_prompts, shown_name
from taxtune.studies.specificity import SpecificitySettings
from taxtune.studies.specificity.captions import read_caption_data
from taxtune.studies.specificity.figure import draw_scores
from taxtune.studies.specificity.object_words import read_object_words
from taxtune.studies.specificity.scores import ScoredTexts, check_files, read_pairs, score_with_clip, write_pairs
from taxtune.studies.specificity.texts import NEGATIVES, POSITIVES, ImageTexts, make_texts, sampled

__all__ = ["Specificity", "retrieval", "specificity", "specificity_report"]

FloatArray = NDArray[np.float64]

_ALL = POSITIVES | NEGATIVES


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


def specificity(settings: SpecificitySettings) -> StudyReport:
    """Makes and scores the texts and returns the report; see `taxtune.studies.specificity.run`."""
    drawn: dict[str, Any] = {"resamples": settings.resamples, "seed": settings.seed}
    results = [retrieval(_with_both(read_pairs(path), path), **drawn) for path in settings.scored]
    if settings.captions is not None:
        made, notes = _texts(settings)
        scored = None
        for spec in settings.model:
            scored = _scored(spec, settings, made)
            scored = replace(scored, notes=(*notes, *scored.notes))
            results.append(retrieval(scored, negatives=settings.negatives, **drawn))
        if settings.pairs is not None:
            write_pairs(settings.pairs, made, scored)
        if not results:
            return _texts_report(made, notes, settings.record())
    names = distinct_names([result.scored.name for result in results])
    results = [replace(r, scored=replace(r.scored, name=name)) for r, name in zip(results, names, strict=True)]
    return specificity_report(results, settings.record())


def _with_both(scored: ScoredTexts, path: Path) -> ScoredTexts:
    for kinds, what in ((POSITIVES, "right"), (NEGATIVES, "wrong")):
        if not any(len(values) for kind in kinds for values in scored.of(kind)):
            raise DataError(f"The file has no {what} texts.", file=path, remedy=f"It has the kinds {', '.join(kinds)}.")
    return scored


def _texts(settings: SpecificitySettings) -> tuple[list[ImageTexts], tuple[str, ...]]:
    assert settings.captions is not None
    assert settings.instances is not None
    data = read_caption_data(settings.captions, settings.instances, settings.narratives)
    data = sampled(data, settings.sample, settings.seed)
    if len(data.images) < 2:
        raise DataError(
            "At least two images with captions and object labels are needed: wrong captions come from other images.",
            file=settings.captions,
            value=len(data.images),
        )
    if settings.images is not None:
        check_files([image.file_name for image in data.images], settings.images)
    words, notes = read_object_words(data.categories, settings.words)
    templates = read_label_prompts(settings.templates)
    if len(templates) != 1:
        raise DataError(
            "This study uses single sentences, so give only one prompt template.",
            file=settings.templates,
            value=len(templates),
        )
    chunker = None
    if settings.nouns != "words":
        from taxtune.metrics.chunks import make_chunker

        try:
            chunker = make_chunker(settings.nouns)
        except ModelError as error:
            # The ways out have other names in this command.
            raise DataError(
                error.message,
                value=settings.nouns,
                remedy="Use --nouns words or --nouns rules, which need no model, or install one: "
                f"`{python()} -m spacy download en_core_web_sm`.",
            ) from error
    made = make_texts(data, words, templates[0], negatives=settings.negatives, seed=settings.seed, chunker=chunker)
    return made, (*data.notes, *notes)


def _scored(spec: str, settings: SpecificitySettings, made: Sequence[ImageTexts]) -> ScoredTexts:
    assert settings.images is not None
    encoder = make_clip(spec, settings)
    return score_with_clip(encoder, shown_name(encoder.name), made, settings.images)


def retrieval(
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
    sample = Sample({" ".join(key): values for key, values in precision.items()})
    found = bootstrap(sample, resamples=resamples, seed=seed)
    means = {key: found[" ".join(key)] for key in precision}
    return Specificity(scored, precision, means, (*scored.notes, *_notes(scored, negatives)))


def _precisions(scored: ScoredTexts, right: str, wrong: str) -> FloatArray:
    values = np.full(len(scored.images), np.nan)
    for i, (own, others) in enumerate(zip(scored.of(right), scored.of(wrong), strict=True)):
        if len(own) and len(others):
            truth = np.arange(len(own) + len(others)) < len(own)
            # One "label" whose "images" are the texts.
            values[i] = average_precision(np.concatenate([own, others])[:, np.newaxis], truth[:, np.newaxis])[0]
    return values


def _notes(scored: ScoredTexts, negatives: int | None) -> Iterator[str]:
    total = len(scored.images)
    for kind, shown in _ALL.items():
        sizes = np.array([len(values) for values in scored.of(kind)])
        none = int((sizes == 0).sum())
        if none:
            yield f"{none:,} of {total:,} images have no text of the kind {shown!r} and are left out of its cells."
        wanted = int(sizes.max()) if negatives is None else negatives
        few = int(((sizes > 0) & (sizes < wanted)).sum())
        if kind in NEGATIVES and few:
            yield (
                f"{few:,} of {total:,} images have fewer than {wanted:,} texts of the kind {shown!r} "
                f"(mean {float(sizes[sizes > 0].mean()):.1f}): all of them are used."
            )
    every = [np.concatenate([np.zeros(0), *texts.values()]) for texts in scored.scores]
    level = sum(len(values) > 1 and bool(values.max() == values.min()) for values in every)
    if level:
        yield f"{level:,} of {total:,} images have the same score for all their texts, so nothing is distinguished."


# -- the report -------------------------------------------------------------------------------------------------------


def specificity_report(results: Sequence[Specificity], settings: dict[str, Any]) -> StudyReport:
    """Returns the tables, figures and numbers of the study.

    Args:
        results: One a model or file of scores.
        settings: What is needed to run the study again.
    """
    stems = numbered("specificity-scores", len(results))
    notes = [n if len(results) == 1 else f"{r.scored.name}: {n}" for r in results for n in r.notes]
    return StudyReport(
        study="specificity",
        title="Does a model prefer right texts of any specificity to subtly wrong ones?",
        settings=settings,
        tables=(_retrieval(results), _intervals(results, settings), _distributions(results)),
        figures={stem: partial(draw_scores, result.scored) for stem, result in zip(stems, results, strict=True)},
        notes=tuple(dict.fromkeys(notes)),
    )


def _texts_report(made: Sequence[ImageTexts], notes: tuple[str, ...], settings: dict[str, Any]) -> StudyReport:
    """Returns what there is to say where nothing was scored: how many texts of each kind there are."""
    rows: list[tuple[Cell, ...]] = []
    for kind, shown in _ALL.items():
        sizes = [len(item.texts[kind]) for item in made]
        side = "right" if kind in POSITIVES else "wrong"
        rows.append((side, shown, sum(sizes), sum(size > 0 for size in sizes), min(sizes), max(sizes)))
    table = Table(
        "texts",
        f"Texts of {len(made):,} images; nothing has been scored yet",
        ("side", "texts", "n", "images that have any", "fewest", "most"),
        tuple(rows),
        notes=("Add a `score` to each line of the file of pairs, then pass the file with --scored.",),
    )
    return StudyReport("specificity", "The texts of the specificity study", settings, (table,), notes=notes)


def _retrieval(results: Sequence[Specificity]) -> Table:
    columns = tuple(f"vs {shown}" for shown in NEGATIVES.values())
    return Table(
        "specificity",
        "Image-to-text retrieval, mAP in % (paper 3, Table 3)",
        ("scores", "right texts", *columns),
        tuple(
            (result.scored.name, shown, *(100 * result.means[right, wrong].estimate for wrong in NEGATIVES))
            for result in results
            for right, shown in POSITIVES.items()
        ),
        digits=dict.fromkeys(columns, 2),
        notes=(
            "Rows: the right texts of an image; columns: the wrong texts that they are ranked against. Related images "
            "share an object label with it; altered captions are its own captions with one object replaced by one that "
            "is not in the image.",
        ),
    )


def _intervals(results: Sequence[Specificity], settings: dict[str, Any]) -> Table:
    rows: list[tuple[tuple[Cell, ...], Interval]] = [
        ((r.scored.name, POSITIVES[right], NEGATIVES[wrong], int(np.isfinite(r.precision[right, wrong]).sum())), mean)
        for r in results
        for (right, wrong), mean in r.means.items()
    ]
    note = f"Percentile bootstrap over the images, {settings.get('resamples', 0):,} resamples."
    return intervals_table(("scores", "right texts", "wrong texts", "images"), rows, note, value="mAP")


def _distributions(results: Sequence[Specificity]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        single = result.scored.means("single")
        for kind, shown in _ALL.items():
            values = np.concatenate(result.scored.of(kind))
            if not len(values):
                continue
            gaps = single - result.scored.means(kind)
            gaps = gaps[np.isfinite(gaps)]
            below = 100 * float((gaps < 0).mean()) if kind in NEGATIVES and gaps.size else float("nan")
            side = "right" if kind in POSITIVES else "wrong"
            shape = (len(values), float(values.mean()), float(values.std()))
            rows.append((result.scored.name, side, shown, *shape, below))
    return Table(
        "distributions",
        "Scores by kind of text (paper 3, Figure 5)",
        ("scores", "side", "texts", "n", "mean", "SD", "above one label"),
        tuple(rows),
        digits={"above one label": 1},
        notes=(
            "Above one label: % of images whose wrong texts of this kind score higher on average than the right "
            "prompt with one label.",
        ),
    )
