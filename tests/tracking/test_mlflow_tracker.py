from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

import pytest
import yaml
from PIL import Image

from taxtune.errors import TaxtuneError
from taxtune.metrics.names import metric_name
from taxtune.report.summary import summarise
from taxtune.tracking import MLflowTracker
from taxtune.tracking.values import HEADLINE
from taxtune.tuning.loop import Group
from taxtune.tuning.records import TuneResult
from tests.report import samples


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for the module: MLflow takes seconds to make one."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in (
        "MLFLOW_TRACKING_URI",
        "MLFLOW_EXPERIMENT_ID",
        "MLFLOW_EXPERIMENT_NAME",
        "MLFLOW_REGISTRY_URI",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(
        "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", "false"
    )  # a thread, for the tests that do not end a run
    # Nothing may be made in the current folder.
    empty = tmp_path / "current"
    empty.mkdir()
    monkeypatch.chdir(empty)
    yield
    assert list(empty.iterdir()) == []


#: The headline scores of runs whose confidences are not known.
SHOWN = set(HEADLINE) - {"selective_hp"}
#: The metrics of what hangs on doubtful placements.
DOUBTS = (
    "doubtful",
    *(f"{key}_doubtful_{how}" for key in ("hp", "hr") for how in ("without", "wrong")),
)


@pytest.fixture
def uri(shared_store: Path) -> str:
    return f"sqlite:///{shared_store}/mlflow.db"


def client(uri: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri)


def children(uri: str, parent: str) -> list[Any]:
    mlflow = client(uri)
    experiment = mlflow.get_run(parent).info.experiment_id
    runs = mlflow.search_runs(
        [experiment], f"tags.`mlflow.parentRunId` = '{parent}'", max_results=1000
    )
    return sorted(runs, key=lambda run: int(run.data.tags["taxtune.iteration"]))


def content(uri: str, run: str, path: str) -> str:
    # Not by `download_artifacts`, which in older versions looks into the default store.
    folder = url2pathname(urlparse(client(uri).get_run(run).info.artifact_uri).path)
    return (Path(folder) / path).read_text(encoding="utf-8")


def steps(uri: str, run: str, metric: str) -> dict[int, float]:
    return {point.step: point.value for point in client(uri).get_metric_history(run, metric)}


def table(uri: str, run: str, name: str) -> list[dict[str, Any]]:
    found = json.loads(content(uri, run, name))
    return [dict(zip(found["columns"], row, strict=True)) for row in found["data"]]


def wait_for_links() -> None:
    """MLflow tells a prompt's experiment in a thread."""
    for thread in threading.enumerate():
        if thread.name.startswith("link_prompt"):
            thread.join()


