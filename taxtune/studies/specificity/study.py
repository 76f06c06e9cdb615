"""Does a model prefer right texts of any specificity to subtly wrong ones? Paper 3, §5, Table 3 and Figure 5.

Everything works on one table of pairs (image, kind, text, score). An image's right texts of one kind are to be ranked
above its wrong texts of one kind; the mean over images of the average precision is a cell of Table 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from taxtune import atomic
from taxtune.answers import read_records
from taxtune.data.embeddings import checked_images, stored_images
from taxtune.errors import DataError
from taxtune.metrics.statistics import Sample, bootstrap
from taxtune.progress import track
from taxtune.report.drawing import CYCLE
from taxtune.report.output import StudyReport, Table, numbered
from taxtune.studies.embedding import (
    check_vectors,
    distinct_names,
    make_clip,
    read_label_prompts,
    rounded,
    shown_name,
)
from taxtune.studies.frames import groups
from taxtune.studies.output import frame_table, intervals_table
from taxtune.studies.placements import interval_frame
from taxtune.studies.specificity.coco import read_coco
from taxtune.studies.specificity.mentions import read_words
from taxtune.studies.specificity.settings import SpecificitySettings
from taxtune.studies.specificity.texts import make_texts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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
_HEADS = ["scores", "right texts", "wrong texts"]
_GROUP = ["image", "kind"]
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
            lines = pairs.to_json(orient="records", lines=True, force_ascii=False)
            atomic.write_text(settings.pairs, lines)
        if not scored:
            return _texts_report(texts, notes, settings.record())
    return report(scored, settings, notes)


def _texts(settings: SpecificitySettings, captions: Path) -> tuple[pd.DataFrame, list[str]]:
    """Returns the texts of all images, or of those that are drawn, and notes on what was left out."""
    instances = Path(settings.instances or "")
    images, categories, notes = read_coco(captions, instances, settings.narratives)
    if settings.sample is not None and settings.sample < len(images):
        rng = np.random.default_rng(settings.seed)
        drawn = rng.choice(len(images), size=settings.sample, replace=False)
        notes.append(f"{settings.sample:,} of {len(images):,} images drawn at random.")
        images = [images[i] for i in sorted(drawn.tolist())]
    (template,) = read_label_prompts("photo")
    words = read_words(categories)
    texts = make_texts(images, words, template, negatives=settings.negatives, seed=settings.seed)
    return texts, notes


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
    files = list(texts["file"].unique())
    # All images are checked before the first is encoded.
    hashes = checked_images(encoder, [folder / file for file in files])
    hash_of = dict(zip(files, hashes, strict=True))
    scores = []
    with track("images", len(files)) as task:
        for start in range(0, len(files), encoder.batch_size):
            batch = files[start : start + encoder.batch_size]
            paths = [folder / file for file in batch]
            images = stored_images(encoder, paths, sha256=[hash_of[file] for file in batch])
            rows = texts[texts["file"].isin(batch)]
            codes, unique = pd.factorize(rows["text"])
            vectors = encoder.stored(list(unique))
            check_vectors(encoder.name, {"images": images, "texts": vectors})
            own = images[rows["file"].map(batch.index)]
            # Widened before they are rounded: a rounded float32 is not the float64 of the same digits.
            cosines = np.einsum("ij,ij->i", vectors[codes], own).astype(np.float64)
            scores.append(pd.Series(rounded(cosines), index=rows.index))
            task.advance(len(batch))
    return texts.assign(score=pd.concat(scores))


def _truncated(encoder: ClipEncoder, texts: pd.DataFrame) -> list[str]:
    right = texts[texts["kind"].isin(POSITIVES)]["text"].unique().tolist()
    cut = int(encoder.truncated(right).sum())
    if not cut:
        return []
    limit = f"fill the model's limit of {encoder.context_length} tokens and may be truncated"
    return [f"{encoder.name}: {cut:,} of {len(right):,} right texts {limit}."]


def read_pairs(path: Path) -> pd.DataFrame:
    """Returns pairs that any model has scored, from a table or JSON lines with image, kind, text and score.

    Raises:
        DataError: If columns, texts, kinds or scores are missing or unknown, or a pair is repeated.
    """
    lines, rows = zip(*read_records(path, what="pairs"), strict=True)
    pairs = pd.DataFrame(rows)
    lacking = [name for name in _COLUMNS if name not in pairs]
    if lacking:
        raise DataError(f"The file has no column {', '.join(lacking)}.", file=path)
    is_bool = pairs["score"].map(lambda cell: isinstance(cell, bool))
    pairs["score"] = pd.to_numeric(pairs["score"].mask(is_bool), errors="coerce")
    for name in ("image", "kind", "text"):
        pairs[name] = pairs[name].map(_text)
    known = f"known are {', '.join(_ALL)}"
    is_blank = pairs[["image", "text"]] == ""
    is_usable = pairs["score"].abs() <= _LARGEST
    problems = {"has no image or no text": is_blank.any(axis=1)}
    problems[f"has an unknown kind of text; {known}"] = ~pairs["kind"].isin(_ALL)
    problems["has a score that is missing, not finite or too large to average"] = ~is_usable
    problems["repeats a pair"] = pairs.duplicated(["image", "kind", "text"])
    for problem, is_wrong in problems.items():
        if is_wrong.any():
            first = int(is_wrong.to_numpy().argmax())
            message = f"The row {problem} ({int(is_wrong.sum()):,} such rows)."
            raise DataError(message, file=path, row=lines[first], value=rows[first])
    for side, kinds in (("right", POSITIVES), ("wrong", NEGATIVES)):
        if not pairs["kind"].isin(kinds).any():
            remedy = f"Their kinds are {', '.join(kinds)}."
            raise DataError(f"The file has no {side} texts.", file=path, remedy=remedy)
    return pairs


def _text(cell: object) -> str:
    """Returns a text or a number as text; "" for anything else, and for blanks."""
    return str(cell) if isinstance(cell, str | int) and str(cell).strip() else ""


def precisions(pairs: pd.DataFrame) -> pd.DataFrame:
    """Returns the average precision of each image, by kinds of right and wrong texts; NaN where it lacks a kind."""
    from sklearn.metrics import average_precision_score

    scores = {key: rows["score"].to_numpy() for key, rows in groups(pairs, _GROUP).items()}

    def precision(image: str, right: str, wrong: str) -> float:
        if (image, right) not in scores or (image, wrong) not in scores:
            return np.nan
        good, bad = scores[image, right], scores[image, wrong]
        is_right = np.arange(len(good) + len(bad)) < len(good)
        return float(average_precision_score(is_right, np.concatenate([good, bad])))

    images = pairs["image"].unique()
    values = {}
    for right, wrong in _CELLS:
        values[right, wrong] = [precision(image, right, wrong) for image in images]
    return pd.DataFrame(values, index=images)


# -- the report -------------------------------------------------------------------------------------------------------


def report(
    scored: Sequence[tuple[str, pd.DataFrame]], settings: SpecificitySettings, notes: Sequence[str]
) -> StudyReport:
    """Returns the tables and figures of one or more scored sets of pairs with their names."""
    names = distinct_names([name for name, _ in scored])
    stems = numbered("specificity-scores", len(scored))
    means, distributions, notes = [], [], list(notes)
    figures = {}
    for name, stem, (_, pairs) in zip(names, stems, scored, strict=True):
        means.append(_means(pairs, settings).assign(scores=name))
        distributions.append(_distributions(name, pairs))
        notes += [f"{name}: {note}" for note in _notes(pairs)]
        figures[stem] = partial(draw, pairs)
    intervals = pd.concat(means, ignore_index=True)
    note = f"Percentile bootstrap over the images, {settings.resamples:,} resamples."
    cells = intervals[[*_HEADS, "images", "mAP", "low", "high"]]
    tables = [_means_table(intervals), intervals_table(cells, note)]
    tables.append(_distributions_table(pd.concat(distributions)))
    return StudyReport(
        study="specificity",
        title="Does a model prefer right texts of any specificity to subtly wrong ones?",
        settings=settings.record(),
        tables=tuple(tables),
        figures=figures,
        notes=tuple(notes),
    )


def _means(pairs: pd.DataFrame, settings: SpecificitySettings) -> pd.DataFrame:
    """Returns a row per kinds of right and wrong texts: images that have both, mAP with its interval, in 0..1."""
    values = precisions(pairs)
    columns = {f"{right} {wrong}": values[right, wrong].to_numpy() for right, wrong in _CELLS}
    intervals = bootstrap(Sample(columns), resamples=settings.resamples, seed=settings.seed)
    rows = interval_frame(intervals).rename(columns={"estimate": "mAP"})
    rows["right texts"] = [POSITIVES[right] for right, _ in _CELLS]
    rows["wrong texts"] = [NEGATIVES[wrong] for _, wrong in _CELLS]
    rows["images"] = values.notna().sum().to_numpy()
    return rows


def _notes(pairs: pd.DataFrame) -> list[str]:
    """Returns notes on images with one score for all texts, and on those that lack texts."""
    notes = []
    by_image = pairs.groupby("image")
    of_all = f"of {by_image.ngroups:,} images"
    is_level = (by_image["score"].nunique() == 1) & (by_image.size() > 1)
    if is_level.any():
        notes.append(f"{is_level.sum():,} {of_all} have the same score for all their texts.")
    for kind, shown in _ALL.items():
        sizes = pairs[pairs["kind"] == kind].groupby("image").size()
        lacking = by_image.ngroups - len(sizes)
        if lacking:
            no_text = f"have no text of the kind {shown!r}"
            notes.append(f"{lacking:,} {of_all} {no_text} and are left out there.")
        few = int((sizes < sizes.max()).sum())
        if kind in NEGATIVES and few:
            texts = f"{sizes.max():,} texts of the kind {shown!r} (mean {sizes.mean():.1f})"
            notes.append(f"{few:,} {of_all} have fewer than {texts}.")
    return notes


def _means_table(intervals: pd.DataFrame) -> Table:
    percent = 100 * intervals.set_index(_HEADS)["mAP"]
    cells = percent.unstack(sort=False).add_prefix("vs ").reset_index()
    return frame_table(
        "specificity",
        "Image-to-text retrieval, mAP in % (paper 3, Table 3)",
        cells,
        "Rows: the right texts of an image; columns: the wrong texts that they are ranked against. Related images "
        "share an object label with it; altered captions are its own captions with one object replaced by one that is "
        "not in the image.",
        digits=2,
    )


def _distributions(name: str, pairs: pd.DataFrame) -> pd.DataFrame:
    """Returns a row per kind of text: the number of texts, their scores, and how often wrong ones exceed one label."""
    by_kind = pairs.groupby("kind")["score"]
    rows = pd.DataFrame({"scores": name, "texts": _ALL})
    rows["n"] = by_kind.size()
    rows["mean"] = by_kind.mean()
    rows["SD"] = by_kind.std(ddof=0)
    means = pairs.pivot_table(index="image", columns="kind", values="score")
    means = means.reindex(columns=list(_ALL))
    differences = means.sub(means["single"], axis=0)
    above = (differences > 0).where(differences.notna()).mean()
    rows["above one label"] = 100 * above[list(NEGATIVES)]
    return rows.dropna(subset="n").astype({"n": int})


def _distributions_table(cells: pd.DataFrame) -> Table:
    return frame_table(
        "distributions",
        "Scores by kind of text (paper 3, Figure 5)",
        cells,
        "Above one label: % of images whose wrong texts of this kind score higher on average than the right prompt "
        "with one label.",
        digits={"above one label": 1},
    )


def _texts_report(texts: pd.DataFrame, notes: list[str], settings: dict[str, Any]) -> StudyReport:
    """Returns the numbers of texts, where there is no model to score them."""
    sizes = texts.groupby(["kind", "image"]).size().unstack(fill_value=0)
    sizes = sizes.reindex(list(_ALL), fill_value=0)
    cells = pd.DataFrame({"texts": _ALL, "n": sizes.sum(axis=1)})
    cells["images that have any"] = (sizes > 0).sum(axis=1)
    cells["fewest"] = sizes.min(axis=1)
    cells["most"] = sizes.max(axis=1)
    table = frame_table(
        "texts",
        f"Texts of {sizes.shape[1]:,} images; nothing has been scored yet",
        cells,
        "Add a `score` to each line of the file of pairs, then pass the file with --scored.",
    )
    return StudyReport(
        study="specificity",
        title="The texts of the specificity study",
        settings=settings,
        tables=(table,),
        notes=tuple(notes),
    )


def draw(pairs: pd.DataFrame) -> Figure:
    """Draws the scores of right texts, of wrong ones, and by how much the one-label prompt exceeds the wrong ones."""
    from matplotlib.figure import Figure

    single = pairs[pairs["kind"] == "single"].set_index("image")["score"]
    gaps = pairs.assign(score=pairs["image"].map(single) - pairs["score"]).dropna()
    figure = Figure(figsize=(10.5, 3.6), layout="constrained")
    right, wrong, one_label = figure.subplots(1, 3)
    _draw_histograms(right, pairs, POSITIVES)
    right.set(title="Right texts", xlabel="score of image and text")
    _draw_histograms(wrong, pairs, NEGATIVES)
    wrong.set(title="Wrong texts", xlabel="score of image and text")
    _draw_histograms(one_label, gaps, NEGATIVES)
    label = "score of one label − of wrong text"
    one_label.set(title="One label against wrong texts", xlabel=label)
    return figure


def _draw_histograms(axes: Axes, pairs: pd.DataFrame, kinds: Mapping[str, str]) -> None:
    """Draws the distribution of the scores of each kind of text, over edges that all share."""
    edges = np.histogram_bin_edges(pairs["score"], bins=40)
    for color, (kind, shown) in zip(CYCLE, kinds.items(), strict=False):
        values = pairs.loc[pairs["kind"] == kind, "score"]
        if len(values):
            axes.hist(
                values, edges.tolist(), density=True, histtype="step", color=color, label=shown
            )
    axes.set_yticks([])
    axes.legend(fontsize=8)
