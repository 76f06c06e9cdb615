"""Evidence of a template's answers, which a proposer is shown beside the scores.

A score tells a language model that a template is worse, not why. The rows do: at which level answers stop and how many
of them are right there, which kinds of mistakes cost most, with example answers, how sure the scores are, and whether
anything is left to win. No label of a tuning image is named: see `hiding.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics.diagnosis import ErrorType, classify, wrong_from
from taxtune.metrics.ranks import rank_of, rank_scores
from taxtune.tuning.proposers.hiding import ELSEWHERE, Hider, relation

if TYPE_CHECKING:
    from taxtune.taxonomy import Taxonomy
    from taxtune.tuning.objective import Objective
    from taxtune.tuning.proposers.base import Goal
    from taxtune.tuning.records import IterationRecord, SampleResult

__all__ = [
    "GRADED",
    "Evidence",
    "HiddenAnswer",
    "Level",
    "Mistake",
    "Score",
    "evidence",
    "hidden_answers",
    "measures_of",
    "row_values",
]

FloatArray = NDArray[np.float64]

#: Measures that give credit for the groups that the true label belongs to.
GRADED = frozenset(("hp", "hr", "hf", "ihp", "ihr", "ihf", "depth", "remaining_uncertainty", "misinformation"))

_SHOWN = 160  # characters of an example answer
_EXAMPLES = 2  # answers of a kind of mistake
_HARMONIC = {"hf": ("hp", "hr"), "ihf": ("ihp", "ihr")}
_ROWS = ("hp", "hr", "ihp", "ihr")


@dataclass(frozen=True, slots=True)
class Score:
    """The mean of a measure over the images that have a value, its standard error, and whether no mean can be higher.

    The error is that of an estimate for new images of the same kind. To values in [0, 1] one observation of variance
    1/4 is added (as Waudby-Smith and Ramdas do, 2024, §4), so that twenty right answers are not taken for certainty.
    """

    measure: str
    mean: float
    standard_error: float
    ceiling: bool


@dataclass(frozen=True, slots=True)
class Level:
    """The answers at a rank ("level 2" where the tree names none), of those that were placed on the tree.

    `stop` answers name a label of this rank and nothing more specific, `reach` answers one of this rank or below it;
    `stop_right` and `reach_right` of them are right at this rank.
    """

    rank: str
    stop: int
    stop_right: int
    reach: int
    reach_right: int


@dataclass(frozen=True, slots=True)
class HiddenAnswer:
    """An answer and its placement, with names replaced by their relation to the truth, and its kind of mistake.

    `guessed` tells whether the mapper had to guess the node.
    """

    text: str
    placed: str
    kind: ErrorType
    guessed: bool


@dataclass(frozen=True, slots=True)
class Mistake:
    """A kind of mistake, its number of answers, and the worst of them, no two alike.

    `wrong_from` counts those that are wrong from each rank on. `costs` holds their loss of the mean of each measure in
    [0, 1] that has a value for each image; the costs of all kinds add up to 1 minus the mean.
    """

    kind: ErrorType
    count: int
    wrong_from: dict[str, int]
    costs: dict[str, float]
    examples: tuple[HiddenAnswer, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence of the answers to one template.

    Attributes:
        images: Images that were answered.
        failed: Images that have no answer or no value of the objective.
        scores: The measures that the objective is about, the main one first.
        levels: The levels of the tree below the domain, the broadest first.
        domain_only: Answers that say no more than the domain.
        abstained: Answers that say nothing.
        off_tree: Answers that assert something that the tree lacks.
        guessed: Answers in which the mapper found no name of the tree, so that it had to guess.
        mistakes: Kinds of mistakes, the costliest first.
        ceiling: Whether nothing is left to win on these images: the template counts, and the objective is as high as it
            can be.
    """

    images: int
    failed: int
    scores: tuple[Score, ...]
    levels: tuple[Level, ...]
    domain_only: int
    abstained: int
    off_tree: int
    guessed: int
    mistakes: tuple[Mistake, ...]
    ceiling: bool


