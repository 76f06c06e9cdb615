from __future__ import annotations

import gc
import weakref

import pytest
import torch

from taxtune import hardware
from taxtune.errors import ModelError
from taxtune.hardware import AdaptiveBatches, does_not_fit, find_device, number_format


class Device:
    """Squares up to a number of items at once and is out of memory beyond it."""

    def __init__(self, room, error):
        self.room = room
        self.error = error
        self.batches: list[int] = []

    def __call__(self, items):
        self.batches.append(len(items))
        if len(items) > self.room:
            raise self.error
        return [item * item for item in items]


@pytest.fixture(autouse=True, scope="module")
def _little_to_collect():
    """Each time memory is given back all objects are gone through, those of the tests before among them."""
    gc.freeze()


def squares(count):
    return [i * i for i in range(count)]


def batches(size, **more):
    return AdaptiveBatches(size, **{"model": "m", "device": "cpu", **more})


def test_batches_shrink_until_they_fit():
    device = Device(3, RuntimeError("CUDA out of memory. Tried to allocate"))
    batch = batches(16)
    told = []
    assert batch.map(range(10), device, advance=told.append) == squares(10)
    assert device.batches == [10, 5, 2, 2, 2, 2, 2]
    assert batch.size == 2
    assert told == [2] * 5
    assert batch.map([], device) == []
    assert batches(4).map(range(10), Device(9, device.error)) == squares(10)


def test_an_automatic_batch_grows_until_the_card_is_full():
    device = Device(40, torch.cuda.OutOfMemoryError("CUDA out of memory."))
    batch = batches("auto", device="cuda")
    assert batch.map(range(200), device) == squares(200)
    assert device.batches == [8, 16, 32, 64, 32, 32, 32, 32, 16]
    roomy = batches("auto", device="cuda")
    roomy.map(range(500), Device(10**6, MemoryError()))
    assert roomy.size == 128


def test_elsewhere_an_automatic_batch_has_a_fixed_size():
    device = Device(99, MemoryError())
    batches("auto").map(range(20), device)
    assert device.batches == [8, 8, 4]


def test_a_computation_that_cuts_its_own_batches_begins_anew():
    tried = []

    def compute(size):
        tried.append(size)
        if size > 5:
            raise torch.cuda.OutOfMemoryError("x")
        return  # which is a result like any other

    batch = batches(64)
    assert batch.run(compute, most=40) is None
    assert tried == [40, 20, 10, 5]
    assert batch.size == 5
    assert batch.run(lambda size: size, most=0) == 1


def test_one_item_that_does_not_fit_is_an_error_that_names_it():
    message = r"'big' does not fit.*memory of the device 'cpu' with a single text\."
    with pytest.raises(ModelError, match=message):
        batches(4, model="big").map([1, 2], Device(0, MemoryError()))
    with pytest.raises(ModelError, match="with a single question"):
        batches(4, item="question").map([1, 2], Device(0, MemoryError()))
    assert "single" not in str(does_not_fit("big", "cpu"))


def test_what_the_failed_batch_held_is_let_go_before_the_memory_is_given_back(
    monkeypatch,
):
    held = []
    freed = []

    def free_memory(device):
        freed.append((device, held[-1]() is None))

    monkeypatch.setattr(hardware, "free_memory", free_memory)

    def compute(items):
        tensor = torch.zeros(3)
        held.append(weakref.ref(tensor))
        if len(items) > 1:
            raise RuntimeError("MPS backend out of memory")
        return list(items)

    assert batches(4, device="mps").map([1, 2, 3], compute) == [1, 2, 3]
    assert freed == [("mps", True)]


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("abacus", "not available on this machine: "),
        ("cuda:99", "not available"),
        ("meta", "not available on this machine: "),
    ],
)
def test_devices_that_are_not_there(device, said):
    with pytest.raises(ModelError, match=said) as caught:
        find_device(device)
    assert "auto" in str(caught.value)


@pytest.mark.parametrize(
    ("cuda", "mps", "best"),
    [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu"), (True, False, "cuda")],
)
def test_the_best_device(cuda, mps, best, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert (find_device("auto"), find_device("cpu")) == (best, "cpu")


def test_number_formats(monkeypatch):
    def capability(device):
        return (8, 6) if device == "cuda:1" else (7, 5)

    monkeypatch.setattr(torch.cuda, "get_device_capability", capability)
    assert number_format("auto", "cpu") == "float32"
    assert number_format("auto", "mps") == "float16"
    assert number_format("auto", "cuda") == "float16"
    assert number_format("auto", "cuda:1") == "bfloat16"
    assert number_format("float16", "cpu") == "float16"