@pytest.mark.heavy
def test_a_run_can_be_read_back(uri: str, tmp_path: Path, notes: list[str]) -> None:
    result = samples.tune(n=8)
    tracker = MLflowTracker("read back", tmp_path, uri)
    vlm = {
        "model": "builtin:fieldguide",
        "temperature": 0.0,
        "api_base": "http://me:secret@server/v1",
    }
    parameters: dict[str, Any] = {"vlm": vlm, "seed": 3, "long": "x" * 9000, "none": None}
    parent = tracker.start("birds, hP", parameters, {"taxtune.comparison": "c1"})
    best = None
    for record in result.iterations:
        best = record if best is None else best
        tracker.iteration(record, best)
    tracker.finish(result)
    tracker.close()
    assert notes == []
    assert not tracker.unrecorded

    run = client(uri).get_run(parent)
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "birds, hP"
    assert run.data.params["vlm.model"] == "builtin:fieldguide"
    assert run.data.params["seed"] == "3"
    assert run.data.params["long"].endswith("(9000 characters)")
    assert len(run.data.params["long"]) == 500
    assert run.data.params["vlm.api_base"] == "http://***@server/v1"
    vlm["api_base"] = "http://***@server/v1"
    assert yaml.safe_load(content(uri, parent, "recipe.yaml")) == parameters
    # A handful of metrics: all else is in tables.
    held = {f"heldout/{key}" for key in (*SHOWN, *DOUBTS)}
    assert set(run.data.metrics) == {
        "objective",
        "best.objective",
        *SHOWN,
        *held,
        "seconds",
        "cost_usd",
    }
    assert steps(uri, parent, "heldout/hp") == {0: 0.871, result.winner: 0.962}, (
        "the baseline's, then the winner's"
    )
    assert steps(uri, parent, "hp") == {
        r.iteration: r.scores.hp for r in result.iterations if r.scores is not None
    }
    assert len(steps(uri, parent, "best.objective")) == 9
    about = run.data.tags["mlflow.note.content"]
    assert "| On 200 images the search never saw | baseline | tuned |" in about
    assert "| precision hP | 0.871 | 0.962 | +0.091 (+0.070 to +0.111) |" in about
    for state, count in summarise(result).columns[1].counts.items():
        assert re.search(rf"^\| {state} \| \d+ \| {count} \|", about, re.MULTILINE)
    titles = (f"Prompt (iteration {result.winner} of 8)", "Cost", "Next steps")
    assert all(f"### {title}" in about for title in titles)
    assert "taxtune classify runs/sample" in about
    hp = next(
        row
        for row in table(uri, parent, "heldout.json")
        if (row["template"], row["score"]) == ("winner", "hP")
    )
    assert (hp["value"], hp["95 % low"]) == (0.962, pytest.approx(0.944))
    change = next(
        row for row in table(uri, parent, "heldout.json") if row["template"] == "winner − baseline"
    )
    assert (change["score"], change["p"], change["value"]) == ("hP", 0.0004, pytest.approx(0.091))
    assert {row["template"] for row in table(uri, parent, "ranks.json")} == {"baseline", "winner"}
    images = table(uri, parent, "heldout_images.json")
    assert len(images) == 200
    columns = ("image", "truth", "baseline: answer", "baseline: hP", "winner: answer", "winner: hP")
    assert set(columns) < set(images[0])

    runs = children(uri, parent)
    assert [run.data.tags["taxtune.iteration"] for run in runs] == [str(k) for k in range(9)]
    assert [run.info.status for run in runs] == ["FINISHED"] * 7 + ["FAILED"] + ["FINISHED"]
    baseline, first, failed = runs[0], runs[1], runs[7]
    assert baseline.info.run_name == "baseline"
    record = result.iterations[1]
    assert record.scores is not None
    assert set(first.data.metrics) == {
        "objective",
        *SHOWN,
        "images",
        "missing",
        "seconds",
        "cost_usd",
    }
    assert first.data.metrics["hp"] == record.scores.hp
    assert first.data.metrics["missing"] == 1
    assert first.data.metrics["cost_usd"] == pytest.approx(0.0031)
    scores = json.loads(content(uri, first.info.run_id, "scores.json"))
    assert scores["vlm.from_store"] == 5
    assert scores["ihp"] == record.scores.ihp
    assert "vlm.cost_usd" not in scores  # an unknown price is not zero
    assert first.data.params["care"] == "if unsure, back off"
    assert content(uri, first.info.run_id, "template.j2") == record.template
    assert "hp" not in failed.data.metrics
    assert failed.data.tags["taxtune.reason"].startswith("three replies")
    trace = json.loads(content(uri, failed.info.run_id, "trace.json"))["trace"]
    assert (trace[0]["tool"], trace[0]["prompt_tokens"]) == ("submit", 900)
    rejected = json.loads(content(uri, failed.info.run_id, "rejected.json"))["rejected"]
    assert rejected[0] == {
        "template": "{{ ''.__class__ }}",
        "reason": "attribute access is refused",
    }

    rows = table(uri, first.info.run_id, "examples.json")
    beside = ["stage", "confidence", "doubtful", "hP", "hR"]
    assert list(rows[0])[:10] == ["picture", "image", "answer", "placement", "truth", *beside]
    assert len(rows) == 20
    assert rows[0]["answer"] is None, "what failed comes first, and then what is worst"
    worth = [row["hP"] + row["hR"] for row in rows[1:]]
    assert worth == sorted(worth)
    assert samples.HOSTILE in [row["answer"] for row in rows]
    # The tag by which MLflow's pages find tables.
    assert json.loads(first.data.tags["mlflow.loggedArtifacts"]) == [
        {"path": "examples.json", "type": "table"}
    ]