def evidence(
    record: IterationRecord | Sequence[SampleResult], goal: Goal, *, template: str | None = None
) -> Evidence | None:
    """Returns the evidence of a template's answers; None where there are none, or the goal holds no taxonomy.

    Args:
        record: An iteration, or rows of answers.
        goal: What is being tuned for.
        template: The template, whose words may stand in the example answers; the record's where it is one.
    """
    rows, template = _rows(record, template)
    answered = [row for row in rows if row.node is not None and row.unrated is None]
    if goal.taxonomy is None or not answered:
        return None
    met = getattr(record, "feasible", True)
    # Of some scores (bits wrong) the rows do not tell their part.
    names = measures_of(goal.objective, met=met)
    values = _values(answered, names) or _values(answered, ("hp", "hr"))
    target = np.array([row.target for row in answered])
    placed = np.array([row.node for row in answered])
    on_tree = np.array([not (row.off_tree or row.abstained) for row in answered])
    domain_only = goal.taxonomy.is_ancestor(placed, goal.domain_node) & on_tree
    scores = tuple(_score(name, each) for name, each in values.items())
    aims = set(goal.objective.shown)
    if goal.objective.constraints:  # only the main score is to rise
        aims &= set(goal.objective.shown[:1])
    hidden = hidden_answers(answered, goal, template=template)
    return Evidence(
        images=len(answered),
        failed=len(rows) - len(answered),
        scores=scores,
        levels=_levels(goal.taxonomy, goal.domain_node, placed[on_tree], target[on_tree]),
        domain_only=int(domain_only.sum()),
        abstained=sum(row.abstained and not row.off_tree for row in answered),
        off_tree=sum(row.off_tree for row in answered),
        guessed=sum(row.confidence is not None for row in answered),
        mistakes=_mistakes(hidden, wrong_from(goal.taxonomy, placed, target), values),
        ceiling=met and bool(aims) and aims <= {score.measure for score in scores if score.ceiling},
    )


def hidden_answers(
    record: IterationRecord | Sequence[SampleResult], goal: Goal, *, template: str | None = None
) -> list[HiddenAnswer | None]:
    """Returns each image's answer without names; None where there is no answer or the goal holds no taxonomy.

    The arguments are those of `evidence`.
    """
    rows, template = _rows(record, template)
    taxonomy, domain = goal.taxonomy, goal.domain_node
    answered = [(i, row, row.node) for i, row in enumerate(rows) if row.node is not None]
    hidden: list[HiddenAnswer | None] = [None] * len(rows)
    if taxonomy is None or not answered:
        return hidden
    kinds = classify(
        taxonomy,
        np.array([node for *_, node in answered]),
        [row.target for _, row, _ in answered],
        abstained=[row.abstained for _, row, _ in answered],
        off_tree=[row.off_tree for _, row, _ in answered],
    )
    hider = Hider(taxonomy, domain, (template or "", goal.domain, *goal.ranks, *filter(None, taxonomy.ranks)))
    for (i, row, node), kind in zip(answered, kinds, strict=True):
        text = hider.hide(row.answer or "", row.target, node)
        off = kind in (ErrorType.OFF_TREE, ErrorType.ABSTAINED)
        hidden[i] = HiddenAnswer(
            text=text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…",
            placed=str(kind) if off else relation(taxonomy, domain, node, row.target),
            kind=kind,
            guessed=row.confidence is not None,
        )
    return hidden


def row_values(rows: Sequence[SampleResult], measure: str) -> FloatArray | None:
    """Returns each row's value, which adds to a mean, shape (n,); None where the rows do not hold it.

    Of hF, which is no mean, these are its linear approximation around the rows' means, whose mean is hF and whose
    spread is hF's to first order.

    Args:
        rows: Rows with an answer.
        measure: "hp", "hr", "hf", "ihp", "ihr", "ihf", "accuracy" or the name of a metric that was taken.
    """
    if measure in _HARMONIC:
        pair = [row_values(rows, name) for name in _HARMONIC[measure]]
        if pair[0] is None or pair[1] is None:
            return None
        p, r = float(pair[0].mean()), float(pair[1].mean())
        if p + r == 0:
            return np.zeros(len(rows))
        return 2 * (p * r * (p + r) + r * r * (pair[0] - p) + p * p * (pair[1] - r)) / (p + r) ** 2
    if measure == "accuracy":
        return np.array([float(row.node == row.target) for row in rows])
    found = [getattr(row, measure) if measure in _ROWS else row.measures.get(measure) for row in rows]
    return None if not found or None in found else np.array(found, dtype=np.float64)


