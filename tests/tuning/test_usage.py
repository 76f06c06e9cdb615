"""Calls, tokens, cost and time of a run."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from taxtune.tuning.records import ModelUsage
from tests.tuning.toy import ToyVLM, make_parts, tuned


def test_the_usage_is_what_was_asked_and_going_on_adds_nothing(tmp_path: Path) -> None:
    vlm = ToyVLM()
    usage = tuned(make_parts(tmp_path / "in", tmp_path / "out", vlm)).usage
    assert (usage.vlm.calls, usage.vlm.tokens, usage.vlm.cost_usd) == (
        vlm.asked,
        7 * vlm.asked,
        0.0,
    )
    assert usage.proposer == usage.judge == ModelUsage()
    assert usage.seconds > 0
    assert json.loads((tmp_path / "out/result.json").read_text())["usage"] == asdict(usage)
    again = tuned(make_parts(tmp_path / "in", tmp_path / "out"), resume=True).usage
    assert replace(again, seconds=0) == replace(usage, seconds=0)


class Dear(ToyVLM):
    """A cent an answer."""

    def answer(self, questions):
        """Answers as a ToyVLM does, for money."""
        return [replace(reply, cost_usd=0.01) for reply in super().answer(questions)]


def test_a_search_ends_once_it_has_cost_its_budget(tmp_path: Path) -> None:
    parts = make_parts(
        tmp_path / "in", tmp_path / "out", Dear(), ("budget.usd=0.2", "data.first_rung=null")
    )
    result = tuned(parts)
    assert [round(record.usage.cost_usd or 0, 2) for record in result.iterations] == [0.08] * 3
    assert result.usage.cost_usd == pytest.approx(0.01 * result.usage.vlm.calls)
