"""`taxtune tune`, `evaluate` and `compare` as a user runs them, on the embedded field guide; and processes that die."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from functools import partial

import pytest

from tests.cli.commands import run_captured, run_json, run_well
from tests.cli.processes import Started

TUNING = 12
HELDOUT = 30
ITERATIONS = 4
# Small enough for a test, and batches small enough for a run to be stopped in the middle of an iteration.
SMALL = {
    "data.count": 60,
    "data.tuning": TUNING,
    "data.first_rung": "null",  # every iteration asks all of them
    "data.heldout": HELDOUT,
    "objective.kind": "hp",
    "iterations": ITERATIONS,
    "vlm.batch_size": 4,
}


SETTINGS = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]


def taxtune(*arguments, folder):
    """Runs taxtune in this process, which must end well; returns its JSON."""
    return run_json(*arguments, *SETTINGS, folder=folder)


def query(file, sql):
    """Reads a database that another process is writing; nothing where it is not there yet."""
    if not file.exists():
        return []
    try:
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as connection:
            return connection.execute(sql).fetchall()
    except sqlite3.OperationalError:
        return []


def answered(folder):
    return query(
        folder.parent / "answers.db", "SELECT key, answer, created FROM answers ORDER BY key"
    )


def proposed(folder):
    proposals = "SELECT 1 FROM trial_user_attributes WHERE key = 'proposal'"
    return len(query(folder / "history.db", proposals))


def finished(folder):
    records = "SELECT 1 FROM study_user_attributes WHERE key LIKE 'record:%'"
    return len(query(folder / "history.db", records))


def kill(process, due):
    """Kills a process when it is due."""
    while not due():
        assert process.poll() is None, f"it ended before it could be stopped: {process.wait().err}"
        time.sleep(0.005)
    process.kill()
    assert process.wait().code == -signal.SIGKILL


def history(folder):
    """The history without what depends on the clock and on what the store already knew."""
    records = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    for record in records:
        del record["usage"]
        for row in record["rows"]:
            del row["from_store"]
    return records


def recorded(folder):
    """The parent and the nested runs of the MLflow store in a folder."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    runs = client.search_runs([e.experiment_id for e in client.search_experiments()])
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    nested = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    return parents, sorted(nested, key=lambda run: str(run.info.run_name))


