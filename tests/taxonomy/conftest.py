from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from taxtune.errors import TaxonomyError
from taxtune.taxonomy import Taxonomy, read_taxonomy

#: Reads a tree from the content of a file, and perhaps the file's name.
Reader = Callable[..., Taxonomy]


def write(folder: Path, content: str | bytes, name: str = "taxonomy.csv") -> Path:
    path = folder / name
    if isinstance(content, str):
        content = content.encode()
    path.write_bytes(content)
    return path


def paths(tree: Taxonomy) -> list[str]:
    """The path of each node, with slashes."""
    return ["/".join(tree.path(node)) for node in range(len(tree))]


def refused(message: str) -> AbstractContextManager[pytest.ExceptionInfo[TaxonomyError]]:
    """Expects a TaxonomyError with a message."""
    return pytest.raises(TaxonomyError, match=message)


def walk_up(tree: Taxonomy, node: int) -> list[int]:
    """Ancestors from the root down, by following parents one by one."""
    path = [node]
    while tree.parents[path[-1]] >= 0:
        path.append(int(tree.parents[path[-1]]))
    return path[::-1]


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    """Reads a tree without taxtune's English names."""

    def read_content(
        content: str | bytes, name: str = "taxonomy.csv", **options: object
    ) -> Taxonomy:
        file = write(tmp_path, content, name)
        return read_taxonomy(file, names=False, **options)  # type: ignore[arg-type]

    return read_content
