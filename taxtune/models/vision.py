"""Vision-language models that run here: any image-text-to-text checkpoint of Hugging Face transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from taxtune.data.images import load_image
from taxtune.errors import ImageError, ModelError
from taxtune.models.base import Identity, Request
from taxtune.models.local import LocalModel, Unanswerable

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["LocalVLM"]


class LocalVLM(LocalModel):
    """A vision-language model that runs in this process.

    The image comes before the prompt. A chat template that allows no system turn beside an image (Llama 3.2's) gets the
    system prompt at the head of the user turn. A prompt that holds one of the model's control tokens, and an image that
    cannot be read or that the processor refuses, fails alone.
    """

    task = "image-text-to-text"

    @property
    def identity(self) -> Identity:
        """Everything that can change an answer; see `LocalModel.identity`."""
        import transformers

        # Processors resize otherwise with torchvision than without.
        return {**super().identity, "torchvision": str(transformers.utils.is_torchvision_available())}

    def _decoding(self) -> Identity:
        return {
            "max_new_tokens": self.settings.max_tokens,
            "temperature": self.temperature,
            "seed": self.settings.seed if self.temperature > 0 else None,
            "system_prompt": self.settings.system_prompt,
        }

    def _load_processor(self) -> Any:
        from transformers import AutoProcessor

        name = self.checkpoint.name
        try:
            processor = AutoProcessor.from_pretrained(self.checkpoint.source, revision=self.checkpoint.load_revision)
        except Exception as error:
            raise self._cannot_load(error, "processor") from error
        tokenizer = getattr(processor, "tokenizer", None)
        if tokenizer is None:
            raise ModelError(f"The checkpoint {name!r} has no processor for images and text.")
        if not (getattr(processor, "chat_template", None) or getattr(tokenizer, "chat_template", None)):
            raise ModelError(
                f"The checkpoint {name!r} has no chat template, so it is not made for answering questions.",
                remedy="Use the model's instruction-tuned checkpoint (often named ...-Instruct, ...-it or ...-hf).",
            )
        return processor

    def _family(self) -> Any:
        from transformers import AutoModelForImageTextToText

        return AutoModelForImageTextToText

    def _prepare(self, request: Request) -> tuple[str, Image.Image]:
        if request.image is None:
            raise Unanswerable(f"{self.checkpoint.name} answers questions about images, but the request has no image.")
        try:
            image = load_image(request.image, max_pixels=self.settings.max_pixels, sha256=request.image_sha256 or None)
        except ImageError as error:
            raise Unanswerable(str(error)) from error
        held = next((token for token in self._control_tokens if token in request.prompt), None)
        if held is not None:
            raise Unanswerable(f"The prompt contains the model's control token {held!r}.")
        return self._chat(request.prompt), image

    def _length(self, prepared: tuple[str, Image.Image]) -> int:
        return len(prepared[0])

    def _collate(self, prepared: Sequence[tuple[str, Image.Image]]) -> Any:
        import torch

        texts = [text for text, _ in prepared]
        bos = self._tokenizer.bos_token
        # A template that writes the start token itself must not get a second one.
        starts = bool(bos) and texts[0].startswith(bos)
        inputs = self._processor(
            images=[[image] for _, image in prepared],
            text=texts,
            padding=True,
            padding_side="left",
            add_special_tokens=not starts,
            return_tensors="pt",
        )
        return inputs.to(self.device, dtype=getattr(torch, self.dtype))

    def _chat(self, prompt: str) -> str:
        """Puts a prompt into the checkpoint's chat template, after the image."""
        template = getattr(self._processor, "chat_template", None) or self._tokenizer.chat_template
        system_prompt = self.settings.system_prompt
        if system_prompt is None:
            return self._render([_user(prompt)], template)
        system = {"role": "system", "content": [{"type": "text", "text": system_prompt}]}
        try:
            return self._render([system, _user(prompt)], template)
        except Exception:
            return self._render([_user(f"{system_prompt}\n\n{prompt}")], template)


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": text}]}
