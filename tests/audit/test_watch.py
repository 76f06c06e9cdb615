"""Images that are drawn to watch a promise: their weights make up for how they are drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from taxtune.audit.watch import Watch, draw_weights, read_added
from taxtune.policies import RiskGuarantee
from tests.classifier.test_scores import TREE

COLUMNS = ["image", "placement", "confidence", "truth", "weight"]
MIXED = np.tile([0.5, 0.99, 0.99, 0.99, 0.99], 1000)


def watched(promise=None, drawn=None):
    """Returns a watch of a promise, with images that were drawn."""
    drawn = pd.DataFrame(columns=COLUMNS) if drawn is None else drawn
    promise = promise or RiskGuarantee(0.1, 0.9, 100)
    return Watch(file=Path("watch.json"), tree=TREE, promise=promise, words=None, drawn=drawn)


def labels(confidences, name="a"):
    table = pd.DataFrame({"confidence": confidences})
    table["image"] = [f"{name}-{i}" for i in range(len(confidences))]
    table["placement"] = "life"
    table["truth"] = ""
    return table.assign(weight=draw_weights(table["confidence"]))


def test_doubtful_images_are_drawn_more_often_and_weigh_less():
    watch = watched()
    watch = watch.draw(labels(MIXED), 5000)
    drawn = watch.drawn
    is_doubtful = drawn["confidence"] == 0.5
    # One in five is doubtful, and is drawn with a chance of 1 against one of 0.6.
    assert is_doubtful.mean() == pytest.approx(0.2 / (0.2 + 0.8 * 0.6), abs=0.03)
    assert np.average(is_doubtful, weights=drawn["weight"]) == pytest.approx(0.2, abs=0.02)


def test_later_draws_go_on_whatever_their_size_until_none_is_left():
    table = labels(MIXED)
    at_once = watched().draw(table, 5000).drawn
    watch = watched()
    for n in (1, 40, 7, 5000, 5000):
        watch = watch.draw(table, n)
    assert watch.drawn["image"].tolist() == at_once["image"].tolist()
    # Images that were passed over remain so where further ones come.
    more = watch.draw(pd.concat([table, labels(MIXED, "b")]), 5000)
    assert set(more.drawn["image"].str[0][len(at_once) :]) == {"b"}
    # Another image of the same name is another one.
    again = watch.draw(table.assign(confidence=0.4, weight=0.5), 5000)
    assert len(again.drawn) == len(at_once) + 5000


@pytest.mark.parametrize(
    ("unit", "column"), [("image", "photo"), ("burst", "burst"), ("burst", "group")]
)
def test_one_image_of_a_group_is_drawn_where_the_promise_is_about_groups(unit, column):
    table = labels(MIXED)
    table[column] = np.arange(5000) // 10
    promise = RiskGuarantee(0.1, 0.9, 100, unit=unit)
    watch = watched(promise)
    drawn = watch.draw(table, 5000).drawn
    assert drawn[column].is_unique
    assert len(drawn) > 250
    promise = RiskGuarantee(0.1, 0.9, 100, unit="patient")
    watch = watched(promise)
    elsewhere = watch.draw(table, 5000).drawn
    is_each = len(elsewhere) > 500
    assert is_each == (column != "group")


def test_labels_alone_count_where_labels_are_promised():
    leaf = next(iter(TREE.leaves))
    path = TREE.path(leaf)
    confidences = np.full(60, 0.9)
    drawn = labels(confidences)
    drawn["truth"] = TREE.labels[leaf]
    drawn.loc[:9, "placement"] = "/".join(path)
    promise = RiskGuarantee(0.1, 0.9, 100, promise="labels")
    (few,) = watched(promise, drawn[:10]).verdicts()
    (all_,) = watched(promise, drawn).verdicts()
    assert all_["evidence: holds"] == pytest.approx(few["evidence: holds"])
    assert all_["risk"] == 0


def test_photos_that_nothing_was_asked_about_are_not_drawn(tmp_path):
    rows = {"image": ["1.jpg#1", "2.jpg"], "placement": ["life", "life"], "confidence": [1, 1]}
    table = pd.DataFrame(rows)
    table["answer"] = ["a life form", "no detection"]
    file = tmp_path / "labels.csv"
    table.to_csv(file, index=False)
    found = watched().read(file)
    assert found["image"].tolist() == ["1.jpg#1"]


def test_what_a_calibration_takes_in_is_as_if_drawn_alike(tmp_path):
    watch = watched()
    watch = watch.draw(labels(MIXED), 2000)
    drawn = watch.drawn.assign(truth="s00")
    file = tmp_path / "drawn.csv"
    drawn.to_csv(file, index=False)
    added = read_added(file)
    assert 1200 < len(added) < 2000
    confidences = added["confidence"].astype(float)
    is_doubtful = confidences == 0.5
    assert is_doubtful.mean() == pytest.approx(0.2, abs=0.03)
