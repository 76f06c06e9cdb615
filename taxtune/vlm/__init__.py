"""Vision-language models: image and prompt in, answer out."""

from __future__ import annotations

from taxtune.vlm.answers import AnswerStore
from taxtune.vlm.ask import ask
from taxtune.vlm.base import VLM, Answer, Failure, Identity, Question, Reply

__all__ = ["VLM", "Answer", "AnswerStore", "Failure", "Identity", "Question", "Reply", "ask"]
