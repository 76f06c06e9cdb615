from __future__ import annotations

import pytest

from tests.authoring.food_wordnet import food_wordnet


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    return food_wordnet(tmp_path_factory.mktemp("small"))
