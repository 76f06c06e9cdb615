"""Vision-language models that run here: image-text-to-text checkpoints of Hugging Face transformers.

In prompt tuning the images stay and the prompts change, so the features of images are cached
(`prefix_cache.py`): a further prompt costs little more than its own tokens. Where that cannot be,
each question is read with its pixels.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from taxtune.data.images import content_hash, load_image
from taxtune.errors import ImageError, ModelError
from taxtune.hardware import is_out_of_memory, memory_of_this_machine
from taxtune.loading import explain_load_error
from taxtune.models.base import Candidates, Identity, Request
from taxtune.models.local import Generated, LocalModel, Unanswerable
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
# By so much, as a share of their range, the first token's logits may differ from those of the plain way.
_TOLERANCE = {"float32": 1e-3}
_ROUGH_TOLERANCE = 0.05


@dataclass(slots=True)
class Question:
    """A request on its way into a batch: its text in the chat template, the hash of its image, what is made of it."""

    text: str
    request: Request
    content: str
    pixels: Image.Image | None = None
    shown: Any = None
    state: ImageFeatures | None = None


class LocalVLM(LocalModel):
    """A vision-language model that runs in this process.

    The image comes before the prompt. A prompt that holds one of the model's control tokens, and an image that cannot
    be read or that the processor refuses, fails alone.

    Encoded images are kept, up to the settings' limit. The first batch shows whether answers from them are those of the
    plain way; where they are not, or the network is of a kind for which this is not possible, every question is asked
    with its pixels, and a note says so.
    """

    task = "image-text-to-text"

    #: Why images are not kept; None while they are.
    not_cached: str | None = None
    _parity_checked = False

    @property
    def identity(self) -> Identity:
        """Everything that can change an answer; see `LocalModel.identity`."""
        import transformers

        # Processors resize otherwise with torchvision than without.
        return {
            **super().identity,
            "torchvision": str(transformers.utils.is_torchvision_available()),
        }

    def _decoding(self) -> Identity:
        return {
            "max_new_tokens": self.settings.max_tokens,
            "temperature": self.temperature,
            "seed": self.settings.seed if self.temperature > 0 else None,
            "system_prompt": None,  # part of the keys of answers that are stored
        }

    def _load_processor(self) -> Any:
        from transformers import AutoProcessor

        name = self.checkpoint.name
        try:
            processor = AutoProcessor.from_pretrained(
                self.checkpoint.source, **self.checkpoint.arguments
            )
        except Exception as error:
            raise explain_load_error(self.checkpoint.name, error, "processor") from error
        tokenizer = getattr(processor, "tokenizer", None)
        if tokenizer is None:
            raise ModelError(f"The checkpoint {name!r} has no processor for images and text.")
        if not (
            getattr(processor, "chat_template", None) or getattr(tokenizer, "chat_template", None)
        ):
            raise ModelError(
                f"The checkpoint {name!r} has no chat template, so it is not made for answering questions.",
                remedy="Use the model's instruction-tuned checkpoint (often named ...-Instruct, ...-it or ...-hf).",
            )
        return processor

    def _family(self) -> Any:
        from transformers import AutoModelForImageTextToText

        return AutoModelForImageTextToText

    def _prepare(self, request: Request) -> Question:
        """Reads the image, unless what the network made of it is kept; called from several threads."""
        if request.image is None:
            raise Unanswerable(
                f"{self.checkpoint.name} answers questions about images, but the request has no image."
            )
        held = next((token for token in self._control_tokens if token in request.prompt), None)
        if held is not None:
            raise Unanswerable(f"The prompt contains the model's control token {held!r}.")
        try:
            content = request.image_sha256 or content_hash(request.image)
        except ImageError as error:
            raise Unanswerable(str(error)) from error
        question = Question(self._chat(request.prompt), request, content)
        if not self._caches:
            self._read(question)
            return question
        key = self._key(question)
        # What is prepared for the first question about an image serves all others, however many are looked ahead.
        if key not in self._cache and key not in self._coming:
            self._coming.add(key)
            self._show(question)
        return question

    def _length(self, prepared: Question) -> int:
        # Without the tokens of the image, which are of no interest where it is kept; four characters are about a token.
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

    def _show(self, question: Question) -> Any:
        """Makes the processor's tensors of a question alone; done once."""
        if question.shown is None:
            pixels = self._read(question)
            try:
                question.shown = self._process([question.text], [pixels])
            except Exception as problem:
                said = " ".join(str(problem).split())
                reason = (
                    f"{question.request.image}: the model's processor rejected the request: {said}"
                )
                raise Unanswerable(reason) from problem
            question.pixels = None
        return question.shown

    def _process(self, texts: Sequence[str], images: Sequence[Image.Image]) -> Any:
        """Returns texts with their images as tensors on the CPU, padded on the left."""
        bos = self._tokenizer.bos_token
        # A template that writes the start token itself must not get a second one.
        starts = bool(bos) and texts[0].startswith(bos)
        with self._processing:  # tokenizers do not bear two threads
            return self._processor(
                images=[[image] for image in images],
                text=list(texts),
                padding=True,
                padding_side="left",
                add_special_tokens=not starts,
                return_tensors="pt",
            )

    @cached_property
    def _processing(self) -> threading.RLock:
        return threading.RLock()

    def _on_device(self, inputs: Any) -> Any:
        import torch

        return inputs.to(self.device, dtype=getattr(torch, self.dtype))

    def _chat(self, prompt: str) -> str:
        """Puts a prompt into the checkpoint's chat template, after the image."""
        template = getattr(self._processor, "chat_template", None) or self._tokenizer.chat_template
        content = [{"type": "image"}, {"type": "text", "text": prompt}]
        return self._render([{"role": "user", "content": content}], template)

    def _collate(self, prepared: Sequence[Question], more: Sequence[Sequence[int]] = ()) -> Any:
        """Makes a batch; `more` are tokens that follow the questions, as many each, if there are any."""
        more = more or [()] * len(prepared)
        if self._caches:
            try:
                return self._from_cache(prepared, more)
            except Exception as problem:
                if isinstance(problem, ModelError | Unanswerable) or is_out_of_memory(problem):
                    raise
                self._stop_caching(problem)
        return self._plain(prepared, more)

    def _plain(self, questions: Sequence[Question], more: Sequence[Sequence[int]]) -> Any:
        inputs = self._process([q.text for q in questions], [self._read(q) for q in questions])
        return self._on_device(followed(inputs, more))

    @property
    def _caches(self) -> bool:
        return self.not_cached is None and self._cache.memory > 0

    @cached_property
    def _cache(self) -> ImageFeatureCache:
        memory = self.settings.image_memory_gib
        return ImageFeatureCache(
            memory_of_this_machine() // 4 if memory is None else int(memory * 1024**3)
        )

    @cached_property
    def _coming(self) -> set[str]:
        """The keys of states whose image is prepared and not yet encoded."""
        return set()

    @cached_property
    def _maker(self) -> str:
        """Everything but the image that a state depends on."""
        identity = {**self.identity, "processor": self._processor.to_json_string()}
        return str(sorted(identity.items()))

    def _key(self, question: Question) -> str:
        """The key of a state; the tokens before the image are part of it."""
        ids = self._ids(question.text)
        before = ids[: ids.index(self._image_token)] if self._image_token in ids else None
        return sha256(f"{self._maker}\0{before}\0{question.content}".encode()).hexdigest()

    @cached_property
    def _image_token(self) -> int:
        # Gemma's processor has the token that opens an image there, its tokenizer the one that stands for it.
        named = (getattr(one, "image_token_id", None) for one in (self._tokenizer, self._processor))
        number = next((number for number in named if number is not None), None)
        if number is None:
            number = self._tokenizer.convert_tokens_to_ids(
                getattr(self._processor, "image_token", None) or "<image>"
            )
        return int(number)

    def _ids(self, text: str) -> list[int]:
        """Returns the tokens of a text as the processor writes them, with those of a small image in it."""
        with self._processing:
            known: dict[str, list[int]] = self.__dict__.setdefault("_known_ids", {})
            if text not in known:
                from PIL import Image

                while len(known) >= _TEXTS:
                    del known[next(iter(known))]
                known[text] = self._process([text], [Image.new("RGB", (64, 64))])["input_ids"][
                    0
                ].tolist()
            return known[text]

    @cached_property
    def _prefix_cache(self) -> PrefixCache:
        pad = int(self._tokenizer.pad_token_id)
        way = prefix_cache_for(self.checkpoint.model_type)
        return way(self._network, self._image_token, pad, self.settings.max_tokens, self._ids)

    def _from_cache(
        self, questions: Sequence[Question], more: Sequence[Sequence[int]]
    ) -> dict[str, Any]:
        """Makes a batch in which no image is encoded again."""
        states = [self._state(question) for question in questions]
        if not self._parity_checked:
            self._check_parity(questions[:2], states[:2])
            self._parity_checked = True
        return self._prefix_cache.inputs([question.text for question in questions], states, more)

    def _state(self, question: Question) -> ImageFeatures:
        import torch

        if question.state is None:
            key = self._key(question)
            question.state = self._cache.get(key)
            if question.state is None:
                with torch.inference_mode():
                    question.state = self._prefix_cache.encode(
                        self._on_device(self._show(question))
                    )
                self._cache.put(key, question.state)
                self._coming.discard(key)
                question.shown = None
        return question.state

    def _check_parity(self, questions: Sequence[Question], states: Sequence[ImageFeatures]) -> None:
        """Raises `Uncacheable` where the first token's logits differ from the plain way's by more than rounding."""
        none: list[Sequence[int]] = [()] * len(questions)
        plain = self._first_logits(self._plain(questions, none))
        kept = self._first_logits(
            self._prefix_cache.inputs([question.text for question in questions], states, none)
        )
        scale = float(plain.amax() - plain.amin()) or 1.0
        apart = float((plain - kept).abs().amax()) / scale
        if not apart <= _TOLERANCE.get(self.dtype, _ROUGH_TOLERANCE):
            raise Uncacheable(
                f"the answers would not be those of the plain way (logits {apart:.1%} apart)"
            )

    @cached_property
    def _first_token(self) -> Any:
        from copy import deepcopy

        config = deepcopy(self._recording)
        config.update(max_new_tokens=1, num_beams=1)
        return config

    def _first_logits(self, inputs: Any) -> Any:
        import torch

        with torch.inference_mode():
            return (
                self._network.generate(**inputs, generation_config=self._first_token)
                .logits[0]
                .float()
            )

    def _outcomes(
        self, batch: Sequence[tuple[Question, Generated, Candidates]]
    ) -> Sequence[Mapping[str, float] | None]:
        def read(rows: Sequence[int], more: Sequence[Sequence[int]]) -> Iterator[Any]:
            for _, alike in groupby(zip(rows, more, strict=True), key=lambda pair: len(pair[1])):
                while some := [*islice(alike, self.batch_size)]:
                    inputs = self._collate(
                        [batch[row][0] for row, _ in some], [tokens for _, tokens in some]
                    )
                    yield from self._first_logits(inputs).cpu().numpy()

        if self._network.config.is_encoder_decoder:  # tokens would follow in the decoder
            return super()._outcomes(batch)
        answers = [
            Written(self._context(q.text), row.tokens, row.logits, names) for q, row, names in batch
        ]
        return self._scorer.outcomes(answers, read)

    @cached_property
    def _scorer(self) -> Scorer:
        def tokenize(texts: Sequence[str]) -> list[list[int]]:
            with self._processing:
                made = self._tokenizer(
                    list(texts), add_special_tokens=False, return_attention_mask=False
                )
                return list(made["input_ids"])

        def decode(tokens: Sequence[int]) -> str:
            with self._processing:
                return str(
                    self._tokenizer.decode(
                        tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False
                    )
                )

        return Scorer(tokenize, decode)

    def _context(self, text: str) -> str:
        """Returns the end of a text, from its last control token on."""
        return text[max(0, *(text.rfind(token) for token in self._control_tokens)) :]

    def _stop_caching(self, problem: Exception) -> None:
        said = " ".join(str(problem).split()) or type(problem).__name__
        self._cache.clear()
        self.not_cached = (
            said if isinstance(problem, Uncacheable) else f"{type(problem).__name__}: {said}"
        )
        note(
            f"{self.checkpoint.name} encodes every image again for every prompt: {self.not_cached}."
        )
