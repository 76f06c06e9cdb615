"""What a network makes of images, kept in memory up to a limit."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["ImageFeatureCache", "State", "size"]

# Images of which it is remembered when they were wanted; of a run there are fewer, of a job that never ends more.
_REMEMBERED = 100_000

#: What is kept of one image: tensors by name, on the CPU.
State = Mapping[str, "torch.Tensor"]


class ImageFeatureCache:
    """States by key; threads may share it.

    The least recently used state is given up first, but only for a state that was wanted before and after that: a run
    goes through its images in turn, so that if newcomers always came in, each image would be gone by the time that it
    is wanted again, however little the limit lacks.

    Args:
        memory: Most bytes.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._lock = threading.Lock()
        self._held: OrderedDict[str, State] = OrderedDict()
        self._bytes = 0
        self._clock = 0
        self._wanted: dict[str, tuple[int, int]] = {}  # when a state was wanted last, and the time before; 0 for never

    def __contains__(self, key: str) -> bool:
        return key in self._held

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: str) -> State | None:
        """Returns a state, or None where none is kept."""
        with self._lock:
            self._clock += 1
            self._wanted[key] = (self._clock, self._wanted.pop(key, (0, 0))[0])
            while len(self._wanted) > max(_REMEMBERED, len(self._held)):
                del self._wanted[next(iter(self._wanted))]
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def put(self, key: str, state: State) -> None:
        """Keeps a state, if there is room for it."""
        with self._lock:
            if key in self._held:
                self._bytes -= size(self._held.pop(key))
            room = self.memory - self._bytes
            before = self._wanted.get(key, (0, 0))[1]
            given_up = []
            for other, held in self._held.items():
                if room >= size(state) or self._wanted.get(other, (0, 0))[0] > before:
                    break
                given_up.append(other)
                room += size(held)
            if room >= size(state):
                for other in given_up:
                    self._bytes -= size(self._held.pop(other))
                self._held[key] = state
                self._bytes += size(state)

    def clear(self) -> None:
        """Gives up all states."""
        with self._lock:
            self._held.clear()
            self._bytes = 0


def size(state: State) -> int:
    """Returns the bytes of a state."""
    return sum(tensor.numel() * tensor.element_size() for tensor in state.values())
