"""How well text similarity measures place answers, alone and with Algorithm 1 (paper 1, §6.1, Table 2, Figure 4).

Every measure maps an answer to the node whose name it finds most similar ("alone"); every measure is put into the
paper's listing as its similarity ("Algorithm 1"); and taxtune's own mapper stands beside them ("default"). The answers
are ones that people have placed, so the node of each is known. `mapping_report` makes the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError
from taxtune.mapping import Mapper, MapperConfig
from taxtune.metrics.registry import MEASURES, MeasureSettings
from taxtune.studies.mapping.annotated import AnnotatedAnswers
from taxtune.studies.mapping.nearest import NAMES, TIES, UNPLACED, NodeNames, nearest_nodes, score_table, tree_names
from taxtune.studies.mapping.node_images import KIND, node_image_scorer
from taxtune.studies.mapping.scorers import Scorer, measure_scorer, split_name, unique_names
from taxtune.studies.placing import place_texts
from taxtune.studies.progress import progress
from taxtune.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["ALGORITHM", "ALONE", "DEFAULT", "DEFAULT_MEASURES", "MappingSettings", "Placed", "place_all"]

IntArray = NDArray[np.int64]

#: The measures that need no model, and the mapper's own lexical similarity.
DEFAULT_MEASURES = ("exact-match", "contained", "bleu-2", "rouge-1", "meteor", "lexical")
#: The ways of placing: the nearest name, the paper's listing, taxtune's default mapper.
ALONE, ALGORITHM, DEFAULT = "alone", "Algorithm 1", "default"

# Answers placed at once; the table of their scores with every node is this many times the size of the tree.
_BATCH = 256


@dataclass(frozen=True, slots=True)
class MappingSettings:
    """What the study compares, and how.

    Attributes:
        measures: Specifications of `taxtune.metrics.registry`, or "lexical"; "NAME=SPEC" gives one a name to print.
        alone: Whether to place with each measure alone.
        algorithm: Whether to place with each measure in Algorithm 1.
        default: Whether to place with taxtune's default mapper.
        similarity: The default mapper's similarity.
        names: One of `nearest.NAMES`: which names of a node a measure compares. Algorithm 1 looks for
            all names in the answer whatever stands here.
        ties: One of `nearest.TIES`.
        resamples: Bootstrap resamples.
        confidence: Coverage of the intervals.
        seed: Seeds the bootstrap and the rule "random" for ties.
    """

    measures: tuple[str, ...] = DEFAULT_MEASURES
    alone: bool = True
    algorithm: bool = True
    default: bool = True
    similarity: str = "lexical"
    names: str = "all"
    ties: str = "deepest"
    resamples: int = 2000
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        for what, value, allowed in (("names", self.names, NAMES), ("ties", self.ties, TIES)):
            if value not in allowed:
                raise DataError(
                    f"There is no such setting of {what}.", value=value, remedy=f"Use {', '.join(allowed)}."
                )
        if not (self.default or (self.measures and (self.alone or self.algorithm))):
            raise DataError("Nothing is left to compare.", remedy="Take --alone, --algorithm or --default.")

    def as_dict(self) -> dict[str, Any]:
        """Returns the settings by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Placed:
    """All answers placed in one way.

    Attributes:
        name: As it is printed: "ROUGE + Alg. 1".
        base: The measure's name: "ROUGE".
        measure: The specification of its measure or similarity.
        kind: The measure's kind.
        way: `ALONE`, `ALGORITHM` or `DEFAULT`.
        nodes: The node of each answer, `UNPLACED` where the measure left it unscored; shape (answers,).
        tied: How many nodes shared the highest score, for `ALONE`; else None. Shape (answers,).
        abstained: Which answers the mapper abstained on, for `DEFAULT`; else None. Shape (answers,).
        off_tree: Which answers it put off the tree, for `DEFAULT`; else None. Shape (answers,).
    """

    name: str
    base: str
    measure: str
    kind: str
    way: str
    nodes: IntArray
    tied: IntArray | None = None
    abstained: NDArray[np.bool_] | None = None
    off_tree: NDArray[np.bool_] | None = None


