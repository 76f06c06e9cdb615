"""Which templates are asked about more images, and which one wins, although images are few.

Every template is first asked about the same few images, those of the first rung. A mean over them
says little: of many templates that are equally good the luckiest looks best, and the more are
tried, the luckier it is. So the templates go through successive halving: those that may well win
are asked about more of the tuning images, rung by rung, and the last ones about all of them
(`rungs`, `pick`). The winner is decided by a one-sided lower bound on the images of the last rung
(`choose`).

An image here is a group of images where images belong together (`taxtune.metrics.groups`): the
mean over a group counts once. Rungs and questions count images.

Templates are compared image by image. What makes an image hard makes it hard for all of them, so
the noise of their differences is that of the remainder once each image's own mean is taken away;
the noise of their common level is that of the images. Each template's mean is shrunk towards the
mean of all that were tried, as far as their spread is no more than noise would give (empirical
Bayes: Efron and Morris 1973), all measures together: where bolder templates are less often right, a
bold one with a spotless record on few images is not believed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from taxtune.metrics.bounds import ASSUMED_LOSS, images_to_certify, poisson_bound
from taxtune.metrics.table import TemplateScores, is_mean
from taxtune.objective import Constraint, Objective
from taxtune.policies.paths import BoolArray, FloatArray
from taxtune.tuning.records import Held, IterationRecord, Selection, Status, image_table

__all__ = [
    "BELIEVED",
    "TOLERANCE",
    "ConstraintTest",
    "Rung",
    "Standings",
    "aim_values",
    "best",
    "by_means",
    "choose",
    "leaders",
    "most_questions",
    "next_steps",
    "pick",
    "rungs",
]

#: A best estimate is believed to keep each constraint within so much.
TOLERANCE = 0.005
#: It keeps each constraint with at least this probability (docs/explanation/optimizers.md).
BELIEVED = 0.65

# The most templates of the second and the last rung where no number of calls decides.
_SEMIFINALISTS = 8
_FINALISTS = 3
# Where a number of calls decides: templates of the first rung, times the root of how many of its
# size the calls pay for, which count up to so many per image.
_ENTRANTS = 2.5
_FIRST_RUNGS = 2 / 3
# The share of the calls for the second rung; the most templates on it and on the last.
_SEMIFINAL = 0.35
_MOST_SEMIFINALISTS = 12
_MOST_FINALISTS = 5
# How many templates the calls could ask about all images of the last rung, at least.
_FEWEST = 7

_DRAWS = 400
_EM_STEPS = 10
# A template's own variance counts as much as the common one from so many images on.
_PRIOR_IMAGES = 20
_TINY = 1e-7
_STEP = 1e-4  # of a mean, for the slope of the objective
_ROUNDING = 1e-12  # by which a bound may miss its goal
# Confidence of the lower bound that ranks where the objective names none.
_CONFIDENCE = 0.8


@dataclass(frozen=True, slots=True)
class Rung:
    """A rung of successive halving.

    Attributes:
        images: How many of the first tuning images its templates are asked about.
        templates: How many templates are on it.
    """

    images: int
    templates: int


def rungs(
    first: int, tuning: int, templates: int, calls: int | None = None, *, always: int = 0
) -> tuple[Rung, ...]:
    """Returns the rungs: one for the search, one halfway on a logarithmic scale, one on all images.

    Args:
        first: Images that every template is asked about.
        tuning: Size of the tuning split, at least `first`.
        templates: Templates of the search, the baseline included.
        calls: Most questions to the VLM in all, None if the numbers above decide.
        always: Templates that are asked about all images in any case, for which calls are set
            aside: 1 if the baseline is what others are held to.

    Returns:
        One rung if the first has all images, otherwise up to three.
    """
    if calls is None:
        return _plain_rungs(first, tuning, templates)
    if not always:
        # A bound does with fewer images, for more finalists; the baseline's mean alone wants all.
        tuning = max(first, min(tuning, calls // _FEWEST))
    templates = min(templates, max(2, _entrants(first, tuning, calls)))
    if first == tuning:
        return (Rung(first, templates),)
    # Two finalists at the edge of a constraint leave no third that is safely within it: there are
    # at least three.
    left = calls - templates * first
    middle = round(math.sqrt(first * tuning))
    semifinalists = int(_SEMIFINAL * calls / max(middle - first, 1))
    semifinalists = max(_FINALISTS, min(_MOST_SEMIFINALISTS, semifinalists))
    semifinalists = min(templates, semifinalists)
    middle = min(middle, first + left // (semifinalists + always))
    left -= (semifinalists + always) * (middle - first)
    finalists = min(_MOST_FINALISTS, left // max(tuning - middle, 1) - always)
    finalists = min(semifinalists, max(_FINALISTS, finalists))
    last = min(tuning, middle + left // (finalists + always))
    made = [Rung(first, templates)]
    for rung in (Rung(middle, semifinalists), Rung(last, finalists)):
        if rung.images > made[-1].images:
            made.append(rung)
    return tuple(made)


def _plain_rungs(first: int, tuning: int, templates: int) -> tuple[Rung, ...]:
    middle = round(math.sqrt(first * tuning))
    made = [Rung(first, templates)]
    if first < middle:
        made.append(Rung(middle, min(_SEMIFINALISTS, templates)))
    if middle < tuning:
        made.append(Rung(tuning, min(_FINALISTS, made[-1].templates)))
    return tuple(made)


def _entrants(first: int, tuning: int, calls: int) -> int:
    """Returns the number of templates that the calls are best spent on.

    More calls go into more templates and more images alike, so that the templates grow with their
    root; and with that of the images, for of too many templates on the same images it is the
    luckiest that wins.
    """
    affordable = calls / first
    entrants = min(affordable, _ENTRANTS * math.sqrt(_FIRST_RUNGS * tuning))
    if first < tuning:
        entrants = min(entrants, 0.8 * affordable, _ENTRANTS * math.sqrt(affordable))
    return int(entrants)


def most_questions(objective: Objective, ladder: Sequence[Rung]) -> int:
    """Returns the largest number of images that are asked about, over all templates and rungs."""
    asked = 0
    seen = 0
    for rung in ladder:
        asked += (rung.images - seen) * rung.templates
        seen = rung.images
    if objective.held_to_baseline:
        asked += ladder[-1].images - ladder[0].images
    return asked


def next_steps(
    records: Sequence[IterationRecord], objective: Objective, ladder: Sequence[Rung], seed: int = 0
) -> list[tuple[int, int]]:
    """Returns the next questions once the search is over, in any order.

    They are a function of the records alone, so that a run that was interrupted goes on as it would
    have.

    Returns:
        Iterations, each with a number of images; empty once the last rung is done.
    """
    inside = _complete(records)
    first = _complete(records[:1])
    for before, rung in itertools.pairwise(ladder):
        # What has been asked since must not change who goes on, or more would go on than the rung
        # has room for.
        known = [_first(record, before.images) for record in inside]
        baseline = _baseline([_first(record, before.images) for record in first])
        picked = pick(known, objective, before.images, rung.templates, baseline=baseline, seed=seed)
        went_on = {record.iteration for record in picked}
        inside = [record for record in inside if record.iteration in went_on]
        # A baseline that others are held to is asked about what they are asked about.
        beside = []
        if objective.held_to_baseline:
            beside = [record for record in first if record.iteration not in went_on]
        steps = []
        for record in (*beside, *inside):
            if len(record.rows) < rung.images:
                steps.append((record.iteration, rung.images))
        if steps:
            return steps
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

    The truth about all templates is drawn many times from what the images say of it. Templates are
    added one by one, each time the one that raises the mean, over the draws, of the best value in
    the set: a template that wins where the others fail is worth more than a second one that wins
    where the first does.

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
    aims = drawn[..., 0]
    missed = np.zeros(aims.shape)
    for column, held in enumerate(objective.constraints, 1):
        least = held.bound(baseline)
        if held.confidence > 0.5:
            least -= TOLERANCE
        missed = missed + np.maximum(least - drawn[..., column], 0)
    # A draw in which a template misses a constraint makes it worth less than the least of them.
    least_worth = aims.mean(axis=0).min()
    worth = np.where(missed > 0, least_worth - missed, aims)
    chosen: list[int] = []
    best = np.full((len(worth), 1), -np.inf)
    for _ in range(templates):
        gains = np.maximum(best, worth).mean(axis=0)
        gains[chosen] = -np.inf
        chosen.append(int(gains.argmax()))
        best = np.maximum(best, worth[:, chosen[-1:]])
    return [records[i] for i in sorted(chosen)]


def by_means(record: IterationRecord) -> tuple[int, bool, float, int]:
    """Returns the sort key of a scored iteration by its means alone, for proposers; larger is better.

    As in `choose`, most images come first, and no template is better than one that beats it on the
    same images. What meets the constraints comes before what does not, and the earlier of equals
    first.
    """
    assert record.value is not None  # it was scored
    return len(record.rows), record.feasible, record.value, -record.iteration


def best(records: Sequence[IterationRecord]) -> IterationRecord | None:
    """Returns the iteration that is best by its means, None if no scored one has whole answers."""
    able = [record for record in records if record.value is not None and not record.cut_short]
    return max(able, key=by_means, default=None)


def choose(records: Sequence[IterationRecord], objective: Objective) -> Selection | None:
    """Returns the winner and how sure it is, None if no scored iteration has whole answers.

    No template wins that another one, asked about the same images, equals in every figure and
    exceeds in one: the mean of the aim, and the mean and the bound of all that is held. (More of
    what a floor without a confidence holds is no gain.)

    Of the templates that were asked about most images, the winner is the one with the highest lower
    bound of the aim among those that reach every constraint. A constraint with a confidence is
    reached if its one-sided bound does. Templates are tested in the order of how much they say, the
    most careful first, and the first that fails ends the tests, so that however many there are the
    chance of letting any through that should not be stays below 1 - confidence (fixed-sequence
    testing: Angelopoulos et al. 2021, "Learn then Test", §2.3). Templates with the same losses on
    every image are one test. What beats a template that passed reaches the constraints, too, but is
    not certified.

    If no finalist reaches them all, those that were left behind one rung earlier are tested in the
    same way on the images that they saw, and so on. If none does at all, the winner is a best
    estimate: of the templates that are believed to keep every constraint, within `TOLERANCE` and
    with a probability of `BELIEVED` or more, the one that is expected to have most of the aim, and
    if none is believed, the likeliest. What is believed of a template is believed of all that beat
    it. Here, too, the finalists come first.
    """
    complete = [record for record in _complete(records) if not record.cut_short]
    baseline = _baseline(records)
    estimate = None
    most = -1.0
    for images in sorted({len(record.rows) for record in complete}, reverse=True):
        finalists = [record for record in complete if len(record.rows) == images]
        final = Standings.of(finalists, objective, baseline)
        selection = final.selection()
        if selection.reached:
            return selection
        probability = float(final.probability[final.winner])
        if most < min(probability, BELIEVED):
            estimate = selection
            most = probability
    return estimate


def leaders(records: Sequence[IterationRecord], objective: Objective) -> list[int | None]:
    """Returns the iteration that `choose` takes of those up to each one; the last is the winner."""
    found: list[int | None] = []
    for done in range(1, len(records) + 1):
        selection = choose(records[:done], objective)
        found.append(None if selection is None else selection.winner)
    return found


@dataclass(frozen=True)
class Standings:
    """What is known of k templates that were asked about the same images.

    Attributes:
        finalists: Their iterations.
        estimates: The aim of each, shrunk, shape (k,).
        lows: A one-sided lower bound of it, shape (k,).
        constraints: What is known of each constraint.
        alone: Whether each passes every constraint, shape (k,).
        certified: Whether so does every template that says less, shape (k,).
        beats: [i, j] is whether i beats j, shape (k, k).
        probability: How likely each is to keep every constraint, shape (k,).
    """

    finalists: Sequence[IterationRecord]
    estimates: FloatArray
    lows: FloatArray
    constraints: Sequence[ConstraintTest]
    alone: BoolArray
    certified: BoolArray
    beats: BoolArray
    probability: FloatArray

    @classmethod
    def of(
        cls,
        finalists: Sequence[IterationRecord],
        objective: Objective,
        baseline: TemplateScores | None,
    ) -> Standings:
        """Tests finalists by their images."""
        count = len(finalists)
        posterior = _posterior(finalists, objective, len(finalists[0].rows))
        estimates = posterior.mean[:, 0]
        spread = np.sqrt(posterior.covariance[:, 0, 0])
        constraints = [
            ConstraintTest.of(held, finalists, baseline) for held in objective.constraints
        ]
        alike = _alike([test.measured for test in constraints], count)
        alone = np.ones(count, dtype=bool)
        certified = np.ones(count, dtype=bool)
        for test in constraints:
            passed = test.lows >= test.goal - _ROUNDING
            alone &= passed
            if test.constraint.confidence > 0.5:
                # From the template that says least to the one that says most: the first that
                # fails ends the tests.
                order = np.argsort(estimates, kind="stable")
                passed[order] = np.logical_and.accumulate(passed[order])
                passed = np.asarray((alike & passed).any(axis=1))
            certified &= passed
        beats = _beats(finalists, objective, constraints)
        beats_or_is = beats | np.eye(count, dtype=bool)
        own = _probability(posterior, objective, baseline)
        return cls(
            finalists=finalists,
            estimates=estimates,
            lows=estimates - _quantile(_CONFIDENCE) * spread,
            constraints=constraints,
            alone=alone,
            certified=certified,
            beats=beats,
            probability=np.where(beats_or_is, own, 0).max(axis=1),
        )

    @property
    def reached(self) -> BoolArray:
        """Whether each template reaches every constraint, or beats one that does, shape (k,)."""
        return np.asarray(self.certified | (self.beats & self.certified).any(axis=1))

    @cached_property
    def winner(self) -> int:
        """The position of the winner."""
        unbeaten = ~self.beats.any(axis=0)
        reached = self.reached & unbeaten
        if not reached.any():
            return self.best_estimate
        worth = np.where(reached, self.lows, -np.inf)
        return int(worth.argmax())

    @property
    def best_estimate(self) -> int:
        """The position of the template that is most likely best, whatever is certified."""
        unbeaten = ~self.beats.any(axis=0)
        believed = (self.probability >= BELIEVED) & unbeaten
        if believed.any():
            worth = np.where(believed, self.estimates, -np.inf)
        else:
            worth = np.where(unbeaten, self.probability, -np.inf)
        return int(worth.argmax())

    def held(self, template: int) -> tuple[Held, ...]:
        """Returns the standing of the template at a position to each constraint."""
        return tuple(test.held(template) for test in self.constraints)

    def selection(self) -> Selection:
        """Returns the choice as records have it."""
        winner = self.winner
        record = self.finalists[winner]
        return Selection(
            winner=record.iteration,
            reached=bool(self.reached[winner]),
            images=len(record.rows),
            policy=record.policy,
            status=self._status(),
            held=self.held(winner),
        )

    def _status(self) -> Status | None:
        if not any(test.constraint.confidence > 0.5 for test in self.constraints):
            return None
        if self.certified[self.winner]:
            return "certified"
        return "passes-alone" if self.alone[self.winner] else "estimate"


@dataclass(frozen=True)
class ConstraintTest:
    """What the images say of a constraint.

    Attributes:
        constraint: The constraint.
        goal: The smallest mean that it accepts.
        measured: Its measure on each group of images, shape (groups,) for each of k templates.
        typical: Size of a loss where there is one.
        lows: The score that is assumed of each template, shape (k,): a one-sided bound, or its mean
            if the constraint has no confidence.
    """

    constraint: Constraint
    goal: float
    measured: Sequence[FloatArray]
    typical: float
    lows: FloatArray

    @classmethod
    def of(
        cls,
        constraint: Constraint,
        finalists: Sequence[IterationRecord],
        baseline: TemplateScores | None,
    ) -> ConstraintTest:
        """Tests finalists by their images."""
        measured = [record.table.column(constraint.measure) for record in finalists]
        known = [values[~np.isnan(values)] for values in measured]
        typical = _typical_loss(finalists, constraint.measure)
        lows = [_lower_bound(values, constraint.confidence, known, typical) for values in known]
        return cls(
            constraint=constraint,
            goal=constraint.bound(baseline),
            measured=measured,
            typical=typical,
            lows=np.array(lows),
        )

    def held(self, template: int) -> Held:
        """Returns the standing of one of the templates."""
        values = self.measured[template]
        losses = 1 - values[~np.isnan(values)]
        confidence = self.constraint.confidence
        low = float(self.lows[template])
        more = None
        is_missed = confidence > 0.5 and low < self.goal - _ROUNDING
        if is_missed and _is_share(losses):
            needed = images_to_certify(losses, self.goal, confidence, typical=self.typical)
            more = None if needed is None else max(1, needed - losses.size)
        return Held(
            measure=self.constraint.measure,
            goal=self.goal,
            confidence=confidence,
            low=low,
            mean=1 - float(losses.mean()),
            more=more,
        )


def _lower_bound(
    values: FloatArray, confidence: float, all_values: Sequence[FloatArray], typical: float
) -> float:
    """Returns the mean that is assumed of a score: a one-sided bound, or its own if 0.5 is enough.

    Args:
        values: The score of each group of images, shape (n,).
        confidence: The bound's confidence.
        all_values: The same of all templates on these groups.
        typical: The size of a loss where there is one.
    """
    mean = float(values.mean())
    if confidence == 0.5:
        return mean
    if not all(map(_is_share, all_values)):
        error = values.std() / math.sqrt(len(values))
        return float(mean - _quantile(confidence) * error)
    return 1.0 - poisson_bound(1 - values, confidence, typical=typical)


def _is_share(values: FloatArray) -> bool:
    """Tells whether all values are between 0 and 1."""
    return bool(values.min() >= 0 and values.max() <= 1)


def _beats(
    finalists: Sequence[IterationRecord],
    objective: Objective,
    constraints: Sequence[ConstraintTest],
) -> BoolArray:
    """Returns which templates beat which, shape (k, k): [i, j] is whether i beats j.

    It has an answer wherever j has one, no figure lower, and the aim, or what is held with a
    confidence, higher.
    """
    scores = [record.scores for record in finalists if record.scores is not None]
    figures = [[objective.aimed(each) for each in scores]]
    counts = [True]
    for test in constraints:
        figures.append([each.get(test.constraint.measure) for each in scores])
        figures.append(test.lows.tolist())
        counts += [test.constraint.confidence > 0.5] * 2
    shown = np.round(np.transpose(figures), 12)  # what rounding alone parts is equal
    missing = [[row.missing is not None for row in record.rows] for record in finalists]
    lacks = np.array(missing, dtype=float)
    answers_all = lacks @ (1 - lacks.T) == 0
    own = shown[:, np.newaxis]
    no_less = (own >= shown).all(axis=2)
    more = (own > shown)[..., counts].any(axis=2)
    return np.asarray(answers_all & no_less & more)


def _alike(measured: Sequence[Sequence[FloatArray]], templates: int) -> BoolArray:
    """Returns which templates have the same losses on every image, shape (k, k).

    Each is alike only itself if nothing is held.
    """
    if not measured:
        return np.eye(templates, dtype=bool)
    keys = []
    for columns in zip(*measured, strict=True):
        keys.append(b"".join(column.tobytes() for column in columns))
    return np.array([[one == other for other in keys] for one in keys])


def _probability(
    posterior: _Posterior, objective: Objective, baseline: TemplateScores | None
) -> FloatArray:
    """Returns the probability of each template to keep every constraint, shape (k,)."""
    from scipy.special import ndtr

    likely = np.ones(len(posterior.mean))
    for column, held in enumerate(objective.constraints, 1):
        variance = posterior.covariance[:, column, column] + posterior.common[column, column]
        spread = np.sqrt(variance)
        margin = posterior.mean[:, column] - held.bound(baseline) + TOLERANCE
        likely *= ndtr(margin / spread)
    return likely


# -- what the images say ---------------------------------------------------------------------------


def aim_values(record: IterationRecord, objective: Objective) -> FloatArray:
    """Returns the contribution of each group of images to the objective, shape (groups,).

    It is the value and the influence on it. An objective is a smooth function of means, so that
    near them it is linear in them (the delta method). Of a plain mean these are the groups' own
    values.
    """
    scores = record.scores
    assert scores is not None  # only complete iterations go on
    table = record.table
    total = np.full(len(table), objective.aimed(scores))
    for name, mean in scores.means.items():
        if not is_mean(name):
            continue
        above = objective.aimed(scores.changed({name: mean + _STEP}))
        below = objective.aimed(scores.changed({name: mean - _STEP}))
        slope = (above - below) / (2 * _STEP)
        if abs(slope) > 1e-9:
            total = total + slope * (table.column(name) - mean)
    return total


@dataclass(frozen=True, slots=True)
class _Posterior:
    """What is believed of k templates' means of d measures, the objective's aim first.

    Attributes:
        mean: Means, shape (k, d).
        covariance: Covariance of each template's own part, shape (k, d, d).
        common: Covariance of the level, which all share, shape (d, d).
    """

    mean: FloatArray
    covariance: FloatArray
    common: FloatArray

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Returns draws of the truth, shape (draws, k, d)."""
        k, d = self.mean.shape
        own = np.linalg.cholesky(self.covariance)
        normal = rng.standard_normal((_DRAWS, k, d))
        noise = np.einsum("kij,nkj->nki", own, normal)
        drawn: FloatArray = self.mean + noise
        shared = np.linalg.cholesky(self.common)
        level = rng.standard_normal((_DRAWS, d)) @ shared.T
        drawn += level[:, np.newaxis]
        return drawn


