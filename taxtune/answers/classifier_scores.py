"""A classifier's scores from a file: what it says of each image, as weights of nodes.

A file has a row per image with a column per label (wide), a row per image and label (long, as pybioclip writes it), or
is what SpeciesNet writes. All become a frame of the columns row, image, label and score, which is checked. What an
image's scores leave of 1, as top-k files do, and those of labels that the tree lacks are at the root; several of one
taxon are added up.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.answers.read import AnswerSchema, read_answers
from taxtune.answers.records import Source, open_table
from taxtune.answers.targets import rows_error, target_finder
from taxtune.data.columns import IMAGES, LABELS, find_column
from taxtune.errors import DataError
from taxtune.progress import note
from taxtune.tables import column_key, read_text
from taxtune.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Scores", "array_scores", "few", "read_scores", "read_truth"]

_SCORES = ("score", "probability", "prob", "confidence", "softmax", "p")
_LABELS = (*LABELS, "classification", "prediction", "truth")
#: Columns that spell a taxon out, from the top; pybioclip's end with them.
_RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species", "common_name")
_MOST = 1 + 1e-3  # scores were rounded
_REMEDY = (
    "Scores are probabilities, from 0 to 1, and those of an image add up to at most 1. Take the softmax of logits; "
    "divide percentages by 100; independent sigmoids are no distribution."
)
_ENTRY = ("row", "image", "label", "score")
Rows = Sequence[tuple[int, Mapping[str, Any]]]
#: What a score is of: a name, or the names of a taxon, which are looked up in this order.
Label = str | tuple[str, ...]


class Scores(NamedTuple):
    """The scores of n images.

    Attributes:
        images: Their names, each once.
        nodes: The node of each score, shape (n, k), as `weighted_paths` takes them; -1 is unsaid.
        weights: The scores, shape (n, k); the last column is what they leave of 1.
        missing: Images without scores, which have no row.
    """

    images: tuple[str, ...]
    nodes: NDArray[np.int64]
    weights: NDArray[np.float64]
    missing: tuple[str, ...] = ()

    def best(self) -> NDArray[np.int64]:
        """Returns the node of the label with the highest score, shape (n,); the root where the tree lacks it."""
        nodes = self.nodes[np.arange(len(self.nodes)), self.weights[:, :-1].argmax(axis=1)]
        return np.asarray(np.maximum(nodes, 0))


def read_scores(
    source: Source, taxonomy: Taxonomy, columns: Mapping[str, str | None] | None = None
) -> Scores:
    """Reads a classifier's scores.

    Args:
        source: A CSV, TSV, JSONL, XLSX or Parquet file, wide or long; SpeciesNet's JSON; a pandas `DataFrame` of either
            shape, whose index is a column if it has a name; or a list of records. Labels are those of the tree: label,
            alias, path or id, of an inner node as well. A taxon that is spelt out by its ranks goes to the deepest of
            them that the tree has.
        taxonomy: The label tree.
        columns: Those of "image", "label" and "score" that cannot be told by name and values.

    Raises:
        DataError: If the file cannot be read, a column cannot be told, a score is no probability, an image has scores
            above 1 in sum or none, or the tree has none of the labels.
    """
    if (found := _of_speciesnet(source)) is not None:
        return _scores(found, str(source), taxonomy)
    if getattr(getattr(source, "index", None), "name", None) is not None:
        source = source.reset_index()  # type: ignore[union-attr]
    file, rows, _ = open_table(source, what="scores")
    return _scores(list(_of_table(file, rows, taxonomy, columns or {})), file, taxonomy)


def array_scores(array: ArrayLike, labels: Iterable[object], taxonomy: Taxonomy) -> Scores:
    """Returns scores of an array, shape (n, m), with a column for each of m labels; images are called 0, 1, ...

    Raises:
        DataError: As `read_scores`.
    """
    values, names = np.asarray(array, dtype=np.float64), [str(label) for label in labels]
    rows = np.repeat(np.arange(len(values)), len(names))
    entries = rows, rows.astype(str), names * len(values), values.ravel()
    return _scores(dict(zip(_ENTRY, entries, strict=True)), "<array>", taxonomy)


def read_truth(
    source: Source, taxonomy: Taxonomy, columns: Mapping[str, str | None] | None = None
) -> dict[str, int]:
    """Reads the node of each image from a table with a column of images and one of labels ("truth" in `columns`).

    Raises:
        DataError: If it cannot be read, a column cannot be told, an image comes twice, or a label is not on the tree.
    """
    file, rows, _ = open_table(source, what="truth")
    names, find, asked = _names(rows), target_finder(taxonomy, suggest=0), columns or {}
    # The column that is named may be the other file's.
    image = _image_column(file, rows, names, asked if {asked.get("image")} & {*names} else {})
    others = [name for name in names if name != image]
    # Of a name and its path it is the one that always tells the node.
    likely = [
        name
        for name in others
        if all(find(record.get(name)).node is not None for _, record in rows)
    ]
    label = find_column("truth", asked.get("truth"), others, _LABELS, likely, file)
    table = read_answers(
        source, AnswerSchema(answer=image, truth=label, id=image, taxonomy=taxonomy)
    )
    for text in table.notes:
        note(text)
    return {row.id.strip(): row.target for row in table.rows}


def few(names: Iterable[object]) -> str:
    """Returns the first five names, for a message, and how many more there are."""
    listed = list(map(repr, names))
    return ", ".join(listed[:5]) + (f" and {len(listed) - 5:,} more" if len(listed) > 5 else "")


def _of_table(
    file: str, rows: Rows, taxonomy: Taxonomy, asked: Mapping[str, str | None]
) -> Iterable[Any]:
    names = _names(rows)
    known = {column_key(name): name for name in names}
    ranks = [known.get(rank, "") for rank in _RANKS]
    score = asked.get("score") or next((known[name] for name in _SCORES if name in known), None)
    image = _image_column(file, rows, names, asked)
    others = [name for name in names if name not in (image, score)]
    text = [name for name in others if not _is_numeric(rows, name)]
    is_taxon = not asked.get("label") and sum(map(bool, ranks)) > 2
    if not asked.get("label") and (score is None or not (is_taxon or known.keys() & {*_LABELS})):
        find = target_finder(taxonomy, suggest=0)
        if unused := [name for name in text if find(name).node is None]:
            note(f"{file}: columns that are neither labels nor numbers are left out: {few(unused)}")
        labels = [name for name in others if name not in unused]
        first: dict[str, int] = {}
        again = [
            row for row, record in rows if first.setdefault(_text(record.get(image)), row) != row
        ]
        if again:
            problems = [(row, "its image already has a row") for row in again]
            raise rows_error(problems, file, len(rows), remedy="Keep one row per image.")
        for row, record in rows:  # an empty cell is none of the top k
            given = [name for name in labels if record.get(name) is not None]
            yield from (
                (row, _text(record.get(image)), name, record.get(name)) for name in given or [""]
            )
        return
    score = find_column("score", score, names, _SCORES, (), file)
    label = (
        "" if is_taxon else find_column("label", asked.get("label"), others, _LABELS, text, file)
    )
    for row, record in rows:
        name = (
            _taxon([_text(record.get(rank)) for rank in ranks])
            if is_taxon
            else _text(record.get(label))
        )
        yield row, _text(record.get(image)), name, record.get(score)


def _of_speciesnet(source: Source) -> list[tuple[int, str, Label | None, Any]] | None:
    """What SpeciesNet says of each image or, from version 5 on, of its surest detection; a label None is silence.

    A class is "uuid;class;order;family;genus;species;common name", its species without the genus.
    """
    if not isinstance(source, str | Path) or Path(source).suffix.lower() != ".json":
        return None
    try:
        predictions = list(
            json.loads(read_text(Path(source), error=DataError, what="scores"))["predictions"]
        )
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    entries: list[tuple[int, str, Label | None, Any]] = []
    several = 0
    for row, one in enumerate(predictions, start=1):
        try:
            found = [each.get("raw_classifications") for each in one.get("detections") or ()]
            found = (
                [one["classifications"]]
                if one.get("classifications")
                else list(filter(None, found))
            )
            pairs = list(zip(found[0]["classes"], found[0]["scores"], strict=True)) if found else []
            for text, score in pairs:
                *ranks, genus, epithet, common = text.split(";")[1:]
                species = f"{genus} {epithet}" if epithet else ""
                entries.append(
                    (row, str(one["filepath"]), _taxon([*ranks, genus, species, common]), score)
                )
            entries += [] if pairs else [(row, str(one["filepath"]), None, None)]
        except (KeyError, TypeError, ValueError, AttributeError):
            message = "The prediction is not as SpeciesNet writes it: a filepath, and classes with as many scores."
            raise DataError(message, file=source, row=row, value=one) from None
        several += len(found) > 1
    if several:
        note(
            f"{source}: {several:,} images have several classified detections; the surest one counts"
        )
    return entries


def _taxon(ranks: Sequence[str]) -> Label:
    # Scientific names come first: a common name may be that of several species. Of a subspecies the species counts.
    *higher, species, common = ranks
    return tuple(
        dict.fromkeys(
            filter(None, [species, common, " ".join(species.split()[:2]), *reversed(higher)])
        )
    )


def _image_column(
    file: str, rows: Rows, names: Sequence[str], asked: Mapping[str, str | None]
) -> str:
    usual = [name for name in names if column_key(name) in IMAGES]
    likely = usual or [name for name in names if not _is_numeric(rows, name)]
    return find_column("image", asked.get("image"), names, IMAGES, likely, file)


def _names(rows: Rows) -> list[str]:
    return list(dict.fromkeys(name for _, record in rows for name in record))


def _is_numeric(rows: Rows, name: str) -> bool:
    import pandas as pd

    given = [value for _, record in rows if (value := record.get(name)) is not None]
    return bool(pd.to_numeric(pd.Series(given, dtype=object), errors="coerce").notna().all())


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _scores(entries: Any, file: str, taxonomy: Taxonomy) -> Scores:
    import pandas as pd

    frame = pd.DataFrame(entries, columns=_ENTRY)
    missing = tuple(frame.image[frame.label.isna()])  # only SpeciesNet tells of them
    frame = frame[frame.label.notna()]
    if frame.empty:
        raise DataError("The file has no scores.", file=file)
    if missing:
        note(f"{file}: {len(missing):,} images have no scores: {few(missing)}")
    frame["value"] = pd.to_numeric(frame.score, errors="coerce")
    _check(frame, file)
    (image, images), (label, labels) = pd.factorize(frame.image), pd.factorize(frame.label)
    found = np.array([_node(taxonomy, name) for name in labels], dtype=np.int64)
    if not (found >= 0).any():
        remedy = "Use labels, aliases, paths or ids of the tree, or add the names to it as aliases."
        raise DataError(
            "None of the labels is on the tree.",
            file=file,
            value=few(map(_name, labels)),
            remedy=remedy,
        )
    if (found < 0).any():
        mass = frame.value.groupby(label).sum()[found < 0].sort_values(ascending=False)
        note(
            f"{file}: {len(mass):,} of {len(labels):,} labels are not on the tree or name several of its nodes; "
            f"{mass.sum() / len(images):.2%} of all scores, for the root: {few(_name(labels[i]) for i in mass.index)}"
        )
    # A label that the tree lacks is itself; of a node the labels are one.
    taxon = np.where(found >= 0, found, -1 - np.arange(len(labels)))[label]
    scores = pd.DataFrame({"image": image, "taxon": taxon, "value": frame.value.to_numpy()})
    sums = scores.groupby(["image", "taxon"], sort=False).value.sum().reset_index()
    if len(sums) < len(scores):
        several = scores.image[scores.duplicated(["image", "taxon"])].unique()
        named = few(images[one] for one in several)
        note(
            f"{file}: {len(several):,} images have several scores of one taxon, which are added up: {named}"
        )
    column = sums.groupby("image").cumcount()
    nodes = np.full((len(images), column.max() + 2), -1, dtype=np.int64)
    weights = np.zeros(nodes.shape)
    nodes[sums.image, column], weights[sums.image, column] = np.maximum(sums.taxon, -1), sums.value
    weights[:, -1] = np.maximum(1 - weights.sum(axis=1), 0)
    return Scores(tuple(images), nodes, weights, missing)


def _check(frame: pd.DataFrame, file: str) -> None:
    """Raises a DataError with all that is wrong."""
    named, sure = (frame.image != "") & frame.label.astype(bool), frame.value.between(0, _MOST)
    frame = frame.assign(total=frame.value.where(sure).groupby(frame.image).transform("sum"))
    kinds = (
        (~named, "image {0.image!r} has no scores"),
        (named & ~sure, "{1!r} of image {0.image!r} has no probability: {0.score!r}"),
        (
            (frame.total > _MOST) & ~frame.duplicated("image"),
            "the scores of image {0.image!r} add up to {0.total:.4g}",
        ),
    )
    bad: list[tuple[Any, str]] = [
        (one, text) for wrong, text in kinds for one in frame[wrong].itertuples()
    ]
    if problems := [(one.row, text.format(one, _name(one.label))) for one, text in bad]:
        raise rows_error(problems, file, frame.row.nunique(), remedy=_REMEDY)


def _node(taxonomy: Taxonomy, label: Label) -> int:
    """The node of a label, -1 where the tree has none or several of it."""
    if isinstance(label, str):
        target = target_finder(taxonomy, suggest=0)(label)
        # "blank" is no taxon, and its scores are the root's.
        return -1 if target.node is None or target.said else target.node
    written = {name.casefold() for name in label}
    for name in label:
        # A genus of animals and one of plants may share a name: the taxon's other names tell which is meant.
        shared = {
            node: sum(up.casefold() in written for up in taxonomy.path(node))
            for node in taxonomy.find(name)
        }
        nodes = [node for node, count in shared.items() if count == max(shared.values())]
        if len(nodes) == 1:
            return nodes[0]
    return -1


def _name(label: Label) -> str:
    return label if isinstance(label, str) else label[0]
