from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

import pytest

from taxtune.errors import TaxtuneError
from taxtune.tracking import MLflowTracker, NullTracker, Tracker
from tests.report import samples


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for the module: MLflow takes seconds to make one."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_REGISTRY_URI"):
        monkeypatch.delenv(name, raising=False)
    # Nothing may be made in the current folder.
    empty = tmp_path / "current"
    empty.mkdir()
    monkeypatch.chdir(empty)
    yield
    assert list(empty.iterdir()) == []


@pytest.fixture
def uri(shared_store: Path) -> str:
    return f"sqlite:///{shared_store}/mlflow.db"


def client(uri: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri)


def children(uri: str, parent: str) -> list[Any]:
    mlflow = client(uri)
    experiment = mlflow.get_run(parent).info.experiment_id
    runs = mlflow.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{parent}'", max_results=1000)
    return sorted(runs, key=lambda run: int(run.data.tags["taxtune.iteration"]))


def content(uri: str, run: str, path: str) -> str:
    # Not by `download_artifacts`, which in older versions looks into the default store.
    folder = url2pathname(urlparse(client(uri).get_run(run).info.artifact_uri).path)
    return (Path(folder) / path).read_text(encoding="utf-8")


def test_trackers_follow_the_protocol(tmp_path: Path) -> None:
    trackers: list[Tracker] = [NullTracker(), MLflowTracker("x", tmp_path)]
    assert trackers[0].start("a", {}, {}, "given") == "given"
    assert trackers[0].where() is None
    assert list(tmp_path.iterdir()) == [tmp_path / "current"]


def test_a_run_can_be_read_back(uri: str, tmp_path: Path, notes: list[str]) -> None:
    result = samples.tune(n=8)
    tracker = MLflowTracker("read back", tmp_path, uri)
    vlm = {"model": "builtin:fieldguide", "temperature": 0.0, "api_base": "http://me:secret@server/v1"}
    parameters: dict[str, Any] = {"vlm": vlm, "seed": 3, "long": "x" * 9000, "none": None}
    parent = tracker.start("birds, hP", parameters, {"taxtune.comparison": "c1"})
    best = None
    for record in result.iterations:
        best = record if best is None else best
        tracker.iteration(record, best)
    tracker.finish(result)
    tracker.close()
    assert notes == []
    assert tracker.unrecorded == ()

    run = client(uri).get_run(parent)
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "birds, hP"
    assert run.data.params["vlm.model"] == "builtin:fieldguide"
    assert run.data.params["seed"] == "3"
    assert run.data.params["long"].endswith("(9000 characters)")
    assert len(run.data.params["long"]) == 500
    assert run.data.params["vlm.api_base"] == "http://***@server/v1"
    vlm["api_base"] = "http://***@server/v1"
    assert (
        json.loads(
            content(
                uri,
                parent,
                "parameters.json",
            )
        )
        == parameters
    )
    assert run.data.metrics["heldout.baseline.hp"] == 0.871
    assert run.data.metrics["heldout.winner.hp"] == 0.962
    assert run.data.metrics["heldout.winner.hp.low"] == pytest.approx(0.944)
    assert run.data.metrics["heldout.difference.hp"] == pytest.approx(0.091)
    assert run.data.metrics["heldout.difference.hp.p"] == 0.0004
    assert "raised hierarchical precision" in run.data.tags["mlflow.note.content"]
    curve = {point.step: point.value for point in client(uri).get_metric_history(parent, "hp")}
    assert curve == {r.iteration: r.scores.hp for r in result.iterations if r.scores is not None}
    assert len(client(uri).get_metric_history(parent, "best.hp")) == 9
    table = json.loads(
        content(
            uri,
            parent,
            "heldout_winner.json",
        )
    )
    assert len(table["data"]) == 200

    runs = children(uri, parent)
    assert [run.data.tags["taxtune.iteration"] for run in runs] == [str(k) for k in range(9)]
    assert [run.info.status for run in runs] == ["FINISHED"] * 7 + ["FAILED"] + ["FINISHED"]
    baseline, first, failed = runs[0], runs[1], runs[7]
    assert baseline.info.run_name == "baseline"
    record = result.iterations[1]
    assert record.scores is not None
    assert first.data.metrics["hp"] == record.scores.hp
    assert first.data.metrics["missing"] == 1
    assert first.data.metrics["from_store"] == 5
    assert first.data.metrics["cost_usd"] == pytest.approx(0.0031)
    assert "vlm_cost_usd" not in first.data.metrics  # an unknown price is not zero
    assert first.data.params["care"] == "if unsure, back off"
    assert content(uri, first.info.run_id, "template.j2") == record.template
    assert "hp" not in failed.data.metrics
    assert failed.data.tags["taxtune.reason"].startswith("three replies")
    trace = json.loads(content(uri, failed.info.run_id, "trace.json"))["trace"]
    assert (trace[0]["tool"], trace[0]["prompt_tokens"]) == ("submit", 900)
    rejected = json.loads(
        content(
            uri,
            failed.info.run_id,
            "rejected.json",
        )
    )["rejected"]
    assert rejected[0] == {"template": "{{ ''.__class__ }}", "reason": "attribute access is refused"}

    table = json.loads(
        content(
            uri,
            first.info.run_id,
            "examples.json",
        )
    )
    assert table["columns"][:7] == ["image", "answer", "placed node", "truth", "stage", "hP", "hR"]
    assert len(table["data"]) == 20
    assert table["data"][0][1] == samples.HOSTILE
    assert table["data"][1][1:7] == [None, None, record.rows[1].truth, None, None, None]
    # The tag by which MLflow's pages find tables.
    assert json.loads(first.data.tags["mlflow.loggedArtifacts"]) == [{"path": "examples.json", "type": "table"}]


