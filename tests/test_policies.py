"""Self-consistency, and control of its risk."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from taxtune.errors import ModelError, TaxtuneError
from taxtune.fieldguide import TAXONOMY_FILE
from taxtune.metrics import p_value, precision_recall, score
from taxtune.models import Answer, Request
from taxtune.models.base import OTHERWISE
from taxtune.policies import (
    MappedReplies,
    NamedNodes,
    Posterior,
    SelfConsistency,
    Single,
    control_risk,
    images_needed,
    spread,
    weighted_paths,
    worst_loss,
)
from taxtune.taxonomy import Taxonomy, read_taxonomy
from tests.trees import trees
from tests.unsure import Unsure

VOTES = Path(__file__).parents[1] / "benchmarks" / "landscapes" / "votes-shipped.npz"
SPLITS = 300
BIRDS = Taxonomy.from_paths(["bird/duck/mallard", "bird/duck/teal", "bird/gull/herring gull"])
MALLARD = BIRDS.resolve("mallard")
TEAL = BIRDS.resolve("teal")
DUCK = BIRDS.resolve("duck")
GULL = BIRDS.resolve("gull")
HERRING = BIRDS.resolve("herring gull")
ROOT = 0
SILENT = -1
Nodes = NDArray[np.int64]
Recorded = tuple[Nodes, Nodes]
Losses = NDArray[np.float64]


@pytest.mark.parametrize(
    ("answers", "threshold", "node", "held"),
    [
        ([MALLARD] * 4, 1.0, MALLARD, 1.0),
        ([MALLARD, MALLARD, TEAL, DUCK], 0.5, MALLARD, 0.5),
        ([MALLARD, MALLARD, TEAL, DUCK], 0.7, DUCK, 1.0),
        ([MALLARD, TEAL, HERRING, HERRING], 0.7, ROOT, 1.0),
        # Most are ducks, though no one bird has more votes.
        ([MALLARD, TEAL, DUCK, HERRING, HERRING], 0.3, DUCK, 0.6),
        ([MALLARD, HERRING], 0.5, MALLARD, 0.5),  # of two alike the first on the tree
        ([HERRING, MALLARD], 0.5, MALLARD, 0.5),
        ([MALLARD, MALLARD, SILENT, SILENT], 0.7, ROOT, 1.0),
        ([MALLARD, MALLARD, ROOT], 0.7, ROOT, 1.0),
        ([MALLARD, MALLARD, ROOT], 0.6, MALLARD, 2 / 3),
        ([GULL, HERRING, ROOT], 0.6, GULL, 2 / 3),
        ([HERRING] * 7 + [TEAL] * 3, 0.7, HERRING, 0.7),  # 0.7 of 10 is 7
    ],
)
def test_the_place_is_the_deepest_node_that_reaches_the_threshold(answers, threshold, node, held):
    policy = SelfConsistency(len(answers), threshold)
    nodes, shares = policy.majority(BIRDS, [answers])
    assert nodes.tolist() == [node]
    assert shares == pytest.approx([held])


@given(trees(), st.data())
def test_places_nest_and_hp_never_rises_as_the_threshold_falls(tree, data):
    answers = st.lists(st.integers(-1, len(tree) - 1), min_size=5, max_size=5)
    nodes = np.array(data.draw(st.lists(answers, min_size=1, max_size=6)))
    target = np.array([data.draw(st.integers(0, len(tree) - 1)) for _ in nodes])
    before = np.zeros(len(nodes), dtype=np.int64)
    loss = np.zeros(len(nodes))
    for threshold in (1.0, 0.9, 0.8, 0.6, 0.5, 0.4, 0.2, 0.01):
        now = SelfConsistency(5, threshold).majority(tree, nodes)[0]
        assert (tree.shared(before, now) == tree.depth[before] + 1).all()
        worse = 1 - precision_recall(tree, now, target)[0]
        assert (worse >= loss).all()
        before, loss = now, worse


@given(trees(), st.data())
def test_the_order_of_the_answers_does_not_matter_and_shares_are_counts(tree, data):
    answers = data.draw(st.lists(st.integers(-1, len(tree) - 1), min_size=2, max_size=8))
    paths = weighted_paths(tree, [answers])
    again = weighted_paths(tree, [data.draw(st.permutations(answers))])
    assert (paths.nodes == again.nodes).all()
    assert (paths.shares == again.shares).all()
    counts = dict.fromkeys(range(len(tree)), 0)
    for answer in answers:
        for node in tree.ancestors(max(answer, tree.root)).tolist():
            counts[node] += 1
    for node, share in zip(paths.nodes[0].tolist(), paths.shares[0], strict=True):
        assert share == pytest.approx(counts.get(node, 0) / len(answers))


def test_requests_ask_for_distinct_answers(tmp_path):
    image = tmp_path / "a.png"
    assert SelfConsistency(3).requests(BIRDS, "p", image, "f") == [
        Request("p", image, "f", sample) for sample in (0, 1, 2)
    ]
    assert Single().requests(BIRDS, "p", image, "f") == [Request("p", image, "f")]


@pytest.mark.parametrize(
    ("samples", "threshold"), [(0, 0.7), (1, 0.7), (101, 0.7), (8, 0.0), (8, 1.1)]
)
def test_settings_out_of_range_are_refused(samples, threshold):
    with pytest.raises(TaxtuneError):
        SelfConsistency(samples, threshold)


@pytest.fixture(scope="module")
def birds():
    return read_taxonomy(TAXONOMY_FILE, names=False)


@pytest.fixture(scope="module")
def recorded():
    """Nodes, shape (400, 16), and targets of the field guide's baseline at temperature 1."""
    with np.load(VOTES) as arrays:
        return arrays["nodes"].T.astype(np.int64), arrays["targets"].astype(np.int64)