def test_tables_show_small_pictures_of_the_first_rows(uri: str, tmp_path: Path) -> None:
    record = samples.iteration(1, images=40)
    images = {row.example: tmp_path / f"{i}.jpg" for i, row in enumerate(record.rows)}
    for file in images.values():
        Image.new("RGB", (600, 300), (40, 90, 0)).save(file)
    (tmp_path / "0.jpg").write_bytes(b"no image any more")
    tracker = MLflowTracker("pictures", tmp_path, uri)
    parent = tracker.start("birds", {}, {}, images=images)
    tracker.iteration(record)
    (run,) = children(uri, parent)
    cells = [row["picture"] for row in table(uri, run.info.run_id, "examples.json")]
    assert {cell["type"] for cell in cells} == {"image"}, (
        "MLflow shows a column as pictures only if all cells are some"
    )
    assert len({cell["filepath"] for cell in cells}) == 23 + 1, (
        "one cannot be read, and shares the grey square with those beyond 24"
    )
    folder = Path(url2pathname(urlparse(run.info.artifact_uri).path))
    for cell in cells:
        file = folder / cell["compressed_filepath"]
        with Image.open(file) as picture:
            assert max(picture.size) <= 128
        assert file.stat().st_size < 10_000


def test_what_the_race_adds_to_an_iteration_takes_the_place_of_what_there_was(
    uri: str, tmp_path: Path
) -> None:
    result = samples.tune(n=2)
    tracker = MLflowTracker("race", tmp_path, uri)
    parent = tracker.start("birds", {}, {})
    for record in result.iterations:
        tracker.iteration(record)
    before = {run.info.run_id for run in children(uri, parent)}
    grown = samples.iteration(1, 0.5, images=60)
    raced = replace(result, iterations=(result.iterations[0], grown, result.iterations[2]))
    for number in range(2):
        # Another process knows of it from the store.
        tracker = tracker if number == 0 else MLflowTracker("race", tmp_path, uri)
        tracker.start("birds", {}, {}, parent)
        tracker.finish(raced)
    runs = children(uri, parent)
    assert {run.info.run_id for run in runs} == before
    assert list(steps(uri, runs[1].info.run_id, "hp")) == [20, 60]
    assert runs[1].data.metrics["hp"] == 0.5
    assert len(table(uri, runs[1].info.run_id, "examples.json")) == 60
    assert len(client(uri).get_metric_history(parent, "hp")) == 3, "the curve is that of the search"


def test_nothing_is_recorded_twice_on_resume_and_what_is_half_there_is_filled(
    uri: str, tmp_path: Path
) -> None:
    result = samples.tune(n=5)
    first = MLflowTracker("resume", tmp_path, uri)
    parent = first.start("birds", {"seed": 1}, {})
    for record in result.iterations[:3]:
        first.iteration(record)
    # As if killed with -9 while iteration 3 was being recorded.
    experiment = client(uri).get_run(parent).info.experiment_id
    tags = {"mlflow.parentRunId": parent, "taxtune.iteration": "3"}
    half = client(uri).create_run(experiment, tags=tags, run_name="iteration 03")
    before = {run.info.run_id for run in children(uri, parent)} - {half.info.run_id}

    second = MLflowTracker("resume", tmp_path, uri)
    assert second.start("birds", {"seed": 1, "new": 2}, {}, parent) == parent
    assert client(uri).get_run(parent).info.status == "RUNNING"
    for record in result.iterations:
        second.iteration(record)
    second.finish(result)
    second.finish(result)
    second.close()
    runs = children(uri, parent)
    assert [int(run.data.tags["taxtune.iteration"]) for run in runs] == list(range(6))
    assert {run.info.run_id for run in runs[:3]} == before
    assert runs[3].info.run_id == half.info.run_id, "what is half there is filled"
    assert runs[3].data.metrics["hp"] > 0
    assert len(client(uri).get_metric_history(parent, "hp")) == 6
    assert len(table(uri, parent, "heldout_images.json")) == 200


