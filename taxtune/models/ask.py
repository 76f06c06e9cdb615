"""Asking a model: the store of answers first, then the model; a thread writes the store."""

from __future__ import annotations

import hashlib
import json
import queue
import sqlite3
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, Self

from taxtune.errors import ImageError, ModelError
from taxtune.images import content_hash
from taxtune.models.base import (
    Answer,
    Candidates,
    Failure,
    Identity,
    Model,
    Reply,
    Request,
)
from taxtune.models.refusals import PARAMETERS, Refusals
from taxtune.progress import note, track
from taxtune.store import Store, cache_folder, open_to_read
from taxtune.thoughts import CUT_THOUGHT, without_thoughts
from taxtune.untrusted import well_formed

__all__ = ["AnswerStore", "answer_key", "ask", "check_model", "note_kept", "open_replies"]

_DEFAULT_BATCH = 8
_Key = tuple[str, str | None, int, str]


def check_model(model: Model) -> list[str]:
    """Checks that a model can be asked, as far as it can tell without a question.

    Returns:
        What the user should know before a run.

    Raises:
        ModelError: If it cannot be asked.
    """
    check: Callable[[], list[str] | None] = getattr(model, "check", lambda: None)
    return list(check() or ())


def note_kept(model: Model, store: AnswerStore) -> None:
    """Notes how many answers of a function are kept, which it is not asked for again.

    Its identity is a hash of its own code: what it calls may have changed since. A function that
    states its identity says itself what has changed.
    """
    identity = dict(model.identity)
    if identity.get("kind") != "function" or "source" not in identity:
        return
    count, last = store.given_by(identity)
    if count:
        note(
            f"{count:,} answers of the function {identity['model']} are kept in {store.path}, the "
            f"last of {last}, and are not asked for again. If what it calls has changed since, "
            'ask anew: answers="new.db", or give the function another `identity`'
        )


def ask(
    model: Model,
    requests: Sequence[Request],
    store: AnswerStore | None,
    *,
    what: str = "asking",
) -> list[Reply]:
    """Answers requests, asking the model only what the store does not know.

    A request that occurs several times is asked once; its copies come back marked as cached. An
    answer is written to the store as it comes, while the model goes on. Failures are never stored.
    When as many requests in a row as keep the model busy (at least two) fail for a reason that may
    pass, the rest come back as failures, not asked.

    Args:
        model: The model.
        requests: The requests; an image without a hash is hashed here.
        store: Where answers are kept, or None to keep none.
        what: What the progress of it is called.

    Returns:
        An answer or a failure for each request, in order.

    Raises:
        ModelError: If the model cannot answer at all.
        DataError: If the store cannot be read or written.
    """
    keys: list[_Key] = []
    distinct: dict[_Key, Request] = {}
    replies: dict[_Key, Reply] = {}
    for request in requests:
        hashed, failure = _hashed(request)
        key = _key(hashed)
        keys.append(key)
        distinct.setdefault(key, hashed)
        if failure is not None:
            replies[key] = failure
    copies = Counter(keys)
    _share_refusals(model, store)
    identity = dict(model.identity)
    readable = {key: request for key, request in distinct.items() if key not in replies}
    stored = _stored(store, identity, readable)
    replies |= stored
    unanswered = [key for key in readable if key not in stored]
    size = int(getattr(model, "batch_size", _DEFAULT_BATCH))
    failed_in_a_row = 0
    given_up = ""
    with (
        track(
            what,
            len(requests),
            done=sum(copies[key] for key in replies),
            stored=sum(copies[key] for key in stored),
        ) as task,
        _StoreWriter(store, model, identity) as writer,
        closing(_stream(model, [distinct[key] for key in unanswered], size)) as stream,
    ):
        for place, reply in stream:
            key = unanswered[place]
            replies[key] = reply
            task.advance(copies[key])
            if isinstance(reply, Answer):
                writer.put(distinct[key], reply)
            is_passing = isinstance(reply, Failure) and reply.retryable
            failed_in_a_row = failed_in_a_row + 1 if is_passing else 0
            if isinstance(reply, Failure) and failed_in_a_row >= max(size, 2):
                given_up = (
                    f"not asked because the {failed_in_a_row} before it all failed: {reply.reason}"
                )
                break
            if writer.errors:
                break
        for key in unanswered:
            if key not in replies:
                replies[key] = Failure(given_up, retryable=True)
                task.advance(copies[key])
    _share_refusals(model, store)
    return _in_order(keys, replies)


def _hashed(request: Request) -> tuple[Request, Failure | None]:
    """Returns a request with the hash of its image, and a failure if that cannot be read."""
    if request.image is None or request.image_sha256:
        return request, None
    try:
        return replace(request, image_sha256=content_hash(request.image)), None
    except ImageError as error:
        lost = replace(request, image_sha256=f"lost: {request.image}")
        return lost, Failure(str(error), retryable=False)


