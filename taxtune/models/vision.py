"""Vision-language models that run here: checkpoints of Hugging Face transformers.

In prompt tuning the images stay and the prompts change, so the features of images are cached
(`prefix_cache.py`): a further prompt costs little more than its own tokens. Where that cannot be,
each question is read with its pixels.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from taxtune.errors import ImageError, ModelError, one_line
from taxtune.hardware import is_out_of_memory, memory_of_this_machine
from taxtune.images import content_hash, load_image
from taxtune.loading import explain_load_error
from taxtune.models.base import Identity, Request
from taxtune.models.local import Generated, LocalModel, Ready, Unanswerable, rejected
from taxtune.models.prefix_cache import (
    ImageFeatureCache,
    ImageFeatures,
    PrefixCache,
    Uncacheable,
    followed,
    prefix_cache_for,
)
from taxtune.models.scoring import Scorer, Written
from taxtune.progress import note

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["LocalVLM"]

# The texts whose tokens are remembered: a run asks with one at a time.
_TEXTS = 256
# The first token's logits may differ so much from those of a question with its pixels, as a share
# of their range.
_TOLERANCE = {"float32": 1e-3}
_ROUGH_TOLERANCE = 0.05


@dataclass(slots=True)
class Question:
    """A request on its way into a batch.

    Attributes:
        text: Its prompt in the chat template.
        request: The request.
        content: The hash of its image.
        pixels: The image, once it is read and until it is processed.
        inputs: The processor's tensors, once they are made and until the image is encoded.
        features: The features of the image, once they are known.
    """

    text: str
    request: Request
    content: str
    pixels: Image.Image | None = None
    inputs: Any = None
    features: ImageFeatures | None = None


class LocalVLM(LocalModel):
    """A vision-language model that runs in this process.

    The image comes before the prompt. A prompt that holds one of the model's control tokens, and an
    image that cannot be read or that the processor refuses, fails alone.

    The features of images are cached, up to the settings' limit. The first batch shows whether
    answers from them are those from pixels; where they are not, or the network is of a kind for
    which this is not possible, every question is asked with its pixels, and a note says so.
    """

    task = "image-text-to-text"

    #: Why no image's features are cached; None while they are.
    not_cached: str | None = None
    _parity_checked = False

    @property
    def identity(self) -> Identity:
        """Everything that can change an answer; see `LocalModel.identity`."""
        import transformers

        # Processors resize otherwise with torchvision than without.
        has_torchvision = transformers.utils.is_torchvision_available()
        return {**super().identity, "torchvision": str(has_torchvision)}

    def _decoding(self) -> Identity:
        return {
            "max_new_tokens": self.settings.max_tokens,
            "temperature": self.temperature,
            "seed": self.settings.seed if self.temperature > 0 else None,
            "system_prompt": None,  # part of the keys of answers that are stored
        }

    def _family(self) -> Any:
        from transformers import AutoModelForImageTextToText

        return AutoModelForImageTextToText

    # -- the processor -----------------------------------------------------------------------------

    def _load_processor(self) -> Any:
        from transformers import AutoProcessor

        checkpoint = self.checkpoint
        try:
            processor = AutoProcessor.from_pretrained(checkpoint.source, **checkpoint.arguments)
        except Exception as error:
            raise explain_load_error(checkpoint.name, error, "processor") from error
        tokenizer = getattr(processor, "tokenizer", None)
        if tokenizer is None:
            message = f"The checkpoint {checkpoint.name!r} has no processor for images and text."
            raise ModelError(message)
        if not any(getattr(part, "chat_template", None) for part in (processor, tokenizer)):
            raise ModelError(
                f"The checkpoint {checkpoint.name!r} has no chat template, so it is not made for "
                "answering questions.",
                remedy="Use the model's instruction-tuned checkpoint (often named ...-Instruct, "
                "...-it or ...-hf).",
            )
        return processor

    def _chat(self, prompt: str) -> str:
        """Puts a prompt into the checkpoint's chat template, after the image."""
        template = getattr(self._processor, "chat_template", None) or self._tokenizer.chat_template
        content = [{"type": "image"}, {"type": "text", "text": prompt}]
        return self._render([{"role": "user", "content": content}], template)

    def _process(self, texts: Sequence[str], images: Sequence[Image.Image]) -> Any:
        """Returns texts with their images as tensors on the CPU, padded on the left."""
        bos = self._tokenizer.bos_token
        # A template that writes the start token itself must not get a second one.
        has_bos = bool(bos) and texts[0].startswith(bos)
        with self._processing:
            return self._processor(
                images=[[image] for image in images],
                text=list(texts),
                padding=True,
                padding_side="left",
                add_special_tokens=not has_bos,
                return_tensors="pt",
            )

    @cached_property
    def _processing(self) -> threading.RLock:
        """Held while the processor works: tokenizers do not bear two threads."""
        return threading.RLock()

    def _on_device(self, inputs: Any) -> Any:
        import torch

        return inputs.to(self.device, dtype=getattr(torch, self.dtype))

    @cached_property
    def _image_token(self) -> int:
        # Gemma's processor has the token that opens an image there, its tokenizer the one that
        # stands for it.
        for part in (self._tokenizer, self._processor):
            number = getattr(part, "image_token_id", None)
            if number is not None:
                return int(number)
        token = getattr(self._processor, "image_token", None) or "<image>"
        return int(self._tokenizer.convert_tokens_to_ids(token))

    @cached_property
    def _ids(self) -> Callable[[str], list[int]]:
        """From a text to its tokens as the processor writes them, with those of a small image."""
        from PIL import Image

        def read(text: str) -> list[int]:
            inputs = self._process([text], [Image.new("RGB", (64, 64))])
            ids: list[int] = inputs["input_ids"][0].tolist()
            return ids

        return lru_cache(maxsize=_TEXTS)(read)

    # -- questions ---------------------------------------------------------------------------------

    def _prepare(self, request: Request) -> Question:
        """Reads the image, unless its features are cached; called from several threads."""
        if request.image is None:
            name = self.checkpoint.name
            reason = f"{name} answers questions about images, but the request has no image."
            raise Unanswerable(reason)
        for token in self._control_tokens:
            if token in request.prompt:
                raise Unanswerable(f"The prompt contains the model's control token {token!r}.")
        try:
            content = request.image_sha256 or content_hash(request.image)
        except ImageError as error:
            raise Unanswerable(str(error)) from error
        question = Question(self._chat(request.prompt), request, content)
        if not self._caches:
            self._read(question)
            return question
        key = self._key(question)
        # The tensors of the first question about an image serve all others, however many are looked
        # ahead.
        if key not in self._cache and key not in self._coming:
            self._coming.add(key)
            self._process_alone(question)
        return question

    def _length(self, prepared: Question) -> int:
        # Without the tokens of the image, which are of no interest where its features are cached;
        # four characters are about a token.
        return len(self._ids(prepared.text)) if self._caches else len(prepared.text) // 4

    def _read(self, question: Question) -> Image.Image:
        """Reads the image of a question; done once."""
        if question.pixels is None:
            assert question.request.image is not None
            try:
                question.pixels = load_image(question.request.image, sha256=question.content)
            except ImageError as error:
                raise Unanswerable(str(error)) from error
        return question.pixels

    def _process_alone(self, question: Question) -> Any:
        """Makes the processor's tensors of a question alone; done once."""
        if question.inputs is None:
            pixels = self._read(question)
            try:
                question.inputs = self._process([question.text], [pixels])
            except Exception as problem:
                raise rejected(question.request, problem) from problem
            question.pixels = None
        return question.inputs

    def _collate(self, prepared: Sequence[Question], more: Sequence[Sequence[int]] = ()) -> Any:
        """Makes a batch; `more` are tokens that follow the questions, as many each, if any."""
        more = more or [()] * len(prepared)
        if self._caches:
            try:
                return self._from_cache(prepared, more)
            except Exception as problem:
                if isinstance(problem, ModelError | Unanswerable) or is_out_of_memory(problem):
                    raise
                self._stop_caching(problem)
        return self._from_pixels(prepared, more)

    def _from_pixels(self, questions: Sequence[Question], more: Sequence[Sequence[int]]) -> Any:
        texts = [question.text for question in questions]
        inputs = self._process(texts, [self._read(question) for question in questions])
        return self._on_device(followed(inputs, more))

    # -- cached image features ---------------------------------------------------------------------

    @property
    def _caches(self) -> bool:
        return self.not_cached is None and self._cache.memory > 0

    @cached_property
    def _cache(self) -> ImageFeatureCache:
        gib = self.settings.image_memory_gib
        memory = memory_of_this_machine() // 4 if gib is None else int(gib * 1024**3)
        return ImageFeatureCache(memory)

    @cached_property
    def _coming(self) -> set[str]:
        """The keys of images that are prepared and not yet encoded."""
        return set()

    @cached_property
    def _cache_identity(self) -> str:
        """Everything but the image that its features depend on."""
        identity = {**self.identity, "processor": self._processor.to_json_string()}
        return str(sorted(identity.items()))

    def _key(self, question: Question) -> str:
        """Returns the key of an image's features; the tokens before the image are part of it."""
        ids = self._ids(question.text)
        before = ids[: ids.index(self._image_token)] if self._image_token in ids else None
        text = f"{self._cache_identity}\0{before}\0{question.content}"
        return sha256(text.encode()).hexdigest()

    @cached_property
    def _prefix_cache(self) -> PrefixCache:
        make = prefix_cache_for(self.checkpoint.model_type)
        return make(
            network=self._network,
            image_token=self._image_token,
            pad_token=int(self._tokenizer.pad_token_id),
            room=self.settings.max_tokens,
            ids=self._ids,
        )

    def _from_cache(
        self, questions: Sequence[Question], more: Sequence[Sequence[int]]
    ) -> dict[str, Any]:
        """Makes a batch in which no image is encoded again."""
        texts = [question.text for question in questions]
        features = [self._features(question) for question in questions]
        if not self._parity_checked:
            self._check_parity(questions[:2], features[:2])
            self._parity_checked = True
        return self._prefix_cache.inputs(texts, features, more)

    def _features(self, question: Question) -> ImageFeatures:
        import torch

        if question.features is None:
            key = self._key(question)
            question.features = self._cache.get(key)
            if question.features is None:
                inputs = self._on_device(self._process_alone(question))
                with torch.inference_mode():
                    question.features = self._prefix_cache.encode(inputs)
                self._cache.put(key, question.features)
                self._coming.discard(key)
                question.inputs = None
        return question.features

    def _check_parity(
        self, questions: Sequence[Question], features: Sequence[ImageFeatures]
    ) -> None:
        """Raises `Uncacheable` if the first token's logits are not those from pixels.

        They may differ by rounding.
        """
        texts = [question.text for question in questions]
        none: list[Sequence[int]] = [()] * len(questions)
        from_pixels = self._first_logits(self._from_pixels(questions, none))
        from_cache = self._first_logits(self._prefix_cache.inputs(texts, features, none))
        scale = float(from_pixels.amax() - from_pixels.amin()) or 1.0
        apart = float((from_pixels - from_cache).abs().amax()) / scale
        if not apart <= _TOLERANCE.get(self.dtype, _ROUGH_TOLERANCE):
            raise Uncacheable(
                f"the answers would not be those of the plain way (logits {apart:.1%} apart)"
            )

    def _stop_caching(self, problem: Exception) -> None:
        kind = type(problem).__name__
        reason = one_line(problem) or kind
        self._cache.clear()
        self.not_cached = reason if isinstance(problem, Uncacheable) else f"{kind}: {reason}"
        name = self.checkpoint.name
        note(f"{name} encodes every image again for every prompt: {self.not_cached}.")

    # -- probabilities of names --------------------------------------------------------------------

    @cached_property
    def _first_token(self) -> Any:
        """The generation settings of one token and its logits."""
        config = deepcopy(self._recording)
        config.update(max_new_tokens=1, num_beams=1)
        return config

    def _first_logits(self, inputs: Any) -> Any:
        import torch

        with torch.inference_mode():
            output = self._network.generate(**inputs, generation_config=self._first_token)
            return output.logits[0].float()

    def _outcomes(
        self, batch: Sequence[Ready], generated: Sequence[Generated]
    ) -> list[Mapping[str, float] | None]:
        outcomes = super()._outcomes(batch, generated)
        if self._network.config.is_encoder_decoder:  # tokens would follow in the decoder
            return outcomes
        questions: list[Question] = []
        answers: list[Written] = []
        places = []
        for place, (ready, row) in enumerate(zip(batch, generated, strict=True)):
            if ready.request.candidates is None:
                continue
            context = self._context(ready.prepared.text)
            places.append(place)
            questions.append(ready.prepared)
            answers.append(Written(context, row.tokens, row.logits, ready.request.candidates))

        def read(numbers: Sequence[int], more: Sequence[Sequence[int]]) -> Iterator[Any]:
            pairs = zip(numbers, more, strict=True)
            for _, alike in groupby(pairs, key=lambda pair: len(pair[1])):
                while some := list(islice(alike, self.batch_size)):
                    asked = [questions[number] for number, _ in some]
                    inputs = self._collate(asked, [tokens for _, tokens in some])
                    yield from self._first_logits(inputs).cpu().numpy()

        weighed = self._scorer.outcomes(answers, read)
        for place, outcome in zip(places, weighed, strict=True):
            outcomes[place] = outcome
        return outcomes

    @cached_property
    def _scorer(self) -> Scorer:
        def tokenize(texts: Sequence[str]) -> list[list[int]]:
            with self._processing:
                encoded = self._tokenizer(
                    list(texts), add_special_tokens=False, return_attention_mask=False
                )
            return list(encoded["input_ids"])

        def decode(tokens: Sequence[int]) -> str:
            with self._processing:
                text = self._tokenizer.decode(
                    tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False
                )
            return str(text)

        return Scorer(tokenize, decode)

    def _context(self, text: str) -> str:
        """Returns the end of a text, from its last control token on."""
        return text[max(0, *(text.rfind(token) for token in self._control_tokens)) :]