@pytest.mark.heavy
def test_a_store_that_fails_in_the_middle_loses_nothing(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notes: list[str]
) -> None:
    result = samples.tune(n=4)
    tracker = MLflowTracker("outage", tmp_path, uri)
    parent = tracker.start("birds", {}, {})
    tracker.iteration(result.iterations[0])

    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as outage:
        # The nested run is made before the failure: it must not be there twice afterwards.
        outage.setattr("mlflow.log_artifacts", full)
        for record in result.iterations[1:4]:
            tracker.iteration(record)
        assert tracker.unrecorded == {1, 2, 3}
        assert len(notes) == 1
        assert "No space left" in notes[0]
        tracker.finish(result)
        assert "MLflow has no record of iterations 1, 2, 3, 4; the run's folder has one." in notes
        assert "MLflow could not record the result: [Errno 28] No space left on device" in notes
    assert not tracker.whole
    again = MLflowTracker("outage", tmp_path, uri)
    again.start("birds", {}, {}, parent)
    again.finish(result)
    assert again.whole
    assert len(children(uri, parent)) == 5


def test_a_run_of_the_caller_stays_apart(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    own = f"sqlite:///{tmp_path}/own.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", own)
    mlflow.set_tracking_uri(own)
    for number in range(50):  # an id that the other store does not have
        last = mlflow.create_experiment(f"other {number}")
    monkeypatch.setattr("mlflow.tracking.fluent._active_experiment_id", last)
    result = samples.tune(n=1)
    with mlflow.start_run() as active:
        monkeypatch.setenv("MLFLOW_RUN_ID", active.info.run_id)
        tracker = MLflowTracker("apart", tmp_path, uri)
        parent = tracker.start("birds", {}, {})
        tracker.finish(result)
        assert os.environ["MLFLOW_RUN_ID"] == active.info.run_id
        mlflow.log_metric("own", 1.0)
    assert tracker.whole
    assert "mlflow.parentRunId" not in client(uri).get_run(parent).data.tags
    assert len(children(uri, parent)) == 2
    assert set(client(own).get_run(active.info.run_id).data.metrics) == {"own"}
    mlflow.set_tracking_uri(None)


