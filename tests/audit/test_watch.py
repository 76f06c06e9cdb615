"""Images that are drawn to watch a promise: their weights make up for how they are drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from taxtune.audit.watch import SOURCE, Watch, read_added
from taxtune.metrics.evidence import HEAVIEST
from taxtune.policies import RiskGuarantee
from tests.classifier.test_scores import TREE

NONE = pd.DataFrame(columns=["image", "placement", "truth", "weight", SOURCE, " used"])


def drawn_from(confidences, n, seed):
    labels = pd.DataFrame({"confidence": confidences})
    labels["image"] = [f"{seed}-{i}" for i in range(len(confidences))]
    labels["placement"] = "life"
    labels["truth"] = ""
    labels[SOURCE] = f"{seed:016x}"
    promise = RiskGuarantee(0.1, 0.9, 100)
    watch = Watch(file=Path("watch.json"), tree=TREE, promise=promise, drawn=NONE)
    return watch.draw(labels, n, None), labels


def test_doubtful_images_are_drawn_more_often_and_weigh_less():
    confidences = np.tile([0.5, 0.99, 0.99, 0.99, 0.99], 40)
    doubtful = 0
    weighed = []
    for seed in range(200):
        watch, _ = drawn_from(confidences, 40, seed)
        drawn = watch.drawn
        is_doubtful = drawn["confidence"] == 0.5
        doubtful += is_doubtful.sum()
        weight = is_doubtful * drawn["weight"]
        weighed.append(weight.mean())
        assert drawn["weight"].max() <= HEAVIEST
    assert doubtful / 8000 > 0.25
    assert np.mean(weighed) == pytest.approx(0.2, abs=0.01)


def test_a_second_draw_takes_other_images_until_none_is_left():
    watch, labels = drawn_from(np.full(100, 0.9), 8, 3)
    assert len(watch.drawn) == 8
    for _ in range(3):
        watch = watch.draw(labels, 8, None)
    # Of each five one is drawn, as long as that many are left.
    used = watch.drawn[" used"].tolist()
    assert used[:8] == [5, 10, 15, 20, 25, 30, 35, 40]
    assert used[-1] == 100
    assert watch.drawn["image"].is_unique
    assert watch.drawn["weight"].tolist() == pytest.approx([1] * len(watch.drawn))


def test_photos_that_nothing_was_asked_about_are_not_drawn(tmp_path):
    rows = {"image": ["1.jpg#1", "2.jpg"], "placement": ["life", "life"], "confidence": [1, 1]}
    table = pd.DataFrame({**rows, "answer": ["a life form", "no detection"]})
    table.to_csv(tmp_path / "labels.csv", index=False)
    watch, _ = drawn_from(np.ones(1), 1, 0)
    assert watch.read(tmp_path / "labels.csv")["image"].tolist() == ["1.jpg#1"]


@pytest.mark.parametrize("confidences", [np.full(3, np.nan), np.ones(3), np.array([0.0, 1, 0.5])])
def test_few_images_are_all_drawn(confidences):
    drawn = drawn_from(confidences, 60, 1)[0].drawn
    assert sorted(drawn["image"]) == ["1-0", "1-1", "1-2"]
    assert drawn["weight"].tolist() == pytest.approx([1, 1, 1])


def test_what_a_calibration_takes_in_is_as_if_drawn_alike(tmp_path):
    confidences = np.tile([0.5, 0.99, 0.99, 0.99, 0.99], 1000)
    drawn = drawn_from(confidences, 1000, 5)[0].drawn.assign(truth="s00")
    drawn.to_csv(tmp_path / "drawn.csv", index=False)
    added = read_added(tmp_path / "drawn.csv")
    assert 600 < len(added) < 1000
    assert (added["confidence"].astype(float) == 0.5).mean() == pytest.approx(0.2, abs=0.04)
