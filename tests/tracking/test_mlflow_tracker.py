from __future__ import annotations

import itertools
import json
import math
import os
import re
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

import pytest
import yaml
from PIL import Image

from taxtune.errors import TaxtuneError
from taxtune.metrics.names import metric_name
from taxtune.metrics.table import SCORES
from taxtune.report.summary import summarise
from taxtune.tracking import MLflowTracker
from taxtune.tuning.loop import ComparisonGroup
from taxtune.tuning.records import Selection
from tests.report import samples


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory):
    """One store for the module: MLflow takes seconds to make one."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture(autouse=True)
def _environment(monkeypatch, tmp_path):
    for name in ("TRACKING_URI", "EXPERIMENT_ID", "EXPERIMENT_NAME", "REGISTRY_URI"):
        monkeypatch.delenv(f"MLFLOW_{name}", raising=False)
    # It would be a thread, for the tests that do not end a run.
    monkeypatch.setenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", "false")
    # Nothing may be made in the current folder.
    empty = tmp_path / "current"
    empty.mkdir()
    monkeypatch.chdir(empty)
    yield
    assert list(empty.iterdir()) == []


#: The counts, and the headline scores of runs whose confidences are not known.
SHOWN = {name for name, score in SCORES.items() if score.headline} - {"selective_hp"}
SHOWN |= {"wrong", "right_but_general", "exact", "share_wrong"}


@pytest.fixture
def uri(shared_store):
    return f"sqlite:///{shared_store}/mlflow.db"


def client(uri):
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri)


class Recorded:
    """A run as a store has it."""

    def __init__(self, uri, run):
        self.uri = uri
        self.id = run
        found = client(uri).get_run(run)
        self.name = found.info.run_name
        self.status = found.info.status
        self.params = found.data.params
        self.metrics = found.data.metrics
        self.tags = found.data.tags
        self.experiment = found.info.experiment_id
        # Not by `download_artifacts`, which in older versions looks into the default store.
        self.folder = Path(url2pathname(urlparse(found.info.artifact_uri).path))

    def content(self, path):
        return (self.folder / path).read_text(encoding="utf-8")

    def json(self, path):
        return json.loads(self.content(path))

    def table(self, name):
        found = self.json(name)
        return [dict(zip(found["columns"], row, strict=True)) for row in found["data"]]

    def steps(self, metric):
        history = client(self.uri).get_metric_history(self.id, metric)
        history = [point for point in history if not math.isnan(point.value)]
        assert len({point.step for point in history}) == len(history)
        return {point.step: point.value for point in history}

    def children(self):
        """The runs of its iterations, in their order."""
        below = f"tags.`mlflow.parentRunId` = '{self.id}'"
        runs = client(self.uri).search_runs([self.experiment], below, max_results=1000)
        found = [Recorded(self.uri, run.info.run_id) for run in runs]
        return sorted(found, key=lambda run: int(run.tags["taxtune.iteration"]))


def wait_for_links():
    """MLflow tells a prompt's experiment in a thread."""
    for thread in threading.enumerate():
        if thread.name.startswith("link_prompt"):
            thread.join()


@pytest.mark.heavy
def test_a_run_can_be_read_back(uri, tmp_path, notes):
    result = samples.tune(n=8)
    tracker = MLflowTracker("read back", tmp_path, uri)
    vlm = {"model": "builtin:fieldguide", "api_base": "http://me:secret@server/v1"}
    recipe = {"vlm": vlm, "seed": 3, "long": "x" * 9000, "none": None}
    parameters = {"objective": "hp", "model": "gpt-4o", "recipe": recipe}
    run_id = tracker.start("birds, hP", parameters, {"taxtune.comparison": "c1"})
    for record in result.iterations:
        tracker.iteration(record, result.iterations[0])
    tracker.finish(result)
    tracker.close()
    assert notes == []
    assert not tracker.unrecorded

    run = Recorded(uri, run_id)
    assert (run.status, run.name) == ("FINISHED", "birds, hP")
    # MLflow's page shows them in this order.
    assert list(run.params)[:3] == ["objective", "model", "recipe.vlm.model"]
    assert run.params["model"] == "gpt-4o"
    assert run.params["recipe.vlm.model"] == "builtin:fieldguide"
    assert run.params["recipe.seed"] == "3"
    assert run.params["recipe.long"].endswith("(9000 characters)")
    assert len(run.params["recipe.long"]) == 500
    assert run.params["recipe.vlm.api_base"] == "http://***@server/v1"
    vlm["api_base"] = "http://***@server/v1"
    assert yaml.safe_load(run.content("recipe.yaml")) == recipe
    check_metrics(run, result)
    check_description(run.tags["mlflow.note.content"], result)
    check_tables(run)
    iterations = run.children()
    assert [run.tags["taxtune.iteration"] for run in iterations] == [str(k) for k in range(9)]
    assert [run.status for run in iterations] == ["FINISHED"] * 7 + ["FAILED"] + ["FINISHED"]
    assert iterations[0].name == "baseline"
    check_iteration(iterations[1], result.iterations[1])
    check_failed(iterations[7])


