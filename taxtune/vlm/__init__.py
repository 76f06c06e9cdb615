"""Vision-language models: image and prompt in, answer out."""

from __future__ import annotations

from taxtune.vlm.base import VLM, Answer, Failure, Identity, Question, Reply

__all__ = ["VLM", "Answer", "Failure", "Identity", "Question", "Reply"]
