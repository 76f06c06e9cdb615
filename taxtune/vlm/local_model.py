"""What models that run in this process share, be they asked about images or about text alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from taxtune.errors import TaxtuneError, VLMError
from taxtune.hardware import ShrinkingBatches, does_not_fit, find_device, is_out_of_memory, number_format
from taxtune.loading import explain_load_error, quiet_progress
from taxtune.vlm.base import Reply
from taxtune.vlm.checkpoint import Checkpoint, Task, find_checkpoint

__all__ = ["LocalModel"]

Item = TypeVar("Item")

_DTYPES = ("auto", "float32", "bfloat16", "float16")
# Some chat templates print today's date, which would give the same prompt another reply every day.
_DATE = "26 Jul 2024"
# From so many bytes of weights a user should know that the model will run on a CPU.
_SLOW_ON_CPU = 8 * 1024**3


class LocalModel(ABC):
    """A generative checkpoint of Hugging Face transformers, loaded when it is first needed.

    A subclass says which error it raises and what its checkpoints are made for, and writes `_tokenizer` and `_family`.

    Args:
        model: A Hugging Face name or a folder.
        revision: Branch, tag or commit of a Hugging Face name.
        dtype: "auto", "float32", "bfloat16" or "float16".
        device: "auto", "cpu", "cuda", ...
        batch_size: Prompts computed at once, at least 1; halved where the device runs out of memory.
        max_new_tokens: Longest reply, in tokens.
        temperature: 0 for greedy decoding, or a sampling temperature.

    Raises:
        TaxtuneError: As the class's `error`, if there is no such dtype.
    """

    error: ClassVar[type[TaxtuneError]]
    task: ClassVar[Task]
    #: What is asked of it, for the error where one alone does not fit into the memory.
    item: ClassVar[str]

    def __init__(
        self,
        model: str,
        *,
        revision: str | None,
        dtype: str,
        device: str,
        batch_size: int,
        max_new_tokens: int,
        temperature: float = 0.0,
    ) -> None:
        if dtype not in _DTYPES:
            raise self.error("There is no such dtype.", value=dtype, remedy=f"Use one of {', '.join(_DTYPES)}.")
        self.model = model
        self.revision = revision
        self.batch_size = batch_size
        self.max_new_tokens = max_new_tokens
        self.temperature = temperature
        self._asked_dtype = dtype
        self._asked_device = device

    # -- what it is, known without loading the weights -----------------------------------------------------------------

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """Where the model is and which revision of it; found without loading the weights.

        Raises:
            TaxtuneError: As `error`, if it is missing, needs a licence to be accepted, or is made for something else.
        """
        try:
            return find_checkpoint(self.model, self.revision, task=self.task)
        except VLMError as error:
            raise self.error(
                error.message, file=error.file, row=error.row, value=error.value, remedy=error.remedy
            ) from error.__cause__

    @cached_property
    def device(self) -> str:
        """The device that the model runs on.

        Raises:
            TaxtuneError: As `error`, if the device that was asked for is not there.
        """
        return find_device(self._asked_device, self.error)

    @cached_property
    def dtype(self) -> str:
        """The number format that the model computes in."""
        return number_format(self._asked_dtype, self.device)

    def check(self) -> list[str]:
        """Checks, without loading the weights, that the model can be loaded.

        Returns:
            What the user should know before a run, such as weights that have yet to be downloaded.

        Raises:
            TaxtuneError: As `error`, if the model is missing, needs a licence to be accepted or is made for something
                else, or the device is not there.
        """
        checkpoint, device = self.checkpoint, self.device
        notes = [] if checkpoint.complete else [f"The weights of {checkpoint.name} will be downloaded first."]
        if device == "cpu" and checkpoint.weight_bytes > _SLOW_ON_CPU:
            size = checkpoint.weight_bytes / 1024**3
            notes.append(f"{checkpoint.name} has {size:.0f} GiB of weights and will run on the CPU, very slowly.")
        return notes

    # -- loading -------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def _tokenizer(self) -> Any:
        """What turns text into tokens, padded on the left."""

    @abstractmethod
    def _family(self) -> Any:
        """Returns the class of transformers that loads the network."""

    def _cannot_load(self, error: BaseException, what: str) -> TaxtuneError:
        return explain_load_error(self.checkpoint.name, error, what, self.error)

    @staticmethod
    def _padded_left(tokenizer: Any) -> None:
        """Has a tokenizer pad on the left, so that a batch replies as each prompt alone does."""
        tokenizer.padding_side = "left"
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token

    @cached_property
    def _network(self) -> Any:
        import torch

        where = self.checkpoint
        # The bar of a download is worth seeing; that of reading the weights off the disk spoils our own.
        quiet = quiet_progress() if where.complete else nullcontext()
        try:
            family = self._family()
            with quiet:
                network = family.from_pretrained(
                    where.source, revision=where.load_revision or "main", dtype=getattr(torch, self.dtype)
                )
            return network.to(self.device).eval()
        except Exception as error:
            if is_out_of_memory(error):
                raise does_not_fit(where.name, self.device, self.error) from error
            raise self._cannot_load(error, "weights") from error

    @cached_property
    def _generation(self) -> Any:
        """The checkpoint's own generation settings, with our decoding."""
        from copy import deepcopy

        config = deepcopy(self._network.generation_config)
        config.max_new_tokens, config.max_length = self.max_new_tokens, None
        if self.temperature > 0:
            config.do_sample, config.temperature, config.top_p, config.top_k = True, self.temperature, 1.0, 0
        else:
            config.do_sample, config.temperature, config.top_p, config.top_k = False, None, None, None
        if config.pad_token_id is None:
            config.pad_token_id = self._tokenizer.pad_token_id
        if config.eos_token_id is None:
            config.eos_token_id = self._tokenizer.eos_token_id
        return config

    # -- generating ----------------------------------------------------------------------------------------------------

    def _in_batches(self, items: Sequence[Item], compute: Callable[[Sequence[Item]], Sequence[Reply]]) -> list[Reply]:
        """Returns the replies to all items; `batch_size` becomes what fits into the device's memory."""
        batches = ShrinkingBatches(
            self.batch_size, model=self.checkpoint.name, device=self.device, item=self.item, error=self.error
        )
        try:
            return batches.map(items, compute)
        finally:
            self.batch_size = batches.size

    def _generate(self, **inputs: Any) -> Any:
        """Returns what the network generates; a want of memory goes through to `_in_batches`."""
        import torch

        network, config = self._network, self._generation
        try:
            with torch.inference_mode():
                return network.generate(**inputs, generation_config=config)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            raise self.error(f"The model {self.checkpoint.name!r} failed while it generated: {error}") from error

    def _written(self, new: Any) -> list[tuple[str, int]]:
        """Returns text and number of tokens of each row of new tokens."""
        ends = self._generation.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        # Rows that ended early are filled up to the longest; what follows the end is no token that was written.
        rows = [row[: next((i + 1 for i, token in enumerate(row) if token in ends), len(row))] for row in new.tolist()]
        texts = self._tokenizer.batch_decode(rows, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return [(text.strip(), len(row)) for text, row in zip(texts, rows, strict=True)]

    @staticmethod
    def _template_settings(template: object) -> dict[str, str]:
        """Returns what a chat template is told besides the messages."""
        return {"date_string": _DATE} if "date_string" in str(template) else {}
