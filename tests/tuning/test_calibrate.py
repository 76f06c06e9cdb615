from __future__ import annotations

import json
from io import StringIO

import pytest
from rich.console import Console

import taxtune
from taxtune.errors import ModelError, TaxtuneError
from taxtune.models import Failure
from taxtune.policies import RiskGuarantee, SelfConsistency
from taxtune.report.console import print_result
from taxtune.report.html import render_report
from taxtune.report.summary import verdict
from taxtune.report.tables import selective_table
from taxtune.tracking.values import heldout_metrics
from taxtune.tuning.build import build
from taxtune.tuning.calibrate import CalibrationRun, read_calibration
from taxtune.tuning.records import TuneResult
from tests.tuning.templates import WHAT
from tests.tuning.toy import ToyVLM, Wavering, toy, tuned

SMALL = ("data.tuning=4", "data.heldout=6", "iterations=2")
SAMPLED = ("policy.samples=4", "policy.threshold=0.75")


def toy_run(folder, *overrides, vlm=None):
    return tuned(toy(folder, *SMALL, *overrides, vlm=vlm or Wavering()))


@pytest.fixture
def run(tmp_path):
    toy_run(tmp_path)
    return tmp_path / "run"


def test_a_run_votes_and_counts_every_call(tmp_path):
    vlm = Wavering()
    result = toy_run(tmp_path, *SAMPLED, "prompt.baseline=Which {{ domain }}?", vlm=vlm)
    baseline = result.baseline
    assert baseline.usage.vlm.calls == 4 * len(baseline.rows)
    for row in baseline.rows:
        murky = not row.image[:-4].endswith(("0", "1"))
        assert len(row.votes) == 4
        assert row.stage == "self_consistency"
        assert row.confidence == 1.0
        # Half the answers name another shade, so that only the family has three quarters of them.
        assert row.placement.count("/") == (1 if murky else 2)
        assert row.answer.count("(2 of 4)") == (2 if murky else 0)
    assert result.heldout[0].scores.hp == 1.0
    assert taxtune.load_run(result.folder).iterations[0].rows == baseline.rows


def test_a_run_is_tuned_for_aurc_and_shows_what_its_confidence_is_worth(tmp_path):
    result = toy_run(tmp_path, *SAMPLED, "objective.kind=aurc")
    for record in result.iterations:
        assert record.value == record.scores.selective_hp or not record.feasible
    assert "hR at least" in verdict(result)
    assert "selective hP" in verdict(result)
    held = result.heldout_winner
    assert taxtune.load_run(result.folder).heldout_winner.selective == held.selective
    ranks = [(row[1], row[2]) for row in selective_table(result).rows if row[0] == "winner"]
    assert ranks[0] == ("answers", held.scores.n)
    assert len(ranks) == 1 + len(held.selective.ranks) > 1
    logged = heldout_metrics(held)["heldout/selective_hp"]
    assert held.selective.aurc == pytest.approx(1 - logged)


def test_the_policy_of_a_run_is_told(tmp_path):
    result = toy_run(tmp_path, *SAMPLED)
    assert result.selection.policy == {"kind": "self_consistency", "samples": 4, "threshold": 0.75}
    printed = StringIO()
    print_result(Console(file=printed, width=200), result, details=True)
    page = render_report(result)
    line = "Placed by self-consistency (samples 4, threshold 0.75)."
    assert line in printed.getvalue()
    assert line in page
    assert "hAURC" in printed.getvalue()
    assert "<summary>Confidence</summary>" in page
    loaded = taxtune.load_run(result.folder)
    assert isinstance(loaded, TuneResult)
    assert loaded.selection == result.selection


def test_an_image_is_missing_while_a_call_may_yet_succeed_and_a_refusal_is_no_vote(
    tmp_path,
):
    class Faulty(ToyVLM):
        def reply(self, question):
            """Refuses every fourth answer, and of one image all; one call fails for now."""
            if question.image.stem == "navy1" and question.sample == 2:
                return Failure("a rate limit", retryable=True)
            if question.sample == 3 or question.image.stem == "scarlet0":
                return Failure("the content filter", retryable=False)
            return super().reply(question)

    parts = build(toy(tmp_path, *SAMPLED, vlm=Faulty()))
    evaluator = parts.evaluator(None)
    splits = parts.splits
    found = evaluator.evaluate(WHAT, [*splits.tuning, *splits.heldout])
    rows = {row.image: row for row in found.rows}
    assert rows["scarlet0.png"].failure == "the content filter"
    assert rows["navy1.png"].failure == "a rate limit"
    assert rows["navy1.png"].hp is None
    assert rows["azure0.png"].votes[-1] == -1
    assert rows["azure0.png"].confidence == 0.75
    assert found.retryable == 1
    assert found.scores.n == 18


def test_a_greedy_model_and_measures_of_text_take_one_answer(tmp_path):
    greedy = Wavering()
    greedy.identity = {**greedy.identity, "temperature": 0.0}
    with pytest.raises(ModelError, match="decodes greedily"):
        toy_run(tmp_path / "greedy", *SAMPLED, vlm=greedy)
    with pytest.raises(TaxtuneError, match="leaves no text for"):
        toy_run(tmp_path / "text", *SAMPLED, "objective.kind=rouge-1")


