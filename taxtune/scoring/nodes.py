"""The scores of a table of answers on the label tree, with intervals.

They are hP, hR, hF, accuracy and depth, the same in bits, and precision and recall at each rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from taxtune.answers import AnswerTable
from taxtune.answers.targets import make_information
from taxtune.mapping import Mapper, Placement
from taxtune.mapping.config import DOUBTFUL
from taxtune.metrics.confidence import COVERAGES
from taxtune.metrics.doubt import Doubt, influence_of_doubt
from taxtune.metrics.information import Information
from taxtune.metrics.names import metric_name
from taxtune.metrics.outcomes import EXACT, GENERAL, LABELS_WRONG, WRONG, Outcomes
from taxtune.metrics.ranks import RankIntervals, bootstrap_ranks
from taxtune.metrics.selective import Selective, selective_scores
from taxtune.metrics.statistics import Interval
from taxtune.metrics.table import Predictions
from taxtune.progress import note, track
from taxtune.report.output import Cell, StudyReport, Table
from taxtune.taxonomy import Domain, Taxonomy

__all__ = ["as_child", "interval_cells", "place_texts", "score_answers"]

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
Mask = NDArray[np.bool_]

_CONFIDENCE = 0.95
_AT_ONCE = 1_000
_MOST_ROWS = 20
#: The scores of each answer.
_ROW_SCORES = ("hp", "hr", "ihp", "ihr", "remaining_uncertainty", "misinformation")
#: The scores that have a unit.
_IN_UNITS = ("depth", "remaining_uncertainty", "misinformation")
#: What stands in the JSON of the scores, in order; the rows follow.
_SUMMARY = (
    "root",
    "scored",
    "n",
    "outcomes",
    "abstained",
    "off_tree",
    "left_out",
    "outside",
    "confidence_level",
    "resamples",
    "seed",
    "scores",
    "doubtful",
    "selective",
    "full_scores",
    "targets",
    "information",
    "ranks",
    "mapper",
)
_HEADS = ("score", "estimate", "low", "high")
_RANK_HEADS = (
    "rank",
    "predicted",
    "precision",
    "precision low",
    "precision high",
    "relevant",
    "recall",
    "recall low",
    "recall high",
)


def place_texts(
    mapper: Mapper, texts: Sequence[str], questions: Sequence[str | None] | None = None
) -> list[Placement]:
    """Returns a placement for each text, in order, and shows the progress.

    Equal texts, of equal questions where these are known, share one placement. A blank text is an
    abstention.
    """
    asked = questions or [None] * len(texts)
    pairs = [(text, question or "") for text, question in zip(texts, asked, strict=True)]
    distinct = list(dict.fromkeys(pairs))
    placements: dict[tuple[str, str], Placement] = {}
    with track("placing answers", len(distinct)) as task:
        for start in range(0, len(distinct), _AT_ONCE):
            some = distinct[start : start + _AT_ONCE]
            placed = mapper.place(
                [text for text, _ in some], questions=[question for _, question in some]
            )
            placements.update(zip(some, placed, strict=True))
            task.advance(len(some))
    return [placements[pair] for pair in pairs]


def as_child(mapper: Mapper, placements: Sequence[Placement | None]) -> Mask:
    """Returns which placements are scored as a child of the root that is never right, shape (n,).

    They are those off the tree, unless the mapper's settings (`MapperConfig.off_tree`) score these
    as the root. A missing answer has the placement None.
    """
    if mapper.identity().get("off_tree") != "child":
        return np.zeros(len(placements), dtype=bool)
    off_tree = [placement is not None and placement.off_tree for placement in placements]
    return np.array(off_tree, dtype=bool)


def interval_cells(interval: Interval | None) -> tuple[float | None, float | None, float | None]:
    """Returns the estimate and the ends of an interval as cells of a table."""
    if interval is None:
        return None, None, None
    return interval.estimate, interval.low, interval.high


def score_answers(
    answers: AnswerTable,
    taxonomy: Taxonomy,
    mapper: Mapper | None = None,
    *,
    part: Domain | None = None,
    frequencies: str | None = None,
    smoothing: float = 0.0,
    resamples: int = 2000,
    seed: int = 0,
) -> StudyReport:
    """Returns every score of answers, or of predicted nodes where the rows have them.

    A missing answer says nothing.

    Args:
        answers: The answers with their targets.
        taxonomy: The tree that the targets are on.
        mapper: The mapper that places answers on it. None takes the default mapper.
        part: What `taxonomy` is a part of. The scores on the whole are added.
        frequencies: How often nodes occur, see `make_information`.
        smoothing: Added to the frequency of each leaf.
        resamples: Bootstrap resamples. The same seed draws the same for every score.
        seed: Their seed.

    Raises:
        DataError: If the frequencies cannot be used.
        MapperError: If the mapper's similarity needs images.
    """
    table = _PlacedTable.of(answers, taxonomy, mapper)
    information = make_information(
        taxonomy, frequencies, smoothing=smoothing, targets=table.targets, part=part
    )
    predictions = table.predictions(information)
    full_predictions = None
    full_intervals: dict[str, Interval] = {}
    if part is not None:
        full_targets = part.on_full(table.targets)
        full_information = make_information(
            part.full, frequencies, smoothing=smoothing, targets=full_targets
        )
        full_predictions = table.on_full(part, full_information)
        full_intervals = full_predictions.table().intervals(seed, resamples)
    ranks = bootstrap_ranks(
        taxonomy,
        table.nodes,
        table.targets,
        off_tree=table.off_tree,
        resamples=resamples,
        seed=seed,
    )
    scores = _Scores(
        table=table,
        part=part,
        predictions=predictions,
        full_predictions=full_predictions,
        on_part=predictions.table().intervals(seed, resamples),
        on_full=full_intervals,
        ranks=ranks,
        doubt=table.doubt(predictions),
        selective=table.selective(predictions.hp),
    )
    data = scores.summary(resamples, seed)
    data["rows"] = scores.rows()
    settings = {
        "file": answers.file,
        "taxonomy": taxonomy.source,
        "frequencies": frequencies,
        "smoothing": smoothing,
    }
    return StudyReport(
        study="score",
        title="Scores of answers",
        settings=settings,
        tables=scores.tables(),
        notes=answers.notes,
        data=data,
    )


@dataclass(frozen=True)
class _PlacedTable:
    """Answers with their nodes on a tree.

    Attributes:
        answers: The answers.
        nodes: The node of each answer, shape (n,).
        targets: The node of each target, shape (n,).
        off_tree: Which answers are scored as a child of the root, shape (n,).
        placements: How the answers were placed. Empty where the rows have nodes instead.
        mapper: The mapper's identity. None for given nodes.
    """

    answers: AnswerTable
    nodes: IntArray
    targets: IntArray
    off_tree: Mask
    placements: Sequence[Placement] = ()
    mapper: dict[str, Any] | None = None

    @classmethod
    def of(cls, answers: AnswerTable, taxonomy: Taxonomy, mapper: Mapper | None) -> _PlacedTable:
        """Places the answers, unless they have nodes."""
        targets = np.array([row.target for row in answers.rows], dtype=np.int64)
        if answers.has_nodes:
            nodes = np.array([row.predicted for row in answers.rows], dtype=np.int64)
            off_tree = np.zeros(len(nodes), dtype=bool)
            return cls(answers=answers, nodes=nodes, targets=targets, off_tree=off_tree)
        mapper = mapper or Mapper(taxonomy)
        texts = [row.answer or "" for row in answers.rows]
        placements = place_texts(mapper, texts, [row.question for row in answers.rows])
        nodes = np.array([placement.node for placement in placements], dtype=np.int64)
        return cls(
            answers=answers,
            nodes=nodes,
            targets=targets,
            off_tree=as_child(mapper, placements),
            placements=placements,
            mapper=dict(mapper.identity()),
        )

    def count(self, claim: Literal["abstained", "off_tree"]) -> int:
        """Returns the number of answers that abstain, or are off the tree."""
        return sum(getattr(placement, claim) for placement in self.placements)

    def predictions(self, information: Information) -> Predictions:
        """Returns the nodes as they are scored on their tree."""
        return Predictions(
            information=information, nodes=self.nodes, target=self.targets, off_tree=self.off_tree
        )

    def on_full(self, part: Domain, information: Information) -> Predictions:
        """Returns the nodes as they are scored on the whole of which their tree is a part."""
        nodes = part.on_full(self.nodes)
        targets = part.on_full(self.targets)
        return Predictions(
            information=information, nodes=nodes, target=targets, off_tree=self.off_tree
        )

    def doubt(self, predictions: Predictions) -> Doubt | None:
        """Returns the influence of doubtful placements. None where that is not known of each."""
        if self.answers.has_nodes:
            return None
        doubtful = [placement.doubtful for placement in self.placements]
        return influence_of_doubt(predictions, doubtful)

    def selective(self, hp: FloatArray) -> Selective | None:
        """Returns the worth of the confidence for answers with this hP.

        It is the mapper's, or the column `confidence` beside nodes. The mapper's is no probability
        that the node is exactly right; a column is, if it is in [0, 1].
        """
        if not self.answers.has_nodes:
            given = [placement.confidence for placement in self.placements]
            confidence = np.array(given, dtype=np.float64)
            if np.isnan(confidence).any():
                return None
            return selective_scores(confidence, hp)
        rows = self.answers.rows
        column: list[Any] = [row.fields.get("confidence") for row in rows]
        try:
            confidence = np.array(column, dtype=np.float64)
        except ValueError:
            confidence = np.array([np.nan])
        if np.isnan(confidence).any():
            if any(cell not in (None, "") for cell in column):
                note(
                    f"{self.answers.file}: the column confidence has no number in some rows; it is "
                    "not scored"
                )
            return None
        is_outside = (confidence < 0) | (confidence > 1)
        if is_outside.any():
            return selective_scores(confidence, hp)
        return selective_scores(confidence, hp, hp == 1)


@dataclass(frozen=True)
class _Scores:
    """The scores of placed answers, which are shown as tables and written as JSON.

    Attributes:
        table: The answers.
        part: What their tree is a part of. None for a whole tree.
        predictions: Their nodes as they are scored on their tree.
        full_predictions: The same on the whole tree. None where theirs is the whole.
        on_part: The scores on their tree, by name.
        on_full: The scores on the whole tree. Empty where theirs is the whole.
        ranks: Precision and recall at each rank.
        doubt: What hangs on doubtful placements.
        selective: The worth of the confidence.
    """

    table: _PlacedTable
    part: Domain | None
    predictions: Predictions
    full_predictions: Predictions | None
    on_part: dict[str, Interval]
    on_full: dict[str, Interval]
    ranks: Sequence[RankIntervals]
    doubt: Doubt | None
    selective: Selective | None

    @property
    def _outcomes(self) -> Outcomes:
        table = self.table
        tree = self._information.taxonomy
        return Outcomes.of_nodes(tree, table.nodes, table.targets, table.off_tree)

    @property
    def _target_depth(self) -> float:
        depths = self._information.taxonomy.depth[self.table.targets]
        return float(depths.mean())

    @property
    def _target_bits(self) -> float:
        bits = self._information.content[self.table.targets]
        return float(bits.mean())

    @property
    def _information(self) -> Information:
        return self.predictions.information

    def summary(self, resamples: int, seed: int) -> dict[str, Any]:
        """Returns all scores as plain values, with what they were drawn with."""
        table = self.table
        answers = table.answers
        summary: dict[str, Any] = dict.fromkeys(_SUMMARY)
        if self.part is not None:
            root = self.part.full.path(self.part.root)
            summary["root"] = "/".join(root)
        if table.mapper is not None:
            summary["abstained"] = table.count("abstained")
            summary["off_tree"] = table.count("off_tree")
        if self.doubt is not None:
            doubt = asdict(self.doubt)
            summary["doubtful"] = {"n": self.doubt.n, "below": DOUBTFUL, **doubt}
        if self.selective is not None:
            summary["selective"] = asdict(self.selective)
        if self.on_full:
            summary["full_scores"] = _as_dicts(self.on_full)
        summary["ranks"] = []
        for row in self.ranks:
            intervals = asdict(row)
            counts = intervals.pop("scores")
            summary["ranks"].append(counts | intervals)
        summary["scored"] = "placement" if answers.has_nodes else "answer"
        summary["n"] = len(answers.rows)
        summary["outcomes"] = asdict(self._outcomes)
        summary["left_out"] = list(answers.unanswered)
        summary["outside"] = list(answers.outside)
        summary["confidence_level"] = _CONFIDENCE
        summary["resamples"] = resamples
        summary["seed"] = seed
        summary["scores"] = _as_dicts(self.on_part)
        summary["targets"] = {"depth": self._target_depth, "bits": self._target_bits}
        summary["information"] = self._information.as_dict()
        summary["mapper"] = table.mapper
        return summary

    def rows(self) -> list[dict[str, Any]]:
        """Returns the scores of each answer."""
        table = self.table
        columns: dict[str, Iterable[Any]] = {}
        columns["row"] = [row.row for row in table.answers.rows]
        columns["truth"] = self._paths(table.targets)
        columns["placement"] = self._paths(table.nodes)
        scores = self.predictions.scores()
        for name in _ROW_SCORES:
            columns[name] = scores[name].tolist()
        if self.full_predictions is not None:
            columns["full_hp"] = self.full_predictions.hp.tolist()
            columns["full_hr"] = self.full_predictions.hr.tolist()
        if table.placements:
            columns["stage"] = [str(placement.stage) for placement in table.placements]
            for name in ("answer", "evidence", "confidence", "abstained", "off_tree"):
                columns[name] = [getattr(placement, name) for placement in table.placements]
        rows = zip(*columns.values(), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def _paths(self, nodes: IntArray) -> list[str]:
        tree = self._information.taxonomy
        paths = map(tree.path, nodes.tolist())
        return ["/".join(path) for path in paths]

    def tables(self) -> tuple[Table, ...]:
        """Returns the tables of the scores, of those with a unit, and of the ranks."""
        outcomes = self._outcomes
        counts = {WRONG: outcomes.wrong, GENERAL: outcomes.general, EXACT: outcomes.exact}
        counts |= outcomes.nothing
        plain: list[tuple[Cell, ...]] = []
        for name, count in counts.items():
            plain.append((name, count, None, None))
        share = interval_cells(outcomes.share_wrong)
        plain.append((LABELS_WRONG, *share))
        in_units: list[tuple[Cell, ...]] = []
        for label, key, interval in self._labelled():
            rows = in_units if key in _IN_UNITS else plain
            rows.append((label, *interval_cells(interval)))
        ranks: list[tuple[Cell, ...]] = []
        for row in self.ranks:
            precision = interval_cells(row.precision)
            recall = interval_cells(row.recall)
            at_rank = row.scores
            predicted = (at_rank.n_predicted, *precision)
            relevant = (at_rank.n_relevant, *recall)
            ranks.append((at_rank.rank, *predicted, *relevant))
        notes = tuple(self._notes())
        digits = dict.fromkeys(_HEADS, 2)
        scores = Table("scores", "Counts, and scores with 95 % intervals", _HEADS, tuple(plain))
        bits = Table("bits", "Depth and information", _HEADS, tuple(in_units), digits)
        at_ranks = Table("ranks", "At each rank", _RANK_HEADS, tuple(ranks), notes=notes)
        return scores, bits, at_ranks

    def _labelled(self) -> Iterator[tuple[str, str, Interval]]:
        """Yields each score with its label and its key, those on the whole tree last."""
        where = "" if self.part is None else f" on {self.part.label}"
        for key, interval in self.on_part.items():
            label = metric_name(key)
            if key != "accuracy":
                label += where
            yield label, key, interval
        if self.part is None:
            return
        for key, interval in self.on_full.items():
            # Whether a node is exactly right does not depend on the root.
            if key != "accuracy":
                yield f"{metric_name(key)} on {self.part.full_label}", key, interval

    def _notes(self) -> list[str]:
        notes = [self._examples_note()]
        if self.doubt is not None and self.doubt.n:
            notes.append(self._doubt_note(self.doubt))
        if self.selective is not None:
            notes.append(_confidence_note(self.selective))
        answers = self.table.answers
        if answers.unanswered:
            notes.append(_left_out_note(answers.unanswered, "without an answer"))
        if answers.outside and self.part is not None:
            reason = f"with a target outside {self.part.label}"
            notes.append(_left_out_note(answers.outside, reason))
        notes.append(
            f"targets: mean depth {self._target_depth:.2f}, mean information "
            f"{self._target_bits:.2f} bits ({self._information.counted})"
        )
        return notes

    def _examples_note(self) -> str:
        n = len(self.table.answers.rows)
        examples = "1 example" if n == 1 else f"{n:,} examples"
        if self.table.mapper is None:
            return examples
        abstained = self.table.count("abstained")
        off_tree = self.table.count("off_tree")
        return (
            f"{examples}, {abstained:,} ({100 * abstained / n:.1f} %) of them abstentions, which "
            f"claim nothing, and {off_tree:,} ({100 * off_tree / n:.1f} %) off the tree, which are "
            "wrong"
        )

    def _doubt_note(self, doubt: Doubt) -> str:
        wrong = doubt.wrong
        means = [f"hP {wrong['hp']:.3f} and hR {wrong['hr']:.3f} if all of them are wrong"]
        if doubt.without is not None:
            rest = doubt.without
            means.insert(0, f"hP {rest['hp']:.3f} and hR {rest['hr']:.3f} without them")
        return (
            f"doubtful placements (confidence below {DOUBTFUL:g}): {doubt.n:,}; {', '.join(means)}"
        )


def _as_dicts(scores: Mapping[str, Interval]) -> dict[str, dict[str, float]]:
    return {name: asdict(interval) for name, interval in scores.items()}


def _confidence_note(selective: Selective) -> str:
    measures = [f"AURC {selective.aurc:.3f}"]
    if selective.calibration_error is not None:
        measures.append(f"calibration error {selective.calibration_error:.3f}")
    if selective.brier is not None:
        measures.append(f"Brier score {selective.brier:.3f}")
    risks = []
    for coverage, risk in zip(COVERAGES, selective.risks, strict=True):
        risks.append(f"{risk:.3f} at {100 * coverage:.0f} %")
    return f"confidence: {', '.join(measures)}; 1 - hP by coverage: {', '.join(risks)}"


def _left_out_note(rows: Sequence[int], reason: str) -> str:
    shown = ", ".join(map(str, rows[:_MOST_ROWS]))
    more = ", …" if len(rows) > _MOST_ROWS else ""
    plural = "" if len(rows) == 1 else "s"
    return f"{len(rows):,} row{plural} {reason} left out: {shown}{more}"
