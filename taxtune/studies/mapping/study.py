"""How well text similarity measures place answers, alone and with Algorithm 1 (paper 1, §6.1, Table 2, Figure 4).

Every measure maps an answer to the node whose name it finds most similar ("alone"); every measure is put into the
paper's listing as its similarity ("Algorithm 1"); and taxtune's own mapper stands beside them ("default"). The answers
are ones that people have placed, so the node of each is known. Measures compare normalised answers with normalised
names (§6); the default mapper reads the answer as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError
from taxtune.mapping import Mapper, MapperConfig, Stage
from taxtune.mapping.config import PAPER_PRESETS
from taxtune.mapping.normalize import plain_or_raw
from taxtune.metrics.hierarchical import HierarchicalScores, score
from taxtune.metrics.registry import MEASURES
from taxtune.metrics.statistics import Interval, bootstrap, hierarchical_sample, paired_bootstrap, percentiles
from taxtune.progress import track
from taxtune.report.output import Cell, StudyReport, Table
from taxtune.studies.both_trees import both_trees_table
from taxtune.studies.mapping import MappingSettings
from taxtune.studies.mapping.annotated import AnnotatedAnswers, AnnotatedColumns, read_annotated
from taxtune.studies.mapping.nearest import UNPLACED, NodeNames, nearest_nodes, score_table, tree_names
from taxtune.studies.mapping.presets import presets_table
from taxtune.studies.mapping.scorers import (
    NODE_IMAGES,
    Scorer,
    draw_node_images,
    measure_scorer,
    node_image_scorer,
    split_name,
    unique_names,
)
from taxtune.studies.placing import place_texts
from taxtune.studies.published import published
from taxtune.taxonomy import Domain, Taxonomy

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["ALGORITHM", "ALONE", "DEFAULT", "Placed", "agreement_matrix", "mapping", "mapping_report", "place_all"]

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Intervals = Mapping[str, Mapping[str, Interval]]
Styles = Mapping[str, Mapping[str, tuple[HierarchicalScores, float]]]

#: The ways of placing: the nearest name, the paper's listing, taxtune's default mapper.
ALONE, ALGORITHM, DEFAULT = "alone", "Algorithm 1", "default"

_CONFIDENCE = 0.95
# The scores with intervals, as they are printed.
_SHOWN = {"hp": "hP", "hr": "hR", "hf": "hF", "accuracy": "accuracy", "acceptable": "acceptable"}
# Answers placed at once; the table of their scores with every node is this many times the size of the tree.
_BATCH = 256


def mapping(settings: MappingSettings) -> StudyReport:
    """Reads the tree and the placed answers, places them in every way and returns the report; see `mapping.run`."""
    taxonomy, part = settings.read_tree()
    named = (getattr(settings, f"{name}_column") for name in ("answer", "node", "also", "style", "image"))
    how = {"no_node": settings.no_node, "missing": settings.missing}
    answers = read_annotated(settings.file, taxonomy, columns=AnnotatedColumns(*named), part=part, **how)
    shown = None
    if settings.images is not None:
        shown = draw_node_images(settings.images, taxonomy, root=settings.image_root, seed=settings.seed, part=part)
    return mapping_report(taxonomy, answers, settings, shown, part)


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
        stages: What decided each answer, for `ALGORITHM`; else None. Shape (answers,).
        prose: For `ALGORITHM`, the answers placed as the paper's prose says; `nodes` are as its listing does.
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
    stages: NDArray[np.str_] | None = None
    prose: Placed | None = None


def place_all(
    taxonomy: Taxonomy,
    answers: AnnotatedAnswers,
    settings: MappingSettings,
    node_images: Mapping[int, Path] | None = None,
) -> tuple[list[Placed], list[str], dict[str, dict[str, Any]]]:
    """Returns every placement, what there is to know about them, and the identity of each measure.

    Each distinct answer is scored once.

    Args:
        taxonomy: The tree.
        answers: The answers.
        settings: What to compare.
        node_images: An image of each node that has one, which clip-i2t compares the answer's text with, as the paper
            does. Without them it puts the answer's own image in the answer's place.

    Raises:
        DataError: If a measure needs images and there are none, or two measures have one name.
        MapperError: If a measure cannot be a similarity.
        ModelError: If a model cannot be loaded.
        ImageError: If an image cannot be read.
    """
    names = tree_names(taxonomy, settings.names, plain_or_raw)
    work = _Distinct(answers, MapperConfig().max_characters)
    wanted = settings.measure if settings.alone or settings.algorithm else ()
    # Before any model is loaded: it may be one of gigabytes.
    for text in wanted:
        kind = MEASURES.get(split_name(text)[1].partition(":")[0])
        if kind is not None and "image" in kind.needs and not work.pictured and node_images is None:
            raise DataError(
                "The measure needs images, but not every answer has one.",
                file=answers.file,
                value=text,
                remedy="Give images of the nodes with --images, as in the paper, or the column with the answers' own "
                "images with --image-column, or remove the measure.",
            )
    mapper = None
    if settings.default:
        spec = split_name(settings.similarity)[1]
        mapper = Mapper(taxonomy, spec, device=settings.device, cache_dir=settings.cache_dir)
    told = settings.measure_settings()
    scorers = [
        node_image_scorer(text, node_images, len(taxonomy), told)
        if node_images is not None and split_name(text)[1].partition(":")[0] == NODE_IMAGES
        else measure_scorer(text, names.vocabulary, told)
        for text in wanted
    ]
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
            notes.append(f"{blank:,} answers have no letter or digit; every method places them on the root")
        if self._cut:
            notes.append(f"{self._cut:,} answers are truncated to their first {self._max_characters:,} characters")
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
    mappers = {preset: Mapper(taxonomy, scorer.similarity, MapperConfig(preset=preset)) for preset in PAPER_PRESETS}
    alone: list[IntArray] = []
    tied: list[IntArray] = []
    algorithm: dict[str, list[tuple[int, str]]] = {preset: [] for preset in PAPER_PRESETS}
    with track(scorer.name, len(work.texts)) as task:
        for texts, images in work.batches():
            table = score_table(scorer.score, names, [*map(plain_or_raw, texts)], images, advance=task.advance)
            nodes, ties = nearest_nodes(taxonomy, table, ties=settings.ties, rng=rng)
            alone.append(nodes)
            tied.append(ties)
            if settings.algorithm:
                rows = np.nan_to_num(table, nan=-np.inf)
                for text, row, node in zip(texts, rows, nodes.tolist(), strict=True):
                    for preset, mapper in mappers.items():
                        found = None if node == UNPLACED else mapper.place_scored(text, row)
                        algorithm[preset].append((UNPLACED, "") if found is None else (found.node, found.stage))
    placed, made = [], (scorer.name, scorer.spec, scorer.kind)
    if settings.alone:
        nodes, ties = (
            work.spread(np.concatenate([*parts, np.zeros(0, np.int64)]), blank)
            for parts, blank in ((alone, taxonomy.root), (tied, 1))
        )
        placed.append(Placed(scorer.name, *made, ALONE, nodes, tied=ties))
    if settings.algorithm:
        listing, prose = (
            Placed(
                f"{scorer.name} + Alg. 1",
                *made,
                ALGORITHM,
                work.spread(np.array([node for node, _ in algorithm[preset]], dtype=np.int64), taxonomy.root),
                stages=work.spread(np.array([stage for _, stage in algorithm[preset]], dtype=str), Stage.ABSTAINED),
            )
            for preset in PAPER_PRESETS
        )
        placed.append(replace(listing, prose=prose))
    return placed


def _place_default(taxonomy: Taxonomy, work: _Distinct, settings: MappingSettings, mapper: Mapper) -> Placed:
    label, spec = split_name(settings.similarity)
    found = place_texts(mapper, work.texts)
    name = f"default mapper, {label or spec}"
    nodes, abstained, off_tree = (
        work.spread(np.array([getattr(found[text], what) for text in work.texts], dtype=kind), blank)
        for what, kind, blank in (("node", int, taxonomy.root), ("abstained", bool, True), ("off_tree", bool, False))
    )
    return Placed(
        name, name, spec, spec.partition(":")[0], DEFAULT, nodes, abstained=abstained > 0, off_tree=off_tree > 0
    )


def _bounded(text: str, limit: int) -> str:
    """Returns a text cut as the mapper cuts it: at the last space before the limit."""
    if len(text) <= limit:
        return text
    kept = text[:limit]
    return kept.rsplit(maxsplit=1)[0] if kept.strip() else ""


# -- the report -------------------------------------------------------------------------------------------------------


def mapping_report(
    taxonomy: Taxonomy,
    answers: AnnotatedAnswers,
    settings: MappingSettings,
    node_images: Mapping[int, Path] | None = None,
    part: Domain | None = None,
) -> StudyReport:
    """Places the answers in every way and returns the report.

    Args:
        taxonomy: The tree.
        answers: Answers that people have placed on it.
        settings: What to compare.
        node_images: An image of each node that has one, for clip-i2t.
        part: What the tree is a part of; the scores on the whole are then added. None where it is the whole.

    Raises:
        TaxtuneError: As `place_all`.
    """
    from taxtune.studies.mapping.figure import draw_agreement, draw_scores

    placed, notes, identities = place_all(taxonomy, answers, settings, node_images)
    target = np.array(answers.targets, dtype=np.int64)
    good = {
        p.name: np.array([node in nodes for node, nodes in zip(p.nodes.tolist(), answers.acceptable, strict=True)])
        for p in placed
    }
    intervals = {p.name: _intervals(taxonomy, p, target, good[p.name], settings) for p in placed}
    styles = _styles(taxonomy, placed, answers, target, good)
    # By way, so that what the ways have in common stands together.
    by_way = sorted(placed, key=lambda p: (ALONE, ALGORITHM, DEFAULT).index(p.way))
    agreement = agreement_matrix({p.name: p.nodes for p in by_way})
    tables = [
        _scores_table(taxonomy, placed, intervals),
        _intervals_table(placed, intervals, settings),
        *([] if part is None else [both_trees_table(part, {p.name: (p.nodes, target) for p in placed}, "mapper")]),
        _differences(taxonomy, placed, target, settings),
        presets_table(taxonomy, placed, target),
        *(_style_table(placed, answers, styles, metric) for metric in ("hf", "accuracy", "acceptable")),
        _agreement_table(by_way, agreement),
        _paper_table(placed, intervals, len(answers)),
    ]
    return StudyReport(
        study="mapping",
        title="How well measures place answers on the taxonomy, alone and with Algorithm 1",
        settings={
            **settings.record(),
            "taxonomy": taxonomy.source,
            "root": None if part is None else "/".join(part.full.path(part.root)),
            "n": len(answers),
            "confidence_level": _CONFIDENCE,
            "identities": identities,
        },
        tables=tuple(table for table in tables if table.rows),
        figures={
            "mapping-scores": partial(draw_scores, placed, intervals, _CONFIDENCE),
            "mapping-agreement": partial(draw_agreement, [p.name for p in by_way], agreement),
        },
        notes=(*answers.notes, *notes, *_tied_note(placed, settings.ties)),
        data={
            "excluded": answers.excluded_records(),
            "scores": {name: {metric: asdict(i) for metric, i in found.items()} for name, found in intervals.items()},
            "styles": [
                {"style": style, "mapper": name, "acceptable": share, **found.as_dict()}
                for style, row in styles.items()
                for name, (found, share) in row.items()
            ],
            "answers": [
                {
                    "row": row,
                    "answer": answers.answers[i],
                    "truth": "/".join(taxonomy.path(answers.targets[i])),
                    "placed": {
                        p.name: "/".join(taxonomy.path(int(p.nodes[i]))) if p.nodes[i] >= 0 else None for p in placed
                    },
                }
                for i, row in enumerate(answers.rows)
            ],
        },
    )


def _intervals(
    taxonomy: Taxonomy, placed: Placed, target: IntArray, good: BoolArray, settings: MappingSettings
) -> dict[str, Interval]:
    """Returns the scores of the answers that are placed; none where no answer is."""
    there = placed.nodes != UNPLACED
    if not there.any():
        return {}
    found = bootstrap(
        hierarchical_sample(taxonomy, placed.nodes[there], target[there]),
        resamples=settings.resamples,
        seed=settings.seed,
    )
    # Of n resampled answers a binomial number is acceptable.
    n, share = int(there.sum()), float(good[there].mean())
    drawn = np.random.default_rng(settings.seed).binomial(n, share, size=settings.resamples) / n
    return found | {"acceptable": Interval(share, *percentiles(drawn, _CONFIDENCE))}


def _tied_note(placed: Sequence[Placed], ties: str) -> list[str]:
    shares = [f"{p.name} {(p.tied > 1).mean():.0%}".replace("%", " %") for p in placed if p.tied is not None]
    return [f"answers with tied nodes, which --ties {ties} decides: {', '.join(shares)}"] if shares else []


def _counted(flags: BoolArray | None) -> int | None:
    return None if flags is None else int(flags.sum())


def _scores_table(taxonomy: Taxonomy, placed: Sequence[Placed], intervals: Intervals) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            p.name,
            int((p.nodes != UNPLACED).sum()),
            *(intervals[p.name][metric].estimate if intervals[p.name] else None for metric in _SHOWN),
            _counted(None if p.tied is None else p.tied > 1),
            _counted(p.nodes == taxonomy.root),
            _counted(p.abstained),
            _counted(p.off_tree),
            _counted(p.nodes == UNPLACED),
        )
        for p in placed
    ]
    return Table(
        "mapping",
        "Placements compared with those of people",
        ("mapper", "n", *_SHOWN.values(), "tied", "on the root", "abstained", "off the tree", "unscored"),
        tuple(rows),
        notes=(
            "tied: answers for which several nodes shared the highest score; unscored: answers that the measure did "
            "not score, which are excluded.",
            "An answer off the tree counts as placed on the root, where people place what the tree lacks: this study "
            "judges the mapper, not the answers.",
        ),
    )


def _intervals_table(placed: Sequence[Placed], intervals: Intervals, settings: MappingSettings) -> Table:
    columns = [f"{shown} {end}" for shown in _SHOWN.values() for end in ("low", "high")]
    rows = []
    for p in placed:
        found = intervals[p.name]
        ends = [(found[m].low, found[m].high) if found else (None, None) for m in _SHOWN]
        rows.append((p.name, *(end for pair in ends for end in pair)))
    return Table(
        "mapping-intervals",
        f"{_CONFIDENCE:.0%} bootstrap intervals".replace("%", " %"),
        ("mapper", *columns),
        tuple(rows),
        notes=(f"{settings.resamples:,} resamples of the answers, percentiles.",),
    )


def _differences(taxonomy: Taxonomy, placed: Sequence[Placed], target: IntArray, settings: MappingSettings) -> Table:
    """What Algorithm 1 adds to each measure, and what the default mapper adds to each with Algorithm 1."""
    by = {(p.base, p.way): p for p in placed}
    pairs = [(p, by[p.base, ALONE]) for p in placed if p.way == ALGORITHM and (p.base, ALONE) in by]
    pairs += [(d, p) for d in placed if d.way == DEFAULT for p in placed if p.way == ALGORITHM]
    rows: list[tuple[Cell, ...]] = []
    for a, b in pairs:
        both = (a.nodes != UNPLACED) & (b.nodes != UNPLACED)
        if not both.any():
            continue
        first, second = (hierarchical_sample(taxonomy, placed.nodes[both], target[both]) for placed in (a, b))
        found = paired_bootstrap((first, second), resamples=settings.resamples, seed=settings.seed)
        cells = [
            value
            for one in (found["hf"], found["accuracy"])
            for value in (one.difference, one.low, one.high, one.p_value)
        ]
        rows.append((a.name, b.name, int(both.sum()), *cells))
    return Table(
        "mapping-differences",
        "Paired differences, first minus second, on the same answers",
        ("first", "second", "n", "hF", "low", "high", "p", "accuracy", "acc. low", "acc. high", "acc. p"),
        tuple(rows),
        digits={"p": 4, "acc. p": 4},
    )


def _styles(
    taxonomy: Taxonomy,
    placed: Sequence[Placed],
    answers: AnnotatedAnswers,
    target: IntArray,
    good: Mapping[str, BoolArray],
) -> Styles:
    """Returns the scores by style and mapper; a style of which a mapper placed nothing lacks it."""
    found: dict[str, dict[str, tuple[HierarchicalScores, float]]] = {}
    for style, positions in answers.groups().items() if any(answers.styles) else ():
        found[style] = {}
        for p in placed:
            chosen = [i for i in positions if p.nodes[i] != UNPLACED]
            if chosen:
                scores = score(taxonomy, p.nodes[chosen], target[chosen])
                found[style][p.name] = (scores, float(good[p.name][chosen].mean()))
    return found


def _style_table(placed: Sequence[Placed], answers: AnnotatedAnswers, styles: Styles, metric: str) -> Table:
    def cell(found: tuple[HierarchicalScores, float] | None) -> Cell:
        return None if found is None else {**found[0].as_dict(), "acceptable": found[1]}[metric]

    sizes = answers.groups()
    names = [p.name for p in placed]
    return Table(
        f"mapping-styles-{metric}",
        f"{_SHOWN[metric]} by answer style",
        ("style", "n", *names),
        tuple((style, len(sizes[style]), *(cell(row.get(name)) for name in names)) for style, row in styles.items()),
        digits=dict.fromkeys(names, 2),
        notes=("Scores over a few answers say little; the number of answers is shown.",),
    )


def agreement_matrix(placements: Mapping[str, IntArray]) -> NDArray[np.float64]:
    """Returns the share of answers that each two mappers place on the same node (paper 1, Figure 4).

    Args:
        placements: The node of each answer by mapper, shape (answers,) each, in the same order; a negative number is
            an answer that the mapper left unplaced.

    Returns:
        Shape (mappers, mappers), in the mappers' order: symmetric, in [0, 1], 1 on the diagonal. An answer that one of
        two mappers left unplaced does not count for these two; NaN where that leaves none.
    """
    nodes = np.array(list(placements.values()), dtype=np.int64).reshape(len(placements), -1)
    matrix = np.full((len(nodes), len(nodes)), np.nan)
    for i, a in enumerate(nodes):
        for j, b in enumerate(nodes):
            both = (a >= 0) & (b >= 0)
            if both.any():
                matrix[i, j] = (a == b)[both].mean()
    return matrix


def _agreement_table(placed: Sequence[Placed], agreement: NDArray[np.float64]) -> Table:
    return Table(
        "mapping-agreement",
        "Share of answers that two mappers place on the same node (paper 1, Figure 4)",
        ("mapper", *(p.name for p in placed)),
        tuple((p.name, *row) for p, row in zip(placed, agreement.tolist(), strict=True)),
        digits={p.name: 2 for p in placed},
    )


def _paper_table(placed: Sequence[Placed], intervals: Intervals, n: int) -> Table:
    metrics = ("hp", "hr", "hf", "accuracy")
    ours: dict[tuple[Any, Any], str] = {}
    for p in placed:
        ours.setdefault((p.kind, p.way), p.name)
    rows: list[tuple[Cell, ...]] = []
    for row in published("paper1-table2"):
        name = ours.get((row["measure"], row["way"]))
        found = intervals[name] if name else {}
        printed = [row[column] for column in ("hP", "hR", "hF", "accuracy")]
        rows.append(
            (
                f"{row['label']}{' + Alg. 1' if row['way'] == ALGORITHM else ''}",
                *printed,
                name,
                *(found[m].estimate if found else None for m in metrics),
            )
        )
    columns = ("paper's row", "hP, paper", "hR, paper", "hF, paper", "acc., paper", "our row", "hP", "hR", "hF", "acc.")
    return Table(
        "mapping-paper",
        "The paper's Table 2 beside these results",
        columns,
        tuple(rows),
        digits={"hP, paper": 2, "hR, paper": 2, "hF, paper": 2},
        notes=(
            f"Not comparable: the paper placed 416 answers of its own, which are unpublished; these are {n:,} "
            f"different ones.",
            "In the paper's rows of BLEU and CLIP-i2t, hF as printed is not the harmonic mean of hP and hR as printed.",
        ),
    )
