"""Reading and writing score matrices: `.npz` for large ones, CSV for those that people look at."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taxtune import atomic
from taxtune.encoders.base import FloatMatrix
from taxtune.errors import DataError, TaxonomyError, shortened
from taxtune.studies.granularity.label_prompts import unit
from taxtune.studies.granularity.score_matrix import ScoreMatrix
from taxtune.tables import csv_delimiter, parse_table, read_text
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["read_scores", "write_scores"]

_NEEDED = ("scores", "labels", "targets")
_KNOWN = (*_NEEDED, "images", "image_embeddings", "label_embeddings")
_FORM = (
    "A score file is an .npz with the arrays `scores` (images × labels), `labels` and `targets`, or a CSV with the "
    "columns image, label and one a label."
)


def read_scores(path: str | Path, taxonomy: Taxonomy, part: Domain | None = None) -> ScoreMatrix:
    """Reads a score matrix.

    An `.npz` file holds `scores` (images × labels), `labels` (the name of each column) and `targets` (the label of each
    image); if it likes, `images` (names) and, for averaged embeddings, `image_embeddings` (images × dimensions) and
    `label_embeddings` (labels × dimensions). A CSV file has the columns `image` and `label` and one a label.

    Labels are nodes' labels, aliases or paths. Every node needs a column; the root alone may have none.

    Args:
        path: The file.
        taxonomy: The tree.
        part: What `taxonomy` is a part of. Columns of other nodes of the whole are left out, and so are images of such
            nodes, both counted.

    Raises:
        DataError: If the file is not of that form, a label is not on the taxonomy or stands twice, nodes have no
            column, or a score is no finite number; it names the image and the label.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".npz":
        arrays = _read_npz(path)
    elif suffix in (".csv", ".tsv"):
        arrays = _read_csv(path)
    else:
        raise DataError("The score file has an unknown ending.", file=path, value=suffix, remedy=_FORM)
    scores, labels, targets = arrays["scores"], arrays["labels"], arrays["targets"]
    images = arrays.get("images", np.array([f"image {i + 1}" for i in range(len(scores))]))
    for name, array, rows in (("labels", labels, scores.shape[1]), ("targets", targets, len(scores))):
        if array.shape != (rows,):
            raise DataError(
                f"`{name}` must have {rows} entries to go with `scores` of shape {scores.shape}.",
                file=path,
                value=array.shape,
            )
    if images.shape != (len(scores),):
        raise DataError(f"`images` must have {len(scores)} entries.", file=path, value=images.shape)
    if not len(scores):
        raise DataError("There are no images in the score file.", file=path)
    image_names = [str(name) for name in images.tolist()]
    label_names = [str(name) for name in labels.tolist()]
    rows = arrays.get("rows")
    _check_once(image_names, rows, path)
    _check_finite(scores, image_names, label_names, rows, path)
    columns = _columns(label_names, taxonomy, part, path)
    shown = _nodes([str(name) for name in targets.tolist()], taxonomy, part, path, "label of an image")
    kept, here = shown >= 0, columns >= 0
    if not kept.any():
        raise DataError("No image shows a node of the part.", file=path, value=taxonomy.labels[0])
    spread = np.zeros((int(kept.sum()), len(taxonomy)), dtype=scores.dtype)
    spread[:, columns[here]] = scores[np.ix_(kept, here)]
    of_images, of_labels = _embeddings(arrays, len(scores), len(columns), path)
    if of_images is not None and of_labels is not None:
        placed: FloatMatrix = np.zeros((len(taxonomy), of_labels.shape[1]), dtype=np.float32)
        placed[columns[here]] = of_labels[here]
        of_images, of_labels = of_images[kept], placed
    return ScoreMatrix(
        str(path),
        tuple(name for name, keep in zip(image_names, kept.tolist(), strict=True) if keep),
        shown[kept],
        spread,
        of_images,
        of_labels,
        _outside(path, taxonomy, kept, here),
    )


