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
MALLARD, TEAL, DUCK, GULL, HERRING = (
    BIRDS.resolve(name) for name in ("mallard", "teal", "duck", "gull", "herring gull")
)
ROOT, SILENT = 0, -1


def placed(answers: list[int], threshold: float) -> tuple[int, float]:
    (node,), (held,) = SelfConsistency(len(answers), threshold).majority(BIRDS, np.array([answers]))
    return int(node), float(held)


@pytest.mark.parametrize(
    ("answers", "threshold", "node", "held"),
    [
        ([MALLARD] * 4, 1.0, MALLARD, 1.0),
        ([MALLARD, MALLARD, TEAL, DUCK], 0.5, MALLARD, 0.5),
        ([MALLARD, MALLARD, TEAL, DUCK], 0.7, DUCK, 1.0),
        ([MALLARD, TEAL, HERRING, HERRING], 0.7, ROOT, 1.0),
        (
            [MALLARD, TEAL, DUCK, HERRING, HERRING],
            0.3,
            DUCK,
            0.6,
        ),  # most are ducks, though no one bird has more votes
        ([MALLARD, HERRING], 0.5, MALLARD, 0.5),  # of two alike the first on the tree
        ([HERRING, MALLARD], 0.5, MALLARD, 0.5),
        ([MALLARD, MALLARD, SILENT, SILENT], 0.7, ROOT, 1.0),
        ([MALLARD, MALLARD, ROOT], 0.7, ROOT, 1.0),
        ([MALLARD, MALLARD, ROOT], 0.6, MALLARD, 2 / 3),
        ([GULL, HERRING, ROOT], 0.6, GULL, 2 / 3),
        ([HERRING] * 7 + [TEAL] * 3, 0.7, HERRING, 0.7),  # 0.7 of 10 is 7
    ],
)
def test_the_place_is_the_deepest_node_that_reaches_the_threshold(
    answers: list[int], threshold: float, node: int, held: float
) -> None:
    assert placed(answers, threshold) == pytest.approx((node, held))


@given(trees(), st.data())
def test_places_nest_and_hp_never_rises_as_the_threshold_falls(
    tree: Taxonomy, data: st.DataObject
) -> None:
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
def test_the_order_of_the_answers_does_not_matter_and_shares_are_counts(
    tree: Taxonomy, data: st.DataObject
) -> None:
    answers = data.draw(st.lists(st.integers(-1, len(tree) - 1), min_size=2, max_size=8))
    found = weighted_paths(tree, np.array([answers]))
    again = weighted_paths(tree, np.array([data.draw(st.permutations(answers))]))
    path, shares = found.nodes, found.shares
    assert (path == again.nodes).all()
    assert (shares == again.shares).all()
    for depth, node in enumerate(path[0].tolist()):
        below = (
            sum(a >= 0 and node in tree.ancestors(a) for a in answers) if depth else len(answers)
        )
        assert shares[0, depth] == pytest.approx(0 if node < 0 else below / len(answers))


def test_requests_ask_for_distinct_answers(tmp_path: Path) -> None:
    image = tmp_path / "a.png"
    assert SelfConsistency(3).requests(BIRDS, "p", image, "f") == [
        Request("p", image, "f", sample) for sample in (0, 1, 2)
    ]
    assert Single().requests(BIRDS, "p", image, "f") == [Request("p", image, "f")]


@pytest.mark.parametrize(
    ("samples", "threshold"), [(0, 0.7), (1, 0.7), (101, 0.7), (8, 0.0), (8, 1.1)]
)
def test_settings_out_of_range_are_refused(samples: int, threshold: float) -> None:
    with pytest.raises(TaxtuneError):
        SelfConsistency(samples, threshold)


@pytest.fixture(scope="module")
def birds() -> Taxonomy:
    return read_taxonomy(TAXONOMY_FILE, names=False)


