"""Kendall's τ of measures with hP and hR: against SciPy and pairs scored one by one."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from taxtune.errors import DataError, TaxonomyError
from taxtune.metrics.base import FunctionMeasure
from taxtune.metrics.hierarchical import precision_recall
from taxtune.metrics.registry import make_measure
from taxtune.studies import run
from taxtune.studies.correlation import (
    LEAST_P,
    CorrelationSettings,
    correlate,
    draw_pairs,
    kendall,
    score_curves,
    score_pairs,
)
from tests.studies.reports import assert_drawn, cells, records


def half(_answer, reference):
    """One score for all pairs but those of robins, which are unscored."""
    return None if "robin" in reference or "migratorius" in reference else 0.5


# -- Kendall's τ ------------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=2, max_size=40))
def test_tau_counts_every_pair(rows):
    x, y = np.array(rows).T
    i, j = np.triu_indices(len(rows), 1)
    order_x = np.sign(x[i] - x[j])
    order_y = np.sign(y[i] - y[j])
    found = kendall(x, y)
    untied = (order_x**2).sum() * (order_y**2).sum()
    if not untied:
        assert math.isnan(found["tau"])
        assert math.isnan(found["p_value"])
        return
    assert found["tau"] == pytest.approx((order_x * order_y).sum() / math.sqrt(untied))
    assert found["p_value"] == pytest.approx(max(kendalltau(x, y).pvalue, LEAST_P))
    assert -1 <= found["low"] <= found["tau"] + 1e-12
    assert found["tau"] - 1e-12 <= found["high"] <= 1


def test_the_interval_is_that_of_a_bootstrap():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 7, 1500) / 7
    y = np.round(x + rng.normal(0, 0.6, 1500), 1)
    found = kendall(x, y)
    rows = rng.integers(0, 1500, (600, 1500))
    spread = np.std([kendalltau(x[row], y[row]).statistic for row in rows])
    assert (found["high"] - found["low"]) / 2 / 1.96 == pytest.approx(spread, rel=0.12)
    assert cells(kendall(y, x), "low", "high") == pytest.approx(cells(found, "low", "high"))


def test_no_p_value_is_zero():
    x = np.arange(5000) % 7
    assert cells(kendall(x, x), "tau", "p_value") == pytest.approx((1, LEAST_P))


@pytest.mark.parametrize(("x", "y"), [([1, 1], [1, 2]), ([1, 2], [0, 0]), ([1], [2]), ([], [])])
def test_a_constant_has_no_correlation(x, y):
    assert math.isnan(kendall(x, y)["tau"])


JUDGE = FunctionMeasure("judge", "Judge", half, needs_question=True)

# -- the study --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", ["common", "canonical"])
def test_tau_is_that_of_all_pairs_scored_one_by_one(birds, labels):
    measures = [make_measure("rouge-1"), make_measure("meteor")]
    chosen = CorrelationSettings(taxonomy=birds, pairs=400, seed=5, labels=labels)
    pairs = draw_pairs(birds, chosen)
    scored = score_pairs(pairs, measures)
    taus = correlate(scored, measures).set_index(["measure", "metric"])["tau"]
    curves = score_curves(scored, measures).groupby(["measure", "metric"])
    kinds = [(name, metric) for name in ("rouge-1", "meteor") for metric in ("hp", "hr")]
    assert list(taus.index) == kinds
    names = list(birds.labels)
    if labels == "common":
        names = [birds.common_name(node) for node in range(len(birds))]
    for metric, part in pairs.groupby("metric"):
        hp, hr = precision_recall(birds, part["node"], part["leaf"])
        values = hp if metric == "hp" else hr
        assert metric == "hp" or (hp == 1).all()
        for measure in measures:
            rows = zip(part["leaf"], part["node"], strict=True)
            scores = [measure.scores([names[node]], [names[leaf]])[0] for leaf, node in rows]
            tau = kendalltau(values, np.round(scores, 6)).statistic
            np.testing.assert_allclose(taus[measure.name, metric], tau)  # NaN where both
            own = pd.Series(scores).groupby(values)
            curve = curves.get_group((measure.name, metric)).set_index("value")
            assert curve["n"].to_dict() == own.size().to_dict()
            np.testing.assert_allclose(curve["mean"], own.mean(), atol=1e-6)
            np.testing.assert_allclose(curve["std"], own.std(ddof=0), atol=1e-6)
    # "Turdus merula" and "Turdus migratorius" share a word; "blackbird" and "American robin" share none.
    assert math.isnan(taus.iloc[0]) == (labels == "common")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"measure": (JUDGE,)}, "needs questions, which labels do not have"),
        ({"measure": ("lave:no/such",)}, "needs questions, which labels do not have"),
        ({"nearest": 3, "farthest": 2}, "distance must be"),
        ({"nearest": 30, "farthest": 40}, "no node at a distance"),
    ],
)
def test_what_cannot_be_correlated_is_refused(birds, options, message):
    with pytest.raises((DataError, TaxonomyError), match=message):
        run("correlation", taxonomy=birds, pairs=50, **options)


def test_the_report_stands_beside_the_paper(birds, tmp_path):
    file = tmp_path / "new" / "pairs.csv"
    measures = [make_measure("rouge-1"), FunctionMeasure("exact-match", "EM", half)]
    settings = {"labels": "canonical", "pairs": 500, "seed": 5, "save_pairs": file}
    report = run("correlation", taxonomy=birds, measure=measures, **settings)
    rouge, em = records(report, "correlation")
    assert cells(rouge, "τ-hP paper, iNat21", "τ-hR paper, OVEN") == (0.18, 0.21)
    assert rouge["τ-hP"] == report.data["correlations"][0]["tau"]
    assert em["τ-hP"] is None
    assert "has no correlation (–)" in report.table("correlation").notes[0]
    assert sum(row["pairs"] for row in records(report, "pairs")) == 1000
    # τ of the written pairs is that of the tables, and what is unscored is left out and counted.
    rows = pd.read_csv(file)
    assert len(rows) == 1000
    for tau in report.data["correlations"]:
        of_metric = rows[rows["metric"] == tau["metric"]]
        scored = of_metric.dropna(subset=[tau["measure"]])
        unscored = len(of_metric) - len(scored)
        assert tau["unscored"] == unscored
        note = f"{unscored:,} of 500 pairs"
        assert any(note in text for text in report.notes) == (unscored > 0)
        expected = kendalltau(scored["value"], scored[tau["measure"]]).statistic
        np.testing.assert_allclose(tau["tau"], expected)
    for row in rows.itertuples():
        leaf, node = row.leaf.split("/"), row.node.split("/")
        shared = sum(a == b for a, b in zip(leaf, node, strict=False))
        assert row.distance == len(leaf) + len(node) - 2 * shared
        assert row.value == pytest.approx(shared / len(node if row.metric == "hp" else leaf))
        assert (row.reference, row.answer) == (leaf[-1], node[-1])


@pytest.mark.parametrize("scored", [None, "mallard"])
def test_a_measure_without_scores_is_not_drawn(birds, tmp_path, scored):
    def tenth(answer, _reference):
        return 0.1 if answer == scored else None

    measure = FunctionMeasure("exact-match", "EM", tenth)
    report = run("correlation", taxonomy=birds, measure=[measure], pairs=400, seed=5)
    hp, hr = report.data["correlations"]
    assert (hp["n"] > 0) == (scored is not None)
    assert hr["n"] == 0
    assert list(report.figures) == ["correlation"][: hp["n"]]
    assert_drawn(report, tmp_path)


def test_pairs_are_drawn_below_the_root_alone_and_counted_from_it(tmp_path):
    tree = {"taxonomy": "builtin:fieldguide", "root": "Fringillidae"}
    file = tmp_path / "pairs.csv"
    report = run("correlation", measure="exact-match", pairs=300, save_pairs=file, **tree)
    assert report.settings["root"] == "Aves/Passeriformes/Fringillidae"
    rows = pd.read_csv(file)
    assert len(rows) == 600
    species = ("Carduelis carduelis", "Fringilla coelebs", "Pyrrhula pyrrhula", "Spinus tristis")
    leaves = {f"Fringillidae/{name}" for name in species}
    assert set(rows["leaf"]) == leaves
    assert set(rows["node"]) == {"Fringillidae", *leaves}
    # Two of a family's species share the family of their two nodes; the family is right about its species.
    is_other, is_hr = rows["node"] != "Fringillidae", rows["metric"] == "hr"
    assert (rows["distance"] == 1 + is_other).all()
    assert (rows["value"] == np.where(is_other | is_hr, 0.5, 1.0)).all()
    assert not (is_other & is_hr).any()
