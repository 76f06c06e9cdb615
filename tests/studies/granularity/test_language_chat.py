from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from taxtune.models import Answer, Failure, Identity, Reply, Request
from taxtune.studies.granularity.language_chat import chosen_class, language_chat
from taxtune.studies.granularity.two_level import coarse_cut
from taxtune.taxonomy import Taxonomy

TREE = Taxonomy(["thing", "animal", "food", "cat", "dog", "apple", "bread"], [-1, 0, 0, 1, 1, 2, 2])
KINDS = ["fish", "food fish", "dog", "cat"]


@pytest.mark.parametrize(
    ("reply", "chosen"),
    [
        ("fish", 0),
        ("**Food fish.**", 1),
        ("It is a food fish.", 1),  # "fish" alone does not stand there
        ("a dog, I think", 2),
        ("a dog or a cat", -1),
        ("doghouse", -1),
        ("", -1),
        ("I cannot say", -1),
    ],
)
def test_what_a_reply_chooses(reply: str, chosen: int) -> None:
    assert chosen_class(reply, KINDS) == chosen


def test_two_classes_of_one_name_cannot_be_told_apart() -> None:
    assert chosen_class("dish", ["dish", "dish", "cup"]) == -1


class Replies:
    """A chat model with set replies by the thing that is asked about."""

    batch_size = 2

    def __init__(self, **replies: str | None) -> None:
        self._replies = replies
        self.prompts: list[str] = []

    @property
    def identity(self) -> Identity:
        return {"kind": "made"}

    def check(self) -> list[str]:
        return []

    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        prompts = [request.prompt for request in requests]
        self.prompts += prompts
        found = [next(v for k, v in self._replies.items() if f"is this: {k}?" in prompt) for prompt in prompts]
        return [Failure("down", retryable=False) if text is None else Answer(text) for text in found]


def test_unclear_replies_and_failed_calls_are_unscored() -> None:
    llm = Replies(cat="animal", dog="food", apple="either", bread=None)
    result = language_chat(llm, "llm:made", TREE, coarse_cut(TREE, level=1), resamples=10)
    assert result.credit[:2].tolist() == [1, 0]
    assert np.isnan(result.credit[2:]).all()
    assert result.accuracy.estimate == 0.5
    assert result.notes == (
        "llm:made: 1 of 4 replies name no class or several: unscored.",
        "llm:made: 1 of 4 calls failed: unscored.",
    )
    assert "- animal\n- food\n" in llm.prompts[0]
