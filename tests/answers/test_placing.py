"""Answers that are placed in several processes go where one puts them, in their order."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Iterator
from multiprocessing import active_children

import pytest

from taxtune.answers import placing
from taxtune.answers.placing import LARGE, number_of_workers, place_each
from taxtune.errors import DataError, MapperError
from taxtune.mapping import Mapper, MapperConfig
from taxtune.taxonomy import Taxonomy
from tests.displays import Recorder

SAID = ["a mallard", "A: Anas", "", "I cannot tell", "a bicycle", "bird or plant", "it is a duck, I think"]


@pytest.fixture
def mapper(birds: Taxonomy) -> Mapper:
    return Mapper(birds)


def answers(n: int) -> Iterator[str]:
    """Answers of which most were given before, and some, of any length, were not."""
    return (SAID[i % len(SAID)] + (f" {i}" * (i % 50) if i % 3 == 0 else "") for i in range(n))


@pytest.mark.parametrize("workers", [1, 2])
def test_placements_are_those_of_the_mapper_in_order(mapper: Mapper, workers: int, recorder: Recorder) -> None:
    expected = mapper.place([*answers(4_200)])
    assert [*place_each(mapper, answers(4_200), total=4_200, workers=workers)] == expected
    assert recorder.of("placing answers")[-1] == (4_200, 4_200)
    assert not active_children()


def test_what_is_forgotten_is_placed_again_alike(mapper: Mapper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "_REMEMBERED", 100_000)
    monkeypatch.setattr(placing, "_BLOCK", 100)
    assert [*place_each(mapper, answers(3_000), total=3_000)] == mapper.place([*answers(3_000)])


def test_each_distinct_text_is_placed_once(birds: Taxonomy) -> None:
    asked: list[str] = []

    class Counting(Mapper):
        def place(self, texts, images=None):  # type: ignore[no-untyped-def]
            asked.extend(texts)
            return super().place(texts, images)

    found = [*place_each(Counting(birds), SAID * 1_000, total=7_000)]
    assert sorted(asked) == sorted(SAID)
    assert found[0] is found[7]


def test_answers_are_read_no_further_ahead_than_some_blocks(mapper: Mapper) -> None:
    taken = 0

    def counted() -> Iterator[str]:
        nonlocal taken
        for answer in answers(10_000):
            taken += 1
            yield answer

    placed = place_each(mapper, counted(), total=10_000)
    next(placed)
    assert taken <= 2_000
    placed.close()  # type: ignore[attr-defined]


def test_a_worker_that_is_killed_is_an_error_and_leaves_no_process(mapper: Mapper) -> None:
    placed = place_each(mapper, answers(200_000), total=200_000, workers=2)
    for _ in range(1_001):
        next(placed)
    for worker in active_children():
        os.kill(worker.pid or 0, signal.SIGKILL)
    with pytest.raises(MapperError, match="ended before its time"):
        list(placed)
    assert not active_children()


def test_a_stream_that_is_given_up_leaves_no_process(mapper: Mapper) -> None:
    placed = place_each(mapper, answers(200_000), total=200_000, workers=2)
    for _ in range(1_001):
        next(placed)
    assert active_children()
    placed.close()  # type: ignore[attr-defined]
    assert not active_children()


def test_a_mapper_travels_as_its_tree_and_its_settings(birds: Taxonomy) -> None:
    mapper = Mapper(birds, config=MapperConfig(preset="paper-listing"))
    placed = mapper.place(SAID)
    copy = pickle.loads(pickle.dumps(mapper))
    assert copy.identity() == mapper.identity()
    assert copy.place(SAID) == placed
    assert "_by_name" not in birds.__getstate__()


def test_how_many_processes_there_are() -> None:
    assert number_of_workers(None, LARGE - 1) == 1
    assert number_of_workers(None, LARGE) >= 1
    assert number_of_workers(3, 10) == 3
    assert number_of_workers(None, LARGE, "sentence:MODEL") == 1
    with pytest.raises(DataError, match="at least one worker"):
        number_of_workers(0, 10)
    with pytest.raises(DataError, match="computed in one process"):
        number_of_workers(2, 10, "sentence:MODEL")
