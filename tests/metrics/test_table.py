"""The table of scores: means, what follows from them, parts and differences.

And a score of one's own.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taxtune.metrics.groups import Groups
from taxtune.metrics.hierarchical import score
from taxtune.metrics.information import information_scores, leaf_information
from taxtune.metrics.statistics import (
    INFORMATION_METRICS,
    METRICS,
    bootstrap,
    hierarchical_sample,
)
from taxtune.metrics.table import (
    CONFIDENCE,
    SCORES,
    Predictions,
    Score,
    ScoreTable,
    with_derived,
)
from taxtune.objective import Objective
from taxtune.report.summary import summarise
from taxtune.report.tables import score_table
from taxtune.tracking.values import all_scores, write_result
from tests.rows import placed_row, sample_row
from tests.tuning.toy import make_parts, tuned

NAN = float("nan")


def predictions(tree, seed=0, n=60):
    """Random answers, some of them off the tree."""
    rng = np.random.default_rng(seed)
    nodes, target = rng.integers(0, len(tree), (2, n))
    off_tree = rng.random(n) < 0.1
    nodes[off_tree] = tree.root
    return Predictions(leaf_information(tree), nodes, target, off_tree)


def test_means_are_the_scores_of_a_set(birds):
    at = predictions(birds)
    means = at.table().means()
    on_paths = score(birds, at.nodes, at.target, off_tree=at.off_tree)
    in_bits = information_scores(at.information, at.nodes, at.target, off_tree=at.off_tree)
    expected = on_paths.as_dict() | in_bits.as_dict()
    del expected["n"]
    assert means == expected, "to the last digit"


def test_intervals_are_those_of_the_samples_of_nodes(birds):
    at = predictions(birds)
    found = at.table().intervals(seed=3)
    on_paths = hierarchical_sample(birds, at.nodes, at.target, off_tree=at.off_tree)
    expected = bootstrap(on_paths, seed=3)
    assert {name: found[name] for name in METRICS} == expected, "the same draws"
    assert tuple(found) == (*METRICS, *INFORMATION_METRICS)


def test_a_column_has_the_score_as_its_mean_and_nothing_where_there_is_no_answer(
    birds,
):
    answered = [placed_row(birds, node, 2, confidence=0.5 + node / 20) for node in range(5)]
    rows = [answered[0].values, sample_row(failure="timed out").values]
    rows += [row.values for row in answered[1:]]
    found = ScoreTable.of_rows(rows)
    means = found.means()
    assert set(means) == set(SCORES)
    for name, mean in means.items():
        column = found.column(name)
        assert np.isnan(column).tolist() == [False, True, False, False, False, False]
        assert np.nanmean(column) == pytest.approx(mean)
    assert np.isnan(found.column("unheard of")).all()
    half = found.part(slice(0, 3)).means()
    assert half == ScoreTable.of_rows(rows[:3]).means()


def test_differences_are_over_the_images_that_have_a_value_in_both():
    rows = [{"hp": 1.0, "hr": 1.0, "own": own, "other": None} for own in (1.0, None, 3.0)]
    first = ScoreTable.of_rows(rows)
    rows = [{"hp": 0.5, "hr": 1.0, "own": own, "other": None} for own in (0.5, 1.0, 2.5)]
    changes = first.differences(ScoreTable.of_rows(rows), seed=0)
    assert changes["hp"].difference == changes["own"].difference == 0.5
    assert "other" not in changes


@settings(max_examples=8)
@given(st.integers(0, 10_000), st.sampled_from([2, 4]))
def test_images_that_are_there_twice_say_what_they_say_once(seed, times):
    rng = np.random.default_rng(seed)
    n = 12
    order = rng.permutation(np.repeat(np.arange(n), times))
    groups = Groups.of([f"burst {i}" for i in order])
    _, places = np.unique(groups.numbers, return_index=True)
    first = order[places]
    alone = []
    together = []
    for _ in range(2):
        rows = rows_of(rng, n)
        once = ScoreTable.of_rows([rows[i] for i in first])
        often = ScoreTable.of_rows([rows[i] for i in order])
        alone.append(once)
        together.append(often.grouped(groups))
    singles = Groups.of([""] * n)
    for once, often in zip(alone, together, strict=True):
        assert once.grouped(singles) is once
        assert len(often) == n
        check_same(often.means(), once.means())
        ends = once.intervals(seed=1, resamples=50)
        check_same(often.intervals(seed=1, resamples=50), ends)
    first, second = alone
    expected = first.differences(second, seed=1)
    first, second = together
    check_same(first.differences(second, seed=1), expected)


def check_same(found, expected):
    """Scores are the same, but for those of the surest: they are others where each is there twice."""
    found.pop("selective_hp")
    expected.pop("selective_hp")
    assert repr(found) == repr(expected)


def rows_of(rng, n):
    """The values of random answers on a tree of a few levels."""
    rows = []
    for length, shared, true in rng.integers(1, 4, (n, 3)):
        right = min(length, shared, true)
        row = {"hp": right / length, "hr": right / true}
        row["depth"] = length - 1.0
        row[CONFIDENCE] = rng.integers(3) / 2
        row["own"] = rng.integers(4) / 2
        rows.append(row)
    return rows


def test_a_group_is_as_exact_as_its_images(birds):
    rows = [placed_row(birds, node, 2).values for node in (2, 1, 2)]
    groups = Groups.of(["a", "a", ""])
    table = ScoreTable.of_rows(rows).grouped(groups)
    assert table.column("accuracy").tolist() == [0.5, 1.0]
    first, second, third = (row["hr"] for row in rows)
    burst = (first + second) / 2
    assert table.means()["hr"] == pytest.approx((burst + third) / 2)


def test_what_follows_from_means_is_made_anew_and_keeps_its_place():
    means = with_derived({"own": 2.0, "hr": 0.5, "hp": 1.0, "hf": 0.1})
    assert list(means) == ["hp", "hr", "hf", "own"]
    assert means["hf"] == pytest.approx(2 / 3)


def test_one_entry_adds_a_score_to_all_that_is_recorded_and_shown(tmp_path, monkeypatch):
    def first_step(at):
        n_predicted, n_shared, _ = at.lengths
        return ((n_shared > 1) & (n_predicted > 1)).astype(float)

    monkeypatch.setitem(SCORES, "first_step", Score(label="first step", of_nodes=first_step))
    parts = make_parts(tmp_path / "in", tmp_path / "out", overrides=("iterations=2",))
    objective = Objective("own", lambda scores: scores.first_step, shown=("first_step",))
    run = tuned(parts, objective=objective)
    for record in run.iterations:
        steps = [row.scores["first_step"] for row in record.rows]
        assert record.value == record.scores.first_step == pytest.approx(np.mean(steps))
        assert all_scores(record)["first_step"] == record.value
    values = [record.value for record in run.iterations]
    assert run.to_frame()["first_step"].tolist() == values
    assert len(run.answers("winner")["first_step"]) == len(run.heldout_winner.rows)
    held = run.heldout_winner
    assert held.intervals["first_step"].estimate == held.scores.first_step
    assert "first_step" in run.differences[0].metrics
    assert "first step" in {row[0] for row in score_table(run).rows}
    assert summarise(run).scores["first_step"] == "first step"
    write_result(tmp_path, run, {})
    assert "first step" in (tmp_path / "heldout.json").read_text()
    assert '"first_step"' in (tmp_path / "out" / "history.jsonl").read_text()


def test_the_row_of_a_failed_call_has_the_columns_of_an_answer_in_their_order(birds):
    failed = sample_row(failure="timed out").as_row()
    assert failed["hp"] is None
    columns = list(placed_row(birds, 1, 2).as_row())
    assert [name for name in columns if name in failed] == list(failed)
    assert columns[:5] == ["example", "image", "target", "truth", "answer"]
