"""The device that a model runs on: which there is, which number format it computes in, and its memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import TypeVar

from taxtune.errors import TaxtuneError

__all__ = ["find_device", "free_memory", "in_shrinking_batches", "is_out_of_memory", "number_format"]

Item = TypeVar("Item")
Result = TypeVar("Result")


def find_device(asked: str, error: type[TaxtuneError]) -> str:
    """Returns the device to run on; for "auto" the first CUDA card, else Apple's MPS, else the CPU.

    Raises:
        TaxtuneError: As `error`, if there is no such device.
    """
    import torch

    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if asked == "auto":
        return "cuda" if cuda else "mps" if mps else "cpu"
    try:
        device = torch.device(asked)
    except RuntimeError:
        raise error("There is no such device.", value=asked, remedy="Use auto, cpu, cuda, cuda:N or mps.") from None
    there = {"cpu": True, "mps": mps, "cuda": cuda and (device.index or 0) < torch.cuda.device_count()}
    if not there.get(device.type, False):
        raise error(f"The device {asked!r} is not available here.", remedy="Use device: auto.")
    return asked


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
    """Tells whether an error means that the device's memory did not suffice."""
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
    elif device == "mps":
        torch.mps.empty_cache()


def in_shrinking_batches(
    items: Sequence[Item],
    size: int,
    compute: Callable[[Sequence[Item]], Sequence[Result] | None],
    *,
    device: str,
    too_big: Callable[[], Exception],
) -> tuple[list[Result], int]:
    """Returns the results of all items in order, and the batch size that fitted; a batch that does not is halved.

    Args:
        items: What is computed.
        size: Items computed at once to start with, at least 1.
        compute: From a batch to as many results, or None where the device ran out of memory.
        device: Where, so that its memory can be given back.
        too_big: Makes the error to raise where one item alone does not fit.
    """
    results: list[Result] = []
    while len(results) < len(items):
        batch = items[len(results) : len(results) + size]
        done = compute(batch)
        if done is not None:
            results += done
            continue
        # Here, and not in an except clause, whose traceback would hold on to the tensors of the failed batch.
        free_memory(device)
        if len(batch) == 1:
            raise too_big()
        size = len(batch) // 2
    return results, size
