"""Models that run in this process: checkpoints of Hugging Face transformers.

Those that read text alone are here, those that read images in `vision.py`.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from copy import deepcopy
from functools import cached_property, partial
from hashlib import sha256
from importlib.util import find_spec
from itertools import accumulate, islice
from typing import Any, ClassVar, NamedTuple
from weakref import WeakValueDictionary

from taxtune.errors import MissingExtraError, ModelError, one_line
from taxtune.hardware import (
    AdaptiveBatches,
    does_not_fit,
    find_device,
    is_out_of_memory,
    number_format,
)
from taxtune.loading import explain_load_error, quiet_progress
from taxtune.models.base import (
    Answer,
    Failure,
    Identity,
    ModelSettings,
    Reply,
    Request,
    StreamingModel,
    Task,
)
from taxtune.models.checkpoint import (
    Checkpoint,
    check_quantization,
    find_checkpoint,
    quantization_config,
)
from taxtune.progress import loading
from taxtune.thoughts import is_mark, open_thought
from taxtune.untrusted import well_formed

__all__ = ["LocalLLM", "LocalModel", "Unanswerable"]

# Some chat templates print today's date, which would give the same prompt another answer every day.
_DATE = "26 Jul 2024"
# From so many bytes of weights a user should know that the model will run on a CPU.
_SLOW_ON_CPU = 8 * 1024**3
# Tokens of padding in a batch from which a batch of its own is quicker: a second batch reads all
# weights again for each token that it writes, which takes as long as computing some dozens (CPU) to
# hundreds (GPU) of tokens.
_PADDING = 1024

#: The weights of language models that are in use, by checkpoint and how they were loaded.
_NETWORKS: WeakValueDictionary[tuple[str | None, ...], Any] = WeakValueDictionary()


class Ready(NamedTuple):
    """A request that is prepared, with its place in the list and its length."""

    place: int
    request: Request
    length: int
    prepared: Any


class Generated(NamedTuple):
    """The text that was generated for one row of a batch.

    Attributes:
        text: The text.
        read: Tokens read.
        tokens: Tokens written.
        logits: From a place among these to the logits of the token there; None if not recorded.
        cut: Whether it has no end token; None for a model that has none.
    """

    text: str
    read: int
    tokens: list[int]
    logits: Callable[[int], Any] | None
    cut: bool | None


class Unanswerable(Exception):  # noqa: N818 - it becomes a failure of one request
    """One request cannot be put to the model; its text is the reason of the failure."""


class LocalModel(StreamingModel):
    """A generative checkpoint, loaded at the first request.

    The checkpoint's own chat template makes the model's input, one user turn per request. Inputs
    are padded on the left, so that a batch is answered as each request alone. A subclass says how a
    request becomes an input.

    Args:
        model: A Hugging Face name ("meta-llama/Llama-3.2-11B-Vision-Instruct"), a folder, or
            "builtin:fieldguide".
        settings: How it is run.
    """

    task: ClassVar[Task]

    def __init__(self, model: str, settings: ModelSettings | None = None) -> None:
        self.model = model
        self.settings = settings or ModelSettings(task=self.task)
        self.temperature = float(self.settings.temperature or 0.0)

    @property
    def identity(self) -> Identity:
        """Everything that can change an answer."""
        import transformers

        identity: dict[str, Any] = {
            "kind": "local",
            "model": self.checkpoint.name,
            "revision": self.checkpoint.revision,
            "dtype": self.dtype,
            "device": self.device.split(":")[0],
            **self._decoding(),
        }
        if self.settings.quantization:
            identity["quantization"] = self.settings.quantization
        # Processors change between releases, seldom within one.
        identity["transformers"] = ".".join(transformers.__version__.split(".")[:2])
        return identity

    @abstractmethod
    def _decoding(self) -> Identity:
        """Returns the settings that can change an answer."""

    @abstractmethod
    def _load_processor(self) -> Any:
        """Loads the checkpoint's processor, or its tokenizer if it has no processor."""

    @abstractmethod
    def _family(self) -> Any:
        """Returns the class of transformers that loads the network."""

    @abstractmethod
    def _chat(self, prompt: str) -> str:
        """Puts a prompt into the checkpoint's chat template; empty if it has none."""

    @abstractmethod
    def _prepare(self, request: Request) -> Any:
        """Prepares a request for a batch, or raises `Unanswerable`."""

    @abstractmethod
    def _collate(self, prepared: Sequence[Any]) -> Any:
        """Makes one batch of tensors on the model's device of prepared requests."""

    @abstractmethod
    def _length(self, prepared: Any) -> int:
        """Returns the length of a prepared request; those of one length need no padding."""

    def _finish(self, answer: Answer) -> Reply:
        """Makes a reply of an answer that was generated."""
        return answer

    def _outcomes(
        self, batch: Sequence[Ready], generated: Sequence[Generated]
    ) -> list[Mapping[str, float] | None]:
        """Weighs the names that requests of a batch have as candidates; see `Answer.outcomes`."""
        return [None] * len(batch)

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """Where the model is, and its revision, without its weights; see `find_checkpoint`."""
        return find_checkpoint(self.model, self.settings.revision, task=self.task)

    @cached_property
    def device(self) -> str:
        """The device that the model runs on; see `find_device`."""
        return find_device(self.settings.device)

    @cached_property
    def dtype(self) -> str:
        """The number format that the model computes in."""
        return number_format(self.settings.dtype, self.device)

    def check(self) -> list[str]:
        """Checks that the model can be loaded, without loading its weights.

        Returns:
            Notes for the user.

        Raises:
            ModelError: If the model cannot be had, or the device is not there or not for such
                weights.
            MissingExtraError: If a package that the settings need is missing.
        """
        checkpoint = self.checkpoint
        device = self.device
        settings = self.settings
        if settings.quantization is not None:
            check_quantization(settings.quantization)
        if settings.device_map is not None and find_spec("accelerate") is None:
            raise MissingExtraError("accelerate", "sharded", f"device_map: {settings.device_map}")
        notes = []
        if not checkpoint.complete:
            notes.append(f"The weights of {checkpoint.name} will be downloaded first.")
        if device == "cpu" and checkpoint.weight_bytes > _SLOW_ON_CPU:
            size = checkpoint.weight_bytes / 1024**3
            notes.append(
                f"{checkpoint.name} has {size:.0f} GiB of weights and will run on the CPU, "
                "very slowly."
            )
        return notes

    @cached_property
    def _batches(self) -> AdaptiveBatches:
        return AdaptiveBatches(
            self.settings.batch_size, model=self.model, device=self.device, item="prompt"
        )

    @property
    def batch_size(self) -> int:
        """Requests computed at a time from now on: as many as fit into the device's memory."""
        return self._batches.size

    @cached_property
    def _processor(self) -> Any:
        with loading(f"the processor of {self.checkpoint.name}"):
            processor = self._load_processor()
        tokenizer = getattr(processor, "tokenizer", processor)
        tokenizer.padding_side = "left"
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        return processor

    @property
    def _tokenizer(self) -> Any:
        return getattr(self._processor, "tokenizer", self._processor)

    @cached_property
    def _control_tokens(self) -> tuple[str, ...]:
        """Texts that the tokenizer reads as control tokens, the longest first."""
        tokenizer = self._tokenizer
        tokens = set(map(str, tokenizer.all_special_tokens))
        tokens.add(str(getattr(self._processor, "image_token", None) or ""))
        for token in tokenizer.added_tokens_decoder.values():
            if token.special:
                tokens.add(str(token.content))
        tokens.discard("")
        return tuple(sorted(tokens, key=lambda token: (-len(token), token)))

    @cached_property
    def _network(self) -> Any:
        import torch

        checkpoint = self.checkpoint
        dtype = getattr(torch, self.dtype)
        quantization = self.settings.quantization
        arguments: dict[str, Any] = {**checkpoint.arguments, "dtype": dtype}
        if self.settings.device_map is not None:
            arguments["device_map"] = self.settings.device_map
        try:
            if quantization is not None:
                arguments.setdefault("device_map", self.device)
                arguments["quantization_config"] = quantization_config(quantization, dtype)
            with ExitStack() as stack:
                stack.enter_context(quiet_progress())
                if checkpoint.complete:  # the hub's own bars show a download
                    stack.enter_context(loading(f"the weights of {checkpoint.name}"))
                network = self._family().from_pretrained(checkpoint.source, **arguments)
            if "device_map" not in arguments:
                network = network.to(self.device)
            return network.eval()
        except Exception as error:
            if is_out_of_memory(error):
                raise does_not_fit(checkpoint.name, self.device) from error
            raise explain_load_error(checkpoint.name, error, "weights") from error

    @cached_property
    def _generation(self) -> Any:
        """The checkpoint's own generation settings, with our decoding."""
        config = deepcopy(self._network.generation_config)
        config.max_new_tokens = self.settings.max_tokens
        config.max_length = None
        # What is drawn at random is drawn by `_Draw`.
        config.do_sample = False
        config.temperature = None
        config.top_p = None
        config.top_k = None
        if self.temperature > 0:
            config.num_beams = 1
        # Not the checkpoint's own: that of Idefics3's kin may lie beyond the vocabulary.
        config.pad_token_id = self._tokenizer.pad_token_id
        if config.eos_token_id is None:
            config.eos_token_id = self._tokenizer.eos_token_id
        return config

    @cached_property
    def _recording(self) -> Any:
        """The same settings, where logits are wanted besides the tokens."""
        config = deepcopy(self._generation)
        config.update(return_dict_in_generate=True, output_logits=True)
        return config

    def stream(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        """Answers batch by batch, the longest first, and gives (place, reply).

        Threads prepare the requests of the next batches, at most three of them, while the device
        computes.

        Raises:
            ModelError: If the model cannot be loaded, or one request alone does not fit into the
                device's memory.
        """
        if not requests:
            return
        # Before there are threads: two that import transformers for the first time break each
        # other's import.
        _ = self._processor
        # How many tokens a prompt has is known when it is prepared; how many characters, before.
        order = iter(sorted(range(len(requests)), key=lambda place: -len(requests[place].prompt)))
        under_way: deque[tuple[int, Future[Ready]]] = deque()
        window: list[Ready] = []
        threads = ThreadPoolExecutor(1 if self.device == "cpu" else 8, "taxtune-prepare")

        def look_ahead() -> None:
            for place in islice(order, max(0, self.batch_size - len(under_way))):
                future = threads.submit(self._ready, place, requests[place])
                under_way.append((place, future))

        try:
            look_ahead()
            _ = self._network  # which takes its time, while the first requests are prepared
            while under_way or window:
                while under_way and len(window) < 2 * self.batch_size:
                    place, future = under_way.popleft()
                    look_ahead()
                    try:
                        window.append(future.result())
                    except Unanswerable as problem:
                        yield place, Failure(str(problem), retryable=False)
                if window:
                    window.sort(key=lambda ready: -ready.length)
                    replies = self._batches.run(
                        lambda size: self._answer_batch(window[:size]), _alike(window)
                    )
                    del window[: len(replies)]
                    yield from replies
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    def _ready(self, place: int, request: Request) -> Ready:
        prepared = self._prepare(request)
        return Ready(place=place, request=request, length=self._length(prepared), prepared=prepared)

    def _answer_batch(self, batch: Sequence[Ready]) -> list[tuple[int, Reply]]:
        started = time.perf_counter()
        try:
            inputs = self._collate([ready.prepared for ready in batch])
        except Exception as error:
            if isinstance(error, ModelError) or is_out_of_memory(error):
                raise
            if len(batch) > 1:  # one of them is at fault
                return [reply for ready in batch for reply in self._answer_batch([ready])]
            [ready] = batch
            if not isinstance(error, Unanswerable):
                error = rejected(ready.request, error)
            return [(ready.place, Failure(str(error), retryable=False))]
        try:
            generated = self._generate(inputs, [ready.request for ready in batch])
            outcomes = self._outcomes(batch, generated)
        except Exception as error:
            if isinstance(error, ModelError) or is_out_of_memory(error):
                raise
            raise ModelError(
                f"The model {self.checkpoint.name!r} failed while generating: {error}"
            ) from error
        seconds = (time.perf_counter() - started) / len(batch)
        replies = []
        for ready, row, weighed in zip(batch, generated, outcomes, strict=True):
            answer = Answer(
                text=row.text,
                prompt_tokens=row.read,
                completion_tokens=len(row.tokens),
                cost_usd=0.0,
                seconds=seconds,
                batch=len(batch),
                outcomes=weighed,
                cut=row.cut,
            )
            replies.append((ready.place, self._finish(answer)))
        return replies

    def _generate(self, inputs: Any, requests: Sequence[Request]) -> list[Generated]:
        """Generates an answer for each row; a want of memory goes through to `stream`."""
        import torch

        network = self._network
        arguments: dict[str, Any] = {"generation_config": self._generation}
        has_candidates = any(request.candidates for request in requests)
        if has_candidates and self._generation.num_beams in (None, 1):
            arguments["generation_config"] = self._recording
        if self.temperature > 0:
            seeds = [_seed_of(request, self.settings.seed) for request in requests]
            arguments["logits_processor"] = [_Draw(self.temperature, seeds)]
        with torch.inference_mode():
            output = network.generate(**inputs, **arguments)
        sequences = output if torch.is_tensor(output) else output.sequences
        steps = None if torch.is_tensor(output) else output.logits
        # The output of a decoder alone begins with the prompt, that of an encoder-decoder with a
        # token to start from.
        is_decoder = not getattr(network.config, "is_encoder_decoder", False)
        start = inputs["input_ids"].shape[1] if is_decoder else 1
        read = inputs["attention_mask"].sum(dim=1).tolist()
        rows = []
        for row, (text, tokens) in enumerate(self._written(sequences[:, start:])):
            generated = Generated(
                text=text,
                read=int(read[row]),
                tokens=tokens,
                logits=None if steps is None else partial(_logits_at, steps, row),
                cut=self._is_cut(tokens),
            )
            rows.append(generated)
        return rows

    @property
    def _ends(self) -> list[int]:
        """The tokens that end an answer."""
        ends = self._generation.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        return [end for end in ends if end is not None]

    def _is_cut(self, tokens: Sequence[int]) -> bool | None:
        ends = self._ends
        if not ends:
            return None
        return not tokens or tokens[-1] not in ends

    def _written(self, new: Any) -> list[tuple[str, list[int]]]:
        """Returns text and tokens of each row of new tokens."""
        rows = [self._until_end(row) for row in new.tolist()]
        hidden = self._hidden_tokens
        shown = [[token for token in row if token not in hidden] for row in rows]
        texts = self._tokenizer.batch_decode(
            shown,
            # The hidden tokens are left out here if thoughts would lose their marks with them.
            skip_special_tokens=not hidden,
            clean_up_tokenization_spaces=False,
        )
        return [(self._opening + text.strip(), row) for text, row in zip(texts, rows, strict=True)]

    def _until_end(self, row: list[int]) -> list[int]:
        """Returns the tokens that were written.

        Rows that ended early are filled up to the longest.
        """
        ends = self._ends
        for place, token in enumerate(row):
            if token in ends:
                return row[: place + 1]
        return row

    @cached_property
    def _hidden_tokens(self) -> frozenset[int]:
        """The special tokens that no answer shows.

        They are none for a tokenizer without special marks of thoughts.
        """
        added = self._tokenizer.added_tokens_decoder.items()
        special = {number: str(token.content) for number, token in added if token.special}
        hidden = frozenset(number for number, token in special.items() if not is_mark(token))
        return hidden if len(hidden) < len(special) else frozenset()

    @cached_property
    def _opening(self) -> str:
        """The mark that opens a thought at the end of the prompts, which answers then lack."""
        return open_thought(self._chat("."))

    def _render(self, messages: list[dict[str, Any]], template: str) -> str:
        """Puts messages into the checkpoint's chat template."""
        date = {"date_string": _DATE} if "date_string" in str(template) else {}
        text = self._processor.apply_chat_template(
            messages, chat_template=template, add_generation_prompt=True, tokenize=False, **date
        )
        return str(text)


def rejected(request: Request, error: Exception) -> Unanswerable:
    """Returns the error of a request that the model's processor rejected."""
    where = f"{request.image}: " if request.image else ""
    return Unanswerable(f"{where}the model's processor rejected the request: {one_line(error)}")


def _alike(window: Sequence[Ready]) -> int:
    """Returns the number of requests, the longest first, that need little padding in a batch."""
    padding = accumulate(window[0].length - ready.length for ready in window)
    return sum(tokens <= _PADDING for tokens in padding)


def _logits_at(steps: Sequence[Any], row: int, place: int) -> Any:
    """Returns the logits of a row's token at a place, on the CPU."""
    return steps[place][row].float().cpu().numpy()


def _seed_of(request: Request, seed: int) -> int | None:
    """Returns the seed of a request's answer, which depends on the request alone, not its batch.

    It is None for a request with candidates: names are weighed after the greedy answer.
    """
    if request.candidates:
        return None
    text = f"{seed}\0{request.prompt}\0{request.image_sha256 or ''}"
    if request.sample:
        text += f"\0{request.sample}"
    digest = sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:7], "big")