def place_all(
    taxonomy: Taxonomy,
    answers: AnnotatedAnswers,
    settings: MappingSettings,
    measure_settings: MeasureSettings | None = None,
    node_images: Mapping[int, Path] | None = None,
) -> tuple[list[Placed], list[str], dict[str, dict[str, Any]]]:
    """Returns every placement, what there is to know about them, and the identity of each measure.

    Each distinct answer is scored once.

    Args:
        taxonomy: The tree.
        answers: The answers.
        settings: What to compare.
        measure_settings: Device, batches and caches of measures with models.
        node_images: An image of each node that has one, which clip-i2t compares the answer's text with, as the paper
            does. Without them it puts the answer's own image in the answer's place.

    Raises:
        DataError: If a measure needs images and there are none, or two measures have one name.
        MapperError: If a measure cannot be a similarity.
        ModelError: If a model cannot be loaded.
        ImageError: If an image cannot be read.
    """
    names = tree_names(taxonomy, settings.names)
    work = _Distinct(answers, MapperConfig().max_characters)
    wanted = settings.measures if settings.alone or settings.algorithm else ()
    # Before any model is loaded: it may be one of gigabytes.
    for text in wanted:
        kind = MEASURES.get(split_name(text)[1].partition(":")[0])
        if kind is not None and "image" in kind.needs and not work.pictured and node_images is None:
            raise DataError(
                "The measure looks at images, and not every answer has one.",
                file=answers.file,
                value=text,
                remedy="Give images of the nodes with --images, as the paper does, or name the column of the answers' "
                "own with --image-column, or leave the measure out.",
            )
    mapper = _default_mapper(taxonomy, settings, measure_settings) if settings.default else None
    scorers = [_scorer(text, taxonomy, names, measure_settings, node_images) for text in wanted]
    unique_names(scorers)
    placed: list[Placed] = []
    for scorer in scorers:
        placed += _place_by(taxonomy, work, scorer.names or names, scorer, settings)
    if mapper is not None:
        placed.append(_place_default(taxonomy, work, settings, mapper))
    notes = [*work.notes(), *(f"{scorer.name}: {note}" for scorer in scorers for note in scorer.notes())]
    return placed, notes, {scorer.name: scorer.identity for scorer in scorers}


class _Distinct:
    """The distinct answers (with their images, where there are any) that are not blank.

    Attributes:
        texts: The answers.
        images: Their images.
        index: Which of `texts` each answer of the file is; -1 for a blank one.
        pictured: Whether every answer has an image.
    """

    def __init__(self, answers: AnnotatedAnswers, max_characters: int) -> None:
        self.pictured = all(image is not None for image in answers.images)
        bounded = [_bounded(text.strip(), max_characters) for text in answers.answers]
        keys = [
            (text, str(image) if self.pictured else "") for text, image in zip(bounded, answers.images, strict=True)
        ]
        # Sorted, so that batches, and with them the last digits of a model's scores, do not depend on the file's order.
        distinct = sorted({key for key in keys if any(character.isalnum() for character in key[0])})
        position = {key: i for i, key in enumerate(distinct)}
        self.texts = [text for text, _ in distinct]
        self.images = [Path(image) if image else None for _, image in distinct]
        self.index = np.array([position.get(key, -1) for key in keys], dtype=np.int64)
        self._cut = sum(len(text.strip()) > max_characters for text in answers.answers)
        self._max_characters = max_characters

    def notes(self) -> list[str]:
        blank, notes = int((self.index < 0).sum()), []
        if blank:
            notes.append(f"{blank:,} answers have no letter and no digit; every way of placing puts them on the root")
        if self._cut:
            notes.append(f"{self._cut:,} answers are read up to their first {self._max_characters:,} characters")
        return notes

    def spread(self, values: NDArray[Any], blank: Any) -> NDArray[Any]:
        """Returns the value of each answer of the file from those of the distinct ones."""
        return np.append(values, blank)[self.index]

    def batches(self) -> Iterator[tuple[list[str], list[Image | None] | None]]:
        from taxtune.data.images import load_image

        for start in range(0, len(self.texts), _BATCH):
            images = self.images[start : start + _BATCH]
            pictures = [load_image(image) for image in images if image is not None] if self.pictured else None
            yield self.texts[start : start + _BATCH], pictures  # type: ignore[misc]  # a list of images is one of Image | None