def _outside(path: Path, taxonomy: Taxonomy, kept: NDArray[np.bool_], here: NDArray[np.bool_]) -> tuple[str, ...]:
    notes = []
    for flags, what in ((kept, "images are left out: label"), (here, "columns are left out: node")):
        if not flags.all():
            notes.append(f"{path}: {int((~flags).sum()):,} of {len(flags):,} {what} outside {taxonomy.labels[0]}")
    return tuple(notes)


def write_scores(path: str | Path, matrix: ScoreMatrix, taxonomy: Taxonomy) -> Path:
    """Writes a score matrix as `.npz`, with paths for labels; `read_scores` reads it back.

    Raises:
        TaxtuneError: If the file cannot be written.
    """
    paths = ["/".join(taxonomy.path(i)) for i in range(len(taxonomy))]
    arrays: dict[str, Any] = {
        "scores": matrix.scores,
        "labels": np.array(paths),
        "targets": np.array([paths[i] for i in matrix.targets.tolist()]),
        "images": np.array(matrix.images),
    }
    for name in ("image_embeddings", "label_embeddings"):
        if getattr(matrix, name) is not None:
            arrays[name] = getattr(matrix, name)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return atomic.write_bytes(path, buffer.getvalue())


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    try:
        if path.is_file() and not zipfile.is_zipfile(path):
            raise DataError(
                "The score file cannot be read: it is no .npz archive, or only a part of one.", file=path, remedy=_FORM
            )
        with np.load(path, allow_pickle=False) as file:
            missing = [name for name in _NEEDED if name not in file.files]
            if missing:
                raise DataError(f"The file has no array {', '.join(map(repr, missing))}.", file=path, remedy=_FORM)
            arrays = {name: _decoded(name, file, path) for name in _KNOWN if name in file.files}
    except FileNotFoundError:
        raise DataError("There is no such score file.", file=path, remedy="Check the path.") from None
    except DataError:
        raise
    except IsADirectoryError:
        raise DataError("This is a folder, not a score file.", file=path, remedy="Give the file in it.") from None
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
        raise DataError(f"`{name}` holds bytes that are no UTF-8 text.", file=path) from None
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise DataError(
            f"`{name}` is an array of Python objects, which are not read from files of others.",
            file=path,
            remedy=f"Save it as np.asarray({name}, dtype={'float' if name == 'scores' else 'str'}).",
        ) from None


def _read_csv(path: Path) -> dict[str, NDArray[Any]]:
    text = read_text(path, error=DataError, what="score")
    table = parse_table(text, str(path), error=DataError, tidy=False)
    # The table's own header is in lower case; labels are read as they are written.
    first = next(line for line in text.splitlines() if line.strip())
    header = [cell.strip() for cell in next(csv.reader([first], delimiter=csv_delimiter(first)))]
    places = {name.casefold(): i for i, name in reversed([*enumerate(header)])}
    if "image" not in places or "label" not in places:
        raise DataError("The score file needs the columns `image` and `label`.", file=path, remedy=_FORM)
    columns = [i for i, name in enumerate(header) if i not in (places["image"], places["label"])]
    if not all(header):
        raise DataError(
            f"Column {header.index('') + 1} has no name.",
            file=path,
            row=table.header_line,
            remedy="Name it or remove it.",
        )
    scores = np.empty((len(table.rows), len(columns)))
    for i, row in enumerate(table.rows):
        if len(row.cells) > len(header):
            raise DataError(
                f"The row has {len(row.cells)} cells, the header {len(header)}.",
                file=path,
                row=row.line,
                value=row.cells[len(header)],
            )
        try:
            scores[i] = [float(row.cell(column) or "nan") for column in columns]
        except ValueError:
            wrong = next(column for column in columns if not _is_float(row.cell(column) or "nan"))
            raise DataError(
                f"The score under {header[wrong]!r} is no number.", file=path, row=row.line, value=row.cell(wrong)
            ) from None
    return {
        "scores": scores,
        "labels": np.array([header[i] for i in columns], dtype=str),
        "targets": np.array([row.cell(places["label"]) for row in table.rows], dtype=str),
        "images": np.array([row.cell(places["image"]) for row in table.rows], dtype=str),
        "rows": np.array([row.line for row in table.rows], dtype=np.int64),
    }


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_once(images: Sequence[str], rows: NDArray[np.int64] | None, path: Path) -> None:
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