@pytest.fixture(scope="module")
def recorded() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Nodes, shape (400, 16), and targets of the field guide's baseline at temperature 1 (`votes.py`)."""
    with np.load(VOTES) as arrays:
        return arrays["nodes"].T.astype(np.int64), arrays["targets"].astype(np.int64)


@pytest.fixture(scope="module")
def losses(
    birds: Taxonomy, recorded: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> NDArray[np.float64]:
    """1 - hP of always answering the root, and at the eight thresholds that differ with 8 answers; shape (9, 400)."""
    nodes, target = recorded
    places = [
        SelfConsistency(8, votes / 8).majority(birds, nodes[:, :8])[0] for votes in range(8, 0, -1)
    ]
    return np.array(
        [np.zeros(len(target)), *(1 - precision_recall(birds, each, target)[0] for each in places)]
    )


def test_eight_answers_of_the_baseline_are_as_good_as_measured(
    birds: Taxonomy, recorded: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> None:
    nodes, target = recorded
    found = [
        score(birds, SelfConsistency(8, 0.7).majority(birds, some)[0], target)
        for some in (nodes[:, :8], nodes[:, 8:])
    ]
    assert np.mean([each.hp for each in found]) == pytest.approx(0.986, abs=0.004)
    assert np.mean([each.hr for each in found]) == pytest.approx(0.854, abs=0.012)
    direct = score(birds, nodes[:, 0], target)
    assert direct.hp < min(each.hp for each in found) - 0.03


def chosen_risks(
    losses: NDArray[np.float64], n: int, risk: float, confidence: float | None
) -> NDArray[np.float64]:
    """The mean loss, on all images, of what each of many draws of calibration images chose."""
    rng = np.random.default_rng(0)
    means = losses.mean(axis=1)
    found = []
    for _ in range(SPLITS):
        drawn = losses[:, rng.integers(losses.shape[1], size=n)]
        levels = control_risk(drawn, risk, confidence, worst=0.75)
        # Where not even the root is certain to keep the promise, it keeps it none the less: it has no loss.
        found.append(means[max(0, sum(level.kept for level in levels) - 1)])
    return np.array(found)


@pytest.mark.parametrize(("n", "risk"), [(60, 0.02), (200, 0.02), (200, 0.01), (400, 0.04)])
def test_the_risk_is_kept_in_expectation(losses: NDArray[np.float64], n: int, risk: float) -> None:
    risks = chosen_risks(losses, n, risk, None)
    assert risks.mean() <= risk + 3 * risks.std() / math.sqrt(SPLITS)
    assert (risks > 0).mean() > 0.5, "the promise must not be kept by answering the root alone"


@pytest.mark.parametrize(
    ("n", "risk", "confidence"), [(200, 0.02, 0.9), (400, 0.02, 0.9), (400, 0.04, 0.8)]
)
def test_the_risk_is_kept_with_the_confidence(
    losses: NDArray[np.float64], n: int, risk: float, confidence: float
) -> None:
    risks = chosen_risks(losses, n, risk, confidence)
    level = 1 - confidence
    assert (risks > risk).mean() <= level + 3 * math.sqrt(level * confidence / SPLITS)
    assert (risks > 0).mean() > 0.5


def test_without_control_the_risk_is_not_kept(losses: NDArray[np.float64]) -> None:
    """The tests above can fail: a threshold taken for its mean on the calibration images breaks the promise."""
    rng = np.random.default_rng(0)
    means = losses.mean(axis=1)
    naive = []
    for _ in range(SPLITS):
        drawn = losses[:, rng.integers(losses.shape[1], size=200)]
        naive.append(means[(drawn.mean(axis=1) <= 0.02).sum() - 1])
    assert (np.array(naive) > 0.02).mean() > 0.2


def test_levels_stop_at_the_first_that_is_not_kept() -> None:
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
def test_so_many_images_are_needed_at_best(
    risk: float, confidence: float | None, worst: float
) -> None:
    n = images_needed(risk, confidence, worst=worst)
    (enough,) = control_risk(np.zeros((1, n)), risk, confidence, worst=worst)
    (few,) = control_risk(np.zeros((1, n - 1)), risk, confidence, worst=worst)
    assert enough.kept
    assert not few.kept
    assert images_needed(1e-12, 0.9) > 10**6  # and is not counted to the end


def test_the_worst_loss_is_that_of_the_deepest_wrong_node(birds: Taxonomy) -> None:
    assert worst_loss(birds) == 0.75
    assert worst_loss(Taxonomy(["root"], [-1])) == 0.5


@given(trees(), st.data())
def test_weights_that_are_counts_are_as_many_answers(tree: Taxonomy, data: st.DataObject) -> None:
    nodes = np.array(data.draw(st.lists(st.integers(-1, len(tree) - 1), min_size=1, max_size=5)))
    counts = np.array([data.draw(st.integers(1, 4)) for _ in nodes])
    weighted, counted = (
        weighted_paths(tree, nodes, counts[np.newaxis]),
        weighted_paths(tree, [np.repeat(nodes, counts)]),
    )
    for one, other in zip(weighted, counted, strict=True):
        assert (one == other).all()


@given(trees(), st.data())
def test_an_inner_name_gives_its_probability_to_the_names_below(
    tree: Taxonomy, data: st.DataObject
) -> None:
    nodes = np.array([-1, *range(len(tree))])
    weights = np.array([[data.draw(st.sampled_from([0.0, 0.25, 1.0, 3.0])) for _ in nodes]])
    given = spread(tree, nodes, weights)
    assert given.sum() == pytest.approx(weights.sum())
    assert given[0, 0] == weights[0, 0]
    for node in range(len(tree)):
        below = [v + 1 for v in tree.descendants(node).tolist()]
        if (
            tree.depth[node]
            and weights[0, [v + 1 for v in tree.ancestors(node)[:-1].tolist()]].sum() == 0
        ):
            assert given[0, below].sum() == pytest.approx(
                weights[0, below].sum()
            )  # nothing comes from above
        if len(below) > 1 and weights[0, [v for v in below if v != node + 1]].sum() > 0:
            assert given[0, node + 1] == 0


def test_a_share_next_to_one_is_told_from_one() -> None:
    weights = np.array([[1.0, 1e-12, 0.0], [1.0, 1e-20, 1e-20]])
    paths = weighted_paths(BIRDS, [MALLARD, TEAL, HERRING], weights)
    assert paths.depths(1 - 1e-11).tolist() == [2, 2]
    assert paths.depths(1 - 1e-13).tolist() == [1, 2]
    assert paths.outside[1, 1:].tolist() == [1e-20, 2e-20]


def test_outcomes_are_the_nodes_that_they_may_stand_for() -> None:
    tree = Taxonomy.from_paths(
        ["bird/duck/mallard", "bird/duck/mandarin duck", "bird/gull/herring gull"]
    )
    named = NamedNodes(tree, "all")
    assert named.candidates.names == ("mallard", "mandarin duck", "herring gull")
    assert named.candidates.broader == ("duck", "gull", "bird")
    found = {key: named.node(key) for key in ("mallard", "Ma…", "h…", "d…", "…", "x…")}
    duck, root = tree.resolve("duck"), tree.root
    assert found == {
        "mallard": 2,
        "Ma…": duck,
        "h…": tree.resolve("herring gull"),
        "d…": duck,
        "…": -1,
        "x…": -1,
    }
    nodes, weights = named.weigh(
        [{"mallard": math.log(0.5), "duck": math.log(0.25), "…": math.log(0.25)}]
    )
    assert dict(zip(nodes.tolist(), weights[0].tolist(), strict=True)) == {
        -1: 0.25,
        2: 0.75,
        duck: 0.0,
    }
    assert root == 0
    assert NamedNodes(tree, "species").candidates.weighed == (
        "mallard",
        "mandarin duck",
        "herring gull",
    )


# -- placing -----------------------------------------------------------------------------------------------------------


def mapped(
    *images: list[str | None], lift: dict[int, int] | None = None, **outcomes: float
) -> MappedReplies:
    """Replies about images with the placements of the default mapper; None is a refusal, "?" a doubtful answer."""
    mapper, logs = Unsure(BIRDS), {name: math.log(value) for name, value in outcomes.items()}
    answers = [
        [Answer(text, outcomes=logs or None) for text in texts if text is not None]
        for texts in images
    ]
    pairs = [
        list(zip(own, mapper.place([answer.text for answer in own]), strict=True))
        for own in answers
    ]
    nodes = np.full((len(images), len(images[0])), SILENT)
    for i, texts in enumerate(images):
        said = [j for j, text in enumerate(texts) if text is not None]
        nodes[i, said] = [
            ROOT if placement.off_tree else placement.node for _, placement in pairs[i]
        ]
    allowed = np.arange(len(BIRDS))
    for node, above in (lift or {}).items():
        allowed[node] = above
    return MappedReplies(
        BIRDS, pairs, nodes, groups=[([*range(len(images))], allowed)] if lift else ()
    )


def test_a_single_answer_is_placed_as_the_mapper_says() -> None:
    found = Single().place(mapped(["A mallard."], ["A teal?"], ["A bicycle."], ["I cannot tell."]))
    assert [one.node for one in found] == [MALLARD, TEAL, ROOT, ROOT]
    assert [one.doubtful for one in found] == [False, True, False, False]
    assert [(one.off_tree, one.abstained) for one in found[2:]] == [(True, False), (False, True)]
    (lifted,) = Single().place(mapped(["A mallard."], lift={MALLARD: DUCK}))
    assert (lifted.node, lifted.masked, lifted.abstained) == (DUCK, "bird/duck/mallard", False)
    (lifted,) = Single().place(mapped(["A mallard."], lift={MALLARD: ROOT}))
    assert (lifted.node, lifted.abstained) == (ROOT, True)


def test_a_vote_counts_what_was_said_and_hangs_on_doubtful_answers() -> None:
    one, other = SelfConsistency(3, 0.6).place(
        mapped(["A mallard.", "A mallard?", None], ["A teal.", "A teal.", "A mallard?"])
    )
    assert (one.answer, one.votes) == (
        "A mallard. (1 of 3); A mallard? (1 of 3)",
        (MALLARD, MALLARD, SILENT),
    )
    assert (one.node, one.confidence, one.doubtful) == (MALLARD, 2 / 3, True)
    assert (other.node, other.doubtful) == (TEAL, False)
    (lifted,) = SelfConsistency(2, 1.0).place(mapped(["A teal.", "A teal."], lift={TEAL: DUCK}))
    assert (lifted.node, lifted.masked, lifted.votes) == (DUCK, "bird/duck/teal", (DUCK, DUCK))


def test_a_posterior_sums_the_names_and_leaves_an_open_threshold_to_others() -> None:
    said = mapped(["A mallard."], mallard=0.6, teal=0.3, **{OTHERWISE: 0.1})
    (bold,), (careful,) = (Posterior(threshold).place(said) for threshold in (0.6, 0.9))
    assert (bold.node, careful.node) == (MALLARD, DUCK)
    assert (careful.path, careful.probabilities) == (
        (ROOT, DUCK, MALLARD),
        pytest.approx((1.0, 0.9, 0.6)),
    )
    assert careful.named == pytest.approx(0.9)
    with pytest.raises(ValueError, match="open"):
        Posterior().place(said)
    (rooted,) = (
        Posterior().fitted(lambda mapped, paths, off_tree: np.zeros(1, dtype=np.int64)).place(said)
    )
    assert (rooted.node, rooted.abstained) == (ROOT, True)
    with pytest.raises(ModelError, match="no probabilities"):
        Posterior(0.9).place(mapped(["A mallard."]))
