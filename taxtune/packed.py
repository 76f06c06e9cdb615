"""Texts, and numbers by text, in a few arrays: small in memory, quick to learn, and read from disk by being mapped.

A dictionary of ten million short texts takes gigabytes and half a minute to read. Here texts are one block of bytes
with the places where they end (`Texts`), and what a text leads to is found by its hash in a sorted array (`Multimap`).
A file of them is mapped into memory, so that it costs nothing to open, only what is looked up is read, and processes
share it.
"""

from __future__ import annotations

import gc
import json
import mmap
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from taxtune.atomic import write_bytes
from taxtune.errors import TaxtuneError

__all__ = ["Multimap", "MultimapBuilder", "Part", "Texts", "kept", "read_parts", "text_key", "write_parts"]

_MAGIC = b"taxtune parts 1\n"
_ALIGNMENT = 64
_ENCODING = ("utf-8", "surrogatepass")  # an answer may hold half of a character


@dataclass(frozen=True, eq=False)
class Texts(Sequence[str]):
    """Texts as one block of bytes; each is decoded when it is asked for.

    Attributes:
        block: The texts in UTF-8, one behind the other.
        ends: Where each ends, shape (texts,).
    """

    block: NDArray[np.uint8]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Self:
        """Returns texts packed."""
        encoded = [text.encode(*_ENCODING) for text in texts]
        ends = np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)), dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), ends)

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        stop = int(self.ends[index])  # which knows numbers beyond the last, and counts negative ones from there
        start = int(self.ends[index - 1]) if index % len(self) else 0
        return self.block[start:stop].tobytes().decode(*_ENCODING)

    def __iter__(self) -> Iterator[str]:
        # Cut from one decoded text: a third of the time of decoding each.
        ends = self.ends
        if len(self.block) and self.block.max() >= 0x80:  # characters, and not the further bytes of one
            characters = np.append(0, np.cumsum((self.block & 0xC0) != 0x80))
            ends = characters[ends]
        cuts = [0, *ends.tolist()]
        return map(self.block.tobytes().decode(*_ENCODING).__getitem__, map(slice, cuts, cuts[1:]))


@dataclass(frozen=True, eq=False)
class Multimap:
    """Texts to ascending numbers.

    A text is known by 64 bits of its hash: of ten million texts any two share these with a probability of 3 in a
    million, and a text that is not there is taken for one that is with 1 in 10^12.

    Attributes:
        keys: The hashes, ascending, shape (keys,).
        starts: Where the numbers of each key start in `values`, shape (keys + 1,).
        values: The numbers, shape (values,).
    """

    keys: NDArray[np.uint64]
    starts: NDArray[np.int64]
    values: NDArray[np.int32]

    def __contains__(self, text: str) -> bool:
        return self._at(text) is not None

    def find(self, text: str) -> NDArray[np.int32]:
        """Returns the numbers of a text, ascending, shape (numbers,); none where it is not there."""
        i = self._at(text)
        return self.values[:0] if i is None else self.values[self._starts[i] : self._starts[i + 1]]

    def _at(self, text: str) -> int | None:
        key = text_key(text)
        i = bisect_left(self._keys, key)
        return i if i < len(self._keys) and self._keys[i] == key else None

    # Items of a memoryview are plain numbers, which are much quicker to compare than numpy's.
    @cached_property
    def _keys(self) -> memoryview:
        return self.keys.data

    @cached_property
    def _starts(self) -> memoryview:
        return self.starts.data