def test_nothing_is_recorded_twice_on_resume_and_what_is_half_there_is_replaced(uri: str, tmp_path: Path) -> None:
    result = samples.tune(n=5)
    first = MLflowTracker("resume", tmp_path, uri)
    parent = first.start("birds", {"seed": 1}, {})
    for record in result.iterations[:3]:
        first.iteration(record)
    # As if killed with -9 while iteration 3 was being recorded.
    experiment = client(uri).get_run(parent).info.experiment_id
    half = client(uri).create_run(experiment, tags={"mlflow.parentRunId": parent, "taxtune.iteration": "3"})
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
    assert half.info.run_id not in {run.info.run_id for run in runs}
    assert len(client(uri).get_metric_history(parent, "hp")) == 6
    assert (
        len(
            json.loads(
                content(
                    uri,
                    parent,
                    "heldout_winner.json",
                )
            )["data"]
        )
        == 200
    )


def test_finish_records_what_the_loop_did_not_hand_over(uri: str, tmp_path: Path) -> None:
    tracker = MLflowTracker("late", tmp_path, uri)
    parent = tracker.start("birds", {}, {})
    tracker.finish(samples.tune(n=2))
    assert len(children(uri, parent)) == 3


def test_an_unknown_run_is_started_anew_with_a_note(uri: str, tmp_path: Path, notes: list[str]) -> None:
    tracker = MLflowTracker("unknown", tmp_path, uri)
    started = tracker.start("birds", {}, {}, "0" * 32)
    assert started != "0" * 32
    assert "does not know the run" in notes[0]


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
        outage.setattr("mlflow.MlflowClient.log_table", full)
        for record in result.iterations[1:4]:
            tracker.iteration(record)
        assert tracker.unrecorded == (1, 2, 3)
        assert len(notes) == 1
        assert "No space left" in notes[0]
    tracker.iteration(result.iterations[4])
    assert tracker.unrecorded == ()
    assert len(children(uri, parent)) == 5
    assert len(notes) == 1


def test_what_stays_unrecorded_is_said_at_the_end(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notes: list[str]
) -> None:
    tracker = MLflowTracker("gone", tmp_path, uri)
    tracker.start("birds", {}, {})

    def gone(*args: object, **kwargs: object) -> None:
        raise ConnectionError("http://me:secret@server went away")

    for name in ("create_run", "log_batch", "log_artifact", "register_prompt", "set_terminated", "get_run"):
        monkeypatch.setattr(f"mlflow.MlflowClient.{name}", gone)
    tracker.finish(samples.tune(n=1))
    tracker.figure(tmp_path / "figure6.png")
    assert tracker.register("birds", "x", {}) is None
    tracker.close("KILLED")
    assert any("no record of iterations 0, 1" in note for note in notes)
    assert any("figure6.png" in note for note in notes)
    assert "secret" not in " ".join(notes)


def test_the_winner_is_registered_exactly_and_once(uri: str, tmp_path: Path) -> None:
    source = "{{ question }}\n{% for r in ranks %}- {{ r }}\n{% endfor %}Größe: 'as sure as you are'. \n"
    tracker = MLflowTracker("registry", tmp_path, uri)
    parent = tracker.start("birds", {}, {})
    address = tracker.register("birds: inat21 / hP", source, {"heldout.hp": "0.962"}, "hp")
    assert address == "prompts:/birds-inat21-hP/1"
    assert tracker.register("birds: inat21 / hP", source, {}, "hp") == address
    for thread in threading.enumerate():
        if thread.name.startswith("link_prompt"):
            thread.join()
    prompt = client(uri).load_prompt(address)
    assert prompt.template == source
    assert prompt.tags["heldout.hp"] == "0.962"
    assert prompt.tags["taxtune.run"] == parent
    assert client(uri).get_prompt_version_by_alias("birds-inat21-hP", "hp").version == 1
    experiment = client(uri).get_run(parent).info.experiment_id
    if tuple(map(int, version("mlflow").split(".")[:2])) >= (
        3,
        17,
    ):
        # By this the experiment's page finds it; the oldest versions have no such page.
        assert f",{experiment}," in client(uri).get_prompt("birds-inat21-hP").tags["_mlflow_experiment_ids"]
    assert "MLFLOW_EXPERIMENT_ID" not in os.environ
    assert "MLFLOW_TRACKING_URI" not in os.environ

    again = MLflowTracker("registry", tmp_path, uri)
    again.start("birds", {}, {})
    assert again.register("birds: inat21 / hP", source, {}) == "prompts:/birds-inat21-hP/2"


