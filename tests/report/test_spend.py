"""What a run took, by who was asked and at which stage."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taxtune.report import descent, spend, tree_view
from taxtune.report.html import page
from taxtune.report.spend import Spent, spent
from taxtune.tuning.records import HeldoutResult, IterationRecord, Judged, TuneResult, Usage
from tests.report import samples
from tests.report.test_html import Tables, check, text


def asked(answers: int, *, store: int = 0, usd: float | None = None, seconds: float = 1.0, **more) -> Usage:  # type: ignore[no-untyped-def]
    tokens = {"vlm_prompt_tokens": 10 * answers, "vlm_completion_tokens": answers}
    return Usage(**{**tokens, "vlm_cost_usd": usd, "asked": answers, "from_store": store, "seconds": seconds, **more})


RACE = asked(30, usd=0.3, seconds=6.0, vlm_faults={"timeout": 2})
PROPOSED = {"proposer_prompt_tokens": 500, "proposer_completion_tokens": 40, "proposer_cost_usd": 0.02}
ITERATIONS = (
    IterationRecord(0, "complete", "a", usage=asked(20, usd=0.2, seconds=4.0)),
    IterationRecord(
        1, "complete", "b", usage=asked(20, usd=0.2, vlm_faults={"timeout": 1}, **PROPOSED) + RACE, race=RACE,
        judged=Judged(20, 0, 0, asked=20, from_store=5, prompt_tokens=700, completion_tokens=70, cost_usd=0.05),
    ),
    IterationRecord(
        2, "failed", None, usage=Usage(**PROPOSED, proposer_faults={"rate_limit": 3}), rejected=(("x", "y"),)
    ),
)  # fmt: skip
HELDOUT = tuple(replace(each, usage=asked(50, store=50)) for each in samples.tune(n=1).heldout)


def run(
    iterations: tuple[IterationRecord, ...] = ITERATIONS, heldout: tuple[HeldoutResult, ...] = HELDOUT
) -> TuneResult:
    return replace(samples.tune(n=1), iterations=iterations, heldout=heldout, winner=0)


def test_the_stages_and_those_who_were_asked_stand_apart() -> None:
    assert spent(ITERATIONS, HELDOUT) == [
        Spent("VLM, baseline", 20, 0, 200, 20, pytest.approx(0.2), 4.0),
        Spent("VLM, search", 20, 0, 200, 20, pytest.approx(0.2), 1.0, {"timeout": 1}),
        Spent("VLM, race", 30, 0, 300, 30, pytest.approx(0.3), 6.0, {"timeout": 2}),
        Spent("VLM, held-out", 100, 100, 1000, 100, None, 2.0),
        Spent("proposer's model", 2, None, 1000, 80, pytest.approx(0.04), None, {"rate_limit": 3}),
        Spent("judge", 20, 5, 700, 70, 0.05, None),
    ]


def test_all_together_is_what_the_account_says() -> None:
    made = run()
    kinds = spent(made.iterations, made.heldout)
    account = made.account
    asked_of = (account.model, account.proposer, account.judge)
    assert sum(kind.asked for kind in kinds) == sum(each.calls for each in asked_of if each is not None)
    assert sum(kind.read + kind.written for kind in kinds) == sum(
        each.tokens or 0 for each in asked_of if each is not None
    )
    assert sum(kind.usd or 0 for kind in kinds) == pytest.approx(account.usd)
    assert sum(kind.seconds or 0 for kind in kinds) == pytest.approx(account.seconds)


def shown(result: TuneResult) -> str:
    found = spend.section(result)
    assert found is not None
    made = page("report.html.j2", sections={"spend": found}, title="t", headline="", first=None)
    check(made)
    return made


def test_the_table_has_units_and_says_what_is_unknown() -> None:
    reader = Tables()
    made = shown(run())
    reader.feed(made)
    ((_, rows),) = reader.tables
    table = {row[0]: row[1:] for row in rows}
    assert table["VLM, race"] == ["30", "0", "300", "30", "$0.30", "6.0", "timeout 2"]
    assert table["VLM, held-out"] == ["100", "100", "1,000", "100", "unknown", "2.0", "none"]
    assert table["proposer's model"] == ["2", "–", "1,000", "80", "$0.04", "–", "rate limit 3"]
    assert table["all"] == ["192", "105", "3,400", "320", "$0.79", "13.0", "rate limit 3, timeout 3"]
    # The longest bar of a column is that of its largest number, which two kinds share in one of the six.
    assert made.count('<rect width="100.0%" height="4"/>') == 7
    assert "of proposer and judge are part of the stages'" in text(made)


def test_records_that_did_not_keep_the_race_apart_say_so() -> None:
    rows = samples.rows(20)
    raced = (
        replace(ITERATIONS[0], rows=rows),
        replace(ITERATIONS[1], rows=samples.rows(50), race=Usage()),
    )
    assert "do not keep the race apart" in text(shown(run(raced)))
    assert "VLM, race" not in text(shown(run(raced)))
    assert "do not keep the race apart" not in text(shown(run()))


def test_what_took_nothing_is_left_out() -> None:
    assert [kind.name for kind in spent(ITERATIONS[:1])] == ["VLM, baseline"]
    assert spent(()) == []
    free = (replace(ITERATIONS[0], usage=Usage(from_store=20)),)
    told = text(shown(run(free, ())))
    assert "VLM, baseline 0 20 0 0 – 0.0 none" in told
    assert spend.section(run((), tuple(replace(each, usage=Usage()) for each in HELDOUT))) is None


def test_templates_that_were_given_took_what_the_held_out_images_did() -> None:
    given = replace(samples.comparison(1), runs=(), heldout=HELDOUT)
    found = spend.section(given)
    assert found is not None
    ((name, rows),) = [(group["name"], group["rows"]) for group in found["groups"]]
    assert (name, [row["name"] for row in rows]) == ("Evaluated", ["VLM, held-out"])
    assert descent.section(given) is None
    assert tree_view.section(given) is not None
