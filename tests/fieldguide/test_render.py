from __future__ import annotations

import numpy as np
import pytest

from fieldguide.render import Sight, render
from fieldguide.scene import CONDITIONS
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


@pytest.mark.parametrize("condition", CONDITIONS)
def test_worse_conditions_leave_less_of_the_difference_between_two_species(condition: str) -> None:
    first, second = all_species()[0], all_species()[3]
    apart = []
    for severity in (0.3, 0.6, 1.0):
        shots = [
            np.abs(
                _pixels(first, seed, sight=Sight(condition, severity), size=64)
                - _pixels(second, seed, sight=Sight(condition, severity), size=64)
            ).mean()
            for seed in range(4)
        ]
        apart.append(float(np.mean(shots)))
    assert apart[0] > apart[1] > apart[2]
