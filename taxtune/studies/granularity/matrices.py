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
from taxtune.data import load_examples
from taxtune.data.embeddings import stored_images
from taxtune.encoders.base import FloatMatrix, TextEncoder
from taxtune.errors import DataError, TaxonomyError
from taxtune.studies.embedding import (
    check_vectors,
    distinct_names,
    embed_labels,
    label_texts,
    make_clip,
    make_encoder,
    read_label_prompts,
    rounded,
    shown_name,
    unit,
)
from taxtune.tables import csv_delimiter, first_line, read_text
from taxtune.taxonomy import Domain, Taxonomy

if TYPE_CHECKING:
    from taxtune.data import Example
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
        vectors = self.image_embeddings
        return replace(
            self,
            targets=self.targets[kept],
            scores=self.scores[kept],
            image_embeddings=None if vectors is None else vectors[kept],
            notes=(*self.notes, *notes),
        )


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
    return ScoreMatrix(
        name=shown_name(encoder.name),
        targets=np.asarray(targets, dtype=np.int64),
        scores=rounded(queries @ labels.T),
        image_embeddings=queries,
        label_embeddings=labels,
    )


def check_targets(targets: IntArray, tree: Taxonomy, source: str) -> NDArray[np.bool_]:
    """Tells which images are labelled with a leaf, shape (images,).

    Raises:
        DataError: If no image is labelled with a leaf, or all that are show one leaf.
    """
    keep = np.isin(targets, tree.leaves)
    if len(np.unique(targets[keep])) < 2:
        remedy = "Label them with at least two of its most specific classes, or prune the taxonomy below their labels."
        message = "The images do not show two leaves of the taxonomy."
        raise DataError(message, file=source, remedy=remedy)
    return keep


def at_leaves(matrix: ScoreMatrix, tree: Taxonomy) -> ScoreMatrix:
    """Returns the images whose label is a leaf; for the others it is unknown which leaves they do not show.

    Raises:
        DataError: If they show fewer than two leaves.
    """
    keep = check_targets(matrix.targets, tree, matrix.name)
    if keep.all():
        return matrix
    left_out = f"{int((~keep).sum()):,} of {len(keep):,} images left out"
    return matrix.of(keep, f"{left_out}: their label is not a leaf of the taxonomy.")


def all_scores(
    settings: GranularitySettings, tree: Taxonomy, part: Domain | None, answers: AnswerTable | None
) -> list[ScoreMatrix]:
    """Returns the scores of every file and model, under different names; `answers` are scored instead of images."""
    matrices = [read_scores(path, tree, part) for path in settings.scores]
    templates = read_label_prompts(settings.templates or ("label" if answers else "photos"))
    names = label_texts(tree)
    examples: list[Example] = []
    for spec in settings.model:
        if answers is not None:
            matrices.append(_text_scores(spec, settings, answers, templates, names))
            continue
        encoder = make_clip(spec, settings)
        # A model is loaded in less time than many images are checked: what it lacks is said first.
        examples = examples or _read_examples(settings, tree, part)
        queries = stored_images(
            encoder,
            [example.image for example in examples],
            sha256=[example.sha256 or "" for example in examples],
        )
        labels = embed_labels(encoder, templates, names)
        matrices.append(matched(encoder, [e.target for e in examples], queries, labels))
    distinct = distinct_names([matrix.name for matrix in matrices])
    return [replace(matrix, name=name) for matrix, name in zip(matrices, distinct, strict=True)]


def _text_scores(
    spec: str,
    settings: GranularitySettings,
    answers: AnswerTable,
    templates: Sequence[str],
    names: Sequence[str],
) -> ScoreMatrix:
    """Returns the scores of answers by an encoder of texts."""
    encoder = make_encoder(spec, settings)
    codes, texts = pd.factorize(np.array([row.answer for row in answers.rows], dtype=object))
    queries = encoder.texts(list(texts))[codes]
    labels = embed_labels(encoder, templates, names)
    matrix = matched(encoder, [row.target for row in answers.rows], queries, labels)
    return replace(matrix, notes=answers.notes)


