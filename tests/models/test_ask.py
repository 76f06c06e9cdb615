from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from taxtune.data import content_hash
from taxtune.errors import DataError, ModelError
from taxtune.models import (
    Answer,
    AnswerStore,
    Failure,
    Identity,
    Request,
    ask,
)
from taxtune.models.base import Candidates
from tests.models.replies import texts


class Scripted:
    """A model whose replies a function gives; it notes what it was asked."""

    def __init__(self, reply, batch_size=8):
        self.reply = reply
        self.batch_size = batch_size
        self.identity: Identity = {"kind": "scripted", "model": "scripted"}
        self.batches: list[list[str]] = []

    def answer(self, questions):
        self.batches.append([q.prompt for q in questions])
        return [self.reply(q) for q in questions]


def echo(question):
    return Answer(f"said {question.prompt} {question.image_sha256}")


def q(prompt, image="i"):
    return Request(prompt, Path(f"{image}.png"), image)


def questions(prompts):
    """Questions about one image, with a letter each as prompt."""
    return [q(prompt) for prompt in prompts]


def told(replies):
    """The text of each answer, and whether it is a copy."""
    return [(reply.text, reply.cached) for reply in replies]


@pytest.fixture
def store(tmp_path):
    return AnswerStore(tmp_path / "answers.db")


def test_answers_keep_order_and_number_over_batches():
    vlm = Scripted(echo, batch_size=3)
    replies = ask(vlm, questions("abcdefg"), None)
    assert texts(replies) == [f"said {letter} i" for letter in "abcdefg"]
    assert [len(batch) for batch in vlm.batches] == [3, 3, 1]


def test_a_second_run_asks_nothing(store):
    asked = [q("a", "1"), q("b", "1"), q("a", "2")]
    first = ask(Scripted(echo), asked, store)
    again = Scripted(echo)
    second = ask(again, asked, store)
    assert again.batches == []
    assert not any(reply.cached for reply in first)
    assert second == [replace(reply, cached=True) for reply in first]


def test_the_same_question_is_asked_once_and_costs_once():
    vlm = Scripted(echo)
    replies = ask(vlm, [*questions("aba"), Request("a", Path("copy.png"), "i")], None)
    assert vlm.batches == [["a", "b"]]
    assert texts(replies) == ["said a i", "said b i", "said a i", "said a i"]
    assert [reply.cached for reply in replies] == [False, False, True, True]


def test_several_answers_to_a_question_are_asked_for_one_by_one(store):
    requests = [Request("Bird?", sample=sample) for sample in (0, 1, 2, 1)]
    model = Scripted(lambda request: Answer(f"{request.prompt} {request.sample}"))
    replies = ask(model, requests, store)
    assert texts(replies) == ["Bird? 0", "Bird? 1", "Bird? 2", "Bird? 1"]
    assert [reply.cached for reply in replies] == [False, False, False, True]
    assert told(ask(model, requests[:2], store)) == [("Bird? 0", True), ("Bird? 1", True)]


def test_an_image_is_known_by_its_content_and_a_prompt_alone_is_another_request(
    store, pictures, tmp_path
):
    copy = shutil.copy(pictures[0], tmp_path / "copy.png")
    images = [pictures[0], copy, None, pictures[1]]
    model = Scripted(echo)
    first, of_copy, alone, other = ask(model, [Request("a", image) for image in images], store)
    assert [len(batch) for batch in model.batches] == [3]
    assert of_copy == replace(first, cached=True)
    assert [alone.cached, other.cached] == [False, False]
    hashed = Request("a", copy, content_hash(copy))
    assert ask(model, [hashed], store) == [of_copy]


def test_an_image_that_is_lost_is_a_failure_and_not_asked_about(store, tmp_path):
    model = Scripted(echo)
    [reply, _] = ask(model, [Request("a", tmp_path / "lost.png"), q("b")], store)
    assert model.batches == [["b"]]
    assert "lost.png" in reply.reason
    assert not reply.retryable


