"""Kendall's τ of measures with hP and hR: against SciPy and pairs scored one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from taxtune.errors import DataError
from taxtune.metrics.hierarchical import precision_recall
from taxtune.metrics.registry import FloatArray, Measure, make_measure
from taxtune.report.drawing import save_figure
from taxtune.report.output import StudyReport
from taxtune.studies import run
from taxtune.studies.correlation import CorrelationSettings
from taxtune.studies.correlation.study import LEAST_P, correlate, draw_pairs, kendall, score_curves, score_pairs
from taxtune.taxonomy import Taxonomy


def reported(birds: Taxonomy, measures: Sequence[Measure | str], **more: Any) -> StudyReport:
    return run("correlation", taxonomy=birds, measure=measures, **{"pairs": 400, "seed": 5, **more})


class _Constant(Measure):
    """One score for all pairs but those of robins, which are unscored."""

    def scores(self, answers, references, *, questions=None) -> FloatArray:  # type: ignore[no-untyped-def]
        return np.array([math.nan if "robin" in text or "migratorius" in text else 0.5 for text in references])


class _Judge(_Constant):
    needs_questions = True


# -- Kendall's τ ------------------------------------------------------------------------------------------------------


@hypothesis_settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=2, max_size=40))
def test_tau_counts_every_pair(rows: list[tuple[int, int]]) -> None:
    x, y = map(np.array, zip(*rows, strict=True))
    i, j = np.triu_indices(len(rows), 1)
    order_x, order_y = np.sign(x[i] - x[j]), np.sign(y[i] - y[j])
    found = kendall(x, y)
    if not order_x.any() or not order_y.any():
        assert math.isnan(found["tau"])
        assert math.isnan(found["p_value"])
    else:
        assert found["tau"] == pytest.approx(
            (order_x * order_y).sum() / math.sqrt((order_x**2).sum() * (order_y**2).sum())
        )
        assert found["p_value"] == pytest.approx(max(kendalltau(x, y).pvalue, LEAST_P))
        assert -1 <= found["low"] <= found["tau"] + 1e-12
        assert found["tau"] - 1e-12 <= found["high"] <= 1


def test_the_interval_is_that_of_a_bootstrap() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 7, 1500) / 7
    y = np.round(x + rng.normal(0, 0.6, 1500), 1)
    found = kendall(x, y)
    rows = rng.integers(0, 1500, (600, 1500))
    spread = np.std([kendalltau(x[row], y[row]).statistic for row in rows])
    assert (found["high"] - found["low"]) / 2 / 1.96 == pytest.approx(spread, rel=0.12)
    swapped = kendall(y, x)
    assert (swapped["low"], swapped["high"]) == pytest.approx((found["low"], found["high"]))


def test_no_p_value_is_zero(birds: Taxonomy) -> None:
    x = np.arange(5000) % 7
    found = kendall(x, x)
    assert found["tau"] == pytest.approx(1)
    assert found["p_value"] == LEAST_P
    assert all(math.isnan(kendall(x, y)["tau"]) for x, y in (([1, 1], [1, 2]), ([1, 2], [0, 0]), ([1], [2]), ([], [])))


# -- the study --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", ["common", "canonical"])
def test_tau_is_that_of_all_pairs_scored_one_by_one(birds: Taxonomy, labels: str) -> None:
    measures = [make_measure("rouge-1"), make_measure("meteor")]
    pairs = draw_pairs(birds, CorrelationSettings(taxonomy=birds, pairs=400, seed=5, labels=labels))  # type: ignore[arg-type]
    scored = score_pairs(pairs, measures)
    taus = correlate(scored, measures).set_index(["measure", "metric"])["tau"]
    curves = score_curves(scored, measures)
    assert list(taus.index) == [(name, metric) for name in ("rouge-1", "meteor") for metric in ("hp", "hr")]
    names = [birds.common_name(i) if labels == "common" else birds.labels[i] for i in range(len(birds))]
    for metric, part in pairs.groupby("metric"):
        hp, hr = precision_recall(birds, part["node"], part["leaf"])
        values = hp if metric == "hp" else hr
        assert metric == "hp" or (hp == 1).all()
        for measure in measures:
            rows = zip(part["leaf"], part["node"], strict=True)
            scores = np.array([measure.scores([names[node]], [names[leaf]])[0] for leaf, node in rows])
            tau = kendalltau(values, np.round(scores, 6)).statistic
            np.testing.assert_allclose(taus[measure.name, metric], tau)  # NaN where both
            curve = curves[(curves["measure"] == measure.name) & (curves["metric"] == metric)]
            assert curve["value"].tolist() == sorted(set(values))
            for point in curve.itertuples():
                own = scores[values == point.value]
                assert point.n == len(own)
                assert (point.mean, point.std) == pytest.approx((own.mean(), own.std()), abs=1e-6)
    # "Turdus merula" and "Turdus migratorius" share a word; "blackbird" and "American robin" share none.
    assert math.isnan(taus.iloc[0]) == (labels == "common")


def test_measures_that_need_what_labels_do_not_have_are_refused(birds: Taxonomy) -> None:
    for judge in (_Judge("judge", "Judge"), "lave:no/such"):
        with pytest.raises(DataError, match="labels do not answer one"):
            reported(birds, [judge])


def test_the_report_stands_beside_the_paper(birds: Taxonomy, tmp_path: Path) -> None:
    file = tmp_path / "new" / "pairs.csv"
    measures = [make_measure("rouge-1"), _Constant("exact-match", "EM")]
    report = reported(birds, measures, labels="canonical", pairs=500, save_pairs=file)
    rouge, em = report.tables[0].records()
    assert [rouge[f"τ-{metric}"] for metric in ("hP paper, iNat21", "hR paper, OVEN")] == [0.18, 0.21]
    assert rouge["τ-hP"] == report.data["correlations"][0]["tau"]
    assert em["τ-hP"] is None
    assert any("No correlation with hP: " in note and "exact-match" in note for note in report.notes)
    assert sum(row["pairs"] for row in report.tables[2].records()) == 1000  # type: ignore[misc]
    # τ of the written pairs is that of the tables, and what is unscored is left out and counted.
    rows = pd.read_csv(file)
    assert len(rows) == 1000
    for one in report.data["correlations"]:
        own = rows[rows["metric"] == one["metric"]]
        scored = own.dropna(subset=[one["measure"]])
        assert one["unscored"] == len(own) - len(scored)
        assert any(f"{one['unscored']:,} of 500 pairs" in note for note in report.notes) == (one["unscored"] > 0)
        np.testing.assert_allclose(one["tau"], kendalltau(scored["value"], scored[one["measure"]]).statistic)
    for row in rows.itertuples():
        leaf, node = row.leaf.split("/"), row.node.split("/")
        shared = sum(a == b for a, b in zip(leaf, node, strict=False))
        assert row.distance == len(leaf) + len(node) - 2 * shared
        assert row.value == pytest.approx(shared / len(node if row.metric == "hp" else leaf))
        assert (row.reference, row.answer) == (leaf[-1], node[-1])


@pytest.mark.parametrize("scored", [None, "mallard"])
def test_a_measure_without_scores_is_not_drawn(birds: Taxonomy, tmp_path: Path, scored: str | None) -> None:
    class _Some(Measure):
        def scores(self, answers, references, *, questions=None) -> FloatArray:  # type: ignore[no-untyped-def]
            return np.array([0.1 if answer == scored else math.nan for answer in answers])

    report = reported(birds, [_Some("exact-match", "EM")])
    assert [one["n"] for one in report.data["correlations"]] == (
        [0, 0] if scored is None else [pytest.approx(60, abs=60), 0]
    )
    assert list(report.figures) == ([] if scored is None else ["correlation"])
    for draw in report.figures.values():
        assert save_figure(draw, tmp_path / "figure")[0].is_file()
