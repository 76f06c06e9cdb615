from __future__ import annotations

import numpy as np
import pytest

from fieldguide.render import Sight, render
from fieldguide.species import all_species, families


def _pixels(bird, seed: int, **more) -> np.ndarray:
    return np.asarray(render(bird, seed=seed, **more), float)


def test_the_same_arguments_give_the_same_picture() -> None:
    bird, sight = all_species()[0], Sight("fog", 0.6)
    first, again = render(bird, seed=5, sight=sight), render(bird, seed=5, sight=sight)
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != render(bird, seed=6, sight=sight).tobytes()
    assert first.tobytes() != render(bird, seed=5).tobytes()


def test_every_species_can_be_drawn_and_is_seen() -> None:
    for bird in all_species():
        image = render(bird, seed=3, size=64)
        assert (image.size, image.mode) == ((64, 64), "RGB")
        assert np.asarray(image, float).std() > 12, bird.label


@pytest.mark.parametrize("family", list(families()))
def test_species_of_a_family_look_different_in_good_light_and_alike_as_silhouettes(family: str) -> None:
    birds = [bird for bird in all_species() if bird.family == family][:3]

    def apart(sight: Sight) -> float:
        # The same seed means the same pose, place and background: what differs is the bird.
        shots = [_pixels(bird, 11, sight=sight, size=64) for bird in birds]
        return max(float(np.abs(shots[0] - shot).mean()) for shot in shots[1:])

    assert apart(Sight()) > 2 * apart(Sight("dusk", 0.8))
