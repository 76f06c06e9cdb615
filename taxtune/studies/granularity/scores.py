"""Score matrices: how well each image, or text, matches each label of a taxonomy; from a file or from an encoder."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taxtune.answers import AnswerTable
from taxtune.encoders.base import FloatMatrix, TextEncoder
from taxtune.errors import DataError, TaxonomyError
from taxtune.studies.embedding import (
    check_vectors,
    distinct_names,
    embed_labels,
    label_texts,
    make_clip,
    make_encoder,
    read_images,
    read_label_prompts,
    rounded,
    shown_name,
    unit,
)
from taxtune.tables import csv_delimiter, first_line, read_text
from taxtune.taxonomy import Domain, Taxonomy

if TYPE_CHECKING:
    from taxtune.studies.granularity.settings import GranularitySettings

__all__ = [
    "ScoreMatrix",
    "all_scores",
    "at_leaves",
    "check_targets",
    "label_frame",
    "matched",
    "read_scores",
]

IntArray = NDArray[np.int64]

_NEEDED = ("scores", "labels", "targets")
_VECTORS = ("image_embeddings", "label_embeddings")
_FORM = "Give an .npz file with `scores` (images × labels), `labels` and `targets`, or a CSV: image, label, labels…"


@dataclass(frozen=True, slots=True)
class ScoreMatrix:
    """Scores of images under every node of a taxonomy.

    Attributes:
        name: Where the scores are from: a file, or an encoder's specification.
        targets: The node that each image shows, shape (images,).
        scores: Shape (images, nodes), finite; column v is node v. The root's column may be made up: every image shows
            the root, so that its average precision is 1 whatever its scores.
        image_embeddings: Unit vectors of the images, shape (images, dimensions), or None.
        label_embeddings: Unit vectors of the nodes' prompts, shape (nodes, dimensions), or None.
        notes: Stated, counted exclusions.
    """

    name: str
    targets: IntArray
    scores: NDArray[np.floating]
    image_embeddings: FloatMatrix | None = None
    label_embeddings: FloatMatrix | None = None
    notes: tuple[str, ...] = ()

    def of(self, kept: NDArray[np.bool_], *notes: str) -> ScoreMatrix:
        """Returns the matrix of some of the images with further notes; `kept` has shape (images,)."""
        vectors = None if self.image_embeddings is None else self.image_embeddings[kept]
        parts = (self.targets[kept], self.scores[kept], vectors, self.label_embeddings)
        return ScoreMatrix(self.name, *parts, (*self.notes, *notes))


def label_frame(tree: Taxonomy) -> pd.DataFrame:
    """Returns a row per label: path, level (0 is the root's) and kind, "leaf" or "ancestor"; the index is the node."""
    kinds = np.where(tree.sizes == 1, "leaf", "ancestor")
    paths = ["/".join(tree.path(node)) for node in range(len(tree))]
    return pd.DataFrame({"path": paths, "level": tree.depth, "kind": kinds})


def matched(
    encoder: TextEncoder, targets: Sequence[int], queries: FloatMatrix, labels: FloatMatrix
) -> ScoreMatrix:
    """Returns the rounded cosine of every image or text with every node's prompts (paper 3, eq. 1).

    `queries` are unit vectors of images or texts that show `targets`, and `labels` those of the nodes' prompts.

    Raises:
        ModelError: If a vector is missing.
    """
    check_vectors(encoder.name, {"labels": labels, "images or texts": queries})
    scores = rounded(queries @ labels.T)
    return ScoreMatrix(
        shown_name(encoder.name), np.asarray(targets, dtype=np.int64), scores, queries, labels
    )


def check_targets(targets: IntArray, tree: Taxonomy, source: str) -> NDArray[np.bool_]:
    """Tells which images are labelled with a leaf, shape (images,).

    Raises:
        DataError: If no image is labelled with a leaf, or all that are show one leaf.
    """
    keep = np.isin(targets, tree.leaves)
    if len(np.unique(targets[keep])) < 2:
        remedy = "Label them with at least two of its most specific classes, or prune the taxonomy below their labels."
        raise DataError(
            "The images do not show two leaves of the taxonomy.", file=source, remedy=remedy
        )
    return keep


def at_leaves(matrix: ScoreMatrix, tree: Taxonomy) -> ScoreMatrix:
    """Returns the images whose label is a leaf; for the others it is unknown which leaves they do not show.

    Raises:
        DataError: If they show fewer than two leaves.
    """
    keep = check_targets(matrix.targets, tree, matrix.name)
    note = f"{int((~keep).sum()):,} of {len(keep):,} images left out: their label is not a leaf of the taxonomy."
    return matrix if keep.all() else matrix.of(keep, note)


def all_scores(
    settings: GranularitySettings, tree: Taxonomy, part: Domain | None, answers: AnswerTable | None
) -> list[ScoreMatrix]:
    """Returns the scores of every file and model, under different names; `answers` are scored instead of images."""
    from taxtune.data.embeddings import stored_images

    matrices = [read_scores(path, tree, part) for path in settings.scores]
    templates = read_label_prompts(settings.templates or ("label" if answers else "photos"))
    names = label_texts(tree)
    examples: list[Any] = [] if answers is None else list(answers.rows)
    for spec in settings.model:
        if answers is not None:
            encoder = make_encoder(spec, settings)
            codes, texts = pd.factorize(np.array([row.answer for row in examples], dtype=object))
            queries = encoder.texts(list(texts))[codes]
        else:
            encoder = clip = make_clip(spec, settings)
            assert settings.data is not None
            if not examples:  # a model is loaded in less time than many images are checked: what it lacks is said first
                examples = read_images(settings.data, tree, part, settings.images)
                check_targets(
                    np.array([example.target for example in examples]), tree, str(settings.data)
                )
            hashes = [example.sha256 or "" for example in examples]
            queries = stored_images(clip, [example.image for example in examples], sha256=hashes)
        labels = embed_labels(encoder, templates, names)
        matrix = matched(encoder, [example.target for example in examples], queries, labels)
        matrices.append(replace(matrix, notes=() if answers is None else answers.notes))
    distinct = distinct_names([matrix.name for matrix in matrices])
    return [replace(matrix, name=name) for matrix, name in zip(matrices, distinct, strict=True)]


# -- files ------------------------------------------------------------------------------------------------------------


def read_scores(path: str | Path, taxonomy: Taxonomy, part: Domain | None = None) -> ScoreMatrix:
    """Reads a score matrix.

    An `.npz` file holds `scores` (images × labels), `labels` (the name of each column), `targets` (the label of each
    image) and, for averaged embeddings, both `image_embeddings` (images × dimensions) and `label_embeddings`
    (labels × dimensions). A CSV file has the columns `image` and `label` and one for each label. Labels are nodes'
    labels, aliases or paths. Every node needs a column; only the root may have none.

    Args:
        path: The file.
        taxonomy: The tree.
        part: What `taxonomy` is a part of. Columns and images of other nodes of the whole are left out and counted.

    Raises:
        DataError: If the file is not of that form, a label is not on the taxonomy or is repeated, nodes have no
            column, or a score is not a finite number; it names the image and the label.
    """
    path = Path(path)
    arrays = _read_npz(path) if path.suffix.lower() == ".npz" else _read_csv(path)
    _check(arrays, path)
    labels, scores = arrays["labels"], arrays["scores"]
    columns, targets = (
        _nodes(arrays[name], taxonomy, part, path) for name in ("labels", "targets")
    )
    kept, here = columns >= 0, targets >= 0
    nodes, counts = np.unique(columns[kept], return_counts=True)
    if (counts > 1).any():
        first, second = labels[columns == nodes[counts > 1][0]][:2].tolist()
        raise DataError(
            f"The columns {first!r} and {second!r} are the same node.",
            file=path,
            remedy="Keep one.",
        )
    if lacking := [
        "/".join(taxonomy.path(i))
        for i in np.setdiff1d(np.arange(1, len(taxonomy)), nodes).tolist()
    ]:
        some = ", ".join(map(repr, lacking[:3]))
        message = f"{len(lacking):,} of {len(taxonomy):,} nodes of the taxonomy have no column, such as {some}."
        remedy = "Score every label of the tree, or give the tree that was scored (use --root for a part of it)."
        raise DataError(message, file=path, remedy=remedy)
    if not here.any():
        raise DataError(
            "No image shows a node of the selected part.", file=path, value=taxonomy.labels[0]
        )
    # Never fewer digits than the file has: two scores that became equal would be a tie that was never measured.
    spread = np.zeros((len(scores), len(taxonomy)), dtype=np.result_type(scores, np.float32))
    spread[:, columns[kept]] = scores[:, kept]
    of_images = of_labels = None
    if _VECTORS[0] in arrays:
        of_images, vectors = (unit(arrays[name].astype(np.float32)) for name in _VECTORS)
        of_labels = np.zeros((len(taxonomy), vectors.shape[1]), dtype=np.float32)
        of_labels[columns[kept]] = vectors[kept]
    notes = [
        f"{path}: {int((~some).sum()):,} of {len(some):,} {what} outside {taxonomy.labels[0]}"
        for some, what in (
            (here, "images are left out: label"),
            (kept, "columns are left out: node"),
        )
        if not some.all()
    ]
    return ScoreMatrix(str(path), targets, spread, of_images, of_labels).of(here, *notes)


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in (*_NEEDED, *_VECTORS) if name in file.files}
        arrays |= {
            name: arrays[name].astype(str) for name in ("labels", "targets") if name in arrays
        }
    except FileNotFoundError:
        raise DataError(
            "The score file does not exist.", file=path, remedy="Check the path."
        ) from None
    except (
        Exception
    ) as error:  # damage shows as what zipfile, zlib and NumPy's reader of headers happen to raise
        raise DataError(
            f"The score file cannot be read: {error}.", file=path, remedy=_FORM
        ) from None
    if missing := [name for name in _NEEDED if name not in arrays]:
        raise DataError(
            f"The file has no array {', '.join(map(repr, missing))}.", file=path, remedy=_FORM
        )
    return arrays


