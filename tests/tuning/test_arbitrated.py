"""Runs whose answers a chat model reads, behind a real HTTP server: one that is named, or the run's own."""

from __future__ import annotations

import itertools
import json
import re

import pandas as pd
import pytest

from taxtune import runs
from taxtune.classifier import load_classifier
from taxtune.errors import RecipeError, ResumeError, TaxtuneError
from taxtune.mapping import MapperConfig
from taxtune.models.api_errors import load_litellm
from taxtune.models.arbiter import FURTHER_SHARE
from taxtune.recipe import load_recipe
from taxtune.report.summary import account_lines
from taxtune.tuning.build import Setup, build
from taxtune.tuning.plan import make_plan
from taxtune.tuning.proposers import make_proposer
from taxtune.tuning.records import ModelUsage
from tests.cli.commands import run_refused, run_well
from tests.servers import OpenAIServer, content_filter
from tests.tuning.toy import Cyclist, make_files, toy, tuned

ARBITER = "mapper.arbiter=openai/gpt-4o-mini"
#: Of a question, in US dollars.
PRICE = 550 * 0.15e-6 + 3 * 0.6e-6


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
    labels = {"scarlet", "crimson", "navy", "azure"}
    said = [json.loads(re.search(r"^Answer: (.*)$", prompt, re.M)[1]) for prompt in server.prompts]
    assert labels.isdisjoint(said), "a name alone is not asked about"
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
    effort = ("iterations=null", "effort=heavy")
    plan = make_plan(cyclist(tmp_path, *effort))
    assert not plan.problems
    assert plan.arbiter == "openai/gpt-4o-mini"
    assert [one.effort for one in plan.spending] == ["light", "medium", "heavy"]
    for one in plan.spending:
        assert one.arbiter_calls == round((1 + FURTHER_SHARE) * one.vlm_calls)
        assert one.arbiter_usd == pytest.approx(one.arbiter_calls * PRICE)
    recipe = tmp_path / "in" / "recipe.yaml"
    asked = [part for change in (ARBITER, *effort) for part in ("--set", change)]
    told = run_well("tune", recipe, *asked, "--out", tmp_path / "dry", "--dry-run")
    chosen = plan.spending[2]
    about = f"about {chosen.arbiter_calls:,} if all answers differ and none is just a name"
    assert f"heavy   {about}, less than $0.01 (this run)" in told.out
    assert not server.chats


def test_where_no_model_reads_one_line_says_what_one_would_be_asked(tmp_path, notes):
    plan = make_plan(toy(tmp_path, vlm=Cyclist()))
    assert plan.arbiter is None
    assert {one.arbiter_calls for one in plan.spending} == {0}
    (told,) = (text for text in plan.notes if "No chat model reads" in text)
    assert f"would be asked about at most {plan.vlm_calls:,}, " in told
    runs.tune(toy(tmp_path, vlm=Cyclist()))
    assert notes.count(told) == 1
    runs.tune(toy(tmp_path, vlm=Cyclist()), resume=True)
    assert notes.count(told) == 1, "a run that is begun can no longer be read by another"
    runs.compare(toy(tmp_path, vlm=Cyclist(), out="two"), ["hp", "accuracy"])
    assert len([text for text in notes if "No chat model reads" in text]) == 2


@pytest.mark.parametrize(
    "change",
    ["mapper.arbiter=none", "mapper.preset=paper-prose", "policy.kind=posterior"],
)
def test_no_line_is_said_where_none_is_wanted_or_none_can_read(tmp_path, change):
    for judge in ((), ("judge.model=openai/gpt-4o-mini",)):
        plan = make_plan(toy(tmp_path, change, *judge, vlm=Cyclist()))
        assert not any("chat model" in text for text in plan.notes)
        assert plan.arbiter is None


def read_by(folder, *overrides, **parts):
    """The recipe of an experiment, in which `auto` has become a model."""
    mapper = build(toy(folder, *overrides, **parts)).recipe.mapper
    return mapper.arbiter, mapper.api_base