def test_a_comparison_is_a_run_of_its_own_and_replaces_its_earlier_record(uri: str, tmp_path: Path) -> None:
    figure = tmp_path / "figure6.svg"
    figure.write_text("<svg/>")
    result = samples.comparison(2)
    for _ in range(2):
        tracker = MLflowTracker("compare", tmp_path, uri)
        run = tracker.comparison(result, [figure], "c7")
        assert run is not None
    found = client(uri).search_runs([client(uri).get_run(run).info.experiment_id], "tags.`taxtune.comparison` = 'c7'")
    assert [r.info.run_id for r in found] == [run]
    assert found[0].info.run_name == "compare: birds"
    assert found[0].data.metrics["heldout.hp.hp"] == 0.962
    assert found[0].data.metrics["heldout.difference.accuracy-hp.hp.low"] == pytest.approx(-0.136)
    assert content(uri, run, "figures/figure6.svg") == "<svg/>"
    assert (
        len(
            json.loads(
                content(
                    uri,
                    run,
                    "heldout.json",
                )
            )["data"]
        )
        == 3 * 12
    )


def test_the_default_store_lies_beside_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "a run" / "here"
    tracker = MLflowTracker("default", folder)
    assert tracker.where().endswith(f" mlflow ui --backend-store-uri 'sqlite:///{folder}/mlflow.db'")
    tracker.start("birds", {"seed": 1}, {})
    tracker.close()
    assert (folder / "mlflow.db").is_file()
    assert list((folder / "mlartifacts").rglob("parameters.json"))
    import mlflow

    # The process-wide store is untouched.
    assert str(folder) not in mlflow.get_tracking_uri()


def test_the_environment_names_the_store_and_the_argument_comes_first(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    run = MLflowTracker("environment", tmp_path / "out").start("birds", {}, {})
    assert client(uri).get_run(run).info.run_name == "birds"
    assert not (tmp_path / "out" / "mlflow.db").exists()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert MLflowTracker("environment", tmp_path, uri).start("birds", {}, {}, run) == run


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


def test_a_server_that_answers_nonsense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")

    class Nonsense(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>hello</html>")

        do_POST = do_GET  # noqa: N815

        def log_message(self, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Nonsense)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with pytest.raises(TaxtuneError, match="MLflow cannot record"):
            MLflowTracker("x", tmp_path, f"http://127.0.0.1:{server.server_port}").start("birds", {}, {})
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_database_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_text("this is not a database, whatever its name says " * 50)
    begin = time.monotonic()
    with pytest.raises(TaxtuneError, match=r"mlflow\.db: MLflow's database cannot be written: file is not a database"):
        MLflowTracker("x", tmp_path).start("birds", {}, {})
    assert time.monotonic() - begin < 20  # MLflow itself goes on trying for two minutes
    (tmp_path / "file").write_text("x")
    with pytest.raises(TaxtuneError, match="file"):
        MLflowTracker("x", tmp_path / "file").start("birds", {}, {})


def test_long_runs_are_within_mlflows_limits(uri: str, tmp_path: Path) -> None:
    tracker = MLflowTracker("limits", tmp_path, uri)
    parent = tracker.start("birds", {f"p{i}": i for i in range(250)}, {"long": "y" * 20_000})
    record = replace(samples.iteration(1), template="z" * 20_000, parameters={"words": "w" * 20_000})
    tracker.iteration(record)
    assert tracker.unrecorded == ()
    assert len(client(uri).get_run(parent).data.params) == 250
    (run,) = children(uri, parent)
    assert content(uri, run.info.run_id, "template.j2") == record.template


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)


def test_mlflow_is_loaded_only_when_a_run_starts() -> None:
    done = run_python(
        "import sys; from taxtune.tracking import MLflowTracker; MLflowTracker('x', '.').where();"
        "print([m for m in ('mlflow', 'pandas', 'matplotlib', 'optuna') if m in sys.modules])"
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_first_start_says_nothing_on_the_terminal(tmp_path: Path) -> None:
    done = run_python(
        "import sys; from taxtune.tracking import MLflowTracker;"
        f"t = MLflowTracker('x', {str(tmp_path / 'run')!r}); t.start('a', {{}}, {{}});"
        "t.register('p', '{{ question }}', {}); t.close()"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
