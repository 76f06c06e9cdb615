from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from taxtune.data import content_hash
from taxtune.models import Request
from taxtune.models.api_errors import load_litellm
from tests.tiny_models import make_checkpoint


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory):
    """Gives the folder of a family's tiny checkpoint, made once a session."""
    parent = tmp_path_factory.mktemp("checkpoints")
    made = {}

    def get(family):
        if family not in made:
            made[family] = make_checkpoint(family, parent)
        return made[family]

    return get


@pytest.fixture(scope="session")
def litellm():
    """litellm; its import takes seconds, which must not count against a test's time-out."""
    return load_litellm()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """Four images of noise of different sizes and shapes."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    paths = []
    for number, (width, height) in enumerate([(28, 28), (60, 40), (40, 90), (224, 150)]):
        paths.append(folder / f"{number}.png")
        Image.fromarray(rng.integers(0, 255, (height, width, 3), dtype=np.uint8)).save(paths[-1])
    return paths


@pytest.fixture(scope="session")
def request_for():
    return lambda prompt, image: Request(prompt, image, content_hash(image))