def _posterior(records: Sequence[IterationRecord], objective: Objective, images: int) -> _Posterior:
    asked = [replace(record, rows=record.rows[:images]) for record in records]
    columns = [[aim_values(record, objective) for record in asked]]
    for held in objective.constraints:
        columns.append([record.table.column(held.measure) for record in asked])
    observed = np.array(columns).transpose(1, 2, 0)  # (k, n, d)
    k, n, d = observed.shape
    tiny = _TINY * np.eye(d)
    with np.errstate(invalid="ignore"):
        is_answered = ~np.isnan(observed).any(axis=2)
    answered = is_answered[..., np.newaxis]
    answers = max(int(is_answered.sum()), 1)
    counts = np.maximum(is_answered.sum(axis=1), 1)
    filled = np.where(answered, observed, 0.0)
    # Images that no template has an answer for, which would have no mean, count as the average
    # image.
    weight = is_answered.sum(axis=0)[:, np.newaxis]
    level = filled.sum(axis=(0, 1)) / answers
    image = np.where(weight > 0, filled.sum(axis=0) / np.maximum(weight, 1), level)
    left = np.where(answered, filled - image, 0.0)
    raw = left.sum(axis=1) / counts[:, np.newaxis]
    residual = np.where(answered, left - raw[:, np.newaxis], 0.0)
    own = np.einsum("kni,knj->kij", residual, residual)
    pooled = own.sum(axis=0) / max(int(is_answered.sum()) - k, 1)
    prior_images = min(_PRIOR_IMAGES, n)
    counts = counts[:, np.newaxis, np.newaxis]
    noise = (own + prior_images * pooled) / (counts + prior_images) / counts + tiny
    mean, covariance = _shrunk(raw, noise)
    common = np.cov(image.T).reshape(d, d) / n if n > 1 else np.zeros((d, d))
    for column, held in enumerate(objective.constraints, 1):
        # However spotless the record, the images are a sample.
        expected = _typical_loss(asked, held.measure) * max(1 - held.least, 0) / n / 2
        common[column, column] = max(common[column, column], expected)
    return _Posterior(mean=mean + level, covariance=covariance, common=common + tiny)