@pytest.mark.heavy
def test_templates_are_versions_of_a_prompt_each_once(uri: str, tmp_path: Path) -> None:
    source = "{{ question }}\n{% if ranks %}- {{ ranks | join('\\n- ') }}\n{% endif %}Größe: 'as sure as you are'. \n"
    result = replace(samples.tune(n=2), name="birds: inat21 / x", winner=2)
    before, after = result.heldout
    records = [
        replace(each, value=value)
        for each, value in zip(result.iterations, (0.8, 0.9, 0.85), strict=True)
    ]
    records[2] = replace(records[2], template=source)
    result = replace(
        result, iterations=tuple(records), heldout=(before, replace(after, template=source))
    )

    def recorded(run: str | None = None) -> str:
        tracker = MLflowTracker("registry", tmp_path, uri)
        parent = tracker.start("birds", {}, {}, run)
        tracker.finish(result)
        wait_for_links()
        assert tracker.whole
        return parent

    parent = recorded()
    recorded(parent)
    name = "birds-inat21-x"
    versions = {int(each.version): each for each in client(uri).search_prompt_versions(name)}
    assert [versions[k].template for k in (1, 2, 3)] == [
        each.template for each in result.iterations
    ]
    assert len(versions) == 3, "a run that is resumed registers nothing anew"
    assert client(uri).get_prompt_version_by_alias(name, "baseline").version == 1
    assert client(uri).get_prompt_version_by_alias(name, "hp").version == 3
    assert versions[1].commit_message == "The baseline: hP 0.800 on 20 tuning images."
    assert versions[2].commit_message.endswith("Care: if unsure, back off; format: short.")
    winner = client(uri).load_prompt(f"prompts:/{name}@hp")
    assert (winner.template, winner.tags["heldout.hp"], winner.tags["taxtune.iteration"]) == (
        source,
        "0.9620",
        "2",
    )
    assert "heldout.hp" not in versions[2].tags
    tags = client(uri).get_run(parent).data.tags
    assert tags["taxtune.prompt"] == f"prompts:/{name}/3"
    assert [each["version"] for each in json.loads(tags["mlflow.linkedPrompts"])] == ["1", "2", "3"]
    linked = [json.loads(run.data.tags["mlflow.linkedPrompts"]) for run in children(uri, parent)]
    assert linked == [[{"name": name, "version": str(k)}] for k in (1, 2, 3)]
    experiment = client(uri).get_run(parent).info.experiment_id
    # By this the experiment's page finds it.
    assert f",{experiment}," in client(uri).get_prompt(name).tags["_mlflow_experiment_ids"]
    assert "MLFLOW_EXPERIMENT_ID" not in os.environ
    assert "MLFLOW_TRACKING_URI" not in os.environ

    recorded()
    assert client(uri).get_prompt_version_by_alias(name, "hp").version == 6, (
        "another run has versions of its own"
    )


def compared(
    uri: str, folder: Path, identity: str, runs: Sequence[TuneResult]
) -> tuple[Group, list[str]]:
    group, ids = Group("birds", identity), []
    for each in runs:
        tracker = MLflowTracker("compare", folder, uri)
        settings = {
            "name": "birds",
            "vlm": {"model": "local"},
            "objective": {"kind": each.objective},
        }
        ids.append(tracker.start(f"birds ({each.objective})", settings, {}, group=group))
        tracker.finish(each)
        tracker.close()
    wait_for_links()
    return group, ids


@pytest.mark.heavy
def test_a_comparison_is_the_run_above_its_runs(uri: str, tmp_path: Path) -> None:
    result = replace(samples.comparison(2), folder=str(tmp_path))
    (tmp_path / "hp_hr.svg").write_text("<svg/>")
    for _ in range(2):  # and again, as when it is resumed
        group, ids = compared(uri, tmp_path, "c7", result.runs)
        above = MLflowTracker("compare", tmp_path, uri).group(result, group)
        assert above is not None
    found = client(uri).search_runs(
        [client(uri).get_run(above).info.experiment_id], "tags.`taxtune.group` = 'c7'"
    )
    assert [run.info.run_id for run in found] == [above]
    assert {client(uri).get_run(each).data.tags["mlflow.parentRunId"] for each in ids} == {above}
    run = found[0]
    assert (run.info.run_name, run.info.status) == ("compare: birds", "FINISHED")
    assert run.data.params == {"name": "birds", "vlm.model": "local"}, (
        "the recipe, without what differs below"
    )
    assert yaml.safe_load(content(uri, above, "recipe.yaml")) == {
        "name": "birds",
        "vlm": {"model": "local"},
    }
    names = ("baseline", "hp", "accuracy")
    assert set(run.data.metrics) == {
        f"heldout/{key}/{name}" for key in (*SHOWN, *DOUBTS) for name in names
    }
    assert run.data.metrics["heldout/hp/hp"] == 0.962
    assert run.data.metrics["heldout/hp_doubtful_wrong/hp"] == pytest.approx(0.902)
    assert run.data.metrics["heldout/doubtful/hp"] == 28 / 200
    assert content(uri, above, "figures/hp_hr.svg") == "<svg/>"
    changes = {(row["template"], row["score"]): row for row in table(uri, above, "heldout.json")}
    assert changes["accuracy-tuned − hP-tuned", "hP"]["95 % low"] == pytest.approx(-0.136)
    assert {"hp: answer", "accuracy: answer"} < set(table(uri, above, "heldout_images.json")[0])
    about = run.data.tags["mlflow.note.content"]
    assert "| On 200 images the search never saw | baseline | hP-tuned | accuracy-tuned |" in about
    for each in result.runs:
        assert (
            f"### Prompt tuned for {metric_name(each.objective)} (iteration {each.winner} of "
            in about
        )
    # Its runs share versions of the prompt, and each has an alias of its own.
    first = client(uri).get_prompt_version_by_alias("birds", "hp")
    second = client(uri).get_prompt_version_by_alias("birds", "accuracy")
    assert first.tags["taxtune.run"] == second.tags["taxtune.run"] == above
    texts = [
        v.template
        for v in client(uri).search_prompt_versions("birds")
        if v.tags["taxtune.run"] == above
    ]
    assert len(texts) == len(set(texts))


