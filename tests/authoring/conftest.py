from __future__ import annotations

import pytest

from taxtune.wordnet import find_wordnet
from tests.authoring.food_wordnet import food_wordnet


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    return food_wordnet(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def real():
    found = find_wordnet()
    if found is None:
        pytest.skip("WordNet is not installed here")
    return found
