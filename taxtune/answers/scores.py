"""Every score of a table of answers: hP, hR, hF, accuracy and depth, the same in bits, and by rank, with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taxtune.answers.frequencies import make_information
from taxtune.answers.placing import number_of_workers, place_each
from taxtune.answers.read import AnswerStream
from taxtune.mapping import Mapper, Placement
from taxtune.metrics import (
    Information,
    Interval,
    RankIntervals,
    bootstrap,
    bootstrap_ranks,
    hierarchical_sample,
    information_sample,
    information_values,
    precision_recall,
)
from taxtune.taxonomy import Domain, Taxonomy

__all__ = ["ScoredAnswers", "score_answers"]

IntArray = NDArray[np.int64]

CONFIDENCE = 0.95
_BLOCK = 10_000  # answers whose records are made at a time
_SHOWN = {
    "hp": "hP",
    "hr": "hR",
    "hf": "hF",
    "accuracy": "accuracy",
    "depth": "depth",
    "ihp": "ihP",
    "ihr": "ihR",
    "ihf": "ihF",
    "remaining_uncertainty": "remaining uncertainty, bits",
    "misinformation": "misinformation, bits",
}
_TWO_DIGITS = ("depth", "remaining_uncertainty", "misinformation")


@dataclass(frozen=True, slots=True)
class ScoredAnswers:
    """The scores of a table of answers.

    Attributes:
        answers: The answers.
        taxonomy: The tree that they are scored on.
        part: What it is a part of; None where it is the whole.
        rows: The row of each answer in the file, shape (n,).
        targets: The target of each answer, shape (n,).
        predicted: The node of each answer, shape (n,).
        placements: Where each answer was placed; empty where the table has predicted nodes.
        off_tree: Which answers are scored as a child of the root that is never right, shape (n,); None for none.
        mapper: What identifies the mapper; None where the table has predicted nodes.
        information: What the nodes weigh.
        intervals: Each score with its interval.
        full: The same on the whole taxonomy; None unless it is restricted to a part.
        ranks: Precision and recall at each rank, the broadest first.
        resamples: Bootstrap resamples.
        seed: Their seed.
    """

    answers: AnswerStream
    taxonomy: Taxonomy
    part: Domain | None
    rows: IntArray
    targets: IntArray
    predicted: IntArray
    placements: Sequence[Placement]
    off_tree: NDArray[np.bool_] | None
    mapper: Mapping[str, Any] | None
    information: Information
    intervals: Mapping[str, Interval]
    full: Mapping[str, Interval] | None
    ranks: Sequence[RankIntervals]
    resamples: int
    seed: int

    def as_dict(self) -> dict[str, Any]:
        """Returns all of it as plain values, but for what `records` yields of the single answers."""
        tree = self.taxonomy
        return {
            "root": None if self.part is None else "/".join(self.part.full.path(self.part.root)),
            "scored": "placement" if self.mapper is None else "answer",
            "n": self.answers.n,
            "abstained": None if self.mapper is None else sum(placed.abstained for placed in self.placements),
            "off_tree": None if self.mapper is None else sum(placed.off_tree for placed in self.placements),
            "left_out": list(self.answers.unanswered),
            "outside": list(self.answers.outside),
            "confidence_level": CONFIDENCE,
            "resamples": self.resamples,
            "seed": self.seed,
            "scores": {name: asdict(interval) for name, interval in self.intervals.items()},
            "full_scores": None if self.full is None else {name: asdict(i) for name, i in self.full.items()},
            "targets": {
                "depth": float(tree.depth[self.targets].mean()),
                "bits": float(self.information.content[self.targets].mean()),
            },
            "information": self.information.as_dict(),
            "ranks": [
                {
                    **asdict(row.scores),
                    "precision": None if row.precision is None else asdict(row.precision),
                    "recall": None if row.recall is None else asdict(row.recall),
                }
                for row in self.ranks
            ],
            "mapper": None if self.mapper is None else dict(self.mapper),
        }

    def records(self) -> Iterator[dict[str, Any]]:
        """Yields a record of plain values for each answer."""
        for start in range(0, self.answers.n, _BLOCK):
            block = slice(start, start + _BLOCK)
            records = self._records(block)
            for record, placed in zip(records, self.placements[block], strict=False):
                record |= {
                    "answer": placed.answer,
                    "stage": str(placed.stage),
                    "evidence": placed.evidence,
                    "confidence": placed.confidence,
                    "abstained": placed.abstained,
                    "off_tree": placed.off_tree,
                }
            yield from records

    def _records(self, block: slice) -> list[dict[str, Any]]:
        predicted, targets = self.predicted[block], self.targets[block]
        off = None if self.off_tree is None else self.off_tree[block]
        scores = dict(
            zip(
                ("hp", "hr", "ihp", "ihr", "remaining_uncertainty", "misinformation"),
                (
                    *precision_recall(self.taxonomy, predicted, targets, off_tree=off),
                    *information_values(self.information, predicted, targets, off_tree=off),
                ),
                strict=True,
            )
        )
        if self.part is not None:
            on = self.part.on_full
            both = precision_recall(self.part.full, on(predicted), on(targets), off_tree=off)
            scores |= dict(zip(("full_hp", "full_hr"), both, strict=True))
        path = self.taxonomy.path
        return [
            {
                "row": row,
                "truth": "/".join(path(target)),
                "placement": "/".join(path(node)),
                **{name: float(values[i]) for name, values in scores.items()},
            }
            for i, (row, target, node) in enumerate(
                zip(self.rows[block].tolist(), targets.tolist(), predicted.tolist(), strict=True)
            )
        ]

    def lines(self) -> Iterator[str]:
        """Yields the scores as people read them, in columns."""
        on = "" if self.part is None else f" on {self.part.label}"
        cells = [("", "estimate", "95 % interval")]
        # Whether a node is exactly right does not depend on the root.
        cells += [
            (name + (on if key != "accuracy" else ""), *_ends(self.intervals[key], key)) for key, name in _SHOWN.items()
        ]
        if self.part is not None and self.full is not None:
            whole = f" on {self.part.full_label}"
            cells += [(name + whole, *_ends(self.full[key], key)) for key, name in _SHOWN.items() if key != "accuracy"]
        width = max(9, *(len(name) for name, _, _ in cells))
        yield from (f"{name:<{width}} {estimate:>8}  {interval:>15}" for name, estimate, interval in cells)
        yield from self._counts()
        depth, bits = self.taxonomy.depth[self.targets].mean(), self.information.content[self.targets].mean()
        yield f"targets: mean depth {depth:.2f}, mean information {bits:.2f} bits ({self.information.counted})"
        yield ""
        yield from self._rank_lines()

    def _counts(self) -> Iterator[str]:
        n = self.answers.n
        said = f"{n:,} example{'' if n == 1 else 's'}"
        if self.placements:
            silent, off = sum(p.abstained for p in self.placements), sum(p.off_tree for p in self.placements)
            said += (
                f", {silent:,} of them abstentions ({100 * silent / n:.1f} %), which claim nothing, and {off:,} off "
                f"the tree ({100 * off / n:.1f} %), which claim something that the taxonomy lacks"
            )
        yield said
        outside = "" if self.part is None else f"with a target outside {self.part.label}"
        for rows, what in ((self.answers.unanswered, "without an answer"), (self.answers.outside, outside)):
            if rows:
                shown = ", ".join(map(str, rows[:20])) + (", …" if len(rows) > 20 else "")
                yield f"{len(rows):,} row{'' if len(rows) == 1 else 's'} {what} left out: {shown}"

    def _rank_lines(self) -> Iterator[str]:
        lines = [("rank", "said", "precision", "95 % interval", "to be said", "recall", "95 % interval")]
        for row in self.ranks:
            precision, recall = (("–", "") if end is None else _ends(end) for end in (row.precision, row.recall))
            lines.append((row.scores.rank, f"{row.scores.said:,}", *precision, f"{row.scores.due:,}", *recall))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for name, *cells in lines:
            shown = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
            yield "  ".join([name.ljust(widths[0]), *shown])


def _ends(value: Interval, key: str = "hp") -> tuple[str, str]:
    digits = 2 if key in _TWO_DIGITS else 3
    return f"{value.estimate:.{digits}f}", f"{value.low:.{digits}f} – {value.high:.{digits}f}"


def score_answers(
    answers: AnswerStream,
    taxonomy: Taxonomy,
    mapper: Mapper | None = None,
    *,
    part: Domain | None = None,
    frequencies: str | None = None,
    smoothing: float = 0.0,
    resamples: int = 2000,
    seed: int = 0,
    workers: int | None = None,
) -> ScoredAnswers:
    """Returns every score of answers, or of predicted nodes where the rows have them.

    Args:
        answers: The answers with their targets; a missing answer counts as one that says nothing.
        taxonomy: The tree that the targets are on.
        mapper: What places answers on it; None for the default mapper. Predicted nodes need none.
        part: What `taxonomy` is a part of; the scores on the whole are added.
        frequencies: How often nodes occur, see `make_information`.
        smoothing: What is added to the frequency of each leaf.
        resamples: Bootstrap resamples; the same seed draws the same for every score.
        seed: Their seed.
        workers: In how many processes to place the answers; see `number_of_workers`.

    Raises:
        DataError: If the frequencies or the number of workers cannot be used.
        MapperError: If the mapper's similarity needs images.
    """
    n = answers.n
    rows, targets, nodes = (np.empty(n, dtype=np.int64) for _ in range(3))
    placements: list[Placement] = []
    off: NDArray[np.bool_] | None = None
    identity: dict[str, Any] | None = None

    def texts() -> Iterator[str]:
        for i, row in enumerate(answers.rows):
            rows[i], targets[i] = row.row, row.target
            nodes[i] = -1 if row.predicted is None else row.predicted
            yield row.answer or ""

    if answers.has_nodes:
        for _ in texts():
            pass
    else:
        mapper = mapper or Mapper(taxonomy)
        processes = number_of_workers(workers, n, mapper.similarity.name)
        placements = list(place_each(mapper, texts(), total=n, workers=processes))
        off = as_child(mapper, placements)
        identity = dict(mapper.identity())
        nodes = np.array([placement.node for placement in placements], dtype=np.int64)
    draws: dict[str, Any] = {"off_tree": off, "resamples": resamples, "confidence": CONFIDENCE, "seed": seed}
    weights = make_information(taxonomy, frequencies, smoothing=smoothing, targets=targets, part=part)
    full = None
    if part is not None:
        on_full = part.on_full(targets)
        bits = make_information(part.full, frequencies, smoothing=smoothing, targets=on_full)
        full = _intervals(bits, part.on_full(nodes), on_full, **draws)
    return ScoredAnswers(
        answers,
        taxonomy,
        part,
        rows,
        targets,
        nodes,
        placements,
        off,
        identity,
        weights,
        _intervals(weights, nodes, targets, **draws),
        full,
        bootstrap_ranks(taxonomy, nodes, targets, **draws),
        resamples,
        seed,
    )


def _intervals(
    information: Information, nodes: IntArray, targets: IntArray, *, off_tree: NDArray[np.bool_] | None, **draws: Any
) -> dict[str, Interval]:
    return bootstrap(
        hierarchical_sample(information.taxonomy, nodes, targets, off_tree=off_tree),
        information_sample(information, nodes, targets, off_tree=off_tree),
        **draws,
    )


def as_child(mapper: Mapper, placements: Iterable[Placement | None]) -> NDArray[np.bool_]:
    """Returns which placements are scored as a child of the root that is never right.

    They are those off the tree, unless the mapper's settings (`MapperConfig.off_tree`) score these as the root.

    Args:
        mapper: What placed the answers.
        placements: The placements, n of them; None where there is no answer.

    Returns:
        A mask of shape (n,) for `off_tree` of all that scores.
    """
    scored = mapper.identity().get("off_tree") == "child"
    return np.array([scored and found is not None and found.off_tree for found in placements], dtype=bool)
