"""Language models that run here: any causal or encoder-decoder language model of Hugging Face transformers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from taxtune.loading import explain_load_error
from taxtune.models.base import Answer, Failure, Identity, Reply, Request, well_formed
from taxtune.models.local import LocalModel, Unanswerable

__all__ = ["LocalLLM"]


class LocalLLM(LocalModel):
    """A language model that runs in this process.

    A checkpoint without a chat template (Flan-T5) gets the prompt as it stands. A prompt that is longer than the model
    reads fails; it is not cut. What a prompt holds of the model's control tokens is text like any other: an answer that
    is judged must not be able to end the judge's turn.
    """

    task = "text-generation"

    def _decoding(self) -> Identity:
        settings = self.settings
        decoding: dict[str, str | int | float | None] = {"max_tokens": settings.max_tokens}
        if self.temperature > 0:
            decoding |= {"temperature": self.temperature, "seed": settings.seed}
        return decoding

    def _load_processor(self) -> Any:
        from transformers import AutoTokenizer

        try:
            return AutoTokenizer.from_pretrained(self.checkpoint.source, **self.checkpoint.arguments)
        except Exception as error:
            raise explain_load_error(self.checkpoint.name, error, "tokenizer") from error

    def _family(self) -> Any:
        import transformers

        if getattr(self.checkpoint.config, "is_encoder_decoder", False):
            return transformers.AutoModelForSeq2SeqLM
        return transformers.AutoModelForCausalLM

    @cached_property
    def _room(self) -> int | None:
        """Most tokens of a prompt, or None where the model has no limit."""
        config = self.checkpoint.config
        if getattr(config, "is_encoder_decoder", False):
            return None  # T5's positions are relative; what it was trained with is no limit
        most = getattr(config, "max_position_embeddings", None)
        return None if most is None else int(most) - self.settings.max_tokens

    def _prepare(self, request: Request) -> list[int]:
        name = self.checkpoint.name
        if request.image is not None:
            raise Unanswerable(f"{request.image}: {name} takes only text, not images.")
        tokens = self._tokens(request.prompt)
        if self._room is not None and len(tokens) > self._room:
            raise Unanswerable(
                f"The prompt has {len(tokens):,} tokens; {name} has room for {self._room:,} besides its answer."
            )
        return tokens

    def _tokens(self, prompt: str) -> list[int]:
        """Returns a prompt in the checkpoint's chat template as tokens."""
        tokenizer = self._tokenizer
        prompt = well_formed(prompt)
        for token in self._control_tokens:
            if len(token) > 1:
                prompt = prompt.replace(token, f"{token[0]} {token[1:]}")
        template = tokenizer.chat_template
        if not template:
            return list(tokenizer(prompt)["input_ids"])
        messages = [{"role": "user", "content": prompt}]
        return list(tokenizer(self._render(messages, template), add_special_tokens=False)["input_ids"])

    def _length(self, prepared: list[int]) -> int:
        return len(prepared)

    def _collate(self, prepared: Sequence[list[int]]) -> Any:
        inputs = self._tokenizer.pad({"input_ids": list(prepared)}, padding=True, return_tensors="pt").to(self.device)
        return {name: inputs[name] for name in ("input_ids", "attention_mask")}

    def _finish(self, answer: Answer) -> Reply:
        if not answer.text:
            return Failure(f"The model {self.checkpoint.name!r} gave an empty answer.", retryable=False)
        return answer
