"""Vision-language models that run here: any image-text-to-text checkpoint of Hugging Face transformers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from taxtune.data.images import DEFAULT_MAX_PIXELS, load_image
from taxtune.errors import ImageError, VLMError
from taxtune.hardware import is_out_of_memory
from taxtune.vlm.base import Answer, Failure, Identity, Question, Reply
from taxtune.vlm.local_model import LocalModel

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["LocalVLM"]


class LocalVLM(LocalModel):
    """A vision-language model that runs in this process.

    The checkpoint's own processor and chat template make the model's input, one user turn of the image and the prompt,
    padded on the left. The model is loaded at the first question, not before.

    Args:
        model: A Hugging Face name ("meta-llama/Llama-3.2-11B-Vision-Instruct"), a folder, or "builtin:fieldguide".
        revision: Branch, tag or commit of a Hugging Face name. The commit it stands for goes into the identity.
        dtype: "float32", "bfloat16", "float16" or "auto": on CUDA bfloat16 where the card computes in it and float16
            elsewhere, on Apple's MPS float16, on a CPU float32 (where bfloat16 is often slower than it is small).
        device: "cpu", "cuda", "cuda:1", "mps" or "auto": the first CUDA card, else MPS, else the CPU.
        batch_size: Questions computed at a time, at least 1. Where the device runs out of memory it is halved.
        max_new_tokens: Longest answer, in tokens; at least 1.
        temperature: 0 for greedy decoding, or a positive sampling temperature.
        system_prompt: A system turn before the question. A chat template that allows none beside an image (Llama 3.2's)
            gets it at the head of the user turn.
        seed: Seed of the sampling; without effect at temperature 0.
        max_pixels: Largest width times height of an image.

    Raises:
        VLMError: If an argument is out of range.
    """

    error = VLMError
    task = "image-text-to-text"
    item = "question"

    def __init__(
        self,
        model: str,
        *,
        revision: str | None = None,
        dtype: str = "auto",
        device: str = "auto",
        batch_size: int = 8,
        max_new_tokens: int = 64,
        temperature: float = 0.0,
        system_prompt: str | None = None,
        seed: int = 0,
        max_pixels: int = DEFAULT_MAX_PIXELS,
    ) -> None:
        for name, value in (("batch_size", batch_size), ("max_new_tokens", max_new_tokens)):
            if value < 1:
                raise VLMError(f"{name} must be at least 1.", value=value)
        if not 0 <= temperature <= 10:
            raise VLMError("temperature must lie between 0 (greedy) and 10.", value=temperature)
        super().__init__(
            model,
            revision=revision,
            dtype=dtype,
            device=device,
            batch_size=batch_size,
            max_new_tokens=max_new_tokens,
            temperature=float(temperature),
        )
        self.system_prompt = system_prompt
        self.seed = seed
        self.max_pixels = max_pixels

    @property
    def identity(self) -> Identity:
        """Everything that can change an answer.

        Raises:
            VLMError: If the checkpoint or the device is not there.
        """
        import transformers

        return {
            "kind": "local",
            "model": self.checkpoint.name,
            "revision": self.checkpoint.revision,
            "dtype": self.dtype,
            "device": self.device.split(":")[0],
            "max_new_tokens": self.max_new_tokens,
            "temperature": self.temperature,
            "seed": self.seed if self.temperature > 0 else None,
            "system_prompt": self.system_prompt,
            # Processors change between releases, seldom within one, and resize otherwise with torchvision than without.
            "transformers": ".".join(transformers.__version__.split(".")[:2]),
            "torchvision": str(transformers.utils.is_torchvision_available()),
        }

    # -- loading -------------------------------------------------------------------------------------------------------

    @cached_property
    def _processor(self) -> Any:
        from transformers import AutoProcessor

        try:
            processor = AutoProcessor.from_pretrained(self.checkpoint.source, revision=self.checkpoint.load_revision)
        except Exception as error:
            raise self._cannot_load(error, "processor") from error
        tokenizer = getattr(processor, "tokenizer", None)
        if tokenizer is None:
            raise VLMError(f"The checkpoint {self.checkpoint.name!r} has no processor for images and text.")
        if not (getattr(processor, "chat_template", None) or getattr(tokenizer, "chat_template", None)):
            raise VLMError(
                f"The checkpoint {self.checkpoint.name!r} has no chat template; it is not made to be asked questions.",
                remedy="Use the model's instruction-tuned checkpoint (often named ...-Instruct, ...-it or ...-hf).",
            )
        self._padded_left(tokenizer)
        return processor

    @property
    def _tokenizer(self) -> Any:
        return self._processor.tokenizer

    def _family(self) -> Any:
        from transformers import AutoModelForImageTextToText

        return AutoModelForImageTextToText

    @cached_property
    def _control_tokens(self) -> tuple[str, ...]:
        """Texts that the tokenizer reads as control tokens, the longest first."""
        tokenizer = self._processor.tokenizer
        tokens = {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
        tokens |= {*tokenizer.all_special_tokens, getattr(self._processor, "image_token", None) or ""}
        return tuple(sorted(filter(None, map(str, tokens)), key=lambda token: (-len(token), token)))

    # -- answering -----------------------------------------------------------------------------------------------------

    def answer(self, questions: Sequence[Question]) -> list[Reply]:
        """Answers questions, in the same order and number.

        A question whose image cannot be read any more, or that the processor refuses, comes back as a failure.

        Raises:
            VLMError: If the model cannot be loaded, or one question alone does not fit into the device's memory.
        """
        return self._in_batches(questions, self._answer_batch)

    def _answer_batch(self, questions: Sequence[Question]) -> list[Reply]:
        started = time.perf_counter()
        replies: list[Reply | None] = [None] * len(questions)
        ready: list[tuple[int, Question, Image.Image]] = []
        for place, question in enumerate(questions):
            try:
                image = load_image(question.image, max_pixels=self.max_pixels, sha256=question.image_sha256 or None)
            except ImageError as error:
                replies[place] = Failure(str(error), retryable=False)
            else:
                ready.append((place, question, image))
        if ready:
            batch = self._encode(ready, replies)
            if batch is not None:
                places, inputs = batch
                answers = self._answers(inputs, [questions[place] for place in places])
                seconds = (time.perf_counter() - started) / len(answers)
                for place, (text, read, written) in zip(places, answers, strict=True):
                    replies[place] = Answer(text, False, read, written, 0.0, seconds)
        return [reply if reply is not None else Failure("no reply", retryable=True) for reply in replies]

    def _encode(
        self, ready: list[tuple[int, Question, Image.Image]], replies: list[Reply | None]
    ) -> tuple[list[int], Any] | None:
        """Makes the model's input; questions that the processor refuses become failures in `replies`."""
        try:
            return [place for place, _, _ in ready], self._process([(q.prompt, image) for _, q, image in ready])
        except VLMError:
            raise
        except Exception as error:
            if is_out_of_memory(error):
                raise
            good: list[tuple[int, Question, Image.Image]] = []
            for place, question, image in ready:
                try:
                    self._process([(question.prompt, image)])
                except Exception as problem:
                    detail = " ".join(str(problem).split())
                    replies[place] = Failure(
                        f"{question.image}: the model's processor refused the image or the prompt: {detail}",
                        retryable=False,
                    )
                else:
                    good.append((place, question, image))
            if len(good) == len(ready):
                raise  # each goes alone but not together: that is no fault of a question
            if not good:
                return None
            return [place for place, _, _ in good], self._process([(q.prompt, image) for _, q, image in good])

    def _process(self, pairs: Sequence[tuple[str, Image.Image]]) -> Any:
        """Turns prompts and images into one batch of tensors on the model's device."""
        import torch

        processor = self._processor
        texts = [self._chat(prompt) for prompt, _ in pairs]
        bos = processor.tokenizer.bos_token
        # A template that writes the start token itself must not get a second one.
        starts = bool(bos) and texts[0].startswith(bos)
        inputs = processor(
            images=[[image] for _, image in pairs],
            text=texts,
            padding=True,
            padding_side="left",
            add_special_tokens=not starts,
            return_tensors="pt",
        )
        return inputs.to(self.device, dtype=getattr(torch, self.dtype))

    def _chat(self, prompt: str) -> str:
        """Puts a prompt into the checkpoint's chat template, after the image.

        Raises:
            ValueError: If the prompt holds one of the model's control tokens, which would be read as one.
        """
        held = next((token for token in self._control_tokens if token in prompt), None)
        if held is not None:
            raise ValueError(f"the prompt holds the model's control token {held!r}")
        user = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": prompt}]}
        if self.system_prompt is None:
            return self._render([user])
        system = {"role": "system", "content": [{"type": "text", "text": self.system_prompt}]}
        try:
            return self._render([system, user])
        except Exception:
            joined = f"{self.system_prompt}\n\n{prompt}"
            return self._render([{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": joined}]}])

    def _render(self, messages: list[dict[str, Any]]) -> str:
        processor = self._processor
        template = getattr(processor, "chat_template", None) or processor.tokenizer.chat_template
        extra = self._template_settings(template)
        return str(
            processor.apply_chat_template(
                messages, chat_template=template, add_generation_prompt=True, tokenize=False, **extra
            )
        )

    def _answers(self, inputs: Any, questions: Sequence[Question]) -> list[tuple[str, int, int]]:
        """Returns text, tokens read and tokens written of each row."""
        import torch

        devices = [torch.device(self.device)] if self.device.startswith("cuda") else []
        with torch.random.fork_rng(devices, enabled=self.temperature > 0):
            if self.temperature > 0:
                torch.manual_seed(self._batch_seed(questions))
            output = self._generate(**inputs)
        read = inputs["attention_mask"].sum(dim=1).tolist()
        written = self._written(output[:, inputs["input_ids"].shape[1] :])
        return [(text, int(n), new) for (text, new), n in zip(written, read, strict=True)]

    def _batch_seed(self, questions: Sequence[Question]) -> int:
        """A seed that depends on the questions, so that a run draws the same after a restart with the same batches."""
        text = "\0".join(f"{q.prompt}\0{q.image_sha256}" for q in questions)
        return int.from_bytes(sha256(f"{self.seed}\0{text}".encode("utf-8", "surrogatepass")).digest()[:7], "big")
