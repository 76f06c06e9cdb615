"""Coarse classes of fine names by their text: by an encoder and by a chat model."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import pytest

from taxtune.errors import ModelError
from taxtune.models import Answer, Failure
from taxtune.studies.granularity import GranularitySettings
from taxtune.studies.granularity.classes import coarse_cut
from taxtune.studies.granularity.language import (
    chosen_class,
    language_chat,
    language_only,
    language_report,
)
from taxtune.taxonomy import Taxonomy
from tests.studies.reports import cells, records, rows_by
from tests.trees import outlined

TREE = outlined("thing: animal, food", "animal: cat, dog", "food: apple, bread")
GROUPING = coarse_cut(TREE, level=1)
# The models are not asked.
SETTINGS = GranularitySettings(
    taxonomy=TREE, form="language", coarse_level=1, resamples=9, model=("made",)
)


class Directions:
    """An encoder that knows the direction of a few texts: animals along the first axis, food along the second."""

    name = "made"
    identity: ClassVar[dict[str, str | int | None]] = {}

    def __init__(self, **vectors):
        self._vectors = {"animal": [1, 0], "food": [0, 1], **vectors}

    def texts(self, texts):
        rows = np.array([self._vectors[text] for text in texts], dtype=np.float32)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)

    stored = texts


def classified(**vectors):
    return language_only(Directions(**vectors), GROUPING, ("{label}",))


def test_language_only_by_hand():
    result = classified(cat=[1, 0.1], dog=[1, 0.9], apple=[0.1, 1], bread=[1, 0.5])
    assert result.credit["accuracy"].tolist() == [1, 1, 1, 0]
    report = language_report([result, result], GROUPING, SETTINGS)
    accuracies = {row["encoder"]: row["accuracy"] for row in records(report, "language")}
    assert accuracies == {"made": 75, "made (2)": 75}
    assert "50.00 %" in report.table("language").notes[0]
    food = rows_by(report, "classes", "coarse class")["food"]
    assert cells(food, "accuracy", "mistaken for") == (50, "animal (1)")
    (axes,) = report.figures["language"]().axes
    assert [bars.lines[0].get_xdata().tolist() for bars in axes.containers] == [[75, 75]]
    bread = report.as_json()["sorted"]["made"][3]
    assert bread == {"fine": "bread", "coarse": "food", "chosen": "animal", "credit": 0.0}


def test_classes_that_only_float_noise_parts_are_tied():
    up, down = (1, 1 + 1e-6), (1 + 1e-6, 1)  # cosines with the axes differ by 7e-7
    result = classified(cat=up, dog=down, apple=up, bread=down)
    assert result.credit["accuracy"].tolist() == [0.5] * 4


def test_coarse_classes_of_one_name_share_the_credit():
    labels = ["thing", "meal", "crockery", "dish", "dish", "soup", "plate"]
    tree = Taxonomy(labels, [-1, 0, 0, 1, 2, 3, 4])
    encoder = Directions(dish=[1, 0], soup=[1, 0.1], plate=[1, 0.2])
    grouping = coarse_cut(tree, labels=["thing/meal/dish", "thing/crockery/dish"])
    result = language_only(encoder, grouping, ("{label}",))
    assert result.credit["accuracy"].tolist() == [0.5, 0.5]
    (note,) = language_report([result], grouping, SETTINGS).notes
    assert "share the credit: 'dish' (2)" in note


def test_a_model_without_a_vector_for_a_name_is_refused():
    with pytest.raises(ModelError, match=r"no vector for 1 of 4 fine classes.*made"):
        classified(cat=[1, 0], dog=[1, 0], apple=[0, 1], bread=[math.nan, 1])


# -- chat models ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "chosen"),
    [
        ("fish", "fish"),
        ("**Food fish.**", "food fish"),
        ("It is a food fish.", "food fish"),  # "fish" alone does not stand there
        ("a dog, I think", "dog"),
        ("a dog or a cat", None),
        ("doghouse", None),
        ("", None),
        ("I cannot say", None),
    ],
)
def test_what_a_reply_chooses(reply, chosen):
    kinds = ["fish", "food fish", "dog", "cat"]
    assert chosen_class(reply, kinds) == (-1 if chosen is None else kinds.index(chosen))


class Replies:
    """A chat model with set replies by the thing that is asked about."""

    batch_size = 2

    def __init__(self, **replies):
        self._replies = replies
        self.prompts: list[str] = []

    @property
    def identity(self):
        return {"kind": "made"}

    def check(self):
        return []

    def answer(self, requests):
        self.prompts += [request.prompt for request in requests]
        return [self._reply(request.prompt) for request in requests]

    def _reply(self, prompt):
        (text,) = [
            reply for thing, reply in self._replies.items() if f"is this: {thing}?" in prompt
        ]
        return Failure("down", retryable=False) if text is None else Answer(text)


def test_unclear_replies_and_failed_calls_are_unscored():
    llm = Replies(cat="animal", dog="food", apple="either", bread=None)
    result = language_chat(llm, "llm:made", GROUPING)
    np.testing.assert_array_equal(result.credit["accuracy"], [1, 0, math.nan, math.nan])
    assert result.intervals(SETTINGS)["accuracy"].estimate == 0.5
    unclear, failed = result.notes
    assert unclear == "llm:made: 1 of 4 replies name no class or several: unscored."
    assert failed == "llm:made: 1 of 4 calls failed: unscored."
    assert "- animal\n- food\n" in llm.prompts[0]
