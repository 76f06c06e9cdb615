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
from taxtune.errors import DataError
from taxtune.metrics.statistics import Interval, Sample, bootstrap
from taxtune.progress import track
from taxtune.report.output import Cell, StudyReport, intervals_table, numbered
from taxtune.studies.embedding import (
    check_vectors,
    distinct_names,
    make_clip,
    read_label_prompts,
    rounded,
    shown_name,
)
from taxtune.studies.output import frame_table
from taxtune.studies.specificity.settings import SpecificitySettings
from taxtune.studies.specificity.texts import make_texts, read_images, read_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from taxtune.encoders.clip import ClipEncoder

__all__ = [
    "NEGATIVES",
    "POSITIVES",
    "draw",
    "precisions",
    "read_pairs",
    "report",
    "run",
    "score",
]

#: Kinds of right and of wrong texts, with the names that the tables show.
POSITIVES = {
    "caption": "captions",
    "multi": "all labels",
    "single": "one label",
    "narrative": "narrative",
}
NEGATIVES = {
    "random": "random images'",
    "related": "related images'",
    "altered": "altered captions",
}
_ALL = POSITIVES | NEGATIVES
_CELLS = [(right, wrong) for right in POSITIVES for wrong in NEGATIVES]
_COLUMNS = ("image", "kind", "text", "score")
_LARGEST = 1e100  # scores beyond this overflow in a mean


def run(settings: SpecificitySettings) -> StudyReport:
    """Tell whether a model scores right texts above subtly wrong ones (paper 3, Table 3 and Figure 5).

    Without a model it only makes the texts and writes the pairs.

    Raises:
        TaxtuneError: If a file or a model is missing or malformed.
    """
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
            atomic.write_text(
                settings.pairs, pairs.to_json(orient="records", lines=True, force_ascii=False)
            )
        if not scored:
            return _texts_report(texts, notes, settings.record())
    return report(scored, settings, notes)


def _texts(settings: SpecificitySettings, captions: Path) -> tuple[pd.DataFrame, list[str]]:
    images, categories, notes = read_images(
        captions, Path(settings.instances or ""), settings.narratives
    )
    if settings.sample is not None and settings.sample < len(images):
        drawn = np.random.default_rng(settings.seed).choice(
            len(images), size=settings.sample, replace=False
        )
        notes.append(f"{settings.sample:,} of {len(images):,} images drawn at random.")
        images = [images[i] for i in sorted(drawn.tolist())]
    (template,) = read_label_prompts("photo")
    words = read_words(categories)
    return make_texts(
        images, words, template, negatives=settings.negatives, seed=settings.seed
    ), notes


