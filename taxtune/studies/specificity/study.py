"""Does a model prefer right texts of any specificity to subtly wrong ones? Paper 3, §5, Table 3 and Figure 5.

Everything works on one table of pairs (image, kind, text, score). An image's right texts of one kind are to be ranked
above its wrong texts of one kind; the mean over images of the average precision is a cell of Table 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from taxtune import atomic
from taxtune.answers import read_records
from taxtune.errors import DataError, ImageError
from taxtune.metrics.statistics import Interval, Sample, bootstrap
from taxtune.progress import track
from taxtune.report.output import Cell, StudyReport, Table, intervals_table, numbered
from taxtune.studies.embedding import check_vectors, distinct_names, make_clip, read_label_prompts, rounded, shown_name
from taxtune.studies.specificity.settings import SpecificitySettings
from taxtune.studies.specificity.texts import make_texts, read_images, read_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from taxtune.encoders.clip import ClipEncoder

__all__ = ["NEGATIVES", "POSITIVES", "draw", "precisions", "read_pairs", "report", "score", "specificity"]

#: Kinds of right and of wrong texts, with the names that the tables show.
POSITIVES = {"caption": "captions", "multi": "all labels", "single": "one label", "narrative": "narrative"}
NEGATIVES = {"random": "random images'", "related": "related images'", "altered": "altered captions"}
_ALL = POSITIVES | NEGATIVES
_COLUMNS = ("image", "kind", "text", "score")
_LARGEST = 1e100  # scores beyond this overflow in a mean


def specificity(settings: SpecificitySettings) -> StudyReport:
    """Makes and scores the texts and returns the report; see `taxtune.studies.specificity.run`."""
    scored = [(str(path), read_pairs(path)) for path in settings.scored]
    notes: list[str] = []
    if settings.captions is not None:
        texts, notes = _texts(settings, settings.captions)
        pairs = texts
        for spec in settings.model:
            encoder = make_clip(spec, settings)
            pairs = score(encoder, texts, Path(settings.images or "."))
            scored.append((shown_name(encoder.name), pairs))
            notes += _truncated(encoder, texts)
        if settings.pairs is not None:
            atomic.write_text(settings.pairs, pairs.to_json(orient="records", lines=True, force_ascii=False))
        if not scored:
            return _texts_report(texts, notes, settings.record())
    return report(scored, settings, notes)


def _texts(settings: SpecificitySettings, captions: Path) -> tuple[pd.DataFrame, list[str]]:
    images, categories, notes = read_images(captions, Path(settings.instances or ""), settings.narratives)
    if settings.sample is not None and settings.sample < len(images):
        drawn = np.random.default_rng(settings.seed).choice(len(images), size=settings.sample, replace=False)
        notes.append(f"{settings.sample:,} of {len(images):,} images drawn at random.")
        images = [images[i] for i in sorted(drawn.tolist())]
    if settings.images is not None:
        missing = [image.file for image in images if not (settings.images / image.file).is_file()]
        if missing:
            message = f"{len(missing):,} of {len(images):,} images are not in the folder, such as {missing[0]}."
            raise ImageError(message, file=settings.images, remedy="Give the folder of the captions file's images.")
    templates = read_label_prompts(settings.templates)
    if len(templates) != 1:
        raise DataError("Give only one prompt template.", file=settings.templates, value=len(templates))
    words = read_words(categories, settings.words)
    return make_texts(images, words, templates[0], negatives=settings.negatives, seed=settings.seed), notes


def score(encoder: ClipEncoder, texts: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Returns the pairs with the cosine of image and text (paper 3, eq. 1); embeddings are cached on disk.

    Args:
        encoder: A CLIP model.
        texts: Columns image, file, kind and text.
        folder: The folder of the images.

    Raises:
        ImageError: If images cannot be used; it names all of them.
        ModelError: If the model gives no vector for an image or a text.
    """
    from taxtune.encoders.vectors import checked_images, stored_images

    files = list(texts["file"].unique())
    # All images are checked before the first is encoded.
    hashes = dict(zip(files, checked_images(encoder, [folder / file for file in files]), strict=True))
    scores = []
    with track("images", len(files)) as task:
        for start in range(0, len(files), encoder.batch_size):
            batch = files[start : start + encoder.batch_size]
            rows = texts[texts["file"].isin(batch)]
            images = stored_images(encoder, [folder / file for file in batch], sha256=[hashes[file] for file in batch])
            codes, unique = pd.factorize(rows["text"])
            vectors = encoder.stored(list(unique))
            check_vectors(encoder.name, {"images": images, "texts": vectors})
            own = images[[batch.index(file) for file in rows["file"]]]
            # Widened before they are rounded: a rounded float32 is not the float64 of the same digits.
            cosines = np.einsum("ij,ij->i", vectors[codes], own).astype(np.float64)
            scores.append(pd.Series(rounded(cosines), index=rows.index))
            task.advance(len(batch))
    return texts.assign(score=pd.concat(scores))