def test_a_measure_may_be_named_after_a_model_with_a_slash(uri: str, tmp_path: Path) -> None:
    result = replace(samples.comparison(2), runs=(), folder=str(tmp_path))
    *others, last = result.heldout
    result = replace(result, heldout=(*others, replace(last, name="bertscore:ms/deberta")))
    tracker = MLflowTracker("slash", tmp_path, uri)
    above = tracker.group(result, Group("birds", "c9"))
    assert above is not None
    assert tracker.whole
    assert content(uri, above, "template_bertscore-ms-deberta.j2") == last.template


def test_a_run_that_fails_ends_the_one_above_it(uri: str, tmp_path: Path) -> None:
    group = Group("birds", "c8")
    tracker = MLflowTracker("compare", tmp_path, uri)
    run = tracker.start("birds", {}, {}, group=group)
    above = client(uri).get_run(run).data.tags["mlflow.parentRunId"]
    assert client(uri).get_run(above).info.status == "RUNNING"
    tracker.close("KILLED")
    assert client(uri).get_run(above).info.status == "KILLED"
    assert MLflowTracker("compare", tmp_path, uri).start("birds", {}, {}, run, group=group) == run
    assert client(uri).get_run(above).info.status == "RUNNING"


def test_the_default_store_lies_beside_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "a run" / "here"
    tracker = MLflowTracker("default", folder)
    assert tracker.where() == f"taxtune mlflow '{folder}'"
    tracker.start("birds", {"seed": 1}, {})
    tracker.close()
    assert (folder / "mlflow.db").is_file()
    assert list((folder / "mlartifacts").rglob("recipe.yaml"))
    import mlflow

    # The process-wide store is untouched.
    assert str(folder) not in mlflow.get_tracking_uri()


def test_a_server_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    tracker = MLflowTracker("x", tmp_path, f"http://me:secret@127.0.0.1:{port}")
    with pytest.raises(TaxtuneError, match="MLFLOW_TRACKING_URI") as caught:
        tracker.start("birds", {}, {})
    assert f"127.0.0.1:{port}" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert tracker.where() == f"http://***@127.0.0.1:{port}"


def test_a_database_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mlflow.db").write_text("this is not a database, whatever its name says " * 50)
    # MLflow itself goes on trying for two minutes.
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail(f"It waits for {seconds} s."))
    with pytest.raises(
        TaxtuneError,
        match=r"mlflow\.db: MLflow's database cannot be written: file is not a database",
    ):
        MLflowTracker("x", tmp_path).start("birds", {}, {})
    (tmp_path / "file").write_text("x")
    with pytest.raises(TaxtuneError, match="file"):
        MLflowTracker("x", tmp_path / "file").start("birds", {}, {})


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    )


def test_mlflow_is_loaded_only_when_a_run_starts() -> None:
    done = run_python(
        "import sys; from taxtune.tracking import MLflowTracker; MLflowTracker('x', '.').where();"
        "print([m for m in ('mlflow', 'pandas', 'matplotlib', 'optuna') if m in sys.modules])"
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
