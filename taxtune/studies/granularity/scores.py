"""Score matrices: how well each image, or text, matches each label of a taxonomy; from a file or from an encoder.

In files they are `.npz` where they are large, and CSV where people look at them.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taxtune import atomic
from taxtune.encoders.base import FloatMatrix, TextEncoder
from taxtune.errors import DataError, TaxonomyError, shortened
from taxtune.studies.embedding import check_vectors, rounded, shown_name, unit
from taxtune.tables import csv_delimiter, parse_table, read_text
from taxtune.taxonomy import Domain, Taxonomy
from taxtune.taxonomy.label_graph import LabelGraph

__all__ = ["ScoreMatrix", "at_leaves", "check_targets", "matched", "read_scores", "write_scores"]

IntArray = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]

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

    def of(self, kept: NDArray[np.bool_]) -> ScoreMatrix:
        """Returns the matrix of some of the images; `kept` has shape (images,)."""
        return replace(
            self,
            images=tuple(np.array(self.images, dtype=object)[kept]),
            targets=self.targets[kept],
            scores=self.scores[kept],
            image_embeddings=None if self.image_embeddings is None else self.image_embeddings[kept],
        )


def matched(
    encoder: TextEncoder,
    ids: Sequence[str],
    targets: Sequence[int],
    queries: FloatMatrix,
    labels: FloatMatrix,
    what: str,
) -> ScoreMatrix:
    """Returns the rounded cosine of every image, or text in its place, with every node's prompts (paper 3, eq. 1).

    Args:
        encoder: What made the vectors.
        ids: The names of the images or texts, for messages.
        targets: The node that each is about.
        queries: Their unit vectors, shape (images, dimensions).
        labels: Those of the nodes' prompts, shape (nodes, dimensions).
        what: What the queries are, for messages.

    Raises:
        ModelError: If a vector is not there.
    """
    check_vectors(encoder.name, {"labels": labels, what: queries})
    nodes, scores = np.asarray(targets, dtype=np.int64), rounded(queries @ labels.T)
    return ScoreMatrix(shown_name(encoder.name), tuple(ids), nodes, scores, queries, labels)


def check_targets(targets: IntArray, graph: LabelGraph, source: str) -> NDArray[np.bool_]:
    """Tells which images are labelled with a leaf, shape (images,), and checks that something can be ranked.

    Args:
        targets: The node that each image shows, shape (images,).
        graph: The labels.
        source: Where the images are from, for messages.

    Raises:
        DataError: If no image is labelled with a leaf, or all that are show one leaf.
    """
    keep = np.isin(targets, graph.leaves)
    if not keep.any():
        raise DataError(
            "No image is labelled with a leaf of the taxonomy.",
            file=source,
            value=f"{len(keep)} images",
            remedy="Label the images with the most specific classes, or prune the taxonomy below their labels.",
        )
    shown = np.unique(targets[keep])
    if len(shown) == 1:
        raise DataError(
            "All images show the same class, so ranking them says nothing.",
            file=source,
            value=graph.tree.labels[int(shown[0])],
            remedy="Give images of at least two classes.",
        )
    return keep


def at_leaves(matrix: ScoreMatrix, graph: LabelGraph) -> ScoreMatrix:
    """Returns the images whose label is a leaf; of the others it is unknown which leaves they do not show.

    Raises:
        DataError: If no image is left, or all that are left show one leaf, so nothing can be distinguished.
    """
    keep = check_targets(matrix.targets, graph, matrix.name)
    if keep.all():
        return matrix
    note = f"{int((~keep).sum()):,} of {len(keep):,} images left out: their label is not a leaf of the taxonomy."
    return replace(matrix.of(keep), notes=(*matrix.notes, note))


# -- files ------------------------------------------------------------------------------------------------------------


def read_scores(path: str | Path, taxonomy: Taxonomy, part: Domain | None = None) -> ScoreMatrix:
    """Reads a score matrix.

    An `.npz` file holds `scores` (images × labels), `labels` (the name of each column) and `targets` (the label of each
    image); if it likes, `images` (names) and, for averaged embeddings, `image_embeddings` (images × dimensions) and
    `label_embeddings` (labels × dimensions). A CSV file has the columns `image` and `label` and one for each label.

    Labels are nodes' labels, aliases or paths. Every node needs a column; the root alone may have none.

    Args:
        path: The file.
        taxonomy: The tree.
        part: What `taxonomy` is a part of. Columns of other nodes of the whole are left out, and so are images of such
            nodes, both counted.

    Raises:
        DataError: If the file is not of that form, a label is not on the taxonomy or stands twice, nodes have no
            column, or a score is not a finite number; it names the image and the label.
    """
    path = Path(path)
    reader = {".npz": _read_npz, ".csv": _read_csv, ".tsv": _read_csv}.get(path.suffix.lower())
    if reader is None:
        raise DataError("The score file has an unknown suffix.", file=path, value=path.suffix.lower(), remedy=_FORM)
    arrays = reader(path)
    scores = arrays["scores"]
    arrays.setdefault("images", np.array([f"image {i + 1}" for i in range(len(scores))]))
    for name, rows in (("labels", scores.shape[1]), ("targets", len(scores)), ("images", len(scores))):
        if arrays[name].shape != (rows,):
            raise DataError(
                f"`{name}` must have {rows} entries to go with `scores` of shape {scores.shape}.",
                file=path,
                value=arrays[name].shape,
            )
    if not len(scores):
        raise DataError("There are no images in the score file.", file=path)
    images, labels, targets = ([str(name) for name in arrays[key].tolist()] for key in ("images", "labels", "targets"))
    _check_cells(scores, images, labels, arrays.get("rows"), path)
    columns = _columns(labels, taxonomy, part, path)
    shown = _nodes(targets, taxonomy, part, path, "label of an image")
    kept, here = shown >= 0, columns >= 0
    if not kept.any():
        raise DataError("No image shows a node of the selected part.", file=path, value=taxonomy.labels[0])
    spread = np.zeros((len(scores), len(taxonomy)), dtype=scores.dtype)
    spread[:, columns[here]] = scores[:, here]
    of_images, of_labels = _embeddings(arrays, len(scores), len(columns), path)
    if of_labels is not None:
        placed: FloatMatrix = np.zeros((len(taxonomy), of_labels.shape[1]), dtype=np.float32)
        placed[columns[here]] = of_labels[here]
        of_labels = placed
    notes = [
        f"{path}: {int((~flags).sum()):,} of {len(flags):,} {what} outside {taxonomy.labels[0]}"
        for flags, what in ((kept, "images are left out: label"), (here, "columns are left out: node"))
        if not flags.all()
    ]
    return ScoreMatrix(str(path), tuple(images), shown, spread, of_images, of_labels, tuple(notes)).of(kept)


def write_scores(path: str | Path, matrix: ScoreMatrix, taxonomy: Taxonomy) -> Path:
    """Writes a score matrix as `.npz`, with paths for labels; `read_scores` reads it back.

    Raises:
        TaxtuneError: If the file cannot be written.
    """
    paths = np.array(["/".join(taxonomy.path(i)) for i in range(len(taxonomy))])
    arrays: dict[str, Any] = {
        "scores": matrix.scores,
        "labels": paths,
        "targets": paths[matrix.targets],
        "images": np.array(matrix.images),
        "image_embeddings": matrix.image_embeddings,
        "label_embeddings": matrix.label_embeddings,
    }
    buffer = io.BytesIO()
    np.savez(buffer, **{name: array for name, array in arrays.items() if array is not None})
    return atomic.write_bytes(path, buffer.getvalue())


def _read_npz(path: Path) -> Arrays:
    if not path.exists():
        raise DataError("The score file does not exist.", file=path, remedy="Check the path.")
    if path.is_dir():
        raise DataError("This is a folder, not a score file.", file=path, remedy="Give the file in it.")
    try:
        if not zipfile.is_zipfile(path):
            raise DataError(
                "The score file cannot be read: it is not an .npz archive, or it is incomplete.",
                file=path,
                remedy=_FORM,
            )
        with np.load(path, allow_pickle=False) as file:
            missing = [name for name in _NEEDED if name not in file.files]
            if missing:
                raise DataError(f"The file has no array {', '.join(map(repr, missing))}.", file=path, remedy=_FORM)
            arrays = {name: _decoded(name, file, path) for name in _KNOWN if name in file.files}
    except DataError:
        raise
    except Exception as error:  # damage shows as what zipfile, zlib and NumPy's reader of headers happen to raise
        said = str(error).rstrip(".") or type(error).__name__
        raise DataError(f"The score file cannot be read: {said}.", file=path, remedy=_FORM) from None
    scores = arrays["scores"]
    if scores.ndim != 2 or scores.dtype.kind not in "fiu":
        raise DataError(
            "`scores` must be a table of numbers, images × labels.",
            file=path,
            value=f"shape {scores.shape}, {scores.dtype}",
        )
    # Never fewer digits than the file has: two scores that became equal would be a tie that nobody measured.
    arrays["scores"] = scores.astype(np.float32 if scores.dtype.itemsize <= 2 else np.result_type(scores, np.float32))
    return arrays


def _decoded(name: str, file: Any, path: Path) -> NDArray[Any]:
    """Returns an array of an archive; texts that were saved as bytes are decoded."""
    try:
        array: NDArray[Any] = file[name]
        return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
    except UnicodeDecodeError:
        raise DataError(f"`{name}` contains bytes that are not UTF-8 text.", file=path) from None
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise DataError(
            f"`{name}` is an array of Python objects, which are not read for safety.",
            file=path,
            remedy=f"Save it as np.asarray({name}, dtype={'float' if name == 'scores' else 'str'}).",
        ) from None


def _read_csv(path: Path) -> Arrays:
    fail = partial(DataError, file=path)
    text = read_text(path, error=DataError, what="score")
    table = parse_table(text, str(path), error=DataError, tidy=False)
    # The table's own header is in lower case; labels are read as they are written.
    first = next(line for line in text.splitlines() if line.strip())
    header = [cell.strip() for cell in next(csv.reader([first], delimiter=csv_delimiter(first)))]
    if not {"image", "label"} <= set(table.header):
        raise fail("The score file needs the columns `image` and `label`.", remedy=_FORM)
    if not all(header):
        place = header.index("") + 1
        raise fail(f"Column {place} has no name.", row=table.header_line, remedy="Give it a name or remove it.")
    image, label = table.header.index("image"), table.header.index("label")
    columns = [i for i in range(len(header)) if i not in (image, label)]
    scores = np.empty((len(table.rows), len(columns)))
    for i, row in enumerate(table.rows):
        if len(row.cells) > len(header):
            said = f"The row has {len(row.cells)} cells, the header {len(header)}."
            raise fail(said, row=row.line, value=row.cells[len(header)])
        for j, column in enumerate(columns):
            try:
                scores[i, j] = float(row.cell(column) or "nan")
            except ValueError:
                said = f"The score under {header[column]!r} is not a number."
                raise fail(said, row=row.line, value=row.cell(column)) from None
    return {
        "scores": scores,
        "labels": np.array([header[i] for i in columns], dtype=str),
        "targets": np.array([row.cell(label) for row in table.rows], dtype=str),
        "images": np.array([row.cell(image) for row in table.rows], dtype=str),
        "rows": np.array([row.line for row in table.rows]),
    }


def _check_cells(
    scores: NDArray[np.floating], images: Sequence[str], labels: Sequence[str], rows: IntArray | None, path: Path
) -> None:
    """Checks that no image is there twice and that every score is a number."""
    first: dict[str, int] = {}
    for i, name in enumerate(images):
        if first.setdefault(name, i) != i:
            before = "" if rows is None else f", in row {rows[first[name]]} already"
            raise DataError(
                f"An image is in the score file twice{before}.",
                file=path,
                row=None if rows is None else int(rows[i]),
                value=name,
                remedy="Keep one row.",
            )
    wrong = np.argwhere(~np.isfinite(scores))
    if len(wrong):
        image, label = wrong[0].tolist()
        raise DataError(
            f"{len(wrong):,} {'score is' if len(wrong) == 1 else 'scores are'} missing or not finite; the first is "
            f"that of image {images[image]!r} under {labels[label]!r}.",
            file=path,
            row=None if rows is None else int(rows[image]),
            value=float(scores[image, label]),
            remedy="An image that could not be scored cannot be ranked: remove it from the file or score it again.",
        )


def _columns(labels: Sequence[str], taxonomy: Taxonomy, part: Domain | None, path: Path) -> IntArray:
    nodes = _nodes(labels, taxonomy, part, path, "column")
    seen: dict[int, str] = {}
    for label, node in zip(labels, nodes.tolist(), strict=True):
        if node >= 0 and node in seen:
            said = f"The columns {seen[node]!r} and {label!r} are the same node."
            raise DataError(said, file=path, remedy="Keep one of them.")
        seen[node] = label
    missing = ["/".join(taxonomy.path(i)) for i in range(1, len(taxonomy)) if i not in seen]
    if missing:
        raise DataError(
            f"{len(missing):,} of {len(taxonomy):,} nodes of the taxonomy have no column, such as "
            f"{', '.join(map(repr, missing[:3]))}.",
            file=path,
            remedy="Score every label of the tree, or give the tree that was scored (use --root for a part of it).",
        )
    return nodes


def _nodes(labels: Sequence[str], taxonomy: Taxonomy, part: Domain | None, path: Path, what: str) -> IntArray:
    """Returns the node of each label; -1 for one that is outside the part."""
    known: dict[str, int] = {}
    wrong: list[str] = []
    for label in dict.fromkeys(labels):
        try:
            node = taxonomy.resolve(label) if part is None else part.locate(label)
            known[label] = -1 if node is None else node
        except TaxonomyError as error:
            wrong.append(f"  {error.message} {error.remedy or ''}".rstrip())
    if wrong:
        raise DataError(
            f"{len(wrong):,} {what if len(wrong) == 1 else what + 's'} cannot be found on the taxonomy:\n"
            + "\n".join(shortened(wrong, 20)),
            file=path,
        )
    return np.array([known[label] for label in labels], dtype=np.int64)


def _embeddings(arrays: Arrays, images: int, labels: int, path: Path) -> tuple[FloatMatrix | None, FloatMatrix | None]:
    fail = partial(DataError, file=path)
    of_images, of_labels = arrays.get("image_embeddings"), arrays.get("label_embeddings")
    if of_images is None and of_labels is None:
        return None, None
    if of_images is None or of_labels is None:
        raise fail("Give embeddings for both images and labels, or for neither.")
    shapes = of_images.ndim == of_labels.ndim == 2 and of_images.shape[1] == of_labels.shape[1]
    if not shapes or (len(of_images), len(of_labels)) != (images, labels):
        raise fail(
            f"`image_embeddings` must have {images} rows, `label_embeddings` {labels}, and both the same number of "
            f"columns.",
            value=f"{of_images.shape}, {of_labels.shape}",
        )
    for name, array in (("image_embeddings", of_images), ("label_embeddings", of_labels)):
        if array.dtype.kind not in "fiu":
            raise fail(f"`{name}` must be numbers.", value=str(array.dtype))
        if not np.isfinite(array).all():
            raise fail(f"`{name}` contains a value that is not a finite number.")
        empty = np.flatnonzero(~np.any(array, axis=1))
        if empty.size:
            # A vector of zeros has no direction: its cosines would be zeros that nobody measured.
            raise fail(f"{empty.size:,} rows of `{name}` are all zeros, the first row {empty[0] + 1}.")
    return unit(of_images.astype(np.float32)), unit(of_labels.astype(np.float32))
