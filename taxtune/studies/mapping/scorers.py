"""What finds the nearest name: a measure or a mapper's similarity, by one specification and under a name to print.

CLIP image-to-text compares the answer's text with an image of each node, as paper 1 does (§6.1, §10). A node has an
image or it has none: the paper's data show leaves only, so no answer lands on a higher node unless Algorithm 1
puts it there. One image is drawn for each node that has several.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError, MapperError
from taxtune.metrics.registry import MEASURES, Measure, MeasureSettings, make_measure
from taxtune.studies.embedding import images_by_node, make_clip
from taxtune.studies.mapping.nearest import NodeNames
from taxtune.taxonomy import Domain, Taxonomy

if TYPE_CHECKING:
    from PIL.Image import Image

    from taxtune.encoders import FloatMatrix
    from taxtune.encoders.clip import ClipEncoder
    from taxtune.mapping import Similarity

__all__ = [
    "NODE_IMAGES",
    "MeasureSimilarity",
    "Scorer",
    "draw_node_images",
    "measure_label",
    "measure_scorer",
    "node_image_scorer",
    "similarity_scorer",
    "split_name",
    "unique_names",
]

#: The kind of measure that compares an answer's text with images of the nodes.
NODE_IMAGES = "clip-i2t"


@dataclass(frozen=True, slots=True)
class Scorer:
    """Scores answers against the names of a tree.

    Attributes:
        name: As it is printed: "ROUGE", "all-MiniLM-L6-v2".
        spec: Its specification.
        kind: The specification's part before the colon.
        similarity: It, as a mapper's similarity.
        score: From answers and their images to scores with the names, NaN where there is none.
        identity: Everything that can change a score.
        notes: What the user should know about the scores made so far.
        names: What it scores, as columns of nodes, where that is not the tree's names.
    """

    name: str
    spec: str
    kind: str
    similarity: Similarity
    score: Callable[[Sequence[str], Sequence[Image | None] | None], NDArray[np.floating]]
    identity: dict[str, Any]
    notes: Callable[[], tuple[str, ...]]
    names: NodeNames | None = None


def split_name(text: str) -> tuple[str | None, str]:
    """Returns the name that a specification is given, "NAME=SPEC", or None, and the specification.

    Raises:
        DataError: If one of them is empty.
    """
    name, equals, spec = text.partition("=")
    if not equals or ":" in name or "/" in name:  # a colon or a slash belongs to the model, and so does the rest
        name, spec = "", text
    elif not name.strip():
        raise DataError("The name before = is empty.", value=text, remedy="Write NAME=SPEC, or SPEC alone.")
    if not spec.strip():
        raise DataError("The specification is empty.", value=text, remedy="Write lexical, rouge-1, sentence:MODEL, …")
    return name.strip() or None, spec.strip()


class MeasureSimilarity:
    """A measure in the place of a mapper's similarity, so that Algorithm 1 can run with it.

    The answer is the measure's answer and a name its reference. What the measure leaves unscored gets the lowest value
    that a similarity can have, -1, and so is never the most similar; a caller that must tell it apart asks `table`.

    Args:
        measure: A measure that compares two texts, or an image and a text.
        confident: The score from which the default preset believes the most similar name.

    Raises:
        MapperError: If the measure is a judge that needs the questions that were asked.
    """

    def __init__(self, measure: Measure, *, confident: float = 1.0) -> None:
        if measure.needs_questions:
            raise MapperError(
                "A judge rates one answer and one reference, and cannot be asked about every name of a tree.",
                value=measure.name,
                remedy="Use a measure that compares texts.",
            )
        self.measure = measure
        self.name = measure.name
        self.needs_images = measure.needs_images
        self.confident = confident
        self._names: tuple[str, ...] | None = None

    def fit(self, names: Sequence[str]) -> None:
        """Takes in the names."""
        self._names = tuple(names)

    def table(self, answers: Sequence[str], images: Sequence[Image | None] | None = None) -> NDArray[np.floating]:
        """Returns the measure's scores, shape (answers, names), NaN where it has none.

        Raises:
            MapperError: If `fit` has not been called.
        """
        if self._names is None:
            raise MapperError("The measure has no names yet.", value=self.name, remedy="Call fit first.")
        # Names shared by several nodes are scored once.
        column = {name: i for i, name in enumerate(dict.fromkeys(self._names))}
        scores = np.asarray(self.measure.matrix(list(answers), list(column), images))
        table: NDArray[np.floating] = scores[:, [column[name] for name in self._names]]
        return table

    def scores(self, answers: Sequence[str], images: Sequence[Image | None] | None = None) -> FloatMatrix:
        """Returns the scores, shape (answers, names), -1 where the measure has none."""
        scores: FloatMatrix = np.nan_to_num(self.table(answers, images), nan=-1.0).astype(np.float32)
        return scores


def measure_scorer(text: str, names: Sequence[str], settings: MeasureSettings | None = None) -> Scorer:
    """Returns what a measure's specification names, or the mapper's own "lexical" similarity.

    Args:
        text: "SPEC" or "NAME=SPEC".
        names: The names that answers are compared with.
        settings: For measures with models.

    Raises:
        DataError: If there is no such measure.
        MapperError: If the measure is a judge.
        ModelError: If its model cannot be loaded.
        MissingExtraError: If a package that it needs is not installed.
    """
    name, spec = split_name(text)
    if spec == "lexical":
        return similarity_scorer(text, names)
    measure = make_measure(spec, settings)
    similarity = MeasureSimilarity(measure)
    similarity.fit(names)
    kind, shown = spec.partition(":")[0], name or measure_label(spec, measure.label)
    identity = dict(measure.identity())
    return Scorer(shown, spec, kind, similarity, similarity.table, identity, lambda: measure.notes)


def similarity_scorer(
    text: str, names: Sequence[str], *, device: str = "auto", cache_dir: Path | None = None
) -> Scorer:
    """Returns what a mapper's similarity's specification names.

    Args:
        text: "SPEC" or "NAME=SPEC", where SPEC is what a recipe's `mapper.similarity` may be.
        names: The names that answers are compared with.
        device: Where an encoder runs.
        cache_dir: Where embeddings of names are kept.

    Raises:
        MapperError: If there is no such similarity.
        ModelError: If its model cannot be loaded.
        MissingExtraError: If a package that it needs is not installed.
    """
    from taxtune.mapping import make_similarity

    name, spec = split_name(text)
    similarity = make_similarity(spec, device=device, cache_dir=cache_dir)
    similarity.fit(names)
    kind, _, model = spec.partition(":")
    label = f"{kind} {_short(model)}" if model else spec
    return Scorer(name or label, spec, kind, similarity, similarity.scores, {"similarity": spec}, tuple)


def measure_label(spec: str, label: str) -> str:
    """Returns how a measure is printed: its label, with the model where that is not the default one."""
    kind, _, model = spec.partition(":")
    default = MEASURES[kind].default_model if kind in MEASURES else None
    return label if model in ("", default) else f"{label} {_short(model)}"


def unique_names(scorers: Sequence[Scorer]) -> None:
    """Checks that scorers can be distinguished by name.

    Raises:
        DataError: If two have the same name.
    """
    seen: dict[str, str] = {}
    for scorer in scorers:
        if scorer.name in seen:
            raise DataError(
                f"Two measures are called {scorer.name!r}: {seen[scorer.name]} and {scorer.spec}.",
                remedy="Remove one, or name them with NAME=SPEC.",
            )
        seen[scorer.name] = scorer.spec


def _short(model: str) -> str:
    return model.rstrip("/").rsplit("/", 1)[-1]


# -- images of nodes --------------------------------------------------------------------------------------------------


def draw_node_images(
    path: Path,
    taxonomy: Taxonomy,
    *,
    root: Path | None = None,
    seed: int = 0,
    part: Domain | None = None,
) -> dict[int, Path]:
    """Returns an image of each node that has one, drawn where it has several.

    Args:
        path: A manifest with the columns image and label, one folder for each class, or iNaturalist's JSON.
        taxonomy: The tree that the labels are on.
        root: The folder that images are relative to; None for that of the file.
        seed: Seeds the drawing.
        part: What the tree is a part of; None for the whole.

    Raises:
        TaxtuneError: As `taxtune.studies.embedding.read_images`.
    """
    files = images_by_node(path, taxonomy, part=part, root=root)
    rng = np.random.default_rng(seed)
    return {node: sorted(of)[int(rng.integers(len(of)))] for node, of in sorted(files.items())}


class _NodeImages:
    """Scores texts against the images of nodes.

    Attributes:
        name: The specification.
        needs_images: Whether an image of the answer is needed: no.
        confident: As of a similarity.
        cut: The answers that fill the model's context, so that their ends may be lost.
    """

    needs_images = False
    confident = 1.0

    def __init__(self, spec: str, encoder: ClipEncoder, vectors: FloatMatrix, with_image: Sequence[int], nodes: int):
        self.name = spec
        self.cut: set[str] = set()
        self._encoder, self._vectors = encoder, vectors
        self._with_image, self._nodes = list(with_image), nodes

    def fit(self, names: Sequence[str]) -> None:
        """Takes nothing in: what nodes are called plays no part."""

    def table(self, answers: Sequence[str], images: Sequence[Image | None] | None = None) -> FloatMatrix:
        """Returns the cosines, shape (answers, nodes), NaN for a node without an image."""
        table = np.full((len(answers), self._nodes), np.nan, dtype=np.float32)
        if answers:
            table[:, self._with_image] = self._encoder.texts(answers) @ self._vectors.T
            self.cut.update(text for text, cut in zip(answers, self._encoder.truncated(answers), strict=True) if cut)
        return table

    def scores(self, answers: Sequence[str], images: Sequence[Image | None] | None = None) -> FloatMatrix:
        """Returns the cosines, shape (answers, nodes), -1 for a node without an image."""
        scores: FloatMatrix = np.nan_to_num(self.table(answers, images), nan=-1.0)
        return scores


def node_image_scorer(
    text: str, images: Mapping[int, Path], nodes: int, settings: MeasureSettings | None = None
) -> Scorer:
    """Returns what scores an answer's text against the nodes' images.

    Args:
        text: "clip-i2t", "clip-i2t:MODEL" or "NAME=clip-i2t:MODEL".
        images: The image of each node that has one.
        nodes: How many nodes the tree has.
        settings: Device, batches and where embeddings of the images are kept, by content.

    Raises:
        DataError: If no node has an image.
        ImageError: If an image cannot be read.
        ModelError: If the model cannot be loaded.
        MissingExtraError: If open_clip is not installed.
    """
    from taxtune.encoders.vectors import checked_images, stored_images

    if not images:
        raise DataError("No node of the tree has an image.", value=text, remedy="Check --images.")
    settings = settings or MeasureSettings()
    name, spec = split_name(text)
    kind, _, model = spec.partition(":")
    encoder = make_clip(model or str(MEASURES[kind].default_model), settings)
    files = [images[node] for node in sorted(images)]
    # Images of the same content have one key, so that this is of the drawn images and not of where they lie.
    hashes = checked_images(encoder, files)
    vectors = stored_images(encoder, files, sha256=hashes)
    similarity = _NodeImages(spec, encoder, vectors, sorted(images), nodes)

    def notes() -> tuple[str, ...]:
        found = [f"{len(images):,} of {nodes:,} nodes have an image; the others are never the most similar"]
        if similarity.cut:
            found.append(f"{len(similarity.cut):,} answers fill the model's context and may be truncated")
        return tuple(found)

    everyone = np.arange(nodes, dtype=np.int64)
    return Scorer(
        name or measure_label(spec, MEASURES[kind].label),
        spec,
        kind,
        similarity,
        similarity.table,
        {**encoder.identity, "images": hashlib.sha256("".join(f"image:{key}" for key in hashes).encode()).hexdigest()},
        notes,
        NodeNames(tuple(map(str, range(nodes))), everyone, everyone),
    )
