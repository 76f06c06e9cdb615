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
    return Answer(
        f"said {question.prompt} {question.image_sha256}", prompt_tokens=2, completion_tokens=1
    )


def q(prompt, image="i"):
    return Request(prompt, Path(f"{image}.png"), image)


@pytest.fixture
def store(tmp_path):
    return AnswerStore(tmp_path / "answers.db")


def test_answers_keep_order_and_number_over_batches():
    vlm = Scripted(echo, batch_size=3)
    replies = ask(vlm, [q(str(i)) for i in range(7)], None)
    assert [r.text for r in replies if isinstance(r, Answer)] == [f"said {i} i" for i in range(7)]
    assert [len(batch) for batch in vlm.batches] == [3, 3, 1]


def test_a_second_run_asks_nothing(store):
    questions = [q("a", "1"), q("b", "1"), q("a", "2")]
    first = ask(Scripted(echo), questions, store)
    again = Scripted(echo)
    second = ask(again, questions, store)
    assert again.batches == []
    assert [r.text for r in second if isinstance(r, Answer)] == [
        r.text for r in first if isinstance(r, Answer)
    ]
    assert [r.cached for r in first if isinstance(r, Answer)] == [False] * 3
    assert [r.cached for r in second if isinstance(r, Answer)] == [True] * 3


def test_the_same_question_is_asked_once_and_costs_once():
    vlm = Scripted(echo)
    replies = ask(vlm, [q("a"), q("b"), q("a"), Request("a", Path("copy.png"), "i")], None)
    assert vlm.batches == [["a", "b"]]
    assert [(r.text, r.cached) for r in replies if isinstance(r, Answer)] == [
        ("said a i", False),
        ("said b i", False),
        ("said a i", True),
        ("said a i", True),
    ]


def test_several_answers_to_a_question_are_asked_for_one_by_one(store):
    requests = [Request("Bird?", sample=sample) for sample in (0, 1, 2, 1)]
    model = Scripted(lambda request: Answer(f"{request.prompt} {request.sample}"))
    replies = ask(model, requests, store)
    assert [(r.text, r.cached) for r in replies if isinstance(r, Answer)] == [
        ("Bird? 0", False),
        ("Bird? 1", False),
        ("Bird? 2", False),
        ("Bird? 1", True),
    ]
    again = ask(model, requests[:2], store)
    assert [(r.text, r.cached) for r in again if isinstance(r, Answer)] == [
        ("Bird? 0", True),
        ("Bird? 1", True),
    ]


def test_an_image_is_known_by_its_content_and_a_prompt_alone_is_another_request(
    store, pictures, tmp_path
):
    copy, lost = tmp_path / "copy.png", tmp_path / "lost.png"
    shutil.copy(pictures[0], copy)
    requests = [
        Request("a", pictures[0]),
        Request("a", copy),
        Request("a"),
        Request("a", lost),
        Request("a", pictures[1]),
    ]
    model = Scripted(echo)
    replies = ask(model, requests, store)
    assert [len(batch) for batch in model.batches] == [3]
    assert [isinstance(reply, Answer) and reply.cached for reply in replies] == [
        False,
        True,
        False,
        False,
        False,
    ]
    assert "lost.png" in replies[3].reason
    assert not replies[3].retryable
    hashed = Request("a", copy, content_hash(copy))
    assert ask(model, [hashed], store) == [replace(replies[0], cached=True)]


def test_a_failure_is_never_stored(store):
    def flaky(question):
        return Failure("rate limit", retryable=True) if question.prompt == "b" else echo(question)

    first = ask(Scripted(flaky), [q("a"), q("b"), q("c")], store)
    assert isinstance(first[1], Failure)
    assert len(store) == 2
    healed = Scripted(echo)
    assert all(isinstance(r, Answer) for r in ask(healed, [q("a"), q("b"), q("c")], store))
    assert healed.batches == [["b"]]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ModelError])
def test_what_ends_the_run_loses_only_the_batch_in_flight(store, stop):
    def until_five(question):
        if question.prompt == "5":
            raise stop("stop")
        return echo(question)

    with pytest.raises(stop):
        ask(Scripted(until_five, batch_size=2), [q(str(i)) for i in range(9)], store)
    rest = Scripted(echo, batch_size=9)
    ask(rest, [q(str(i)) for i in range(9)], store)
    assert rest.batches == [["4", "5", "6", "7", "8"]]


def test_a_dead_server_is_not_asked_to_the_end(store):
    vlm = Scripted(lambda _: Failure("429", retryable=True), batch_size=4)
    replies = ask(vlm, [q(str(i)) for i in range(40)], store)
    assert len(vlm.batches) == 1
    assert all(isinstance(r, Failure) and r.retryable for r in replies)
    assert isinstance(replies[-1], Failure)
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
    replies = ask(vlm, [q("a"), q("b"), q("c")], store)
    assert vlm.batches == [["a", "b", "c"]]
    assert [r.text for r in replies if isinstance(r, Answer)] == [
        "said a i",
        "said b i",
        "said c i",
    ]
    assert len(store) == 3


@pytest.mark.parametrize(
    ("order", "complaint"), [([0, 0, 1], "twice"), ([0], "1 answers to 2 requests")]
)
def test_a_stream_that_miscounts_is_an_error(order, complaint):
    with pytest.raises(ModelError, match=complaint):
        ask(Streamed(order), [q("a"), q("b")], None)


def test_a_stream_is_let_go_when_as_many_in_a_row_fail_as_keep_the_model_busy(
    store,
):
    def down_after_one(question):
        return (
            echo(question) if question.prompt == "0" else Failure("server is down", retryable=True)
        )

    vlm = Streamed(range(6), down_after_one)
    replies = ask(vlm, [q(str(i)) for i in range(6)], store)
    assert vlm.closed
    reasons = [reply.reason for reply in replies if isinstance(reply, Failure)]
    assert reasons[:3] == ["server is down"] * 3
    assert reasons[3:] == ["not asked because the 3 before it all failed: server is down"] * 2
    assert len(store) == 1


@pytest.mark.parametrize("order", [range(6), [5, 4, 3, 2, 1, 0]])
def test_a_store_that_cannot_be_written_ends_the_asking(store, monkeypatch, order):
    def full(*_):
        raise DataError("The disk is full.")

    monkeypatch.setattr(store, "put", full)
    with pytest.raises(DataError, match="The disk is full"):
        ask(Streamed(order), [q(str(i)) for i in range(6)], store)


def test_outcomes_are_stored_with_their_candidates_and_a_file_from_before_them_goes_on(
    tmp_path,
):
    file, identity = tmp_path / "answers.db", {"model": "m"}
    plain, named = Request("p"), Request("p", candidates=Candidates(("owl", "kite")))
    with AnswerStore(file) as store:
        store.put(identity, [(plain, Answer("plain"))])
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("ALTER TABLE answers DROP COLUMN outcomes")
        db.execute("PRAGMA user_version = 1")
    outcomes = {"owl": -0.1, "…": -2.4}
    with AnswerStore(file) as store:
        assert store.get(identity, [plain, named]) == [Answer("plain", cached=True), None]
        store.put(identity, [(named, Answer("An owl.", outcomes=outcomes))])
    with AnswerStore(file) as store:
        found = store.get(identity, [named, plain, replace(named, candidates=Candidates(("owl",)))])
    assert [one and (one.text, one.outcomes) for one in found] == [
        ("An owl.", outcomes),
        ("plain", None),
        None,
    ]
