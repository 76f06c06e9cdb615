"""`taxtune calibrate` on a run of the embedded field guide."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from taxtune.fieldguide import MANIFEST_FILE
from tests.cli.commands import run_captured

SMALL = (
    "data.count=40",
    "data.tuning=6",
    "data.first_rung=6",
    "data.heldout=6",
    "iterations=1",
    "tracking.mlflow=false",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    done = run_captured(
        "tune", "fieldguide", *(f"--set={each}" for each in SMALL), "--out=run", folder=folder
    )
    assert done.code == 0, done.err
    return folder / "run"


@pytest.fixture
def run(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "run"))


def calibrate(run, *more, samples=2, risk=0.3):
    return run_captured("calibrate", run, f"--samples={samples}", f"--risk={risk}", *more)


def test_a_run_is_calibrated_and_the_second_time_asks_nothing(run):
    done = calibrate(run)
    assert done.code == 0, done.err
    assert "28 images" in done.err
    assert "56 VLM calls, 0 of them in the store" in done.err
    assert "always the root" in done.out
    assert (
        "on new images of the same kind the mean of 1 - hP is at most 0.3 in expectation"
        in done.out
    )
    written = json.loads((run / "calibration.json").read_text())
    again = calibrate(run, "--json", "--confidence-level=0.8")
    assert "56 VLM calls, 56 of them in the store" in again.err
    said = json.loads(again.out)
    assert said["confidence_level"] == 0.8
    assert [level["hp"] for level in said["levels"]] == [level["hp"] for level in written["levels"]]
    assert json.loads((run / "calibration.json").read_text()) == said


def test_a_dry_run_says_the_cost_and_asks_nothing(run):
    done = calibrate(run, "--dry-run")
    assert done.code == 0
    assert done.out == ""
    assert "× 2 answers = 56 VLM calls" in done.err
    assert "at least 2 images are needed" in done.err
    assert not (run / "calibration.json").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            ["--risk=0.01"],
            "28 images cannot show that the risk is kept: even if every answer were right",
        ),
        (["--risk=2"], "The risk must be between 0 and 1."),
    ],
)
def test_what_cannot_be_done_is_told(more, said, run):
    done = calibrate(run, *more)
    assert done.code == 2
    assert said in done.err.replace("\n", " ")
    assert not (run / "calibration.json").exists()


def test_what_helps_is_what_the_policy_can_have(run):
    """One answer gives all probabilities: more answers per image are no remedy."""
    asked = ("calibrate", run, "--policy=posterior", "--promise=labels", "--rank=species")
    done = run_captured(*asked, "--risk=0.1")
    assert done.code == 0, done.err
    assert "it takes more images or a better template, or a larger risk." in done.out
    kept = run_captured("calibrate", run, "--policy=posterior", "--risk=0.3")
    assert re.search(r"A node needs \d[\d.]* % of the probability: on new images", kept.out)


def test_a_run_can_vote_all_along(tmp_path):
    settings = (*SMALL, "policy.samples=2", "policy.threshold=1")
    done = run_captured(
        "tune", "fieldguide", *(f"--set={each}" for each in settings), "--out=run", folder=tmp_path
    )
    assert done.code == 0, done.err
    records = [
        json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()
    ]
    assert records[0]["usage"]["vlm"]["calls"] == 2 * 6
    assert all(len(row["placed"]["votes"]) == 2 for record in records for row in record["rows"])
    assert "2 answers" in calibrate(tmp_path / "run", "--dry-run").err


def test_what_was_labelled_in_an_audit_is_added(run, tmp_path):
    asked = tmp_path / "labels-audit.csv"
    rows = pd.read_csv(MANIFEST_FILE)[-30:]
    rows["image"] = [str(MANIFEST_FILE.parent / name) for name in rows["image"]]
    rows["truth"] = rows["label"]
    rows["weight"] = 1.0
    rows.loc[rows.index[:2], "truth"] = None
    rows[["image", "truth", "weight"]].to_csv(asked, index=False)
    done = calibrate(run, f"--add={asked}", "--dry-run")
    assert done.code == 0, done.err
    assert "28 of 28 labels" in done.err
    assert "in neither split, and those labelled in an audit" in done.err
    added = int(re.search(r"([\d,]+) images \(", done.err)[1])
    # Images of the run's own splits, and those that it has already, are not added.
    assert 28 < added <= 56
