"""Which templates are asked about more images, and which one wins: decisions under the noise of few images.

Every template is first asked about the same few images, the block. A mean over them says little: of many templates that
are equally good the luckiest looks best, and the more are tried, the luckier it is. So the templates race. Those that
may well win are asked about more of the tuning images, in rounds, and the last round about all of them (`rounds`,
`pick`). The winner is decided by a one-sided lower bound on the last round's images (`choose`).

Templates are compared image by image. What makes an image hard makes it hard for all of them, so the noise of their
differences is that of the remainder once each image's own mean is taken away; the noise of their common level is that
of the images. Each template's mean is shrunk towards the mean of all that were tried, as far as their spread is no more
than noise would give (empirical Bayes: Efron and Morris 1973), all measures together: where bolder templates are less
often right, a bold one with a spotless record on few images is not believed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics.bounds import ASSUMED_LOSS, poisson_bound
from taxtune.metrics.hierarchical import harmonic_mean
from taxtune.tuning.objective import Constraint, Objective
from taxtune.tuning.records import (
    Finalist,
    IterationRecord,
    SampleResult,
    Selection,
    TemplateScores,
    selective_values,
)

__all__ = [
    "BELIEVED",
    "TOLERANCE",
    "Round",
    "aim_values",
    "best",
    "best_so_far",
    "by_means",
    "choose",
    "most_questions",
    "next_steps",
    "pick",
    "rounds",
    "values",
]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

_SEMIFINALISTS, _FINALISTS = 8, 3
# Where a number of calls decides: templates of the search, times the root of how many blocks the calls pay for, which
# count up to so many per image; the semifinal's share of the calls; the most templates in the semifinal and in the
# final; and how many the calls could ask about all images of the final, at least.
_ENTRANTS, _BLOCKS, _SEMIFINAL, _MOST, _FEWEST = 2.5, 2 / 3, 0.35, (12, 5), 7
_DRAWS = 400
_EM_STEPS = 10
# A template's own variance counts as much as the common one from so many images on.
_PRIOR_IMAGES = 20
_TINY = 1e-7
_STEP = 1e-4  # of a mean, for the slope of the objective
# Confidence of the lower bound that ranks where the objective names none.
_CONFIDENCE = 0.8
#: A best estimate is believed to keep each constraint within so much, with at least this probability
#: (docs/explanation/optimizers.md).
TOLERANCE, BELIEVED = 0.005, 0.65


@dataclass(frozen=True, slots=True)
class Round:
    """A stage of the race: how many templates are in it, and of how many of the first tuning images each is asked."""

    images: int
    templates: int


def rounds(
    block: int, tuning: int, templates: int, calls: int | None = None, *, always: int = 0
) -> tuple[Round, ...]:
    """Returns the stages: the search on the block, a semifinal halfway on a logarithmic scale, a final on all images.

    Args:
        block: Images that every template is asked about.
        tuning: Size of the tuning split, at least `block`.
        templates: Templates of the search, the baseline included.
        calls: Most questions to the VLM in all; None where the numbers above decide.
        always: Templates that are asked about all images in any case, for which calls are set aside: 1 where the
            baseline is what others are held to.

    Returns:
        One stage where the block is all there is, else up to three.
    """
    if calls is None:
        stages, middle = [Round(block, templates)], round(math.sqrt(block * tuning))
        if block < middle:
            stages.append(Round(middle, min(_SEMIFINALISTS, templates)))
        if middle < tuning:
            stages.append(Round(tuning, min(_FINALISTS, stages[-1].templates)))
        return tuple(stages)
    if not always:  # a bound does with fewer images, for more finalists; the baseline's mean alone wants them all
        tuning = max(block, min(tuning, calls // _FEWEST))
    middle = round(math.sqrt(block * tuning))
    # More calls go into more templates and more images alike, so that the templates grow with their root; and with that
    # of the images, for of too many templates on the same images it is the luckiest that wins.
    blocks, most = calls / block, _ENTRANTS * math.sqrt(_BLOCKS * tuning)
    entrants = (
        min(blocks, most)
        if block == tuning
        else min(0.8 * blocks, _ENTRANTS * math.sqrt(blocks), most)
    )
    templates = min(templates, max(2, int(entrants)))
    if block == tuning:
        return (Round(block, templates),)
    # Two finalists at the edge of a constraint leave no third that is safely within it: there are at least three.
    left = calls - templates * block
    semifinalists = int(_SEMIFINAL * calls / max(middle - block, 1))
    semifinalists = min(templates, max(_FINALISTS, min(_MOST[0], semifinalists)))
    middle = min(middle, block + left // (semifinalists + always))
    left -= (semifinalists + always) * (middle - block)
    finalists = min(_MOST[1], left // max(tuning - middle, 1) - always)
    finalists = min(semifinalists, max(_FINALISTS, finalists))
    last = min(tuning, middle + left // (finalists + always))
    stages = [Round(block, templates), Round(middle, semifinalists), Round(last, finalists)]
    return tuple(
        stage for i, stage in enumerate(stages) if i == 0 or stage.images > stages[i - 1].images
    )


def most_questions(objective: Objective, stages: Sequence[Round]) -> int:
    """Returns the largest number of images that a race asks about, over all templates."""
    before = (0, *(stage.images for stage in stages))
    asked = sum(
        (stage.images - seen) * stage.templates for stage, seen in zip(stages, before, strict=False)
    )
    return asked + (stages[-1].images - stages[0].images if objective.held_to_baseline else 0)


def next_steps(
    records: Sequence[IterationRecord], objective: Objective, stages: Sequence[Round], seed: int = 0
) -> list[tuple[int, int]]:
    """Returns the next questions once the search is over, in any order: iterations, each with a number of images.

    A function of the records alone, so that a run that was interrupted goes on as it would have; empty where the race
    is over. `stages` are those of `rounds`, and `seed` seeds the draws.
    """
    inside = _complete(records)
    for before, stage in itertools.pairwise(stages):
        # What has been asked since must not change who goes on, or more would go on than the stage has room for.
        known = [_first(record, before.images) for record in inside]
        baseline = _baseline([_first(record, before.images) for record in _complete(records[:1])])
        picked = pick(
            known, objective, before.images, stage.templates, baseline=baseline, seed=seed
        )
        went_on = {record.iteration for record in picked}
        inside = [record for record in inside if record.iteration in went_on]
        # A baseline that others are held to is asked about what they are asked about.
        held_to = _complete(records[:1]) if objective.held_to_baseline else []
        beside = [record for record in held_to if record.iteration not in went_on]
        in_it = [record for record in [*beside, *inside] if record.state == "complete"]
        if found := [
            (record.iteration, stage.images) for record in in_it if len(record.rows) < stage.images
        ]:
            return found
    return []


def pick(
    records: Sequence[IterationRecord],
    objective: Objective,
    images: int,
    templates: int,
    *,
    baseline: TemplateScores | None = None,
    seed: int = 0,
) -> list[IterationRecord]:
    """Returns the templates that go on: the set whose best is expected to be best.

    The truth about all templates is drawn many times from what the images say of it. Templates are added one by one,
    each time the one that raises the mean, over the draws, of the best value in the set: a template that wins where the
    others fail is worth more than a second one that wins where the first does.

    Args:
        records: The templates to choose among.
        objective: What is tuned for.
        images: How many of the rows count, the first; templates with fewer are left out.
        templates: How many go on.
        baseline: The scores of the baseline, for constraints that are a share of its own.
        seed: Seeds the draws.
    """
    records = [record for record in records if len(record.rows) >= images and not record.cut_short]
    if len(records) <= templates:
        return list(records)
    posterior = _posterior(records, objective, images)
    drawn = posterior.draw(np.random.default_rng([seed, images]))
    aims, missed = drawn[..., 0], np.zeros(drawn.shape[:2])
    for column, each in enumerate(objective.constraints, 1):
        least = each.bound(baseline) - (TOLERANCE if each.confidence > 0.5 else 0)
        missed = missed + np.maximum(least - drawn[..., column], 0)
    # A draw in which a template misses a constraint makes it worth less than the least of them.
    worth = np.where(missed > 0, aims.mean(axis=0).min() - missed, aims)
    chosen: list[int] = []
    best = np.full((len(worth), 1), -np.inf)
    for _ in range(templates):
        gains = np.maximum(best, worth).mean(axis=0)
        gains[chosen] = -np.inf
        chosen.append(int(gains.argmax()))
        best = np.maximum(best, worth[:, chosen[-1:]])
    return [records[i] for i in sorted(chosen)]


def by_means(record: IterationRecord) -> tuple[int, bool, float, int]:
    """Returns the sort key of a scored iteration by its means alone; a larger one is better.

    As in `choose`, most images come first, and no template is better than one that beats it on the same images. What
    meets the constraints comes before what does not, and the earlier of equals first.
    """
    assert record.value is not None  # it was scored
    return len(record.rows), record.feasible, record.value, -record.iteration


def best(records: Sequence[IterationRecord]) -> IterationRecord | None:
    """Returns the iteration that is best by its means; None where none was scored with most answers whole."""
    able = [record for record in records if record.value is not None and not record.cut_short]
    return max(able, key=by_means, default=None)


def best_so_far(records: Iterable[IterationRecord]) -> list[IterationRecord | None]:
    """Returns the best iteration up to each one."""
    path: list[IterationRecord | None] = []
    for record in records:
        before = [each for each in path[-1:] if each is not None]
        path.append(best([*before, record]))
    return path


def choose(records: Sequence[IterationRecord], objective: Objective) -> Selection | None:
    """Returns the winner and how sure it is; None where no iteration could be scored with most answers whole.

    No template wins that another one, asked about the same images, equals in every figure and exceeds in one: the mean
    of the aim, and the mean and the bound of all that is held. (More of what a floor without a confidence holds is no
    gain.)

    Of the templates that were asked about most images, the winner is the one with the highest lower bound of the aim
    among those that reach every constraint. A constraint with a confidence is reached where its one-sided bound does.
    Templates are tested in the order of how much they say, the most careful first, and the first that fails ends the
    tests, so that however many there are the chance of letting any through that should not be stays below
    1 - confidence (fixed-sequence testing: Angelopoulos et al. 2021, "Learn then Test", §2.3). Templates with the same
    losses on every image are one test. What beats a template that passed reaches the constraints, too, but is not
    certified.

    Where no finalist reaches them all, those that were left behind a round earlier are tested in the same way on the
    images that they saw, and so on. Where none does at all, the winner is a best estimate: of the templates that are
    believed to keep every constraint, within `TOLERANCE` and with a probability of `BELIEVED` or more, the one that is
    expected to have most of the aim, and where none is believed, the likeliest. What is believed of a template is
    believed of all that beat it. Here, too, the finalists come first.
    """
    complete, baseline = (
        [each for each in _complete(records) if not each.cut_short],
        _baseline(records),
    )
    estimate, most = None, -1.0
    for images in sorted({len(record.rows) for record in complete}, reverse=True):
        group = [record for record in complete if len(record.rows) == images]
        selection, probability = _choose(group, objective, baseline)
        if selection.reached:
            return selection
        if most < min(probability, BELIEVED):
            estimate, most = selection, probability
    return estimate


def _choose(
    finalists: Sequence[IterationRecord], objective: Objective, baseline: TemplateScores | None
) -> tuple[Selection, float]:
    """Returns the winner of templates that saw the same images, and how likely it is to keep every constraint."""
    count, images = len(finalists), len(finalists[0].rows)
    posterior = _posterior(finalists, objective, images)
    estimates = posterior.mean[:, 0]
    lows = estimates - _quantile(_CONFIDENCE) * np.sqrt(posterior.covariance[:, 0, 0])
    measured = {
        held.measure: [values(record, held.measure) for record in finalists]
        for held in objective.constraints
    }
    bounds = {held.measure: _lower(held, measured[held.measure]) for held in objective.constraints}
    alike = _alike(list(measured.values()), count)
    alone, certified = np.ones(count, dtype=bool), np.ones(count, dtype=bool)
    for held in objective.constraints:
        passed = bounds[held.measure] >= held.bound(baseline) - 1e-12
        alone &= passed
        if held.confidence > 0.5:
            # From the template that says least to the one that says most: the first that fails ends the tests.
            order = np.argsort(estimates, kind="stable")
            passed[order] = np.logical_and.accumulate(passed[order])
            passed = np.asarray((alike & passed).any(axis=1))
        certified &= passed
    beats = _beats(finalists, objective, bounds)
    unbeaten = ~beats.any(axis=0)
    reached = certified | (beats & certified).any(axis=1)
    probability = _probability(posterior, objective, baseline)
    probability = np.where(beats | np.eye(count, dtype=bool), probability, 0).max(axis=1)
    believed = probability >= BELIEVED
    if (reached & unbeaten).any():
        order_by = np.where(reached & unbeaten, lows, -np.inf)
    elif (believed & unbeaten).any():
        order_by = np.where(believed & unbeaten, estimates, -np.inf)
    else:
        order_by = np.where(unbeaten, probability, -np.inf)
    winner = int(order_by.argmax())
    status: Literal["certified", "passes-alone", "estimate"] | None = None
    if any(held.confidence > 0.5 for held in objective.constraints):
        status = (
            "certified" if certified[winner] else "passes-alone" if alone[winner] else "estimate"
        )
    selection = Selection(
        winner=finalists[winner].iteration,
        reached=bool(reached[winner]),
        images=images,
        finalists=tuple(
            Finalist(
                record.iteration,
                estimate=float(estimates[i]),
                low=float(lows[i]),
                bounds={measure: float(low[i]) for measure, low in bounds.items()},
                reached=bool(reached[i]),
            )
            for i, record in enumerate(finalists)
        ),
        policy=finalists[winner].policy,
        status=status,
    )
    return selection, float(probability[winner])


def _beats(
    finalists: Sequence[IterationRecord], objective: Objective, bounds: Mapping[str, FloatArray]
) -> BoolArray:
    """Tells which templates beat which, shape (k, k): [i, j] is whether i beats j.

    It has an answer wherever j has one, no figure lower, and the aim, or what is held with a confidence, higher.
    """
    scores = [record.scores for record in finalists if record.scores is not None]
    figures, sought = [[objective.aimed(each) for each in scores]], [True]
    for held in objective.constraints:
        figures += [[each.get(held.measure) for each in scores], bounds[held.measure].tolist()]
        sought += [held.confidence > 0.5] * 2
    shown = np.round(np.transpose(figures), 12)  # what rounding alone parts is equal
    missing = np.array(
        [[row.missing is not None for row in record.rows] for record in finalists], dtype=float
    )
    answers_all = missing @ (1 - missing.T) == 0
    no_less = (shown[:, np.newaxis] >= shown).all(axis=2)
    more = (shown[:, np.newaxis] > shown)[..., sought].any(axis=2)
    return np.asarray(answers_all & no_less & more)


def _alike(measured: Sequence[Sequence[FloatArray]], templates: int) -> BoolArray:
    """Tells which templates have the same losses on every image, shape (k, k); each only itself where none are held."""
    if not measured:
        return np.eye(templates, dtype=bool)
    keys = [
        b"".join(column.tobytes() for column in columns) for columns in zip(*measured, strict=True)
    ]
    return np.array([[one == other for other in keys] for one in keys])


def _probability(
    posterior: _Posterior, objective: Objective, baseline: TemplateScores | None
) -> FloatArray:
    """Returns the probability of each template to keep every constraint within `TOLERANCE`, shape (k,)."""
    from scipy.special import ndtr

    likely = np.ones(len(posterior.mean))
    for column, each in enumerate(objective.constraints, 1):
        spread = np.sqrt(posterior.covariance[:, column, column] + posterior.common[column, column])
        likely *= ndtr((posterior.mean[:, column] - each.bound(baseline) + TOLERANCE) / spread)
    return likely


# -- what the images say ----------------------------------------------------------------------------------------------


def values(record: IterationRecord, measure: str) -> FloatArray:
    """Returns a measure of each image, shape (rows,); NaN where a call failed.

    Args:
        record: The iteration.
        measure: "hp", "hr", "ihp", "ihr", "accuracy", "depth", "abstained", "off_tree", "selective_hp", or one of the
            run's own.
    """
    if measure == "selective_hp":
        return selective_values(record.rows)
    return np.array([_value(row, measure) for row in record.rows], dtype=np.float64)


def _value(row: SampleResult, measure: str) -> float:
    if row.node is None:
        return math.nan
    if measure in row.measures:
        value: float | None = row.measures[measure]
    elif measure == "accuracy":
        value = row.exact
    elif measure == "depth":
        value = None if row.placement is None else row.placement.count("/")
    else:
        value = getattr(row, measure, None)
    return math.nan if value is None else float(value)


def aim_values(record: IterationRecord, objective: Objective) -> FloatArray:
    """Returns each image's contribution to the objective: the value, and the influence on it, shape (rows,).

    An objective is a smooth function of means, so that near them it is linear in them (the delta method). Of a plain
    mean these are the images' own values.
    """
    scores = record.scores
    assert scores is not None  # only complete iterations race
    here = objective.aimed(scores)
    total = np.full(len(record.rows), here)
    for key in _means_of(scores):
        up, down = (_with_means(scores, {key: scores.get(key) + step}) for step in (_STEP, -_STEP))
        slope = (objective.aimed(up) - objective.aimed(down)) / (2 * _STEP)
        if abs(slope) > 1e-9:
            total = total + slope * (values(record, key) - scores.get(key))
    return total


def _means_of(scores: TemplateScores) -> list[str]:
    """Returns the means that scores are made of; the others follow from them."""
    return [key for key in scores.as_row() if key not in ("hf", "ihf", "target_bits")]


def _with_means(scores: TemplateScores, means: Mapping[str, float]) -> TemplateScores:
    """Returns scores with other means, and with what follows from them."""
    measures = {key: means.get(key, mean) for key, mean in scores.measures.items()}
    plain = {key: mean for key, mean in means.items() if key not in measures}
    changed = replace(scores, measures=measures, **plain)  # type: ignore[arg-type]
    changed = replace(changed, hf=harmonic_mean(changed.hp, changed.hr))
    if changed.ihp is None or changed.ihr is None:
        return changed
    return replace(changed, ihf=harmonic_mean(changed.ihp, changed.ihr))


@dataclass(frozen=True, slots=True)
class _Posterior:
    """What is believed of k templates' means of d measures, the objective's aim first.

    Means, shape (k, d); the covariance of each template's own part, shape (k, d, d); and that of the level, which all
    share, shape (d, d).
    """

    mean: FloatArray
    covariance: FloatArray
    common: FloatArray

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Returns draws of the truth, shape (draws, k, d)."""
        k, d = self.mean.shape
        own = np.linalg.cholesky(self.covariance)
        drawn: FloatArray = self.mean + np.einsum(
            "kij,nkj->nki", own, rng.standard_normal((_DRAWS, k, d))
        )
        level = rng.standard_normal((_DRAWS, d)) @ np.linalg.cholesky(self.common).T
        drawn += level[:, np.newaxis]
        return drawn