def _place_by(
    taxonomy: Taxonomy, work: _Distinct, names: NodeNames, scorer: Scorer, settings: MappingSettings
) -> list[Placed]:
    """Returns the placements of a measure, alone and with Algorithm 1, from one table of scores."""
    rng = np.random.default_rng(settings.seed)
    listing = Mapper(taxonomy, scorer.similarity, MapperConfig(preset="paper-listing"))
    alone: list[IntArray] = []
    tied: list[IntArray] = []
    algorithm: list[int] = []
    with progress(len(work.texts), scorer.name) as advance:
        for texts, images in work.batches():
            table = score_table(scorer.score, names, texts, images, advance=advance)
            nodes, ties = nearest_nodes(taxonomy, table, ties=settings.ties, rng=rng)
            alone.append(nodes)
            tied.append(ties)
            if settings.algorithm:
                rows = np.nan_to_num(table, nan=-np.inf)
                algorithm += [
                    UNPLACED if node == UNPLACED else listing.place_scored(text, row).node
                    for text, row, node in zip(texts, rows, nodes.tolist(), strict=True)
                ]
    placed: list[Placed] = []
    if settings.alone:
        nodes = work.spread(np.concatenate([*alone, np.zeros(0, np.int64)]), taxonomy.root)
        ties = work.spread(np.concatenate([*tied, np.zeros(0, np.int64)]), 1)
        placed.append(Placed(scorer.name, scorer.name, scorer.spec, scorer.kind, ALONE, nodes, tied=ties))
    if settings.algorithm:
        nodes = work.spread(np.array(algorithm, dtype=np.int64), taxonomy.root)
        placed.append(Placed(f"{scorer.name} + Alg. 1", scorer.name, scorer.spec, scorer.kind, ALGORITHM, nodes))
    return placed


def _scorer(
    text: str,
    taxonomy: Taxonomy,
    names: NodeNames,
    measure_settings: MeasureSettings | None,
    node_images: Mapping[int, Path] | None,
) -> Scorer:
    if node_images is not None and split_name(text)[1].partition(":")[0] == KIND:
        return node_image_scorer(text, node_images, len(taxonomy), measure_settings)
    return measure_scorer(text, names.vocabulary, measure_settings)


def _default_mapper(taxonomy: Taxonomy, settings: MappingSettings, measure_settings: MeasureSettings | None) -> Mapper:
    device, cache_dir = (
        ("auto", None) if measure_settings is None else (measure_settings.device, measure_settings.cache_dir)
    )
    return Mapper(taxonomy, split_name(settings.similarity)[1], device=device, cache_dir=cache_dir)


def _place_default(taxonomy: Taxonomy, work: _Distinct, settings: MappingSettings, mapper: Mapper) -> Placed:
    name, spec = split_name(settings.similarity)
    found = place_texts(mapper, work.texts)
    nodes = np.array([found[text].node for text in work.texts], dtype=np.int64)
    abstained = np.array([found[text].abstained for text in work.texts], dtype=bool)
    off_tree = np.array([found[text].off_tree for text in work.texts], dtype=bool)
    return Placed(
        f"default mapper, {name or spec}",
        f"default mapper, {name or spec}",
        spec,
        spec.partition(":")[0],
        DEFAULT,
        work.spread(nodes, taxonomy.root),
        abstained=work.spread(abstained, True).astype(bool),
        off_tree=work.spread(off_tree, False).astype(bool),
    )


def _bounded(text: str, limit: int) -> str:
    """Returns a text cut as the mapper cuts it: at the last space before the limit."""
    if len(text) <= limit:
        return text
    kept = text[:limit]
    return kept.rsplit(maxsplit=1)[0] if kept.strip() else ""