@pytest.fixture(scope="module")
def losses(birds, recorded):
    """1 - hP of the root alone, and at the eight thresholds of 8 answers, shape (9, 400)."""
    nodes, target = recorded
    rows = [np.zeros(len(target))]
    for threshold in SelfConsistency(8).thresholds:
        placed, _ = SelfConsistency(8, threshold).majority(birds, nodes[:, :8])
        rows.append(1 - precision_recall(birds, placed, target)[0])
    return np.array(rows)


def test_eight_answers_of_the_baseline_are_as_good_as_measured(birds, recorded):
    nodes, target = recorded
    scores = []
    for answers in (nodes[:, :8], nodes[:, 8:]):
        placed, _ = SelfConsistency(8, 0.7).majority(birds, answers)
        scores.append(score(birds, placed, target))
    first, second = scores
    assert (first.hp + second.hp) / 2 == pytest.approx(0.986, abs=0.004)
    assert (first.hr + second.hr) / 2 == pytest.approx(0.854, abs=0.012)
    direct = score(birds, nodes[:, 0], target)
    assert direct.hp < min(first.hp, second.hp) - 0.03


def chosen_risks(losses, n, risk, confidence):
    """Returns the mean loss, on all images, of what draws of calibration images chose."""
    rng = np.random.default_rng(0)
    means = losses.mean(axis=1)
    found = []
    for _ in range(SPLITS):
        drawn = losses[:, rng.integers(losses.shape[1], size=n)]
        levels = control_risk(drawn, risk, confidence, worst=0.75)
        # Where not even the root is certain to keep the promise, it keeps it none the less: it has
        # no loss.
        found.append(means[max(0, sum(level.kept for level in levels) - 1)])
    return np.array(found)


@pytest.mark.parametrize(("n", "risk"), [(60, 0.02), (200, 0.02), (200, 0.01), (400, 0.04)])
def test_the_risk_is_kept_in_expectation(losses, n, risk):
    risks = chosen_risks(losses, n, risk, None)
    assert risks.mean() <= risk + 3 * risks.std() / math.sqrt(SPLITS)
    assert (risks > 0).mean() > 0.5, "the promise must not be kept by answering the root alone"


@pytest.mark.parametrize(
    ("n", "risk", "confidence"), [(200, 0.02, 0.9), (400, 0.02, 0.9), (400, 0.04, 0.8)]
)
def test_the_risk_is_kept_with_the_confidence(losses, n, risk, confidence):
    risks = chosen_risks(losses, n, risk, confidence)
    level = 1 - confidence
    assert (risks > risk).mean() <= level + 3 * math.sqrt(level * confidence / SPLITS)
    assert (risks > 0).mean() > 0.5


