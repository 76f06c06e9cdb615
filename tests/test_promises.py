"""What `calibrate` promises of labels and of groups of images, and that it is kept."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from scipy.stats import binomtest

from taxtune.errors import TaxtuneError
from taxtune.metrics.groups import Groups
from taxtune.metrics.hierarchical import score
from taxtune.policies import THRESHOLDS, RiskGuarantee, threshold_levels, weighted_paths
from taxtune.policies.risk import control_labels
from taxtune.taxonomy import Taxonomy
from tests.classifier.test_scores import TREE, scores_of, simulated

DRAWS = 400
LEVELS = np.linspace(0.99, 0, 100)[:, np.newaxis]
asked = RiskGuarantee.asked
#: At most one draw in ten breaks a promise, and three deviations of that over all draws.
BROKEN = 0.1 + 3 * math.sqrt(0.1 * 0.9 / DRAWS)


def drawn(rng, n, error, size=1):
    """Returns wrong and given labels by thresholds, shape (100, n), of groups of images that are alike.

    Args:
        rng: The random numbers.
        n: How many images.
        error: Of confidences the probability that a label is wrong.
        size: Images of a group.
    """
    groups = n // size
    sure = np.repeat(rng.uniform(size=groups), size)
    luck = np.repeat(rng.uniform(size=groups), size)
    given = sure >= LEVELS
    wrong = given & (luck < error(sure))
    return wrong.astype(float), given.astype(float)


def chosen(levels):
    kept = [i for i, level in enumerate(levels) if level.kept]
    return kept[-1] if kept else None


def controlled(rows, single=True):
    """The levels of a promise that at most 5 % of labels are wrong, with 90 % confidence."""
    wrong, given = rows
    return control_labels(wrong, given, 0.05, 0.9, single=single)


def hill(sure):
    """The surest are no better than others: what is wrong among labels falls, and rises again."""
    return np.where(sure > 0.97, 0.15, 0.3 * (1 - sure) ** 2)


def always(sure):
    return np.full(sure.shape, 0.0501)


def share_wrong(error):
    """Returns the share of wrong labels at each threshold, of very many images."""
    sure = np.linspace(0, 1, 20_001)[1:]
    errors = error(sure)
    return [errors[sure >= level].mean() for level in LEVELS[:, 0]]


@pytest.mark.parametrize(("error", "any_labels"), [(hill, 0.3), (always, 0.0)])
def test_a_promise_about_labels_is_kept_as_often_as_stated(error, any_labels):
    """Also where not a single threshold keeps it, so that whatever is chosen breaks it."""
    rng = np.random.default_rng(0)
    truth = share_wrong(error)
    broken = labelled = 0
    for _ in range(DRAWS):
        rows = drawn(rng, 500, error)
        last = chosen(controlled(rows))
        if last is not None:
            broken += truth[last] > 0.05
            labelled += 1
    assert broken / DRAWS <= BROKEN
    assert labelled / DRAWS >= any_labels


def test_the_best_of_many_bounds_does_not_keep_it():
    """The test above can fail: thresholds that are tried until one is good break the promise."""
    rng = np.random.default_rng(0)
    broken = 0
    for _ in range(DRAWS):
        rows = drawn(rng, 500, always)
        bounds = [level.bound for level in controlled(rows)]
        broken += min(bounds) <= 0.05
    assert broken / DRAWS > 0.2


@pytest.mark.parametrize(("counted_once", "least", "most"), [(True, 0.0, BROKEN), (False, 0.3, 1)])
def test_bursts_keep_it_where_each_counts_once(counted_once, least, most):
    rng = np.random.default_rng(0)
    numbers = np.repeat(np.arange(100), 10)
    groups = Groups(numbers)
    broken = 0
    for _ in range(100):
        rows = drawn(rng, 1000, always, size=10)
        if counted_once:
            rows = [np.array([groups.mean(row) for row in part]) for part in rows]
        levels = controlled(rows, single=not counted_once)
        broken += chosen(levels) is not None
    assert least <= broken / 100 <= most


def test_bursts_that_are_right_are_certified():
    """A group has a part of the images with labels: what is wrong is a share of these."""
    rng = np.random.default_rng(0)
    given = rng.uniform(0.2, 1, size=(1, 400))
    is_wrong = rng.uniform(size=(1, 400)) < 0.03
    wrong = given * is_wrong
    (level,) = control_labels(wrong, given, 0.1, 0.9, single=False)
    assert level.kept
    assert level.loss < level.bound < 0.1


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=80), st.data())
def test_the_bound_of_single_images_is_the_exact_one(images, data):
    confidence = data.draw(st.sampled_from([0.8, 0.9, 0.95]))
    given, luck = np.array(images, dtype=float).T
    wrong = given * luck
    rows = wrong[np.newaxis], given[np.newaxis]
    (level,) = control_labels(*rows, 0.1, confidence, single=True)
    rest = len(images) // 5
    n = int(given[rest:].sum())
    bound = 1.0
    if n:
        failed = int(wrong[rest:].sum())
        test = binomtest(failed, n, alternative="less")
        bound = test.proportion_ci(confidence).high
    assert level.bound == pytest.approx(bound)
    assert level.kept == (bound <= 0.1)


@pytest.mark.parametrize(("risk", "confidence"), [(0.05, 0.9), (0.02, 0.95), (0.3, 0.8)])
def test_so_many_labels_are_needed_at_best(risk, confidence):
    needed = asked(risk, confidence, "labels").fewest(TREE)
    for n, kept in ((needed, True), (needed - 1, False)):
        rows = np.zeros((1, n)), np.ones((1, n))
        (level,) = control_labels(*rows, risk, confidence, single=True)
        assert level.kept == kept


# -- thresholds ------------------------------------------------------------------------------------


def judged(names, promise, rows=None):
    weights, target = simulated(len(names), 4)
    if rows is None:
        rows = np.arange(len(names))
    paths = paths_of(weights[rows])
    groups = Groups.of([names[row] for row in rows])
    return threshold_levels(TREE, paths, target[rows], promise, groups, THRESHOLDS[200:])


def paths_of(weights):
    scores = scores_of(weights)
    return weighted_paths(TREE, scores.nodes, scores.weights)


@pytest.mark.parametrize("promise", [asked(0.1, 0.9), asked(0.1), asked(0.2, 0.9, "labels")])
def test_a_group_that_is_repeated_inside_itself_changes_nothing(promise):
    names = [f"burst {i // 3}" for i in range(300)]
    once = judged(names, promise)
    rows = np.repeat(np.arange(300), 2)
    twice = judged(names, promise, rows)
    assert any(level.kept and level.threshold for level in once)
    for one, two in zip(once, twice, strict=True):
        assert two.kept == one.kept
        assert two.bound == pytest.approx(one.bound)
        assert two.labels_bound == pytest.approx(one.labels_bound)
        assert [two.hp, two.hr] == pytest.approx([one.hp, one.hr])
        assert two.image_hp == pytest.approx(one.image_hp)
        assert two.outcomes.wrong == 2 * one.outcomes.wrong


@pytest.mark.parametrize("promise", [asked(0.1, 0.9), asked(0.2, 0.9, "labels")])
def test_groups_of_one_image_change_nothing(promise):
    alone = judged([""] * 300, promise)
    names = list(map(str, range(300)))
    assert judged(names, promise) == alone
    for level in alone:
        assert (level.image_hp, level.image_hr) == (level.hp, level.hr)


def test_a_group_counts_by_its_mean():
    names = ["large"] * 150 + [""] * 150
    level = judged(names, asked(0.5))[-1]
    halves = []
    weights, target = simulated(300, 4)
    paths = paths_of(weights)
    depths = paths.depths(level.threshold)
    nodes, _ = paths.at(depths)
    for half in (slice(0, 150), slice(150, 300)):
        halves.append(score(TREE, nodes[half], target[half]).hp)
    assert level.hp == pytest.approx((halves[0] + 150 * halves[1]) / 151)
    assert level.image_hp == pytest.approx((halves[0] + halves[1]) / 2)


RANKED = Taxonomy(
    ["life", "bird", "duck", "mallard", "teal"],
    [-1, 0, 1, 2, 2],
    ranks=["life", "class", "family", "species", "species"],
)


@pytest.mark.parametrize(
    ("rank", "labels"), [(None, 4), ("class", 4), ("family", 3), ("Species", 2), ("3", 2), ("1", 4)]
)
def test_labels_are_counted_from_a_rank_on(rank, labels):
    nodes = np.array([[0], [1], [2], [3], [4]])
    paths = weighted_paths(RANKED, nodes)
    promise = asked(0.5, 0.5, "labels", rank)
    groups = Groups(np.arange(5))
    levels = threshold_levels(RANKED, paths, [3] * 5, promise, groups, [1.0])
    assert levels[1].outcomes.labels == 4
    assert levels[1].labels.labels == labels
    assert levels[1].labels.wrong == 1
    assert levels[0].labels.labels == 0


def test_the_most_cautious_thresholds_need_not_show_anything():
    """No image reaches the first, and the next have a few labels, which prove nothing."""
    levels = judged([""] * 300, asked(0.2, 0.9, "labels"))
    assert not levels[1].kept
    last = [level for level in levels if level.kept][-1]
    assert last.hr > 0.5
    assert last.labels_bound <= 0.2


# -- words -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("promise", "said"),
    [
        (RiskGuarantee(0.02, None, 9), "the mean of 1 - hP is at most 0.02 in expectation"),
        (
            RiskGuarantee(0.02, 0.9, 9, unit="burst"),
            "the mean of 1 - hP per burst is at most 0.02 with 90 % confidence",
        ),
        (
            RiskGuarantee(0.05, 0.9, 9, "labels"),
            "at most 5 % of the labels given are wrong with 90 % confidence",
        ),
        (
            RiskGuarantee(0.05, 0.9, 9, "labels", "species", "patient"),
            "at most 5 % of the labels given (species or deeper) are wrong with 90 % confidence, each "
            "patient counted once",
        ),
        (
            RiskGuarantee(0.05, 0.9, 9, "labels", "2"),
            "at most 5 % of the labels given (depth 2 or deeper) are wrong with 90 % confidence",
        ),
    ],
)
def test_the_promise_is_said_in_words(promise, said):
    assert str(promise) == said


def test_a_classifier_keeps_its_promise_and_those_of_earlier_versions_are_read():
    saved = TypeAdapter(RiskGuarantee)
    promise = RiskGuarantee(0.05, 0.9, 9, "labels", "species", "patient")
    assert saved.validate_json(saved.dump_json(promise)) == promise
    old = {"risk": 0.02, "confidence_level": None, "images": 9}
    assert saved.validate_python(old) == RiskGuarantee(0.02, None, 9)


def test_labels_have_a_confidence_and_ranks_are_theirs():
    assert asked(0.05, promise="labels").confidence_level == 0.9
    assert asked(0.05).confidence_level is None
    with pytest.raises(TaxtuneError, match="A rank is for a promise about labels"):
        asked(0.05, rank="species")
    with pytest.raises(TaxtuneError, match="The tree has no such rank"):
        asked(0.05, promise="labels", rank="tribe").is_label(RANKED)


def test_the_root_is_no_label():
    """It is never wrong: counted as one, it would make any share of wrong labels small."""
    is_label = asked(0.1, promise="labels").is_label(TREE)
    assert not is_label[TREE.root]
    assert is_label.sum() == len(TREE) - 1
