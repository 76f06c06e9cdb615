"""Calls, tokens, cost and time of a run."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from taxtune.tuning.records import ModelUsage
from tests.tuning.toy import ToyVLM, toy, tuned


def test_the_usage_is_what_was_asked_and_going_on_adds_nothing(tmp_path):
    vlm = ToyVLM()
    usage = tuned(toy(tmp_path, vlm=vlm)).usage
    assert usage.vlm.calls == vlm.asked
    assert usage.vlm.tokens == 7 * vlm.asked
    assert usage.vlm.cost_usd == 0.0
    assert usage.proposer == usage.judge == ModelUsage()
    assert usage.seconds > 0
    assert json.loads((tmp_path / "run/result.json").read_text())["usage"] == asdict(usage)
    again = tuned(toy(tmp_path), resume=True).usage
    assert replace(again, seconds=0) == replace(usage, seconds=0)


class Dear(ToyVLM):
    """A cent an answer."""

    def answer(self, questions):
        """Answers as a ToyVLM does, for money."""
        return [replace(reply, cost_usd=0.01) for reply in super().answer(questions)]


def test_a_search_ends_once_it_has_cost_its_budget(tmp_path):
    result = tuned(toy(tmp_path, "budget.usd=0.2", "data.first_rung=null", vlm=Dear()))
    assert [round(record.usage.cost_usd or 0, 2) for record in result.iterations] == [0.08] * 3
    assert result.usage.cost_usd == pytest.approx(0.01 * result.usage.vlm.calls)


def test_answers_of_an_earlier_run_are_counted_and_those_of_an_earlier_rung_are_not(tmp_path):
    result = tuned(toy(tmp_path, "data.first_rung=4"))
    rungs = {len(record.rows) for record in result.iterations}
    assert len(rungs) > 1, "some were asked about more images"
    assert result.usage.vlm.from_store == 0
    again = tuned(replace(toy(tmp_path, "data.first_rung=4"), folder=tmp_path / "again")).usage
    assert (again.vlm.calls, again.vlm.from_store) == (0, result.usage.vlm.calls)
