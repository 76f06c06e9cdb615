"""The device that a model runs on: which there is, which number format it computes in, and its memory."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from taxtune.errors import ModelError

__all__ = [
    "AdaptiveBatches",
    "device_memory",
    "does_not_fit",
    "find_device",
    "free_memory",
    "is_out_of_memory",
    "memory_of_this_machine",
    "number_format",
]

# Items of a batch where no number is asked for: at the start, and where memory cannot be measured.
_START = 8
# Most items of a batch that is sized to the memory. Beyond about so many, arithmetic takes longer than reading the
# weights, so that more items at once gain little, while more work is lost with a batch.
_MOST = 128
# Batches that fit before twice as many items are tried again: at worst one batch in so many is computed for nothing.
_FITTED = 16
# Share of the free memory that a batch may take; memory is never free in one piece.
_SHARE = 0.8

Item = TypeVar("Item")
Result = TypeVar("Result")


def find_device(asked: str) -> str:
    """Returns the device to run on; for "auto" the first CUDA card, else Apple's MPS, else the CPU.

    Raises:
        TaxtuneError: As `error`, if there is no such device on this machine.
    """
    import torch

    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if asked == "auto":
        return "cuda" if cuda else "mps" if mps else "cpu"
    remedy = "Use auto (the best device available), cpu, cuda, cuda:N or mps."
    try:
        device = torch.device(asked)
    except RuntimeError:
        raise ModelError("Unknown device.", value=asked, remedy=remedy) from None
    there = {"cpu": True, "mps": mps, "cuda": cuda and (device.index or 0) < torch.cuda.device_count()}
    # These can be seen without waking the device up; of other makers' only a trial tells.
    missing = not there.get(device.type, True)
    problem = None if device.type in there else _problem(asked)
    if missing or problem:
        raise ModelError(f"The device {asked!r} is not available on this machine{problem or ''}.", remedy=remedy)
    return asked


def _problem(device: str) -> str | None:
    """Returns what a device says where it cannot be used, or None."""
    import torch

    try:
        torch.empty(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # as the backends have it
        said = " ".join(str(error).split()).rstrip(".")
        return f": {said if len(said) <= 200 else said[:199] + '…'}"
    return None


def memory_of_this_machine() -> int:
    """Returns the bytes of memory of this machine; 16 GiB where it cannot be told."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return 16 * 1024**3


def device_memory(device: str) -> int:
    """Returns the bytes of memory of a device, used or not; Apple's GPUs and the CPU have the machine's."""
    import torch

    if device.startswith("cuda"):
        return int(torch.cuda.mem_get_info(device)[1])
    return memory_of_this_machine()


def number_format(asked: str, device: str) -> str:
    """Returns the number format that a model computes in; for "auto" what suits the device."""
    import torch

    if asked != "auto":
        return asked
    kind = torch.device(device).type
    if kind == "cuda":
        # Older cards emulate bfloat16, slowly.
        return "bfloat16" if torch.cuda.get_device_capability(device)[0] >= 8 else "float16"
    return "float16" if kind == "mps" else "float32"


def is_out_of_memory(error: BaseException) -> bool:
    """Tells whether an error means that the memory of a device or of this machine did not suffice."""
    import torch

    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)


def free_memory(device: str) -> None:
    """Gives back what failed computations left in a device's memory."""
    import torch

    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
    elif device.startswith("mps"):
        torch.mps.empty_cache()


def does_not_fit(model: str, device: str, *, item: str | None = None) -> ModelError:
    """Makes the error of a model that does not fit into a device's memory.

    Args:
        model: The model's name.
        device: The device.
        item: What a single one of does not fit beside it, such as "text"; None where the model alone is too large.
    """
    beside = f" with a single {item}" if item else ""
    return ModelError(
        f"The model {model!r} does not fit into the memory of the device {device!r}{beside}.",
        remedy="Use a smaller model, another device (such as cpu) or, where it can be chosen, dtype bfloat16.",
    )


