"""Vision-language models to begin with, and which of them this machine has room for."""

from __future__ import annotations

from dataclasses import dataclass

from taxtune.models.weights import KNOWN_MODELS, OF_GPU, KnownModel

__all__ = ["Machine", "Offer", "find_machine", "make_offer"]

GB = 1e9

# Weights below which a model on a GPU is not worth its speed.
_WORTH_A_GPU = 4.0
# Share of a machine's own memory that a model may take.
_OF_MACHINE = 0.5


@dataclass(frozen=True, slots=True)
class Machine:
    """What a model can run on.

    Attributes:
        device: "cuda", "mps" or "cpu".
        gigabytes: Memory of the device.
    """

    device: str
    gigabytes: float

    @property
    def room(self) -> float:
        """Gigabytes that a model may take."""
        return self.gigabytes * (OF_GPU if self.device == "cuda" else _OF_MACHINE)

    def __str__(self) -> str:
        where = {"cuda": "a GPU with", "mps": "an Apple GPU with", "cpu": "no GPU and"}[self.device]
        return f"{where} {self.gigabytes:.0f} GB of memory"


@dataclass(frozen=True, slots=True)
class Offer:
    """What a machine has room for.

    Attributes:
        machine: The machine.
        first: The model to begin with; None where there is no room for any.
        here: Whether its weights are on this machine already.
        larger: Larger ones that there is room for, the smallest first.
    """

    machine: Machine
    first: KnownModel | None
    here: bool
    larger: tuple[KnownModel, ...]


def find_machine() -> Machine:
    """Returns the device that a model runs on by default, and its memory."""
    from taxtune.hardware import device_memory, find_device

    device = find_device("auto")
    return Machine(device, device_memory(device) / GB)


def make_offer(machine: Machine, here: frozenset[str] = frozenset()) -> Offer:
    """Returns the models that a machine has room for.

    The first is the largest that is on this machine already; or else the smallest, but on a GPU the smallest that is
    worth one. Models whose licence has to be accepted are offered and not chosen.

    Args:
        machine: The machine.
        here: Names of the models whose weights are on this machine.
    """
    fitting = [each for each in KNOWN_MODELS.values() if each.needs(machine.device) <= machine.room]
    present = [each for each in fitting if each.name in here]
    free = [each for each in fitting if not each.gated]
    if machine.device != "cpu":
        free = [each for each in free if each.gigabytes >= _WORTH_A_GPU] or free[-1:]
    first = present[-1] if present else next(iter(free), None)
    larger = tuple(each for each in fitting if first is not None and each.gigabytes > first.gigabytes)
    return Offer(machine, first, bool(present), larger)