def score(encoder: ClipEncoder, texts: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Returns the pairs with the cosine of image and text (paper 3, eq. 1); embeddings are cached on disk.

    Args:
        encoder: A CLIP model.
        texts: Columns image, file (in the folder), kind and text.
        folder: The folder of the images.

    Raises:
        ImageError: If images cannot be used; it names all of them.
        ModelError: If the model gives no vector for an image or a text.
    """
    from taxtune.data.embeddings import checked_images, stored_images

    files = list(texts["file"].unique())
    # All images are checked before the first is encoded.
    hashes = dict(
        zip(files, checked_images(encoder, [folder / file for file in files]), strict=True)
    )
    scores = []
    with track("images", len(files)) as task:
        for start in range(0, len(files), encoder.batch_size):
            batch = files[start : start + encoder.batch_size]
            rows = texts[texts["file"].isin(batch)]
            images = stored_images(
                encoder, [folder / file for file in batch], sha256=[hashes[file] for file in batch]
            )
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
    pairs = pd.DataFrame(records)
    if lacking := [name for name in _COLUMNS if name not in pairs]:
        raise DataError(f"The file has no column {', '.join(lacking)}.", file=path)
    is_true = pairs["score"].map(lambda cell: isinstance(cell, bool))
    pairs["score"] = pd.to_numeric(pairs["score"].mask(is_true), errors="coerce")
    for name in ("image", "kind", "text"):
        usable = pairs[name].map(
            lambda cell: isinstance(cell, str | int) and bool(str(cell).strip())
        )
        pairs[name] = pairs[name].astype(str).where(usable, "")
    for wrong, problem in (
        ((pairs[["image", "text"]] == "").any(axis=1), "has no image or no text"),
        (~pairs["kind"].isin(_ALL), f"has an unknown kind of text; known are {', '.join(_ALL)}"),
        (
            ~(pairs["score"].abs() <= _LARGEST),
            "has a score that is missing, not finite or too large to average",
        ),
        (pairs.duplicated(["image", "kind", "text"]), "repeats a pair"),
    ):
        if wrong.any():
            i = int(wrong.to_numpy().argmax())
            message = f"The row {problem} ({int(wrong.sum()):,} such rows)."
            raise DataError(message, file=path, row=lines[i], value=records[i])
    for kinds, side in ((POSITIVES, "right"), (NEGATIVES, "wrong")):
        if not pairs["kind"].isin(kinds).any():
            raise DataError(
                f"The file has no {side} texts.",
                file=path,
                remedy=f"Their kinds are {', '.join(kinds)}.",
            )
    return pairs


def precisions(pairs: pd.DataFrame) -> pd.DataFrame:
    """Returns the average precision of each image, by kinds of right and wrong texts; NaN where it lacks a kind."""
    from sklearn.metrics import average_precision_score

    scores = {key: some.to_numpy() for key, some in pairs.groupby(["image", "kind"])["score"]}

    def precision(image: str, right: str, wrong: str) -> float:
        if (image, right) not in scores or (image, wrong) not in scores:
            return np.nan
        good, bad = scores[image, right], scores[image, wrong]
        return float(
            average_precision_score([True] * len(good) + [False] * len(bad), [*good, *bad])
        )

    images = pairs["image"].unique()
    values = {cell: [precision(image, *cell) for image in images] for cell in _CELLS}
    return pd.DataFrame(values, index=images)


# -- the report -------------------------------------------------------------------------------------------------------


def report(
    scored: Sequence[tuple[str, pd.DataFrame]], settings: SpecificitySettings, notes: Sequence[str]
) -> StudyReport:
    """Returns the tables and figures of one or more scored sets of pairs with their names."""
    means: list[tuple[tuple[Cell, ...], Interval]] = []
    shapes, notes = [], list(notes)
    names = distinct_names([name for name, _ in scored])
    for name, (_, pairs) in zip(names, scored, strict=True):
        values = precisions(pairs)
        columns = {" ".join(cell): values[cell].to_numpy() for cell in _CELLS}
        intervals = bootstrap(Sample(columns), resamples=settings.resamples, seed=settings.seed)
        for right, wrong in _CELLS:
            images = int(values[right, wrong].notna().sum())
            means.append(
                ((name, POSITIVES[right], NEGATIVES[wrong], images), intervals[f"{right} {wrong}"])
            )
        shapes.append(_distributions(name, pairs))
        by_image = pairs.groupby("image")
        level = (by_image["score"].nunique() == 1) & (by_image.size() > 1)
        of_all = f"of {by_image.ngroups:,} images"
        if level.any():
            notes.append(
                f"{name}: {int(level.sum()):,} {of_all} have the same score for all their texts."
            )
        for kind, shown in _ALL.items():
            sizes = pairs[pairs["kind"] == kind].groupby("image").size()
            if lacking := by_image.ngroups - len(sizes):
                notes.append(
                    f"{name}: {lacking:,} {of_all} have no text of the kind {shown!r} and are left out there."
                )
            if kind in NEGATIVES and (few := int((sizes < sizes.max()).sum())):
                fewer = f"have fewer than {sizes.max():,} texts of the kind {shown!r} (mean {sizes.mean():.1f})"
                notes.append(f"{name}: {few:,} {of_all} {fewer}.")
    heads = ["scores", "right texts", "wrong texts"]
    long = pd.DataFrame(
        [(*of[:3], 100 * one.estimate) for of, one in means], columns=[*heads, "mAP"]
    )
    wide = (
        long.assign(**{heads[2]: "vs " + long[heads[2]]})
        .set_index(heads)["mAP"]
        .unstack(sort=False)
        .reset_index()
    )
    stems = numbered("specificity-scores", len(scored))
    return StudyReport(
        study="specificity",
        title="Does a model prefer right texts of any specificity to subtly wrong ones?",
        settings=settings.record(),
        tables=(
            frame_table(
                "specificity",
                "Image-to-text retrieval, mAP in % (paper 3, Table 3)",
                wide,
                "Rows: the right texts of an image; columns: the wrong texts that they are ranked against. Related "
                "images share an object label with it; altered captions are its own captions with one object "
                "replaced by one that is not in the image.",
                digits=dict.fromkeys(wide.columns[2:], 2),
            ),
            intervals_table(
                (*heads, "images"),
                means,
                f"Percentile bootstrap over the images, {settings.resamples:,} resamples.",
                value="mAP",
            ),
            frame_table(
                "distributions",
                "Scores by kind of text (paper 3, Figure 5)",
                pd.concat(shapes),
                "Above one label: % of images whose wrong texts of this kind score higher on average than the right "
                "prompt with one label.",
                digits={"above one label": 1},
            ),
        ),
        figures={
            stem: partial(draw, pairs) for stem, (_, pairs) in zip(stems, scored, strict=True)
        },
        notes=tuple(notes),
    )


def _distributions(name: str, pairs: pd.DataFrame) -> pd.DataFrame:
    """A row per kind of text: how many there are, their scores, and how often wrong ones exceed one label."""
    by_kind = pairs.groupby("kind")["score"]
    rows = pd.DataFrame(
        {"scores": name, "texts": _ALL, "n": by_kind.size(), "mean": by_kind.mean()}
    )
    rows["SD"] = by_kind.std(ddof=0)
    means = pairs.pivot_table(index="image", columns="kind", values="score").reindex(
        columns=list(_ALL)
    )
    differences = means.sub(means["single"], axis=0)
    above = (differences > 0).where(differences.notna()).mean()
    rows["above one label"] = 100 * above[list(NEGATIVES)]
    return rows.reindex(list(_ALL)).dropna(subset="n").astype({"n": int})


def _texts_report(texts: pd.DataFrame, notes: list[str], settings: dict[str, Any]) -> StudyReport:
    sizes = (
        texts.groupby(["kind", "image"])
        .size()
        .unstack(fill_value=0)
        .reindex(list(_ALL), fill_value=0)
    )
    table = pd.DataFrame(
        {"texts": _ALL, "n": sizes.sum(axis=1), "images that have any": (sizes > 0).sum(axis=1)}
    )
    made = frame_table(
        "texts",
        f"Texts of {sizes.shape[1]:,} images; nothing has been scored yet",
        table.assign(fewest=sizes.min(axis=1), most=sizes.max(axis=1)),
        "Add a `score` to each line of the file of pairs, then pass the file with --scored.",
    )
    return StudyReport(
        "specificity", "The texts of the specificity study", settings, (made,), notes=tuple(notes)
    )


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
