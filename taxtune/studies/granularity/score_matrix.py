"""Score matrices: how well each image, or text, matches each label of a taxonomy; from a file or from an encoder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from taxtune.data.examples import Example
from taxtune.encoders.base import FloatMatrix, TextEncoder
from taxtune.encoders.clip import ClipEncoder
from taxtune.encoders.vectors import stored_images
from taxtune.errors import DataError, ModelError
from taxtune.studies.granularity.label_prompts import LabelPrompts, label_texts
from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "ScoreMatrix",
    "at_leaves",
    "check_targets",
    "check_vectors",
    "distinct_names",
    "score_images",
    "score_texts",
    "shown_name",
]

IntArray = NDArray[np.int64]
Progress = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class ScoreMatrix:
    """Scores of images under every node of a taxonomy.

    Attributes:
        name: Where the scores are from: a file, or an encoder's specification.
        images: The images' names, for messages.
        targets: The node that each image shows, shape (images,).
        scores: Shape (images, nodes), finite; column v is node v. The root's column may be made up where a source has
            none: every image shows the root, so that its average precision is 1 whatever its scores.
        image_embeddings: Unit vectors of the images, shape (images, dimensions), or None.
        label_embeddings: Unit vectors of the nodes' prompts, shape (nodes, dimensions), or None.
        notes: Stated, counted exclusions.
    """

    name: str
    images: tuple[str, ...]
    targets: IntArray
    scores: NDArray[np.floating]
    image_embeddings: FloatMatrix | None = None
    label_embeddings: FloatMatrix | None = None
    notes: tuple[str, ...] = ()


def shown_name(spec: str) -> str:
    """Returns how an encoder is called in tables: of a folder on this machine the last two parts are enough."""
    kind, colon, model = spec.partition(":")
    scheme, _, folder = model.rpartition(":")
    if "/" not in folder or not Path(folder).is_dir():
        return spec
    return f"{kind}{colon}{scheme + ':' if scheme else ''}{'/'.join(Path(folder).parts[-2:])}"


def distinct_names(names: Sequence[str]) -> list[str]:
    """Returns names by which several sources of scores can be told apart: a second "a/b" becomes "a/b (2)"."""
    seen: Counter[str] = Counter()
    distinct = []
    for name in names:
        seen[name] += 1
        distinct.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return distinct


def check_targets(targets: IntArray, taxonomy: Taxonomy, source: str) -> NDArray[np.bool_]:
    """Tells which images are labelled with a leaf, and checks that something can be ranked.

    Args:
        targets: The node that each image shows, shape (images,).
        taxonomy: The tree.
        source: Where the images are from, for messages.

    Raises:
        DataError: If no image is labelled with a leaf, or all that are show one leaf.
    """
    keep = np.isin(targets, taxonomy.leaves)
    if not keep.any():
        raise DataError(
            "No image is labelled with a leaf of the taxonomy.",
            file=source,
            value=f"{len(keep)} images",
            remedy="Label the images with the most specific classes, or cut the taxonomy below their labels.",
        )
    shown = np.unique(targets[keep])
    if len(shown) == 1:
        raise DataError(
            "All images show one class: a ranking of the images of one class says nothing.",
            file=source,
            value=taxonomy.labels[int(shown[0])],
            remedy="Give images of at least two classes.",
        )
    return keep


def at_leaves(matrix: ScoreMatrix, taxonomy: Taxonomy) -> ScoreMatrix:
    """Returns the images whose label is a leaf; of the others it is unknown which leaves they do not show.

    Raises:
        DataError: If no image is left, or all that are left show one leaf, so that nothing can be told apart.
    """
    keep = check_targets(matrix.targets, taxonomy, matrix.name)
    if keep.all():
        return matrix
    left_out = int((~keep).sum())
    note = f"{left_out:,} of {len(keep):,} images left out: their label is no leaf of the taxonomy."
    return replace(
        matrix,
        images=tuple(name for name, kept in zip(matrix.images, keep.tolist(), strict=True) if kept),
        targets=matrix.targets[keep],
        scores=matrix.scores[keep],
        image_embeddings=None if matrix.image_embeddings is None else matrix.image_embeddings[keep],
        notes=(*matrix.notes, note),
    )


def score_images(
    encoder: ClipEncoder,
    taxonomy: Taxonomy,
    examples: Sequence[Example],
    prompts: LabelPrompts,
    *,
    names: str = "common",
    on_progress: Progress | None = None,
    on_template: Progress | None = None,
) -> ScoreMatrix:
    """Returns the cosine of every image with the prompts of every node (paper 3, eq. 1).

    Embeddings of images are kept on disk by content.

    Args:
        encoder: A CLIP model.
        taxonomy: The tree.
        examples: The images.
        prompts: The prompt templates; the embeddings of a label's prompts are averaged.
        names: Which name of a node stands in a prompt; see `label_texts`.
        on_progress: Called with the number of images just done.
        on_template: Called, before the images, with 1 after the labels are embedded in each template.

    Raises:
        ImageError: If an image cannot be read.
        ModelError: If the model gives no vector for a label or an image.
    """
    labels = prompts.embed(encoder, label_texts(taxonomy, names), on_progress=on_template)
    images = stored_images(
        encoder, [e.image for e in examples], sha256=[e.sha256 or "" for e in examples], on_progress=on_progress
    )
    check_vectors(encoder.name, {"labels": labels, "images": images})
    targets = np.array([e.target for e in examples], dtype=np.int64)
    return ScoreMatrix(
        shown_name(encoder.name), tuple(e.id for e in examples), targets, images @ labels.T, images, labels
    )


def score_texts(
    encoder: TextEncoder,
    taxonomy: Taxonomy,
    ids: Sequence[str],
    texts: Sequence[str],
    targets: Sequence[int],
    prompts: LabelPrompts,
    *,
    names: str = "common",
) -> ScoreMatrix:
    """Returns the cosine of every text with the prompts of every node: the same matrix with a text for an image.

    Args:
        encoder: An encoder of texts.
        taxonomy: The tree.
        ids: The texts' names, for messages.
        texts: Such as answers about images.
        targets: The node that each text is about.
        prompts: The prompt templates; the embeddings of a label's prompts are averaged.
        names: Which name of a node stands in a prompt; see `label_texts`.

    Raises:
        ModelError: If the model gives no vector for a label or a text.
    """
    labels = prompts.embed(encoder, label_texts(taxonomy, names))
    distinct = list(dict.fromkeys(texts))
    row = {text: i for i, text in enumerate(distinct)}
    queries = encoder.texts(distinct)[[row[text] for text in texts]]
    check_vectors(encoder.name, {"labels": labels, "texts": queries})
    nodes = np.asarray(targets, dtype=np.int64)
    return ScoreMatrix(shown_name(encoder.name), tuple(ids), nodes, queries @ labels.T, queries, labels)


def check_vectors(model: str, vectors: Mapping[str, FloatMatrix]) -> None:
    """Checks that a model gave a direction for everything: of NaN no rank can be made, of zeros a false one.

    Raises:
        ModelError: If not; it counts what is without.
    """
    for what, rows in vectors.items():
        lost = int((~np.isfinite(rows).all(axis=1) | ~rows.any(axis=1)).sum())
        if lost:
            raise ModelError(
                f"The model gives no vector for {lost:,} of {len(rows):,} {what}.",
                value=model,
                remedy="Its weights may be damaged, or too small a number format may overflow: try --device cpu.",
            )
