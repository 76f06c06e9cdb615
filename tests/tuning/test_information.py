"""The information-weighted scores as objectives and records: a toy run, from recipe to report."""

from __future__ import annotations

import json

import pytest

from taxtune.metrics.information import information_scores
from taxtune.metrics.statistics import INFORMATION_METRICS
from taxtune.report.tables import rank_table
from taxtune.tracking.values import all_scores
from taxtune.tuning.build import build, tuned_for
from taxtune.tuning.history import History
from taxtune.tuning.run_folder import identity_of
from tests.tuning.toy import make_parts, tuned


def built(tmp_path, *overrides):
    return build(make_parts(tmp_path / "in", tmp_path / "out", overrides=overrides))


def test_a_run_is_tuned_for_ihp_and_everything_records_it(tmp_path):
    overrides = ("objective.kind=ihp",)
    result = tuned(make_parts(tmp_path / "in", tmp_path / "out", overrides=overrides))
    assert result.objective == "ihp"
    floor = 0.8 * result.baseline.scores.hr
    assert result.bounds == {"hr": pytest.approx(floor)}
    weights = built(tmp_path).weights
    for record in result.iterations:
        scores = record.scores
        assert scores is not None
        # What is recorded is what the rows give; both levels of the tree are a bit.
        rows = [row for row in record.rows if row.node is not None]
        nodes = [row.node for row in rows]
        targets = [row.target for row in rows]
        expected = information_scores(weights, nodes, targets).as_dict()
        assert {name: scores.means[name] for name in expected} == pytest.approx(expected)
        assert scores.target_bits == 2
        for name in ("ihp", "ihr"):
            mean = sum(row.scores[name] for row in rows) / len(rows)
            assert scores.means[name] == pytest.approx(mean)
        assert [row.rank for row in scores.ranks] == ["level 1", "level 2"]
        assert scores.ranks[0].n_relevant == scores.ranks[1].n_relevant == 8
        assert record.value == pytest.approx(scores.ihp if record.feasible else scores.hr - floor)
        logged = all_scores(record)
        assert logged["ihp"] == scores.ihp
        assert "target_bits" not in logged
        assert logged["misinformation"] == scores.misinformation
        assert logged["recall.level 2"] == scores.ranks[1].recall
    values = [record.value for record in result.iterations if record.value is not None]
    assert result.iterations[result.winner].value == max(values)
    # In the files, and read back from them.
    lines = (tmp_path / "out" / "history.jsonl").read_text().splitlines()
    written = [json.loads(line) for line in lines]
    for line, record in zip(written, result.iterations, strict=True):
        assert line["scores"]["means"]["ihp"] == record.scores.ihp
    first = written[0]["scores"]["ranks"][0]
    assert first == {"rank": "level 1", "n_predicted": 8, "n_relevant": 8, "right": 8}
    assert written[0]["rows"][0]["scores"]["ihr"] is not None
    resumed = built(tmp_path, *overrides)
    history = History(tmp_path / "out", "toy", identity_of(resumed), resume=True)
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


def test_frequencies_of_the_recipe_weigh_the_nodes(tmp_path):
    overrides = ("taxonomy.frequencies=counts.csv",)
    counts = tmp_path / "in" / "counts.csv"
    counts.parent.mkdir()
    counts.write_text("node,count\nscarlet,6\ncrimson,2\nnavy,4\nazure,4\n")
    session = built(tmp_path, *overrides)
    assert session.weights.content[session.taxonomy.resolve("crimson")] == 3
    assert session.evaluator(None).information is session.weights
    goal = tuned_for(session, "ihp").goal()
    assert (goal.trivial_ihp, goal.trivial_ihr) == (1, 0)
    # The weights are part of what a run is; those by leaves follow from the tree.
    identity = identity_of(session)
    assert "weights" in identity
    counts.write_text("node,count\nscarlet,7\ncrimson,1\nnavy,4\nazure,4\n")
    changed = built(tmp_path, *overrides)
    assert identity_of(changed)["weights"] != identity["weights"]
    assert "weights" not in identity_of(built(tmp_path))
    by_targets = built(tmp_path, "taxonomy.frequencies=targets")
    assert by_targets.weights.as_dict()["p"] == "targets"