class MultimapBuilder:
    """Gathers texts with their numbers, in any order, at twelve bytes each."""

    def __init__(self) -> None:
        self._digests = bytearray()
        self._values = array("i")

    def add(self, text: str, value: int) -> None:
        """Adds a number to those of a text."""
        self._digests += blake2b(text.encode(*_ENCODING), digest_size=8).digest()
        self._values.append(value)

    def build(self, *, repeats: bool = False) -> Multimap:
        """Returns what was gathered.

        Args:
            repeats: Whether a number stands as often as it was added, or else once.
        """
        keys = np.frombuffer(self._digests, dtype="<u8").astype(np.uint64)
        values = np.frombuffer(self._values, dtype=np.int32)
        order = np.lexsort((values, keys))
        keys, values = keys[order], values[order]
        if not repeats:
            new = np.ones(len(keys), dtype=bool)
            new[1:] = (keys[1:] != keys[:-1]) | (values[1:] != values[:-1])
            keys, values = keys[new], values[new]
        first = np.ones(len(keys), dtype=bool)
        first[1:] = keys[1:] != keys[:-1]
        starts = np.append(np.flatnonzero(first), len(keys))
        return Multimap(keys[first], starts, values)


@lru_cache(maxsize=100_000)
def text_key(text: str) -> int:
    """Returns the 64 bits that a text is known by."""
    return int.from_bytes(blake2b(text.encode(*_ENCODING), digest_size=8).digest(), "little")


# -- files -------------------------------------------------------------------------------------------------------------

#: What a file holds by name.
Part = NDArray[Any] | Texts | Multimap
_KINDS = {kind.__name__: kind for kind in (Texts, Multimap)}


def kept(path: Path, make: Callable[[], dict[str, Part]]) -> dict[str, Part]:
    """Returns the parts in a file, or makes them and keeps them there; a damaged file is made again.

    Args:
        path: The file, whose name has to say everything that the parts follow from.
        make: Makes the parts.
    """
    try:
        return read_parts(path)
    except (OSError, ValueError):
        with _without_collection():
            parts = make()
    with suppress(OSError, TaxtuneError):  # a folder that cannot be written to keeps nothing
        write_parts(path, parts)
    return parts


@contextmanager
def _without_collection() -> Iterator[None]:
    """Keeps Python from looking for cycles again and again among millions of names, which have none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def write_parts(path: Path, parts: Mapping[str, Part]) -> None:
    """Writes parts to a file in one step: a line that says where they are, and the arrays as they are in memory.

    Raises:
        TaxtuneError: If the file cannot be written whole.
    """
    arrays: list[NDArray[Any]] = []
    table: dict[str, Any] = {}
    offset = 0
    for name, part in parts.items():
        members = [part] if isinstance(part, np.ndarray) else [getattr(part, field.name) for field in fields(part)]
        places = []
        for member in (np.asarray(member, order="C") for member in members):
            places.append([member.dtype.str, member.shape, offset])
            arrays.append(member)
            offset += -(-member.nbytes // _ALIGNMENT) * _ALIGNMENT
        table[name] = [type(part).__name__, places]
    header = _MAGIC + json.dumps({"parts": table, "size": offset}).encode()
    header += b" " * (-(len(header) + 1) % _ALIGNMENT) + b"\n"

    def blocks() -> Iterator[bytes | memoryview]:
        yield header
        for member in arrays:
            yield member.reshape(-1).view(np.uint8).data
            yield bytes(-member.nbytes % _ALIGNMENT)

    write_bytes(path, blocks())


def read_parts(path: Path) -> dict[str, Part]:
    """Returns the parts of a file, their arrays read-only and mapped into memory.

    Raises:
        OSError: If it cannot be opened.
        ValueError: If it is none of `write_parts`, or is not whole.
    """
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if mapped[: len(_MAGIC)] != _MAGIC:
        raise ValueError("not a file of parts")
    start = mapped.find(b"\n", len(_MAGIC)) + 1
    header = json.loads(mapped[len(_MAGIC) : start])
    if len(mapped) != start + header["size"]:
        raise ValueError("the file is not whole")
    parts: dict[str, Part] = {}
    for name, (kind, places) in header["parts"].items():
        members = [
            np.frombuffer(mapped, dtype, int(np.prod(shape)), start + offset).reshape(shape)
            for dtype, shape, offset in places
        ]
        parts[name] = _KINDS[kind](*members) if kind in _KINDS else members[0]
    return parts