def test_a_failure_is_never_stored(store):
    def flaky(question):
        return Failure("rate limit", retryable=True) if question.prompt == "b" else echo(question)

    _, failure, _ = ask(Scripted(flaky), questions("abc"), store)
    assert isinstance(failure, Failure)
    assert len(store) == 2
    healed = Scripted(echo)
    texts(ask(healed, questions("abc"), store))
    assert healed.batches == [["b"]]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ModelError])
def test_what_ends_the_run_loses_only_the_batch_in_flight(store, stop):
    def until_f(question):
        if question.prompt == "f":
            raise stop("stop")
        return echo(question)

    with pytest.raises(stop):
        ask(Scripted(until_f, batch_size=2), questions("abcdefghi"), store)
    rest = Scripted(echo, batch_size=9)
    ask(rest, questions("abcdefghi"), store)
    assert rest.batches == [["e", "f", "g", "h", "i"]]


def test_a_dead_server_is_not_asked_to_the_end(store):
    vlm = Scripted(lambda _: Failure("429", retryable=True), batch_size=4)
    replies = ask(vlm, [q(str(i)) for i in range(40)], store)
    assert len(vlm.batches) == 1
    assert all(reply.retryable for reply in replies)
    assert "not asked" in replies[-1].reason
    assert "429" in replies[-1].reason


class Streamed(Scripted):
    """A model that streams: the places that it is told, in that order."""

    def __init__(self, order, reply=echo):
        super().__init__(reply, batch_size=3)
        self.order = order
        self.closed = False

    def stream(self, requests):
        self.batches.append([request.prompt for request in requests])
        try:
            for place in self.order:
                yield place, self.reply(requests[place])
        finally:
            self.closed = True


def test_a_model_that_streams_is_given_all_at_once_and_may_answer_in_any_order(
    store,
):
    vlm = Streamed([2, 0, 1])
    replies = ask(vlm, questions("abc"), store)
    assert vlm.batches == [["a", "b", "c"]]
    assert texts(replies) == ["said a i", "said b i", "said c i"]
    assert len(store) == 3


@pytest.mark.parametrize(
    ("order", "complaint"), [([0, 0, 1], "twice"), ([0], "1 answers to 2 requests")]
)
def test_a_stream_that_miscounts_is_an_error(order, complaint):
    with pytest.raises(ModelError, match=complaint):
        ask(Streamed(order), questions("ab"), None)


def test_a_stream_is_let_go_when_as_many_in_a_row_fail_as_keep_the_model_busy(
    store,
):
    def down_after_one(question):
        if question.prompt == "a":
            return echo(question)
        return Failure("server is down", retryable=True)

    vlm = Streamed(range(6), down_after_one)
    _, *failures = ask(vlm, questions("abcdef"), store)
    assert vlm.closed
    reasons = [failure.reason for failure in failures]
    assert reasons[:3] == ["server is down"] * 3
    assert reasons[3:] == ["not asked because the 3 before it all failed: server is down"] * 2
    assert len(store) == 1


@pytest.mark.parametrize("order", [range(6), [5, 4, 3, 2, 1, 0]])
def test_a_store_that_cannot_be_written_ends_the_asking(store, monkeypatch, order):
    def full(*_):
        raise DataError("The disk is full.")

    monkeypatch.setattr(store, "put", full)
    with pytest.raises(DataError, match="The disk is full"):
        ask(Streamed(order), questions("abcdef"), store)


def test_outcomes_are_stored_with_their_candidates_and_a_file_from_before_them_goes_on(
    tmp_path,
):
    file = tmp_path / "answers.db"
    identity = {"model": "m"}
    plain = Request("p")
    named = replace(plain, candidates=Candidates(("owl", "kite")))
    with AnswerStore(file) as store:
        store.put(identity, [(plain, Answer("plain"))])
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("ALTER TABLE answers DROP COLUMN outcomes")
        db.execute("PRAGMA user_version = 1")
    scored = Answer("An owl.", cached=True, outcomes={"owl": -0.1, "…": -2.4})
    with AnswerStore(file) as store:
        assert store.get(identity, [plain, named]) == [Answer("plain", cached=True), None]
        store.put(identity, [(named, scored)])
    others = replace(plain, candidates=Candidates(("owl",)))
    with AnswerStore(file) as store:
        found = store.get(identity, [named, plain, others])
    assert found == [scored, Answer("plain", cached=True), None]