def test_without_control_the_risk_is_not_kept(losses):
    """The tests above can fail: a threshold taken for its mean breaks the promise."""
    rng = np.random.default_rng(0)
    means = losses.mean(axis=1)
    naive = []
    for _ in range(SPLITS):
        drawn = losses[:, rng.integers(losses.shape[1], size=200)]
        naive.append(means[(drawn.mean(axis=1) <= 0.02).sum() - 1])
    assert (np.array(naive) > 0.02).mean() > 0.2


def test_levels_stop_at_the_first_that_is_not_kept():
    losses = np.zeros((4, 100))
    losses[2, :20] = 0.5
    losses[3, :20] = 0.6
    in_expectation = control_risk(losses, 0.02)
    assert [level.kept for level in in_expectation] == [True, True, False, False]
    assert in_expectation[0].bound == pytest.approx(1 / 101)
    assert in_expectation[2].bound == pytest.approx(11 / 101)
    assert in_expectation[2].loss == pytest.approx(0.1)
    confident = control_risk(losses, 0.05, 0.9)
    assert [level.kept for level in confident] == [p_value(row, 0.05) <= 0.1 for row in losses]
    assert confident[0].bound < confident[2].bound


@pytest.mark.parametrize(
    ("risk", "confidence", "worst"), [(0.02, None, 1.0), (0.02, 0.9, 0.75), (0.1, 0.99, 1.0)]
)
def test_so_many_images_are_needed_at_best(risk, confidence, worst):
    n = images_needed(risk, confidence, worst=worst)
    (enough,) = control_risk(np.zeros((1, n)), risk, confidence, worst=worst)
    (few,) = control_risk(np.zeros((1, n - 1)), risk, confidence, worst=worst)
    assert enough.kept
    assert not few.kept
    assert images_needed(1e-12, 0.9) > 10**6  # and is not counted to the end


def test_the_worst_loss_is_that_of_the_deepest_wrong_node(birds):
    assert worst_loss(birds) == 0.75
    assert worst_loss(Taxonomy(["root"], [-1])) == 0.5


@given(trees(), st.data())
def test_weights_that_are_counts_are_as_many_answers(tree, data):
    nodes = np.array(data.draw(st.lists(st.integers(-1, len(tree) - 1), min_size=1, max_size=5)))
    counts = np.array([data.draw(st.integers(1, 4)) for _ in nodes])
    weighted = weighted_paths(tree, nodes, counts[np.newaxis])
    counted = weighted_paths(tree, [np.repeat(nodes, counts)])
    for one, other in zip(weighted, counted, strict=True):
        assert (one == other).all()


@given(trees(), st.data())
def test_an_inner_name_gives_its_probability_to_the_names_below(tree, data):
    nodes = np.array([-1, *range(len(tree))])
    weights = np.array([[data.draw(st.sampled_from([0.0, 0.25, 1.0, 3.0])) for _ in nodes]])
    given = spread(tree, nodes, weights)
    assert given.sum() == pytest.approx(weights.sum())
    assert given[0, 0] == weights[0, 0]
    given = given[0, 1:]
    weights = weights[0, 1:]
    for node in range(len(tree)):
        below = tree.descendants(node)
        if tree.depth[node] and not weights[tree.ancestors(node)[:-1]].any():
            # Nothing comes from above.
            assert given[below].sum() == pytest.approx(weights[below].sum())
        if weights[below].sum() > weights[node]:
            assert given[node] == 0


def test_a_share_next_to_one_is_told_from_one():
    weights = np.array([[1.0, 1e-12, 0.0], [1.0, 1e-20, 1e-20]])
    paths = weighted_paths(BIRDS, [MALLARD, TEAL, HERRING], weights)
    assert paths.depths(1 - 1e-11).tolist() == [2, 2]
    assert paths.depths(1 - 1e-13).tolist() == [1, 2]
    assert paths.outside[1, 1:].tolist() == [1e-20, 2e-20]