def _posterior(records: Sequence[IterationRecord], objective: Objective, images: int) -> _Posterior:
    columns = [[aim_values(record, objective)[:images] for record in records]]
    columns += [
        [values(record, each.measure)[:images] for record in records]
        for each in objective.constraints
    ]
    observed = np.array(columns).transpose(1, 2, 0)  # (k, n, d)
    k, n, d = observed.shape
    tiny = _TINY * np.eye(d)
    with np.errstate(invalid="ignore"):
        answered = ~np.isnan(observed).any(axis=2)
    counts = np.maximum(answered.sum(axis=1), 1)
    filled = np.where(answered[..., np.newaxis], observed, 0.0)
    # Images that no template has an answer for, which would have no mean, count as the average image.
    weight = answered.sum(axis=0)
    level = filled.sum(axis=(0, 1)) / max(int(answered.sum()), 1)
    image = np.where(
        weight[:, np.newaxis] > 0, filled.sum(axis=0) / np.maximum(weight, 1)[:, np.newaxis], level
    )
    left = np.where(answered[..., np.newaxis], filled - image, 0.0)
    raw = left.sum(axis=1) / counts[:, np.newaxis]
    residual = np.where(answered[..., np.newaxis], left - raw[:, np.newaxis], 0.0)
    own = np.einsum("kni,knj->kij", residual, residual)
    pooled = own.sum(axis=0) / max(int(answered.sum()) - k, 1)
    prior_images = min(_PRIOR_IMAGES, n)
    total = (counts + prior_images)[:, np.newaxis, np.newaxis]
    noise = (own + prior_images * pooled) / total / counts[:, np.newaxis, np.newaxis] + tiny
    mean, covariance = _shrunk(raw, noise)
    common = np.cov(image.T).reshape(d, d) / n if n > 1 else np.zeros((d, d))
    for column, each in enumerate(objective.constraints, 1):
        # However spotless the record, the images are a sample.
        expected = _typical_loss(observed[..., column]) * max(1 - each.least, 0) / n / 2
        common[column, column] = max(common[column, column], expected)
    return _Posterior(mean + level, covariance, common + tiny)


