from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from contextlib import ExitStack

import pytest

from taxtune.errors import ResumeError, TaxtuneError
from taxtune.metrics.table import TemplateScores
from taxtune.tuning.history import History, check_unused, is_begun
from taxtune.tuning.proposers import Proposal
from taxtune.tuning.records import IterationRecord
from tests.rows import sample_row

IDENTITY = {"seed": 1, "data": "abc"}


class Opened:
    """A run's folder, in which one history after another is opened."""

    def __init__(self, folder, stack):
        self.folder, self._stack = folder, stack

    def open(self, identity=IDENTITY, *, resume=True):
        history = History(self.folder, "run", identity, resume=resume)
        self._stack.callback(history.close)
        return history


@pytest.fixture
def place(tmp_path):
    with ExitStack() as stack:
        yield Opened(tmp_path / "run", stack)


def record(
    iteration,
    hp=0.8,
    hr=0.7,
    *,
    value=None,
    feasible=True,
):
    row = sample_row(
        target=3, node=2, placement="life", confidence=0.5, from_store=True, hp=hp, hr=hr
    )
    means = {"hp": hp, "hr": hr, "hf": 0.75, "accuracy": 0.5, "depth": 2.0}
    scores = TemplateScores(n=1, means=means)
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


def run(history, total):
    done = []
    while (claim := history.claim(total)) is not None:
        history.propose(claim, Proposal(f"template {claim.iteration}", {"slot": "x"}))
        history.finish(record(claim.iteration, hp=0.5 + claim.iteration / 10))
        done.append(claim.iteration)
    return done


def test_iterations_are_numbered_from_the_baseline_and_come_back_as_they_were(
    place,
):
    history = place.open(resume=False)
    assert run(history, 3) == [0, 1, 2, 3]
    history.close()
    again = place.open()
    assert again.records() == [record(i, hp=0.5 + i / 10) for i in range(4)]
    assert again.claim(3) is None
    assert run(again, 5) == [4, 5], "more iterations than before go on from there"
    lines = (place.folder / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == list(range(6))


def test_an_existing_run_is_not_overwritten(place):
    check_unused(place.folder)
    assert not is_begun(place.folder)
    history = place.open(resume=False)
    run(history, 0)
    history.close()
    assert is_begun(place.folder)
    with pytest.raises(ResumeError, match="already holds a tuning run") as error:
        place.open(resume=False)
    assert "--resume" in str(error.value)


def test_resume_says_what_changed(place):
    history = place.open()
    run(history, 0)
    history.close()
    with pytest.raises(ResumeError) as error:
        place.open({"seed": 2, "data": "abc", "new": 1})
    message = str(error.value)
    assert "seed: was 1, is 2" in message
    assert "new: was null, is 1" in message
    _, changes = message.split("another recipe:")
    assert "data" not in changes.split("Begin")[0]
    place.open().close()


def test_a_file_that_is_no_database_is_a_clear_error(tmp_path):
    (tmp_path / "history.db").write_text("not a database, certainly not one" * 100)
    with pytest.raises(TaxtuneError, match=r"history\.db"):
        History(tmp_path, "run", IDENTITY, resume=True)


# -- one process at a time ---------------------------------------------------------------------------------------------

WORKER = textwrap.dedent(
    """
    import sys, time
    from pathlib import Path
    from taxtune.tuning.history import History
    from taxtune.tuning.proposers import Proposal
    history = History(Path(sys.argv[1]), "run", {"seed": 1, "data": "abc"}, resume=True)
    history.propose(history.claim(5), Proposal("half done", {"slot": "x"}))
    print("begun", flush=True)
    time.sleep(60)
    """
)


def test_a_second_process_is_refused_and_goes_on_where_the_first_was_killed(place):
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(place.folder)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "begun"
        with pytest.raises(
            ResumeError, match="Another process is working on the run in this folder"
        ):
            place.open()
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    history = place.open()
    assert history.templates() == ("half done",)
    claim = history.claim(1)
    assert (claim.iteration, claim.proposal) == (0, Proposal("half done", {"slot": "x"}))


def test_a_run_without_a_finished_iteration_begins_anew_with_another_recipe(place):
    history = place.open(resume=False)
    history.propose(history.claim(3), Proposal("half done"))
    history.set_note("mlflow_run", "1")
    history.close()
    place.open({"seed": 2}, resume=False).close()  # and is stopped before it proposes
    history = place.open({"seed": 2}, resume=False)
    assert (history.templates(), history.note("mlflow_run")) == ((), None)
    history.finish(record(history.claim(3).iteration))
    history.close()
    with pytest.raises(ResumeError, match="seed: was 2, is 1"):
        place.open()


def test_a_trial_whose_process_died_before_closing_it_is_closed(place):
    history = place.open(resume=False)
    history.keep(record(history.claim(3).iteration))
    history.close()
    again = place.open()
    assert again.claim(0) is None
    assert again._study.trials[0].values == [0.8, 0.7]
