"""What a run asks and what that costs, before and after."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from taxtune.models import Answer, AnswerStore, Request
from taxtune.recipe import load_recipe
from taxtune.report.account import account_lines
from taxtune.tuning.account import Account, Asked, Forecast, account_of, measured_rates, price, sum_accounts
from taxtune.tuning.experiment import Experiment
from taxtune.tuning.plan import make_plan
from tests.report import samples
from tests.servers import OpenAIServer
from tests.tuning.toy import ToyVLM, make_files, make_parts, tuned


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
    assert tuned(make_parts(tmp_path / "in", tmp_path / "out"), resume=True).account == account
    # From then on the folder says how fast it is.
    plan = make_plan(make_parts(tmp_path / "in", tmp_path / "out"), resume=True)
    rates = measured_rates(result.iterations)
    assert rates is not None
    calls = plan.forecast.model.calls
    assert plan.forecast.model.tokens == 7 * calls
    assert plan.forecast.seconds == pytest.approx(calls * rates.seconds)
    assert f"{rates.answers} answers" in (plan.forecast.basis or "")


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
    assert measured_rates([]) is None


@pytest.mark.parametrize(
    ("account", "forecast", "lines"),
    [
        (
            Account(Asked(820), seconds=None),
            True,
            {
                "VLM calls": "at most 820, price unknown",
                "LLM calls": "none",
                "time": "unknown until the first iteration is done",
            },
        ),
        (
            Account(Asked(820, usd=0.0), Asked(20, at_most=60, tokens=166_000, usd=0.4275), seconds=6000, basis="it"),
            True,
            {
                "VLM calls": "at most 820",
                "LLM calls": "20, at most 60, about 166,000 tokens, about $0.43",
                "time": "about 1.7 h, reckoned from it",
            },
        ),
        (
            Forecast(Asked(900, usd=0.0), seconds=1350.0, basis="it", seconds_each=6.0, at_a_time=4),
            True,
            {
                "VLM calls": "at most 900",
                "LLM calls": "none",
                "time": "about 22 min of the VLM: 900 calls of 6 s, 4 at a time, by it",
            },
        ),
        (
            Forecast(Asked(9000), basis="it", seconds_each=0.8234, at_a_time=None, bytes_sent=1_234_000_000),
            True,
            {
                "VLM calls": "at most 9,000, price unknown, about 1.2 GB sent",
                "LLM calls": "none",
                "time": "0.82 s a call, as many at a time as the server takes; by it",
            },
        ),
        (
            Account(Asked(820, tokens=100, usd=0.004, from_store=3), judge=Asked(9, usd=1.0), seconds=30),
            False,
            {
                "VLM calls": "820, 3 more from the store, 100 tokens, less than $0.01",
                "judge calls": "9, $1.00",
                "time": "30 s",
            },
        ),
    ],
)
def test_an_account_in_words(account: Account, forecast: bool, lines: dict[str, str]) -> None:
    assert dict(account_lines(account, forecast=forecast)) == lines


def test_the_forecast_knows_the_prices_that_litellm_knows(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "vlm": "{kind: api, model: openai/gpt-4o, max_tokens: 50}",
        "proposer": "{kind: llm, model: openai/gpt-4o, max_history_tokens: 3000}",
    }
    with OpenAIServer() as server:
        sets = [f"{key}={value}" for key, value in settings.items()]
        sets += [f"{key}.api_base={server.api_base}" for key in settings]
        parts = Experiment(load_recipe(make_files(tmp_path / "in"), sets), tmp_path / "out")
        forecast = make_plan(parts).forecast
        assert not server.chats, "nothing is asked"
    assert forecast.proposer is not None
    assert (forecast.model.calls, forecast.proposer.calls, forecast.proposer.at_most) == (8 * 6 + 12 * 2, 5, 15)
    # GPT-4o's prices a token: 2.50 and 10 dollars a million.
    assert forecast.proposer.usd == pytest.approx(5 * (5000 * 2.5e-6 + 300 * 10e-6))
    assert forecast.model.tokens is not None
    prompt = forecast.model.tokens / forecast.model.calls - 50
    assert 85 < prompt < 400, "a small image and a short question"
    assert forecast.model.usd == pytest.approx(forecast.model.calls * (prompt * 2.5e-6 + 50 * 10e-6))
    assert price("nobody/knows-it", 10, 10) is None
    assert forecast.bytes_sent is not None
    assert forecast.bytes_sent > 200 * forecast.model.calls, "at least the image, as base64"


@pytest.mark.parametrize(("workers", "at_a_time"), [(None, 1), (4, 4)])
def test_the_forecast_goes_by_what_answers_of_the_model_took(
    tmp_path: Path, workers: int | None, at_a_time: int
) -> None:
    vlm = ToyVLM()
    if workers is not None:
        vlm.workers = workers  # type: ignore[attr-defined]
    parts = make_parts(tmp_path / "in", tmp_path / "out", vlm)
    assert make_plan(parts).forecast.seconds is None
    assert not (tmp_path / "out").exists(), "nothing is made"
    image = Request("What is it?", tmp_path / "in/navy0.png", "f" * 64)
    with AnswerStore(tmp_path / "out/answers.db") as store:
        for sample, seconds in enumerate((2.0, 4.0)):
            store.put(vlm.identity, [(replace(image, sample=sample), Answer("navy", False, 5, 2, 0.001, seconds))])
        store.put(vlm.identity, [(Request("About no image."), Answer("yes", seconds=100.0))])
        store.put({"kind": "other"}, [(image, Answer("navy", seconds=100.0))])
    forecast = make_plan(parts, resume=True).forecast
    calls = forecast.model.calls
    assert (forecast.seconds_each, forecast.at_a_time, forecast.bytes_sent) == (3.0, at_a_time, None)
    assert forecast.seconds == calls * 3.0 / at_a_time
    assert (forecast.model.tokens, forecast.model.usd) == (7 * calls, pytest.approx(0.001 * calls))
    assert forecast.as_dict()["seconds_each"] == 3.0
