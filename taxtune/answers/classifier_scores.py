"""A classifier's scores from a file, as weights of nodes for each image.

A file has a row per image with a column per label (wide), a row per image and label (long, as
pybioclip writes it), or is what SpeciesNet writes. All become a frame of the columns row, image,
label and score, which is checked. What an image's scores leave of 1, as top-k files do, and those
of labels that the tree lacks are at the root; several of one taxon are added up.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.answers.read import read_answers
from taxtune.answers.records import Records, Source, open_table
from taxtune.answers.schema import AnswerSchema
from taxtune.answers.targets import rows_error, target_finder
from taxtune.data.columns import IMAGES, LABELS, find_column
from taxtune.data.names import match_names
from taxtune.errors import DataError
from taxtune.progress import note
from taxtune.settings import LabelWords
from taxtune.tables import column_key, read_text
from taxtune.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Scores", "array_scores", "few", "read_groups", "read_scores", "read_truth"]

_SCORES = ("score", "probability", "prob", "confidence", "softmax", "p")
_LABELS = (*LABELS, "classification", "prediction", "truth")
#: Columns that spell a taxon out, from the top; pybioclip's end with them.
_RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species", "common_name")
_MOST = 1 + 1e-3  # scores were rounded
_REMEDY = (
    "Scores are probabilities, from 0 to 1, and those of an image add up to at most 1. Take the "
    "softmax of logits; divide percentages by 100; independent sigmoids are no distribution."
)

#: The label of a score: a name, or the names of a taxon, which are looked up in this order.
Label = str | tuple[str, ...]
#: Columns of "image", "label", "score", "truth" and "group" that a user named.
Columns = Mapping[str, str | None]


class _Entry(NamedTuple):
    """A score of an image, by the row of the file. Without a label the image has no scores."""

    row: int
    image: str
    label: Label | None
    score: Any


class Scores(NamedTuple):
    """The scores of n images.

    Attributes:
        images: Their names, each once.
        nodes: The node of each score, shape (n, k), as `weighted_paths` takes them; -1 is unsaid.
        weights: The scores, shape (n, k). The last column is what they leave of 1.
        missing: Images without scores, which have no row.
    """

    images: tuple[str, ...]
    nodes: NDArray[np.int64]
    weights: NDArray[np.float64]
    missing: tuple[str, ...] = ()

    def rows_of(self, images: Sequence[str]) -> dict[str, int]:
        """Returns the rows of images, by their names, which `match_names` finds here.

        Raises:
            DataError: If none is here.
        """
        rows = {name: row for row, name in enumerate(self.images)}
        names = match_names(images, rows)
        if not names:
            message = "The scores are of other images: the names of the images must be the same."
            raise DataError(message, value=(self.images[0], *images[:1]))
        return {image: rows[name] for image, name in names.items()}

    def best(self) -> NDArray[np.int64]:
        """Returns the node of the label with the highest score, shape (n,).

        It is the root where the tree lacks the label.
        """
        columns = self.weights[:, :-1].argmax(axis=1)
        nodes = self.nodes[np.arange(len(self.nodes)), columns]
        return np.asarray(np.maximum(nodes, 0))


def read_scores(source: Source, taxonomy: Taxonomy, columns: Columns | None = None) -> Scores:
    """Reads a classifier's scores.

    Args:
        source: A CSV, TSV, JSONL, XLSX or Parquet file, wide or long; SpeciesNet's JSON; a pandas
            `DataFrame` of either shape, whose index is a column if it has a name; or a list of
            records. Labels are those of the tree: label, alias, path or id, of an inner node as
            well. A taxon that is spelt out by its ranks goes to the deepest of them that the tree
            has.
        taxonomy: The label tree.
        columns: Those of "image", "label" and "score" that cannot be told by name and values.

    Raises:
        DataError: If the file cannot be read, a column cannot be told, a score is no probability,
            an image has scores above 1 in sum or none, or the tree has none of the labels.
    """
    predictions = _speciesnet_predictions(source)
    if predictions is not None:
        file = str(source)
        return _weighed(_speciesnet_entries(predictions, file), file, taxonomy)
    if getattr(getattr(source, "index", None), "name", None) is not None:
        source = source.reset_index()  # type: ignore[union-attr]
    opened = open_table(source, what="scores")
    reader = _TableReader(opened, taxonomy, columns or {})
    return _weighed(reader.entries(), opened.file, taxonomy)


def array_scores(array: ArrayLike, labels: Iterable[object], taxonomy: Taxonomy) -> Scores:
    """Returns the scores of an array whose images are called 0, 1, ...

    Args:
        array: The scores, shape (n, m).
        labels: The label of each of the m columns.
        taxonomy: The label tree.

    Raises:
        DataError: As `read_scores`.
    """
    values = np.asarray(array, dtype=np.float64)
    names = [str(label) for label in labels]
    rows = np.repeat(np.arange(len(values)), len(names))
    columns: dict[str, Any] = {
        "row": rows,
        "image": rows.astype(str),
        "label": names * len(values),
        "score": values.ravel(),
    }
    return _weighed(columns, "<array>", taxonomy)


def read_truth(
    source: Source,
    taxonomy: Taxonomy,
    columns: Columns | None = None,
    words: LabelWords | None = None,
) -> dict[str, int]:
    """Reads the node of each image from a table with a column of images and one of labels.

    Args:
        source: The table.
        taxonomy: The label tree.
        columns: Those of "image" and "truth" that cannot be told.
        words: What labels say that no tree has; None for the words that are usual.

    Raises:
        DataError: If it cannot be read, a column cannot be told, an image comes twice, or a label
            is not on the tree.
    """
    opened = open_table(source, what="truth")
    find = target_finder(taxonomy, suggest=0, words=words)
    asked = columns or {}
    image = _image_column(opened, asked, strict=False)
    others = [name for name in opened.columns if name not in (image, asked.get("group"))]
    # Of a name and its path it is the one that always tells the node.
    likely = []
    for name in others:
        targets = [find(record.get(name)) for _, record in opened.rows]
        names_nodes = any(target.node is not None and not target.phrase for target in targets)
        if names_nodes and not any(target.problem for target in targets):
            likely.append(name)
    label = find_column("truth", asked.get("truth"), others, _LABELS, likely, opened.file)
    schema = AnswerSchema(answer=image, truth=label, id=image, taxonomy=taxonomy, words=words)
    table = read_answers(source, schema)
    for text in table.notes:
        note(text)
    return {row.id.strip(): row.target for row in table.rows}


def read_groups(source: Source, column: str, columns: Columns | None = None) -> dict[str, str]:
    """Reads the group of each image from a column of a table; empty if the table lacks it."""
    if _speciesnet_predictions(source) is not None:
        return {}
    opened = open_table(source, what="groups")
    if column not in opened.columns:
        return {}
    image = _image_column(opened, columns or {}, strict=False)
    return {_text(record.get(image)): _text(record.get(column)) for _, record in opened.rows}


def few(names: Iterable[object]) -> str:
    """Returns the first five names, for a message, and the number of further ones."""
    listed = list(map(repr, names))
    more = f" and {len(listed) - 5:,} more" if len(listed) > 5 else ""
    return f"{', '.join(listed[:5])}{more}"


# -- tables ----------------------------------------------------------------------------------------


class _TableReader:
    """Reads the scores of a table, wide or long.

    Args:
        opened: The records.
        taxonomy: The label tree.
        asked: The columns that a user named.
    """

    def __init__(self, opened: Records, taxonomy: Taxonomy, asked: Columns) -> None:
        self._opened = opened
        self._taxonomy = taxonomy
        self._asked = asked
        self._image = _image_column(opened, asked)
        known = {column_key(name): name for name in opened.columns}
        self._usual = known.keys()
        self._ranks = [known.get(rank, "") for rank in _RANKS]
        named_scores = [known[name] for name in _SCORES if name in known]
        self._score = asked.get("score") or next(iter(named_scores), None)
        used = (self._image, self._score, asked.get("group"))
        self._others = [name for name in opened.columns if name not in used]
        self._texts = [name for name in self._others if not _is_numeric(opened, name)]

    def entries(self) -> Iterator[_Entry]:
        """Returns the scores."""
        is_taxon = sum(map(bool, self._ranks)) > 2
        if self._asked.get("label"):
            return self._long_entries(self._label_column())
        if self._score is not None and is_taxon:
            return self._long_entries(None)
        if self._score is not None and self._usual & {*_LABELS}:
            return self._long_entries(self._label_column())
        return self._wide_entries()

    def _label_column(self) -> str:
        asked = self._asked.get("label")
        return find_column("label", asked, self._others, _LABELS, self._texts, self._opened.file)

    def _long_entries(self, label: str | None) -> Iterator[_Entry]:
        """Yields the score of each row. Its label is in a column, or for None in its ranks."""
        score = find_column(
            "score", self._score, self._opened.columns, _SCORES, (), self._opened.file
        )
        for row, record in self._opened.rows:
            name: Label
            if label is None:
                name = _taxon([_text(record.get(rank)) for rank in self._ranks])
            else:
                name = _text(record.get(label))
            yield _Entry(row, _text(record.get(self._image)), name, record.get(score))

    def _wide_entries(self) -> Iterator[_Entry]:
        """Yields the scores of each row, whose labels are the columns."""
        file = self._opened.file
        find = target_finder(self._taxonomy, suggest=0)
        unused = [name for name in self._texts if find(name).node is None]
        if unused:
            note(f"{file}: columns that are neither labels nor numbers are left out: {few(unused)}")
        labels = [name for name in self._others if name not in unused]
        first: dict[str, int] = {}
        problems = []
        for row, record in self._opened.rows:
            if first.setdefault(_text(record.get(self._image)), row) != row:
                problems.append((row, "its image already has a row"))
        if problems:
            total = len(self._opened.rows)
            raise rows_error(problems, file, total, remedy="Keep one row per image.")
        for row, record in self._opened.rows:
            # An empty cell is none of the top k.
            given = [name for name in labels if record.get(name) is not None]
            for name in given or [""]:
                yield _Entry(row, _text(record.get(self._image)), name, record.get(name))


def _image_column(opened: Records, asked: Columns, *, strict: bool = True) -> str:
    """Returns the column of images; if not strict, the one asked for may be another file's."""
    usual = [name for name in opened.columns if column_key(name) in IMAGES]
    likely = usual or [name for name in opened.columns if not _is_numeric(opened, name)]
    name = asked.get("image")
    if not strict and name not in opened.columns:
        name = None
    return find_column("image", name, opened.columns, IMAGES, likely, opened.file)


