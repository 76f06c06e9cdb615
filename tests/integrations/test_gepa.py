"""gepa.optimize as the search of a run: a toy model that sees colours, and a reflection model over HTTP."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from taxtune.errors import MissingExtraError, ModelError, ProposerError, ResumeError
from taxtune.integrations import gepa
from taxtune.integrations.gepa import COMPONENT, REFUSED, Adapter
from taxtune.models import Failure, make_model
from taxtune.recipe import load_recipe
from taxtune.tuning.build import build
from tests.servers import (
    COMPLETION_TOKENS,
    PROMPT_TOKENS,
    OpenAIServer,
    model_settings,
    status,
    text,
)
from tests.tuning.toy import COLOURS, PARENT, ToyVLM, make_files, make_parts

pytest.importorskip("gepa", reason="gepa is not installed: pip install '.[gepa]'")

BASELINE = "What is this?"
FAMILY = "Give only the family."
CAREFUL = "Which colour? Be careful."
SEE = "What colour do you see?"


def fenced(template):
    return f"```\n{template}\n```"


def reflecting(server, **given):
    settings = model_settings(server, task="text-generation", api_key="sk-secret", **given)
    return make_model("openai/gpt-4o", settings)


def asked_with(file):
    """The templates that a model noted."""
    return {line.split("|")[0] for line in file.read_text().splitlines()}


def names_in(text):
    return [name for name in (*COLOURS, *PARENT.values()) if name in text]


def optimized(folder, model, vlm=None, **given):
    recipe = folder / "toy" / "recipe.yaml"
    if not recipe.exists():
        make_files(recipe.parent)
    given = {"max_metric_calls": 60, "out": folder / "run", **given}
    return gepa.optimize(model, recipe=recipe, vlm=vlm or ToyVLM(), **given)


@pytest.fixture
def replies():
    with OpenAIServer(
        fenced(FAMILY), fenced(CAREFUL), fenced(SEE), then=fenced("Name the scarlet one.")
    ) as server:
        yield server


def test_a_search_ends_as_every_run_does(replies, tmp_path):
    vlm = ToyVLM(tmp_path / "asked")
    result = optimized(tmp_path, reflecting(replies), vlm)

    templates = [record.template for record in result.iterations[:4]]
    assert templates == [BASELINE, FAMILY, CAREFUL, SEE]
    parents = [record.parameters["parent"] for record in result.iterations[1:4]]
    assert parents == ["0", "0", "2"]
    # The family alone is right of all images, too, but says less than 80 % of what the baseline says.
    assert result.best.template == CAREFUL
    assert [held.name for held in result.heldout] == ["baseline", "winner"]
    assert CAREFUL in (tmp_path / "run" / "report.html").read_text()
    # No image is asked about twice with one prompt, and the held-out ones only with the baseline and the winner.
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == len(set(asked)) == vlm.asked
    heldout = {row.image for row in result.heldout[0].rows}
    with_heldout = [line.split("|") for line in asked if line.split("|")[1] in heldout]
    assert {template for template, *_ in with_heldout} == {BASELINE, CAREFUL}
    assert result.provenance is not None


def test_what_the_reflection_model_reads(replies, tmp_path):
    optimized(tmp_path, reflecting(replies))
    first = replies.prompts[0]
    assert "Jinja" in first
    assert BASELINE in first
    assert "[a wrong level-2 label of the right level-1 label]" in first
    assert "hP 0.67" in first
    assert names_in("\n".join(replies.prompts)) == []


def test_a_refused_template_is_never_asked(tmp_path):
    bad = [
        fenced("Is it scarlet?"),
        fenced("{{ answer }}"),
        text("```\nHalf a templ", finish_reason="length"),
    ]
    vlm = ToyVLM(tmp_path / "asked")
    with OpenAIServer(*bad, fenced(CAREFUL), then=fenced("scarlet")) as server:
        result = optimized(tmp_path, reflecting(server), vlm)
    assert result.best.template == CAREFUL
    assert asked_with(tmp_path / "asked") == {BASELINE, CAREFUL}


def test_a_search_that_keeps_nothing_is_counted_too(tmp_path):
    vlm = ToyVLM()
    with OpenAIServer(then=fenced("Is it scarlet?")) as server:
        result = optimized(tmp_path, reflecting(server), vlm)
        asked = len(server.chats)
    assert result.best.template == BASELINE
    (searched,) = result.iterations[1:]
    assert searched.state == "failed"
    assert searched.usage.proposer.tokens == asked * (PROMPT_TOKENS + COMPLETION_TOKENS)
    assert result.usage.vlm.calls == vlm.asked


@pytest.fixture
def adapter(tmp_path):
    return Adapter(build(make_parts(tmp_path / "toy", tmp_path / "run")), None)


def test_a_refused_candidate_scores_below_any_other_and_costs_nothing(adapter):
    batch = adapter.examples[:3]
    found = adapter.evaluate(batch, {COMPONENT: "Is it crimson or not?"}, capture_traces=True)
    assert found.scores == [REFUSED] * 3
    assert found.num_metric_calls == 0
    assert sum(found.scores) < sum(adapter.evaluate(batch, {COMPONENT: BASELINE}).scores)
    assert adapter.experiment.vlm.asked == 3
    assert all("ground-truth label" in str(row.failure) for row in found.trajectories or ())


def test_the_adapter_serves_gepa_alone(adapter, replies, monkeypatch):
    import gepa as engine

    # gepa's own client would look at prices on the web.
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    found = engine.optimize(
        adapter.seed,
        adapter.examples,
        adapter=adapter,
        reflection_lm="openai/gpt-4o",
        reflection_lm_kwargs={"api_base": replies.api_base, "api_key": "sk-test"},
        max_metric_calls=60,
        logger=gepa.Log(),
    )
    assert found.best_candidate == {COMPONENT: CAREFUL}
    assert {each[COMPONENT] for each in found.candidates} <= {BASELINE, FAMILY, CAREFUL, SEE}
    assert names_in(replies.prompts[0]) == []


class Faulty(ToyVLM):
    """Fails for the last images of every batch."""

    def __init__(self, answered, retryable):
        super().__init__()
        self.answered = answered
        self.retryable = retryable
        self.batch_size = 100

    def answer(self, questions):
        failed = [Failure("down", retryable=self.retryable)] * (len(questions) - self.answered)
        return [*super().answer(questions[: self.answered]), *failed]


def values(adapter, vlm, batch):
    experiment = replace(adapter.experiment, vlm=vlm)
    return list(Adapter(experiment, None).evaluate(batch, {COMPONENT: BASELINE}).scores)


def test_a_failed_call_is_left_out_of_the_mean(adapter):
    batch = adapter.examples
    whole = values(adapter, ToyVLM(), batch)
    some = values(adapter, Faulty(5, retryable=True), batch)
    assert some[:5] == whole[:5]
    assert sum(some) / len(batch) == pytest.approx(sum(whole[:5]) / 5)
    none = values(adapter, Faulty(0, retryable=False), batch)  # a content filter, say
    assert all(map(math.isnan, none))
    with pytest.raises(ModelError, match="None of 8 images has an answer; the first: down"):
        values(adapter, Faulty(0, retryable=True), batch)


def test_a_block_and_a_budget_of_calls(tmp_path):
    recipe = load_recipe(
        make_files(tmp_path / "toy"), ["data.first_rung=4", "budget.vlm_calls=160"]
    )
    replies = iter([CAREFUL, FAMILY, SEE])
    vlm = ToyVLM(tmp_path / "asked")

    def reflect(prompt):
        return next(replies, "Name the scarlet one.")  # as a function may well do, without a fence

    result = gepa.optimize(
        reflect, max_metric_calls=1000, recipe=recipe, vlm=vlm, out=tmp_path / "run"
    )
    # The search may make as many calls as five templates take on the first rung: 4 for the seed,
    # and 10 for each that is kept.
    assert 2 <= len(result.iterations) <= 6
    assert all(len(record.rows) in (4, 8) for record in result.iterations if record.template)
    # The winner was asked about all tuning images in the end, and every question is in the account.
    assert (result.best.template, result.selection.images) == (CAREFUL, 8)
    heldout = {row.image for row in result.heldout[0].rows}
    lines = (tmp_path / "asked").read_text().splitlines()
    asked = [line for line in lines if line.split("|")[1] not in heldout]
    assert sum(record.usage.vlm.calls for record in result.iterations) == len(asked) <= 160


@pytest.mark.heavy
def test_the_reflection_model_out_of_reach_ends_the_run_and_it_goes_on_as_if_nothing_were(
    tmp_path,
):
    script = [fenced(FAMILY), fenced(CAREFUL), fenced(SEE)]
    last = fenced("Name the scarlet one.")
    with OpenAIServer(*script, then=last) as server:
        whole = optimized(tmp_path / "whole", reflecting(server), ToyVLM())
    first = ToyVLM()
    second = ToyVLM()
    with OpenAIServer(script[0], then=status(500)) as server:
        base = server.api_base
        with pytest.raises(ProposerError, match="reflection model gave no answer"):
            optimized(tmp_path, reflecting(server), first)
    with OpenAIServer(*script[1:], then=last) as server:
        # At the same address, as far as the run is concerned.
        model = reflecting(server)
        identity = {**model.identity, "api_base": base}
        moved = SimpleNamespace(identity=identity, answer=model.answer)
        with pytest.raises(ResumeError):
            optimized(tmp_path, moved, second)
        again = optimized(tmp_path, moved, second, resume=True)
    for record, other in zip(again.iterations, whole.iterations, strict=True):
        assert record.template == other.template
        assert record.scores == other.scores
    asked = set()
    for asked_about in (*whole.iterations, *whole.heldout):
        asked |= {(asked_about.template, row.example) for row in asked_about.rows}
    assert first.asked + second.asked == len(asked)


def test_gepa_is_an_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "gepa", None)
    with pytest.raises(MissingExtraError, match=r"\.\[gepa\]"):
        optimized(tmp_path, lambda prompt: prompt)
