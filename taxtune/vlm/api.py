"""Vision-language models behind an API: any model with image input that litellm reaches."""

from __future__ import annotations

import base64
import io
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from taxtune.data.images import DEFAULT_MAX_PIXELS, load_image
from taxtune.errors import ImageError, VLMError
from taxtune.vlm.api_calls import Effort, Patience, side_by_side
from taxtune.vlm.api_errors import load_litellm, without_credentials
from taxtune.vlm.api_model import ApiModel
from taxtune.vlm.base import Failure, Identity, Question, Reply

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["ApiVLM", "data_url"]

# Up to so many pixels an image is sent without loss; a JPEG of a thumbnail would save little and blur much.
_LOSSLESS_PIXELS = 256 * 256
_JPEG_QUALITY = 92


class ApiVLM(ApiModel):
    """A vision-language model behind an API.

    Several questions are under way at a time. A rate limit, a time-out, a lost connection and a server's error (5xx)
    are retried, after waits that double and vary at random and respect Retry-After; what is left after the last attempt
    is a failure, and so is a reply without text, a refusal that the provider marks as one, and a web page. A key that
    is refused, a model that does not exist and an exhausted account end the run at once.

    Args:
        model: The model's name with its provider, as litellm writes it ("openai/gpt-4o").
        api_base: Address of the server, usually ending in /v1; by default the provider's.
        api_key: The key; by default the provider's environment variable. It is part of no record.
        concurrency: Questions under way at a time, at least 1.
        max_tokens: Longest answer, in tokens; at least 1.
        temperature: Sampling temperature, or None for the provider's default, which some models insist on.
        timeout: Seconds that one attempt may take.
        max_retries: Further attempts after the first, at least 0.
        first_wait: Seconds before the second attempt, at least on average; doubled before each further one.
        longest_wait: Most seconds before an attempt.
        system_prompt: A system message before the question, or None.
        max_image_side: Longer side in pixels to which larger images are scaled down before they are sent; None sends
            them as they are.
        max_pixels: Largest width times height of an image file.
        on_note: Called, from any thread, when calls fail and are tried again.

    Raises:
        VLMError: If an argument is out of range.
    """

    error = VLMError
    gives = "answer"

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        concurrency: int = 8,
        max_tokens: int = 64,
        temperature: float | None = 0.0,
        timeout: float = 60.0,
        max_retries: int = 5,
        first_wait: float = 1.0,
        longest_wait: float = 60.0,
        system_prompt: str | None = None,
        max_image_side: int | None = 1024,
        max_pixels: int = DEFAULT_MAX_PIXELS,
        on_note: Callable[[str], None] | None = None,
    ) -> None:
        if max_image_side is not None and max_image_side < 8:
            raise VLMError("max_image_side must be at least 8.", value=max_image_side)
        super().__init__(
            model,
            api_base=api_base,
            api_key=api_key,
            concurrency=concurrency,
            max_tokens=max_tokens,
            temperature=None if temperature is None else float(temperature),
            patience=Patience(max_retries, first_wait, longest_wait, timeout),
            on_note=on_note,
        )
        self.system_prompt = system_prompt
        self.max_image_side = max_image_side
        self.max_pixels = max_pixels

    @property
    def identity(self) -> Identity:
        """Everything that can change an answer, as far as this side of the API knows; never the key."""
        return {
            "kind": "api",
            "model": self.model,
            "revision": None,
            "api_base": without_credentials(self.api_base),
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "system_prompt": self.system_prompt,
            "max_image_side": self.max_image_side,
            "image_encoding": f"png<={_LOSSLESS_PIXELS},jpeg{_JPEG_QUALITY}",
        }

    def check(self) -> list[str]:
        """Checks, without calling the model, that it can be called.

        Returns:
            What the user should know before a run.

        Raises:
            VLMError: If litellm knows no such provider, or the key is missing.
        """
        litellm = load_litellm()
        self._key(litellm)
        try:
            known = self.model in litellm.model_cost or self.model.split("/", 1)[-1] in litellm.model_cost
            blind = known and not litellm.supports_vision(self.model)
        except Exception:  # the list is only a hint
            blind = False
        return [f"litellm's list says that {self.model} takes no images."] if blind else []

    # -- answering -----------------------------------------------------------------------------------------------------

    def answer(self, questions: Sequence[Question]) -> list[Reply]:
        """Answers questions, in the same order and number.

        Raises:
            VLMError: If the key is missing or refused, the model does not exist or the account is exhausted. Questions
                under way are let go.
        """
        if not questions:
            return []
        litellm = load_litellm()
        key = self._key(litellm)

        def answer_one(question: Question, effort: Effort) -> Reply:
            return self._answer_one(litellm, key, question, effort)

        return side_by_side(questions, answer_one, self.concurrency, name="taxtune-vlm")

    def _answer_one(self, litellm: ModuleType, key: str | None, question: Question, effort: Effort) -> Reply:
        started = time.perf_counter()
        try:
            image = load_image(question.image, max_pixels=self.max_pixels, sha256=question.image_sha256 or None)
        except ImageError as error:
            return Failure(str(error), retryable=False)
        messages = self._messages(question.prompt, data_url(image, self.max_image_side))
        return self._ask(litellm, key, messages, effort, started=started)

    def _messages(self, prompt: str, image: str) -> list[dict[str, Any]]:
        user = {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": image}},
                {"type": "text", "text": prompt},
            ],
        }
        return [user] if self.system_prompt is None else [{"role": "system", "content": self.system_prompt}, user]


def data_url(image: Image.Image, max_side: int | None) -> str:
    """Returns an RGB image as a data URL: PNG if it is small, JPEG otherwise, scaled down to `max_side` pixels."""
    from PIL import Image as PillowImage

    if max_side is not None and max(image.size) > max_side:
        image = image.copy()
        image.thumbnail((max_side, max_side), PillowImage.Resampling.LANCZOS)
    stream = io.BytesIO()
    if image.width * image.height <= _LOSSLESS_PIXELS:
        image.save(stream, format="PNG")
        kind = "png"
    else:
        image.save(stream, format="JPEG", quality=_JPEG_QUALITY)
        kind = "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(stream.getvalue()).decode('ascii')}"