def _shrunk(raw: FloatArray, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns means and covariances of the templates' own parts under a normal prior that is fitted to them (EM)."""
    k, d = raw.shape
    if k == 1:
        return raw, noise
    centre, spread = raw.mean(axis=0), np.cov(raw.T).reshape(d, d) + _TINY * np.eye(d)
    precision = np.linalg.inv(noise)
    mean, covariance = raw, noise
    for _ in range(_EM_STEPS):
        prior = np.linalg.inv(spread)
        covariance = np.linalg.inv(precision + prior)
        mean = np.einsum(
            "kij,kj->ki", covariance, np.einsum("kij,kj->ki", precision, raw) + prior @ centre
        )
        centre = mean.mean(axis=0)
        off = mean - centre
        spread = (np.einsum("ki,kj->ij", off, off) + covariance.sum(axis=0)) / k + _TINY * np.eye(d)
    return mean, covariance


def _typical_loss(measured: FloatArray) -> float:
    """Returns the size that losses have where there are any: the mean of their squares by their mean."""
    losses = 1 - measured[~np.isnan(measured)]
    total = float(losses.sum())
    return float((losses**2).sum()) / total if total > 0 else ASSUMED_LOSS


def _lower(constraint: Constraint, measured: Sequence[FloatArray]) -> FloatArray:
    """Returns the assumed score of each template: a one-sided bound, or, without a confidence, its mean."""
    known = [each[~np.isnan(each)] for each in measured]
    if constraint.confidence == 0.5:
        return np.array([float(each.mean()) for each in known])
    every = np.concatenate(known)
    if every.min() < 0 or every.max() > 1:
        z = _quantile(constraint.confidence)
        return np.array(
            [float(each.mean() - z * each.std() / math.sqrt(len(each))) for each in known]
        )
    typical = _typical_loss(every)
    return np.array(
        [1.0 - poisson_bound(1 - each, constraint.confidence, typical=typical) for each in known]
    )


def _quantile(confidence: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(confidence))


def _first(record: IterationRecord, images: int) -> IterationRecord:
    """Returns a record as it was when only its first images had been asked about."""
    if len(record.rows) <= images or record.scores is None:
        return record
    then = next((rows for rows in record.before if len(rows) == images), record.rows[:images])
    first = replace(record, rows=then)
    means = {key: values(first, key) for key in _means_of(record.scores)}
    known = {
        key: float(np.nanmean(each)) for key, each in means.items() if not np.isnan(each).all()
    }
    return replace(first, scores=replace(_with_means(record.scores, known), n=images))


def _complete(records: Sequence[IterationRecord]) -> list[IterationRecord]:
    return [
        record for record in records if record.state == "complete" and record.scores is not None
    ]


def _baseline(records: Sequence[IterationRecord]) -> TemplateScores | None:
    return records[0].scores if records and records[0].iteration == 0 else None
