"""Examples: images with the node that they show; by the million in columns, and which of them show the same image."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError, shortened
from taxtune.progress import note

__all__ = ["Example", "Examples", "distinct", "merge_duplicates", "note_repeated", "some"]

IntArray = NDArray[np.int64]
Indices = NDArray[np.integer[Any]]
#: Content hashes, 32 bytes each, shape (n, 32).
Hashes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Example:
    """An image and the node that it shows.

    Attributes:
        id: The image's name as the source writes it; unique among the examples of a source.
        image: The image file.
        label: The label as the source writes it.
        target: Number of the node that the label names on the taxonomy.
        sha256: SHA-256 of the image file's bytes. Empty until the file was read, which for iNaturalist's data is when
            the example is drawn into a split.
        checked: Whether the file was found good when it was read: of large sources only what is drawn is decoded.
    """

    id: str
    image: Path
    label: str
    target: int
    sha256: str = ""
    checked: bool = True


class Examples(Sequence[Example]):
    """Examples in columns, some hundred bytes each beside their names; an item is made when it is asked for.

    Args:
        folder: What the images' names are relative to.
        ids: The images' names as the source writes them.
        labels: The labels as the source writes them, each once.
        label: The label of each example: its place in `labels`, shape (n,).
        target: The node of each example, shape (n,).
        files: Images whose file is not the name in the folder, by place.
        sha256: The content hashes, or None where the files were not read.
        checked: Whether the files that were read were also decoded.
    """

    def __init__(
        self,
        folder: Path,
        ids: list[str],
        labels: Sequence[str],
        label: Indices,
        target: Indices,
        *,
        files: dict[int, str] | None = None,
        sha256: Hashes | None = None,
        checked: bool = True,
    ) -> None:
        self._folder, self._labels = folder, labels
        self.ids = ids
        self.label, self.target = label.astype(np.int32, copy=False), target.astype(np.int32, copy=False)
        self._files = files or {}
        self.sha256, self.checked = sha256, checked

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = range(len(self))[index]
        return Example(
            self.ids[i],
            self.image(i),
            self._labels[self.label[i]],
            int(self.target[i]),
            "" if self.sha256 is None else self.sha256[i].tobytes().hex(),
            self.checked,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Examples({len(self)} of {len(self._labels)} labels)"

    def image(self, i: int) -> Path:
        """Returns the image file of example `i`."""
        return Path(self._files[i]) if i in self._files else self._folder / self.ids[i]

    def images(self) -> Iterator[Path]:
        """Yields the image files."""
        return map(self.image, range(len(self)))

    def take(self, places: IntArray) -> Examples:
        """Returns the examples at some places."""
        if len(places) == len(self):
            return self
        return Examples(
            self._folder,
            [self.ids[i] for i in places.tolist()],
            self._labels,
            self.label[places],
            self.target[places],
            files={to: self._files[i] for to, i in enumerate(places.tolist()) if i in self._files},
            sha256=None if self.sha256 is None else self.sha256[places],
            checked=self.checked,
        )

    def with_hashes(self, sha256: Hashes, *, checked: bool) -> Examples:
        """Returns the examples with their content hashes."""
        return Examples(
            self._folder,
            self.ids,
            self._labels,
            self.label,
            self.target,
            files=self._files,
            sha256=sha256,
            checked=checked,
        )


def merge_duplicates(examples: Examples, *, source: str | None = None) -> Examples:
    """Keeps the first of the examples that show the same image, and notes how many others there are; see `distinct`."""
    kept, repeated = distinct(examples, source=source)
    if len(repeated):
        note_repeated([examples.ids[i] for i in repeated.tolist()])
    return examples.take(kept)


def note_repeated(names: Sequence[str]) -> None:
    """Notes which images are passed over since others show the same."""
    if names:
        count = "1 image is" if len(names) == 1 else f"{len(names)} images are"
        note(f"{count} listed more than once with the same label: {some(names)}. Each is used once.")


def distinct(examples: Sequence[Example], *, source: str | None = None) -> tuple[IntArray, IntArray]:
    """Returns the places of the first examples that show each image, and those of the others.

    Images are the same that have the same content where it is known, or else are the same file.

    Raises:
        DataError: If the same image has two labels; it names all such pairs.
    """
    first = _firsts(_keys(examples))
    places = np.arange(len(first))
    repeated = np.flatnonzero(first != places)
    conflicts: list[str] = []
    others: list[int] = []
    for i in repeated.tolist():
        earlier, example = examples[int(first[i])], examples[i]
        if earlier.target != example.target:
            conflicts.append(f"  {earlier.id} is {earlier.label!r}, {example.id} is {example.label!r}")
        else:
            others.append(i)
    if conflicts:
        raise DataError(
            "The same image has two labels:\n" + "\n".join(shortened(conflicts)) + "\nKeep one row of each pair.",
            file=source,
        )
    return np.flatnonzero(first == places), np.array(others, dtype=np.int64)


def _keys(examples: Sequence[Example]) -> Hashes:
    """Returns 32 bytes for each example that tell whether two show the same image, shape (n, 32)."""
    if isinstance(examples, Examples):
        if examples.sha256 is not None:
            return examples.sha256
        names: Iterable[str] = map(str, examples.images())
    else:
        names = (example.sha256 or str(example.image) for example in examples)
    keys = b"".join(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest() for name in names)
    return np.frombuffer(keys, dtype=np.uint8).reshape(-1, 32)


def _firsts(keys: Hashes) -> IntArray:
    """Returns for each key the first place where the same key stands, shape (n,)."""
    n = len(keys)
    first = np.arange(n)
    if n > 1:
        parts = np.ascontiguousarray(keys).view(np.uint64)
        order = np.lexsort(parts.T)  # stable: equal keys stay in the order of their places
        in_order = parts[order]
        new = np.concatenate([[True], (in_order[1:] != in_order[:-1]).any(axis=1)])
        first[order] = order[new][np.cumsum(new) - 1]
    return first


def some(names: Sequence[str], limit: int = 5) -> str:
    """Returns the first of some names, and how many more there are."""
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
