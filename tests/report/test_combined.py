"""Several runs as one comparison."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest

from taxtune.errors import DataError
from taxtune.report.combined import combine_results
from taxtune.tuning.records import HeldoutResult, TuneResult
from tests.report.samples import comparison, heldout, tune


def with_heldout(run: TuneResult, **changes: HeldoutResult) -> TuneResult:
    held = {each.name: each for each in run.heldout} | changes
    return replace(run, heldout=tuple(held.values()))


def test_runs_with_the_same_baseline_share_it() -> None:
    joined = combine_results({"a": tune("hp"), "b": tune("accuracy")})

    assert [each.name for each in joined.heldout] == ["baseline", "a: winner", "b: winner"]
    assert joined.contenders == ("a: winner", "b: winner")
    assert dict(joined.named_runs)["b: winner"].objective == "accuracy"
    assert [each.key for each in joined.differences] == [
        "a: winner - baseline",
        "b: winner - baseline",
        "b: winner - a: winner",
    ]


def test_runs_with_other_baselines_keep_their_own() -> None:
    other = with_heldout(tune("hp"), baseline=heldout("baseline", "Name it.", 0.8, 0.7, 0.4, seed=9))

    joined = combine_results({"a": tune("hp"), "b": other})

    assert [each.name for each in joined.heldout] == ["a: baseline", "a: winner", "b: baseline", "b: winner"]
    baseline = joined.baseline_of("b: winner")
    assert baseline is not None
    assert baseline.template == "Name it."
    assert joined.against("b: winner", "b: baseline") is not None
    assert joined.against("b: winner", "a: baseline") is None


def test_another_models_answers_to_the_same_baseline_are_another_baseline() -> None:
    run = tune("hp")
    rows = tuple(replace(row, answer="A: thrush.") for row in run.heldout[0].rows)

    joined = combine_results({"a": run, "b": with_heldout(run, baseline=replace(run.heldout[0], rows=rows))})

    assert [each.name for each in joined.heldout] == ["a: baseline", "a: winner", "b: baseline", "b: winner"]


def test_differences_are_means_over_the_images_that_both_answered() -> None:
    first, second = tune("hp"), tune("accuracy")
    lost = first.heldout[0]  # one image has no answer to the baseline, another none to the winner
    lost = replace(lost, rows=(*lost.rows[:-1], replace(lost.rows[-1], answer=None, hp=None, hr=None)))
    joined = combine_results({"a": with_heldout(first, baseline=lost), "b": with_heldout(second, baseline=lost)})

    found = joined.against("a: winner", "baseline")

    assert found is not None
    winner, baseline = joined.heldout[1].rows, joined.heldout[0].rows
    both = [(a, b) for a, b in zip(winner, baseline, strict=True) if a.hp is not None and b.hp is not None]
    assert len(both) == len(winner) - 2
    for key in ("hp", "hr"):
        expected = fmean(getattr(a, key) - getattr(b, key) for a, b in both)
        assert found.metrics[key].difference == pytest.approx(expected)
    exact = fmean((a.hp == a.hr == 1) - (b.hp == b.hr == 1) for a, b in both)
    assert found.metrics["accuracy"].difference == pytest.approx(exact)


def test_runs_about_other_images_are_not_paired() -> None:
    held = heldout("baseline", "Name it.", 0.8, 0.7, 0.4, seed=9)
    moved = replace(held, rows=tuple(replace(row, example=f"other-{row.example}") for row in held.rows))
    other = with_heldout(tune("hp"), baseline=moved, winner=replace(moved, name="winner", template="Which?"))

    joined = combine_results({"a": tune("hp"), "b": other})

    assert [each.key for each in joined.differences] == ["a: winner - a: baseline", "b: winner - b: baseline"]


def test_comparisons_come_with_all_their_runs() -> None:
    joined = combine_results({"all": comparison(), "one - more": tune("hp")})

    assert joined.contenders == ("all: hp", "all: accuracy", "one-more: winner")
    assert len({name for name, _ in joined.named_runs}) == 3


def test_scores_that_not_all_have_are_left_out() -> None:
    run = tune("hp")
    judged = [replace(each, scores=replace(each.scores, measures={"lave": 0.5})) for each in run.heldout]

    joined = combine_results({"a": run, "b": replace(run, heldout=tuple(judged))})

    assert not any(each.scores.measures for each in joined.heldout)


def test_what_sets_runs_apart_is_told_from_what_they_share() -> None:
    def ran(model: str) -> TuneResult:
        run = tune("hp")
        facts = {"Model": {"model": model, "dtype": "bfloat16"}}
        return replace(run, provenance=replace(run.provenance, facts=facts))

    facts = combine_results({"a": ran("small"), "b": ran("large")}).provenance.facts

    assert facts == {
        "a": {"model, model": "small"},
        "b": {"model, model": "large"},
        "Model, the same in all": {"dtype": "bfloat16"},
    }


def test_a_run_that_is_not_finished_is_refused() -> None:
    with pytest.raises(DataError, match="not finished"):
        combine_results({"a": tune("hp"), "b": replace(tune("hp"), heldout=())})
