from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import optuna
import pytest
import sqlalchemy
from pydantic import TypeAdapter
from sqlalchemy.engine import Engine
from sqlalchemy.orm import Mapper

from taxtune.errors import ResumeError, TaxtuneError
from taxtune.tuning import history as tuning_history
from taxtune.tuning.history import History, best, check_unused, is_begun, read_attributes
from taxtune.tuning.proposers import Proposal
from taxtune.tuning.records import IterationRecord, SampleResult, TemplateScores
from tests.databases import postgresql

IDENTITY = {"seed": 1, "data": "abc"}
FOREVER = 1e6

Open = Callable[..., History]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgresql() as server:
        yield server.url


class Place:
    """Where a test's history is; opens it as one worker after another."""

    def __init__(self, folder: Path, name: str, storage: str | None, stack: ExitStack) -> None:
        self.folder, self.name, self.storage, self._stack = folder, name, storage, stack

    def open(self, identity: dict[str, object] = IDENTITY, *, resume: bool = True, **settings: object) -> History:
        folder = self.folder
        if self.storage is not None and "machine" in settings:
            folder = folder / str(settings["machine"])  # machines share the database and nothing else
        folder.mkdir(exist_ok=True, parents=True)
        history = History(folder, self.name, identity, resume=resume, storage=self.storage, **settings)
        self._stack.callback(history.close)
        return history

    @property
    def url(self) -> str:
        return self.storage or f"sqlite:///{self.folder / 'history.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    storage = None if request.param == "sqlite" else request.getfixturevalue("server")
    with ExitStack() as stack:
        yield Place(tmp_path / "run", tmp_path.name, storage, stack)


def record(
    iteration: int, hp: float = 0.8, hr: float = 0.7, *, value: float | None = None, feasible: bool = True
) -> IterationRecord:
    row = SampleResult("e1", "a.png", 3, "life/b", "a b/c", 2, "life", "verbatim", 0.5, hp, hr, False, True)
    scores = TemplateScores(hp, hr, 0.75, 0.5, 2.0, 1)
    return IterationRecord(
        iteration,
        "complete",
        f"template {iteration}",
        scores,
        hp if value is None else value,
        feasible,
        rows=(row,),
        rejected=(("bad", "why"),),
    )


def run(history: History, total: int) -> list[int]:
    done = []
    while (claim := history.claim(total)) is not None:
        history.propose(claim, Proposal(f"template {claim.iteration}", {"slot": "x"}))
        history.finish(record(claim.iteration, hp=0.5 + claim.iteration / 10))
        done.append(claim.iteration)
    return done


