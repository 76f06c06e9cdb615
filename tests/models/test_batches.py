"""Questions in a provider's batches: submitted, fetched by a later process, and paid once."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taxtune.errors import BatchPendingError, DataError, ModelError, TaxtuneError
from taxtune.models import AnswerStore, Failure, Request, ask, count_faults
from taxtune.models import batches as module
from taxtune.models.ask import _StoreWriter
from taxtune.models.base import Candidates
from taxtune.models.batches import BatchModel, in_batches
from tests import servers
from tests.models.replies import KEY, api_model, texts
from tests.servers import BatchServer

pytestmark = pytest.mark.usefixtures("litellm")


def echo(body):
    """Answers a question with its own words."""
    return servers.text(f"A: {servers._text_of(body['messages'][-1])}")


@pytest.fixture
def server():
    with BatchServer(echo) as running:
        yield running


@pytest.fixture
def questions(pictures, request_for):
    return [request_for(f"What is it? {i}", pictures[i % 2]) for i in range(5)]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "answers.db"


def asked(server, questions, file, **settings):
    """Asks as a process of its own does."""
    with AnswerStore(file) as store:
        return ask(in_batches(api_model(server, **settings), file), questions, store)


def recorded(file):
    return json.loads(file.with_name("answers-batches.json").read_bytes())


def test_a_batch_is_submitted_fetched_later_and_forgotten(server, questions, file):
    with pytest.raises(BatchPendingError, match=r"5 questions .* \(batch batch_0\)\. .*--resume"):
        asked(server, questions, file)
    (batch,) = recorded(file)
    assert batch["id"] == "batch_0"
    assert server.batches[0]["metadata"] == {"name": batch["name"]}
    with pytest.raises(BatchPendingError):
        asked(server, questions, file)
    server.end()
    replies = asked(server, questions, file)
    assert texts(replies) == [f"A: {question.prompt}" for question in questions]
    assert set(server.paid.values()) == {1}
    assert recorded(file) == []
    assert texts(asked(server, questions, file)) == texts(replies)
    assert len(server.batches) == 1
    assert not server.chats


@pytest.mark.parametrize("name", ["azure/gpt-4o", "hosted_vllm/qwen", "litellm_proxy/gpt-4o"])
def test_other_providers_of_the_protocol(server, questions, file, name, monkeypatch):
    monkeypatch.setenv("AZURE_API_VERSION", "2024-10-21")
    for key in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.setenv(key, servers.closed_api_base())
    for _ in range(2):
        with suppress(BatchPendingError), AnswerStore(file) as store:
            replies = ask(in_batches(api_model(server, name), file), questions, store)
        server.end()
    assert len(texts(replies)) == 5
    assert {request.headers["accept-encoding"] for request in server.requests} == {"gzip"}


def test_a_line_is_what_a_live_call_sends_and_its_answer_is_that_of_the_live_model(
    server, questions, file
):
    weighed = replace(questions[0], candidates=Candidates(("robin", "owl"), ("bird",), False))
    sampled = [Request("Again?", sample=2), weighed, *questions]
    settings = {"temperature": 0.5, "extra": {"top_k": 3}, "reasoning_effort": "low"}
    with pytest.raises(BatchPendingError):
        asked(server, sampled, file, **settings)
    server.end()
    fetched = asked(server, sampled, file, **settings)
    live = api_model(server, **settings)
    with AnswerStore(file) as store:
        assert texts(ask(live, sampled, store)) == texts(fetched)
    assert not server.chats
    ask(live, sampled, None)
    bodies = [line["body"] for line in server.lines(server.batches[0])]
    sent = [chat.json for chat in server.chats]
    assert sorted(map(json.dumps, bodies)) == sorted(map(json.dumps, sent))
    assert KEY not in str(server.lines(server.batches[0]))


@pytest.mark.parametrize(
    ("name", "price"),
    [("openai/gpt-4o", 11 * 1.25e-6 + 7 * 5e-6), ("openai/gpt-4-turbo", None)],
)
def test_an_answer_costs_half(server, questions, file, name, price):
    live = api_model(server, name)
    with pytest.raises(BatchPendingError), AnswerStore(file) as store:
        ask(in_batches(live, file), questions, store)
    server.end()
    with AnswerStore(file) as store:
        answer = ask(in_batches(live, file), questions, store)[0]
    assert answer.cost_usd == pytest.approx(price or live.price(11, 7) / 2)


def test_what_failed_is_submitted_alone(server, questions, file):
    with pytest.raises(BatchPendingError):
        asked(server, questions, file)
    server.end(lost=["What is it? 1"], rejected=["What is it? 3"])
    with count_faults() as faults:
        replies = asked(server, questions, file)
    failed = [i for i, reply in enumerate(replies) if isinstance(reply, Failure)]
    assert failed == [1, 3]
    assert all(replies[i].retryable for i in failed)
    assert "too small" in replies[3].reason
    assert sum(faults.values()) == 2
    with pytest.raises(BatchPendingError, match="2 questions"):
        asked(server, questions, file)
    assert [len(server.lines(batch)) for batch in server.batches] == [5, 2]
    server.end()
    assert texts(asked(server, questions, file)) == [f"A: {one.prompt}" for one in questions]
    assert sorted(server.paid.values()) == [1, 1, 1, 2, 2]


@pytest.mark.parametrize("how", ["expired", "cancelled", "failed"])
def test_a_batch_that_ends_without_answers_is_a_failure_of_its_requests(
    server, questions, file, how
):
    with pytest.raises(BatchPendingError):
        asked(server, questions, file)
    server.end(how)
    for reply in asked(server, questions, file):
        assert isinstance(reply, Failure)
        assert reply.retryable
        assert how in reply.reason
    with pytest.raises(BatchPendingError):
        asked(server, questions, file)
    server.end()
    assert texts(asked(server, questions, file))


class Killed(BaseException):
    """Ends a process."""


def killing(monkeypatch, step):
    """Ends the process before or after one of its calls and writes; tells how many there were."""
    done = []

    def wrapped(function):
        def call(*arguments, **named):
            result = None
            for is_after in (False, True):
                if is_after:
                    result = function(*arguments, **named)
                done.append(function.__name__)
                if len(done) == step:
                    raise Killed
            return result

        return call

    for name in ("guarded", "write_bytes"):
        monkeypatch.setattr(module, name, wrapped(getattr(module, name)))
    return done


STEPS = 7  # its intent, file, batch and id are written; status, output, what is stored


@pytest.mark.parametrize("step", range(1, 2 * STEPS + 1))
def test_a_process_may_be_killed_anywhere(server, questions, file, step, monkeypatch):
    server.page_size = 1
    with monkeypatch.context() as patch:
        done = killing(patch, step)
        replies = None
        for _ in range(6):
            try:
                replies = asked(server, questions, file)
                break
            except Killed:
                with suppress(BatchPendingError):  # a later batch of something else
                    asked(server, [Request("Something else?")], file.with_name("other.db"))
            except BatchPendingError:
                server.end()
    assert len(done) >= step, "there are fewer steps"
    assert texts(replies) == [f"A: {question.prompt}" for question in questions]
    assert set(server.paid.values()) == {1}


def test_answers_that_could_not_be_stored_are_fetched_again(server, questions, file, monkeypatch):
    with pytest.raises(BatchPendingError):
        asked(server, questions, file)
    server.end()
    stream = BatchModel.stream

    def whole(*given):
        """Has given all replies before the first is to be stored."""
        yield from list(stream(*given))

    full = OSError("no space")
    monkeypatch.setattr(_StoreWriter, "_write", lambda writer: writer.errors.append(full))
    monkeypatch.setattr(BatchModel, "stream", whole)
    with pytest.raises(OSError, match="no space"):
        asked(server, questions, file)
    monkeypatch.undo()
    assert len(texts(asked(server, questions, file))) == 5
    assert len(server.batches) == 1


def test_a_parameter_that_is_found_to_be_refused_makes_no_other_question(server, questions, file):
    with pytest.raises(BatchPendingError):
        asked(server, questions, file)
    live = api_model(server)
    live.refusals.add(["temperature"])
    server.end()
    with AnswerStore(file) as store:
        assert len(texts(ask(in_batches(live, file), questions, store))) == 5
    assert len(server.batches) == 1


def test_calls_of_several_templates_share_a_batch(server, questions, file):
    with AnswerStore(file) as store:
        ask(api_model(server), questions[:1], store)
        with pytest.raises(BatchPendingError):
            ask(in_batches(api_model(server), file).submitter(), questions, store)
    assert len(server.chats) == 1
    for some in (questions[:3], questions[3:]):
        with pytest.raises(BatchPendingError):
            asked(server, some, file)
    (batch,) = server.batches
    assert len(server.lines(batch)) == 4
    server.end()
    model = in_batches(api_model(server), file)
    with AnswerStore(file) as store:
        for some in (questions[:3], questions[3:]):
            assert len(texts(ask(model, some, store))) == len(some)
    assert recorded(file) == []


def test_files_are_as_large_as_a_provider_takes_them(server, questions, file, monkeypatch):
    monkeypatch.setattr(module, "_REQUESTS", 2)
    with pytest.raises(BatchPendingError, match="batch_0, batch_1, batch_2"):
        asked(server, questions, file)
    assert [len(server.lines(batch)) for batch in server.batches] == [2, 2, 1]
    monkeypatch.setattr(module, "_BYTES", 10)
    with pytest.raises(BatchPendingError):
        asked(server, [Request("a"), Request("b")], file)
    assert len(server.batches) == 5


def test_what_fails_for_good_in_two_files_keeps_no_command_waiting(
    server, questions, file, monkeypatch
):
    """Were the failures of the file that ends first given, they would be submitted again before the other ends."""
    monkeypatch.setattr(module, "_REQUESTS", 3)
    with pytest.raises(BatchPendingError, match="batch_0, batch_1"):
        asked(server, questions, file)
    bad = [questions[0].prompt, questions[4].prompt]
    for batch in list(server.batches):
        with pytest.raises(BatchPendingError, match=r"5 questions .*batch_0, batch_1"):
            asked(server, questions, file)
        server._end(batch, "completed", (), bad)
    assert not [one for one in server.requests if one.path.endswith("/content")]
    replies = asked(server, questions, file)
    assert sum(isinstance(reply, Failure) for reply in replies) == 2
    assert len(server.batches) == 2


def test_two_processes_at_once_submit_once(server, questions, file):
    """The second comes while the first uploads."""
    reply = server._reply
    second = []

    def meanwhile(request):
        if request.method == "POST" and request.path.endswith("/files") and not second:
            second.append(None)
            with pytest.raises(BatchPendingError, match="Another process"):
                asked(server, questions, file)
            second.append("refused")
        return reply(request)

    server._reply = meanwhile
    with pytest.raises(BatchPendingError, match="5 questions"):
        asked(server, questions, file)
    assert second == [None, "refused"]
    server.end()
    assert len(texts(asked(server, questions, file))) == 5
    assert set(server.paid.values()) == {1}


def test_a_lock_that_is_a_link_is_refused(server, questions, file, tmp_path):
    (tmp_path / "other").write_text("precious")
    file.with_name("answers-batches.json.lock").symlink_to(tmp_path / "other")
    with pytest.raises(TaxtuneError, match="This is a link"):
        asked(server, questions, file)
    assert (tmp_path / "other").read_text() == "precious"


def test_an_image_that_cannot_be_read_is_in_no_batch(server, questions, file, tmp_path):
    (tmp_path / "none.png").write_bytes(b"no image")
    broken = Request("What?", tmp_path / "none.png")
    with pytest.raises(BatchPendingError, match="5 questions"):
        asked(server, [broken, *questions], file)
    server.end()
    with AnswerStore(file) as store:
        (held,) = ask(in_batches(api_model(server), file).submitter(), [broken], store)
    assert isinstance(held, Failure)
    assert len(server.batches) == 1
    failure, *others = asked(server, [broken, *questions], file)
    assert isinstance(failure, Failure)
    assert len(texts(others)) == 5


def test_refused_answers_and_unread_lines_are_no_answers(file, questions):
    replies = iter([servers.model_refusal(), servers.empty_text(), servers.no_choices()])
    with BatchServer(lambda _: next(replies)) as server:
        with pytest.raises(BatchPendingError):
            asked(server, questions[:3], file)
        server.end()
        output = server.batches[0]["output_file_id"]
        server._files[output] += b"\n" + b"\n".join(ODD)
        found = asked(server, questions[:3], file)
    assert all(isinstance(reply, Failure) for reply in found)


ODD = [
    b"half a li",
    b"[1]",
    b"null",
    b'{"custom_id": "of no request", "response": null, "error": null}',
    b'{"custom_id": ["a"], "response": {"status_code": 200, "body": {}}, "error": null}',
    b'{"custom_id": "b", "response": [1], "error": "words"}',
    b'{"custom_id": "c", "response": {"status_code": 400, "body": "words"}}',
]


def test_odd_lines_are_failures_of_their_requests(server, questions, file):
    with pytest.raises(BatchPendingError):
        asked(server, questions, file)
    server.end()
    keys = recorded(file)[0]["keys"]
    odd = []
    for key, line in zip(keys, (ODD[3], ODD[5], ODD[6]), strict=False):
        told = json.loads(line) | {"custom_id": key}
        odd.append(json.dumps(told).encode())
    server._files[server.batches[0]["output_file_id"]] += b"\n" + b"\n".join(odd)
    replies = asked(server, questions, file)
    assert sum(isinstance(reply, Failure) for reply in replies) == 2
    assert sum(not isinstance(reply, Failure) for reply in replies) == 3


@pytest.mark.parametrize("code", [401, 429, 500])
def test_a_provider_that_refuses_is_told_and_nothing_is_lost(server, questions, file, code):
    reply = server._reply
    server._reply = lambda request: servers.status(code, f"No, {KEY}.")
    with pytest.raises(ModelError) as told:
        asked(server, questions, file)
    assert KEY not in str(told.value)
    server._reply = reply
    with pytest.raises(BatchPendingError):
        asked(server, questions, file)
    assert set(server.paid.values()) == {1}


def test_files_go_to_the_agreed_server_alone(server, questions, file):
    with BatchServer(echo) as other:
        moved = servers.Reply(code=307, headers={"Location": f"{other.api_base}/files"})
        server._reply = lambda request: moved
        with pytest.raises(ModelError, match="sends its requests on to"):
            asked(server, questions, file)
        assert not other.requests


def test_what_cannot_be_asked_in_batches_is_told(server, file, monkeypatch):
    with pytest.raises(ModelError, match=r"cannot be asked in batches.*without --batch"):
        in_batches(api_model(server, "groq/llama-3"), file)
    with pytest.raises(ModelError, match="cannot be asked in batches"):
        in_batches(type("Mine", (), {"identity": {"model": "mine"}})(), file)
    with pytest.raises(DataError, match="Nothing was submitted"):
        in_batches(api_model(server), file, resume=True)
    with pytest.raises(DataError, match="--out"):
        in_batches(api_model(server), None)
    with monkeypatch.context() as patch:
        patch.setattr(module, "find_spec", lambda name: None)
        with pytest.raises(ModelError, match="later version of litellm"):
            in_batches(api_model(server), file)


NAIVE = '[{"name": "a", "since": "2026-01-01T00:00:00", "keys": ["b"], "id": "c"}]'


@pytest.mark.parametrize("text", ["", "{", "{}", "[{}]", "null", NAIVE])
def test_a_record_that_cannot_be_read_is_told_and_nothing_is_submitted(server, file, text):
    file.with_name("answers-batches.json").write_text(text)
    with pytest.raises(DataError, match=r"answers-batches\.json"):
        asked(server, [Request("a")], file)
    assert not server.requests


def test_a_batch_that_the_provider_does_not_know_is_told_with_the_file(server, questions, file):
    """It may be that of another key: to submit it again would pay twice."""
    with pytest.raises(BatchPendingError):
        asked(server, questions, file)
    (gone,) = server.batches
    server.batches.clear()
    with pytest.raises(ModelError, match=r"No such batches.*answers-batches\.json"):
        asked(server, questions, file)
    assert recorded(file)[0]["id"] == gone["id"]
    assert not server.batches


@pytest.mark.parametrize("name", ["openai/gpt-4o", "azure/gpt-4o"])
def test_a_batch_without_an_id_is_found_on_a_later_page(server, questions, file, name, monkeypatch):
    monkeypatch.setenv("AZURE_API_VERSION", "2024-10-21")
    server.page_size = 2
    others = [Request(f"Something else? {i}") for i in range(4)]
    live = api_model(server, name)
    for number, some in enumerate([questions, *([other] for other in others)]):
        kept = file if number == 0 else file.with_name(f"{number}.db")
        with pytest.raises(BatchPendingError), AnswerStore(kept) as store:
            ask(in_batches(live, kept), some, store)
    record = file.with_name("answers-batches.json")
    record.write_text(json.dumps([recorded(file)[0] | {"id": None}]))
    with pytest.raises(BatchPendingError, match="batch_0"), AnswerStore(file) as store:
        ask(in_batches(live, file), questions, store)
    assert len(server.batches) == 5


def test_probabilities_of_names_come_in_batches(file):
    told = servers.logprobs({"A:": 1}, {" robin": 0.75, " owl": 0.25})
    weighed = Request("Which?", candidates=Candidates(("robin", "owl"), ("bird",), False))
    with BatchServer(lambda _: servers.text("A: robin", logprobs=told)) as server:
        with pytest.raises(BatchPendingError):
            asked(server, [weighed], file)
        server.end()
        (answer,) = asked(server, [weighed], file)
        (live,) = ask(api_model(server), [weighed], None)
    assert answer.outcomes == live.outcomes
    assert set(answer.outcomes) == {"robin", "owl"}


EVENTS = st.lists(
    st.one_of(
        st.just("look"),
        st.sampled_from(["completed", "expired", "cancelled", "failed"]),
        st.sets(st.integers(0, 4), min_size=1),
    ),
    max_size=6,
)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(events=EVENTS)
def test_whatever_happens_each_question_is_paid_once_more_than_it_failed(
    questions, tmp_path_factory, events
):
    file = tmp_path_factory.mktemp("batch") / "answers.db"
    failed = dict.fromkeys(range(5), 0)
    with BatchServer(echo) as server:
        for event in [*events, "completed", "completed"]:
            replies = []
            with suppress(BatchPendingError):
                replies = asked(server, questions, file)
            for i, reply in enumerate(replies):
                failed[i] += isinstance(reply, Failure)
            if isinstance(event, set):
                server.end(rejected=[questions[i].prompt for i in event])
            elif event != "look":
                server.end(event)
        assert len(texts(asked(server, questions, file))) == 5
    assert sorted(server.paid.values()) == sorted(1 + count for count in failed.values())
