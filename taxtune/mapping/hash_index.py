"""Sorted arrays that lead from texts to numbers, and the `.npz` files that they are kept in.

A dictionary of ten million short texts takes gigabytes. Here a text is known by 64 bits of its
hash, and its numbers are found by binary search.
"""

from __future__ import annotations

import io
from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from taxtune.atomic import write_bytes
from taxtune.errors import TaxtuneError

__all__ = ["Multimap", "MultimapBuilder", "Part", "cached", "text_key"]

_ENCODING = ("utf-8", "surrogatepass")  # an answer may hold half of a character


@dataclass(frozen=True, eq=False)
class Multimap:
    """Texts to ascending numbers.

    Of ten million texts, any two share a hash with a probability of 3 in a million; a text that is
    not there is taken for one that is with a probability of 1 in 10^12.

    Attributes:
        keys: The hashes, ascending, shape (keys,).
        starts: Where the numbers of each key start in `values`, shape (keys + 1,).
        values: The numbers, shape (values,).
    """

    keys: NDArray[np.uint64]
    starts: NDArray[np.int64]
    values: NDArray[np.int32]

    def find(self, text: str) -> NDArray[np.int32]:
        """Returns the numbers of a text, ascending, shape (numbers,); none if it is not there."""
        key = text_key(text)
        i = bisect_left(self._keys, key)
        if i == len(self._keys) or self._keys[i] != key:
            return self.values[:0]
        return self.values[self._starts[i] : self._starts[i + 1]]

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
        self._keys = array("Q")
        self._values = array("i")

    def add(self, text: str, value: int) -> None:
        """Adds a number to those of a text."""
        self._keys.append(text_key(text))
        self._values.append(value)

    def build(self, *, repeats: bool = False) -> Multimap:
        """Returns the table, in which a text has equal numbers only if `repeats`."""
        keys = np.frombuffer(self._keys, dtype=np.uint64)
        values = np.frombuffer(self._values, dtype=np.int32)
        order = np.lexsort((values, keys))
        keys = keys[order]
        values = values[order]
        if not repeats:
            is_new = np.ones(len(keys), dtype=bool)
            is_new[1:] = (keys[1:] != keys[:-1]) | (values[1:] != values[:-1])
            keys = keys[is_new]
            values = values[is_new]
        unique, starts = np.unique(keys, return_index=True)
        return Multimap(keys=unique, starts=np.append(starts, len(keys)), values=values)


@lru_cache(maxsize=100_000)
def text_key(text: str) -> int:
    """Returns the 64 bits that a text is known by, the same in every process."""
    digest = blake2b(text.encode(*_ENCODING), digest_size=8).digest()
    return int.from_bytes(digest, "little")


#: What a file holds by name; texts are without line feeds.
Part = NDArray[Any] | Multimap | list[str]


def cached(path: Path, make: Callable[[], dict[str, Part]]) -> dict[str, Part]:
    """Returns the parts in an `.npz` file; makes them and writes the file if it cannot be read."""
    try:
        with np.load(path) as file:
            return _parts(file)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        parts = make()
    arrays: dict[str, Any] = {}
    for name, part in parts.items():
        if isinstance(part, Multimap):
            arrays[f"{name}/keys"] = part.keys
            arrays[f"{name}/starts"] = part.starts
            arrays[f"{name}/values"] = part.values
        elif isinstance(part, list):
            lines = "".join(f"{text}\n" for text in part)
            arrays[f"{name}/texts"] = np.frombuffer(lines.encode(*_ENCODING), dtype=np.uint8)
        else:
            arrays[name] = part
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    with suppress(OSError, TaxtuneError):  # a folder that cannot be written to keeps nothing
        write_bytes(path, stream.getvalue())
    return parts


def _parts(file: Mapping[str, NDArray[Any]]) -> dict[str, Part]:
    parts: dict[str, Part] = {}
    for key in file:
        name, _, field = key.partition("/")
        if field == "texts":
            parts[name] = file[key].tobytes().decode(*_ENCODING).split("\n")[:-1]
        elif field == "keys":
            parts[name] = Multimap(
                keys=file[key],
                starts=file[f"{name}/starts"],
                values=file[f"{name}/values"],
            )
        elif not field:
            parts[name] = file[key]
    return parts
