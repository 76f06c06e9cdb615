"""A run whose history and answers are in a server's database, from a recipe."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import taxtune
from taxtune.errors import ResumeError
from taxtune.models import AnswerStore
from taxtune.recipe import load_recipe
from taxtune.tracking import MLflowTracker
from taxtune.tuning.callbacks import TrackingCallback
from taxtune.tuning.from_recipe import Parts
from taxtune.tuning.history import History
from taxtune.tuning.proposers import Proposal, Proposer
from tests.databases import postgresql
from tests.mlflow_servers import mlflow_server
from tests.tuning.test_crashes import ADVICE, RUNS, Dying, asked, ended, kept, start
from tests.tuning.toy import ToyVLM, make_files, make_parts, tuned


def test_machines_share_a_run_on_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = tuned(make_parts(tmp_path / "in", tmp_path / "alone"), tmp_path / "alone")
    with postgresql() as server:
        url = server.url
        monkeypatch.setenv("SECRET", "unused")
        settings = (f"storage={url.replace(':unused@', ':${SECRET}@')}", "iterations=3")
        one, two = tmp_path / "one", tmp_path / "two"
        log = tmp_path / "asked.log"
        vlm = ToyVLM(log)
        tuned(make_parts(tmp_path / "in", one, ToyVLM(log), settings), one)
        with pytest.raises(ResumeError, match=r"already holds a tuning run called 'toy-hp'"):
            tuned(make_parts(tmp_path / "in", two, vlm, settings), two)
        session = make_parts(tmp_path / "in", two, vlm, (settings[0],))
        result = tuned(session, two, resume=True)
        assert [r.template for r in result.iterations] == [r.template for r in alone.iterations]
        assert [r.scores for r in result.iterations] == [r.scores for r in alone.iterations]
        assert result.heldout[1].scores == alone.heldout[1].scores
        asked = log.read_text().splitlines()
        assert len(set(asked)) == len(asked), "what the other machine has asked is not asked again"
        assert vlm.asked < len(asked)
        assert not [*one.glob("answers.db"), *two.glob("answers.db")]
    written = [file for file in tmp_path.rglob("*") if file.is_file() and file.suffix not in {".db", ".png"}]
    assert not any("unused" in file.read_text(encoding="utf-8") for file in written), "no password in any file"


@pytest.mark.heavy
def test_the_result_is_in_mlflow_for_a_machine_that_had_no_part_in_it(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    with postgresql() as server, mlflow_server(tmp_path / "mlflow") as uri:
        for name, iterations in (("one", 2), ("two", 5)):
            settings = (f"storage={server.url}", f"iterations={iterations}")
            told = TrackingCallback(partial(MLflowTracker, "birds", tmp_path / name, uri))
            parts = make_parts(tmp_path / "in", tmp_path / name, overrides=settings)
            result = tuned(parts, resume=True, callbacks=[told])
        client = MlflowClient(uri)
        experiment = client.get_experiment_by_name("birds")
        assert experiment is not None
        runs = client.search_runs([experiment.experiment_id])
        (parent,) = (run for run in runs if "mlflow.parentRunId" not in run.data.tags)
        assert len(runs) == 1 + 6, "one parent run for both machines, and each iteration once"
        # As a command, since older versions of MLflow look into the default store otherwise.
        three = tmp_path / "three"
        download = ["artifacts", "download", "--run-id", parent.info.run_id, "--dst-path", str(three)]
        environment = {**os.environ, "MLFLOW_TRACKING_URI": uri}
        subprocess.run([sys.executable, "-m", "mlflow", *download], env=environment, check=True, capture_output=True)
    assert taxtune.load_run(three) == replace(result, folder=str(three))
    assert (three / "report.html").read_bytes() == (tmp_path / "two/report.html").read_bytes()


class Numbered(Proposer):
    """Proposes by the number of the iteration alone, so that it matters to nobody who does which."""

    def propose(self, history: Any, goal: Any, *, iteration: int, seed: int, check: Any) -> Proposal:
        """Returns the template of an iteration."""
        return Proposal(f"Photo {iteration}: which {{{{ domain }}}} is this? {ADVICE[iteration % len(ADVICE)]}")


class Doomed(Dying):
    """A toy model in whose process kill -9 strikes, if no other machine was struck by it, for each of some fates.

    Args:
        log: The log of this machine.
        fates: The files that the fates leave, each with a number of questions of a machine after which it strikes.
        answers: The database of the answers.
    """

    def __init__(self, log: Path, fates: Mapping[Path, int], answers: str) -> None:
        super().__init__(log, None, 0.01, answers)
        self.fates, self.seconds = fates, 0.05

    def answer(self, questions: Any) -> Any:
        """Answers as a toy model."""
        for fate, moment in self.fates.items():
            if self.moment is None and self.asked >= moment:
                with contextlib.suppress(FileExistsError):
                    fate.touch(exist_ok=False)
                    self.moment = 0
        return super().answer(questions)


def work_on(machine: str, folder: Path, out: Path, storage: str, fates: Mapping[Path, int]) -> None:
    """Works on a run as a machine of this name."""
    defaults: Any = History.__init__
    defaults.__kwdefaults__.update(machine=machine, patience=3.0)
    out.mkdir(exist_ok=True)
    recipe = load_recipe(folder / "recipe.yaml", (*RUNS["race"], f"storage={storage}"))
    vlm = Doomed(out / "asked.log", fates, storage)
    tuned(Parts(recipe, out, vlm=vlm, own_proposer=Numbered()), out, resume=True)


@pytest.mark.heavy
def test_of_four_machines_two_die_and_the_run_is_that_of_one(tmp_path: Path) -> None:
    folder, whole = tmp_path / "in", tmp_path / "whole"
    make_files(folder)
    with postgresql() as alone:
        assert not ended(start(work_on, "alone", folder, whole, alone.url, {}))
    # One in the search, and one that has asked more than its share of that: in the race or on the held-out images.
    fates = {tmp_path / "first": 2, tmp_path / "second": 12}
    machines = {name: tmp_path / name for name in ("one", "two", "three", "four")}
    with postgresql() as server:
        workers = {name: start(work_on, name, folder, out, server.url, fates) for name, out in machines.items()}
        killed = [name for name, worker in workers.items() if ended(worker)]
        assert len(killed) == 2
        # One that was killed is started again, and a machine comes that had no part in the run.
        machines["five"] = tmp_path / "five"
        before = {name: len(asked(out)) for name, out in machines.items()}
        for name in (killed[0], "five"):
            assert not ended(start(work_on, name, folder, machines[name], server.url, {}))
            assert len(asked(machines[name])) == before[name], "it has the result without a question"
        with AnswerStore(server.url) as store:
            stored = len(store)

    for name in machines.keys() - {killed[1]}:
        assert kept(machines[name]) == kept(whole), "what came out is what comes out of one machine"
    history, _ = kept(machines["five"])
    assert [record["iteration"] for record in history] == list(range(8))
    assert max(len(record["rows"]) for record in history) == 8, "there was a race"

    questions = Counter(question for out in machines.values() for question in asked(out))
    assert set(questions) == set(asked(whole))
    assert stored == len(questions)
    # A batch of two that was being asked, and one that was being written.
    in_flight = {question for name in killed for question in asked(machines[name])[-4:]}
    assert {question for question, times in questions.items() if times > 1} <= in_flight
    assert max(questions.values()) <= 2
