"""Labels beside the true ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from taxtune.classifier.truth import compare_labels
from taxtune.errors import DataError
from taxtune.policies import RiskGuarantee
from taxtune.taxonomy import Taxonomy

TREE = Taxonomy(["bird", "owl", "duck", "barn owl", "mallard"], [-1, 0, 0, 1, 2])
BARN_OWL, MALLARD = 3, 4
LABELS = [
    ("photos/a.jpg", "bird/owl/barn owl", False),
    ("photos/b.jpg", "bird/owl", False),
    ("photos/c.jpg", "bird", False),
    ("photos/d.jpg", "bird/owl/barn owl", False),
    ("photos/e.jpg", "bird", True),
    ("photos/f.jpg", None, False),
    ("photos/g.jpg", "bird/duck", False),
]
KNOWN = {f"{name}.jpg": BARN_OWL for name in "abcef"} | {"d.jpg": MALLARD, "z.jpg": MALLARD}
FILE = Path("truth.csv")


def test_labels_are_counted_as_worked_out_by_hand(caplog):
    outcomes, scores = compare_labels(LABELS, KNOWN, TREE, FILE)
    assert (outcomes.wrong, outcomes.general, outcomes.exact, outcomes.missing) == (2, 2, 1, 1)
    # Labels are the three owls, of which d is a duck; a node is no label at the root or off the tree.
    assert outcomes.labels == 3
    assert outcomes.share_wrong.estimate == pytest.approx(1 / 3)
    assert scores["hp"].estimate == pytest.approx((1 + 1 + 1 + 1 / 3 + 1 / 2) / 5)
    assert scores["hr"].estimate == pytest.approx((1 + 2 / 3 + 1 / 3 + 1 / 3 + 1 / 3) / 5)
    assert scores["hp"].low < scores["hp"].estimate < scores["hp"].high
    assert "1 of 7 images have no true label" in caplog.text


@pytest.mark.parametrize(("rank", "share"), [(None, 1 / 3), ("2", 1 / 2), ("1", 1 / 3)])
def test_labels_that_a_promise_counts_are_those_from_its_rank_on(rank, share):
    promise = RiskGuarantee.asked(0.1, promise="labels", rank=rank)
    _, scores = compare_labels(LABELS, KNOWN, TREE, FILE, promise)
    assert scores["risk"].estimate == pytest.approx(share)


def test_what_cannot_be_compared_is_told():
    with pytest.raises(DataError, match=r"truth.csv: None of the images has a true label.*'q.jpg'"):
        compare_labels(LABELS, {"q.jpg": MALLARD}, TREE, FILE)
    with pytest.raises(DataError, match="No image with a true label has an answer"):
        compare_labels(LABELS, {"f.jpg": MALLARD}, TREE, FILE)
