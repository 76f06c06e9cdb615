"""Which models a machine is offered."""

from __future__ import annotations

import pytest

from taxtune.drafting.offer import Machine, find_machine, make_offer
from taxtune.hardware import device_memory, memory_of_this_machine
from taxtune.models.weights import KNOWN_MODELS

SMALLEST, *_, LARGEST = KNOWN_MODELS.values()


@pytest.mark.parametrize(
    ("device", "gigabytes", "first", "largest"),
    [
        ("cpu", 4, "SmolVLM-256M-Instruct", "SmolVLM-256M-Instruct"),
        ("cpu", 16, "SmolVLM-256M-Instruct", "SmolVLM-500M-Instruct"),
        ("cpu", 64, "SmolVLM-256M-Instruct", "gemma-3-4b-it"),
        ("cuda", 4, "SmolVLM-500M-Instruct", "SmolVLM-500M-Instruct"),
        ("cuda", 8, "SmolVLM-Instruct", "SmolVLM-Instruct"),
        ("cuda", 24, "SmolVLM-Instruct", "Qwen2.5-VL-7B-Instruct"),
        ("cuda", 80, "SmolVLM-Instruct", "Llama-3.2-11B-Vision-Instruct"),
        ("mps", 16, "SmolVLM-Instruct", "SmolVLM-Instruct"),
    ],
)
def test_the_first_is_the_smallest_that_suits_and_the_larger_ones_fit(
    device: str, gigabytes: float, first: str, largest: str
) -> None:
    machine = Machine(device, gigabytes)
    offer = make_offer(machine)
    assert offer.first is not None
    offered = (offer.first, *offer.larger)
    assert (offered[0].name.split("/")[1], offered[-1].name.split("/")[1]) == (first, largest)
    assert all(each.needs(device) <= machine.room for each in offered)
    assert [each.gigabytes for each in offered] == sorted(each.gigabytes for each in offered)
    assert not offer.first.gated, "a licence is accepted by a person"
    assert not offer.here


def test_a_machine_without_room_is_offered_nothing() -> None:
    offer = make_offer(Machine("cpu", 1))
    assert (offer.first, offer.larger) == (None, ())


def test_the_largest_that_is_here_already_is_taken_before_a_download() -> None:
    here = frozenset({"Qwen/Qwen2.5-VL-3B-Instruct", SMALLEST.name, LARGEST.name})
    offer = make_offer(Machine("cuda", 16), here)
    assert offer.first is not None
    assert (offer.first.name, offer.here) == ("Qwen/Qwen2.5-VL-3B-Instruct", True), "the largest does not fit"


def test_a_cpu_computes_with_four_bytes_a_parameter() -> None:
    assert SMALLEST.needs("cpu") == pytest.approx(2 * SMALLEST.needs("cuda"))


def test_this_machine_is_told() -> None:
    machine = find_machine()
    assert machine.gigabytes == pytest.approx(device_memory(machine.device) / 1e9)
    assert device_memory("cpu") == memory_of_this_machine()
    assert f"{machine.gigabytes:.0f} GB of memory" in str(machine)
