"""The information-weighted scores as objectives and as records: toy runs from the recipe to the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from taxtune.metrics.information import information_scores
from taxtune.metrics.statistics import INFORMATION_METRICS
from taxtune.report.tables import rank_table
from taxtune.tracking.values import all_scores
from taxtune.tuning.build import build, tuned_for
from taxtune.tuning.history import History
from taxtune.tuning.records import TuneResult
from taxtune.tuning.run_folder import identity_of
from tests.tuning.toy import Cyclist, make_parts, tuned, with_bicycles


def tune(tmp_path: Path, *overrides: str, cyclist: bool = False) -> TuneResult:
    session = make_parts(
        tmp_path / "in", tmp_path / "out", Cyclist() if cyclist else None, overrides
    )
    if cyclist:
        session = with_bicycles(session)
    return tuned(session, tmp_path / "out")


def test_a_run_is_tuned_for_ihp_and_everything_records_it(tmp_path: Path) -> None:
    result = tune(tmp_path, "objective.kind=ihp")
    assert result.objective == "ihp"
    floor = 0.8 * result.baseline.scores.hr
    assert result.bounds == {"hr": pytest.approx(floor)}
    session = build(make_parts(tmp_path / "in", tmp_path / "other"))
    for record in result.iterations:
        scores = record.scores
        assert scores is not None
        # What is recorded is what the rows give; both levels of the tree are a bit.
        rows = [row for row in record.rows if row.node is not None]
        expected = information_scores(
            session.weights, [r.node for r in rows], [r.target for r in rows]
        )
        assert {key: getattr(scores, key) for key in expected.as_dict()} == pytest.approx(
            expected.as_dict()
        )
        assert scores.target_bits == 2
        assert scores.ihp == pytest.approx(sum(row.scores["ihp"] for row in rows) / len(rows))
        assert scores.ihr == pytest.approx(sum(row.scores["ihr"] for row in rows) / len(rows))
        assert [row.rank for row in scores.ranks] == ["level 1", "level 2"]
        assert scores.ranks[0].n_relevant == scores.ranks[1].n_relevant == 8
        assert record.value == pytest.approx(scores.ihp if record.feasible else scores.hr - floor)
        logged = all_scores(record)
        assert logged["ihp"] == scores.ihp
        assert logged["misinformation"] == scores.misinformation
        assert logged["recall.level 2"] == scores.ranks[1].recall
    winner = result.iterations[result.winner]
    assert winner.value == max(
        record.value for record in result.iterations if record.value is not None
    )
    # In the files, and read back from them.
    lines = [
        json.loads(line) for line in (tmp_path / "out" / "history.jsonl").read_text().splitlines()
    ]
    assert [line["scores"]["means"]["ihp"] for line in lines] == [
        r.scores.ihp for r in result.iterations if r.scores
    ]
    assert lines[0]["scores"]["ranks"][0] == {
        "rank": "level 1",
        "n_predicted": 8,
        "n_relevant": 8,
        "right": 8,
    }
    assert lines[0]["rows"][0]["scores"]["ihr"] is not None
    resumed = make_parts(tmp_path / "in", tmp_path / "out", overrides=("objective.kind=ihp",))
    history = History(tmp_path / "out", "toy", identity_of(build(resumed)), resume=True)
    again = history.records()
    history.close()
    assert [record.scores for record in again] == [record.scores for record in result.iterations]
    # On the held-out images: with intervals, paired differences, and the ranks with intervals.
    for held in result.heldout:
        assert set(INFORMATION_METRICS) <= set(held.intervals)
        assert held.intervals["ihp"].low <= held.scores.ihp <= held.intervals["ihp"].high
        assert [row.scores.rank for row in held.ranks] == ["level 1", "level 2"]
    rows = [row for row in rank_table(result).rows if row[2] == "precision"]
    assert [row[0] for row in rows] == ["level 1", "level 1", "level 2", "level 2"]
    assert [row[4] for row in rows[:2]] == [held.ranks[0].precision.low for held in result.heldout]
    assert set(INFORMATION_METRICS) <= set(result.differences[0].metrics)


def test_frequencies_of_the_recipe_weigh_the_nodes(tmp_path: Path) -> None:
    overrides = ("taxonomy.frequencies=counts.csv",)
    make_parts(tmp_path / "in", tmp_path / "out")
    counts = tmp_path / "in" / "counts.csv"
    counts.write_text("node,count\nscarlet,6\ncrimson,2\nnavy,4\nazure,4\n")
    session = build(make_parts(tmp_path / "in", tmp_path / "out", overrides=overrides))
    assert session.weights.content[session.taxonomy.resolve("crimson")] == 3
    assert session.evaluator(None).information is session.weights
    goal = tuned_for(session, "ihp").goal()
    assert (goal.trivial_ihp, goal.trivial_ihr) == (1, 0)
    # The weights are part of what a run is; by the leaves they follow from the tree and are not named.
    identity = identity_of(session)
    assert "weights" in identity
    counts.write_text("node,count\nscarlet,7\ncrimson,1\nnavy,4\nazure,4\n")
    changed = make_parts(tmp_path / "in", tmp_path / "out", overrides=overrides)
    counts.write_text("node,count\nscarlet,7\ncrimson,1\nnavy,4\nazure,4\n")
    assert identity_of(build(changed))["weights"] != identity["weights"]
    plain = make_parts(tmp_path / "in", tmp_path / "out")
    assert "weights" not in identity_of(build(plain))
    overrides = ("taxonomy.frequencies=targets",)
    by_targets = build(make_parts(tmp_path / "in", tmp_path / "out", overrides=overrides))
    assert by_targets.weights.as_dict()["p"] == "targets"
