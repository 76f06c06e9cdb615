"""Large trees, kept as they were read: a file of a million rows is parsed, checked and put together once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any

from taxtune.packed import Part, Texts, kept
from taxtune.store import cache_folder
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["kept_tree"]

#: Changes with everything that changes how files are read.
_VERSION = 2
#: Smaller files are read faster than they are looked up.
_MIN_BYTES = 2**20


def kept_tree(
    file: Path,
    beside: Callable[[], Sequence[Path]],
    how: Sequence[object],
    make: Callable[[], tuple[Taxonomy, list[str]]],
) -> tuple[Taxonomy, list[str]]:
    """Returns the tree of a file and the notes on it, from the user's cache folder where a large one has been read.

    Args:
        file: The file or folder. A file is known by its content.
        beside: Returns the files that are in the folder, or that may be read with the file; they are known by their
            names, sizes and times.
        how: What else changes what is read.
        make: Reads it.
    """
    try:
        if file.is_file() and file.stat().st_size < _MIN_BYTES:
            return make()
        stats = [(path.name, (stat := path.stat()).st_size, stat.st_mtime_ns) for path in beside()]
        content = ""
        if file.is_file():
            with file.open("rb") as stream:
                content = file_digest(stream, "blake2b").hexdigest()
        elif sum(size for _, size, _ in stats) < _MIN_BYTES:
            return make()
    except OSError:
        return make()  # which says what is wrong with the file
    key = blake2b(json.dumps([_VERSION, content, stats, *map(str, how)]).encode(), digest_size=16).hexdigest()

    def read() -> dict[str, Part]:
        tree, notes = make()
        return {**tree.parts(), "source": Texts.of([tree.source or ""]), "notes": Texts.of(notes)}

    parts: dict[str, Any] = kept(cache_folder(None, "taxonomies") / f"{key}.parts", read)
    return Taxonomy.of_parts(parts, source=parts["source"][0] or None), [*parts["notes"]]
