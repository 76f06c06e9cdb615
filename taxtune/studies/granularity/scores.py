"""Score matrices: how well each image, or text, matches each label of a taxonomy; from a file or from an encoder."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taxtune.answers import AnswerTable
from taxtune.encoders.base import FloatMatrix, TextEncoder
from taxtune.errors import DataError, TaxonomyError, shortened
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
from taxtune.studies.granularity.settings import GranularitySettings
from taxtune.tables import csv_delimiter, first_line, read_text
from taxtune.taxonomy import Domain, Taxonomy
from taxtune.taxonomy.label_graph import LabelGraph

__all__ = ["ScoreMatrix", "all_scores", "at_leaves", "check_targets", "label_frame", "matched", "read_scores"]

IntArray = NDArray[np.int64]

_NEEDED = ("scores", "labels", "targets")
_KNOWN = (*_NEEDED, "images", "image_embeddings", "label_embeddings")
_FORM = (
    "A score file is an .npz file with the arrays `scores` (images × labels), `labels` and `targets`, or a CSV with "
    "the columns image, label and one for each label."
)


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
        return replace(
            self,
            targets=self.targets[kept],
            scores=self.scores[kept],
            image_embeddings=vectors,
            notes=(*self.notes, *notes),
        )


def label_frame(graph: LabelGraph) -> pd.DataFrame:
    """Returns a row per label: path, level (0 is the root's) and kind, "leaf" or "ancestor"; the index is the node."""
    kinds = np.where(graph.is_leaf, "leaf", "ancestor")
    paths = ["/".join(graph.tree.path(node)) for node in range(len(graph))]
    return pd.DataFrame({"path": paths, "level": graph.tree.depth, "kind": kinds})


def matched(encoder: TextEncoder, targets: Sequence[int], queries: FloatMatrix, labels: FloatMatrix) -> ScoreMatrix:
    """Returns the rounded cosine of every image or text with every node's prompts (paper 3, eq. 1).

    Args:
        encoder: The encoder of the vectors.
        targets: The node of each image or text.
        queries: Unit vectors of the images or texts, shape (images, dimensions).
        labels: Those of the nodes' prompts, shape (nodes, dimensions).

    Raises:
        ModelError: If a vector is missing.
    """
    check_vectors(encoder.name, {"labels": labels, "images or texts": queries})
    nodes, scores = np.asarray(targets, dtype=np.int64), rounded(queries @ labels.T)
    return ScoreMatrix(shown_name(encoder.name), nodes, scores, queries, labels)


def check_targets(targets: IntArray, graph: LabelGraph, source: str) -> NDArray[np.bool_]:
    """Tells which images are labelled with a leaf, shape (images,).

    Raises:
        DataError: If no image is labelled with a leaf, or all that are show one leaf.
    """
    keep = np.isin(targets, graph.leaves)
    shown = np.unique(targets[keep])
    if not shown.size:
        remedy = "Label the images with the most specific classes, or prune the taxonomy below their labels."
        raise DataError("No image is labelled with a leaf of the taxonomy.", file=source, remedy=remedy)
    if len(shown) == 1:
        message = "All images show the same class, so ranking them says nothing."
        raise DataError(message, file=source, value=graph.tree.labels[int(shown[0])], remedy="Give two classes.")
    return keep


def at_leaves(matrix: ScoreMatrix, graph: LabelGraph) -> ScoreMatrix:
    """Returns the images whose label is a leaf; for the others it is unknown which leaves they do not show.

    Raises:
        DataError: As `check_targets`.
    """
    keep = check_targets(matrix.targets, graph, matrix.name)
    note = f"{int((~keep).sum()):,} of {len(keep):,} images left out: their label is not a leaf of the taxonomy."
    return matrix if keep.all() else matrix.of(keep, note)


def all_scores(
    settings: GranularitySettings, graph: LabelGraph, part: Domain | None, answers: AnswerTable | None
) -> list[ScoreMatrix]:
    """Returns the scores of every file and model, under different names; `answers` are scored instead of images.

    Raises:
        TaxtuneError: If a file, an image or a model cannot be used.
    """
    from taxtune.encoders.vectors import stored_images

    matrices = [read_scores(path, graph.tree, part) for path in settings.scores]
    templates = read_label_prompts(settings.templates or ("label" if answers else "photos"))
    names = label_texts(graph.tree, settings.label_names)
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
                examples = read_images(settings.data, graph.tree, part, settings.images)
                check_targets(np.array([example.target for example in examples]), graph, str(settings.data))
            hashes = [example.sha256 or "" for example in examples]
            queries = stored_images(clip, [example.image for example in examples], sha256=hashes)
        labels = embed_labels(encoder, templates, names)
        matrix = matched(encoder, [example.target for example in examples], queries, labels)
        matrices.append(replace(matrix, notes=() if answers is None else answers.notes))
    distinct = distinct_names([matrix.name for matrix in matrices])
    return [replace(matrix, name=name) for matrix, name in zip(matrices, distinct, strict=True)]


def read_scores(path: str | Path, taxonomy: Taxonomy, part: Domain | None = None) -> ScoreMatrix:
    """Reads a score matrix.

    An `.npz` file holds `scores` (images × labels), `labels` (the name of each column), `targets` (the label of each
    image) and optionally `images` (names) and, for averaged embeddings, `image_embeddings` (images × dimensions) and
    `label_embeddings` (labels × dimensions). A CSV file has the columns `image` and `label` and one for each label.
    Labels are nodes' labels, aliases or paths. Every node needs a column; only the root may have none.

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
    scores = arrays["scores"]
    _check(arrays, path)
    columns = _nodes(arrays["labels"], taxonomy, part, path, "column")
    kept = columns >= 0
    nodes, counts = np.unique(columns[kept], return_counts=True)
    if (counts > 1).any():
        same = arrays["labels"][columns == nodes[counts > 1][0]]
        raise DataError(
            f"The columns {str(same[0])!r} and {str(same[1])!r} are the same node.", file=path, remedy="Keep one."
        )
    lacking = ["/".join(taxonomy.path(i)) for i in np.setdiff1d(np.arange(1, len(taxonomy)), nodes).tolist()]
    if lacking:
        raise DataError(
            f"{len(lacking):,} of {len(taxonomy):,} nodes of the taxonomy have no column, such as "
            f"{', '.join(map(repr, lacking[:3]))}.",
            file=path,
            remedy="Score every label of the tree, or give the tree that was scored (use --root for a part of it).",
        )
    targets = _nodes(arrays["targets"], taxonomy, part, path, "label of an image")
    here = targets >= 0
    if not here.any():
        raise DataError("No image shows a node of the selected part.", file=path, value=taxonomy.labels[0])
    spread = np.zeros((len(scores), len(taxonomy)), dtype=scores.dtype)
    spread[:, columns[kept]] = scores[:, kept]
    of_images, of_labels = arrays.get("image_embeddings"), arrays.get("label_embeddings")
    if of_images is not None and of_labels is not None:
        vectors = np.zeros((len(taxonomy), of_labels.shape[1]), dtype=np.float32)
        vectors[columns[kept]] = unit(of_labels.astype(np.float32))[kept]
        of_images, of_labels = unit(of_images.astype(np.float32)), vectors
    notes = [
        f"{path}: {int((~some).sum()):,} of {len(some):,} {what} outside {taxonomy.labels[0]}"
        for some, what in ((here, "images are left out: label"), (kept, "columns are left out: node"))
        if not some.all()
    ]
    return ScoreMatrix(str(path), targets, spread, of_images, of_labels, tuple(notes)).of(here)


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in _KNOWN if name in file.files}
        texts = {name: arrays[name].astype(str) for name in ("labels", "targets", "images") if name in arrays}
    except FileNotFoundError:
        raise DataError("The score file does not exist.", file=path, remedy="Check the path.") from None
    except Exception as error:  # damage shows as what zipfile, zlib and NumPy's reader of headers happen to raise
        raise DataError(f"The score file cannot be read: {error}.", file=path, remedy=_FORM) from None
    if missing := [name for name in _NEEDED if name not in arrays]:
        raise DataError(f"The file has no array {', '.join(map(repr, missing))}.", file=path, remedy=_FORM)
    scores = arrays["scores"]
    if scores.ndim != 2 or scores.dtype.kind not in "fiu":
        shape = f"shape {scores.shape}, {scores.dtype}"
        raise DataError("`scores` must be a table of numbers, images × labels.", file=path, value=shape)
    # Never fewer digits than the file has: two scores that became equal would be a tie that was never measured.
    texts.setdefault("images", np.array([f"image {i + 1}" for i in range(len(scores))]))
    return arrays | texts | {"scores": scores.astype(np.result_type(scores, np.float32))}


def _read_csv(path: Path) -> dict[str, NDArray[Any]]:
    text = read_text(path, error=DataError, what="score")
    how: dict[str, Any] = {"dtype": str, "keep_default_na": False, "index_col": False}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # of rows longer than the header
            cells = pd.read_csv(io.StringIO(text), sep=csv_delimiter(first_line(text)), **how)
    except (ValueError, pd.errors.ParserWarning) as error:
        raise DataError(f"The score file cannot be read as CSV: {error}.", file=path, remedy=_FORM) from None
    cells.columns = pd.Index([str(key).strip() for key in cells])
    if not {"image", "label"} <= set(cells):
        raise DataError("The score file needs the columns `image` and `label`.", file=path, row=1, remedy=_FORM)
    images, targets = (cells.pop(name).to_numpy(dtype=str) for name in ("image", "label"))
    labels = np.array(list(cells))
    bad = cells.apply(pd.to_numeric, errors="coerce").isna().to_numpy()
    if bad.any():
        i, j = np.argwhere(bad)[0].tolist()
        raise _bad_score(path, images[i], labels[j], cells.iloc[i, j])
    return {"scores": cells.to_numpy(dtype=float), "labels": labels, "images": images, "targets": targets}


def _bad_score(path: Path, image: str, label: str, value: object) -> DataError:
    message = f"The score of image {str(image)!r} under {str(label)!r} is not a finite number."
    remedy = "Remove an image that could not be scored, or score it again."
    return DataError(message, file=path, value=value, remedy=remedy)


def _check(arrays: dict[str, NDArray[Any]], path: Path) -> None:
    """Checks that all arrays go together, no image is repeated, and every score and vector is finite."""
    scores, vectors = arrays["scores"], [name for name in _KNOWN if name.endswith("embeddings") and name in arrays]
    images, labels = scores.shape
    if not images:
        raise DataError("There are no images in the score file.", file=path)
    for name, rows in {"labels": labels, "targets": images, "images": images}.items():
        if arrays[name].shape != (rows,):
            message = f"`{name}` must have {rows} entries to go with `scores` of shape {scores.shape}."
            raise DataError(message, file=path, value=arrays[name].shape)
    if (twice := pd.Series(arrays["images"]).duplicated()).any():
        image = str(arrays["images"][twice][0])
        raise DataError("An image is in the score file twice.", file=path, value=image, remedy="Keep one row.")
    if not np.isfinite(scores).all():
        i, j = np.argwhere(~np.isfinite(scores))[0].tolist()
        raise _bad_score(path, arrays["images"][i], arrays["labels"][j], float(scores[i, j]))
    shapes = [arrays[name].shape for name in vectors]
    if (vectors and [shape[:-1] for shape in shapes] != [(images,), (labels,)]) or len({s[-1] for s in shapes}) > 1:
        message = "There must be `image_embeddings` and `label_embeddings`, a row for each, as wide as each other."
        raise DataError(message, file=path, value=dict(zip(vectors, shapes, strict=True)))
    for name in vectors:
        # A vector of zeros has no direction: its cosines would be zeros that were never measured.
        array = arrays[name]
        if array.dtype.kind not in "fiu" or not (np.isfinite(array).all() and array.any(axis=1).all()):
            raise DataError(f"`{name}` must be finite numbers, and no row all zeros.", file=path)


def _nodes(labels: NDArray[Any], taxonomy: Taxonomy, part: Domain | None, path: Path, what: str) -> IntArray:
    """Returns the node of each label; -1 for one that is outside the part."""
    known: dict[str, int] = {}
    wrong: list[str] = []
    for label in dict.fromkeys(labels.tolist()):
        try:
            node = taxonomy.resolve(label) if part is None else part.locate(label)
            known[label] = -1 if node is None else node
        except TaxonomyError as error:
            wrong.append(f"  {error.message} {error.remedy or ''}".rstrip())
    if wrong:
        message = f"{len(wrong):,} {what if len(wrong) == 1 else what + 's'} cannot be found on the taxonomy:\n"
        raise DataError(message + "\n".join(shortened(wrong, 5)), file=path)
    return np.array([known[label] for label in labels.tolist()], dtype=np.int64)