def _is_numeric(opened: Records, name: str) -> bool:
    import pandas as pd

    cells = [record.get(name) for _, record in opened.rows]
    given = pd.Series([cell for cell in cells if cell is not None], dtype=object)
    return bool(pd.to_numeric(given, errors="coerce").notna().all())


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


# -- SpeciesNet ------------------------------------------------------------------------------------


def _speciesnet_predictions(source: Source) -> list[Any] | None:
    """Returns the predictions of a file of SpeciesNet, None for any other source."""
    if not isinstance(source, str | Path) or Path(source).suffix.lower() != ".json":
        return None
    try:
        document = json.loads(read_text(Path(source), error=DataError, what="scores"))
        return list(document["predictions"])
    except (ValueError, RecursionError, KeyError, TypeError):
        return None


def _speciesnet_entries(predictions: Iterable[Any], file: str) -> list[_Entry]:
    """Returns the scores of each image or, from version 5 on, of its surest detection."""
    entries = []
    several = 0
    for row, prediction in enumerate(predictions, start=1):
        try:
            found = _speciesnet_classifications(prediction)
            image = str(prediction["filepath"])
            if not found or not found[0]["classes"]:
                entries.append(_Entry(row, image, None, None))
                continue
            for text, score in zip(found[0]["classes"], found[0]["scores"], strict=True):
                entries.append(_Entry(row, image, _speciesnet_label(text), score))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise DataError(
                "The prediction is not as SpeciesNet writes it: a filepath, and classes with as many "
                "scores.",
                file=file,
                row=row,
                value=prediction,
            ) from None
        several += len(found) > 1
    if several:
        note(
            f"{file}: {several:,} images have several classified detections; the surest one counts"
        )
    return entries


