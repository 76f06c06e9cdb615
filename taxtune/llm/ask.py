"""Asking a text model: the replies on disk first, then the model, batch by batch.

Replies are kept as a VLM's answers are, by the same store (`taxtune.vlm.answers`) and the same order of work
(`taxtune.vlm.ask`): a prompt that occurs several times is asked once, only real replies are kept, and a model of which
a whole batch fails is not asked on and on. A prompt without an image is a question about no image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from taxtune.llm.base import LLM
from taxtune.vlm.answers import AnswerStore
from taxtune.vlm.ask import ask
from taxtune.vlm.base import Identity, Question, Reply

__all__ = ["ask_llm", "reply_store"]

_NO_IMAGE = Path()


class _AsVLM:
    """A text model in the form of a vision-language model that looks at nothing."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm
        self.batch_size = llm.batch_size

    @property
    def identity(self) -> Identity:
        # Text and image models of one name must not take each other's answers.
        return {**self._llm.identity, "asked": "text"}

    def answer(self, questions: Sequence[Question]) -> list[Reply]:
        return self._llm.reply([question.prompt for question in questions])


def reply_store(cache_dir: Path | None) -> AnswerStore:
    """Opens the file of replies in a folder; None is the user's cache folder.

    Raises:
        DataError: If the file cannot be opened.
    """
    if cache_dir is None:
        from platformdirs import user_cache_path

        cache_dir = user_cache_path("taxtune")
    return AnswerStore(cache_dir / "replies.db")


def ask_llm(
    llm: LLM,
    prompts: Sequence[str],
    store: AnswerStore | None,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Reply]:
    """Returns a text model's replies, or failures, to prompts, in order.

    Args:
        llm: The model.
        prompts: The prompts.
        store: Where replies are kept, or None to keep none.
        on_progress: Called after every batch with how many prompts are done and how many of them came from the store.

    Raises:
        ModelError: If the model cannot reply at all.
        DataError: If the store cannot be read or written.
    """
    questions = [Question(prompt, _NO_IMAGE, "") for prompt in prompts]
    return ask(_AsVLM(llm), questions, store, on_progress=on_progress)
