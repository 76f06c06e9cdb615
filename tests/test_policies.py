"""Self-consistency, and control of its risk."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.errors import ModelError, TaxtuneError
from taxtune.fieldguide import TAXONOMY_FILE
from taxtune.metrics import precision_recall, score
from taxtune.metrics.bounds import p_value
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
BIRDS = Taxonomy.from_paths(["bird/duck/mallard", "bird/duck/teal", "bird/gull/kittiwake"])
MALLARD = BIRDS.resolve("mallard")
TEAL = BIRDS.resolve("teal")
DUCK = BIRDS.resolve("duck")
KITTIWAKE = BIRDS.resolve("kittiwake")
ROOT = 0
SILENT = -1
NODES = {label: node for node, label in enumerate(BIRDS.labels)} | {"silent": SILENT}


@pytest.mark.parametrize(
    ("answers", "threshold", "label", "share"),
    [
        ("mallard mallard mallard mallard", 1.0, "mallard", 1.0),
        ("mallard mallard teal duck", 0.5, "mallard", 0.5),
        ("mallard mallard teal duck", 0.7, "duck", 1.0),
        ("mallard teal kittiwake kittiwake", 0.7, "bird", 1.0),
        # Most are ducks, though no one bird has more votes.
        ("mallard teal duck kittiwake kittiwake", 0.3, "duck", 0.6),
        ("mallard kittiwake", 0.5, "mallard", 0.5),  # of two alike the first on the tree
        ("kittiwake mallard", 0.5, "mallard", 0.5),
        ("mallard mallard silent silent", 0.7, "bird", 1.0),
        ("mallard mallard bird", 0.7, "bird", 1.0),
        ("mallard mallard bird", 0.6, "mallard", 2 / 3),
        ("gull kittiwake bird", 0.6, "gull", 2 / 3),
        ("kittiwake " * 7 + "teal " * 3, 0.7, "kittiwake", 0.7),  # 0.7 of 10 is 7
    ],
)
def test_the_place_is_the_deepest_node_that_reaches_the_threshold(answers, threshold, label, share):
    votes = [NODES[answer] for answer in answers.split()]
    policy = SelfConsistency(len(votes), threshold)
    nodes, shares = policy.majority(BIRDS, [votes])
    assert nodes.tolist() == [NODES[label]]
    assert shares == pytest.approx([share])


def answers_on(tree, least, most):
    """Draws the nodes of some answers, of which some are none."""
    return st.lists(st.integers(SILENT, len(tree) - 1), min_size=least, max_size=most)


@given(trees(), st.data())
def test_places_nest_and_hp_never_rises_as_the_threshold_falls(tree, data):
    images = st.lists(answers_on(tree, 5, 5), min_size=1, max_size=6)
    nodes = np.array(data.draw(images))
    n = len(nodes)
    target = np.array([data.draw(st.integers(0, len(tree) - 1)) for _ in nodes])
    before = np.zeros(n, dtype=np.int64)
    loss = np.zeros(n)
    for threshold in (1.0, 0.9, 0.8, 0.6, 0.5, 0.4, 0.2, 0.01):
        now, _ = SelfConsistency(5, threshold).majority(tree, nodes)
        shared = tree.shared(before, now)
        assert (shared == tree.depth[before] + 1).all()
        hp, _ = precision_recall(tree, now, target)
        assert (1 - hp >= loss).all()
        before = now
        loss = 1 - hp


@given(trees(), st.data())
def test_the_order_of_the_answers_does_not_matter_and_shares_are_counts(tree, data):
    answers = data.draw(answers_on(tree, 2, 8))
    paths = weighted_paths(tree, [answers])
    again = weighted_paths(tree, [data.draw(st.permutations(answers))])
    assert (paths.nodes == again.nodes).all()
    assert (paths.shares == again.shares).all()
    counts = Counter()
    for answer in answers:
        node = max(answer, tree.root)
        counts.update(tree.ancestors(node).tolist())
    (nodes,) = paths.nodes.tolist()
    expected = [counts[node] / len(answers) for node in nodes]
    assert paths.shares[0] == pytest.approx(expected)


def test_requests_ask_for_distinct_answers(tmp_path):
    image = tmp_path / "a.png"
    three = SelfConsistency(3).requests(BIRDS, "p", image, "f")
    assert three == [Request("p", image, "f", sample) for sample in (0, 1, 2)]
    one = Single().requests(BIRDS, "p", image, "f")
    assert one == [Request("p", image, "f")]


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
        nodes = arrays["nodes"].astype(np.int64)
        return nodes.T, arrays["targets"].astype(np.int64)


@pytest.fixture(scope="module")
def losses(birds, recorded):
    """1 - hP of the root alone, and at the eight thresholds of 8 answers, shape (9, 400)."""
    nodes, target = recorded
    rows = [np.zeros(len(target))]
    for threshold in SelfConsistency(8).thresholds:
        policy = SelfConsistency(8, threshold)
        placed, _ = policy.majority(birds, nodes[:, :8])
        hp, _ = precision_recall(birds, placed, target)
        rows.append(1 - hp)
    return np.array(rows)


def test_eight_answers_of_the_baseline_are_as_good_as_measured(birds, recorded):
    nodes, target = recorded
    policy = SelfConsistency(8, 0.7)
    placed, _ = policy.majority(birds, nodes[:, :8])
    first = score(birds, placed, target)
    placed, _ = policy.majority(birds, nodes[:, 8:])
    second = score(birds, placed, target)
    hp = (first.hp + second.hp) / 2
    assert hp == pytest.approx(0.986, abs=0.004)
    hr = (first.hr + second.hr) / 2
    assert hr == pytest.approx(0.854, abs=0.012)
    direct = score(birds, nodes[:, 0], target)
    assert direct.hp < min(first.hp, second.hp) - 0.03


def chosen_risks(losses, n, risk, confidence):
    """Returns the mean loss, on all images, of what draws of calibration images chose."""
    rng = np.random.default_rng(0)
    means = losses.mean(axis=1)
    chosen = []
    for _ in range(SPLITS):
        drawn = losses[:, rng.integers(losses.shape[1], size=n)]
        levels = control_risk(drawn, risk, confidence, worst=0.75)
        kept = sum(level.kept for level in levels)
        # Where not even the root is certain to keep the promise, it keeps it none the less: it has
        # no loss.
        chosen.append(max(0, kept - 1))
    return means[chosen]


@pytest.mark.parametrize(("n", "risk"), [(60, 0.02), (200, 0.02), (200, 0.01), (400, 0.04)])
def test_the_risk_is_kept_in_expectation(losses, n, risk):
    risks = chosen_risks(losses, n, risk, None)
    error = risks.std() / math.sqrt(SPLITS)
    assert risks.mean() <= risk + 3 * error
    assert (risks > 0).mean() > 0.5, "the promise must not be kept by answering the root alone"


@pytest.mark.parametrize(
    ("n", "risk", "confidence"), [(200, 0.02, 0.9), (400, 0.02, 0.9), (400, 0.04, 0.8)]
)
def test_the_risk_is_kept_with_the_confidence(losses, n, risk, confidence):
    risks = chosen_risks(losses, n, risk, confidence)
    level = 1 - confidence
    deviation = math.sqrt(level * confidence / SPLITS)
    assert (risks > risk).mean() <= level + 3 * deviation
    assert (risks > 0).mean() > 0.5


def test_without_control_the_risk_is_not_kept(losses):
    """The tests above can fail: a threshold taken for its mean breaks the promise."""
    rng = np.random.default_rng(0)
    means = losses.mean(axis=1)
    naive = []
    for _ in range(SPLITS):
        drawn = losses[:, rng.integers(losses.shape[1], size=200)]
        kept = (drawn.mean(axis=1) <= 0.02).sum()
        naive.append(kept - 1)
    assert (means[naive] > 0.02).mean() > 0.2


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
    for level, row in zip(confident, losses, strict=True):
        assert level.kept == (p_value(row, 0.05) <= 0.1)
    assert confident[0].bound < confident[2].bound


@pytest.mark.parametrize(
    ("risk", "confidence", "worst"), [(0.02, None, 1.0), (0.02, 0.9, 0.75), (0.1, 0.99, 1.0)]
)
def test_so_many_images_are_needed_at_best(risk, confidence, worst):
    n = images_needed(risk, confidence, worst=worst)
    losses = np.zeros((1, n))
    (enough,) = control_risk(losses, risk, confidence, worst=worst)
    assert enough.kept
    (few,) = control_risk(losses[:, 1:], risk, confidence, worst=worst)
    assert not few.kept


def test_a_million_needed_images_are_not_counted_to_the_end():
    assert images_needed(1e-12, 0.9) > 10**6


def test_the_worst_loss_is_that_of_the_deepest_wrong_node(birds):
    assert worst_loss(birds) == 0.75
    assert worst_loss(Taxonomy(["root"], [-1])) == 0.5


@given(trees(), st.data())
def test_weights_that_are_counts_are_as_many_answers(tree, data):
    nodes = data.draw(answers_on(tree, 1, 5))
    counts = [data.draw(st.integers(1, 4)) for _ in nodes]
    weighted = weighted_paths(tree, nodes, [counts])
    counted = weighted_paths(tree, [np.repeat(nodes, counts)])
    for one, other in zip(weighted, counted, strict=True):
        assert (one == other).all()


@given(trees(), st.data())
def test_an_inner_name_gives_its_probability_to_the_names_below(tree, data):
    nodes = np.array([SILENT, *range(len(tree))])
    weight = st.sampled_from([0.0, 0.25, 1.0, 3.0])
    weights = np.array([data.draw(weight) for _ in nodes])
    (given,) = spread(tree, nodes, weights[np.newaxis])
    assert given.sum() == pytest.approx(weights.sum())
    assert given[0] == weights[0]
    given = given[1:]
    weights = weights[1:]
    for node in range(len(tree)):
        below = tree.descendants(node)
        total = weights[below].sum()
        *above, _ = tree.ancestors(node)
        if above and not weights[above].any():
            # Nothing comes from above.
            assert given[below].sum() == pytest.approx(total)
        if total > weights[node]:
            assert given[node] == 0


def test_a_share_next_to_one_is_told_from_one():
    weights = np.array([[1.0, 1e-12, 0.0], [1.0, 1e-20, 1e-20]])
    paths = weighted_paths(BIRDS, [MALLARD, TEAL, KITTIWAKE], weights)
    assert paths.depths(1 - 1e-11).tolist() == [2, 2]
    assert paths.depths(1 - 1e-13).tolist() == [1, 2]
    assert paths.outside[1, 1:].tolist() == [1e-20, 2e-20]


def test_outcomes_are_the_nodes_that_they_may_stand_for():
    paths = ["bird/duck/mallard", "bird/duck/mandarin duck", "bird/gull/herring gull"]
    tree = Taxonomy.from_paths(paths)
    named = NamedNodes(tree, "all")
    assert named.candidates.names == ("mallard", "mandarin duck", "herring gull")
    assert named.candidates.broader == ("duck", "gull", "bird")
    duck = tree.resolve("duck")
    assert named.node("mallard") == 2
    assert named.node("Ma…") == duck
    assert named.node("d…") == duck
    assert named.node("h…") == tree.resolve("herring gull")
    assert named.node("…") == SILENT
    assert named.node("x…") == SILENT
    quarter = math.log(0.25)
    nodes, weights = named.weigh([{"mallard": math.log(0.5), "duck": quarter, "…": quarter}])
    weight_of = dict(zip(nodes, weights[0], strict=True))
    assert weight_of == {SILENT: 0.25, 2: 0.75, duck: 0.0}
    species = NamedNodes(tree, "species").candidates.weighed
    assert species == named.candidates.names


# -- placing ---------------------------------------------------------------------------------------


def mapped(*images, outcomes=None):
    """Returns replies about images with their placements; None is a refusal, "?" a doubtful answer."""
    mapper = Unsure(BIRDS)
    pairs = []
    nodes = np.full((len(images), len(images[0])), SILENT)
    for i, texts in enumerate(images):
        own = []
        for j, text in enumerate(texts):
            if text is not None:
                placement = mapper.place_one(text)
                own.append((Answer(text, outcomes=outcomes), placement))
                nodes[i, j] = ROOT if placement.off_tree else placement.node
        pairs.append(own)
    return MappedReplies(BIRDS, pairs, nodes)


def lifted(replies, node, above):
    """Returns replies that may name a node no more, only one above it."""
    allowed = np.arange(len(BIRDS))
    allowed[node] = above
    everyone = list(range(len(replies.answers)))
    return replace(replies, groups=[(everyone, allowed)])


def test_a_single_answer_is_placed_as_the_mapper_says():
    replies = mapped(["A mallard."], ["A teal?"], ["A bicycle."], ["I cannot tell."])
    placed = Single().place(replies)
    assert [one.node for one in placed] == [MALLARD, TEAL, ROOT, ROOT]
    assert [one.doubtful for one in placed] == [False, True, False, False]
    assert [one.off_tree for one in placed] == [False, False, True, False]
    assert [one.abstained for one in placed] == [False, False, False, True]


def test_a_single_answer_goes_up_to_what_is_allowed():
    replies = mapped(["A mallard."])
    (placed,) = Single().place(lifted(replies, MALLARD, DUCK))
    assert placed.node == DUCK
    assert placed.masked == "bird/duck/mallard"
    assert not placed.abstained
    (placed,) = Single().place(lifted(replies, MALLARD, ROOT))
    assert placed.node == ROOT
    assert placed.abstained


def test_a_vote_counts_what_was_said_and_hangs_on_doubtful_answers():
    replies = mapped(["A mallard.", "A mallard?", None], ["A teal.", "A teal.", "A mallard?"])
    one, other = SelfConsistency(3, 0.6).place(replies)
    assert one.answer == "A mallard. (1 of 3); A mallard? (1 of 3)"
    assert one.votes == (MALLARD, MALLARD, SILENT)
    assert one.node == MALLARD
    assert one.confidence == 2 / 3
    assert one.doubtful
    assert other.node == TEAL
    assert not other.doubtful


def test_the_answers_of_a_vote_go_up_to_what_is_allowed():
    replies = lifted(mapped(["A teal.", "A teal."]), TEAL, DUCK)
    (placed,) = SelfConsistency(2, 1.0).place(replies)
    assert placed.node == DUCK
    assert placed.masked == "bird/duck/teal"
    assert placed.votes == (DUCK, DUCK)


@pytest.fixture
def weighed():
    """Replies about an image that give a mallard 0.6, a teal 0.3 and what has no name 0.1."""
    outcomes = {"mallard": math.log(0.6), "teal": math.log(0.3), OTHERWISE: math.log(0.1)}
    return mapped(["A mallard."], outcomes=outcomes)


def test_a_posterior_sums_the_names(weighed):
    (bold,) = Posterior(0.6).place(weighed)
    (careful,) = Posterior(0.9).place(weighed)
    assert bold.node == MALLARD
    assert careful.node == DUCK
    assert careful.path == (ROOT, DUCK, MALLARD)
    assert careful.probabilities == pytest.approx((1.0, 0.9, 0.6))
    assert careful.named == pytest.approx(0.9)
    with pytest.raises(ModelError, match="no probabilities"):
        Posterior(0.9).place(mapped(["A mallard."]))


def test_a_posterior_leaves_an_open_threshold_to_others(weighed):
    with pytest.raises(ValueError, match="open"):
        Posterior().place(weighed)
    at_the_root = Posterior().fitted(lambda *_: np.zeros(1, dtype=np.int64))
    (placed,) = at_the_root.place(weighed)
    assert placed.node == ROOT
    assert placed.abstained