def test_iterations_are_numbered_from_the_baseline_and_come_back_as_they_were(place: Place) -> None:
    history = place.open(resume=False)
    assert run(history, 3) == [0, 1, 2, 3]
    history.close()
    again = place.open()
    assert again.records() == [record(i, hp=0.5 + i / 10) for i in range(4)]
    assert again.claim(3) is None
    assert run(again, 5) == [4, 5], "more iterations than before go on from there"
    lines = (place.folder / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == list(range(6))


def test_a_dashboard_shows_what_was_tried_and_how_it_scored(place: Place) -> None:
    history = place.open()
    run(history, 1)
    history.finish(IterationRecord(history.claim(2).iteration, "failed", None, reason="three bad replies"))
    study = optuna.load_study(study_name=place.name, storage=place.url)
    assert study.metric_names == ["hP", "hR"]
    assert [(trial.number, trial.values) for trial in study.trials] == [(0, [0.5, 0.7]), (1, [0.6, 0.7]), (2, None)]
    shown = {"template": "template 1", "hP": 0.6, "hR": 0.7, "value": 0.6, "feasible": True}
    assert study.trials[1].user_attrs.items() >= shown.items()
    assert study.trials[2].user_attrs["reason"] == "three bad replies"


def test_a_failed_iteration_is_kept_without_scores(place: Place) -> None:
    history = place.open()
    history.finish(IterationRecord(history.claim(0).iteration, "failed", None, reason="three bad replies"))
    assert history.records()[0].reason == "three bad replies"
    assert best(history.records()) is None


def test_the_pareto_front_is_of_hp_and_hr(place: Place) -> None:
    history = place.open()
    for hp, hr in [(0.5, 0.9), (0.9, 0.5), (0.4, 0.4)]:
        history.finish(record(history.claim(2).iteration, hp, hr))


def test_an_existing_run_is_not_overwritten(place: Place) -> None:
    arguments = (place.folder, place.name, place.storage)
    check_unused(*arguments)
    assert not is_begun(*arguments)
    place.open(resume=False).close()
    assert is_begun(*arguments)
    with pytest.raises(ResumeError, match="already holds a tuning run") as error:
        place.open(resume=False)
    assert "--resume" in str(error.value)
    assert "unused" not in str(error.value), "a password is not shown"


def test_what_may_change_by_now_does_not_stop_a_run_from_before(place: Place) -> None:
    place.open({**IDENTITY, "recipe.max_missing": 0.1}).close()
    place.open()


def test_resume_says_what_changed(place: Place) -> None:
    place.open().close()
    with pytest.raises(ResumeError) as error:
        place.open({"seed": 2, "data": "abc", "new": 1})
    assert "seed: was 1, is 2" in str(error.value)
    assert "new: was null, is 1" in str(error.value)
    assert "data" not in str(error.value).split("different data:")[1].split("Undo")[0]
    place.open().close()


def test_what_a_run_was_made_from_can_be_read_from_its_folder(place: Place) -> None:
    assert read_attributes(place.folder) == {}
    place.open().set_note("taxonomy", "tree.csv")
    assert place.open().note("taxonomy") == "tree.csv"
    assert read_attributes(place.folder) == {**IDENTITY, "note:taxonomy": "tree.csv"}


def test_another_name_in_the_same_folder_is_another_run(tmp_path: Path) -> None:
    History(tmp_path, "run", IDENTITY, resume=False).close()
    with pytest.raises(ResumeError, match=r'recipe\.name: was "run", is "walk"'):
        History(tmp_path, "walk", IDENTITY, resume=True)


def test_a_file_that_is_no_database_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "history.db").write_text("not a database, certainly not one" * 100)
    with pytest.raises(TaxtuneError, match=r"history\.db"):
        History(tmp_path, "run", IDENTITY, resume=True)
    (tmp_path / "history.json").write_text("{")
    with pytest.raises(TaxtuneError, match=r"history\.json: What the run was made from cannot be read"):
        read_attributes(tmp_path)


@pytest.mark.parametrize(
    ("storage", "words"),
    [
        (
            "postgresql+psycopg://me:secret@127.0.0.1:1/none",
            ["postgresql+psycopg://me:***@127.0.0.1:1/none", "running"],
        ),
        ("nosuch://host/database", ["SQLAlchemy cannot use the history's storage", "nosuch"]),
        ("my database", ["SQLAlchemy cannot use the history's storage"]),
    ],
)
def test_a_storage_that_cannot_be_opened_is_a_clear_error(tmp_path: Path, storage: str, words: list[str]) -> None:
    if "psycopg" in storage:
        pytest.importorskip("psycopg")
    with pytest.raises(TaxtuneError) as error:
        History(tmp_path / "out", "run", IDENTITY, resume=True, storage=storage)
    assert all(word in str(error.value) for word in words)
    assert "secret" not in str(error.value)
    assert not (tmp_path / "out").exists()


# -- several workers ---------------------------------------------------------------------------------------------------