def _truncated(encoder: ClipEncoder, texts: pd.DataFrame) -> list[str]:
    right = texts.loc[texts["kind"].isin(POSITIVES), "text"].unique().tolist()
    cut = int(encoder.truncated(right).sum())
    limit = f"fill the model's limit of {encoder.context_length} tokens and may be truncated"
    return [f"{encoder.name}: {cut:,} of {len(right):,} right texts {limit}."] if cut else []


def read_pairs(path: Path) -> pd.DataFrame:
    """Returns pairs that any model has scored, from a table or JSON lines with image, kind, text and score.

    Raises:
        DataError: If columns, texts, kinds or scores are missing or unknown, or a pair is repeated.
    """
    lines, records = zip(*read_records(path, what="pairs"), strict=True)
    pairs = pd.DataFrame(records, index=lines)
    if lacking := [name for name in _COLUMNS if name not in pairs]:
        raise DataError(f"The file has no column {', '.join(lacking)}.", file=path)
    pairs["score"] = pd.to_numeric(
        pairs["score"].mask(pairs["score"].map(lambda cell: isinstance(cell, bool))), errors="coerce"
    )
    for name in ("image", "kind", "text"):
        usable = pairs[name].map(lambda cell: isinstance(cell, str | int) and bool(str(cell).strip()))
        pairs[name] = pairs[name].astype(str).where(usable, "")
    for wrong, problem in (
        ((pairs[["image", "text"]] == "").any(axis=1), "has no image or no text"),
        (~pairs["kind"].isin(_ALL), f"has an unknown kind of text; known are {', '.join(_ALL)}"),
        (~(pairs["score"].abs() <= _LARGEST), "has a score that is missing, not finite or too large to average"),
        (pairs.duplicated(["image", "kind", "text"]), "repeats a pair"),
    ):
        if wrong.any():
            i = int(wrong.to_numpy().argmax())
            count = "" if wrong.sum() == 1 else f" ({int(wrong.sum()):,} such rows)"
            raise DataError(f"The row {problem}{count}.", file=path, row=lines[i], value=records[i])
    for kinds, side in ((POSITIVES, "right"), (NEGATIVES, "wrong")):
        if not pairs["kind"].isin(kinds).any():
            raise DataError(f"The file has no {side} texts.", file=path, remedy=f"Their kinds are {', '.join(kinds)}.")
    return pairs


def precisions(pairs: pd.DataFrame) -> dict[tuple[str, str], pd.Series]:
    """Returns the average precision of each image by kinds of right and wrong texts; NaN where it lacks a kind."""
    from sklearn.metrics import average_precision_score

    by = {key: some.to_numpy() for key, some in pairs.groupby(["image", "kind"], sort=False)["score"]}

    def precision(image: str, right: str, wrong: str) -> float:
        if (image, right) not in by or (image, wrong) not in by:
            return np.nan
        good, bad = by[image, right], by[image, wrong]
        truth = np.arange(len(good) + len(bad)) < len(good)
        return float(average_precision_score(truth, np.concatenate([good, bad])))

    images = pairs["image"].unique()
    return {
        (right, wrong): pd.Series([precision(image, right, wrong) for image in images], index=images)
        for right in POSITIVES
        for wrong in NEGATIVES
    }


# -- the report -------------------------------------------------------------------------------------------------------