def _speciesnet_classifications(prediction: Any) -> list[Any]:
    """Returns the classifications of an image, or of each of its detections that has some."""
    if prediction.get("classifications"):
        return [prediction["classifications"]]
    detections = prediction.get("detections") or ()
    found = [detection.get("raw_classifications") for detection in detections]
    return [classifications for classifications in found if classifications]


def _speciesnet_label(text: str) -> Label:
    """Returns the names of a class, "uuid;class;order;family;genus;epithet;common name"."""
    *ranks, genus, epithet, common = text.split(";")[1:]
    species = f"{genus} {epithet}" if epithet else ""
    return _taxon([*ranks, genus, species, common])


def _taxon(ranks: Sequence[str]) -> Label:
    """Returns the names of a taxon, the one to look up first in front.

    Scientific names come first: a common name may be that of several species. Of a subspecies the
    species counts.
    """
    *higher, species, common = ranks
    names = [species, common, " ".join(species.split()[:2]), *reversed(higher)]
    return tuple(dict.fromkeys(filter(None, names)))


# -- from entries to weights -----------------------------------------------------------------------


def _weighed(
    entries: Iterable[_Entry] | Mapping[str, ArrayLike], file: str, taxonomy: Taxonomy
) -> Scores:
    """Returns entries, or the columns of entries, as weights of nodes.

    Raises:
        DataError: If there are none, one is no probability, or none of the labels is on the tree.
    """
    import pandas as pd

    frame = pd.DataFrame(entries, columns=_Entry._fields)
    missing = tuple(frame.image[frame.label.isna()])  # only SpeciesNet tells of them
    frame = frame[frame.label.notna()]
    if frame.empty:
        raise DataError("The file has no scores.", file=file)
    if missing:
        note(f"{file}: {len(missing):,} images have no scores: {few(missing)}")
    frame["value"] = pd.to_numeric(frame.score, errors="coerce")
    _check(frame, file)
    image, images = pd.factorize(frame.image)
    label, labels = pd.factorize(frame.label)
    nodes_of = np.array([_node(taxonomy, name) for name in labels], dtype=np.int64)
    mass = frame.value.groupby(label).sum()[nodes_of < 0]
    _note_off_tree(mass, list(labels), len(images), file)
    # A label that the tree lacks is itself; of a node the labels are one.
    taxa = np.where(nodes_of >= 0, nodes_of, -1 - np.arange(len(labels)))
    scores = pd.DataFrame({"image": image, "taxon": taxa[label], "value": frame.value.to_numpy()})
    again = scores.image[scores.duplicated(["image", "taxon"])].unique()
    if len(again):
        note(
            f"{file}: {len(again):,} images have several scores of one taxon, which are added up: "
            f"{few(images[again])}"
        )
    sums = scores.groupby(["image", "taxon"], sort=False).value.sum().reset_index()
    column = sums.groupby("image").cumcount()
    nodes = np.full((len(images), column.max() + 2), -1, dtype=np.int64)
    nodes[sums.image, column] = np.maximum(sums.taxon, -1)
    weights = np.zeros(nodes.shape)
    weights[sums.image, column] = sums.value
    weights[:, -1] = np.maximum(1 - weights.sum(axis=1), 0)
    return Scores(tuple(images), nodes, weights, missing)


