"""Another winner of a finished run, chosen by a person."""

from __future__ import annotations

from dataclasses import replace

import pytest

import taxtune
from taxtune.errors import DataError, ResumeError
from taxtune.report.formatting import role_of
from taxtune.report.html import render_report
from taxtune.report.summary import verdict
from taxtune.tuning.records import OBJECTIVES_CHOICE
from taxtune.tuning.run_folder import read_result
from tests.cli.commands import run_captured
from tests.tuning.toy import ToyVLM, Weighing, compared, make_files, toy, tuned


@pytest.fixture
def run(tmp_path):
    """A finished run whose winner is not the baseline."""
    result = tuned(toy(tmp_path))
    assert result.winner != 0
    return result


def other(result):
    """Returns the first iteration with a prompt of its own that did not win."""
    taken = {result.best.prompt, result.baseline.prompt}
    return next(
        record.iteration
        for record in result.iterations
        if record.scores is not None and record.prompt not in taken
    )


def test_the_new_winner_is_asked_about_the_held_out_images_and_is_kept_until_it_is_taken_back(
    run, tmp_path, caplog
):
    (tmp_path / "run" / "calibration.json").write_text("{}")
    vlm = ToyVLM()
    number = other(run)
    chosen = taxtune.choose(run, number, vlm=vlm)
    assert vlm.asked == len(run.heldout_winner.rows)
    assert "made for another prompt; calibrate this one: taxtune calibrate" in caplog.text
    assert (chosen.winner, chosen.is_chosen, run.is_chosen) == (number, True, False)
    assert [held.name for held in chosen.heldout] == ["baseline", OBJECTIVES_CHOICE, "winner"]
    first = {held.name: held for held in chosen.heldout}[OBJECTIVES_CHOICE]
    assert first.scores == run.heldout_winner.scores
    assert [row.answer for row in first.rows] == [row.answer for row in run.heldout_winner.rows]
    assert chosen.against("winner", OBJECTIVES_CHOICE) is not None
    for name in ("objective", "constraints", "spec"):
        assert getattr(chosen, name) == getattr(run, name)

    folder = tmp_path / "run"
    assert (folder / "winner.j2").read_text() == chosen.best.template
    again = read_result(folder)
    assert (again.winner, again.is_chosen) == (number, True)
    said = "Chosen by a person after looking at the results (not among the candidates); the run "
    said += f"chose iteration {run.winner}."
    assert said in verdict(again)
    assert said in render_report(again)
    assert taxtune.load_classifier(folder, vlm=ToyVLM()).template == chosen.best.template

    resumed = tuned(toy(tmp_path), resume=True)
    assert resumed.winner == number
    assert resumed.heldout_winner.template == resumed.best.template

    silent = ToyVLM()
    back = taxtune.choose(run, run.winner, vlm=silent)
    assert silent.asked == 0
    assert not back.is_chosen
    assert [held.name for held in back.heldout] == ["baseline", "winner"]
    assert not tuned(toy(tmp_path), resume=True).is_chosen


def test_a_choice_asks_no_more_where_the_answers_are_gone(run, tmp_path):
    for file in tmp_path.glob("answers.db*"):
        file.unlink()
    vlm = ToyVLM()
    chosen = taxtune.choose(run, other(run), vlm=vlm)
    assert vlm.asked == len(run.heldout_winner.rows)
    assert chosen.heldout[0].scores == run.heldout[0].scores
    assert chosen.heldout[0].intervals == run.heldout[0].intervals
    assert chosen.usage.vlm.calls == run.usage.vlm.calls + vlm.asked


def test_another_model_is_refused(run):
    vlm = ToyVLM()
    vlm.identity["model"] = "other"
    with pytest.raises(ResumeError, match=r'vlm\.model: was "toy", is "other"'):
        taxtune.choose(run, other(run), vlm=vlm)
    assert vlm.asked == 0


