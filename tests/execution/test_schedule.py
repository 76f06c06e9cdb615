"""Which worker is asked what, whatever becomes of the workers."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.execution.schedule import MOST_LOSSES, Schedule, assign_homes
from taxtune.models import Request


def images(n: int) -> list[str]:
    return [f"image {i}" for i in range(n)]


def requests(n: int) -> list[Request]:
    return [Request(f"prompt {i}") for i in range(n)]


@given(n=st.integers(1, 60), workers=st.integers(1, 7), prompts=st.integers(1, 3))
def test_no_worker_is_home_to_more_than_its_share_and_an_image_has_one_home(n, workers, prompts):
    subjects = images(n) * prompts
    homes = assign_homes(subjects, range(workers))
    assert len(set(zip(subjects, homes, strict=True))) == n
    # An even share, and one image more where the images do not divide.
    assert max(Counter(homes).values()) <= -(-n * prompts // workers) + prompts - 1


def test_homes_depend_on_the_images_alone_and_few_move_when_a_worker_goes():
    subjects = images(400)
    homes = assign_homes(subjects, range(4))
    assert assign_homes(subjects * 2, range(4)) == homes * 2
    left = assign_homes(subjects, [0, 1, 3])
    moved = sum(a != b for a, b in zip(homes, left, strict=True) if a != 2)
    assert moved < 0.2 * 300  # hashing modulo 3 would move two thirds


def test_a_worker_takes_all_of_a_small_home_at_once_and_then_helps_the_other():
    subjects = requests(20)
    schedule = Schedule(subjects, [0, 1])
    first, second = schedule.take(0, 8), schedule.take(0, 8)
    homes = assign_homes([request.prompt for request in subjects], [0, 1])
    assert first == [place for place, home in enumerate(homes) if home == 0]
    assert {homes[place] for place in second} == {1}
    assert len(second) == 5
    assert not set(second) & set(schedule.take(1, 8))


def test_chunks_are_large_at_first_and_small_at_the_end():
    schedule = Schedule(requests(1000), [0, 1])
    sizes = []
    while taken := schedule.take(0, 4):
        sizes.append(len(taken))
        schedule.done(taken)
    assert sizes[0] == 64
    assert sizes[-1] <= 8
    assert not schedule.open


def test_what_a_lost_worker_had_goes_elsewhere_then_alone_and_is_given_up_at_last():
    schedule = Schedule(requests(2), [0, 1])
    chunk = schedule.take(0, 8) + schedule.take(0, 8)
    assert schedule.lost(0, chunk) == []
    assert schedule.take(1, 8) == chunk
    assert schedule.lost(1, chunk) == []
    alone = schedule.take(1, 8)
    assert len(alone) == 1
    assert schedule.lost(1, alone) == alone
    schedule.done(alone)
    assert schedule.take(0, 8) == [place for place in chunk if place not in alone]


def test_a_worker_takes_back_what_was_lost_with_it_where_nobody_else_does():
    schedule = Schedule(requests(4), [0])
    chunk = schedule.take(0, 8)
    assert schedule.lost(0, chunk) == []
    assert schedule.take(0, 8) == chunk


@given(data=st.data(), n=st.integers(1, 40), workers=st.integers(1, 4), batch=st.integers(1, 8))
def test_every_question_is_done_once_whoever_is_lost(data, n, workers, batch):
    poison = data.draw(st.sets(st.integers(0, n - 1), max_size=3))
    schedule = Schedule(requests(n), range(workers))
    finished: list[int] = []
    given_up: list[int] = []
    losses = 0
    while schedule.open:
        worker = data.draw(st.integers(0, workers - 1))
        chunk = schedule.take(worker, batch)
        if not chunk:
            continue
        unlucky = losses < MOST_LOSSES - 1 and data.draw(st.booleans())
        losses += unlucky
        if unlucky or poison & set(chunk):
            given_up += schedule.lost(worker, chunk)
            schedule.done(given_up)
        else:
            schedule.done(chunk)
            finished += chunk
    assert sorted(finished + given_up) == list(range(n))
    assert poison <= set(given_up)
    assert poison or not given_up


@pytest.mark.parametrize("workers", [[3], [0, 5]])
def test_workers_may_have_any_numbers(workers):
    schedule = Schedule(requests(6), workers)
    assert sorted(schedule.take(workers[0], 1) + schedule.take(workers[-1], 1) + schedule.take(9, 6))