def test_auto_is_a_chat_model_that_the_recipe_uses_anyway(tmp_path):
    base = "http://127.0.0.1:9/v1"
    judge = ("judge.model=openai/judge", f"judge.api_base={base}")
    pen = "proposer={kind: agent, model: openai/pen}"
    nobody = (None, None)
    assert read_by(tmp_path) == nobody
    assert read_by(tmp_path, pen) == ("openai/pen", None)
    assert read_by(tmp_path, pen, *judge) == ("openai/judge", base)
    assert read_by(tmp_path, "judge.model='local:some/judge'") == ("local:some/judge", None)
    assert read_by(tmp_path, *judge, "mapper.arbiter=none") == nobody
    assert read_by(tmp_path, *judge, ARBITER) == ("openai/gpt-4o-mini", None)
    # An object is asked nothing but what it is for.
    assert read_by(tmp_path, pen, proposer=make_proposer(lambda history: "?")) == nobody
    assert read_by(tmp_path, *judge, mapper=MapperConfig()) == nobody


def test_a_server_of_a_file_is_not_trusted_by_way_of_the_arbiter(tmp_path):
    recipe = make_files(tmp_path)
    with recipe.open("a") as file:
        file.write("judge: {model: openai/x, api_base: 'https://far.example/v1'}\n")
    with pytest.raises(TaxtuneError, match=r"judge\.api_base sends prompts"):
        build(Setup(load_recipe(recipe), tmp_path / "run", vlm=Cyclist()))


# -- the model of the proposer, or of the judge ----------------------------------------------------

TEMPLATES = ("Which {{ domain }} is this?", "Name the {{ domain }}.")


