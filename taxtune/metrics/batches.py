"""Batches that shrink: where the device runs out of memory, the batch is halved and computed again."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import TypeVar

from taxtune.errors import ModelError

__all__ = ["BatchSize", "is_out_of_memory"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class BatchSize:
    """How many items a model computes at once; it only ever shrinks.

    Args:
        size: Items at the start, at least 1.
        model: The model's name, for the error where not even one item fits.
    """

    def __init__(self, size: int, model: str) -> None:
        self.size = size
        self.model = model

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
            ModelError: If one item alone does not fit into the memory.
        """
        results: list[Result] = []
        while len(results) < len(items):
            batch = items[len(results) : len(results) + self.size]
            done = self._attempt(batch, compute)
            if done is None:
                # Here, and not in an except clause, whose traceback would hold on to the tensors of the failed batch.
                _free_memory()
                if len(batch) == 1:
                    raise ModelError(
                        f"The model {self.model!r} does not fit into the device's memory with a single text.",
                        remedy="Use a smaller model or another device (--device cpu).",
                    )
                self.size = len(batch) // 2
                continue
            results.extend(done)
            if advance is not None:
                advance(len(batch))
        return results

    @staticmethod
    def _attempt(batch: Sequence[Item], compute: Callable[[Sequence[Item]], Sequence[Result]]) -> list[Result] | None:
        try:
            return list(compute(batch))
        except Exception as error:
            if is_out_of_memory(error):
                return None
            raise


def is_out_of_memory(error: BaseException) -> bool:
    """Tells whether a device or this machine had too little memory."""
    import torch

    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)


def _free_memory() -> None:
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    elif torch.backends.mps.is_available():
        torch.mps.empty_cache()