def test_outcomes_are_the_nodes_that_they_may_stand_for():
    tree = Taxonomy.from_paths(
        ["bird/duck/mallard", "bird/duck/mandarin duck", "bird/gull/herring gull"]
    )
    named = NamedNodes(tree, "all")
    assert named.candidates.names == ("mallard", "mandarin duck", "herring gull")
    assert named.candidates.broader == ("duck", "gull", "bird")
    duck = tree.resolve("duck")
    assert named.node("mallard") == 2
    assert named.node("Ma…") == named.node("d…") == duck
    assert named.node("h…") == tree.resolve("herring gull")
    assert named.node("…") == named.node("x…") == -1
    outcomes = {"mallard": math.log(0.5), "duck": math.log(0.25), "…": math.log(0.25)}
    nodes, weights = named.weigh([outcomes])
    weight_of = dict(zip(nodes.tolist(), weights[0].tolist(), strict=True))
    assert weight_of == {-1: 0.25, 2: 0.75, duck: 0.0}
    species = NamedNodes(tree, "species").candidates.weighed
    assert species == named.candidates.names


# -- placing ---------------------------------------------------------------------------------------


def mapped(*images, lift=None, **outcomes):
    """Returns replies about images with their placements; None is a refusal, "?" a doubtful answer."""
    mapper = Unsure(BIRDS)
    logs = {name: math.log(value) for name, value in outcomes.items()}
    pairs = []
    nodes = np.full((len(images), len(images[0])), SILENT)
    for i, texts in enumerate(images):
        own = []
        for j, text in enumerate(texts):
            if text is not None:
                placement = mapper.place_one(text)
                own.append((Answer(text, outcomes=logs or None), placement))
                nodes[i, j] = ROOT if placement.off_tree else placement.node
        pairs.append(own)
    groups = []
    if lift:
        allowed = np.arange(len(BIRDS))
        allowed[[*lift]] = [*lift.values()]
        groups.append((list(range(len(images))), allowed))
    return MappedReplies(BIRDS, pairs, nodes, groups=groups)


def test_a_single_answer_is_placed_as_the_mapper_says():
    replies = mapped(["A mallard."], ["A teal?"], ["A bicycle."], ["I cannot tell."])
    placed = Single().place(replies)
    assert [one.node for one in placed] == [MALLARD, TEAL, ROOT, ROOT]
    assert [one.doubtful for one in placed] == [False, True, False, False]
    assert [one.off_tree for one in placed] == [False, False, True, False]
    assert [one.abstained for one in placed] == [False, False, False, True]
    (lifted,) = Single().place(mapped(["A mallard."], lift={MALLARD: DUCK}))
    assert (lifted.node, lifted.masked, lifted.abstained) == (DUCK, "bird/duck/mallard", False)
    (lifted,) = Single().place(mapped(["A mallard."], lift={MALLARD: ROOT}))
    assert (lifted.node, lifted.abstained) == (ROOT, True)


def test_a_vote_counts_what_was_said_and_hangs_on_doubtful_answers():
    replies = mapped(["A mallard.", "A mallard?", None], ["A teal.", "A teal.", "A mallard?"])
    one, other = SelfConsistency(3, 0.6).place(replies)
    assert one.answer == "A mallard. (1 of 3); A mallard? (1 of 3)"
    assert one.votes == (MALLARD, MALLARD, SILENT)
    assert (one.node, one.confidence, one.doubtful) == (MALLARD, 2 / 3, True)
    assert (other.node, other.doubtful) == (TEAL, False)
    (lifted,) = SelfConsistency(2, 1.0).place(mapped(["A teal.", "A teal."], lift={TEAL: DUCK}))
    assert (lifted.node, lifted.masked, lifted.votes) == (DUCK, "bird/duck/teal", (DUCK, DUCK))


def test_a_posterior_sums_the_names_and_leaves_an_open_threshold_to_others():
    replies = mapped(["A mallard."], mallard=0.6, teal=0.3, **{OTHERWISE: 0.1})
    (bold,) = Posterior(0.6).place(replies)
    (careful,) = Posterior(0.9).place(replies)
    assert (bold.node, careful.node) == (MALLARD, DUCK)
    assert careful.path == (ROOT, DUCK, MALLARD)
    assert careful.probabilities == pytest.approx((1.0, 0.9, 0.6))
    assert careful.named == pytest.approx(0.9)
    with pytest.raises(ValueError, match="open"):
        Posterior().place(replies)
    at_the_root = Posterior().fitted(lambda *_: np.zeros(1, dtype=np.int64))
    (rooted,) = at_the_root.place(replies)
    assert (rooted.node, rooted.abstained) == (ROOT, True)
    with pytest.raises(ModelError, match="no probabilities"):
        Posterior(0.9).place(mapped(["A mallard."]))
