"""Devices that models run on: which there are, their number formats, and their memory."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from taxtune.errors import ModelError

__all__ = [
    "AdaptiveBatches",
    "does_not_fit",
    "find_device",
    "free_memory",
    "is_out_of_memory",
    "memory_of_this_machine",
    "number_format",
]

# Items of a batch where no number is asked for.
_START = 8
# Most items of a batch that grows: more at once gain little.
_MOST = 128

Item = TypeVar("Item")
Result = TypeVar("Result")


def find_device(asked: str) -> str:
    """Returns the device to run on; for "auto" the first CUDA card, else Apple's MPS, else the CPU.

    Raises:
        ModelError: If there is no such device on this machine.
    """
    import torch

    if asked == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.empty(1, device=asked).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # as the backends have it
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise ModelError(
            f"The device {asked!r} is not available on this machine: {reason}.",
            remedy="Use auto (the best device available), cpu, cuda, cuda:N or mps.",
        ) from error
    return asked


def memory_of_this_machine() -> int:
    """Returns the bytes of memory of this machine; 16 GiB where that cannot be told."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return 16 * 1024**3


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
    """Tells whether an error means that the memory of a device or this machine ran out."""
    import torch

    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    text = str(error).lower()
    is_named = "out of memory" in text or "can't allocate memory" in text
    return isinstance(error, RuntimeError) and is_named


def free_memory(device: str) -> None:
    """Gives back what failed computations left in a device's memory."""
    import torch

    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
    elif device.startswith("mps"):
        torch.mps.empty_cache()


def does_not_fit(model: str, device: str, *, item: str | None = None) -> ModelError:
    """Returns the error of a model that does not fit into a device's memory.

    Args:
        model: The model.
        device: The device.
        item: What it does not fit beside, such as "text"; None for nothing.
    """
    beside = f" with a single {item}" if item else ""
    return ModelError(
        f"The model {model!r} does not fit into the memory of the device {device!r}{beside}.",
        remedy="Use a smaller model, another device (such as cpu) or, where it can be chosen, dtype "
        "bfloat16.",
    )


class AdaptiveBatches:
    """The number of items that a model computes at once.

    It is as asked, or as many as the device's memory has room for.

    Where the memory runs out the batch is halved for good, and the same items are computed again.
    With "auto" on CUDA batches begin small and are doubled while they fit.

    Args:
        size: Items at once, at least 1, or "auto".
        model: The model's name, for the error where not even one item fits.
        device: Where it runs, so that its memory can be given back.
        item: What an item is called in the error: "text", "pair", "question".
    """

    def __init__(
        self, size: int | Literal["auto"], *, model: str, device: str, item: str = "text"
    ) -> None:
        self.model = model
        self.device = device
        self.item = item
        #: Items at once from now on.
        self.size = _START if size == "auto" else size
        is_growing = size == "auto" and device.startswith("cuda")
        self._most = _MOST if is_growing else self.size

    def map(
        self,
        items: Sequence[Item],
        compute: Callable[[Sequence[Item]], Sequence[Result]],
        *,
        advance: Callable[[int], None] | None = None,
    ) -> list[Result]:
        """Computes the results of all items, batch by batch, in order.

        Args:
            items: The items; the largest first, so that a batch that does not fit is met at once.
            compute: From a batch to as many results.
            advance: Told how many items were finished.

        Raises:
            ModelError: If one item alone does not fit into the memory.
        """
        results: list[Result] = []

        def compute_next(size: int) -> Sequence[Result]:
            start = len(results)
            return compute(items[start : start + size])

        while len(results) < len(items):
            batch = self.run(compute_next, len(items) - len(results))
            results.extend(batch)
            if advance is not None:
                advance(len(batch))
        return results

    def run(self, compute: Callable[[int], Result], most: int) -> Result:
        """Computes one batch.

        Args:
            compute: From the number of items to a result; begun anew with half as many where memory
                runs out.
            most: Items that there are.

        Raises:
            ModelError: If one item alone does not fit into the memory.
        """
        while True:
            size = max(1, min(self.size, most))
            try:
                result = compute(size)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
            else:
                if size == self.size:
                    self.size = min(2 * self.size, self._most)
                return result
            # Not in the except clause, whose traceback would hold on to the tensors of the failed
            # batch.
            free_memory(self.device)
            if size == 1:
                raise does_not_fit(self.model, self.device, item=self.item)
            self._most = size // 2
            self.size = self._most
