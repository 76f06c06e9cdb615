"""Asking a model: the store first, then the model, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from taxtune.data.images import content_hash
from taxtune.errors import ImageError, ModelError
from taxtune.models.answers import AnswerStore
from taxtune.models.base import Answer, Failure, Model, Reply, Request
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

    A request that occurs several times is asked once; its copies come back marked as cached. Each batch is written to
    the store before the next is asked, so that whatever ends the run, only the batch in flight is lost. Failures are
    never stored.

    When every request of a batch fails for a reason that may pass (a rate limit, a server that is down), the model has
    retried them all already; the requests left over are then not asked but come back as failures that say so.

    Args:
        model: The model.
        requests: The requests; an image without a hash is hashed here.
        store: Where answers are kept, or None to keep none.
        batch_size: Requests a batch; by default the model's own `batch_size` if it has one, or else 8.
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
    given_up: str | None = None
    with track(what, len(requests), done=done, stored=from_store) as task:
        for start in range(0, len(wanted), size):
            keys = wanted[start : start + size]
            if given_up is None:
                batch = [distinct[key] for key in keys]
                fresh = model.answer(batch)
                if len(fresh) != len(batch):
                    raise ModelError(f"The model gave {len(fresh)} answers to {len(batch)} requests.")
                if store is not None:
                    store.put(identity, [(q, r) for q, r in zip(batch, fresh, strict=True) if isinstance(r, Answer)])
                given_up = _hopeless(fresh)
            else:
                reason = f"not asked because the whole batch before it failed: {given_up}"
                fresh = [Failure(reason, retryable=True)] * len(keys)
            replies.update(zip(keys, fresh, strict=True))
            task.advance(sum(len(places[key]) for key in keys))

    result: dict[int, Reply] = {}
    for key, indices in places.items():
        reply = replies[key]
        # A copy costs nothing, as an answer out of the store costs nothing: both are marked the same way.
        copy = replace(reply, cached=True) if isinstance(reply, Answer) else reply
        result.update(dict.fromkeys(indices[1:], copy))
        result[indices[0]] = reply
    return [result[index] for index in range(len(requests))]


def _hopeless(replies: Sequence[Reply]) -> str | None:
    """Returns why a whole batch failed, if that may pass but did not in time; None if any was answered."""
    if len(replies) < 2:
        return None
    reasons = [reply.reason for reply in replies if isinstance(reply, Failure) and reply.retryable]
    return reasons[0] if len(reasons) == len(replies) else None