class _Draw:
    """Draws each row's next token with a generator of its own.

    For `generate` it is a processor of greedy decoding. The most likely token, after Gumbel noise
    was added to the scaled scores, is a draw from their softmax (the Gumbel-max trick). So an
    answer depends neither on the rows beside it nor on their order, as it would with one generator
    for a batch.

    Args:
        temperature: What the scores are divided by, above 0.
        seeds: A seed for each row; None for one that is decoded greedily.
    """

    def __init__(self, temperature: float, seeds: Sequence[int | None]) -> None:
        self.temperature = temperature
        self.seeds = seeds
        self._generators: list[Any] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Returns the scores (rows x vocabulary) scaled and with noise."""
        import torch

        if not self._generators:
            self._generators = [_generator(scores.device, seed) for seed in self.seeds]
        noise = torch.ones_like(scores)
        for row, generator in zip(noise, self._generators, strict=True):
            if generator is not None:
                row.exponential_(generator=generator)
        smallest = torch.finfo(noise.dtype).tiny
        return scores / self.temperature - noise.clamp_min_(smallest).log_()


def _generator(device: Any, seed: int | None) -> Any:
    import torch

    return None if seed is None else torch.Generator(device).manual_seed(seed)


class LocalLLM(LocalModel):
    """A language model that runs in this process.

    A checkpoint without a chat template (Flan-T5) gets the prompt as it stands. A prompt that is
    longer than the model reads fails; it is not cut. What a prompt holds of the model's control
    tokens is text like any other: an answer that is judged must not be able to end the judge's
    turn.
    """

    task = "text-generation"

    @cached_property
    def _network(self) -> Any:
        """The weights; a judge and an arbiter of one checkpoint have them in memory once."""
        settings = self.settings
        how = (self.device, self.dtype, settings.quantization, settings.device_map)
        key = (self.checkpoint.source, self.checkpoint.revision, *how)
        network = _NETWORKS.get(key)
        if network is None:
            network = super()._network
            _NETWORKS[key] = network
        return network

    def _decoding(self) -> Identity:
        decoding: dict[str, Any] = {"max_tokens": self.settings.max_tokens}
        if self.temperature > 0:
            decoding |= {"temperature": self.temperature, "seed": self.settings.seed}
        return decoding

    def _load_processor(self) -> Any:
        from transformers import AutoTokenizer

        checkpoint = self.checkpoint
        try:
            return AutoTokenizer.from_pretrained(checkpoint.source, **checkpoint.arguments)
        except Exception as error:
            raise explain_load_error(checkpoint.name, error, "tokenizer") from error

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
                f"The prompt has {len(tokens):,} tokens; {name} has room for {self._room:,} "
                "besides its answer."
            )
        return tokens

    def _tokens(self, prompt: str) -> list[int]:
        """Returns a prompt in the checkpoint's chat template as tokens."""
        tokenizer = self._tokenizer
        prompt = well_formed(prompt)
        for token in self._control_tokens:
            if len(token) > 1:
                prompt = prompt.replace(token, f"{token[0]} {token[1:]}")
        if not tokenizer.chat_template:
            return list(tokenizer(prompt)["input_ids"])
        return list(tokenizer(self._chat(prompt), add_special_tokens=False)["input_ids"])

    def _chat(self, prompt: str) -> str:
        template = self._tokenizer.chat_template
        return self._render([{"role": "user", "content": prompt}], template) if template else ""

    def _length(self, prepared: list[int]) -> int:
        return len(prepared)

    def _collate(self, prepared: Sequence[list[int]]) -> Any:
        inputs = {"input_ids": list(prepared)}
        padded = self._tokenizer.pad(inputs, padding=True, return_tensors="pt").to(self.device)
        return {name: padded[name] for name in ("input_ids", "attention_mask")}

    def _finish(self, answer: Answer) -> Reply:
        if answer.text:
            return answer
        reason = f"The model {self.checkpoint.name!r} gave an empty answer."
        return Failure(reason, retryable=False)
