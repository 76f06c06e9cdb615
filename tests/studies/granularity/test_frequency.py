from __future__ import annotations

import json
import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from taxtune.metrics.statistics import Interval
from taxtune.report.drawing import save_figure
from taxtune.studies.granularity.captions import count_captions
from taxtune.studies.granularity.figure import draw_frequency
from taxtune.studies.granularity.frequency import (
    compared,
    correlate,
    frequency_gaps,
    frequency_report,
    mean_of_leaves,
)
from taxtune.studies.granularity.study import QUANTITIES, Granularity
from taxtune.taxonomy import Taxonomy
from taxtune.taxonomy.label_graph import LabelGraph

#: thing / animal (cat / (lion, tiger), dog), food (apple, bread); "dog" and the foods are leaves.
TREE = Taxonomy(
    ["thing", "animal", "food", "cat", "dog", "apple", "bread", "lion", "tiger"], [-1, 0, 0, 1, 1, 2, 2, 3, 3]
)
GRAPH = LabelGraph.of(TREE)
CAPTIONS = ["a lion", "lions", "a lion and a tiger", "a cat", "a dog", "bread", "food: bread", "some bread", "nothing"]


def result(raw: dict[str, float], leaf: dict[str, float], *, everywhere: tuple[str, ...] = ("thing",)) -> Granularity:
    """Average precisions as they might be: of 10 images all show `everywhere`."""
    n = len(TREE)
    values = np.full((2, n), np.nan)
    for row, given in enumerate((raw, leaf)):
        for label, value in given.items():
            values[row, TREE.labels.index(label)] = value
    is_leaf = np.zeros(n, dtype=bool)
    is_leaf[TREE.leaves] = True
    shown = np.array([10 if label in everywhere else 3 for label in TREE.labels])
    return Granularity(
        "made",
        10,
        values[0],
        values[1],
        values[1],
        shown,
        is_leaf & np.isfinite(values[0]),
        ~is_leaf & np.isfinite(values[0]),
        {name: Interval(0.5, 0.4, 0.6) for name in QUANTITIES},
        (),
    )


def test_gaps_by_hand() -> None:
    counts = count_captions(CAPTIONS, TREE).counts
    assert counts.tolist() == [0, 0, 1, 1, 1, 0, 3, 3, 1]
    assert mean_of_leaves(GRAPH, counts).tolist() == [
        pytest.approx((1 + 0 + 3 + 3 + 1) / 5),
        pytest.approx((1 + 3 + 1) / 3),
        1.5,
        2,
        *counts[4:],
    ]
    gaps = frequency_gaps(GRAPH, counts)
    assert gaps[:4] == pytest.approx(
        [math.log10(2.6), math.log10(5 / 3 + 1), math.log10(2.5 / 2), math.log10(3 / 2)], abs=1e-12
    )
    assert np.isnan(gaps[4:]).all()


def test_the_correlation_is_that_of_the_ancestors() -> None:
    made = result(
        {"thing": 1, "animal": 0.2, "food": 0.5, "cat": 0.4, "dog": 0.9},
        {"thing": 1, "animal": 0.7, "food": 0.4, "cat": 0.5, "dog": 0.9},
    )
    counts = count_captions(CAPTIONS, TREE)
    assert compared(made).tolist() == [False, True, True, True] + [False] * 5
    found = correlate(made, GRAPH, counts)
    gaps = [math.log10(8 / 3), math.log10(1.25), math.log10(1.5)]
    gains = [0.5, -0.1, 0.1]
    assert found.ancestors == 3
    # The covariance over the deviations, from the definition.
    x, y = np.array(gaps) - np.mean(gaps), np.array(gains) - np.mean(gains)
    assert found.pearson == pytest.approx(float((x * y).sum() / math.sqrt((x * x).sum() * (y * y).sum())))
    # Student's t on n − 2 degrees of freedom.
    t = found.pearson * math.sqrt(1 / (1 - found.pearson**2))
    assert found.pearson_p == pytest.approx(2 * stats.t.sf(abs(t), 1))
    assert found.spearman == pytest.approx(1)
    assert found.undefined is None