HP_AND_ACCURACY = ("--objective", "hp", "--objective", "accuracy")


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A whole comparison, and its result as the command printed it."""
    folder = tmp_path_factory.mktemp("compared")
    options = ("--out", "out", "--set", "tracking.mlflow=false")
    result = taxtune("compare", "fieldguide", *HP_AND_ACCURACY, *options, folder=folder)
    return folder / "out", result


def test_compare_prints_pure_json_and_leaves_what_people_read(
    compared,
):
    out, result = compared
    assert [run["objective"] for run in result["runs"]] == ["hp", "accuracy"]
    shown = ("report.html", "hp_hr.png", "hp_hr.svg", "result.json")
    for name in (*shown, "winner-hp.j2", "winner-accuracy.j2"):
        assert (out / name).stat().st_size > 0, name
    assert json.loads((out / "result.json").read_text())["differences"] == result["differences"]
    baselines = []
    for objective in ("hp", "accuracy"):
        for name in (*shown, "history.jsonl", "winner.j2", "winner.txt"):
            assert (out / objective / name).stat().st_size > 0, name
        records = history(out / objective)
        assert [record["iteration"] for record in records] == [0, 1, 2, 3, 4]
        baselines.append(records[0] | {"value": 0})
    assert baselines[0] == baselines[1]


def test_the_winners_are_good_at_what_they_were_tuned_for(
    compared,
):
    _, result = compared
    held = {entry["name"]: entry["scores"]["means"] for entry in result["heldout"]}
    assert held["hp"]["hp"] > held["baseline"]["hp"]
    assert held["hp"]["hp"] > held["accuracy"]["hp"]
    assert held["accuracy"]["accuracy"] > held["hp"]["accuracy"]
    differences = {(each["name"], each["other"]): each["metrics"] for each in result["differences"]}
    difference = differences["hp", "baseline"]["hp"]
    assert difference["low"] <= difference["difference"] <= difference["high"]
    assert difference["difference"] == pytest.approx(held["hp"]["hp"] - held["baseline"]["hp"])


def test_the_comparison_asks_every_question_once(compared):
    out, result = compared
    templates = {kind: {r["template"] for r in history(out / kind)} for kind in ("hp", "accuracy")}
    held = {entry["template"] for entry in result["heldout"]}
    tuned = templates["hp"] | templates["accuracy"]
    assert len(answered(out)) == TUNING * len(tuned) + HELDOUT * len(held)
    # The accuracy run finds the baseline, and whatever the other run has asked, in the store.
    usage = result["runs"][1]["iterations"][0]["usage"]["vlm"]
    assert (usage["calls"], usage["from_store"]) == (0, TUNING)


def test_evaluate_finds_the_winner_as_compare_left_it(
    compared,
):
    out, result = compared
    before = answered(out)
    arguments = ("evaluate", "fieldguide", "--template", out / "winner-hp.j2", "--out", out)
    again = taxtune(*arguments, folder=out)
    held = {entry["name"]: entry["scores"] for entry in result["heldout"]}
    evaluated = {entry["name"]: entry["scores"] for entry in again["heldout"]}
    assert evaluated == {"baseline": held["baseline"], "template": held["hp"]}
    assert answered(out) == before
    shown = run_well(*arguments, *SETTINGS, "--split", "tuning", folder=out).out
    assert f"On {TUNING} tuning images" in shown


def test_evaluate_sets_several_templates_side_by_side_under_their_names(
    compared,
):
    out, _ = compared
    seeds = ("--template", "builtin:paper1-minimal", "--template", "builtin:paper1-question-answer")
    result = taxtune("evaluate", "fieldguide", *seeds, "--out", out, folder=out)
    names = ["baseline", "paper1-minimal", "paper1-question-answer"]
    assert [entry["name"] for entry in result["heldout"]] == names
    pairs = [(each["name"], each["other"]) for each in result["differences"]]
    assert ("paper1-question-answer", "paper1-minimal") in pairs
    folder = out / "evaluated" / "paper1-minimal-paper1-question-answer"
    options = ("-t", "builtin:fieldguide", "--baseline", "paper1-minimal")
    study = run_json("study", "prompts", f"fieldguide={folder}", *options)
    assert [row["prompt"] for row in study["tables"]["prompts"]] == names


def test_a_dry_run_counts_the_calls_and_writes_nothing(tmp_path):
    plan = taxtune("compare", "fieldguide", "--dry-run", folder=tmp_path)
    assert [goal["objective"] for goal in plan["goals"]] == ["hr_at_hp", "accuracy"]
    # The baseline is asked once; each run asks about its own templates; three templates meet the
    # held-out images.
    assert plan["vlm_calls"] == TUNING * (1 + 2 * ITERATIONS) + HELDOUT * 3
    assert (plan["llm_calls"], plan["problems"]) == (0, [])
    assert list(tmp_path.iterdir()) == []


def test_tune_takes_an_objective_as_compare_does(tmp_path):
    dry = ("tune", "fieldguide", "--dry-run", "--objective")
    (accuracy,) = taxtune(*dry, "accuracy", folder=tmp_path)["goals"]
    assert accuracy["objective"] == "accuracy"
    (aurc,) = run_json(*dry, "aurc", folder=tmp_path)["goals"]
    assert (aurc["measure"], aurc["constraints"][0]["measure"]) == ("selective_hp", "hr")
    wrong = run_captured(*dry, "accuracyy", folder=tmp_path)
    assert wrong.code == 2
    assert "Did you mean 'accuracy'?" in wrong.err
    several = run_captured(*dry, "hp", "--objective", "accuracy", folder=tmp_path)
    assert several.code == 2
    assert "use `taxtune compare`" in several.err


# A point that is missed by a moment is a later point, which must do as well.
POINTS = [
    lambda out: len(answered(out)) >= 4,  # within the baseline
    lambda out: proposed(out) >= 3,  # between propose and ask
    lambda out: finished(out) >= 4,  # between two iterations
    # within the held-out split
    lambda out: finished(out) == 5 and len(answered(out)) >= TUNING * 5 + 8,
]


@pytest.mark.heavy
def test_a_run_killed_again_and_again_goes_on_as_if_nothing_had_been(compared, tmp_path):
    out = tmp_path / "out"
    arguments = ("tune", "fieldguide", "--out", out, "--resume")
    before = set()
    for due in POINTS:
        kill(Started(*arguments, *SETTINGS, folder=tmp_path), partial(due, out))
        # What was answered is there unchanged, so it was not asked again.
        assert before <= set(answered(out))
        before = set(answered(out))
    parent = [run.info.run_id for run in recorded(out)[0]]
    result = taxtune(*arguments, folder=tmp_path)
    # The hP run of the comparison is the same run, uninterrupted.
    assert history(out) == history(compared[0] / "hp")
    assert result["heldout"][1]["scores"] == compared[1]["runs"][0]["heldout"][1]["scores"]
    assert before <= set(answered(out))
    templates = {entry["template"] for entry in result["heldout"]}
    assert len(answered(out)) == TUNING * 5 + HELDOUT * len(templates)
    parents, nested = recorded(out)
    assert [run.info.run_id for run in parents] == parent
    names = ["baseline", *(f"iteration {number:02d}" for number in range(1, 5))]
    assert [run.info.run_name for run in nested] == names
    assert {run.info.status for run in parents + nested} == {"FINISHED"}
