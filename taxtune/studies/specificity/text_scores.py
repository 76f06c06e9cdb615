"""Scores of an image's texts: by a CLIP model, or from a file of pairs that any model has scored."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taxtune import atomic
from taxtune.data.images import content_hash
from taxtune.encoders.base import FloatMatrix
from taxtune.encoders.clip import ClipEncoder
from taxtune.encoders.image_store import stored_images
from taxtune.errors import DataError, ImageError, shortened
from taxtune.metrics.score_store import ScoreStore
from taxtune.studies.granularity.score_matrix import check_vectors
from taxtune.studies.specificity.hard_negatives import NEGATIVES, POSITIVES, ImageTexts
from taxtune.taxonomy.readers.text import parse_table, read_text

__all__ = ["ScoredTexts", "read_pairs", "score_with_clip", "write_pairs"]

FloatArray = NDArray[np.float64]
KINDS = (*POSITIVES, *NEGATIVES)
# Texts embedded between two steps of the progress bar.
_TEXTS = 1024
# Of what is larger no mean can be taken.
_LARGEST = 1e100
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


def score_with_clip(
    encoder: ClipEncoder,
    name: str,
    made: Sequence[ImageTexts],
    folder: Path,
    *,
    on_progress: Callable[[int], object] | None = None,
    on_texts: Callable[[int, int], object] | None = None,
) -> ScoredTexts:
    """Returns the cosine of every image with each of its texts (paper 3, eq. 1).

    Embeddings of images, and of texts that images share, as captions are, are kept on disk. Altered captions, of which
    there are as many as 100 an image, are embedded batch by batch, so that memory holds few of them at a time; of these
    the scores are kept.

    Args:
        encoder: A CLIP model.
        name: How it is called in tables.
        made: The texts.
        folder: The folder of the images.
        on_progress: Called with the number of images just done.
        on_texts: Called, before the images, with the number of shared texts that are embedded and their total.

    Raises:
        ImageError: If images are missing or cannot be read.
        ModelError: If the model gives no vector for an image or a text.
    """
    missing = [item.file_name for item in made if not (folder / item.file_name).is_file()]
    if missing:
        raise ImageError(
            f"{len(missing):,} of {len(made):,} images are not in the folder:\n"
            + "\n".join(f"  {name}" for name in shortened(missing, 10)),
            file=folder,
            remedy="Give the folder that the captions file means.",
        )
    shared = {t: i for i, t in enumerate(dict.fromkeys(t for m in made for k in KINDS[:-1] for t in m.texts[k]))}
    vectors = _embedded(encoder, list(shared), on_texts)
    check_vectors(encoder.name, {"texts": vectors})
    kept = ScoreStore(encoder.cache_dir)
    scores: list[Mapping[str, FloatArray]] = []
    for start in range(0, len(made), encoder.batch_size):
        batch = made[start : start + encoder.batch_size]
        files = [folder / item.file_name for item in batch]
        hashes = [content_hash(file) for file in files]
        images = stored_images(encoder, files, sha256=hashes)
        check_vectors(encoder.name, {f"images, {batch[0].file_name} to {batch[-1].file_name}": images})
        altered = _altered(encoder, kept, batch, hashes, images)
        for image, item, of_altered in zip(images, batch, altered, strict=True):
            scores.append(
                {
                    kind: of_altered if kind == "altered" else _cosines(image, shared, vectors, texts)
                    for kind, texts in item.texts.items()
                }
            )
        if on_progress is not None:
            on_progress(len(batch))
    return ScoredTexts(name, tuple(item.image for item in made), tuple(scores), _cut(encoder, made))


def _altered(
    encoder: ClipEncoder, kept: ScoreStore, batch: Sequence[ImageTexts], hashes: Sequence[str], images: FloatMatrix
) -> list[FloatArray]:
    """Returns the cosines of images with their altered captions; the scores are kept on disk, the many vectors not."""
    identity = {**encoder.identity, "kind": "clip image and text", "preprocessing": encoder.preprocessing}
    items = [(key, text) for key, item in zip(hashes, batch, strict=True) for text in item.texts["altered"]]
    known = kept.get(identity, items)
    values = np.array([math.nan if score is None else score for score in known], dtype=np.float64)
    owner = np.repeat(np.arange(len(batch)), [len(item.texts["altered"]) for item in batch])
    fresh = np.flatnonzero(np.isnan(values))
    if fresh.size:
        texts = {text: i for i, text in enumerate(dict.fromkeys(items[i][1] for i in fresh.tolist()))}
        vectors = encoder.texts(list(texts))
        check_vectors(encoder.name, {"altered captions": vectors})
        rows = vectors[[texts[items[i][1]] for i in fresh.tolist()]]
        values[fresh] = np.einsum("ij,ij->i", rows, images[owner[fresh]])
        kept.put(identity, [items[i] for i in fresh.tolist()], values[fresh].tolist())
    return [values[owner == i] for i in range(len(batch))]


def _embedded(encoder: ClipEncoder, texts: list[str], on_texts: Callable[[int, int], object] | None) -> FloatMatrix:
    parts = []
    for start in range(0, len(texts), _TEXTS):
        parts.append(encoder.stored(texts[start : start + _TEXTS]))
        if on_texts is not None:
            on_texts(min(start + _TEXTS, len(texts)), len(texts))
    return np.concatenate(parts)


def _cosines(image: FloatMatrix, rows: Mapping[str, int], vectors: FloatMatrix, texts: Sequence[str]) -> FloatArray:
    if not texts:
        return np.zeros(0)
    return np.asarray(vectors[[rows[text] for text in texts]] @ image, dtype=np.float64)


def _cut(encoder: ClipEncoder, made: Sequence[ImageTexts]) -> tuple[str, ...]:
    """Returns a note for every kind of text that the model cannot read to the end."""
    notes = []
    for kind in ("caption", "multi", "narrative"):
        texts = list(dict.fromkeys(text for item in made for text in item.texts[kind]))
        cut = int(encoder.truncated(texts).sum()) if texts else 0
        if cut:
            notes.append(
                f"{encoder.name}: {cut:,} of {len(texts):,} texts ({(POSITIVES | NEGATIVES)[kind]}) fill the "
                f"{encoder.context_length} tokens that the model reads; their ends count for nothing."
            )
    return tuple(notes)


def write_pairs(path: Path, made: Sequence[ImageTexts], scored: ScoredTexts | None = None) -> Path:
    """Writes every pair of an image and a text, one JSON object a line: to look at, or to be scored by another model.

    Args:
        path: The file.
        made: The texts.
        scored: Their scores, or None: a `score` is to be added to each line.

    Raises:
        TaxtuneError: If the file cannot be written.
    """
    buffer = io.StringIO()
    for i, item in enumerate(made):
        for kind, texts in item.texts.items():
            for j, text in enumerate(texts):
                record: dict[str, Any] = {"image": item.image, "file": item.file_name, "kind": kind, "text": text}
                if scored is not None:
                    record["score"] = float(scored.scores[i][kind][j])
                buffer.write(json.dumps(record, ensure_ascii=False) + "\n")
    return atomic.write_text(path, buffer.getvalue())


def read_pairs(path: Path) -> ScoredTexts:
    """Reads scored pairs: JSONL or CSV with image, kind, text and score.

    Raises:
        DataError: If the file is not of that form, a kind is unknown, or a score is missing or no finite number.
    """
    images: dict[str, dict[str, list[float]]] = {}
    wrong: list[str] = []
    for row, record in _records(path):
        image, kind, text = (record.get(name) for name in _COLUMNS[:3])
        if image in (None, "") or not isinstance(kind, str):
            raise DataError("A pair needs image, kind, text and score.", file=path, row=row)
        if kind not in KINDS:
            raise DataError("There is no such kind of text.", file=path, row=row, value=kind, remedy=", ".join(KINDS))
        score = _score(record.get("score"))
        if not abs(score) <= _LARGEST:
            wrong.append(f"  row {row}: image {image}, {kind}, {str(text)[:80]!r}: {record.get('score')!r}")
        images.setdefault(str(image), {}).setdefault(kind, []).append(score)
    if wrong:
        raise DataError(
            f"Scores that are missing, no finite number or beyond {_LARGEST:.0e}, {len(wrong):,} in all:\n"
            + "\n".join(shortened(wrong, 10)),
            file=path,
            remedy="\nScore these pairs, or take them out: what was not scored cannot be ranked.",
        )
    return ScoredTexts(
        str(path),
        tuple(images),
        tuple({kind: np.array(values) for kind, values in kinds.items()} for kinds in images.values()),
    )


def _score(value: object) -> float:
    """Returns a number, or a text that is one; NaN for anything else, true and false included."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


def _records(path: Path) -> list[tuple[int, Mapping[str, Any]]]:
    text = read_text(path, error=DataError, what="pairs")
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        table = parse_table(text, str(path), error=DataError, tidy=False)
        places = {name: table.column(name) for name in _COLUMNS}
        missing = [name for name, place in places.items() if place is None]
        if missing:
            raise DataError(f"The file has no column {', '.join(missing)}.", file=path)
        long = next((row for row in table.rows if len(row.cells) > len(table.header)), None)
        if long is not None:
            raise DataError(
                f"The row has {len(long.cells)} cells, the header {len(table.header)}.",
                file=path,
                row=long.line,
                remedy="Put text that holds a comma in double quotes.",
            )
        return [(row.line, {name: row.cell(place) for name, place in places.items()}) for row in table.rows]
    if suffix not in (".jsonl", ".ndjson"):
        raise DataError("A file of pairs ends in .jsonl or .csv.", file=path, value=suffix)
    records: list[tuple[int, Mapping[str, Any]]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"The line is not valid JSON: {error}.", file=path, row=number) from None
        if not isinstance(record, dict):
            raise DataError("The line is no JSON object.", file=path, row=number)
        records.append((number, record))
    return records
