"""What a dry run says of money and time: by litellm's counts and prices, or by the answers that are kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from taxtune.models import AnswerStore, FunctionModel, Request
from taxtune.models.api import ApiModel
from taxtune.models.api_errors import load_litellm
from taxtune.models.ask import mean_answer
from taxtune.models.base import Answer, ModelSettings
from taxtune.recipe import load_recipe
from taxtune.tuning.build import Setup
from taxtune.tuning.costs import CallCost, mean_cost
from taxtune.tuning.plan import make_plan
from taxtune.tuning.run_folder import answers_of
from tests.cli.commands import run_captured, run_json
from tests.tuning.toy import make_files, toy

MODEL = "openai/gpt-4o-mini"
IDENTITY = {"kind": "api", "model": MODEL}


@pytest.fixture(autouse=True)
def _a_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "not a key")


def photo(folder, *size):
    file = folder / "photo.jpg"
    Image.effect_noise(size, 50).convert("RGB").save(file)
    return Request("What is this?", file)


def keep(file, *answers, model=MODEL, image="hash"):
    """Stores answers, each its price and its seconds."""
    with AnswerStore(file) as store:
        for number, (usd, seconds) in enumerate(answers):
            request = Request(f"prompt {number}", Path("x.png") if image else None, image)
            answer = Answer(
                "navy", prompt_tokens=100, completion_tokens=4, cost_usd=usd, seconds=seconds
            )
            store.put(IDENTITY | {"model": model}, [(request, answer)])


def efforts_of(plan):
    return {one.effort: one for one in plan.spending}


def test_an_image_counts_as_its_model_reads_it(tmp_path):
    request = photo(tmp_path, 1600, 1200)  # sent as 1024 × 768
    text = ApiModel(MODEL).count_tokens(request.prompt)
    # Two tiles by two of 512 pixels: 85 + 4 · 170 of GPT-4o, 2,833 + 4 · 5,667 of its small sister.
    assert ApiModel("openai/gpt-4o").count_prompt_tokens(request) == pytest.approx(
        text + 765, abs=8
    )
    small = ApiModel(MODEL).count_prompt_tokens(request)
    module = load_litellm().litellm_core_utils.token_counter
    if hasattr(module, "estimate_image_tokens"):
        assert small == text + 25_501
    unknown = ApiModel("openai/mine").count_prompt_tokens(request)
    assert unknown == pytest.approx(text + 765, abs=20)
    assert ApiModel(MODEL).count_prompt_tokens(Request(request.prompt)) == pytest.approx(
        text, abs=8
    )
    # What cannot be counted has no price.
    assert ApiModel(MODEL).count_prompt_tokens(Request("What?", tmp_path / "gone.jpg")) is None


def test_the_mean_is_that_of_the_models_answers_about_images(tmp_path):
    file = tmp_path / "answers.db"
    assert mean_answer(file, MODEL) is None
    assert not file.exists()
    keep(file, (0.001, 2.0), (None, 4.0))
    keep(file, (7.0, 7.0), model="openai/another")
    keep(file, (9.0, 9.0), image="")
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert mean_answer(file, MODEL) == (2, 100, 4, 0.001, 3.0)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    with AnswerStore(file) as store:  # a run is going on
        store.put(IDENTITY, [(Request("new", Path("x.png"), "hash"), Answer("navy", seconds=6.0))])
        assert mean_answer(file, MODEL)[0] == 3
    file.write_text("no database")
    assert mean_answer(file, MODEL) is None


def test_answers_to_one_prompt_cost_what_they_cost_and_not_what_others_did():
    few = [
        Answer("A: tit.", prompt_tokens=100, completion_tokens=4, cost_usd=0.002, seconds=1.0),
        Answer("A: finch.", prompt_tokens=300, completion_tokens=6, cost_usd=None, seconds=3.0),
    ]
    assert mean_cost(few) == CallCost(
        answers=2, prompt_tokens=200, completion_tokens=5, usd=0.002, seconds=2.0
    )
    assert mean_cost(few[1:]).usd is None


def test_each_effort_has_its_calls_dollars_and_minutes(tmp_path):
    vlm = ApiModel(MODEL, ModelSettings(concurrency=4))
    parts = toy(tmp_path, "iterations=null", "effort=light", vlm=vlm)
    estimated = make_plan(parts)
    assert estimated.problems == ()
    tokens = vlm.count_prompt_tokens(photo(tmp_path, 16, 16))
    assert estimated.call.prompt_tokens == pytest.approx(tokens, abs=20)
    efforts = efforts_of(estimated)
    assert list(efforts) == ["light", "medium", "heavy"]
    assert [name for name, one in efforts.items() if one.chosen] == ["light"]
    assert efforts["light"].vlm_calls == estimated.vlm_calls
    for one in estimated.spending:
        assert one.usd == pytest.approx(one.vlm_calls * vlm.price(estimated.call.prompt_tokens, 40))
        assert one.minutes is None
    keep(answers_of(parts.folder), (0.002, 1.0), (0.004, 5.0))
    for one in make_plan(parts).spending:
        assert one.usd == pytest.approx(one.vlm_calls * 0.003)
        assert one.minutes == pytest.approx(one.vlm_calls * 3.0 / 4 / 60)


@pytest.mark.parametrize("pinned", ["iterations=3", "budget.vlm_calls=40"])
def test_where_the_recipe_gives_the_numbers_there_is_one_line(tmp_path, pinned):
    plan = make_plan(toy(tmp_path, "iterations=null", pinned))
    (one,) = plan.spending
    assert (one.effort, one.chosen, one.vlm_calls) == (None, True, plan.vlm_calls)


def test_what_runs_here_costs_nothing_and_a_function_what_nobody_knows(tmp_path):
    make_files(tmp_path)
    recipe = load_recipe(tmp_path / "recipe.yaml", {"vlm.model": "builtin:fieldguide"})
    (local,) = make_plan(Setup(recipe, tmp_path / "out")).spending
    assert local.usd == 0

    async def answer(image, prompt):
        return "navy"

    vlm = FunctionModel(answer, concurrency=5)
    parts = Setup(recipe, tmp_path / "out", vlm=vlm)
    (function,) = make_plan(parts).spending
    assert (function.usd, function.minutes) == (None, None)
    keep(answers_of(parts.folder), (None, 2.0), model=vlm.name)
    (timed,) = make_plan(parts).spending
    assert timed.usd is None
    assert timed.minutes == pytest.approx(timed.vlm_calls * 2.0 / 5 / 60)


def test_the_dry_run_prints_what_its_json_has_and_writes_nothing(tmp_path):
    given = ("--set", "iterations=null", "--model", MODEL, "--effort", "heavy")
    command = ("tune", "fieldguide", *given, "--out", "runs/out", "--dry-run")
    plan = run_json(*command, "--json", folder=tmp_path)
    shown = run_captured(*command, folder=tmp_path).out
    light, medium, heavy = plan["spending"]
    assert light["vlm_calls"] < medium["vlm_calls"] < heavy["vlm_calls"] == plan["vlm_calls"]
    assert f"VLM calls       light   at most {light['vlm_calls']:,}, about $" in shown
    assert f"\n                medium  at most {medium['vlm_calls']:,}, about $" in shown
    dollars = f"about ${heavy['usd']:.2f} (this run)"
    assert f"\n                heavy   at most {heavy['vlm_calls']:,}, {dollars}" in shown
    assert f"a call          {plan['call']['prompt_tokens']:,} tokens read, 40 written, $" in shown
    assert list(tmp_path.iterdir()) == []
