"""Scores of an image's texts: by a CLIP model, or in a file of pairs that any model has scored."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taxtune import atomic
from taxtune.answers.records import open_table
from taxtune.encoders.base import FloatMatrix
from taxtune.errors import DataError, ImageError, shortened
from taxtune.progress import track
from taxtune.studies.embedding import check_vectors, rounded
from taxtune.studies.specificity.texts import KINDS, ImageTexts

if TYPE_CHECKING:
    from taxtune.encoders.clip import ClipEncoder

__all__ = ["ScoredTexts", "check_files", "read_pairs", "score_with_clip", "write_pairs"]

FloatArray = NDArray[np.float64]
_TEXTS = 1024  # texts embedded between two steps of the progress bar
_LARGEST = 1e100  # of what is larger no mean can be taken
_COLUMNS = ("image", "kind", "text", "score")


@dataclass(frozen=True, slots=True)
class ScoredTexts:
    """The scores of the texts of every image.

    Attributes:
        name: Where the scores are from.
        images: The images' ids.
        scores: For each image, the scores of its texts by kind; a kind may be missing.
        notes: What to know about them, with counts.
    """

    name: str
    images: tuple[str, ...]
    scores: tuple[Mapping[str, FloatArray], ...]
    notes: tuple[str, ...] = ()

    def of(self, kind: str) -> list[FloatArray]:
        """Returns the scores of each image's texts of a kind; an empty array where it has none."""
        return [texts.get(kind, np.zeros(0)) for texts in self.scores]

    def means(self, kind: str) -> FloatArray:
        """Returns the mean score of each image's texts of a kind, NaN where it has none, shape (images,)."""
        return np.array([float(values.mean()) if len(values) else math.nan for values in self.of(kind)])


# -- a CLIP model -----------------------------------------------------------------------------------------------------


def check_files(names: Sequence[str], folder: Path) -> None:
    """Checks that images are in their folder.

    Raises:
        ImageError: If not; it counts them and names some.
    """
    if not folder.is_dir():
        raise ImageError("The folder of images does not exist.", file=folder, remedy="Check the path.")
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise ImageError(
            f"{len(missing):,} of {len(names):,} images are not in the folder:\n"
            + "\n".join(f"  {name}" for name in shortened(missing, 10)),
            file=folder,
            remedy="\nGive the folder with the images of the captions file.",
        )


def score_with_clip(
    encoder: ClipEncoder,
    name: str,
    made: Sequence[ImageTexts],
    folder: Path,
) -> ScoredTexts:
    """Returns the cosine of every image with each of its texts (paper 3, eq. 1), rounded.

    Embeddings of images, and of texts that images share, as captions are, are kept on disk. Altered captions, of which
    there are as many as 100 an image, are embedded batch by batch, so that memory holds few of them at a time; of these
    the scores are kept.

    Args:
        encoder: A CLIP model.
        name: How it is called in tables.
        made: The texts.
        folder: The folder of the images.

    Raises:
        ImageError: If images cannot be used; it names all of them.
        ModelError: If the model gives no vector for an image or a text.
    """
    from taxtune.encoders.vectors import checked_images, stored_images

    files = [folder / item.file_name for item in made]
    # Those that were not encoded before are known to be sound before the first text is embedded.
    hashes = checked_images(encoder, files)
    shared = {t: i for i, t in enumerate(dict.fromkeys(t for m in made for k in KINDS[:-1] for t in m.texts[k]))}
    texts, parts = list(shared), []
    with track("embedding texts", len(texts)) as task:
        for start in range(0, len(texts), _TEXTS):
            parts.append(encoder.stored(texts[start : start + _TEXTS]))
            task.advance(len(texts[start : start + _TEXTS]))
    vectors = np.concatenate(parts)
    check_vectors(encoder.name, {"texts": vectors})
    scores: list[Mapping[str, FloatArray]] = []
    with track("images", len(made)) as task:
        for start in range(0, len(made), encoder.batch_size):
            part = slice(start, start + encoder.batch_size)
            batch = made[part]
            images = stored_images(encoder, files[part], sha256=hashes[part])
            check_vectors(encoder.name, {f"images, {batch[0].file_name} to {batch[-1].file_name}": images})
            altered = _altered(encoder, batch, hashes[part], images)
            for image, item, of_altered in zip(images, batch, altered, strict=True):
                cosines: dict[str, FloatArray] = {
                    kind: _ranked(vectors[[shared[text] for text in item.texts[kind]]] @ image) for kind in KINDS[:-1]
                }
                scores.append({**cosines, "altered": of_altered})
            task.advance(len(batch))
    return ScoredTexts(name, tuple(item.image for item in made), tuple(scores), _cut(encoder, made))


def _ranked(cosines: NDArray[np.floating]) -> FloatArray:
    # Widened first: a rounded float32 is not the float64 of the same digits.
    return np.asarray(rounded(cosines.astype(np.float64)), dtype=np.float64)