def test_the_winner_is_calibrated_on_images_of_neither_split(run, caplog):
    found = taxtune.calibrate(run, risk=0.3, samples=4, vlm=Wavering())
    assert found.images == 10
    assert "placed alike" not in caplog.text
    assert found.threshold is not None
    assert found.policy == SelfConsistency(4, found.threshold)
    assert [level.threshold for level in found.levels] == [None, 1.0, 0.75, 0.5, 0.25]
    assert found.levels[0].hp == 1.0
    hps = [level.hp for level in found.levels]
    hrs = [level.hr for level in found.levels]
    assert hps == sorted(hps, reverse=True)
    assert hrs == sorted(hrs)
    assert read_calibration(run) == found
    assert json.loads((run / "calibration.json").read_text())["threshold"] == found.threshold


@pytest.mark.parametrize("in_python", [False, True])
def test_images_of_a_run_count_by_group(tmp_path, in_python):
    manifest = tmp_path / "in" / "manifest.csv"
    given = {"examples": manifest} if in_python else {}
    settings = ("data.group=burst", "data.nothing=[scarlet]")
    parts = toy(tmp_path, *SMALL, *settings, vlm=Wavering(), **given)
    head, *rows = manifest.read_text().splitlines()
    lines = [f"{head},burst"]
    for number, row in enumerate(rows):
        lines.append(f"{row},{number // 2}")
    manifest.write_text("\n".join(lines) + "\n")
    tuned(parts)
    work = CalibrationRun(tmp_path / "run", risk=0.4, samples=4, vlm=Wavering())
    # What the recipe says of images holds for those that are given in Python.
    assert work.settings.data.nothing == ("scarlet",)
    bursts = {example.group for example in work.examples}
    found = work.run()
    assert found.images > found.units == len(bursts)
    assert str(RiskGuarantee.of(found)).startswith("the mean of 1 - hP per burst is at most 0.4")
    used = {row.group for held in taxtune.load_run(tmp_path / "run").heldout for row in held.rows}
    assert not used & bursts
    short = CalibrationRun(tmp_path / "run", risk=0.05, confidence=0.9, samples=4, vlm=Wavering())
    with pytest.raises(TaxtuneError, match=r"groups \(burst\) cannot show"):
        short.run()


def test_a_run_promises_a_share_of_wrong_labels(run):
    asked = {"risk": 0.6, "confidence_level": 0.6, "promise": "labels", "rank": "2"}
    found = taxtune.calibrate(run, samples=4, vlm=Wavering(), **asked)
    assert (found.promise, found.rank) == ("labels", "2")
    assert found.chosen.labels_bound <= 0.6
    classifier = taxtune.load_classifier(run, calibrated=True, vlm=Wavering())
    said = "at most 60 % of the labels given (depth 2 or deeper) are wrong with 60 % confidence"
    assert said in repr(classifier)
    assert read_calibration(run) == found
    with pytest.raises(TaxtuneError, match="The tree has no such rank"):
        taxtune.calibrate(run, risk=0.4, vlm=Wavering(), promise="labels", rank="tribe")


def test_what_was_asked_is_not_asked_again_and_fewer_answers_cost_nothing(run):
    vlm = Wavering()
    work = CalibrationRun(run, risk=0.3, samples=4, vlm=vlm)
    assert work.cost() == (40, 0)
    work.run()
    asked = vlm.asked
    assert asked == 40
    fewer = CalibrationRun(run, risk=0.3, samples=3, confidence=0.6, vlm=vlm)
    assert fewer.cost() == (30, 30)
    assert fewer.run().samples == 3
    assert vlm.asked == asked


def test_an_interrupted_calibration_goes_on(run):
    class Stops(Wavering):
        def answer(self, questions):
            """Stops after some answers."""
            if self.asked >= 12:
                raise KeyboardInterrupt
            return super().answer(questions)

    with pytest.raises(KeyboardInterrupt):
        taxtune.calibrate(run, risk=0.3, samples=4, vlm=Stops())
    assert not (run / "calibration.json").exists()
    again = Wavering()
    taxtune.calibrate(run, risk=0.3, samples=4, vlm=again)
    assert again.asked == 40 - 12


def test_nothing_but_the_root_may_keep_the_risk(run, caplog):
    class Wrong(ToyVLM):
        def text(self, question, sight):
            """Takes every red for a blue."""
            return "navy" if sight.family == "reddish" else super().text(question, sight)

    found = taxtune.calibrate(run, risk=0.1, samples=2, vlm=Wrong())
    assert found.threshold is None
    assert found.policy is None
    assert found.chosen.hp == 1.0
    assert "the 2 answers to each image are placed alike" in caplog.text


def test_no_answers_are_not_as_many_as_usual(run):
    words = r"Self-consistency takes 2 to 100 answers per image\. \(got 0\)"
    with pytest.raises(TaxtuneError, match=words):
        taxtune.calibrate(run, risk=0.1, samples=0, vlm=Wavering())
    with pytest.raises(TaxtuneError, match=r"at least one image\. \(got -1\)"):
        taxtune.calibrate(run, risk=0.1, images=-1, vlm=Wavering())
