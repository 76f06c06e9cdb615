"""Whole runs: wherever the questions are answered, the same comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import taxtune
from taxtune.tuning.records import TuneResult
from tests.cli.commands import run_captured

SMALL = ("data.tuning=8", "data.block=4", "data.heldout=6", "iterations=2", "tracking.mlflow=false")


def tuned(folder: Path, *settings: str, resume: bool = False) -> TuneResult:
    """Runs `taxtune tune fieldguide`, made small."""
    given = [part for setting in (*SMALL, *settings) for part in ("--set", setting)]
    done = run_captured("tune", "fieldguide", *given, "--out", folder, *(["--resume"] if resume else []))
    assert done.code == 0, done.err
    found = taxtune.load_run(folder)
    assert isinstance(found, TuneResult)
    return found


def essence(result: TuneResult) -> list[Any]:
    """What came out: every template with what was said about every image, and where that was placed."""
    asked = [(record.template, record.value, record.rows) for record in result.iterations]
    return [result.winner, asked, [(held.name, held.scores, held.rows) for held in result.heldout]]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> TuneResult:
    return tuned(tmp_path_factory.mktemp("here") / "run")


@pytest.mark.heavy
def test_ray_gives_the_same_result(here, tmp_path, cluster, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    there = tuned(tmp_path / "run", "execution.engine=ray")
    assert essence(there) == essence(here)
    more = tuned(tmp_path / "run", "iterations=3", resume=True)
    assert essence(more)[1][:2] == essence(here)[1][:2], "it may be gone on with elsewhere"


@pytest.mark.heavy
def test_a_run_labels_a_ray_data_set(here, tmp_path, cluster):
    import ray.data

    files = [path for path in map(Path, here.provenance.images.values()) if path.is_file()][:9]
    own = {one.image: one for one in taxtune.load_classifier(here.folder).classify(files)}
    paths = ray.data.from_items([{"image": str(file), "number": i} for i, file in enumerate([*files, tmp_path / "no"])])
    rows = {row["image"]: row for row in taxtune.classify_dataset(paths, here.folder, workers=1).take_all()}
    lost = rows.pop(str(tmp_path / "no"))
    assert "does not exist" in lost["failure"]
    assert lost["placement"] is None
    assert {image: (row["answer"], row["placement"], row["rank"]) for image, row in rows.items()} == {
        image: (one.answer, one.placement, one.rank) for image, one in own.items()
    }
    assert {row["number"] for row in rows.values()} == set(range(9))
    contents = ray.data.read_binary_files([str(file) for file in files], include_paths=True)
    labelled = taxtune.classify_dataset(contents, here.folder, image="bytes", batch_size=4, workers=1)
    assert {row["path"]: row["placement"] for row in labelled.take_all()} == {
        image: one.placement for image, one in own.items()
    }
    with pytest.raises(taxtune.TaxtuneError, match="no column 'photo'"):
        taxtune.classify_dataset(contents, here.folder, image="photo")
    with pytest.raises(taxtune.TaxtuneError, match="has a column 'placement' already"):
        taxtune.classify_dataset(ray.data.from_items([{"image": "a.png", "placement": "x"}]), here.folder)