def _altered(
    encoder: ClipEncoder, batch: Sequence[ImageTexts], hashes: Sequence[str], images: FloatMatrix
) -> list[FloatArray]:
    """Returns the cosines of images with their altered captions; the scores are kept on disk, the many vectors not."""
    from taxtune.metrics.model_pairs import ScoreStore

    kept = ScoreStore(encoder.cache_dir)
    identity = {**encoder.identity, "kind": "clip image and text", "preprocessing": encoder.preprocessing}
    items = [(key, text) for key, item in zip(hashes, batch, strict=True) for text in item.texts["altered"]]
    owner = np.repeat(np.arange(len(batch)), [len(item.texts["altered"]) for item in batch])
    values = np.array([math.nan if score is None else score for score in kept.get(identity, items)], dtype=np.float64)
    fresh = np.flatnonzero(np.isnan(values))
    if fresh.size:
        texts = {text: i for i, text in enumerate(dict.fromkeys(items[i][1] for i in fresh.tolist()))}
        vectors = encoder.texts(list(texts))
        check_vectors(encoder.name, {"altered captions": vectors})
        rows = vectors[[texts[items[i][1]] for i in fresh.tolist()]]
        values[fresh] = np.einsum("ij,ij->i", rows, images[owner[fresh]])
        kept.put(identity, [(items[i], float(values[i])) for i in fresh.tolist()])
    return [_ranked(values[owner == i]) for i in range(len(batch))]


def _cut(encoder: ClipEncoder, made: Sequence[ImageTexts]) -> tuple[str, ...]:
    """Returns a note for every kind of text that the model cannot read to the end."""
    notes = []
    for kind, shown in (("caption", "captions"), ("multi", "all labels"), ("narrative", "narrative")):
        texts = list(dict.fromkeys(text for item in made for text in item.texts[kind]))
        cut = int(encoder.truncated(texts).sum()) if texts else 0
        if cut:
            notes.append(
                f"{encoder.name}: {cut:,} of {len(texts):,} texts ({shown}) fill the model's limit of "
                f"{encoder.context_length} tokens and may be truncated."
            )
    return tuple(notes)


# -- files of pairs ---------------------------------------------------------------------------------------------------


def write_pairs(path: Path, made: Sequence[ImageTexts], scored: ScoredTexts | None = None) -> Path:
    """Writes every pair of an image and a text, one JSON object per line: to look at, or to be scored by another model.

    Args:
        path: The file.
        made: The texts.
        scored: Their scores, or None: a `score` is to be added to each line.

    Raises:
        TaxtuneError: If the file cannot be written.
    """
    lines = [
        json.dumps(
            {"image": item.image, "file": item.file_name, "kind": kind, "text": text}
            | ({} if scored is None else {"score": float(scored.scores[i][kind][j])}),
            ensure_ascii=False,
        )
        for i, item in enumerate(made)
        for kind, texts in item.texts.items()
        for j, text in enumerate(texts)
    ]
    return atomic.write_text(path, "".join(f"{line}\n" for line in lines))


def read_pairs(path: Path) -> ScoredTexts:
    """Reads scored pairs: JSONL or CSV with image, kind, text and score.

    Raises:
        DataError: If the file is not of that form, a kind is unknown, a pair stands twice, or a score is missing or no
            finite number.
    """
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".tsv", ".jsonl", ".ndjson"):
        raise DataError("The name of a file of pairs must end in .jsonl or .csv.", file=path, value=suffix)
    records = [*open_table(path, what="pairs", harnesses=False).rows]
    lacking = [name for name in _COLUMNS if suffix in (".csv", ".tsv") and name not in records[0][1]]
    if lacking:
        raise DataError(f"The file has no column {', '.join(lacking)}.", file=path)
    images: dict[str, dict[str, list[float]]] = {}
    seen: dict[tuple[str, str, str], int] = {}
    wrong: list[str] = []
    for row, record in records:
        if not record:
            continue
        image, kind, text = (_name(record.get(name)) for name in _COLUMNS[:3])
        if not (image and kind and text):
            absent = next(name for name, value in zip(_COLUMNS, (image, kind, text), strict=False) if not value)
            raise DataError(
                f"A pair needs image, kind, text and score: there is no {absent}.",
                file=path,
                row=row,
                value=record.get(absent),
            )
        if kind not in KINDS:
            raise DataError("Unknown kind of text.", file=path, row=row, value=kind, remedy=", ".join(KINDS))
        first = seen.setdefault((image, kind, text), row)
        if first != row:
            raise DataError(
                f"The pair is already in row {first}: image {image}, {kind}.",
                file=path,
                row=row,
                value=text,
                remedy="Keep one of them: a repeated text would count twice.",
            )
        score = _score(record.get("score"))
        if not abs(score) <= _LARGEST:
            wrong.append(f"  row {row}: image {image}, {kind}, {text[:80]!r}: {record.get('score')!r}")
        images.setdefault(image, {}).setdefault(kind, []).append(score)
    if wrong:
        raise DataError(
            f"Scores that are missing, not finite or beyond {_LARGEST:.0e} ({len(wrong):,}):\n"
            + "\n".join(shortened(wrong, 10)),
            file=path,
            remedy="\nScore these pairs or remove them: unscored pairs cannot be ranked.",
        )
    scores = tuple({kind: np.array(values) for kind, values in kinds.items()} for kinds in images.values())
    return ScoredTexts(str(path), tuple(images), scores)


def _name(value: object) -> str:
    """Returns a text, or a whole number as one; "" for anything else and for a text of spaces."""
    usable = isinstance(value, int | str) and not isinstance(value, bool) and str(value).strip()
    return str(value) if usable else ""


def _score(value: object) -> float:
    """Returns a number, or a text that is one; NaN for anything else, true and false included."""
    try:
        return math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]  # what it is is tried
    except (TypeError, ValueError, OverflowError):
        return math.nan
