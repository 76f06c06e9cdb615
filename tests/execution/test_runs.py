"""Whole runs: wherever the questions are answered, the same comes out."""

from __future__ import annotations

import pytest

import taxtune
from taxtune.tuning.records import TuneResult
from tests.cli.commands import run_captured

SMALL = (
    "data.tuning=8",
    "data.first_rung=4",
    "data.heldout=6",
    "iterations=2",
    "tracking.mlflow=false",
)


def tuned(folder, *settings, resume=False):
    """Runs `taxtune tune fieldguide`, made small."""
    given = [part for setting in (*SMALL, *settings) for part in ("--set", setting)]
    done = run_captured(
        "tune", "fieldguide", *given, "--out", folder, *(["--resume"] if resume else [])
    )
    assert done.code == 0, done.err
    found = taxtune.load_run(folder)
    assert isinstance(found, TuneResult)
    return found


def essence(result):
    """What came out: every template with what was said about every image, and where that was placed."""
    asked = [(record.template, record.value, record.rows) for record in result.iterations]
    return [result.winner, asked, [(held.name, held.scores, held.rows) for held in result.heldout]]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    return tuned(tmp_path_factory.mktemp("here") / "run")


@pytest.mark.heavy
def test_ray_gives_the_same_result(here, tmp_path, cluster, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    there = tuned(tmp_path / "run", "execution.engine=ray")
    assert essence(there) == essence(here)
    more = tuned(tmp_path / "run", "iterations=3", resume=True)
    assert essence(more)[1][:2] == essence(here)[1][:2], "it may be gone on with elsewhere"