@pytest.mark.parametrize(
    ("raw", "leaf", "captions", "said"),
    [
        ({"animal": 0.2, "food": 0.1}, {"animal": 0.3, "food": 0.1}, CAPTIONS, "2 ancestors with"),
        ({"animal": 0.2}, {"animal": 0.3}, CAPTIONS, "1 ancestor with"),
        ({}, {}, CAPTIONS, "0 ancestors with"),
        (
            {"animal": 0.2, "food": 0.1, "cat": 0.3},
            {"animal": 0.3, "food": 0.4, "cat": 0.9},
            ["animal and food and cat and dog and apple and bread and lion and tiger"],
            "gap is the same for all",
        ),
        (
            {"animal": 0.2, "food": 0.1, "cat": 0.3},
            {"animal": 0.3, "food": 0.1 + 0.1, "cat": 0.4},
            CAPTIONS,
            "all ancestors gain the same",
        ),
    ],
)
def test_where_there_is_none_it_is_said(
    raw: dict[str, float], leaf: dict[str, float], captions: list[str], said: str, tmp_path: Path
) -> None:
    made, counts = result(raw, leaf), count_captions(captions, TREE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = correlate(made, GRAPH, counts)
        report = frequency_report(counts, GRAPH, {}, [made])
        record = report.as_json()
        save_figure(report.figures["granularity-frequency"], tmp_path / "f")
    assert said in (found.undefined or "")
    row = record["tables"]["frequency-correlation"][0]
    assert [row[name] for name in ("Pearson r", "p of r", "Spearman ρ", "p of ρ")] == [None] * 4
    assert any(f"No correlation: {found.undefined}." == note for note in record["notes"])
    assert "NaN" not in json.dumps(record)


def test_the_report_without_scores() -> None:
    counts = count_captions([*CAPTIONS, "", "a breadcrumb"], TREE)
    report = frequency_report(counts, GRAPH, {"seed": 0})
    levels, gaps = report.tables
    assert [(row["level"], row["labels"], row["leaves"], row["mean"], row["median"]) for row in levels.records()] == [
        (0, 1, 0, 0, 0),
        (1, 2, 0, 0.5, 0.5),
        (2, 4, 3, 1.25, 1),
        (3, 2, 2, 2, 2),
    ]
    assert [row["never named (%)"] for row in levels.records()] == [100, 50, 25, 0]
    assert [row["ancestor"] for row in gaps.records()] == ["animal", "thing", "cat", "food"]
    assert gaps.title.startswith("All ancestors")
    assert any("1 caption left out: it is empty" in note for note in report.notes)
    assert report.as_json()["frequency"]["naming"] == 8


def test_a_tree_of_many_ancestors_shows_both_ends() -> None:
    n = 40
    labels = ["root", *(f"group{i}" for i in range(n)), *(f"fine{i}" for i in range(n))]
    tree = Taxonomy(labels, [-1, *[0] * n, *range(1, n + 1)])
    captions = [f"group{i}" for i in range(n) for _ in range(i)] + [f"fine{i}" for i in range(n)] * 20
    rows = frequency_report(count_captions(captions, tree), LabelGraph.of(tree), {}).tables[1].records()
    assert len(rows) == 20
    assert [row["ancestor"] for row in rows[:3]] == ["root", "group0", "group1"]
    assert rows[-1]["ancestor"] == "group39"
    assert rows[-1]["gap"] == pytest.approx(math.log10(21) - math.log10(n))


def test_several_score_files_have_a_row_and_a_figure_each() -> None:
    made = [
        result({"animal": 0.2, "food": 0.1, "cat": 0.3}, {"animal": 0.5, "food": 0.1, "cat": high})
        for high in (0.3, 0.9)
    ]
    counts = count_captions(CAPTIONS, TREE)
    report = frequency_report(counts, GRAPH, {}, made)
    tables = {table.name: table for table in report.tables}
    assert len(tables["frequency-correlation"].rows) == 2
    assert set(report.figures) >= {"granularity-frequency-1", "granularity-frequency-2"}
    assert len(report.as_json()["frequency"]["correlations"]) == 2


def test_the_figure_shows_every_label_and_every_ancestor(tmp_path: Path) -> None:
    made = result({"animal": 0.2, "food": 0.5, "cat": 0.4}, {"animal": 0.7, "food": 0.4, "cat": 0.5})
    counts = count_captions(CAPTIONS, TREE)
    figure = draw_frequency(counts, GRAPH, made, correlate(made, GRAPH, counts))
    left, right = figure.axes
    heights = np.concatenate([np.asarray(points.get_offsets())[:, 1] for points in left.collections[:2]])
    assert sorted(heights.tolist()) == sorted(counts.counts.tolist())
    points = np.asarray(right.collections[0].get_offsets())
    assert sorted(points[:, 1].tolist()) == pytest.approx([-10, 10, 50])
    assert "3 ancestors: r = " in right.get_title(loc="left")
    once, twice = (
        save_figure(lambda: draw_frequency(counts, GRAPH, None, None), tmp_path / name)[1].read_bytes()
        for name in ("a", "b")
    )
    assert once == twice
