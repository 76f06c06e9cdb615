"""A run repeated with other seeds."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import taxtune
from taxtune.errors import ResumeError, TaxtuneError
from taxtune.models import ModelSettings, Request
from taxtune.models.api import ApiModel
from taxtune.models.base import reseeded
from taxtune.report.repeats import print_repeats, render_repeats, repeats_headline
from taxtune.tuning.objective import Constraint
from taxtune.tuning.repeats import RepeatsResult, Spread, repeat_tuning
from tests.cli.commands import run_captured
from tests.tuning.toy import ToyVLM, make_parts, tuned


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RepeatsResult, ToyVLM]:
    """Three repeats of the toy run, of which two were done before."""
    folder = tmp_path_factory.mktemp("repeats")
    vlm = ToyVLM()
    parts = make_parts(folder / "in", folder / "out", vlm, ("iterations=3",))
    repeat_tuning(parts.experiment(), parts.folder, 2)
    return folder, repeat_tuning(parts.experiment(), parts.folder, 3, resume=True), vlm


def test_repeats_differ_in_their_searches_alone(made: tuple[Path, RepeatsResult, ToyVLM], tmp_path: Path) -> None:
    folder, result, _ = made
    images = [[row.example for row in run.iterations[0].rows] for run in result.runs]
    assert images[0] == images[1] == images[2]
    searches = [tuple(record.template for record in run.iterations) for run in result.runs]
    assert len(set(searches)) == 3
    assert result.seeds == tuple({"split": 3, "proposer": 3 + k, "model": 3 + k} for k in range(3))
    # The first is what the same recipe does without being repeated, and the third what it does with that seed.
    for k, seeds in ((0, "seed=3"), (2, "seed={split: 3, proposer: 5, model: 5}")):
        alone = tuned(make_parts(folder / "in", tmp_path / f"{k}", overrides=("iterations=3", seeds)))
        assert tuple(record.template for record in alone.iterations) == searches[k]
        assert [held.scores for held in alone.heldout] == [held.scores for held in result.runs[k].heldout]


def test_a_template_that_several_try_is_asked_once(made: tuple[Path, RepeatsResult, ToyVLM]) -> None:
    _, result, vlm = made
    tried = {record.template for run in result.runs for record in run.iterations}
    held = {held.template for run in result.runs for held in run.heldout}
    assert vlm.asked == 8 * len(tried) + 12 * len(held)


def test_the_summary_is_of_the_winners(made: tuple[Path, RepeatsResult, ToyVLM]) -> None:
    folder, result, _ = made
    hp = [run.heldout[1].scores.hp for run in result.runs]
    assert result.winners["hp"] == Spread.of(hp)
    assert result.baselines["hp"].sd == 0
    frame = result.to_frame()
    assert frame["hp"].tolist() == hp
    assert frame["hp_difference"].mean() == pytest.approx(result.differences["hp"].mean)
    assert frame["tuning_hp"].tolist() == [run.best.scores.hp for run in result.runs if run.best.scores]
    written = json.loads((folder / "out/result.json").read_text())
    assert written == json.loads(json.dumps(result.as_dict()))
    assert written["winners"]["hp"]["mean"] == pytest.approx(sum(hp) / 3)
    again = taxtune.load_run(folder / "out")
    assert isinstance(again, RepeatsResult)
    assert again.as_dict() == result.as_dict()
    assert result.account.model.calls == sum(run.account.model.calls for run in result.runs)


def test_people_read_it(made: tuple[Path, RepeatsResult, ToyVLM]) -> None:
    _, result, _ = made
    console = Console(width=100, file=io.StringIO())
    print_repeats(console, result)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "3 runs, 12 held-out images" in text
    assert f"{result.winners['hr'].mean:.3f}" in text
    assert repeats_headline(result).startswith("The winners of 3 searches with different seeds")
    page = render_repeats(result)
    assert all(f'href="repeat-{k}/report.html"' in page for k in (1, 2, 3))
    assert "<svg" in page
    assert f"{result.account.model.calls}, " in page
    target = Constraint("hp", 0.9, 0.9)
    kept = sum(run.heldout[1].scores.hp >= 0.9 for run in result.runs)
    aimed = replace(result, runs=tuple(replace(run, constraints=(target,)) for run in result.runs))
    assert f"at least 0.900 in hP is kept in {kept} of them" in repeats_headline(aimed)
    assert "3 searches for hP" in page


@pytest.mark.parametrize(
    ("values", "expected"), [([0.5], Spread(1, 0.5, None, 0.5, 0.5)), ([0.4, 0.6], Spread(2, 0.5, 0.02**0.5, 0.4, 0.6))]
)
def test_a_spread(values: list[float], expected: Spread) -> None:
    found = Spread.of(values)
    assert (found.runs, found.lowest, found.highest) == (expected.runs, expected.lowest, expected.highest)
    assert (found.mean, found.sd) == (pytest.approx(expected.mean), pytest.approx(expected.sd))


def test_nothing_is_overwritten_and_one_is_no_repeat(made: tuple[Path, RepeatsResult, ToyVLM], tmp_path: Path) -> None:
    folder, _, _ = made
    parts = make_parts(folder / "in", folder / "out")
    with pytest.raises(ResumeError, match="repeat-1"):
        repeat_tuning(parts.experiment(), parts.folder, 2)
    with pytest.raises(TaxtuneError, match="at least twice"):
        repeat_tuning(parts.experiment(), tmp_path, 1)


def test_a_model_that_samples_has_samples_of_its_own_in_each_repeat(tmp_path: Path) -> None:
    sampling = ApiModel("openai/gpt-4o", ModelSettings(temperature=0.7, seed=1))
    greedy = ApiModel("openai/gpt-4o", ModelSettings(temperature=0.0))
    other = reseeded(sampling, 2)
    assert (sampling.identity["seed"], other.identity["seed"]) == (1, 2)
    assert reseeded(sampling, 1) is sampling
    assert reseeded(greedy, 2) is greedy

    class Sampling(ToyVLM):
        """Is asked anew with every seed."""

        def __init__(self) -> None:
            super().__init__()
            self.settings = ModelSettings(temperature=1.0, seed=3)
            self.seen: list[tuple[int, str]] = log

        @property
        def identity(self) -> Any:
            return {"kind": "toy", "model": "toy", "seed": self.settings.seed}

        @identity.setter
        def identity(self, value: Any) -> None:
            pass

        def answer(self, questions: list[Request]) -> Any:
            self.seen += [(self.settings.seed, question.prompt) for question in questions]
            return super().answer(questions)

    log: list[tuple[int, str]] = []
    parts = make_parts(tmp_path / "in", tmp_path / "out", Sampling(), ("iterations=1",))
    repeat_tuning(parts.experiment(), parts.folder, 2)
    assert {seed for seed, prompt in log if prompt == "What is this?"} == {3, 4}


def test_the_command_line_repeats(tmp_path: Path) -> None:
    sets = "data.count=24 data.tuning=6 data.block=null data.heldout=6 iterations=1 tracking.mlflow=false"
    options = ["tune", "fieldguide", "--repeats", 2, *(x for s in sets.split() for x in ("--set", s)), "--out", "out"]
    plan = json.loads(run_captured(*options, "--dry-run", "--json", folder=tmp_path).out)
    assert (plan["repeats"], plan["forecast"]["model"]["calls"]) == (2, 6 * (1 + 2) + 6 * (1 + 2))
    done = run_captured(*options, "--json", folder=tmp_path)
    assert done.code == 0, done.err
    assert len(json.loads(done.out)["repeats"]) == 2
    assert (tmp_path / "out/repeat-2/report.html").exists()
    again = run_captured(*options, "--resume", folder=tmp_path)
    assert "2 runs, 6 held-out images" in again.out
    assert run_captured(*options, folder=tmp_path).code != 0, "nothing is overwritten"


def test_python_repeats(tmp_path: Path) -> None:
    make_parts(tmp_path / "in", tmp_path / "out")
    result = taxtune.repeat(
        2,
        recipe=tmp_path / "in/recipe.yaml",
        vlm=ToyVLM(),
        settings={"iterations": 1},
        out=tmp_path / "out",
        objective="hf",
    )
    assert result.objective == "hf"
    assert len(result.runs) == 2
    assert "RepeatsResult('toy', objective='hf', runs=2, held-out hP:" in repr(result)