def _read_csv(path: Path) -> dict[str, NDArray[Any]]:
    text = read_text(path, error=DataError, what="score")
    how: dict[str, Any] = {"dtype": str, "keep_default_na": False, "index_col": False}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "error", pd.errors.ParserWarning
            )  # of rows longer than the header
            cells = pd.read_csv(io.StringIO(text), sep=csv_delimiter(first_line(text)), **how)
    except (ValueError, pd.errors.ParserWarning) as error:
        raise DataError(
            f"The score file cannot be read as CSV: {error}.", file=path, remedy=_FORM
        ) from None
    cells.columns = pd.Index([str(key).strip() for key in cells])
    if not {"image", "label"} <= set(cells):
        raise DataError(
            "The score file needs the columns `image` and `label`.", file=path, row=1, remedy=_FORM
        )
    if (twice := cells["image"].duplicated()).any():
        image = cells["image"][twice].iloc[0]
        raise DataError(
            "An image is in the score file twice.", file=path, value=image, remedy="Keep one row."
        )
    images, targets = (cells.pop(name).to_numpy(dtype=str) for name in ("image", "label"))
    scores = cells.apply(pd.to_numeric, errors="coerce").to_numpy(dtype=float)
    return {"scores": scores, "labels": np.array(list(cells)), "targets": targets, "images": images}