def check_metrics(run, result):
    # A handful: all else is in tables.
    held = {f"heldout/{key}" for key in SHOWN}
    counted = {"objective", "best_objective", "images", "missing"}
    tuning = {f"tuning/{key}" for key in SHOWN | counted}
    assert set(run.metrics) == held | tuning | {"usage/seconds", "usage/cost_usd"}
    # The page begins with the winner's figures on the held-out images.
    leading = ["wrong", "right_but_general", "exact", "share_wrong", "hp", "hr"]
    assert list(run.metrics)[:6] == [f"heldout/{key}" for key in leading]
    answered = [row for row in result.heldout_winner.rows if row.failure is None]
    assert run.metrics["heldout/exact"] == sum(row.exact for row in answered)
    assert sum(run.metrics[f"heldout/{key}"] for key in leading[:3]) == len(answered)
    # The baseline's, then the winner's.
    assert run.steps("heldout/hp") == {0: 0.871, 9: 0.962}
    scored = [record for record in result.iterations if record.scores is not None]
    hp = {record.iteration: record.scores.hp for record in scored}
    assert run.steps("tuning/hp") == hp
    assert len(run.steps("tuning/best_objective")) == 9


def check_description(about, result):
    assert about.startswith("[Report](#/experiments/")
    assert "| On 200 images the search never saw | baseline | winner |" in about
    assert "| precision hP | 0.871 | 0.962 | +0.091 (+0.070 to +0.111) |" in about
    for state, count in summarise(result).columns[1].outcomes.counts.items():
        assert re.search(rf"^\| {state} \| \d+ \| {count} \|", about, re.MULTILINE)
    for title in (f"Prompt (iteration {result.winner} of 8)", "Cost", "Next steps"):
        assert f"### {title}" in about
    assert "taxtune classify runs/sample" in about


def check_tables(run):
    rows = {(row["template"], row["score"]): row for row in run.table("heldout.json")}
    winner = rows["winner", "hP"]
    assert (winner["value"], winner["95 % low"]) == (0.962, pytest.approx(0.944))
    change = rows["winner − baseline", "hP"]
    assert (change["p"], change["value"]) == (0.0004, pytest.approx(0.091))
    assert {row["template"] for row in run.table("ranks.json")} == {"baseline", "winner"}
    images = run.table("heldout_images.json")
    assert len(images) == 200
    # What a page has room for comes first, of the costliest answers.
    winner = [f"winner: {field}" for field in ("answer", "placement", "hP", "hR")]
    assert list(images[0])[:6] == ["picture", "truth", *winner]
    costs = [(row["winner: hP"], row["winner: hR"]) for row in images]
    known = [cost for cost in costs if cost[0] is not None]
    assert known == sorted(known)
    assert costs[: len(known)] == known


def check_iteration(run, record):
    assert record.scores is not None
    tuning = {f"tuning/{key}" for key in SHOWN | {"objective", "images", "missing"}}
    assert set(run.metrics) == tuning | {"usage/seconds", "usage/cost_usd"}
    assert run.metrics["tuning/hp"] == record.scores.hp
    assert run.metrics["tuning/missing"] == 1
    assert run.metrics["usage/cost_usd"] == pytest.approx(0.0031)
    scores = run.json("scores.json")
    assert scores["vlm.from_store"] == 5
    assert scores["ihp"] == record.scores.ihp
    assert "vlm.cost_usd" not in scores  # an unknown price is not zero
    assert run.params["care"] == "if unsure, back off"
    assert run.content("template.j2") == record.template
    rows = run.table("examples.json")
    assert list(rows[0])[:6] == ["picture", "answer", "placement", "truth", "hP", "hR"]
    assert len(rows) == 20
    # The costliest comes first; a failed call is no cost.
    assert rows[-1]["answer"] is None
    costs = [(row["hP"], row["hR"]) for row in rows[:-1]]
    assert costs == sorted(costs)
    assert samples.HOSTILE in [row["answer"] for row in rows]
    # The tag by which MLflow's pages find tables.
    (artifact,) = json.loads(run.tags["mlflow.loggedArtifacts"])
    assert artifact == {"path": "examples.json", "type": "table"}