def _note_off_tree(mass: pd.Series, labels: Sequence[Label], n: int, file: str) -> None:
    """Notes the labels that are not on the tree, by the sum of their scores.

    Raises:
        DataError: If none is on the tree.
    """
    if len(mass) == len(labels):
        raise DataError(
            "None of the labels is on the tree.",
            file=file,
            value=few(map(_name, labels)),
            remedy="Use labels, aliases, paths or ids of the tree, or add the names to it as aliases.",
        )
    if len(mass):
        largest = mass.sort_values(ascending=False)
        note(
            f"{file}: {len(mass):,} of {len(labels):,} labels are not on the tree or name several of "
            f"its nodes; {mass.sum() / n:.2%} of all scores, for the root: "
            f"{few(_name(labels[i]) for i in largest.index)}"
        )


def _check(frame: pd.DataFrame, file: str) -> None:
    """Raises a `DataError` with all that is wrong."""
    is_named = (frame.image != "") & frame.label.astype(bool)
    is_probability = frame.value.between(0, _MOST)
    total = frame.value.where(is_probability).groupby(frame.image).transform("sum")
    frame = frame.assign(total=total)
    problems: list[tuple[int, str]] = []
    entry: Any
    for entry in frame[~is_named].itertuples():
        problems.append((entry.row, f"image {entry.image!r} has no scores"))
    for entry in frame[is_named & ~is_probability].itertuples():
        text = (
            f"{_name(entry.label)!r} of image {entry.image!r} has no probability: {entry.score!r}"
        )
        problems.append((entry.row, text))
    for entry in frame[(total > _MOST) & ~frame.duplicated("image")].itertuples():
        text = f"the scores of image {entry.image!r} add up to {entry.total:.4g}"
        problems.append((entry.row, text))
    if problems:
        raise rows_error(problems, file, frame.row.nunique(), remedy=_REMEDY)


def _node(taxonomy: Taxonomy, label: Label) -> int:
    """Returns the node of a label, -1 where the tree has none or several of it."""
    if isinstance(label, str):
        target = target_finder(taxonomy, suggest=0)(label)
        # "blank" is no taxon, and its scores are the root's.
        is_blank = target.phrase and target.node == taxonomy.root
        return -1 if target.node is None or is_blank else target.node
    names = {name.casefold() for name in label}
    for name in label:
        # A genus of animals and one of plants may share a name: the taxon's other names tell which
        # is meant.
        common = {}
        for node in taxonomy.find(name):
            common[node] = sum(above.casefold() in names for above in taxonomy.path(node))
        nodes = [node for node, count in common.items() if count == max(common.values())]
        if len(nodes) == 1:
            return nodes[0]
    return -1


def _name(label: Label) -> str:
    return label if isinstance(label, str) else label[0]