def _read_examples(
    settings: GranularitySettings, tree: Taxonomy, part: Domain | None
) -> list[Example]:
    assert settings.data is not None
    examples = list(load_examples(settings.data, tree, part=part, images=settings.images))
    targets = np.array([example.target for example in examples])
    check_targets(targets, tree, str(settings.data))
    return examples


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
    scores = arrays["scores"]
    columns = _nodes(arrays["labels"], taxonomy, part, path)
    targets = _nodes(arrays["targets"], taxonomy, part, path)
    _check_columns(columns, arrays["labels"], taxonomy, path)
    kept, shown = columns >= 0, targets >= 0
    if not shown.any():
        message = "No image shows a node of the selected part."
        raise DataError(message, file=path, value=taxonomy.labels[0])
    # Never fewer digits than the file has: two scores that became equal would be a tie that was never measured.
    of_nodes = np.zeros((len(scores), len(taxonomy)), dtype=np.result_type(scores, np.float32))
    of_nodes[:, columns[kept]] = scores[:, kept]
    notes = []
    outside = {"images are left out: label": shown, "columns are left out: node": kept}
    for what, inside in outside.items():
        if not inside.all():
            count = f"{int((~inside).sum()):,} of {len(inside):,}"
            notes.append(f"{path}: {count} {what} outside {taxonomy.labels[0]}")
    matrix = ScoreMatrix(str(path), targets, of_nodes)
    if "image_embeddings" in arrays:
        vectors = unit(arrays["label_embeddings"].astype(np.float32))
        of_labels = np.zeros((len(taxonomy), vectors.shape[1]), dtype=np.float32)
        of_labels[columns[kept]] = vectors[kept]
        of_images = unit(arrays["image_embeddings"].astype(np.float32))
        matrix = replace(matrix, image_embeddings=of_images, label_embeddings=of_labels)
    return matrix.of(shown, *notes)


def _check_columns(
    columns: IntArray, labels: NDArray[np.str_], taxonomy: Taxonomy, path: Path
) -> None:
    """Checks that every node below the root has one column; `columns` are the nodes of `labels`, -1 outside."""
    nodes, counts = np.unique(columns[columns >= 0], return_counts=True)
    if (counts > 1).any():
        first, second = labels[columns == nodes[counts > 1][0]][:2].tolist()
        message = f"The columns {first!r} and {second!r} are the same node."
        raise DataError(message, file=path, remedy="Keep one.")
    missing = np.setdiff1d(np.arange(1, len(taxonomy)), nodes).tolist()
    if missing:
        some = ", ".join(repr("/".join(taxonomy.path(node))) for node in missing[:3])
        message = f"{len(missing):,} of {len(taxonomy):,} nodes of the taxonomy have no column, such as {some}."
        remedy = "Score every label of the tree, or give the tree that was scored (use --root for a part of it)."
        raise DataError(message, file=path, remedy=remedy)


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in (*_NEEDED, *_VECTORS) if name in file.files}
        for name in ("labels", "targets"):
            if name in arrays:
                arrays[name] = arrays[name].astype(str)
    except FileNotFoundError:
        message = "The score file does not exist."
        raise DataError(message, file=path, remedy="Check the path.") from None
    except Exception as error:
        # Damage shows as what zipfile, zlib and NumPy's reader of headers happen to raise.
        message = f"The score file cannot be read: {error}."
        raise DataError(message, file=path, remedy=_FORM) from None
    missing = [repr(name) for name in _NEEDED if name not in arrays]
    if missing:
        message = f"The file has no array {', '.join(missing)}."
        raise DataError(message, file=path, remedy=_FORM)
    return arrays


