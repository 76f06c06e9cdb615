"""Asking: the answer store first, then the model, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from taxtune.errors import VLMError
from taxtune.vlm.answers import AnswerStore
from taxtune.vlm.base import VLM, Answer, Failure, Question, Reply

__all__ = ["ask"]

_DEFAULT_BATCH = 8


def ask(
    vlm: VLM,
    questions: Sequence[Question],
    store: AnswerStore | None,
    *,
    batch_size: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Reply]:
    """Answers questions, asking the model only what the store does not know.

    A question that occurs several times is asked once; its copies come back marked as cached. Each batch is written to
    the store before the next is asked, so that whatever ends the run, only the batch in flight is lost. Failures are
    never stored.

    When every question of a batch fails for a reason that may pass (a rate limit, a server that is down), the model has
    retried them all already; the questions left over are then not asked but come back as failures that say so.

    Args:
        vlm: The model.
        questions: The questions.
        store: Where answers are kept, or None to keep none.
        batch_size: Questions a batch; by default the model's own `batch_size` if it has one, or else 8.
        on_progress: Called at the start and after every batch with the number of questions that are done, and how many
            of these came from the store.

    Returns:
        An answer or a failure for each question, in order.

    Raises:
        VLMError: If the model cannot answer at all.
        DataError: If the store cannot be read or written.
    """
    size = batch_size if batch_size is not None else int(getattr(vlm, "batch_size", _DEFAULT_BATCH))
    if size < 1:
        raise VLMError("A batch needs at least one question.", value=size, remedy="Set the batch size to 1 or more.")
    # The prompt and the content decide, not the file: two copies of an image are the same question.
    places: dict[tuple[str, str], list[int]] = {}
    for index, question in enumerate(questions):
        places.setdefault((question.prompt, question.image_sha256), []).append(index)
    distinct = [questions[indices[0]] for indices in places.values()]

    replies: dict[tuple[str, str], Reply] = {}
    identity = dict(vlm.identity)
    if store is not None:
        for question, stored in zip(distinct, store.get(identity, distinct), strict=True):
            if stored is not None:
                replies[question.prompt, question.image_sha256] = stored
    from_store = sum(len(places[key]) for key in replies)
    done = from_store
    if on_progress is not None:
        on_progress(done, from_store)

    open_questions = [q for q in distinct if (q.prompt, q.image_sha256) not in replies]
    given_up: str | None = None
    for start in range(0, len(open_questions), size):
        batch = open_questions[start : start + size]
        if given_up is None:
            fresh = vlm.answer(batch)
            if len(fresh) != len(batch):
                raise VLMError(f"The model gave {len(fresh)} answers to {len(batch)} questions.")
            if store is not None:
                pairs = [(q, r) for q, r in zip(batch, fresh, strict=True) if isinstance(r, Answer)]
                store.put(identity, pairs)
            given_up = _hopeless(fresh)
        else:
            fresh = [Failure(f"not asked, since a whole batch before it failed: {given_up}", retryable=True)] * len(
                batch
            )
        for question, reply in zip(batch, fresh, strict=True):
            key = (question.prompt, question.image_sha256)
            replies[key] = reply
            done += len(places[key])
        if on_progress is not None:
            on_progress(done, from_store)

    result: list[Reply] = []
    seen: set[tuple[str, str]] = set()
    for question in questions:
        key = (question.prompt, question.image_sha256)
        reply = replies[key]
        # A copy costs nothing, as an answer out of the store costs nothing: both are marked the same way.
        result.append(replace(reply, cached=True) if key in seen and isinstance(reply, Answer) else reply)
        seen.add(key)
    return result


def _hopeless(replies: Sequence[Reply]) -> str | None:
    """Returns why a whole batch failed, if that may pass but did not in time; None if any was answered."""
    if len(replies) < 2:
        return None
    reasons = [reply.reason for reply in replies if isinstance(reply, Failure) and reply.retryable]
    return reasons[0] if len(reasons) == len(replies) else None