class AdaptiveBatches:
    """How many items a model computes at once: as asked, or what the device's memory has room for.

    Where the memory runs out the batch is halved, and the same items are computed again; after some batches that fit,
    twice as many are tried again. With "auto" on CUDA each batch's use of memory tells how large the next may be.

    Args:
        size: Items at once, at least 1, or "auto".
        model: The model's name, for the error where not even one item fits.
        device: Where it runs, so that its memory can be given back.
        item: What an item is called in the error: "text", "pair", "question".
    """

    def __init__(self, size: int | Literal["auto"], *, model: str, device: str, item: str = "text") -> None:
        self.model = model
        self.device = device
        self.item = item
        self._measured = size == "auto" and device.startswith("cuda")
        self._wanted = _START if size == "auto" else size
        self._most = _MOST if self._measured else self._wanted
        self._limit = self._most  # what has not run out of memory
        self._fitted = 0  # batches in a row, at the limit

    @property
    def size(self) -> int:
        """Items at once from now on."""
        return min(self._wanted, self._limit)

    def map(
        self,
        items: Sequence[Item],
        compute: Callable[[Sequence[Item]], Sequence[Result]],
        *,
        advance: Callable[[int], None] | None = None,
    ) -> list[Result]:
        """Returns the results of all items in order, computed batch by batch.

        Args:
            items: What is computed; the largest first, so that a batch that does not fit is met at once.
            compute: From a batch to as many results.
            advance: Told how many items were finished.

        Raises:
            TaxtuneError: As `error`, if one item alone does not fit into the memory.
        """
        results: list[Result] = []

        def compute_next(size: int) -> Sequence[Result]:
            return compute(items[len(results) : len(results) + size])

        while len(results) < len(items):
            done = self.run(compute_next, len(items) - len(results))
            results.extend(done)
            if advance is not None:
                advance(len(done))
        return results

    def run(self, compute: Callable[[int], Result], most: int) -> Result:
        """Returns what comes of a computation that cuts its batches itself, told of how many items.

        Args:
            compute: From the items at once to a result; begun anew with half as many where memory runs out.
            most: Items that there are.

        Raises:
            TaxtuneError: As `error`, if one item alone does not fit into the memory.
        """
        while True:
            size = max(1, min(self.size, most))
            memory = _CudaMemory() if self._measured else None
            done = _attempt(compute, size)
            if done is not None:
                self._grow(size, memory)
                return done[0]
            # Here, and not in an except clause, whose traceback would hold on to the tensors of the failed batch.
            free_memory(self.device)
            if size == 1:
                raise does_not_fit(self.model, self.device, item=self.item)
            self._limit, self._fitted = size // 2, 0

    def _grow(self, size: int, memory: _CudaMemory | None) -> None:
        """Takes note of a batch that fitted."""
        if size == self._limit < self._most:
            self._fitted += 1
            if self._fitted == _FITTED:
                self._limit, self._fitted = min(2 * self._limit, self._most), 0
        # What is used whatever the size would make a few items at the end of the work look large.
        if memory is not None and 2 * size >= self.size:
            self._wanted = min(memory.room(size), self._most)


class _CudaMemory:
    """What a batch uses of the memory of the CUDA cards on which the model is, from here to `room`."""

    def __init__(self) -> None:
        import torch

        cuda = torch.cuda
        self._before = {card: used for card in range(cuda.device_count()) if (used := cuda.memory_allocated(card))}
        for card in self._before:
            cuda.reset_peak_memory_stats(card)

    def room(self, size: int) -> int:
        """Returns how many items fit, at least 1, told from a batch of so many."""
        import torch

        rooms = []
        for card, before in self._before.items():
            used = torch.cuda.max_memory_allocated(card) - before
            # What the allocator keeps for later is free for us, too.
            kept = torch.cuda.memory_reserved(card) - torch.cuda.memory_allocated(card)
            free = torch.cuda.mem_get_info(card)[0] + kept
            if used > 0:
                rooms.append(int(_SHARE * size * free / used))
        return max(1, min(rooms, default=size))


def _attempt(compute: Callable[[int], Result], size: int) -> tuple[Result] | None:
    """Returns the result, which may be None, in a tuple; None if memory ran out."""
    try:
        return (compute(size),)
    except Exception as error:
        if is_out_of_memory(error):
            return None
        raise