def check_failed(run):
    assert "tuning/hp" not in run.metrics
    assert "tuning/exact" not in run.metrics
    assert run.tags["taxtune.reason"].startswith("three replies")
    turn, *_ = run.json("trace.json")["trace"]
    assert (turn["tool"], turn["prompt_tokens"]) == ("submit", 900)
    refused, *_ = run.json("rejected.json")["rejected"]
    assert refused == {"template": "{{ ''.__class__ }}", "reason": "attribute access is refused"}


def test_tables_show_small_pictures_of_the_first_rows(uri, tmp_path):
    record = samples.iteration(1, images=40)
    images = {row.example: tmp_path / f"{i}.jpg" for i, row in enumerate(record.rows)}
    for file in images.values():
        Image.new("RGB", (600, 300), (40, 90, 0)).save(file)
    (tmp_path / "0.jpg").write_bytes(b"no image any more")
    tracker = MLflowTracker("pictures", tmp_path, uri)
    parent = tracker.start("birds", {}, {}, images=images)
    tracker.iteration(record)
    (run,) = Recorded(uri, parent).children()
    cells = [row["picture"] for row in run.table("examples.json")]
    # MLflow shows a column as pictures only if all cells are some.
    assert {cell["type"] for cell in cells} == {"image"}
    # One cannot be read, and shares the grey square with those beyond 24.
    assert len({cell["filepath"] for cell in cells}) == 23 + 1
    for cell in cells:
        file = run.folder / cell["compressed_filepath"]
        with Image.open(file) as picture:
            assert max(picture.size) <= 128
        assert file.stat().st_size < 10_000


def test_what_the_race_adds_to_an_iteration_takes_the_place_of_what_there_was(uri, tmp_path):
    result = samples.tune(n=2)
    tracker = MLflowTracker("rungs", tmp_path, uri)
    run = tracker.start("birds", {}, {})
    for record in result.iterations:
        tracker.iteration(record)
    before = {child.id for child in Recorded(uri, run).children()}
    baseline, _, last = result.iterations
    grown_run = replace(result, iterations=(baseline, samples.iteration(1, 0.5, images=60), last))
    # Another process knows of it from the store.
    for teller in (tracker, MLflowTracker("rungs", tmp_path, uri)):
        teller.start("birds", {}, {}, run)
        teller.finish(grown_run)
    children = Recorded(uri, run).children()
    assert {child.id for child in children} == before
    assert list(children[1].steps("tuning/hp")) == [20, 60]
    assert children[1].metrics["tuning/hp"] == 0.5
    assert len(children[1].table("examples.json")) == 60
    # The curve is that of the search.
    assert len(Recorded(uri, run).steps("tuning/hp")) == 3


def test_nothing_is_recorded_twice_on_resume_and_what_is_half_there_is_filled(uri, tmp_path):
    result = samples.tune(n=5)
    first = MLflowTracker("resume", tmp_path, uri)
    parent = first.start("birds", {"seed": 1}, {})
    for record in result.iterations[:3]:
        first.iteration(record)
    # As if killed with -9 while iteration 3 was being recorded.
    before = [run.id for run in Recorded(uri, parent).children()]
    tags = {"mlflow.parentRunId": parent, "taxtune.iteration": "3"}
    experiment = Recorded(uri, parent).experiment
    half = client(uri).create_run(experiment, tags=tags, run_name="iteration 03").info.run_id

    second = MLflowTracker("resume", tmp_path, uri)
    assert second.start("birds", {"seed": 1, "new": 2}, {}, parent) == parent
    assert Recorded(uri, parent).status == "RUNNING"
    for record in result.iterations:
        second.iteration(record)
    second.finish(result)
    second.finish(result)
    second.close()
    run = Recorded(uri, parent)
    children = run.children()
    assert [int(child.tags["taxtune.iteration"]) for child in children] == list(range(6))
    # What is half there is filled.
    assert [child.id for child in children[:4]] == [*before, half]
    assert children[3].metrics["tuning/hp"] > 0
    assert len(run.steps("tuning/hp")) == 6
    assert len(run.table("heldout_images.json")) == 200


