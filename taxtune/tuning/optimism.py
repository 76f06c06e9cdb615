"""How much better a winner looks on the images that it was chosen on than it is.

The best of many templates on few images is in part the luckiest. By how much shows twice: in the winner's tuning score
minus its held-out score, which is one draw, and in a simulation of the choice from the run's own answers, which is its
mean: a fifth of the tuning images is left out, the winner is chosen on the others as the run does, and looked at on
those left out (Monte Carlo cross-validation: Picard and Cook 1984). That the choice has a fifth fewer images errs a
little towards more optimism.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics.hierarchical import harmonic_mean
from taxtune.tuning.objective import Objective
from taxtune.tuning.records import HeldoutResult, IterationRecord, Optimism, TemplateScores
from taxtune.tuning.selection import MEANS, choose_among, values

__all__ = ["find_optimism", "simulate_optimism"]

FloatArray = NDArray[np.float64]

_DRAWS = 100
_LEFT_OUT = 5  # one image in so many


def find_optimism(
    records: Sequence[IterationRecord],
    winner: IterationRecord,
    heldout: HeldoutResult,
    objective: Objective,
    measures: Sequence[str],
    *,
    seed: int = 0,
) -> tuple[Optimism, ...]:
    """Returns how much better the winner looks than it is, for each measure.

    Args:
        records: Every iteration, with the rows that there are.
        winner: The one that was chosen.
        heldout: The winner on the held-out images.
        objective: What was tuned for.
        measures: The measures; those that a split lacks are left out.
        seed: Seeds the draws.
    """
    simulated = simulate_optimism(records, objective, measures, seed=seed)
    found = []
    for measure in measures:
        tuning = values(winner, measure)
        if np.isnan(tuning).all() or measure not in heldout.scores.keys():  # noqa: SIM118 - not a mapping
            continue
        drawn = simulated.get(measure, np.empty(0))
        found.append(
            Optimism(
                measure,
                tuning=float(np.nanmean(tuning)),
                heldout=heldout.scores.get(measure),
                expected=float(drawn.mean()) if drawn.size else None,
            )
        )
    return tuple(found)


def simulate_optimism(
    records: Sequence[IterationRecord],
    objective: Objective,
    measures: Sequence[str],
    *,
    draws: int = _DRAWS,
    seed: int = 0,
) -> dict[str, FloatArray]:
    """Returns the chosen template's mean on the images that it was chosen on minus that on the others, in each draw.

    Args:
        records: Every iteration, the baseline first; rows of the same position are of the same image.
        objective: What is tuned for.
        measures: The measures to look at.
        draws: How many draws, at least 1.
        seed: Seeds the draws.

    Returns:
        By measure, shape (draws,), without those that leave out no image that the chosen template was asked about.
    """
    complete = [record for record in records if record.state == "complete" and record.scores is not None]
    n = max((len(record.rows) for record in complete), default=0)
    rng = np.random.default_rng(seed)
    found: dict[str, list[float]] = {measure: [] for measure in measures}
    columns = {record.iteration: _columns(record, measures) for record in complete}
    for _ in range(draws if len(complete) > 1 else 0):
        # In their order, so that what some templates were not asked about any more comes last here, too.
        drawn = np.sort(rng.permutation(n)[: n - max(1, n // _LEFT_OUT)])
        by_images: dict[int, list[IterationRecord]] = defaultdict(list)
        for record in complete:
            by_images[int(np.searchsorted(drawn, len(record.rows)))].append(record)

        def part(record: IterationRecord, drawn: NDArray[np.int64] = drawn) -> IterationRecord:
            return _part(record, columns[record.iteration], drawn)

        baseline = part(complete[0]).scores if complete[0].iteration == 0 else None
        # One after the other: the many that only the first images were asked with are seldom looked at.
        groups = (list(map(part, by_images[images])) for images in sorted(by_images, reverse=True))
        chosen = choose_among(groups, objective, baseline)
        if chosen is None:
            continue
        left = np.setdiff1d(np.arange(n), drawn)
        for measure in measures:
            column = columns[chosen.winner][measure]
            inside, outside = (column[places[places < len(column)]] for places in (drawn, left))
            if not (np.isnan(inside).all() or np.isnan(outside).all()):
                found[measure].append(float(np.nanmean(inside) - np.nanmean(outside)))
    return {measure: np.array(differences) for measure, differences in found.items()}


def _columns(record: IterationRecord, measures: Sequence[str]) -> dict[str, FloatArray]:
    scores = record.scores
    assert scores is not None
    keys = dict.fromkeys((*measures, *(key for key in MEANS if key in scores.keys()), *scores.measures))  # noqa: SIM118
    return {key: values(record, key) for key in keys}


def _part(record: IterationRecord, columns: Mapping[str, FloatArray], drawn: NDArray[np.int64]) -> IterationRecord:
    """Returns an iteration with the rows at the places drawn, of those that it has, and the scores that follow."""
    places = drawn[drawn < len(record.rows)]
    scores = record.scores
    assert scores is not None
    means = {
        key: float(np.nanmean(column[places]))
        for key, column in columns.items()
        if key in (*MEANS, *scores.measures) and not np.isnan(column[places]).all()
    }
    return replace(record, rows=tuple(record.rows[i] for i in places), scores=_scores(scores, means))


def _scores(before: TemplateScores, means: dict[str, float]) -> TemplateScores:
    """Returns scores with other means, and what follows from them."""
    measures = {key: means.pop(key, value) for key, value in before.measures.items()}
    scores = replace(before, **means, measures=measures)  # type: ignore[arg-type]
    bits = None if scores.ihp is None or scores.ihr is None else harmonic_mean(scores.ihp, scores.ihr)
    return replace(scores, hf=harmonic_mean(scores.hp, scores.hr), ihf=bits)