@pytest.fixture
def pen(tmp_path, monkeypatch):
    """A server that writes templates and chooses nodes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    written = itertools.cycle(TEMPLATES)
    with OpenAIServer(lambda body: reply(body) if choosing(body) else next(written)) as running:
        yield running


def choosing(body):
    return "Choose the node for one answer." in body["messages"][-1]["content"]


def choices(server):
    return [chat for chat in server.chats if choosing(chat.json)]


def written(folder, server, *overrides, **how):
    llm = f"proposer={{kind: llm, model: openai/gpt-4o-mini, api_base: '{server.api_base}'}}"
    return toy(folder, llm, "iterations=2", *overrides, vlm=Cyclist(), **how)


def placements(result):
    return [(row.answer, row.placement, row.stage) for row in result.heldout_winner.rows]


def test_the_proposers_model_reads_and_changes_placements(tmp_path, pen):
    read = tuned(written(tmp_path, pen))
    asked = len(choices(pen))
    assert asked > 0
    assert {chat.json["model"] for chat in choices(pen)} == {"gpt-4o-mini"}
    # Room for a reasoning model's thoughts.
    assert {chat.json["max_tokens"] for chat in choices(pen)} == {2000}
    assert read.usage.judge.calls == asked
    assert "judge and arbiter calls" in dict(account_lines(read.usage))
    assert "arbiter: openai/gpt-4o-mini" in read.provenance.recipe
    alone = tuned(written(tmp_path, pen, "mapper.arbiter=none", out="alone"))
    assert len(choices(pen)) == asked
    assert alone.usage.judge == ModelUsage()
    assert placements(read) != placements(alone)
    stages = {stage for _, _, stage in placements(read)} - {
        stage for *_, stage in placements(alone)
    }
    assert stages == {"arbiter"}


@pytest.mark.parametrize(
    ("no_choice", "failed"),
    [("I would rather not.", set()), (content_filter(), {"judge or arbiter"})],
)
def test_without_a_choice_the_reading_stands(tmp_path, pen, no_choice, failed):
    alone = tuned(written(tmp_path, pen, "mapper.arbiter=none", out="alone"))
    templates = itertools.cycle(TEMPLATES)
    script = lambda body: no_choice if choosing(body) else next(templates)  # noqa: E731
    with OpenAIServer(script) as server:
        read = tuned(written(tmp_path, server))
        assert choices(server)
    assert placements(read) == placements(alone)
    assert set(read.faults) == failed


def judged(folder, server, *overrides, **how):
    judge = ("judge.model=openai/gpt-4o-mini", f"judge.api_base={server.api_base}")
    return toy(folder, *judge, *overrides, vlm=Cyclist(), **how)


def test_a_run_that_is_resumed_is_the_run_that_would_have_been(tmp_path, monkeypatch, server):
    whole = tuned(judged(tmp_path, server))
    # Another cache: all is asked anew.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    tuned(judged(tmp_path, server, "iterations=2", out="parts"))
    parts = tuned(judged(tmp_path, server, out="parts"), resume=True)
    assert placements(parts) == placements(whole)
    for one, other in zip(whole.iterations, parts.iterations, strict=True):
        assert [(row.answer, row.node) for row in one.rows] == [
            (row.answer, row.node) for row in other.rows
        ]
    changed = '\n  mapper.arbiter: was "openai/gpt-4o-mini", is "openai/gpt-4o"\n'
    with pytest.raises(ResumeError, match=re.escape(changed)) as caught:
        tuned(judged(tmp_path, server, "judge.model=openai/gpt-4o"), resume=True)
    assert str(caught.value).count(": was ") == 1


def test_a_run_that_read_alone_goes_on_alone(tmp_path, server):
    """As do runs of versions that did not know `auto`: their record has no arbiter, or null."""
    begun = tuned(toy(tmp_path, "iterations=2", vlm=Cyclist()))
    resumed = tuned(judged(tmp_path, server, "iterations=2"), resume=True)
    assert placements(resumed) == placements(begun)
    plan = make_plan(judged(tmp_path, server, "iterations=2"), resume=True)
    assert (plan.problems, plan.arbiter) == ((), None)
    load_classifier(tmp_path / "run", vlm=Cyclist()).classify(pictures(tmp_path))
    assert not server.chats
    with pytest.raises(ResumeError, match=r"mapper\.arbiter: was null, is"):
        tuned(judged(tmp_path, server, "iterations=2", ARBITER), resume=True)


def pictures(folder):
    return sorted((folder / "in").glob("scarlet*.png"))


def test_a_saved_classifier_asks_the_same_model_at_the_same_server(tmp_path, monkeypatch, pen):
    tuned(written(tmp_path, pen))
    before = len(choices(pen))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    labels = load_classifier(tmp_path / "run", vlm=Cyclist()).classify(pictures(tmp_path))
    (new, *_) = asked = choices(pen)[before:]
    assert asked
    assert new.json["model"] == "gpt-4o-mini"
    alone = load_classifier(
        tmp_path / "run", vlm=Cyclist(), settings={"mapper.arbiter": "none"}
    ).classify(pictures(tmp_path))
    assert len(choices(pen)) == before + len(asked)
    assert [label.placement for label in labels] != [label.placement for label in alone]


def test_the_commands_show_the_question_that_a_file_has(tmp_path, server):
    make_files(tmp_path)
    answers = tmp_path / "a.csv"
    rows = ["scarlet,it is that,Scarlet?", "scarlet,it is that,Scarlet?", "navy,it is that,"]
    answers.write_text("\n".join(["truth,answer,question", *rows]) + "\n")
    shared = ("-t", tmp_path / "tree.csv", answers, "--arbiter", "openai/gpt-4o-mini", "--json")
    run_well("place", *shared)
    asked = sorted(re.findall(r"^Question: (.*)$", text, re.M) for text in server.prompts)
    assert asked == [[], ['"Scarlet?"']]
    run_well("score", *shared)
    assert len(server.chats) == 2


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
    assert len(server.chats) == 2
    assert [row["stage"] for row in rows] == ["name", "arbiter", "off_tree"]
    assert "was asked 2 questions ($0.000" in done.err
    again = run_well("score", *shared)
    assert json.loads(again.out)["mapper"]["arbiter.model"] == "openai/gpt-4o-mini"
    assert "was asked 0 questions; 2 replies are from the store" in again.err
    assert len(server.chats) == 2
    error = run_refused("place", *shared, "--arbiter", "auto")
    assert "Only a recipe" in error


@pytest.mark.parametrize("what", ["place", "score"])
def test_a_command_says_in_one_line_what_a_model_would_be_asked_unless_none_is_wanted(
    tmp_path, what
):
    make_files(tmp_path)
    answers = tmp_path / "a.csv"
    answers.write_text("truth,answer\nnavy,navy\nnavy,a bicycle\nazure,a bicycle\n")
    command = (what, "-t", tmp_path / "tree.csv", answers)
    told = run_well(*command).err
    assert "One (--arbiter PROVIDER/MODEL) would be asked about at most 2, " in told
    assert told.count("chat model") == 1
    for option in ("--arbiter=none", "--preset=paper-listing"):
        assert "chat model" not in run_well(*command, option).err


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
    run_well("audit", tmp_path / "run", "--n", "30", "--arbiter", "none", "--out", tmp_path / "own")
    assert "arbiter" not in set(pd.read_csv(tmp_path / "own" / "audit.csv")["stage"])
    assert len(server.chats) == calls
