"""Answers that were cut off: placed as far as they go, missing where they name nothing, counted, and never winning."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from taxtune.classifier import load_classifier
from taxtune.errors import ModelError, TaxtuneError
from taxtune.mapping import Mapper
from taxtune.models import Answer, Failure, ModelSettings
from taxtune.policies import SelfConsistency, Single
from taxtune.progress import showing
from taxtune.report.html import render_report
from taxtune.report.progress import TuningProgress
from taxtune.report.summary import remarks, summarise
from taxtune.report.terminal import Terminal
from taxtune.tracking.values import tuning_metrics
from taxtune.tuning.asker import Asker
from taxtune.tuning.build import build
from taxtune.tuning.evaluation import Evaluator
from taxtune.tuning.records import count_cut
from tests.tuning.templates import WHAT
from tests.tuning.toy import ToyVLM, make_parts, tuned


class Cut(ToyVLM):
    """Is cut off where the prompt has a word: after its answer, or for the blue ones before it."""

    settings = ModelSettings(max_tokens=7)

    def __init__(self, word="", blue=None):
        super().__init__()
        self.word, self.blue = word, blue

    def answer(self, questions):
        """Answers as a ToyVLM."""
        replies = super().answer(questions)
        for i, question in enumerate(questions):
            is_blue = question.image.stem.startswith(("navy", "azure"))
            text = self.blue if self.blue is not None and is_blue else replies[i].text
            replies[i] = replace(replies[i], text=text, cut=self.word in question.prompt)
        return replies


def evaluated(tmp_path, vlm, policy=None):
    parts = build(make_parts(tmp_path / "in", tmp_path / "out", vlm))
    asker = Asker(vlm, Mapper(parts.taxonomy), policy or Single())
    return Evaluator(asker, parts.weights).evaluate(WHAT, parts.splits.tuning)


@pytest.mark.parametrize(
    "rest", ["The image shows a", "", "It is a large viol", "This colour is a"]
)
def test_one_that_names_something_is_placed_and_one_that_names_nothing_is_missing(tmp_path, rest):
    vlm = Cut(blue=rest)
    rows = evaluated(tmp_path, vlm).rows
    blue = [row for row in rows if row.truth.startswith("colour/bluish")]
    red = [row for row in rows if row not in blue]
    assert {row.cut for row in rows} == {1}
    assert all(row.hp is not None and not row.abstained for row in red)
    for row in blue:
        assert (row.answer, row.node, row.hp, row.abstained) == (None, None, None, False)
        assert f"cut off at max_tokens = 7 before it named anything: {rest!r}" in (
            row.failure or ""
        )
    assert count_cut(rows) == (len(rows), len(rows))


def test_one_that_ended_says_nothing_and_one_of_which_it_is_unknown_too(tmp_path):
    for word in ("no such word", None):
        vlm = Cut(word or "", blue="The image shows a")
        if word is None:
            vlm.answer = lambda questions: [Answer("The image shows a") for _ in questions]
        rows = evaluated(tmp_path / str(word), vlm).rows
        assert all(row.failure is None for row in rows)
        assert any(row.abstained for row in rows)
        assert count_cut(rows) == (0, len(rows))


def test_in_a_vote_one_that_names_nothing_is_none(tmp_path):
    class Now(Cut):
        def answer(self, questions):
            replies = super().answer(questions)
            for i, question in enumerate(questions):
                replies[i] = replace(replies[i], cut=False)
                if question.sample == 0:
                    replies[i] = replace(replies[i], text="The image", cut=True)
            return replies

    rows = evaluated(tmp_path, Now(), SelfConsistency(3, 0.6)).rows
    assert all(row.votes[0] == -1 and row.node is not None for row in rows)
    assert count_cut(rows) == (len(rows), 3 * len(rows))


def test_what_was_cut_off_is_paid_for(tmp_path):
    class Thinking(ToyVLM):
        def answer(self, questions):
            return [
                replace(reply, text=f"<think>{reply.text}") for reply in super().answer(questions)
            ]

    found = evaluated(tmp_path, Thinking())
    assert found.usage.vlm.calls == len(found.rows)
    assert found.usage.vlm.completion_tokens == 2 * len(found.rows)
    assert all("within the model's thought" in (row.failure or "") for row in found.rows)


# -- runs --------------------------------------------------------------------------------------------------------------


def test_the_baseline_without_answers_names_the_remedy(tmp_path):
    parts = make_parts(tmp_path / "in", tmp_path / "out", Cut(blue="The image shows a"))
    with pytest.raises(ModelError, match=r"8 of 8 answers were cut at max_tokens = 7") as raised:
        tuned(parts)
    assert "vlm.max_tokens" in str(raised.value.remedy)


def test_a_template_of_cut_answers_does_not_win_and_all_is_counted(tmp_path):
    accuracy = ("objective.kind=accuracy",)
    whole = tuned(make_parts(tmp_path / "whole", tmp_path / "whole" / "out", overrides=accuracy))
    best = whole.best.prompt or ""
    stderr = io.StringIO()
    vlm = Cut(best)
    parts = make_parts(tmp_path / "in", tmp_path / "out", vlm, overrides=accuracy)
    with showing(Terminal(stream=stderr)) as terminal:
        result = tuned(parts, callbacks=[TuningProgress(terminal)])
    lost = result.iterations[whole.winner]
    assert lost.prompt == best
    assert lost.cut_short
    assert not lost.feasible
    assert result.winner != lost.iteration
    said = "8 of 8 answers were cut at max_tokens = 7: raise vlm.max_tokens"
    assert said in stderr.getvalue()
    assert "8 of 8 answers were cut" in render_report(result)
    assert tuning_metrics(lost)["tuning/cut"] == 8
    assert "tuning/cut" not in tuning_metrics(result.best)


def test_where_every_template_is_cut_none_wins(tmp_path):
    with pytest.raises(TaxtuneError, match="No template can win") as raised:
        tuned(make_parts(tmp_path / "in", tmp_path / "out", Cut("")))
    assert "vlm.max_tokens" in str(raised.value.remedy)


def test_held_out_images_without_answers_name_the_remedy(tmp_path):
    vlm = Cut(blue="It is")
    parts = build(make_parts(tmp_path / "in", tmp_path / "out", vlm))
    evaluator = Evaluator(Asker(vlm, Mapper(parts.taxonomy)), parts.weights)
    with pytest.raises(ModelError, match="of the 12 images lack an answer") as raised:
        parts.compare(evaluator, {"baseline": WHAT}, lambda *_: None)
    assert "vlm.max_tokens" in str(raised.value.remedy)


def test_held_out_answers_and_labels_tell_of_it(tmp_path):
    class Later(Cut):
        later = False

        def answer(self, questions):
            return [replace(reply, cut=self.later) for reply in super().answer(questions)]

    vlm = Later()
    parts = make_parts(tmp_path / "in", tmp_path / "out", vlm)

    class Switch:
        def on_selection(self, selection):
            vlm.later = True

    # Other prompts than before, so that the held-out images are asked about anew.
    result = tuned(parts, callbacks=[Switch()])
    lines = remarks(summarise(result))
    assert [line for line in lines if "12 of 12 answers were cut" in line]
    assert "answers were cut" in render_report(result)
    classifier = load_classifier(result.folder, vlm=vlm)
    [found] = classifier.classify(tmp_path / "in" / "navy0.png")
    assert found.cut == 1
    assert found.failure is None
    vlm.answer = lambda questions: [Answer("It is", cut=True)]
    [missing] = classifier.classify(tmp_path / "in" / "navy0.png")
    assert missing.cut == 1
    assert "cut off at max_tokens = 7" in str(missing.failure)
    assert not isinstance(missing.failure, Failure)
