"""Runs whose mapper asks a chat model where it is in doubt, behind a real HTTP server."""

from __future__ import annotations

import itertools
import json
import re

import pandas as pd
import pytest

from taxtune.classifier import load_classifier
from taxtune.errors import RecipeError
from taxtune.mapping.config import CHOSEN
from taxtune.models.api_errors import load_litellm
from taxtune.models.arbiter import DOUBTFUL_SHARE
from taxtune.recipe import load_recipe
from taxtune.tuning.plan import make_plan
from tests.cli.commands import run_well
from tests.servers import OpenAIServer
from tests.tuning.toy import Cyclist, make_files, toy, tuned

ARBITER = "mapper.arbiter=openai/gpt-4o-mini"


@pytest.fixture(scope="module", autouse=True)
def _litellm_is_loaded():
    load_litellm()


def cyclist(folder, *overrides, out="run"):
    return toy(folder, ARBITER, *overrides, vlm=Cyclist(), out=out)


def reply(body):
    """What the answer about a bicycle names in passing, "see scarlet3", or none of the candidates."""
    prompt = body["messages"][-1]["content"]
    answer = json.loads(re.search(r"^Answer: (.*)$", prompt, re.M)[1])
    options = re.findall(r'^(\d+): +"(.*?)"', prompt, re.M)
    return next((number for number, label in options if f"see {label}" in answer), "0")


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with OpenAIServer(reply) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.api_base)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        yield running


def test_a_run_asks_once_pays_for_it_and_goes_on_without_asking(tmp_path, server):
    result = tuned(cyclist(tmp_path))
    asked = len(server.chats)
    rows = itertools.chain(*[record.rows for record in result.iterations])
    answers = {row.answer for row in rows if row.stage == "arbiter"}
    assert asked == len(set(server.prompts)) > 0
    assert any("bicycle, see scarlet" in answer for answer in answers)
    for prompt in server.prompts:
        assert "bicycle" in prompt, "what reading is sure of is not asked about"
    usage = result.usage.judge
    assert usage.calls == asked
    assert usage.faults == {}
    assert usage.from_store > 0
    assert result.usage.cost_usd == pytest.approx(asked * (11 * 2.5e-6 + 7 * 10e-6))
    assert result.provenance.facts["Mapper"]["arbiter.model"] == "openai/gpt-4o-mini"
    tuned(cyclist(tmp_path), resume=True)
    tuned(cyclist(tmp_path, out="again"))
    classifier = load_classifier(tmp_path / "run", vlm=Cyclist())
    classifier.classify(sorted((tmp_path / "in").glob("scarlet*.png")))
    assert len(server.chats) == asked


def test_a_search_ends_once_its_arbiter_has_cost_the_budget(tmp_path, server):
    result = tuned(cyclist(tmp_path, "budget.usd=0.0001"))
    assert len(result.iterations) == 1


def test_a_dry_run_counts_and_prices_the_questions_and_asks_none(tmp_path, server):
    plan = make_plan(cyclist(tmp_path))
    assert not plan.problems
    assert plan.arbiter == "openai/gpt-4o-mini"
    assert plan.arbiter_calls == round(DOUBTFUL_SHARE * plan.vlm_calls)
    assert plan.arbiter_usd == pytest.approx(plan.arbiter_calls * (350 * 0.15e-6 + 3 * 0.6e-6))
    recipe = tmp_path / "in" / "recipe.yaml"
    told = run_well("tune", recipe, "--set", ARBITER, "--out", tmp_path / "dry", "--dry-run")
    about = f"about {plan.arbiter_calls} (less than $0.01), if three in ten answers are doubtful"
    assert f"arbiter calls   {about}" in told.out
    without = make_plan(toy(tmp_path, vlm=Cyclist()))
    assert without.arbiter is None
    assert without.arbiter_calls == 0
    assert without.arbiter_usd is None
    assert not server.chats


def test_the_commands_place_and_score_ask_too(tmp_path, server):
    make_files(tmp_path)
    answers = tmp_path / "a.csv"
    answers.write_text(
        "truth,answer\nscarlet,scarlet\nscarlet,A bicycle see scarlet\nnavy,a bicycle\n"
    )
    asking = ("--arbiter", "openai/gpt-4o-mini", "--json")
    shared = ("-t", tmp_path / "tree.csv", answers, *asking)
    done = run_well("place", *shared)
    rows = [json.loads(line) for line in done.out.splitlines()]
    calls = len(server.chats)
    assert calls > 0
    assert [row["confidence"] == CHOSEN for row in rows] == [False, False, True]
    assert f"was asked about {calls:,} answers ($0.000" in done.err
    scored = json.loads(run_well("score", *shared).out)
    assert scored["mapper"]["arbiter.model"] == "openai/gpt-4o-mini"
    assert len(server.chats) == calls


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["mapper.arbiter=gpt-4o"], "The model's name has no provider"),
        (["mapper.arbiter='local:'"], "The model's name is empty"),
        ([ARBITER, "mapper.preset=paper-prose"], "needs the preset 'default'"),
        ([ARBITER, "mapper.similarity=clip-i2t:x"], "a similarity that does not look at images"),
    ],
)
def test_an_arbiter_that_cannot_be_asked_is_refused_when_the_recipe_is_read(tmp_path, given, said):
    with pytest.raises(RecipeError, match=re.escape(said)):
        load_recipe(make_files(tmp_path), given)


def test_an_audit_of_a_run_judges_what_the_arbiter_placed_and_asks_nothing_again(tmp_path, server):
    tuned(cyclist(tmp_path))
    calls = len(server.chats)
    run_well("audit", tmp_path / "run", "--n", "30")
    rows = pd.read_csv(tmp_path / "run" / "audit.csv")
    assert "arbiter" in set(rows["stage"])
    assert len(server.chats) == calls