def _read_csv(path: Path) -> dict[str, NDArray[Any]]:
    text = read_text(path, error=DataError, what="score")
    try:
        with warnings.catch_warnings():
            # Of rows longer than the header.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            cells = pd.read_csv(
                io.StringIO(text),
                sep=csv_delimiter(first_line(text)),
                dtype=str,
                keep_default_na=False,
                index_col=False,
            )
    except (ValueError, pd.errors.ParserWarning) as error:
        message = f"The score file cannot be read as CSV: {error}."
        raise DataError(message, file=path, remedy=_FORM) from None
    cells.columns = cells.columns.str.strip()
    if not {"image", "label"} <= set(cells):
        message = "The score file needs the columns `image` and `label`."
        raise DataError(message, file=path, row=1, remedy=_FORM)
    repeated = cells["image"].duplicated()
    if repeated.any():
        message = "An image is in the score file twice."
        image = cells["image"][repeated].iloc[0]
        raise DataError(message, file=path, value=image, remedy="Keep one row.")
    images = cells.pop("image").to_numpy(dtype=str)
    targets = cells.pop("label").to_numpy(dtype=str)
    scores = cells.apply(pd.to_numeric, errors="coerce").to_numpy(dtype=float)
    return {"scores": scores, "labels": np.array(list(cells)), "targets": targets, "images": images}


def _check(arrays: dict[str, NDArray[Any]], path: Path) -> None:
    """Checks that all arrays go together, and that every score and vector is finite."""
    scores, labels = arrays["scores"], arrays["labels"]
    if scores.ndim != 2 or not _is_numeric(scores) or not len(scores):
        message = "`scores` must be a table of numbers, images × labels."
        raise DataError(message, file=path, value=f"shape {scores.shape}, {scores.dtype}")
    for name, length in zip(("targets", "labels"), scores.shape, strict=True):
        if arrays[name].shape != (length,):
            entries = f"`{name}` must have {length} entries"
            message = f"{entries} to go with `scores` of shape {scores.shape}."
            raise DataError(message, file=path, value=arrays[name].shape)
    lacking = np.argwhere(~np.isfinite(scores))
    if len(lacking):
        row, column = lacking[0].tolist()
        image = str(arrays["images"][row]) if "images" in arrays else f"image {row + 1}"
        message = f"The score of {image!r} under {str(labels[column])!r} is not a finite number."
        remedy = "Remove an image that could not be scored, or score it again."
        raise DataError(message, file=path, remedy=remedy)
    vectors = [arrays[name] for name in _VECTORS if name in arrays]
    if not vectors:
        return
    shapes = [rows.shape for rows in vectors]
    fitting = [(length, *shapes[0][-1:]) for length in scores.shape]
    if shapes != fitting or not all(map(_has_directions, vectors)):
        message = "`image_embeddings` and `label_embeddings` must hold a finite vector for each, none all zeros."
        raise DataError(message, file=path, value=shapes)


def _is_numeric(array: NDArray[Any]) -> bool:
    return array.dtype.kind in "fiu"


def _has_directions(vectors: NDArray[Any]) -> bool:
    """Whether all vectors are finite and none is zero, whose cosines would be zeros that were never measured."""
    if not _is_numeric(vectors):
        return False
    return bool(np.isfinite(vectors).all() and vectors.any(axis=1).all())


def _nodes(labels: NDArray[Any], taxonomy: Taxonomy, part: Domain | None, path: Path) -> IntArray:
    """Returns the node of each label; -1 for one that is outside the part."""
    codes, distinct = pd.factorize(labels)
    locate = taxonomy.resolve if part is None else part.locate
    nodes = []
    try:
        for label in distinct.tolist():
            node = locate(label)
            nodes.append(-1 if node is None else node)
    except TaxonomyError as error:
        raise DataError(error.message, file=path, value=error.value, remedy=error.remedy) from None
    return np.array(nodes, dtype=np.int64)[codes]
