"""What is kept of images: in memory up to a limit, and on disk up to another."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["State", "States"]

# Images of which it is remembered when they were wanted; of a run there are fewer, of a job that never ends more.
_REMEMBERED = 100_000

#: What is kept of one image: tensors by name, on the CPU.
State = Mapping[str, "torch.Tensor"]


class States:
    """States by key; two threads may use it at once.

    Memory gives up what was not used for longest, but only for a state that was wanted before and after that: a run
    goes through its images in turn, so that if newcomers always came in, each image would be gone by the time that it
    is wanted again, however little the limit lacks.

    A state is in memory, on disk, or both. What does not fit into memory is on disk only, and what fits neither is
    given up: it is then computed again. A file that cannot be read or written is as if it was not there.

    Args:
        memory: Most bytes in memory.
        folder: Where the files are; shared by models, processes and runs.
        disk: Most bytes of files; 0 keeps none.
    """

    def __init__(self, memory: int, folder: Path | None = None, disk: int = 0) -> None:
        self.memory, self.disk, self.folder = memory, disk, folder
        self._lock = threading.Lock()
        self._held: OrderedDict[str, State] = OrderedDict()
        self._bytes = 0
        self._began = time.time() - 1  # file systems have coarse clocks
        self._clock = 0
        self._wanted: dict[str, tuple[int, int]] = {}  # when a state was wanted last, and the time before; 0 for never

    def __contains__(self, key: str) -> bool:
        with self._lock:
            held = key in self._held
        file = self._file(key)
        return held or (file is not None and file.exists())

    def __len__(self) -> int:
        """How many states are in memory."""
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
                return self._held[key]
        file = self._file(key)
        if file is None:
            return None
        from safetensors.torch import load_file

        try:
            state: State = load_file(file)
            os.utime(file)  # the time of last use
        except Exception:  # missing, cut off, or another program's: it is computed again
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)
            return None
        self.hold(key, state)
        return state

    def put(self, key: str, state: State) -> None:
        """Keeps a state as long as there is room for it."""
        self.hold(key, state)
        file = self._file(key)
        if file is None or size(state) > self.disk:
            return
        from safetensors.torch import save_file

        part = file.with_name(f"{secrets.token_hex(8)}.part")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            if self._make_room(size(state)):
                save_file(dict(state), part)
                os.replace(part, file)
        except Exception:  # a full disk, among others: what is kept is only kept for speed
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)

    def clear(self) -> None:
        """Gives up what is in memory."""
        with self._lock:
            self._held.clear()
            self._bytes = 0

    def hold(self, key: str, state: State) -> None:
        """Keeps a state in memory alone, if there is room for it."""
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

    def _file(self, key: str) -> Path | None:
        return None if self.folder is None or not self.disk else self.folder / key[:2] / f"{key}.safetensors"

    def _make_room(self, needed: int) -> bool:
        """Removes files that no run used since this one began, the oldest first; returns whether that is enough."""
        assert self.folder is not None
        files = []
        for file in self.folder.glob("*/*"):  # each time, since other processes write here, too
            with contextlib.suppress(OSError):  # another process was quicker
                files.append((file.stat().st_mtime, file.stat().st_size, file))
        room = self.disk - sum(length for _, length, _ in files)
        for used, length, file in sorted(files):
            if used >= self._began or room >= needed:
                break
            file.unlink(missing_ok=True)
            room += length
        return room >= needed


def size(state: State) -> int:
    """Returns the bytes of a state."""
    return sum(tensor.numel() * tensor.element_size() for tensor in state.values())