def _shrunk(raw: FloatArray, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns means and covariances of the templates' own parts.

    They are those under a normal prior that is fitted to the templates (EM).
    """
    k, d = raw.shape
    if k == 1:
        return raw, noise
    centre = raw.mean(axis=0)
    spread = np.cov(raw.T).reshape(d, d) + _TINY * np.eye(d)
    precision = np.linalg.inv(noise)
    mean = raw
    covariance = noise
    for _ in range(_EM_STEPS):
        prior = np.linalg.inv(spread)
        covariance = np.linalg.inv(precision + prior)
        weighted = np.einsum("kij,kj->ki", precision, raw) + prior @ centre
        mean = np.einsum("kij,kj->ki", covariance, weighted)
        centre = mean.mean(axis=0)
        off = mean - centre
        between = np.einsum("ki,kj->ij", off, off) + covariance.sum(axis=0)
        spread = between / k + _TINY * np.eye(d)
    return mean, covariance


def _typical_loss(records: Sequence[IterationRecord], measure: str) -> float:
    """Returns the size that losses have where there are any.

    It is the mean of their squares by their mean. Losses are those of images: however little was
    lost of groups so far, the next may be lost altogether.
    """
    columns = [image_table(record.rows).column(measure) for record in records]
    measured = np.concatenate(columns)
    losses = 1 - measured[~np.isnan(measured)]
    total = float(losses.sum())
    if total <= 0:
        return ASSUMED_LOSS
    return float((losses**2).sum()) / total


def _quantile(confidence: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(confidence))


def _first(record: IterationRecord, images: int) -> IterationRecord:
    """Returns a record as it was when only its first images had been asked about."""
    if len(record.rows) <= images or record.scores is None:
        return record
    kept = (rows for rows in record.before if len(rows) == images)
    first = replace(record, rows=next(kept, record.rows[:images]))
    scores = record.scores.changed(first.table.means())
    return replace(first, scores=replace(scores, n=images))


def _complete(records: Sequence[IterationRecord]) -> list[IterationRecord]:
    return [each for each in records if each.state == "complete" and each.scores is not None]


def _baseline(records: Sequence[IterationRecord]) -> TemplateScores | None:
    return records[0].scores if records and records[0].iteration == 0 else None