@pytest.mark.heavy
def test_a_store_that_fails_in_the_middle_loses_nothing(uri, tmp_path, monkeypatch, notes):
    result = samples.tune(n=4)
    tracker = MLflowTracker("outage", tmp_path, uri)
    parent = tracker.start("birds", {}, {})
    tracker.iteration(result.iterations[0])

    def full(*args, **kwargs):
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
    assert len(Recorded(uri, parent).children()) == 5


def test_a_run_of_the_caller_stays_apart(uri, tmp_path, monkeypatch):
    import mlflow

    own = f"sqlite:///{tmp_path}/own.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", own)
    mlflow.set_tracking_uri(own)
    # An id that the other store does not have.
    for number in range(50):
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
    assert "mlflow.parentRunId" not in Recorded(uri, parent).tags
    assert len(Recorded(uri, parent).children()) == 2
    assert set(Recorded(own, active.info.run_id).metrics) == {"own"}
    mlflow.set_tracking_uri(None)


@pytest.mark.heavy
def test_templates_are_versions_of_a_prompt_each_once(uri, tmp_path):
    source = (
        "{{ question }}\n{% if ranks %}- {{ ranks }}\n{% endif %}Größe: 'as sure as you are'. \n"
    )
    run = samples.tune(n=2)
    before, after = run.heldout
    first, second, last = run.iterations
    result = replace(
        run,
        name="birds: inat21 / x",
        winner=2,
        selection=Selection(winner=2, reached=True, images=20, leaders=(0, 1, 1)),
        iterations=(
            replace(first, value=0.8),
            replace(second, value=0.9),
            replace(last, value=0.85, template=source),
        ),
        heldout=(before, replace(after, template=source)),
    )

    def recorded(run=None):
        tracker = MLflowTracker("registry", tmp_path, uri)
        parent = tracker.start("birds", {}, {}, run)
        tracker.finish(result)
        wait_for_links()
        assert tracker.whole
        return parent

    parent = recorded()
    recorded(parent)
    name = "birds-inat21-x"
    store = client(uri)
    versions = {int(each.version): each for each in store.search_prompt_versions(name)}
    # A run that is resumed registers nothing anew.
    assert sorted(versions) == [1, 2, 3]
    for record in result.iterations:
        assert versions[record.iteration + 1].template == record.template
    assert store.get_prompt_version_by_alias(name, "baseline").version == 1
    assert store.get_prompt_version_by_alias(name, "hp").version == 3
    assert versions[1].commit_message == "The baseline: hP 0.800 on 20 tuning images."
    assert versions[2].commit_message.endswith("Care: if unsure, back off; format: short.")
    winner = store.load_prompt(f"prompts:/{name}@hp")
    assert winner.template == source
    assert winner.tags["heldout.hp"] == "0.962"
    assert winner.tags["taxtune.iteration"] == "2"
    assert "heldout.hp" not in versions[2].tags
    read = Recorded(uri, parent)
    assert read.tags["taxtune.prompt"] == f"prompts:/{name}/3"
    linked = json.loads(read.tags["mlflow.linkedPrompts"])
    assert [each["version"] for each in linked] == ["1", "2", "3"]
    for version, child in enumerate(read.children(), 1):
        own = [{"name": name, "version": str(version)}]
        assert json.loads(child.tags["mlflow.linkedPrompts"]) == own
    # By this the experiment's page finds it.
    assert f",{read.experiment}," in store.get_prompt(name).tags["_mlflow_experiment_ids"]
    assert "MLFLOW_EXPERIMENT_ID" not in os.environ
    assert "MLFLOW_TRACKING_URI" not in os.environ

    # Another run has versions of its own.
    recorded()
    assert store.get_prompt_version_by_alias(name, "hp").version == 6


def compared(uri, folder, identity, runs):
    group = ComparisonGroup("birds", identity)
    ids = []
    for each in runs:
        tracker = MLflowTracker("compare", folder, uri)
        objective = {"kind": each.objective}
        recipe = {"name": "birds", "vlm": {"model": "local"}, "objective": objective}
        settings = {"objective": each.objective, "model": "local", "recipe": recipe}
        ids.append(tracker.start(f"birds ({each.objective})", settings, {}, group=group))
        tracker.finish(each)
        tracker.close()
    wait_for_links()
    return group, ids


