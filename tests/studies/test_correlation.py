"""Kendall's τ of measures with hP and hR: against a search of the tree, SciPy and pairs scored one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from taxtune.errors import DataError, TaxonomyError
from taxtune.metrics.hierarchical import precision_recall
from taxtune.metrics.registry import FloatArray, Measure, make_measure
from taxtune.report.drawing import save_figure
from taxtune.report.output import StudyReport
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
from taxtune.studies.pairs import PairSampler
from taxtune.taxonomy import Taxonomy
from tests.trees import trees

# -- pairs ------------------------------------------------------------------------------------------------------------


def all_distances(taxonomy: Taxonomy) -> np.ndarray:
    """The edges between all nodes, by a search that shares nothing with what is tested."""
    graph = nx.Graph([(v, p) for v, p in enumerate(taxonomy.parents.tolist()) if p >= 0])
    graph.add_node(0)
    steps = dict(nx.all_pairs_shortest_path_length(graph))
    return np.array([[steps[a][b] for b in range(len(taxonomy))] for a in range(len(taxonomy))])


@settings(max_examples=30, deadline=None)
@given(
    trees(max_nodes=25),
    st.integers(0, 3),
    st.integers(0, 2**32),
    st.sampled_from(["nodes", "steps"]),
)
def test_nodes_are_counted_and_drawn_at_their_distance(
    taxonomy: Taxonomy, nearest: int, seed: int, draw: Literal["nodes", "steps"]
) -> None:
    sampler, distances = PairSampler(taxonomy), all_distances(taxonomy)
    for distance in range(9):
        counts = sampler.count(np.arange(len(taxonomy)), distance)
        assert counts.tolist() == (distances == distance).sum(axis=1).tolist()
    rng = np.random.default_rng(seed)
    possible = [
        [d for d in range(nearest, 8) if d in row] for row in distances[taxonomy.leaves].tolist()
    ]
    if not all(possible):
        with pytest.raises(TaxonomyError, match="no node at a distance"):
            sampler.sample(1000, rng, nearest=nearest)
        return
    pairs = sampler.sample(1000, rng, nearest=nearest, draw=draw)
    assert pairs["leaf"].isin(taxonomy.leaves).all()
    assert (distances[pairs["leaf"], pairs["node"]] == pairs["distance"]).all()
    assert pairs["distance"].between(nearest, 7).all()


def lopsided() -> Taxonomy:
    """root(0) / a(1) / aa(2), ab(3) / aba(4), abb(5); root / b(6): leaves 2, 4, 5 and 6."""
    return Taxonomy(["root", "a", "aa", "ab", "aba", "abb", "b"], [-1, 0, 1, 1, 3, 3, 0])


def test_distances_are_uniform_for_each_leaf_and_nodes_at_each_distance() -> None:
    taxonomy, n = lopsided(), 200_000
    pairs = PairSampler(taxonomy).sample(n, np.random.default_rng(0))
    distances = all_distances(taxonomy)
    expected = np.zeros((7, 7))
    for leaf in taxonomy.leaves.tolist():
        possible = sorted(set(distances[leaf].tolist()) - {0})
        for distance in possible:
            nodes = np.flatnonzero(distances[leaf] == distance)
            expected[leaf, nodes] = 1 / 4 / len(possible) / len(nodes)
    drawn = np.zeros((7, 7))
    np.add.at(drawn, (pairs["leaf"], pairs["node"]), 1 / n)
    assert expected.sum() == pytest.approx(1)
    # Four standard errors of the largest share.
    np.testing.assert_allclose(drawn, expected, atol=4 * np.sqrt(expected.max() / n))


def test_steps_up_are_uniform_where_they_are_drawn_first() -> None:
    pairs = PairSampler(lopsided()).sample(100_000, np.random.default_rng(0), draw="steps")
    # From aba two steps lead up to a, and one up and one down to abb; from aa to the root and to ab.
    # From b three steps: one way up to the root, two down to aa or ab.
    for leaf, distance, nodes in ((4, 2, [1, 5]), (2, 2, [0, 3]), (6, 3, [2, 3])):
        drawn = pairs[(pairs["leaf"] == leaf) & (pairs["distance"] == distance)]["node"]
        shares = drawn.value_counts(normalize=True)
        assert sorted(shares.index) == nodes
        np.testing.assert_allclose(shares, 0.5, atol=0.03)


def test_ancestors_only_and_up_to_the_root() -> None:
    taxonomy = lopsided()
    pairs = PairSampler(taxonomy).sample(30_000, np.random.default_rng(1), ancestors=True)
    assert taxonomy.is_ancestor(pairs["node"], pairs["leaf"]).all()
    # From a leaf to its ancestor it is as far as one is deeper than the other.
    depth = taxonomy.depth
    assert (pairs["distance"] == depth[pairs["leaf"]] - depth[pairs["node"]]).all()
    deep = pairs.loc[pairs["leaf"] == 4, "distance"].value_counts(normalize=True)
    np.testing.assert_allclose(deep[[1, 2, 3]], 1 / 3, atol=0.03)
    with_itself = PairSampler(taxonomy).sample(
        3000, np.random.default_rng(1), ancestors=True, nearest=0
    )
    same = with_itself[with_itself["distance"] == 0]
    assert len(same)
    assert (same["node"] == same["leaf"]).all()


def test_a_seed_makes_a_sample_and_a_root_alone_has_no_pair() -> None:
    sampler = PairSampler(lopsided())
    first, second, other = (sampler.sample(50, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert first.equals(second)
    assert not first.equals(other)
    with pytest.raises(TaxonomyError, match=r"no node at a distance of 1 to 7.*'life'"):
        PairSampler(Taxonomy(["life"], [-1])).sample(5, np.random.default_rng(0))


def reported(birds: Taxonomy, measures: Sequence[Measure | str], **more: Any) -> StudyReport:
    return run("correlation", taxonomy=birds, measure=measures, **{"pairs": 400, "seed": 5, **more})


class _Constant(Measure):
    """One score for all pairs but those of robins, which are unscored."""

    def scores(self, answers, references, *, questions=None) -> FloatArray:  # type: ignore[no-untyped-def]
        return np.array(
            [math.nan if "robin" in text or "migratorius" in text else 0.5 for text in references]
        )


# -- Kendall's τ ------------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
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
    assert all(
        math.isnan(kendall(x, y)["tau"])
        for x, y in (([1, 1], [1, 2]), ([1, 2], [0, 0]), ([1], [2]), ([], []))
    )


# -- the study --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", ["common", "canonical"])
def test_tau_is_that_of_all_pairs_scored_one_by_one(birds: Taxonomy, labels: str) -> None:
    measures = [make_measure("rouge-1"), make_measure("meteor")]
    pairs = draw_pairs(birds, CorrelationSettings(taxonomy=birds, pairs=400, seed=5, labels=labels))  # type: ignore[arg-type]
    scored = score_pairs(pairs, measures)
    taus = correlate(scored, measures).set_index(["measure", "metric"])["tau"]
    curves = score_curves(scored, measures)
    assert list(taus.index) == [
        (name, metric) for name in ("rouge-1", "meteor") for metric in ("hp", "hr")
    ]
    names = [
        birds.common_name(i) if labels == "common" else birds.labels[i] for i in range(len(birds))
    ]
    for metric, part in pairs.groupby("metric"):
        hp, hr = precision_recall(birds, part["node"], part["leaf"])
        values = hp if metric == "hp" else hr
        assert metric == "hp" or (hp == 1).all()
        for measure in measures:
            rows = zip(part["leaf"], part["node"], strict=True)
            scores = np.array(
                [measure.scores([names[node]], [names[leaf]])[0] for leaf, node in rows]
            )
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


class _Judge(_Constant):
    needs_questions = True


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"measure": (_Judge("judge", "Judge"),)}, "needs questions, which labels do not have"),
        ({"measure": ("lave:no/such",)}, "needs questions, which labels do not have"),
        ({"nearest": 3, "farthest": 2}, "distance must be"),
        ({"nearest": 30, "farthest": 40}, "no node at a distance"),
    ],
)
def test_what_cannot_be_correlated_is_refused(
    birds: Taxonomy, options: dict[str, Any], message: str
) -> None:
    with pytest.raises((DataError, TaxonomyError), match=message):
        run("correlation", taxonomy=birds, pairs=50, **options)


def test_the_report_stands_beside_the_paper(birds: Taxonomy, tmp_path: Path) -> None:
    file = tmp_path / "new" / "pairs.csv"
    measures = [make_measure("rouge-1"), _Constant("exact-match", "EM")]
    report = reported(birds, measures, labels="canonical", pairs=500, save_pairs=file)
    rouge, em = report.tables[0].records()
    assert [rouge[f"τ-{metric}"] for metric in ("hP paper, iNat21", "hR paper, OVEN")] == [
        0.18,
        0.21,
    ]
    assert rouge["τ-hP"] == report.data["correlations"][0]["tau"]
    assert em["τ-hP"] is None
    assert "has no correlation (–)" in report.tables[0].notes[0]
    assert sum(row["pairs"] for row in report.tables[2].records()) == 1000  # type: ignore[misc]
    # τ of the written pairs is that of the tables, and what is unscored is left out and counted.
    rows = pd.read_csv(file)
    assert len(rows) == 1000
    for one in report.data["correlations"]:
        own = rows[rows["metric"] == one["metric"]]
        scored = own.dropna(subset=[one["measure"]])
        assert one["unscored"] == len(own) - len(scored)
        assert any(f"{one['unscored']:,} of 500 pairs" in note for note in report.notes) == (
            one["unscored"] > 0
        )
        np.testing.assert_allclose(
            one["tau"], kendalltau(scored["value"], scored[one["measure"]]).statistic
        )
    for row in rows.itertuples():
        leaf, node = row.leaf.split("/"), row.node.split("/")
        shared = sum(a == b for a, b in zip(leaf, node, strict=False))
        assert row.distance == len(leaf) + len(node) - 2 * shared
        assert row.value == pytest.approx(shared / len(node if row.metric == "hp" else leaf))
        assert (row.reference, row.answer) == (leaf[-1], node[-1])


@pytest.mark.parametrize("scored", [None, "mallard"])
def test_a_measure_without_scores_is_not_drawn(
    birds: Taxonomy, tmp_path: Path, scored: str | None
) -> None:
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


def test_pairs_are_drawn_below_the_root_alone_and_counted_from_it(tmp_path: Path) -> None:
    told: dict[str, Any] = {
        "taxonomy": "builtin:fieldguide",
        "root": "Fringillidae",
        "measure": "exact-match",
    }
    report = run("correlation", **told, pairs=300, save_pairs=tmp_path / "pairs.csv")
    assert report.settings["root"] == "Aves/Passeriformes/Fringillidae"
    rows = pd.read_csv(tmp_path / "pairs.csv")
    species = ("Carduelis carduelis", "Fringilla coelebs", "Pyrrhula pyrrhula", "Spinus tristis")
    leaves = {f"Fringillidae/{name}" for name in species}
    assert (len(rows), set(rows["leaf"]), set(rows["node"])) == (
        600,
        leaves,
        {"Fringillidae", *leaves},
    )
    # Two of a family's species share the family of their two nodes; the family is right about its species.
    other = rows["node"] != "Fringillidae"
    assert (rows["distance"] == 1 + other).all()
    assert (rows["value"] == np.where(other | (rows["metric"] == "hr"), 0.5, 1.0)).all()
    assert not (other & (rows["metric"] == "hr")).any()