def _key(request: Request) -> _Key:
    # The prompt and the content decide, not the file: two copies of an image are the same request.
    return request.prompt, request.image_sha256, request.sample, _digest(request.candidates)


def _stored(
    store: AnswerStore | None, identity: Identity, requests: Mapping[_Key, Request]
) -> dict[_Key, Answer]:
    """Returns the answers that the store has."""
    if store is None:
        return {}
    answers = store.get(identity, list(requests.values()))
    pairs = zip(requests, answers, strict=True)
    return {key: answer for key, answer in pairs if answer is not None}


def _in_order(keys: Sequence[_Key], replies: Mapping[_Key, Reply]) -> list[Reply]:
    """Returns the reply of each key; the copies of an answer are marked as cached."""
    seen: set[_Key] = set()
    result: list[Reply] = []
    for key in keys:
        reply = replies[key]
        if key in seen and isinstance(reply, Answer):
            # A copy costs nothing, as an answer out of the store.
            reply = replace(reply, cached=True)
        seen.add(key)
        result.append(_answered(reply))
    return result


class _StoreWriter:
    """Writes answers in a thread of its own, so that no model waits for the disk.

    Args:
        store: The store, or None to keep nothing.
        model: The model that gives the answers.
        identity: Its identity before it was asked anything.

    Attributes:
        errors: Why answers could not be written; the end of the block raises the first.
    """

    def __init__(self, store: AnswerStore | None, model: Model, identity: Identity) -> None:
        self.errors: list[Exception] = []
        self._store = store
        self._model = model
        self._identity = identity
        self._waiting: queue.SimpleQueue[tuple[Request, Answer]] = queue.SimpleQueue()
        self._thread = ThreadPoolExecutor(1, "taxtune-store")

    def put(self, request: Request, answer: Answer) -> None:
        """Writes an answer soon, together with those that wait."""
        self._waiting.put((request, answer))
        self._thread.submit(self._write)

    def _write(self) -> None:
        pairs = [self._waiting.get() for _ in range(self._waiting.qsize())]
        if self._store is None or not pairs:
            return
        # A model of an API learns what it is to be asked without.
        learns = hasattr(self._model, "refusals")
        identity = dict(self._model.identity) if learns else self._identity
        try:
            self._store.put(identity, pairs)
        except Exception as error:
            self.errors.append(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._thread.shutdown()
        if not self.errors:
            getattr(self._model, "forget", lambda: None)()
        if self.errors and kind is None:
            raise self.errors[0]


def _share_refusals(model: Model, store: AnswerStore | None) -> None:
    """Lets a model and the store know which parameters the model refuses.

    So its answers are found there.
    """
    refusals = getattr(model, "refusals", None)
    if store is None or not isinstance(refusals, Refusals):
        return
    identity = {name: value for name, value in model.identity.items() if name != "without"}
    requests = {name: Request(f"parameter {name}", sample=-1) for name in PARAMETERS}
    known = store.get(identity, list(requests.values()))
    refusals.add(name for name, answer in zip(PARAMETERS, known, strict=True) if answer is not None)
    store.put(identity, [(requests[name], Answer("refused")) for name in refusals.names])


def _answered(reply: Reply) -> Reply:
    """Returns a reply without the model's thoughts, which the store keeps.

    A reply that has nothing else is a failure.
    """
    if isinstance(reply, Failure):
        return reply
    answer = without_thoughts(reply.text)
    if answer is None:
        reason = f"{CUT_THOUGHT[0].upper()}{CUT_THOUGHT[1:]}."
        return Failure(reason, retryable=False, unfinished=reply)
    return reply if answer == reply.text else replace(reply, text=answer)


def _stream(model: Model, requests: Sequence[Request], size: int) -> Generator[tuple[int, Reply]]:
    """Gives (place, reply) as replies come, of a model that streams or one asked in batches."""
    stream: Callable[[Sequence[Request]], Generator[tuple[int, Reply]]]
    stream = getattr(model, "stream", partial(_batches, model, size))
    answered: set[int] = set()
    with closing(stream(requests)) as replies:
        for place, reply in replies:
            if place in answered or not 0 <= place < len(requests):
                message = f"The model answered request {place} twice, or was never asked it."
                raise ModelError(message)
            answered.add(place)
            yield place, reply
    if len(answered) < len(requests):
        raise ModelError(f"The model gave {len(answered)} answers to {len(requests)} requests.")


def _batches(model: Model, size: int, requests: Sequence[Request]) -> Generator[tuple[int, Reply]]:
    for start in range(0, len(requests), size):
        batch = requests[start : start + size]
        replies = model.answer(batch)
        if len(replies) != len(batch):  # nobody knows which answer is whose
            raise ModelError(f"The model gave {len(replies)} answers to {len(batch)} requests.")
        yield from enumerate(replies, start)


def answer_key(identity: Identity, request: Request) -> str:
    """Makes the key of an answer: a SHA-256, in hexadecimal, of everything that can change it."""
    content = {
        "schema": 1,  # a change makes every stored answer a stranger
        "vlm": _asked(identity, request),
        "prompt": request.prompt,
        "image": request.image_sha256 or "",
    }
    if request.sample:  # the first answer is the one that was stored before there were several
        content["sample"] = request.sample
    if request.candidates is not None:
        content["candidates"] = _digest(request.candidates)
    return _sha256(_canonical(content))


class AnswerStore(Store[Request, Answer]):
    """Answers that were given, marked as cached when they are found; failures are not kept."""

    table = "answers"
    columns: ClassVar[Mapping[str, str]] = {
        "key": "TEXT PRIMARY KEY NOT NULL",
        "model": "TEXT NOT NULL",
        "identity": "TEXT NOT NULL",
        "prompt_sha256": "TEXT NOT NULL",
        "prompt": "TEXT NOT NULL",
        "image_sha256": "TEXT NOT NULL",
        "answer": "TEXT NOT NULL",
        "prompt_tokens": "INTEGER NOT NULL",
        "completion_tokens": "INTEGER NOT NULL",
        "cost_usd": "REAL",
        "seconds": "REAL NOT NULL",
        "created": "TEXT NOT NULL",
        "outcomes": "TEXT",
        "cut": "INTEGER",
    }
    version = 3
    precious = True

    def keys(self, identity: Identity, items: Sequence[Request]) -> list[str]:
        """Returns the key of each request."""
        return [answer_key(identity, request) for request in items]

    def row(self, identity: Identity, item: Request, value: Answer) -> tuple[Any, ...]:
        """Returns an answer with what a reader of the file wants to know of its request."""
        return (
            str(identity.get("model", "")),
            _canonical(_asked(identity, item)),
            _sha256(item.prompt),
            well_formed(item.prompt),
            item.image_sha256 or "",
            well_formed(value.text),
            value.prompt_tokens,
            value.completion_tokens,
            value.cost_usd,
            value.seconds,
            datetime.now(UTC).isoformat(timespec="seconds"),
            None if value.outcomes is None else _canonical(dict(value.outcomes)),
            None if value.cut is None else int(value.cut),
        )

    def given_by(self, identity: Identity) -> tuple[int, str]:
        """Returns the number of a model's answers about images, and when it gave the last."""
        query = "SELECT COUNT(*), MAX(created) FROM answers WHERE model = ? AND identity = ?"
        rows = self._read(query, [str(identity.get("model", "")), _canonical(identity)])
        for count, last in rows:
            if count:
                time = datetime.fromisoformat(last).astimezone()
                return count, time.strftime("%Y-%m-%d %H:%M")
        return 0, ""

    def value(self, row: Sequence[Any]) -> Answer:
        """Returns the answer of a row."""
        *_, text, prompt_tokens, completion_tokens, cost_usd, seconds, _, outcomes, cut = row
        return Answer(
            text=text,
            cached=True,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            cost_usd=cost_usd,
            seconds=seconds,
            outcomes=None if outcomes is None else json.loads(outcomes),
            cut=None if cut is None else bool(cut),
        )


def mean_answer(file: Path, model: str) -> tuple[int, float, float, float | None, float] | None:
    """Returns the number of a model's answers about images in a file, and what they took on average.

    No file is made or changed.

    Returns:
        Number, tokens read and written, price in US dollars (None where none is known), seconds;
        None where there is no answer.
    """
    query = (
        "SELECT COUNT(*), AVG(prompt_tokens), AVG(completion_tokens), AVG(cost_usd), AVG(seconds) "
        "FROM answers WHERE model = ? AND image_sha256 != ''"
    )
    try:
        with closing(open_to_read(file)) as db:
            (row,) = db.execute(query, [model])
    except sqlite3.Error:  # what is wrong with the file is told when it is used
        return None
    return row if row[0] else None


def open_replies(folder: Path | None) -> AnswerStore:
    """Opens the store of the replies of judges and chat models.

    Args:
        folder: The folder that has it as `replies.db`; None is the user's cache folder.

    Raises:
        DataError: If it cannot be opened.
    """
    return AnswerStore(cache_folder(folder) / "replies.db")


def _asked(identity: Identity, request: Request) -> Identity:
    # A model that is asked with and without images must not give an answer of the one kind for one
    # of the other.
    return identity if request.image is not None else {**identity, "asked": "text"}


@lru_cache(maxsize=8)
def _digest(candidates: Candidates | None) -> str:
    return "" if candidates is None else _sha256(_canonical(asdict(candidates)))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
