"""Runs whose models fail: over HTTP, in every way, at random; and the account of it."""

from __future__ import annotations

import base64
import io
import threading
from collections import Counter
from types import SimpleNamespace

import pytest
from rich.console import Console

from taxtune import load_run
from taxtune.errors import ProposerError
from taxtune.models import Answer
from taxtune.models.api import ApiModel
from taxtune.models.api_errors import load_litellm
from taxtune.report.console import print_result
from taxtune.report.html import render_report
from taxtune.tuning.build import Setup, build
from taxtune.tuning.proposers.agent import AgentProposer
from taxtune.tuning.proposers.llm import LLMProposer
from taxtune.tuning.records import TuneResult
from taxtune.tuning.run_folder import read_result
from tests import servers
from tests.servers import OpenAIServer
from tests.tuning.toy import ToyVLM, make_parts, tuned

KEY = "sk-a-secret-of-the-test"
ADVICE = ("", "Be careful.", "Give only the family.")


@pytest.fixture(scope="module", autouse=True)
def _litellm_is_loaded():
    load_litellm()  # its import takes seconds, which must not count against a call's time-out


def is_proposal(body):
    """Whether a request is the proposer's: the VLM's hold an image."""
    return isinstance(body["messages"][-1]["content"], str)


class Models:
    """A toy VLM and a proposer that never runs out of templates, behind one server."""

    def __init__(self):
        self.proposed = 0

    def __call__(self, body):
        """Answers a request."""
        if is_proposal(body):
            tried = body["messages"][-1]["role"] == "tool"
            self.proposed += not tried
            advice = ADVICE[self.proposed % 3]
            template = f"Which {{{{ domain }}}} is on photo {self.proposed}? {advice}".strip()
            if tried:
                return servers.calls(("submit", {"template": template}))
            drafted = servers.calls(("try_draft", {"template": template, "images": 3}))
            return drafted if "tools" in body else f"```\n{template}\n```"
        picture, text = body["messages"][-1]["content"]
        image = io.BytesIO(base64.b64decode(picture["image_url"]["url"].partition(",")[2]))
        (reply,) = ToyVLM().answer([SimpleNamespace(prompt=text["text"], image=image)])
        assert isinstance(reply, Answer)
        return reply.text


def session(
    folder,
    out,
    server,
    *overrides,
    kind="llm",
    max_retries=5,
    **how,
):
    """The toy recipe with both models behind a server, and short waits."""
    waits = {
        "first_wait": 0.01,
        "longest_wait": 0.05,
        "max_retries": max_retries,
        "timeout": 10.0,
        **how,
    }
    settings = servers.model_settings(server, api_key=KEY, concurrency=4, **waits)
    vlm = ApiModel("openai/eyes", settings)
    made = AgentProposer if kind == "agent" else LLMProposer
    proposer = made("openai/words", api_base=server.api_base, api_key=KEY, retry=vlm.settings.retry)
    parts = make_parts(folder, out, overrides=overrides)
    return Setup(parts.recipe, out, vlm=vlm, proposer=proposer)


def printed(result):
    console = Console(file=io.StringIO(), width=200)
    print_result(console, result)
    return console.file.getvalue()


def assert_no_secret(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert KEY.encode() not in path.read_bytes(), path


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("kind", "iterations", "how"),
    [("llm", 30, ()), ("agent", 12, ("data.first_rung=4", "objective.kind=hr_at_hp"))],
    ids=["llm", "agent-rungs"],
)
def test_a_run_whose_models_fail_in_every_way_ends_by_itself(
    kind, iterations, how, tmp_path, notes
):
    """30 % of all calls fail, in the paper's setting and with successive halving and an agent."""
    faults = servers.every_fault(8.0, KEY)
    script, made = servers.troubled(Models(), faults, share=0.3)
    with OpenAIServer(script) as server:
        # With 8 images one that lacks an answer is more than the default of a tenth.
        given = (f"iterations={iterations}", "max_missing=0.25", *how)
        parts = session(tmp_path / "in", tmp_path / "out", server, *given, kind=kind, timeout=1.5)
        result = tuned(parts)
    assert [record.iteration for record in result.iterations] == list(range(iterations + 1))
    complete = [record for record in result.iterations if record.state == "complete"]
    assert len(complete) >= iterations - 5
    assert all(record.reason for record in result.iterations if record.state != "complete")

    # What was answered is scored as if nothing had failed; what was not is missing, never zero.
    whole = build(make_parts(tmp_path / "in", tmp_path / "whole"))
    evaluator = whole.evaluator(None)
    for record in complete:
        assert record.template is not None
        assert record.scores is not None
        examples = whole.splits.tuning[: len(record.rows)]
        evaluation = evaluator.evaluate(whole.rules.parse(record.template), examples)
        for row, true in zip(record.rows, evaluation.rows, strict=True):
            assert (row.failure is None) == (row.hp is not None) == (row.answer is not None)
            if row.failure is None:
                assert (row.answer, row.hp, row.hr) == (true.answer, true.hp, true.hr)
        known = [row.hp for row in record.rows if row.hp is not None]
        assert record.scores.hp == pytest.approx(sum(known) / len(known))

    # Each fault that the server made is counted, but for what a busy machine took too long to read.
    counted = Counter[str]()
    for who in result.faults.values():
        counted.update(who)
    assert set(result.faults) == {"model", "proposer"}
    assert len(counted) >= 6
    assert counted.total() >= made.total()
    assert all(counted[kind] <= made[kind] for kind in faults if kind != "timeout")
    assert load_run(tmp_path / "out").faults == result.faults
    assert f"Failed calls: {sum(result.faults['model'].values())} of the model (" in printed(result)
    assert_no_secret(tmp_path / "out")
    assert KEY not in "".join(notes)


