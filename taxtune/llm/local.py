"""Text models that run here: any causal or encoder-decoder language model of Hugging Face transformers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any, TypeVar

from taxtune.errors import ModelError, VLMError
from taxtune.llm.base import LLMSettings
from taxtune.vlm.base import Answer, Failure, Identity, Reply
from taxtune.vlm.checkpoint import Checkpoint, explain_load_error, find_checkpoint, quiet_progress
from taxtune.vlm.hardware import find_device, in_shrinking_batches, is_out_of_memory, number_format

__all__ = ["LocalLLM"]

T = TypeVar("T")
_DTYPES = ("auto", "float32", "bfloat16", "float16")
# Some chat templates print today's date, which would give the same prompt another reply every day.
_DATE = "26 Jul 2024"


class LocalLLM:
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

    def __init__(self, model: str, settings: LLMSettings) -> None:
        if settings.dtype not in _DTYPES:
            raise ModelError(
                "There is no such dtype.", value=settings.dtype, remedy=f"Use one of {', '.join(_DTYPES)}."
            )
        for name in ("batch_size", "max_tokens"):
            if getattr(settings, name) < 1:
                raise ModelError(f"{name} must be at least 1.", value=getattr(settings, name))
        self.model = model
        self.batch_size = settings.batch_size
        self._settings = settings

    def __repr__(self) -> str:
        return f"LocalLLM({self.model!r})"

    # -- what it is, known without loading the weights -----------------------------------------------------------------

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """Where the model is and which revision of it; found without loading the weights.

        Raises:
            ModelError: If it is missing, needs a licence to be accepted, or is no language model.
        """
        return _with_model_errors(lambda: find_checkpoint(self.model, self._settings.revision, task="text"))

    @cached_property
    def device(self) -> str:
        """The device that the model runs on."""
        return find_device(self._settings.device, ModelError)

    @cached_property
    def dtype(self) -> str:
        """The number format that the model computes in."""
        return number_format(self._settings.dtype, self.device)

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
            "max_tokens": self._settings.max_tokens,
            "transformers": ".".join(transformers.__version__.split(".")[:2]),
        }

    def check(self) -> list[str]:
        """Checks, without loading the weights, that the model can be loaded; returns what the user should know.

        Raises:
            ModelError: If it cannot.
        """
        checkpoint, device = self.checkpoint, self.device
        notes = [] if checkpoint.complete else [f"The weights of {checkpoint.name} will be downloaded first."]
        if device == "cpu" and checkpoint.weight_bytes > 8 * 1024**3:
            size = checkpoint.weight_bytes / 1024**3
            notes.append(f"{checkpoint.name} has {size:.0f} GiB of weights and will run on the CPU, very slowly.")
        return notes

    # -- loading -------------------------------------------------------------------------------------------------------

    @cached_property
    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        where = self.checkpoint
        try:
            tokenizer = AutoTokenizer.from_pretrained(where.source, revision=where.load_revision or "main")
        except Exception as error:
            raise _model_error(explain_load_error(where.name, error, "tokenizer")) from error
        tokenizer.padding_side = "left"
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        return tokenizer

    @cached_property
    def _control_tokens(self) -> tuple[str, ...]:
        """Texts that the tokenizer reads as control tokens, the longest first."""
        tokenizer = self._tokenizer
        tokens = {str(token.content) for token in tokenizer.added_tokens_decoder.values() if token.special}
        tokens |= set(map(str, tokenizer.all_special_tokens))
        return tuple(sorted((token for token in tokens if len(token) > 1), key=lambda token: (-len(token), token)))

    @cached_property
    def _network(self) -> Any:
        import torch
        import transformers

        where = self.checkpoint
        # The bar of a download is worth seeing; that of reading the weights off the disk spoils our own.
        quiet = quiet_progress() if where.complete else nullcontext()
        try:
            config = transformers.AutoConfig.from_pretrained(where.source, revision=where.load_revision or "main")
            classes = transformers.AutoModelForSeq2SeqLM, transformers.AutoModelForCausalLM
            family = classes[0] if getattr(config, "is_encoder_decoder", False) else classes[1]
            with quiet:
                network = family.from_pretrained(
                    where.source, revision=where.load_revision or "main", dtype=getattr(torch, self.dtype)
                )
            return network.to(self.device).eval()
        except Exception as error:
            if is_out_of_memory(error):
                raise self._too_big() from error
            raise _model_error(explain_load_error(where.name, error, "weights")) from error

    @cached_property
    def _generation(self) -> Any:
        """The checkpoint's own ends and control tokens, with greedy decoding."""
        from copy import deepcopy

        config = deepcopy(self._network.generation_config)
        config.max_new_tokens, config.max_length = self._settings.max_tokens, None
        config.do_sample, config.temperature, config.top_p, config.top_k = False, None, None, None
        if config.pad_token_id is None:
            config.pad_token_id = self._tokenizer.pad_token_id
        if config.eos_token_id is None:
            config.eos_token_id = self._tokenizer.eos_token_id
        return config

    @cached_property
    def _room(self) -> int | None:
        """Most tokens of a prompt, or None where the model has no limit."""
        config = self._network.config
        if getattr(config, "is_encoder_decoder", False):
            return None  # T5's positions are relative; what it was trained with is no limit
        most = getattr(config, "max_position_embeddings", None)
        return None if most is None else int(most) - self._settings.max_tokens

    # -- replying ------------------------------------------------------------------------------------------------------

    def reply(self, prompts: Sequence[str]) -> list[Reply]:
        """Replies to prompts, in the same order and number.

        A prompt that is longer than the model can read comes back as a failure; it is not cut.

        Raises:
            ModelError: If the model cannot be loaded, or one prompt alone does not fit into the device's memory.
        """
        replies, self.batch_size = in_shrinking_batches(
            prompts, self.batch_size, self._reply_chunk, device=self.device, too_big=self._too_big
        )
        return replies

    def _reply_chunk(self, prompts: Sequence[str]) -> list[Reply] | None:
        """Replies to one batch; None if the device ran out of memory."""
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
            texts = self._generate([tokens for _, tokens in ready])
            if texts is None:
                return None
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
        extra = {"date_string": _DATE} if "date_string" in str(template) else {}
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False, **extra
        )
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    def _generate(self, rows: Sequence[list[int]]) -> list[tuple[str, int]] | None:
        """Returns text and number of tokens of each reply; None if the device ran out of memory."""
        import torch

        config, network = self._generation, self._network
        inputs = self._tokenizer.pad({"input_ids": list(rows)}, padding=True, return_tensors="pt").to(self.device)
        try:
            with torch.inference_mode():
                output = network.generate(
                    input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], generation_config=config
                )
        except Exception as error:
            if is_out_of_memory(error):
                return None
            raise ModelError(f"The model {self.checkpoint.name!r} failed while it generated: {error}") from error
        decoder_only = not getattr(network.config, "is_encoder_decoder", False)
        new = output[:, inputs["input_ids"].shape[1] if decoder_only else 1 :].tolist()
        ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
        # Rows that ended early are filled up to the longest; what follows the end is no token that was written.
        written = [row[: next((i + 1 for i, token in enumerate(row) if token in ends), len(row))] for row in new]
        texts = self._tokenizer.batch_decode(written, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return [(text.strip(), len(row)) for text, row in zip(texts, written, strict=True)]

    def _too_big(self) -> ModelError:
        return ModelError(
            f"The model {self.checkpoint.name!r} does not fit into the memory of the device {self.device!r}.",
            remedy="Use a smaller model, dtype bfloat16, or another device.",
        )


def _with_model_errors(step: Callable[[], T]) -> T:
    try:
        return step()
    except VLMError as error:
        raise _model_error(error) from error.__cause__


def _model_error(error: VLMError) -> ModelError:
    """Says of a text model what is said of a vision-language model that cannot be loaded."""
    return ModelError(error.message, file=error.file, row=error.row, value=error.value, remedy=error.remedy)
