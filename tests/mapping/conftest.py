from __future__ import annotations

from pathlib import Path

import pytest

from taxtune.mapping import Mapper
from taxtune.taxonomy import Taxonomy, read_taxonomy


@pytest.fixture(scope="session")
def nature() -> Taxonomy:
    """A tree small enough to read, with homonyms, breeds, shared heads and ranks."""
    return read_taxonomy(Path(__file__).with_name("trees") / "nature.csv", names=False)


@pytest.fixture(scope="session")
def mapper(nature: Taxonomy) -> Mapper:
    """The default preset with the lexical similarity."""
    return Mapper(nature)