def report(
    scored: Sequence[tuple[str, pd.DataFrame]], settings: SpecificitySettings, notes: Sequence[str]
) -> StudyReport:
    """Returns the tables and figures of one or more scored sets of pairs with their names."""
    columns = [f"vs {shown}" for shown in NEGATIVES.values()]
    table: list[tuple[Cell, ...]] = []
    shapes: list[tuple[Cell, ...]] = []
    intervals: list[tuple[tuple[Cell, ...], Interval]] = []
    notes = list(notes)
    names = distinct_names([name for name, _ in scored])
    for name, (_, pairs) in zip(names, scored, strict=True):
        values = {" ".join(key): by_image.to_numpy() for key, by_image in precisions(pairs).items()}
        means = bootstrap(Sample(values), resamples=settings.resamples, seed=settings.seed)
        for right, shown in POSITIVES.items():
            cells = [(wrong, means[f"{right} {wrong}"], values[f"{right} {wrong}"]) for wrong in NEGATIVES]
            table.append((name, shown, *(100 * mean.estimate for _, mean, _ in cells)))
            intervals += [
                ((name, shown, NEGATIVES[wrong], int(np.isfinite(of_image).sum())), mean)
                for wrong, mean, of_image in cells
            ]
        shapes += _distributions(name, pairs)
        images = pairs["image"].nunique()
        level = pairs.groupby("image")["score"].agg(lambda some: len(some) > 1 and some.max() == some.min())
        if level.any():
            notes.append(f"{name}: {int(level.sum()):,} of {images:,} images have the same score for all their texts.")
        for kind, shown in _ALL.items():
            sizes = pairs[pairs["kind"] == kind].groupby("image").size()
            if len(sizes) < images:
                lacking = f"{images - len(sizes):,} of {images:,} images have no text of the kind {shown!r}"
                notes.append(f"{name}: {lacking} and are left out of its cells.")
            if kind in NEGATIVES and (sizes < sizes.max()).any():
                few = f"{int((sizes < sizes.max()).sum()):,} of {images:,} images have fewer than {sizes.max():,} texts"
                notes.append(f"{name}: {few} of the kind {shown!r} (mean {sizes.mean():.1f}): all of them are used.")
    return StudyReport(
        study="specificity",
        title="Does a model prefer right texts of any specificity to subtly wrong ones?",
        settings=settings.record(),
        tables=(
            Table(
                "specificity",
                "Image-to-text retrieval, mAP in % (paper 3, Table 3)",
                ("scores", "right texts", *columns),
                tuple(table),
                digits=dict.fromkeys(columns, 2),
                notes=(
                    "Rows: the right texts of an image; columns: the wrong texts that they are ranked against. Related "
                    "images share an object label with it; altered captions are its own captions with one object "
                    "replaced by one that is not in the image.",
                ),
            ),
            intervals_table(
                ("scores", "right texts", "wrong texts", "images"),
                intervals,
                f"Percentile bootstrap over the images, {settings.resamples:,} resamples.",
                value="mAP",
            ),
            Table(
                "distributions",
                "Scores by kind of text (paper 3, Figure 5)",
                ("scores", "side", "texts", "n", "mean", "SD", "above one label"),
                tuple(shapes),
                digits={"above one label": 1},
                notes=(
                    "Above one label: % of images whose wrong texts of this kind score higher on average than the "
                    "right prompt with one label.",
                ),
            ),
        ),
        figures={
            stem: partial(draw, pairs)
            for stem, (_, pairs) in zip(numbered("specificity-scores", len(scored)), scored, strict=True)
        },
        notes=tuple(notes),
    )


def _distributions(name: str, pairs: pd.DataFrame) -> list[tuple[Cell, ...]]:
    means = pairs.pivot_table(index="image", columns="kind", values="score")
    rows: list[tuple[Cell, ...]] = []
    for kind, shown in _ALL.items():
        values = pairs.loc[pairs["kind"] == kind, "score"]
        if len(values):
            both = means.reindex(columns=["single", kind]).dropna()
            below = 100 * (both["single"] < both[kind]).mean() if kind in NEGATIVES else np.nan
            side = "right" if kind in POSITIVES else "wrong"
            rows.append((name, side, shown, len(values), float(values.mean()), float(values.std(ddof=0)), float(below)))
    return rows


def _texts_report(texts: pd.DataFrame, notes: list[str], settings: dict[str, Any]) -> StudyReport:
    sizes = texts.groupby(["image", "kind"]).size().unstack(fill_value=0).reindex(columns=list(_ALL), fill_value=0)
    table = Table(
        "texts",
        f"Texts of {len(sizes):,} images; nothing has been scored yet",
        ("side", "texts", "n", "images that have any", "fewest", "most"),
        tuple(
            ("right" if kind in POSITIVES else "wrong", shown, *map(int, (n.sum(), (n > 0).sum(), n.min(), n.max())))
            for kind, shown in _ALL.items()
            for n in [sizes[kind]]
        ),
        notes=("Add a `score` to each line of the file of pairs, then pass the file with --scored.",),
    )
    return StudyReport("specificity", "The texts of the specificity study", settings, (table,), notes=tuple(notes))


def draw(pairs: pd.DataFrame) -> Figure:
    """Draws the scores of right texts, of wrong ones, and by how much the one-label prompt exceeds the wrong ones."""
    from matplotlib.figure import Figure

    from taxtune.report.drawing import CYCLE

    single = pairs[pairs["kind"] == "single"].set_index("image")["score"]
    gaps = pairs.assign(score=pairs["image"].map(single) - pairs["score"]).dropna()
    figure = Figure(figsize=(10.5, 3.6), layout="constrained")
    panels = (
        ("Right texts", pairs, POSITIVES, "score of image and text"),
        ("Wrong texts", pairs, NEGATIVES, "score of image and text"),
        ("One label against wrong texts", gaps, NEGATIVES, "score of one label − of wrong text"),
    )
    for axes, (title, data, kinds, label) in zip(figure.subplots(1, 3), panels, strict=True):
        edges = np.histogram_bin_edges(data["score"], bins=40)
        for color, (kind, shown) in zip(CYCLE, kinds.items(), strict=False):
            values = data.loc[data["kind"] == kind, "score"]
            if len(values):
                axes.hist(values, edges, density=True, histtype="step", color=color, label=shown)
        axes.set(title=title, xlabel=label, yticks=[])
        axes.legend(fontsize=8)
    return figure
