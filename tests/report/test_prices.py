"""The price list of a cascade: which of its points a table has, and how they are drawn."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from taxtune.classifier.cascade import Cascade
from taxtune.metrics.groups import Groups
from taxtune.policies import THRESHOLDS, RiskGuarantee
from taxtune.policies.cascade import price_list, wanted_nodes
from taxtune.policies.paths import weighted_paths
from taxtune.report.prices import draw_prices, price_table
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.costs import CallCost
from taxtune.tuning.saved import tree_columns

TREE = Taxonomy.from_paths(["bird/duck/mallard", "bird/duck/teal", "bird/gull/kittiwake"])
LEAVES = np.array([TREE.resolve(name) for name in ("mallard", "teal", "kittiwake")])


@cache
def cascade_of(sure, n=200):
    """A cascade of scores that are so sure of themselves, and of a model that is right."""
    rng = np.random.default_rng(3)
    truth = rng.choice(LEAVES, n)
    logits = rng.normal(size=(n, 3)) + sure * rng.random((n, 1)) * (truth[:, None] == LEAVES)
    weights = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    points = price_list(
        TREE,
        weighted_paths(TREE, np.tile(LEAVES, (n, 1)), weights),
        weighted_paths(TREE, truth[:, None]),
        truth,
        RiskGuarantee.asked(0.05, 0.9),
        Groups.of([""] * n),
        wanted_nodes(TREE, None),
        THRESHOLDS[::40],
    )
    return Cascade(
        risk=0.05,
        images=n,
        confidence_level=0.9,
        points=points,
        place=len(points) - 1,
        run="runs/birds",
        template="What is this?",
        policy={},
        temperature=None,
        wanted=None,
        samples=1,
        call=CallCost(usd=0.001),
        labels=3,
        missing=0,
        source="photos",
        needed=1,
        units=n,
        taxonomy=tree_columns(TREE),
    )


@pytest.mark.parametrize("place", [0, 2, 7])
def test_a_price_list_has_both_ends_the_chosen_and_six_between(place):
    cascade = replace(cascade_of(6.0), place=place)
    table = price_table(cascade, [])
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [row["by"] for row in rows] == ["scores", *["both"] * 6, "model"]
    shares = [row["asked, %"] for row in rows]
    assert shares == sorted(shares)
    assert [row["verdict"] == "chosen" for row in rows].index(True) == place


def test_thresholds_that_are_not_kept_have_no_labels_to_show():
    cascade = cascade_of(2.0)
    kept = np.array([point.kept for point in cascade.points])
    assert 0 < kept.sum() < len(kept)
    table = price_table(cascade, [])
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert {row["verdict"] for row in rows if row["hR"] is None} == {""}
    assert {row["verdict"] for row in rows if row["hR"] is not None} == {"kept", "chosen"}
    axes = draw_prices(cascade).axes[0]
    (line,) = axes.get_lines()
    assert len(line.get_xdata()) == kept.sum()
    low, high = axes.get_ylim()
    assert low <= min(line.get_ydata()) <= max(line.get_ydata()) <= high
