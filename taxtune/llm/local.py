"""Text models that run here: any causal or encoder-decoder language model of Hugging Face transformers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from taxtune.errors import ModelError
from taxtune.llm.base import LLMSettings
from taxtune.vlm.base import Answer, Failure, Identity, Reply
from taxtune.vlm.local_model import LocalModel

__all__ = ["LocalLLM"]


class LocalLLM(LocalModel):
    """A language model that runs in this process and decodes greedily.

    A prompt is one user turn in the checkpoint's own chat template; a checkpoint without one (Flan-T5) gets the prompt
    as it stands. Prompts are padded on the left, so that a batch replies as each prompt alone does. The model is loaded
    at the first prompt, not before.

    Args:
        model: A Hugging Face name ("meta-llama/Llama-3.2-3B-Instruct") or a folder.
        settings: How it is run.

    Raises:
        ModelError: If a setting is out of range.
    """

    error = ModelError
    task = "text"
    item = "prompt"

    def __init__(self, model: str, settings: LLMSettings) -> None:
        for name in ("batch_size", "max_tokens"):
            if getattr(settings, name) < 1:
                raise ModelError(f"{name} must be at least 1.", value=getattr(settings, name))
        super().__init__(
            model,
            revision=settings.revision,
            dtype=settings.dtype,
            device=settings.device,
            batch_size=settings.batch_size,
            max_new_tokens=settings.max_tokens,
        )

    def __repr__(self) -> str:
        return f"LocalLLM({self.model!r})"

    @property
    def identity(self) -> Identity:
        """Everything that can change a reply."""
        import transformers

        return {
            "kind": "local",
            "model": self.checkpoint.name,
            "revision": self.checkpoint.revision,
            "dtype": self.dtype,
            "device": self.device.split(":")[0],
            "max_tokens": self.max_new_tokens,
            "transformers": ".".join(transformers.__version__.split(".")[:2]),
        }

    # -- loading -------------------------------------------------------------------------------------------------------

    @cached_property
    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        where = self.checkpoint
        try:
            tokenizer = AutoTokenizer.from_pretrained(where.source, revision=where.load_revision or "main")
        except Exception as error:
            raise self._cannot_load(error, "tokenizer") from error
        self._padded_left(tokenizer)
        return tokenizer

    @cached_property
    def _control_tokens(self) -> tuple[str, ...]:
        """Texts that the tokenizer reads as control tokens, the longest first."""
        tokenizer = self._tokenizer
        tokens = {str(token.content) for token in tokenizer.added_tokens_decoder.values() if token.special}
        tokens |= set(map(str, tokenizer.all_special_tokens))
        return tuple(sorted((token for token in tokens if len(token) > 1), key=lambda token: (-len(token), token)))

    def _family(self) -> Any:
        import transformers

        where = self.checkpoint
        config = transformers.AutoConfig.from_pretrained(where.source, revision=where.load_revision or "main")
        if getattr(config, "is_encoder_decoder", False):
            return transformers.AutoModelForSeq2SeqLM
        return transformers.AutoModelForCausalLM

    @cached_property
    def _room(self) -> int | None:
        """Most tokens of a prompt, or None where the model has no limit."""
        config = self._network.config
        if getattr(config, "is_encoder_decoder", False):
            return None  # T5's positions are relative; what it was trained with is no limit
        most = getattr(config, "max_position_embeddings", None)
        return None if most is None else int(most) - self.max_new_tokens

    # -- replying ------------------------------------------------------------------------------------------------------

    def reply(self, prompts: Sequence[str]) -> list[Reply]:
        """Replies to prompts, in the same order and number.

        A prompt that is longer than the model can read comes back as a failure; it is not cut.

        Raises:
            ModelError: If the model cannot be loaded, or one prompt alone does not fit into the device's memory.
        """
        return self._in_batches(prompts, self._reply_batch)

    def _reply_batch(self, prompts: Sequence[str]) -> list[Reply]:
        started = time.perf_counter()
        replies: dict[int, Reply] = {}
        ready: list[tuple[int, list[int]]] = []
        for place, prompt in enumerate(prompts):
            tokens = self._tokens(prompt)
            if self._room is not None and len(tokens) > self._room:
                name, most = self.checkpoint.name, f"{self._room:,} beside its reply"
                replies[place] = Failure(
                    f"The prompt has {len(tokens):,} tokens; {name} reads {most}.", retryable=False
                )
            else:
                ready.append((place, tokens))
        if ready:
            texts = self._replies([tokens for _, tokens in ready])
            seconds = (time.perf_counter() - started) / len(ready)
            for (place, tokens), (text, written) in zip(ready, texts, strict=True):
                replies[place] = (
                    Answer(text, False, len(tokens), written, 0.0, seconds)
                    if text
                    else Failure(f"The model {self.checkpoint.name!r} gave an empty reply.", retryable=False)
                )
        return [replies[place] for place in range(len(prompts))]

    def _tokens(self, prompt: str) -> list[int]:
        """Returns a prompt in the checkpoint's chat template as tokens.

        What the prompt holds of the model's control tokens is text like any other: an answer that is judged must not
        be able to end the judge's turn.
        """
        tokenizer = self._tokenizer
        prompt = prompt.encode("utf-8", "replace").decode("utf-8")
        for token in self._control_tokens:
            prompt = prompt.replace(token, f"{token[0]} {token[1:]}")
        template = tokenizer.chat_template
        if not template:
            return list(tokenizer(prompt)["input_ids"])
        extra = self._template_settings(template)
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False, **extra
        )
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    def _replies(self, rows: Sequence[list[int]]) -> list[tuple[str, int]]:
        """Returns text and number of tokens of each reply."""
        inputs = self._tokenizer.pad({"input_ids": list(rows)}, padding=True, return_tensors="pt").to(self.device)
        output = self._generate(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
        # What a decoder alone returns begins with the prompt, what an encoder-decoder does with a token to start from.
        decoder_only = not getattr(self._network.config, "is_encoder_decoder", False)
        return self._written(output[:, inputs["input_ids"].shape[1] if decoder_only else 1 :])
