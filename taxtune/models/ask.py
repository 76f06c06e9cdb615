"""Asking a model: the store of answers first, then the model, while a thread behind it writes the store."""

from __future__ import annotations

import hashlib
import json
import queue
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from taxtune.data.images import content_hash
from taxtune.errors import ImageError, ModelError
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
from taxtune.progress import track
from taxtune.store import Store, cache_folder
from taxtune.thoughts import CUT_THOUGHT, without_thoughts
from taxtune.untrusted import well_formed

__all__ = ["AnswerStore", "answer_key", "ask", "check_model", "open_replies"]

_DEFAULT_BATCH = 8
_Key = tuple[str, str | None, int, str]


def check_model(model: Model) -> list[str]:
    """Checks, without asking anything, that a model can be asked, as far as the model can tell.

    Returns:
        What the user should know before a run.

    Raises:
        ModelError: If it cannot be asked.
    """
    check: Callable[[], list[str] | None] = getattr(model, "check", lambda: None)
    return list(check() or ())


def ask(
    model: Model,
    requests: Sequence[Request],
    store: AnswerStore | None,
    *,
    what: str = "asking",
) -> list[Reply]:
    """Answers requests, asking the model only what the store does not know.

    A request that occurs several times is asked once; its copies come back marked as cached. An answer is written to
    the store as it comes, while the model goes on. Failures are never stored. When as many requests in a row as keep
    the model busy (at least two) fail for a reason that may pass, the rest come back as failures, not asked.

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
    size = int(getattr(model, "batch_size", _DEFAULT_BATCH))
    # The prompt and the content decide, not the file: two copies of an image are the same request.
    keys: list[_Key] = []
    replies: dict[_Key, Reply] = {}
    distinct: dict[_Key, Request] = {}
    for request in requests:
        content, further = request.image_sha256, (request.sample, _digest(request.candidates))
        if request.image is not None and not content:
            try:
                content = content_hash(request.image)
            except ImageError as error:
                content = f"lost: {request.image}"
                replies[request.prompt, content, *further] = Failure(str(error), retryable=False)
        keys.append((request.prompt, content, *further))
        distinct.setdefault(keys[-1], replace(request, image_sha256=content))
    copies = Counter(keys)
    _share_refusals(model, store)
    identity = dict(model.identity)
    wanted = [key for key in distinct if key not in replies]
    known = [] if store is None else store.get(identity, [distinct[key] for key in wanted])
    stored = {key: answer for key, answer in zip(wanted, known, strict=False) if answer is not None}
    replies |= stored
    wanted = [key for key in wanted if key not in stored]
    done, from_store = (sum(copies[key] for key in some) for some in (replies, stored))
    waiting: queue.SimpleQueue[tuple[Request, Answer]] = queue.SimpleQueue()
    faults: list[Exception] = []

    def write() -> None:
        """Writes all answers that wait; in a thread of its own, so that no model waits for the disk."""
        pairs = [waiting.get() for _ in range(waiting.qsize())]
        try:
            if store is not None and pairs:
                learns = hasattr(model, "refusals")  # what it is to be asked without
                store.put(dict(model.identity) if learns else identity, pairs)
        except Exception as error:
            faults.append(error)

    failed_in_a_row, given_up = 0, ""
    with (
        track(what, len(requests), done=done, stored=from_store) as task,
        ThreadPoolExecutor(1, "taxtune-store") as writer,
        closing(_stream(model, [distinct[key] for key in wanted], size)) as stream,
    ):
        for place, reply in stream:
            key = wanted[place]
            replies[key] = reply
            task.advance(copies[key])
            if isinstance(reply, Answer):
                failed_in_a_row = 0
                waiting.put((distinct[key], reply))
                writer.submit(write)
            else:
                failed_in_a_row = failed_in_a_row + 1 if reply.retryable else 0
                if failed_in_a_row >= max(size, 2):
                    given_up = f"not asked because the {failed_in_a_row} before it all failed: {reply.reason}"
                    break
            if faults:
                break
        for key in wanted:
            if key not in replies:
                replies[key] = Failure(given_up, retryable=True)
                task.advance(copies[key])
    if faults:
        raise faults[0]
    _share_refusals(model, store)
    result: list[Reply] = []
    for key in keys:
        reply = replies[key]
        result.append(_answered(reply))
        if (
            isinstance(reply, Answer) and not reply.cached
        ):  # a copy costs nothing, as an answer out of the store
            replies[key] = replace(reply, cached=True)
    return result


def _share_refusals(model: Model, store: AnswerStore | None) -> None:
    """Lets a model and the store know which parameters the model refuses, so that its answers are found there."""
    refusals = getattr(model, "refusals", None)
    if store is None or not isinstance(refusals, Refusals):
        return
    identity = {name: value for name, value in model.identity.items() if name != "without"}
    requests = [Request(f"parameter {name}", sample=-1) for name in PARAMETERS]
    known = store.get(identity, requests)
    refusals.add(name for name, answer in zip(PARAMETERS, known, strict=True) if answer is not None)
    told = dict(zip(PARAMETERS, requests, strict=True))
    store.put(identity, [(told[name], Answer("refused")) for name in refusals.names])


def _answered(reply: Reply) -> Reply:
    """Returns a reply without the model's thoughts, which the store keeps; a failure if there is nothing else."""
    if isinstance(reply, Failure):
        return reply
    answer = without_thoughts(reply.text)
    if answer is None:
        return Failure(
            f"{CUT_THOUGHT[0].upper()}{CUT_THOUGHT[1:]}.", retryable=False, unfinished=reply
        )
    return reply if answer == reply.text else replace(reply, text=answer)