def _check_finite(
    scores: NDArray[np.floating],
    images: Sequence[str],
    labels: Sequence[str],
    rows: NDArray[np.int64] | None,
    path: Path,
) -> None:
    wrong = np.argwhere(~np.isfinite(scores))
    if len(wrong):
        image, label = wrong[0].tolist()
        raise DataError(
            f"{len(wrong):,} {'score is' if len(wrong) == 1 else 'scores are'} missing or no finite number, the first "
            f"that of image {images[image]!r} under {labels[label]!r}.",
            file=path,
            row=None if rows is None else int(rows[image]),
            value=float(scores[image, label]),
            remedy="An image that could not be scored cannot be ranked: take it out of the file or score it again.",
        )


def _columns(labels: Sequence[str], taxonomy: Taxonomy, part: Domain | None, path: Path) -> NDArray[np.int64]:
    nodes = _nodes(labels, taxonomy, part, path, "column")
    seen: dict[int, str] = {}
    for label, node in zip(labels, nodes.tolist(), strict=True):
        if node >= 0 and node in seen:
            raise DataError(
                f"The columns {seen[node]!r} and {label!r} are one node.", file=path, remedy="Keep one of them."
            )
        seen[node] = label
    missing = ["/".join(taxonomy.path(i)) for i in range(1, len(taxonomy)) if i not in seen]
    if missing:
        raise DataError(
            f"{len(missing):,} of {len(taxonomy):,} nodes of the taxonomy have no column, such as "
            f"{', '.join(map(repr, missing[:3]))}.",
            file=path,
            remedy="Score every label of the tree, or give the tree that was scored (--root takes a part of one).",
        )
    return nodes


def _nodes(labels: Sequence[str], taxonomy: Taxonomy, part: Domain | None, path: Path, what: str) -> NDArray[np.int64]:
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


def _embeddings(
    arrays: dict[str, NDArray[Any]], images: int, labels: int, path: Path
) -> tuple[FloatMatrix | None, FloatMatrix | None]:
    of_images, of_labels = arrays.get("image_embeddings"), arrays.get("label_embeddings")
    if of_images is None and of_labels is None:
        return None, None
    if of_images is None or of_labels is None:
        raise DataError("Embeddings are needed of the images and of the labels, or of neither.", file=path)
    shapes = of_images.ndim == of_labels.ndim == 2 and of_images.shape[1] == of_labels.shape[1]
    if not shapes or (len(of_images), len(of_labels)) != (images, labels):
        raise DataError(
            f"`image_embeddings` must have {images} rows, `label_embeddings` {labels}, both as many columns.",
            file=path,
            value=f"{of_images.shape}, {of_labels.shape}",
        )
    for name, array in (("image_embeddings", of_images), ("label_embeddings", of_labels)):
        if array.dtype.kind not in "fiu":
            raise DataError(f"`{name}` must be numbers.", file=path, value=str(array.dtype))
        if not np.isfinite(array).all():
            raise DataError(f"`{name}` holds a value that is no finite number.", file=path)
        empty = np.flatnonzero(~np.any(array, axis=1))
        if empty.size:
            # A vector of zeros has no direction: its cosines would be zeros that nobody measured.
            raise DataError(f"{empty.size:,} rows of `{name}` are all zeros, the first row {empty[0] + 1}.", file=path)
    return unit(of_images.astype(np.float32)), unit(of_labels.astype(np.float32))