@pytest.mark.heavy
def test_a_comparison_is_the_run_above_its_runs(uri, tmp_path):
    result = replace(samples.comparison(2), folder=str(tmp_path))
    (tmp_path / "hp_hr.svg").write_text("<svg/>")
    for _ in range(2):  # and again, as when it is resumed
        group, ids = compared(uri, tmp_path, "c7", result.runs)
        above = MLflowTracker("compare", tmp_path, uri).group(result, group)
        assert above is not None
    run = Recorded(uri, above)
    found = client(uri).search_runs([run.experiment], "tags.`taxtune.group` = 'c7'")
    assert [each.info.run_id for each in found] == [above]
    assert {Recorded(uri, each).tags["mlflow.parentRunId"] for each in ids} == {above}
    assert (run.name, run.status) == ("compare: birds", "FINISHED")
    # The recipe, without what differs below.
    shared = {"model": "local", "recipe.name": "birds", "recipe.vlm.model": "local"}
    assert run.params == shared
    shared = {"name": "birds", "vlm": {"model": "local"}}
    assert yaml.safe_load(run.content("recipe.yaml")) == shared
    pairs = itertools.product(SHOWN, ("baseline", "hp", "accuracy"))
    assert set(run.metrics) == {f"heldout/{key}/{name}" for key, name in pairs}
    assert run.metrics["heldout/hp/hp"] == 0.962
    assert next(iter(run.metrics)) == "heldout/wrong/hp"  # the baseline is last
    assert run.content("figures/hp_hr.svg") == "<svg/>"
    changes = {(row["template"], row["score"]): row for row in run.table("heldout.json")}
    assert changes["accuracy-tuned − hP-tuned", "hP"]["95 % low"] == pytest.approx(-0.136)
    assert {"hp: answer", "accuracy: answer"} < set(run.table("heldout_images.json")[0])
    about = run.tags["mlflow.note.content"]
    assert "| On 200 images the search never saw | baseline | hP-tuned | accuracy-tuned |" in about
    for each in result.runs:
        goal = metric_name(each.objective)
        assert f"### Prompt tuned for {goal} (iteration {each.winner} of " in about
    # Its runs share versions of the prompt, and each has an alias of its own.
    for alias in ("hp", "accuracy"):
        version = client(uri).get_prompt_version_by_alias("birds", alias)
        assert version.tags["taxtune.run"] == above
    versions = client(uri).search_prompt_versions("birds")
    texts = [each.template for each in versions if each.tags["taxtune.run"] == above]
    assert len(texts) == len(set(texts))


def test_a_measure_may_be_named_after_a_model_with_a_slash(uri, tmp_path):
    result = replace(samples.comparison(2), runs=(), folder=str(tmp_path))
    *others, last = result.heldout
    result = replace(result, heldout=(*others, replace(last, name="bertscore:ms/deberta")))
    tracker = MLflowTracker("slash", tmp_path, uri)
    above = tracker.group(result, ComparisonGroup("birds", "c9"))
    assert above is not None
    assert tracker.whole
    assert Recorded(uri, above).content("template_bertscore-ms-deberta.j2") == last.template


def test_a_run_that_fails_ends_the_one_above_it(uri, tmp_path):
    group = ComparisonGroup("birds", "c8")
    tracker = MLflowTracker("compare", tmp_path, uri)
    run = tracker.start("birds", {}, {}, group=group)
    above = Recorded(uri, run).tags["mlflow.parentRunId"]
    assert Recorded(uri, above).status == "RUNNING"
    tracker.close("KILLED")
    assert Recorded(uri, above).status == "KILLED"
    assert MLflowTracker("compare", tmp_path, uri).start("birds", {}, {}, run, group=group) == run
    assert Recorded(uri, above).status == "RUNNING"


def test_the_default_store_lies_beside_the_run(tmp_path):
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


def test_a_server_that_is_not_there(tmp_path, monkeypatch):
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


def test_a_database_that_cannot_be_used(tmp_path, monkeypatch):
    (tmp_path / "mlflow.db").write_text("this is not a database, whatever its name says " * 50)
    # MLflow itself goes on trying for two minutes.
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail(f"It waits for {seconds} s."))
    said = r"mlflow\.db: MLflow's database cannot be written: file is not a database"
    with pytest.raises(TaxtuneError, match=said):
        MLflowTracker("x", tmp_path).start("birds", {}, {})
    (tmp_path / "file").write_text("x")
    with pytest.raises(TaxtuneError, match="file"):
        MLflowTracker("x", tmp_path / "file").start("birds", {}, {})


def test_mlflow_is_loaded_only_when_a_run_starts():
    code = (
        "import sys; from taxtune.tracking import MLflowTracker; MLflowTracker('x', '.').where();"
        "print([m for m in ('mlflow', 'pandas', 'matplotlib', 'optuna') if m in sys.modules])"
    )
    python = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(python, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
