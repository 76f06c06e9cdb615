"""The information-weighted scores as objectives and as records: toy runs from the recipe to the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from taxtune.metrics.information import information_scores
from taxtune.metrics.statistics import INFORMATION_METRICS
from taxtune.report.scores import rank_table
from taxtune.tracking.values import all_scores
from taxtune.tuning.history import History
from taxtune.tuning.objective import Aims, make_objective, read_floor
from taxtune.tuning.records import TemplateScores, TuneResult
from tests.tuning.toy import BicycleMapper, Cyclist, make_parts, tuned


def tune(tmp_path: Path, *overrides: str, cyclist: bool = False) -> TuneResult:
    session = make_parts(tmp_path / "in", tmp_path / "out", Cyclist() if cyclist else None, overrides)
    if cyclist:
        session.mapper = session.given["mapper"] = BicycleMapper(session.taxonomy, config=session.mapper.config)
    return tuned(session, tmp_path / "out")


def test_a_run_is_tuned_for_ihp_and_everything_records_it(tmp_path: Path) -> None:
    result = tune(tmp_path, "objective.kind=ihp")
    assert result.objective == "ihp"
    floor = 0.8 * result.baseline.scores.hr
    assert result.bounds == {"hr": pytest.approx(floor)}
    session = make_parts(tmp_path / "in", tmp_path / "other")
    for record in result.iterations:
        scores = record.scores
        assert scores is not None
        # What is recorded is what the rows give; both levels of the tree are a bit.
        rows = [row for row in record.rows if row.node is not None]
        expected = information_scores(session.weights, [r.node for r in rows], [r.target for r in rows])
        assert {key: getattr(scores, key) for key in expected.as_dict()} == pytest.approx(expected.as_dict())
        assert scores.target_bits == 2
        assert scores.ihp == pytest.approx(sum(row.ihp or 0 for row in rows) / len(rows))
        assert scores.ihr == pytest.approx(sum(row.ihr or 0 for row in rows) / len(rows))
        assert [row.rank for row in scores.ranks] == ["level 1", "level 2"]
        assert scores.ranks[0].n_relevant == scores.ranks[1].n_relevant == 8
        assert record.value == pytest.approx(scores.ihp if record.feasible else scores.hr - floor)
        logged = all_scores(record)
        assert logged["ihp"] == scores.ihp
        assert logged["misinformation"] == scores.misinformation
        assert logged["recall.level 2"] == scores.ranks[1].recall
    winner = result.iterations[result.winner]
    assert winner.value == max(record.value for record in result.iterations if record.value is not None)
    # In the files, and read back from them.
    lines = [json.loads(line) for line in (tmp_path / "out" / "history.jsonl").read_text().splitlines()]
    assert [line["scores"]["ihp"] for line in lines] == [r.scores.ihp for r in result.iterations if r.scores]
    assert lines[0]["scores"]["ranks"][0] == {"rank": "level 1", "n_predicted": 8, "n_relevant": 8, "right": 8}
    assert lines[0]["rows"][0]["ihr"] is not None
    resumed = make_parts(tmp_path / "in", tmp_path / "out", overrides=("objective.kind=ihp",))
    history = History(tmp_path / "out", "toy", resumed.tuned_for().identity(), resume=True)
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
    session = make_parts(tmp_path / "in", tmp_path / "out", overrides=overrides)
    counts = tmp_path / "in" / "counts.csv"
    counts.write_text("node,count\nscarlet,6\ncrimson,2\nnavy,4\nazure,4\n")
    assert session.weights.content[session.taxonomy.resolve("crimson")] == 3
    assert session.tuned_for().evaluator(None).information is session.weights
    goal = session.tuned_for("ihp").goal()
    assert (goal.trivial_ihp, goal.trivial_ihr) == (1, 0)
    # The weights are part of what a run is; by the leaves they follow from the tree and are not named.
    identity = session.tuned_for().identity()
    assert "weights" in identity
    counts.write_text("node,count\nscarlet,7\ncrimson,1\nnavy,4\nazure,4\n")
    changed = make_parts(tmp_path / "in", tmp_path / "out", overrides=overrides)
    counts.write_text("node,count\nscarlet,7\ncrimson,1\nnavy,4\nazure,4\n")
    assert changed.tuned_for().identity()["weights"] != identity["weights"]
    plain = make_parts(tmp_path / "in", tmp_path / "out")
    assert "weights" not in plain.tuned_for().identity()
    by_targets = make_parts(tmp_path / "in", tmp_path / "out", overrides=("taxonomy.frequencies=targets",))
    assert by_targets.weights.as_dict()["p"] == "targets"


def scores(ihp: float | None, ihr: float, hr: float = 0.6) -> TemplateScores:
    return TemplateScores(0.9, hr, 0.72, 0.5, 3.0, 20, ihp=ihp, ihr=ihr, ihf=0.5)


def test_ihp_orders_by_floor_then_ihp_then_ihr() -> None:
    objective = make_objective("ihp", aims=Aims(read_floor(0.51)))
    trivial = scores(1.0, 0.0, hr=0.5)
    assert not objective.feasible(trivial)
    values = [objective.value(found) for found in (trivial, scores(0.7, 0.9), scores(0.8, 0.2), scores(0.8, 0.3))]
    assert values == sorted(values)
    assert values[0] < 0
    without_a_floor = make_objective("ihf", aims=Aims(read_floor(0.7)))
    assert not without_a_floor.constraints
    assert without_a_floor.value(scores(0.8, 0.3)) == 0.5