class Failing:
    """The toy models; the proposer fails while it is told to."""

    def __init__(self, *failing, bad=None):
        self.models = Models()
        self.calls = 0
        self.failing = set(failing)
        self.bad = bad or servers.no_choices(echo=KEY)

    def __call__(self, body):
        if is_proposal(body):
            self.calls += 1
            if self.calls in self.failing:
                return self.bad
        return self.models(body)


@pytest.mark.heavy
def test_a_proposer_that_does_not_answer_costs_one_iteration(tmp_path):
    # Two attempts an iteration: the second iteration's fail, and the third's first.
    with OpenAIServer(Failing(2, 3, 4)) as server:
        parts = session(tmp_path / "in", tmp_path / "out", server, "iterations=3", max_retries=1)
        result = tuned(parts)
    states = [record.state for record in result.iterations]
    assert states == ["complete", "complete", "failed", "complete"]
    failed, after = result.iterations[2:]
    assert "returned a response without choices, after 2 attempts" in (failed.reason or "")
    assert failed.out_of_reach
    assert failed.value is None
    assert failed.usage.proposer.faults == {"malformed_response": 2}
    assert after.usage.proposer.faults == {"malformed_response": 1}
    assert result.faults == {"proposer": {"malformed_response": 3}}
    assert printed(result).count("Failed calls: 3 of the proposer (malformed response 3)") == 1
    page = render_report(result)
    assert "3 of the proposer (malformed response 3)" in page
    read = read_result(tmp_path / "out")
    assert isinstance(read, TuneResult)
    assert read.iterations == result.iterations
    assert read.faults == result.faults
    assert_no_secret(tmp_path / "out")


@pytest.mark.heavy
def test_a_proposer_that_is_down_stops_the_run_and_it_goes_on_from_there(tmp_path):
    def run(server, resume=False):
        parts = session(tmp_path / "in", tmp_path / "out", server, "iterations=5", max_retries=0)
        return tuned(parts, resume=resume)

    # It answers once, and then not for as long as it is down.
    models = Failing(*range(2, 100), bad=servers.status(503))
    with OpenAIServer(models) as server:
        with pytest.raises(ProposerError, match=r"failed \(503\).*--resume"):
            run(server)
        assert models.calls == 1 + 3, "the third iteration in a row stops the run"
        with pytest.raises(ProposerError):
            run(server, resume=True)
        assert models.calls == 5, "it is asked once more, and no further iteration is lost"
        models.failing.clear()
        result = run(server, resume=True)
    states = [record.state for record in result.iterations]
    assert states == ["complete"] * 2 + ["failed"] * 2 + ["complete"] * 2


def test_the_models_faults_are_counted_on_both_splits(tmp_path):
    """A template that the model is mute to is void; failures on the held-out images count."""
    lock = threading.Lock()
    models = Models()
    baseline = 0

    def script(body):
        nonlocal baseline
        if is_proposal(body):
            return models(body)
        text = body["messages"][-1]["content"][1]["text"]
        with lock:
            baseline += text == "What is this?"
            held_out = text == "What is this?" and baseline == 8 + 1
        if "photo 1" in text:
            return servers.empty_text()
        return servers.html() if held_out else models(body)

    with OpenAIServer(script) as server:
        parts = session(tmp_path / "in", tmp_path / "out", server, "iterations=2", max_retries=1)
        result = tuned(parts)
    first, mute, last = result.iterations
    assert (first.state, mute.state, last.state) == ("complete", "void", "complete")
    assert first.usage.vlm.faults == last.usage.vlm.faults == {}
    assert "returned an empty answer" in (mute.reason or "")
    assert set(mute.usage.vlm.faults) == {"empty_text"}
    asked = mute.usage.vlm.faults["empty_text"]
    assert 8 < asked <= 16
    assert result.heldout[0].usage.vlm.faults == {"malformed_response": 1}
    assert result.faults == {"model": {"empty_text": asked, "malformed_response": 1}}
