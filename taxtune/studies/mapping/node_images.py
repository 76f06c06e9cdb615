"""CLIP image-to-text as paper 1 maps with it (§6.1, §10): the answer's text beside an image of each node.

A node has an image or it has none: the paper's data show leaves only, so that no answer lands on a higher node unless
Algorithm 1 puts it there. One image is drawn for each node that has several.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from taxtune.errors import DataError
from taxtune.metrics.registry import MEASURES, MeasureSettings
from taxtune.studies.mapping.nearest import NodeNames
from taxtune.studies.mapping.scorers import Scorer, measure_label, split_name
from taxtune.studies.progress import progress
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    from PIL.Image import Image

    from taxtune.encoders import FloatMatrix
    from taxtune.encoders.clip import ClipEncoder

__all__ = ["KIND", "draw_node_images", "images_by_node", "node_image_scorer"]

#: The kind of measure that this is.
KIND = "clip-i2t"


def images_by_node(
    path: Path, taxonomy: Taxonomy, *, root: Path | None, on_note: Callable[[str], None], part: Domain | None = None
) -> dict[int, list[Path]]:
    """Returns the image files of each node that has any.

    Args:
        path: A manifest with the columns image and label, a folder with a folder a class, or iNaturalist's JSON.
        taxonomy: The tree that the labels are on.
        root: The folder that images are relative to; None for that of the file.
        on_note: Called with what the user should know.
        part: What the tree is a part of; images of what is elsewhere on the whole are left out. None for the whole.

    Raises:
        DataError: If the source is malformed or a label is not on the tree.
        ImageError: If an image is missing.
    """
    from taxtune.data import load_examples

    files: dict[int, list[Path]] = {}
    for example in load_examples(path, taxonomy, images=root, part=part, check="drawn", on_note=on_note):
        files.setdefault(example.target, []).append(example.image)
    return files


def draw_node_images(
    path: Path,
    taxonomy: Taxonomy,
    *,
    root: Path | None,
    seed: int,
    on_note: Callable[[str], None],
    part: Domain | None = None,
) -> dict[int, Path]:
    """Returns an image of each node that has one, drawn where it has several.

    Args:
        path: As of `images_by_node`.
        taxonomy: The tree that the labels are on.
        root: The folder that images are relative to; None for that of the file.
        seed: Seeds the drawing.
        on_note: Called with what the user should know.
        part: What the tree is a part of; None for the whole.

    Raises:
        TaxtuneError: As `images_by_node`.
    """
    files = images_by_node(path, taxonomy, root=root, on_note=on_note, part=part)
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
    """
    from taxtune.data.images import check_images, load_image
    from taxtune.encoders.clip import ClipEncoder
    from taxtune.encoders.vectors import stored_embeddings

    if not images:
        raise DataError("No node of the tree has an image.", value=text, remedy="Check --images.")
    settings = settings or MeasureSettings()
    name, spec = split_name(text)
    kind, _, model = spec.partition(":")
    encoder = ClipEncoder(
        model or str(MEASURES[kind].default_model),
        device=settings.device,
        cache_dir=settings.cache_dir,
        batch_size=settings.batch_size,
    )
    files = [images[node] for node in sorted(images)]
    # Images of the same content have one key, so that this is of the drawn images and not of where they lie.
    hashes = check_images(files)
    keys = [f"image:{hashes[file]}" for file in files]
    place = dict(zip(keys, files, strict=True))

    def encode(wanted: Sequence[str]) -> FloatMatrix:
        parts = []
        with progress(len(wanted), "images of nodes") as advance:
            for start in range(0, len(wanted), settings.batch_size):
                batch = wanted[start : start + settings.batch_size]
                parts.append(encoder.images([load_image(place[key]) for key in batch]))
                advance(len(batch))
        vectors: FloatMatrix = np.concatenate(parts)
        return vectors

    vectors = stored_embeddings(encoder.identity, keys, encode, settings.cache_dir)
    similarity = _NodeImages(spec, encoder, vectors, sorted(images), nodes)

    def notes() -> tuple[str, ...]:
        found = [f"{len(images):,} of {nodes:,} nodes have an image; the others are never the most similar"]
        if similarity.cut:
            found.append(f"{len(similarity.cut):,} answers fill the model's context; their ends may be lost")
        return tuple(found)

    everyone = np.arange(nodes, dtype=np.int64)
    return Scorer(
        name or measure_label(spec, MEASURES[kind].label),
        spec,
        kind,
        similarity,
        similarity.table,
        {**encoder.identity, "images": hashlib.sha256("".join(keys).encode()).hexdigest()},
        notes,
        NodeNames(tuple(map(str, range(nodes))), everyone, everyone),
    )
