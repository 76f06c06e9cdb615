import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from taxtune.errors import ResumeError, TaxtuneError
from taxtune.tuning.history import History, best
from taxtune.tuning.proposers import Proposal
from taxtune.tuning.records import ExampleRow, IterationRecord, TemplateScores

IDENTITY = {"seed": 1, "data": "abc"}


def record(iteration, hp=0.8, hr=0.7, *, value=None, feasible=True):
    row = ExampleRow("e1", "a.png", 3, "life/b", "a b/c", 2, "life", "verbatim", 0.5, hp, hr, False, True)
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


def run(history, total):
    done = []
    while (claim := history.claim(total)) is not None:
        history.propose(claim, Proposal(f"template {claim.iteration}", {"slot": "x"}))
        history.finish(record(claim.iteration, hp=0.5 + claim.iteration / 10))
        done.append(claim.iteration)
    return done


def test_iterations_are_numbered_from_the_baseline_and_come_back_as_they_were(tmp_path):
    history = History(tmp_path, "run", IDENTITY, resume=False)
    assert run(history, 3) == [0, 1, 2, 3]
    history.close()
    again = History(tmp_path, "run", IDENTITY, resume=True)
    assert again.records() == [record(i, hp=0.5 + i / 10) for i in range(4)]
    assert again.claim(3) is None
    assert run(again, 5) == [4, 5], "more iterations than before go on from there"
    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == list(range(6))


def test_a_failed_iteration_is_kept_without_scores(tmp_path):
    history = History(tmp_path, "run", IDENTITY, resume=False)
    claim = history.claim(0)
    history.finish(IterationRecord(claim.iteration, "failed", None, reason="three bad replies"))
    assert history.records()[0].reason == "three bad replies"
    assert best(history.records()) is None


def test_the_pareto_front_is_of_hp_and_hr(tmp_path):
    history = History(tmp_path, "run", IDENTITY, resume=False)
    for hp, hr in [(0.5, 0.9), (0.9, 0.5), (0.4, 0.4)]:
        history.finish(record(history.claim(2).iteration, hp, hr))
    assert history.pareto() == (0, 1)


def test_an_existing_run_is_not_overwritten(tmp_path):
    History(tmp_path, "run", IDENTITY, resume=False).close()
    with pytest.raises(ResumeError, match="--resume"):
        History(tmp_path, "run", IDENTITY, resume=False)


def test_what_may_change_by_now_does_not_stop_a_run_from_before(tmp_path):
    History(tmp_path, "run", {**IDENTITY, "recipe.max_missing": 0.1}, resume=False).close()
    History(tmp_path, "run", IDENTITY, resume=True).close()


def test_resume_says_what_changed(tmp_path):
    History(tmp_path, "run", IDENTITY, resume=False).close()
    with pytest.raises(ResumeError) as error:
        History(tmp_path, "run", {"seed": 2, "data": "abc", "new": 1}, resume=True)
    assert "seed: was 1, is 2" in str(error.value)
    assert "new: was null, is 1" in str(error.value)
    assert "data" not in str(error.value).split("other data:")[1].split("Undo")[0]


def test_a_file_that_is_no_database_is_a_clear_error(tmp_path):
    (tmp_path / "history.db").write_text("not a database, certainly not one" * 100)
    with pytest.raises(TaxtuneError, match=r"history\.db"):
        History(tmp_path, "run", IDENTITY, resume=True)


def test_what_a_killed_worker_held_is_taken_over_with_its_template(tmp_path):
    script = textwrap.dedent(
        """
        import sys, time
        from pathlib import Path
        from taxtune.tuning.history import History
        from taxtune.tuning.proposers import Proposal
        history = History(Path(sys.argv[1]), "run", {"seed": 1, "data": "abc"}, resume=True)
        claim = history.claim(5)
        history.propose(claim, Proposal("half done", {"slot": "x"}))
        print(claim.iteration, flush=True)
        time.sleep(60)
        """
    )
    worker = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert worker.stdout.readline().strip() == "0"
    history = History(tmp_path, "run", IDENTITY, resume=True)
    mine = history.claim(5)
    assert mine.iteration == 1, "a living worker keeps its iteration"
    assert history.others_at_work()
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    taken = history.claim(5)
    assert (taken.iteration, taken.proposal) == (0, Proposal("half done", {"slot": "x"}))
    assert not history.others_at_work()


def test_a_record_stored_just_before_death_is_not_made_again(tmp_path):
    history = History(tmp_path, "run", IDENTITY, resume=False)
    claim = history.claim(5)
    history._set(claim.iteration, "record", json.loads(json.dumps(record(0).as_dict())))
    history.close()
    again = History(tmp_path, "run", IDENTITY, resume=True)
    assert again.claim(5).record == record(0)


def test_what_another_worker_is_asking_with_is_known(tmp_path):
    history = History(tmp_path, "run", IDENTITY, resume=False)
    history.finish(record(history.claim(5).iteration))
    history.propose(history.claim(5), Proposal("being asked"))
    another = History(tmp_path, "run", IDENTITY, resume=True)
    assert another.templates() == ("being asked",)
    assert [r.template for r in another.records()] == ["template 0"]


def test_the_winner_is_feasible_and_the_earliest_of_equals():
    records = [record(0, value=0.5), record(1, value=0.9, feasible=False), record(2, value=0.7), record(3, value=0.7)]
    assert best(records).iteration == 2
    assert best(records[1:2]).iteration == 1, "where nothing is feasible, the nearest to it"
