from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.errors import TaxtuneError
from taxtune.metrics import precision_recall
from taxtune.models import Request
from taxtune.policies import DIRECT, Vote, vote_paths
from taxtune.taxonomy import Taxonomy
from tests.trees import trees

BIRDS = Taxonomy.from_paths(["bird/duck/mallard", "bird/duck/teal", "bird/gull/herring gull"])
MALLARD, TEAL, DUCK, GULL, HERRING = (
    BIRDS.resolve(name) for name in ("mallard", "teal", "duck", "gull", "herring gull")
)
ROOT, SILENT = 0, -1


def placed(answers: list[int], share: float, off: list[bool] | None = None) -> tuple[int, float]:
    nodes = np.array([answers])
    mask = np.array([off]) if off else np.zeros(nodes.shape, dtype=bool)
    places = Vote(len(answers), share).place(BIRDS, nodes, mask)
    assert places.shares is not None
    assert not places.off_tree.any()
    return int(places.nodes[0]), float(places.shares[0])


@pytest.mark.parametrize(
    ("answers", "share", "node", "held"),
    [
        ([MALLARD] * 4, 1.0, MALLARD, 1.0),
        ([MALLARD, MALLARD, TEAL, DUCK], 0.5, MALLARD, 0.5),
        ([MALLARD, MALLARD, TEAL, DUCK], 0.7, DUCK, 1.0),
        ([MALLARD, TEAL, HERRING, HERRING], 0.7, ROOT, 1.0),
        ([MALLARD, TEAL, DUCK, HERRING, HERRING], 0.3, DUCK, 0.6),  # most are ducks, though no one bird has more votes
        ([MALLARD, HERRING], 0.5, MALLARD, 0.5),  # of two alike the first on the tree
        ([HERRING, MALLARD], 0.5, MALLARD, 0.5),
        ([MALLARD, MALLARD, SILENT, SILENT], 0.7, ROOT, 1.0),
        ([GULL, HERRING, ROOT], 0.6, GULL, 2 / 3),
        ([HERRING] * 7 + [TEAL] * 3, 0.7, HERRING, 0.7),  # 0.7 of 10 is 7
    ],
)
def test_the_place_is_the_deepest_node_with_the_share(answers: list[int], share: float, node: int, held: float) -> None:
    assert placed(answers, share) == pytest.approx((node, held))


def test_what_is_off_the_tree_votes_for_nothing_but_counts() -> None:
    assert placed([MALLARD, MALLARD, ROOT], 0.7, [False, False, True]) == pytest.approx((ROOT, 1.0))
    assert placed([MALLARD, MALLARD, ROOT], 0.6, [False, False, True]) == pytest.approx((MALLARD, 2 / 3))


@given(trees(), st.data())
def test_places_nest_and_hp_never_rises_as_the_share_falls(tree: Taxonomy, data: st.DataObject) -> None:
    answers = st.lists(st.integers(-1, len(tree) - 1), min_size=5, max_size=5)
    nodes = np.array(data.draw(st.lists(answers, min_size=1, max_size=6)))
    target = np.array([data.draw(st.integers(0, len(tree) - 1)) for _ in nodes])
    off = np.zeros(nodes.shape, dtype=bool)
    before = np.zeros(len(nodes), dtype=np.int64)
    loss = np.zeros(len(nodes))
    for share in (1.0, 0.9, 0.8, 0.6, 0.5, 0.4, 0.2, 0.01):
        now = Vote(5, share).place(tree, nodes, off).nodes
        assert (tree.shared(before, now) == tree.depth[before] + 1).all()
        worse = 1 - precision_recall(tree, now, target)[0]
        assert (worse >= loss).all()
        before, loss = now, worse


@given(trees(), st.data())
def test_the_order_of_the_answers_does_not_matter_and_shares_are_counts(tree: Taxonomy, data: st.DataObject) -> None:
    answers = data.draw(st.lists(st.integers(-1, len(tree) - 1), min_size=2, max_size=8))
    path, shares = vote_paths(tree, np.array([answers]))
    again = vote_paths(tree, np.array([data.draw(st.permutations(answers))]))
    assert (path == again[0]).all()
    assert (shares == again[1]).all()
    for depth, node in enumerate(path[0].tolist()):
        below = sum(a >= 0 and node in tree.ancestors(a) for a in answers) if depth else len(answers)
        assert shares[0, depth] == pytest.approx(0 if node < 0 else below / len(answers))


def test_requests_ask_for_distinct_answers(tmp_path: Path) -> None:
    image = tmp_path / "a.png"
    one = Vote(3).requests(["p"], image, "f")
    assert one == [Request("p", image, "f", sample) for sample in (0, 1, 2)]
    several = Vote(4).requests(["p", "q", "r"], image, "f")
    assert [(r.prompt, r.sample) for r in several] == [("p", 0), ("q", 0), ("r", 0), ("p", 1)]
    assert DIRECT.requests(["p"], image, "f") == [Request("p", image, "f")]


@pytest.mark.parametrize(("samples", "share"), [(1, 0.7), (101, 0.7), (8, 0.0), (8, 1.1)])
def test_settings_out_of_range_are_refused(samples: int, share: float) -> None:
    with pytest.raises(TaxtuneError):
        Vote(samples, share)
