"""What a run asked and what that cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from taxtune.tuning.account import account_of, sum_accounts
from tests.report import samples
from tests.tuning.toy import ToyVLM, make_parts, tuned


def test_the_account_is_what_was_asked_and_going_on_adds_nothing(tmp_path: Path) -> None:
    vlm = ToyVLM()
    result = tuned(make_parts(tmp_path / "in", tmp_path / "out", vlm))
    account = result.account
    assert (account.model.calls, account.model.tokens) == (vlm.asked, 7 * vlm.asked)
    assert (account.model.usd, account.proposer, account.judge) == (0.0, None, None)
    assert account.seconds is not None
    assert account.seconds > 0
    written = json.loads((tmp_path / "out/result.json").read_text())["account"]
    assert written == account.as_dict()
    again = tuned(make_parts(tmp_path / "in", tmp_path / "out"), resume=True).account
    assert (again.model, again.proposer, again.judge) == (account.model, account.proposer, account.judge)


def test_what_an_iteration_took_is_counted_by_whom_was_asked() -> None:
    account = account_of(samples.tune(n=8).iterations)
    # Seven complete iterations and the baseline; in the seventh the proposer was refused twice and gave up.
    assert (account.model.calls, account.model.from_store, account.model.tokens) == (8 * 15, 8 * 5, 8 * 590)
    assert account.model.usd is None
    assert account.proposer is not None
    assert account.proposer.calls == 8 + 2
    assert account.proposer.tokens == 8 * 1280 + 1020
    assert account.usd == account.proposer.usd == pytest.approx(8 * 0.0031 + 0.002)
    both = sum_accounts([account, account])
    assert both.proposer is not None
    assert (both.model.calls, both.proposer.tokens) == (16 * 15, 2 * account.proposer.tokens)