def _stream(model: Model, requests: Sequence[Request], size: int) -> Generator[tuple[int, Reply]]:
    """Gives (place, reply) as replies come: from the model's own `stream`, or from its answers batch by batch."""
    own: Callable[[Sequence[Request]], Generator[tuple[int, Reply]]] | None = getattr(
        model, "stream", None
    )
    answered: set[int] = set()
    with closing(_batches(model, requests, size) if own is None else own(requests)) as stream:
        for place, reply in stream:
            if place in answered or not 0 <= place < len(requests):
                raise ModelError(
                    f"The model answered request {place} twice, or was never asked it."
                )
            answered.add(place)
            yield place, reply
    if len(answered) < len(requests):
        raise ModelError(f"The model gave {len(answered)} answers to {len(requests)} requests.")


def _batches(model: Model, requests: Sequence[Request], size: int) -> Generator[tuple[int, Reply]]:
    for start in range(0, len(requests), size):
        batch = requests[start : start + size]
        fresh = model.answer(batch)
        if len(fresh) != len(batch):  # nobody knows which answer is whose
            raise ModelError(f"The model gave {len(fresh)} answers to {len(batch)} requests.")
        yield from enumerate(fresh, start)


def answer_key(identity: Identity, request: Request) -> str:
    """Makes the key of an answer: a SHA-256, in hexadecimal, of everything that can change it."""
    what = {
        "schema": 1,  # a change makes every stored answer a stranger
        "vlm": _asked(identity, request),
        "prompt": request.prompt,
        "image": request.image_sha256 or "",
    }
    if request.sample:  # the first answer is the one that was stored before there were several
        what["sample"] = request.sample
    if request.candidates is not None:
        what["candidates"] = _digest(request.candidates)
    return hashlib.sha256(_canonical(what).encode("ascii")).hexdigest()


class AnswerStore(Store[Request, Answer]):
    """Answers that were given, marked as cached when they are found; failures do not belong here."""

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
            hashlib.sha256(item.prompt.encode("utf-8", "surrogatepass")).hexdigest(),
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

    def value(self, row: Sequence[Any]) -> Answer:
        """Returns the answer of a row."""
        text, prompt_tokens, completion_tokens, cost_usd, seconds = row[5:10]
        outcomes = None if row[11] is None else json.loads(row[11])
        return Answer(
            text=text,
            cached=True,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            cost_usd=cost_usd,
            seconds=seconds,
            outcomes=outcomes,
            cut=None if row[12] is None else bool(row[12]),
        )


def open_replies(folder: Path | None) -> AnswerStore:
    """Opens the store of the replies of judges and chat models.

    Args:
        folder: The folder that has it as `replies.db`; None is the user's cache folder.

    Raises:
        DataError: If it cannot be opened.
    """
    return AnswerStore(cache_folder(folder) / "replies.db")


def _asked(identity: Identity, request: Request) -> Identity:
    # A model that is asked with and without images must not give an answer of the one kind for one of the other.
    return identity if request.image is not None else {**identity, "asked": "text"}


@lru_cache(maxsize=8)
def _digest(candidates: Candidates | None) -> str:
    return (
        ""
        if candidates is None
        else hashlib.sha256(_canonical(asdict(candidates)).encode("ascii")).hexdigest()
    )


def _canonical(value: object) -> str:
    return json.dumps(
        value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False
    )
