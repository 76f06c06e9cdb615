"""Asking a model: the store first, then the model, while a thread behind it writes the store."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from contextvars import copy_context
from dataclasses import replace
from types import TracebackType
from typing import Self

from taxtune.data.images import content_hash
from taxtune.errors import ImageError, ModelError
from taxtune.models.answers import AnswerStore
from taxtune.models.base import Answer, Failure, Identity, Model, Reply, Request
from taxtune.progress import track

__all__ = ["ask", "check_model"]

_DEFAULT_BATCH = 8
_Key = tuple[str, str | None, int]


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
    batch_size: int | None = None,
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
        batch_size: Requests that keep the model busy; by default its own `batch_size` if it has one, or else 8.
        what: What the progress of it is called.

    Returns:
        An answer or a failure for each request, in order.

    Raises:
        ModelError: If the model cannot answer at all.
        DataError: If the store cannot be read or written.
    """
    size = batch_size if batch_size is not None else int(getattr(model, "batch_size", _DEFAULT_BATCH))
    if size < 1:
        raise ModelError("The batch size must be at least 1.", value=size, remedy="Set the batch size to 1 or more.")
    # The prompt and the content decide, not the file: two copies of an image are the same request.
    places: dict[_Key, list[int]] = {}
    replies: dict[_Key, Reply] = {}
    distinct: dict[_Key, Request] = {}
    for index, request in enumerate(requests):
        content, sample = request.image_sha256, request.sample
        if request.image is not None and not content:
            try:
                content = content_hash(request.image)
            except ImageError as error:
                content = f"lost: {request.image}"
                replies[request.prompt, content, sample] = Failure(str(error), retryable=False)
        key = (request.prompt, content, sample)
        distinct.setdefault(key, replace(request, image_sha256=content))
        places.setdefault(key, []).append(index)

    identity = dict(model.identity)
    wanted = [key for key in distinct if key not in replies]
    from_store = 0
    if store is not None:
        for key, stored in zip(wanted, store.get(identity, [distinct[key] for key in wanted]), strict=True):
            if stored is not None:
                replies[key] = stored
                from_store += len(places[key])
    done = sum(len(places[key]) for key in replies)
    wanted = [key for key in distinct if key not in replies]
    with track(what, len(requests), done=done, stored=from_store) as task:

        def settle(key: _Key, reply: Reply) -> None:
            replies[key] = reply
            task.advance(len(places[key]))

        given_up = None
        with _Writer(store, identity) as writer, closing(_stream(model, [distinct[k] for k in wanted], size)) as stream:
            failed_in_a_row = 0
            for place, reply in stream:
                writer.keep(distinct[wanted[place]], reply)
                settle(wanted[place], reply)
                failed = isinstance(reply, Failure) and reply.retryable
                failed_in_a_row = failed_in_a_row + 1 if failed else 0
                if isinstance(reply, Failure) and failed_in_a_row >= max(size, 2):
                    given_up = f"not asked because the {failed_in_a_row} before it all failed: {reply.reason}"
                    break
        for key in wanted:
            if key not in replies:
                settle(key, Failure(str(given_up), retryable=True))

    result: dict[int, Reply] = {}
    for key, indices in places.items():
        reply = replies[key]
        # A copy costs nothing, as an answer out of the store costs nothing: both are marked the same way.
        copy = replace(reply, cached=True) if isinstance(reply, Answer) else reply
        result.update(dict.fromkeys(indices[1:], copy))
        result[indices[0]] = reply
    return [result[index] for index in range(len(requests))]


def _stream(model: Model, requests: Sequence[Request], size: int) -> Generator[tuple[int, Reply]]:
    """Gives (place, reply) as replies come: from the model's own `stream`, or from its answers batch by batch."""
    own: Callable[[Sequence[Request]], Generator[tuple[int, Reply]]] | None = getattr(model, "stream", None)
    if own is None:
        for start in range(0, len(requests), size):
            batch = requests[start : start + size]
            fresh = model.answer(batch)
            if len(fresh) != len(batch):
                raise ModelError(f"The model gave {len(fresh)} answers to {len(batch)} requests.")
            yield from enumerate(fresh, start)
        return
    open_places = set(range(len(requests)))
    with closing(own(requests)) as stream:
        for place, reply in stream:
            if place not in open_places:
                raise ModelError(f"The model answered request {place} twice, or was never asked it.")
            open_places.remove(place)
            yield place, reply
    if open_places:
        raise ModelError(f"The model gave {len(requests) - len(open_places)} answers to {len(requests)} requests.")


class _Writer:
    """Writes answers to the store in a thread of its own, all that are waiting at once, so that no model waits."""

    def __init__(self, store: AnswerStore | None, identity: Identity) -> None:
        self._store, self._identity = store, identity
        self._waiting: queue.SimpleQueue[tuple[Request, Answer] | None] = queue.SimpleQueue()
        self._error: BaseException | None = None
        # In a context of its own, so that a store's notes go to the display in force here.
        work = copy_context().run
        self._thread = threading.Thread(target=work, args=(self._write,), name="taxtune-store", daemon=True)

    def keep(self, request: Request, reply: Reply) -> None:
        """Hands over a reply; a failure is not kept. Raises what went wrong with an earlier one."""
        if self._error is not None:
            raise self._error
        if isinstance(reply, Answer) and self._store is not None:
            self._waiting.put((request, reply))

    def _write(self) -> None:
        ended = False
        while not ended:
            pairs = [self._waiting.get()]
            while not self._waiting.empty():
                pairs.append(self._waiting.get())
            ended = None in pairs
            try:
                if self._store is not None and self._error is None:
                    self._store.put(self._identity, [pair for pair in pairs if pair is not None])
            except BaseException as error:
                self._error = error

    def __enter__(self) -> Self:
        if self._store is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._store is not None:
            self._waiting.put(None)
            try:
                self._thread.join()
            except KeyboardInterrupt:  # what waits is written all the same
                self._thread.join()
                raise
        if error is None and self._error is not None:
            raise self._error
