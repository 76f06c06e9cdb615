from __future__ import annotations

from collections.abc import Sequence

import pytest

from taxtune.errors import ModelError
from taxtune.metrics.batches import BatchSize, is_out_of_memory


class Device:
    """Squares up to a number of items at once and is out of memory beyond it."""

    def __init__(self, room: int, error: BaseException) -> None:
        self.room, self.error = room, error
        self.batches: list[int] = []

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.batches.append(len(items))
        if len(items) > self.room:
            raise self.error
        return [item * item for item in items]


def test_batches_shrink_until_they_fit_and_stay_small() -> None:
    device, told = Device(3, RuntimeError("CUDA out of memory. Tried to allocate")), []
    batch = BatchSize(16, "m")
    assert batch.map(range(10), device, advance=told.append) == [i * i for i in range(10)]
    assert device.batches == [10, 5, 2, 2, 2, 2, 2]
    assert batch.size == 2
    assert told == [2] * 5
    assert batch.map([], device) == []


def test_one_item_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(ModelError, match=r"'big'.*memory"):
        BatchSize(4, "big").map([1, 2], Device(0, MemoryError()))


def test_other_errors_are_not_taken_for_want_of_memory() -> None:
    with pytest.raises(RuntimeError, match="shape"):
        BatchSize(4, "m").map([1, 2, 3], Device(1, RuntimeError("shape mismatch")))


def test_what_counts_as_out_of_memory() -> None:
    import torch

    assert is_out_of_memory(torch.cuda.OutOfMemoryError("x"))
    assert is_out_of_memory(RuntimeError("MPS backend out of memory"))
    assert not is_out_of_memory(ValueError("out of memory"))