def _values(rows: Sequence[SampleResult], measures: Sequence[str]) -> dict[str, FloatArray]:
    return {name: found for name in measures if (found := row_values(rows, name)) is not None}


def _rows(
    record: IterationRecord | Sequence[SampleResult], template: str | None
) -> tuple[Sequence[SampleResult], str | None]:
    if isinstance(record, Sequence):
        return record, template
    return record.rows, record.template if template is None else template


def measures_of(objective: Objective, *, met: bool = True) -> tuple[str, ...]:
    """Returns the measures that an objective is about, the main one first.

    Args:
        objective: What makes one template better than another; hP and hR where it does not say what it is made of.
        met: Whether its constraints are met; otherwise what they hold comes first.
    """
    held = [each.measure for each in objective.constraints]
    about = objective.shown or objective.beside or ("hp", "hr")
    return tuple(dict.fromkeys((*about, *held) if met else (*held, *about)))


def _score(measure: str, values: FloatArray) -> Score:
    n, mean = len(values), float(values.mean())
    spread = float(((values - mean) ** 2).sum())
    within = _bounded(values)
    variance = (spread + 0.25) / (n + 1) if within or measure in _HARMONIC else spread / max(n - 1, 1)
    return Score(measure, mean, float(np.sqrt(variance / n)), within and mean >= 1 - 1e-12)


def _levels(taxonomy: Taxonomy, domain: int, placed: NDArray[np.int64], target: NDArray[np.int64]) -> tuple[Level, ...]:
    if not placed.size:
        return ()
    names = np.array([rank_of(taxonomy, int(node)) for node in placed])
    below = ~taxonomy.is_ancestor(placed, domain)
    right = taxonomy.is_ancestor(placed, target)
    paths = taxonomy.lineage[np.concatenate([placed, target]), taxonomy.depth[domain] + 1 :]
    ranks = {rank_of(taxonomy, int(node)) for node in np.unique(paths[paths >= 0])}
    levels = []
    for each in rank_scores(taxonomy, placed, target):
        if each.rank in ranks:
            here = (names == each.rank) & below
            levels.append(Level(each.rank, int(here.sum()), int((here & right).sum()), each.n_predicted, each.right))
    return tuple(levels)


def _mistakes(
    hidden: Sequence[HiddenAnswer | None], wrong: Sequence[str | None], values: dict[str, FloatArray]
) -> tuple[Mistake, ...]:
    losses = {name: 1 - found for name, found in values.items() if name not in _HARMONIC and _bounded(found)}
    by_kind: dict[ErrorType, list[int]] = {}
    for i, answer in enumerate(hidden):
        if answer is not None and answer.kind != ErrorType.CORRECT:
            by_kind.setdefault(answer.kind, []).append(i)
    found = []
    for kind, places in by_kind.items():
        costs = {name: float(loss[places].sum()) / len(hidden) for name, loss in losses.items()}
        worst = sorted(places, key=lambda i: tuple(-float(loss[i]) for loss in losses.values()))
        examples = dict.fromkeys(answer for i in worst if (answer := hidden[i]) is not None)
        # Of answers that are hidden altogether there is little to learn.
        told = sorted(examples, key=lambda answer: answer.text == ELSEWHERE)[:_EXAMPLES]
        on_tree = kind not in (ErrorType.OFF_TREE, ErrorType.ABSTAINED)
        ranks = Counter(rank for i in places if on_tree and (rank := wrong[i]) is not None)
        found.append(Mistake(kind, len(places), dict(ranks.most_common()), costs, tuple(told)))
    return tuple(sorted(found, key=lambda each: (*(-cost for cost in each.costs.values()), -each.count)))


def _bounded(values: FloatArray) -> bool:
    return bool((values >= 0).all() and (values <= 1).all())