WORKER = textwrap.dedent(
    """
    import sys, time
    from pathlib import Path
    from taxtune.tuning.history import History
    from taxtune.tuning.proposers import Proposal
    folder, name, storage, machine, patience = sys.argv[1:]
    history = History(
        Path(folder), name, {"seed": 1, "data": "abc"}, resume=True, storage=storage or None, machine=machine or None,
        patience=float(patience),
    )
    claim = history.claim(5)
    history.propose(claim, Proposal("half done", {"slot": "x"}))
    print(claim.iteration, flush=True)
    time.sleep(60)
    """
)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("machine", "patience"),
    [pytest.param(None, FOREVER, id="here: nobody waits"), pytest.param("far", 1.0, id="on another machine")],
)
def test_what_a_killed_worker_held_is_taken_over_with_its_template(
    place: Place, machine: str | None, patience: float
) -> None:
    arguments = [place.folder, place.name, place.storage or "", machine or "", patience]
    worker = subprocess.Popen([sys.executable, "-c", WORKER, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline().strip() == "0"
        history = place.open(patience=patience)
        mine = history.claim(5)
        assert mine.iteration == 1, "a living worker keeps its iteration"
    finally:
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
    history.finish(record(1))
    taken = history.claim(1)
    assert (taken.iteration, taken.proposal) == (0, Proposal("half done", {"slot": "x"}))


def test_an_iteration_is_waited_for_and_taken_over_where_its_worker_gives_up(place: Place) -> None:
    first, second = place.open(machine="one"), place.open(machine="two")
    first.propose(first.claim(0), Proposal("half done"))
    taken = []
    waiting = threading.Thread(target=lambda: taken.append(second.claim(0)))
    waiting.start()
    first.close()
    waiting.join(60)
    assert [(claim.iteration, claim.proposal) for claim in taken] == [(0, Proposal("half done"))]
    second.finish(record(0))
    assert second.claim(0) is None


def test_no_new_iteration_is_begun_where_none_is_wanted(place: Place) -> None:
    assert place.open().claim(3, new=False) is None


def test_who_seemed_dead_is_told_and_spoils_nothing(place: Place) -> None:
    # Gives no sign of life, and is not patient either.
    asleep, awake = place.open(machine="asleep", patience=FOREVER), place.open(machine="awake", patience=0.6)
    claim = asleep.claim(0)
    asleep.propose(claim, Proposal("template 0"))
    assert awake.claim(0).proposal == Proposal("template 0")
    with pytest.raises(TaxtuneError, match="taken over iteration 0"):
        asleep.finish(record(0, hp=0.1))
    awake.finish(record(0))
    with pytest.raises(TaxtuneError, match="taken over iteration 0"):
        asleep.finish(record(0, hp=0.1))
    assert asleep.records() == [record(0)]


def test_workers_share_the_iterations_and_each_is_done_once(place: Place) -> None:
    workers = [place.open(machine=f"machine {i}") for i in range(3)]
    done: list[int] = []
    threads = [threading.Thread(target=lambda w=worker: done.extend(run(w, 8))) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == list(range(9))
    assert workers[0].records() == [record(i, hp=0.5 + i / 10) for i in range(9)]


class Counted:
    """A type adapter that counts what it validates."""

    def __init__(self, adapter: TypeAdapter[IterationRecord], counts: Counter[str]) -> None:
        self.adapter, self.counts = adapter, counts
        self.dump_python = adapter.dump_python

    def validate_python(self, data: object) -> IterationRecord:
        self.counts["records"] += 1
        return self.adapter.validate_python(data)


def test_an_iteration_costs_the_same_whatever_came_before_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Counter[str] = Counter()
    monkeypatch.setattr(tuning_history, "_RECORD", Counted(tuning_history._RECORD, counts))
    first, second = (place.open(machine=name, patience=FOREVER) for name in ("one", "two"))
    with ExitStack() as listening:
        for target, event, what in ((Engine, "before_cursor_execute", "statements"), (Mapper, "load", "rows")):
            count = partial(lambda what, *_: counts.update([what]), what)
            sqlalchemy.event.listen(target, event, count)
            listening.callback(sqlalchemy.event.remove, target, event, count)
        costs = []
        for i in range(10):
            counts.clear()
            for worker in (first, second):
                claim = worker.claim(100)
                assert len(worker.templates()) == claim.iteration, "what the other has done is seen"
                worker.propose(claim, Proposal(f"template {claim.iteration}"))
                worker.finish(record(claim.iteration))
                if i == 5 and worker is first:  # what grows once costs once
                    worker.grow(replace(record(0), rows=record(0).rows * 2))
                assert len(worker.known()) == claim.iteration + 1
            costs.append(dict(counts))
    assert costs[2] == costs[4] == costs[-1]
    assert costs[-1]["records"] == 4, "each of the two iterations is read once by each of the two workers"
    assert [len(r.rows) for r in second.records()[:2]] == [2, 1]


def test_only_one_does_what_is_done_alone(place: Place) -> None:
    workers = [place.open(machine=name) for name in ("one", "two")]
    inside: list[int] = []
    most: list[int] = []

    def work(worker: History) -> None:
        for _ in range(3):
            with worker.alone("final"):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 6


def test_a_run_that_nothing_was_gained_in_is_removed(place: Place) -> None:
    history = place.open(resume=False)
    history.propose(history.claim(3), Proposal("half done"))
    other = place.open()
    history.discard()
    assert is_begun(place.folder, place.name, place.storage), "another worker is there"
    other.close()
    history.discard()
    history.close()
    assert not is_begun(place.folder, place.name, place.storage)
    assert list(place.folder.iterdir()) == []
    kept = place.open(resume=False)
    kept.finish(record(kept.claim(3).iteration))
    kept.discard()
    assert [r.iteration for r in kept.records()] == [0], "a finished iteration is worth keeping"


def test_a_run_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    """Its workers were known by lock files alone, and their trials had no readable attributes."""
    storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path / 'history.db'}")
    study = optuna.create_study(study_name="run", storage=storage, directions=["maximize", "maximize"])
    study.set_user_attr("identity", IDENTITY)
    study.set_user_attr("details", {})
    study.set_user_attr("note:taxonomy", "tree.csv")
    for hp in (0.5, 0.6):
        trial = study.ask()
        trial.set_user_attr("worker", "0123456789abcdef")
        trial.set_user_attr("proposal", {"template": f"template {trial.number}", "parameters": {"slot": "x"}})
        trial.set_user_attr("record", json.loads(json.dumps(record(trial.number, hp).as_dict())))
        if trial.number == 0:
            study.tell(trial, [0.5, 0.7])
    trial = study.ask()
    trial.set_user_attr("worker", "0123456789abcdef")
    trial.set_user_attr("proposal", {"template": "half done"})
    (tmp_path / ".locks").mkdir()
    (tmp_path / ".locks" / "worker-0123456789abcdef.lock").touch()
    history = History(tmp_path, "run", IDENTITY, resume=True)
    assert history.templates() == ("template 0", "template 1", "half done")
    claim = history.claim(3)
    assert claim.record == record(1, 0.6), "a record that was stored just before death is not made again"
    history.finish(claim.record)
    assert history.claim(3).proposal == Proposal("half done")
    history.finish(record(2, 0.7))
    assert run(history, 3) == [3]
    assert history.note("taxonomy") == "tree.csv"
    assert [r.iteration for r in history.records()] == [0, 1, 2, 3]
    history.close()


def test_what_another_worker_is_asking_with_is_known(place: Place) -> None:
    history = place.open()
    history.finish(record(history.claim(5).iteration))
    history.propose(history.claim(5), Proposal("being asked"))
    another = place.open()
    assert another.templates() == ("being asked",)
    assert [r.template for r in another.records()] == ["template 0"]


def test_the_winner_is_feasible_and_the_earliest_of_equals() -> None:
    records = [record(0, value=0.5), record(1, value=0.9, feasible=False), record(2, value=0.7), record(3, value=0.7)]
    assert best(records).iteration == 2
    assert best(records[1:2]).iteration == 1, "where nothing is feasible, the nearest to it"
