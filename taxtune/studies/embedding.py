"""Encoders, and label prompts, whose embeddings are averaged, for several studies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taxtune.encoders.base import FloatMatrix, TextEncoder
from taxtune.errors import DataError, ModelError
from taxtune.progress import track_each
from taxtune.resources import prompts_dir
from taxtune.tables import read_text

if TYPE_CHECKING:
    from taxtune.encoders.clip import ClipEncoder
    from taxtune.taxonomy import Taxonomy

__all__ = [
    "check_vectors",
    "distinct_names",
    "embed_labels",
    "label_texts",
    "make_clip",
    "make_encoder",
    "read_label_prompts",
    "rounded",
    "shown_name",
    "unit",
]

_SLOT = "{label}"
# Decimals of a score: float noise, which depends on batches and threads, reaches 5e-7 in a cosine of all-MiniLM-L6-v2.
_DECIMALS = 5


def make_encoder(spec: str, settings: Any) -> TextEncoder:
    """Returns the encoder "sentence:MODEL", or a CLIP model as `make_clip` takes it; raises the same errors.

    Args:
        spec: The encoder.
        settings: Settings of a study or of measures, with `device`, `cache_dir` and `batch_size`.
    """
    kind, _, model = spec.partition(":")
    if kind != "sentence" or not model:
        return make_clip(spec, settings)
    from taxtune.encoders.sentence import SentenceEncoder

    return SentenceEncoder(
        model, device=settings.device, cache_dir=settings.cache_dir, batch_size=settings.batch_size
    )


def make_clip(spec: str, settings: Any) -> ClipEncoder:
    """Returns the CLIP model "clip:MODEL" or a model as open_clip names it.

    Raises:
        ModelError: If it cannot be loaded.
        MissingExtraError: If its package is not installed.
    """
    from taxtune.encoders.clip import ClipEncoder

    model = spec.removeprefix("clip:") or spec
    return ClipEncoder(
        model, device=settings.device, cache_dir=settings.cache_dir, batch_size=settings.batch_size
    )


# -- labels in prompts ------------------------------------------------------------------------------------------------


def read_label_prompts(name: str) -> tuple[str, ...]:
    """Returns a set of prompt templates, in which `{label}` stands for the label.

    Args:
        name: "label", "photo" or "photos", which come with taxtune, or a text file with one template per line; empty
            lines and lines that begin with # are skipped.

    Raises:
        DataError: If there is no such set or file, it holds no template, or a line lacks `{label}`.
    """
    known = {path.stem: path for path in sorted((prompts_dir() / "encoders").glob("*.txt"))}
    path = known.get(name, Path(name))
    if not path.is_file():
        remedy = f"Use {', '.join(known)} or the name of a file."
        raise DataError("Unknown prompt templates.", value=name, remedy=remedy)
    text = read_text(path, error=DataError, what="prompt template")
    templates = []
    for row, line in enumerate(text.splitlines(), start=1):
        template = line.strip()
        if not template or template.startswith("#"):
            continue
        if _SLOT not in template:
            message = f"The template does not contain {_SLOT}."
            raise DataError(message, file=path, row=row, value=template, remedy="Add it.")
        templates.append(template)
    if not templates:
        remedy = f"Write one per line, with {_SLOT}."
        raise DataError("The file contains no prompt template.", file=path, remedy=remedy)
    return tuple(dict.fromkeys(templates))


def label_texts(taxonomy: Taxonomy) -> list[str]:
    """Returns the preferred common name of every node, or its label, with spaces for underscores."""
    texts = []
    for node in range(len(taxonomy)):
        name = taxonomy.common_name(node)
        texts.append(" ".join(name.replace("_", " ").split()) or name)
    return texts


def embed_labels(
    encoder: TextEncoder, templates: Sequence[str], labels: Sequence[str]
) -> FloatMatrix:
    """Returns the normalised mean of the unit vectors of each label's prompts, shape (labels, dimensions).

    Vectors are cached on disk; repeated labels are embedded once.
    """
    distinct = list(dict.fromkeys(labels))
    vectors = []
    for template in track_each(templates, "embedding labels"):
        prompts = [template.replace(_SLOT, label) for label in distinct]
        vectors.append(encoder.stored(prompts))
    means = unit(np.sum(vectors, axis=0, dtype=np.float32))
    row = {label: i for i, label in enumerate(distinct)}
    return means[[row[label] for label in labels]]


def unit(vectors: FloatMatrix) -> FloatMatrix:
    """Returns the rows scaled to length 1; a row of zeros stays as it is."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(length > 0, length, 1.0), dtype=np.float32)


def rounded(scores: NDArray[np.floating]) -> NDArray[np.floating]:
    """Returns cosines rounded to five decimals, so that no rank depends on the float noise between two batches."""
    return np.round(scores, _DECIMALS)


def check_vectors(model: str, vectors: Mapping[str, FloatMatrix]) -> None:
    """Checks that no vector is zero or has NaN, which could not be ranked.

    Raises:
        ModelError: If one is; they are counted.
    """
    for what, rows in vectors.items():
        lost = int((~np.isfinite(rows).all(axis=1) | ~rows.any(axis=1)).sum())
        if lost:
            message = f"The model gives no vector for {lost:,} of {len(rows):,} {what}."
            remedy = (
                "Its weights may be damaged, or its number format may overflow: try --device cpu."
            )
            raise ModelError(message, value=model, remedy=remedy)


def shown_name(spec: str) -> str:
    """Returns a model's name in tables: of a path on this machine the last two parts."""
    before, _, path = spec.rpartition(":")
    if not before or "/" not in path or not Path(path).exists():
        return spec
    folder = "/".join(Path(path).parts[-2:])
    return f"{before}:{folder}"


def distinct_names(names: Sequence[str]) -> list[str]:
    """Returns names that differ: a second "a/b" becomes "a/b (2)"."""
    counts: Counter[str] = Counter()
    distinct = []
    for name in names:
        counts[name] += 1
        distinct.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return distinct