def test_what_is_held_chooses_the_threshold_of_another_winner_too(tmp_path):
    held = ("objective.kind=hr_at_hp", "objective.hp_target=0.5", "objective.confidence_level=0.5")
    setup = toy(tmp_path, "policy.kind=posterior", *held, vlm=Weighing())
    run = tuned(setup)
    tuned_for_it = {}
    for each in (other(run), run.winner):
        tuned_for_it[each] = taxtune.choose(run, each, vlm=Weighing()).selection.policy
    assert tuned_for_it[run.winner] == run.selection.policy


def test_a_function_that_is_not_kept_chooses_no_threshold(tmp_path):
    def mine(scores):
        return scores.hf

    setup = toy(tmp_path, "policy.kind=posterior", vlm=Weighing())
    run = tuned(setup, objective=mine)
    with pytest.raises(taxtune.TaxtuneError, match="a function of your own"):
        taxtune.choose(run, other(run), vlm=Weighing())


def test_the_choice_of_the_objective_has_a_name_where_it_has_no_role(run):
    taken = [replace(each, roles=()) for each in run.selection.candidates if each.taken]
    selection = replace(run.selection, candidates=tuple(taken))
    passed_over = replace(run, winner=other(run), selection=selection)
    assert role_of(passed_over, run.winner) == "the run's choice"


def test_what_is_not_there_is_refused_and_a_failure_leaves_the_run_as_it_was(run, tmp_path):
    for number in (-1, 99):
        with pytest.raises(DataError, match=r"no such iteration.*Choose one of 0, 1"):
            taxtune.choose(run, number, vlm=ToyVLM())
    with pytest.raises(taxtune.TaxtuneError, match="down"):
        taxtune.choose(run, other(run), vlm=Down())
    assert read_result(run.folder).winner == run.winner
    assert not tuned(toy(tmp_path), resume=True).is_chosen

    manifest = tmp_path / "in" / "manifest.csv"
    image = run.heldout_winner.rows[0].image
    label = "azure" if image.startswith("navy") else "navy"
    lines = [
        f"{image},{label},wall" if line.startswith(f"{image},") else line
        for line in manifest.read_text().splitlines()
    ]
    manifest.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match="held-out images are not those"):
        taxtune.choose(run, other(run), vlm=ToyVLM())
    assert read_result(run.folder).winner == run.winner


class Down(ToyVLM):
    """A model that is out of reach."""

    def answer(self, questions):
        raise taxtune.TaxtuneError("The model is down.")


def test_a_comparison_that_has_the_winner_of_before_is_told(tmp_path, caplog):
    hp, _ = compared(toy(tmp_path), ("hp", "accuracy")).runs
    taxtune.choose(hp, other(hp), vlm=ToyVLM())
    assert f"The comparison in {tmp_path / 'run'} has the winner of before" in caplog.text


@pytest.mark.heavy
def test_the_command_chooses_and_shows_three_templates(tmp_path):
    recipe = make_files(tmp_path)
    recipe.write_text(
        recipe.read_text().replace("iterations: 5", "iterations: 2\nmax_off_tree: 1.0")
    )
    made = run_captured("tune", "recipe.yaml", folder=tmp_path)
    assert made.code == 0, made.err
    winner = read_result(tmp_path / "runs" / "toy").winner
    number = next(number for number in (1, 2) if number != winner)
    chosen = run_captured("choose", "runs/toy", str(number), folder=tmp_path)
    assert chosen.code == 0, chosen.err
    assert "Chosen by a person" in chosen.out
    report = (tmp_path / "runs" / "toy" / "report.html").read_text()
    assert "Chosen by a person" in report


def test_a_run_of_a_folder_and_a_function_needs_the_function_again_and_nothing_else(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    make_files(tmp_path)
    run = taxtune.tune(
        "tree.csv",
        "manifest.csv",
        lambda prompt: prompt,
        settings={"iterations": 2, "max_off_tree": 1.0},
        out="run",
    )
    number = next(number for number in (1, 2) if number != run.winner)
    chosen = taxtune.choose(run, number, vlm=lambda prompt: prompt)
    assert chosen.winner == number