def _check(arrays: dict[str, NDArray[Any]], path: Path) -> None:
    """Checks that all arrays go together, and that every score and vector is finite."""
    scores, labels = arrays["scores"], arrays["labels"]
    if scores.ndim != 2 or scores.dtype.kind not in "fiu" or not len(scores):
        shape = f"shape {scores.shape}, {scores.dtype}"
        raise DataError(
            "`scores` must be a table of numbers, images × labels.", file=path, value=shape
        )
    for name, rows in zip(("targets", "labels"), scores.shape, strict=True):
        if arrays[name].shape != (rows,):
            message = (
                f"`{name}` must have {rows} entries to go with `scores` of shape {scores.shape}."
            )
            raise DataError(message, file=path, value=arrays[name].shape)
    if not np.isfinite(scores).all():
        i, j = np.argwhere(~np.isfinite(scores))[0].tolist()
        image = str(arrays["images"][i]) if "images" in arrays else f"image {i + 1}"
        message = f"The score of {image!r} under {str(labels[j])!r} is not a finite number."
        raise DataError(
            message,
            file=path,
            remedy="Remove an image that could not be scored, or score it again.",
        )
    vectors = [arrays[name] for name in _VECTORS if name in arrays]
    # A vector of zeros has no direction: its cosines would be zeros that were never measured.
    if vectors and not (
        [rows.shape for rows in vectors] == [(n, *vectors[0].shape[-1:]) for n in scores.shape]
        and all(
            rows.dtype.kind in "fiu" and np.isfinite(rows).all() and rows.any(axis=1).all()
            for rows in vectors
        )
    ):
        message = "`image_embeddings` and `label_embeddings` must hold a finite vector for each, none all zeros."
        raise DataError(message, file=path, value=[rows.shape for rows in vectors])


def _nodes(labels: NDArray[Any], taxonomy: Taxonomy, part: Domain | None, path: Path) -> IntArray:
    """The node of each label; -1 for one that is outside the part."""
    codes, distinct = pd.factorize(labels)
    try:
        nodes = [
            taxonomy.resolve(label) if part is None else part.locate(label)
            for label in distinct.tolist()
        ]
    except TaxonomyError as error:
        raise DataError(error.message, file=path, value=error.value, remedy=error.remedy) from None
    return np.array([-1 if node is None else node for node in nodes], dtype=np.int64)[codes]
