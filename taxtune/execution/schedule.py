"""Which worker is asked which questions next: each image's at its home, what a lost worker had again elsewhere."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from math import ceil

from taxtune.models.base import Request

__all__ = ["Schedule", "assign_homes"]

#: Workers that may be lost with a question before it is given up.
MOST_LOSSES = 3
# A chunk is so many batches: few at the end, so that workers finish together, and many before, so that a worker can
# sort them by length and prepare images while it computes.
_FEW, _MANY = 2, 16


def _weight(subject: str, worker: int) -> bytes:
    return hashlib.blake2b(f"{worker}\0{subject}".encode("utf-8", "surrogatepass"), digest_size=8).digest()


def assign_homes(subjects: Sequence[str], workers: Collection[int]) -> list[int]:
    """Returns a worker for each question: the same for all about an image, and about as many questions for each.

    Rendezvous hashing with bounded loads: an image's home is the worker with its highest hash that has room left. The
    same images have the same homes in every call, and few move when images or workers come or go.

    Args:
        subjects: What each question is about: the hash of an image.
        workers: Numbers of the workers, at least one.
    """
    counts: dict[str, int] = {}
    for subject in subjects:
        counts[subject] = counts.get(subject, 0) + 1
    room = dict.fromkeys(sorted(workers), ceil(len(subjects) / len(workers)))
    homes = {}
    for subject, count in counts.items():
        ranked = sorted(room, key=lambda worker: _weight(subject, worker), reverse=True)
        fits = (worker for worker in ranked if room[worker] >= count)
        homes[subject] = next(fits, max(ranked, key=room.__getitem__))
        room[homes[subject]] -= count
    return [homes[subject] for subject in subjects]


class Schedule:
    """The questions of one call: waiting, asked, or done.

    A worker takes chunks of the questions at home with it, then of those of the worker with most left. What a lost
    worker had is asked again by another; after a second loss its questions are asked one at a time, so that one that
    ends every worker it meets is found, and alone is given up.

    Args:
        requests: The questions, by place.
        workers: Numbers of the workers, at least one.
    """

    def __init__(self, requests: Sequence[Request], workers: Iterable[int]) -> None:
        self._queues: dict[int, deque[int]] = {worker: deque() for worker in workers}
        homes = assign_homes([request.image_sha256 or request.prompt for request in requests], self._queues)
        for place, home in enumerate(homes):
            self._queues[home].append(place)
        self._again: list[tuple[int, list[int]]] = []
        self._suspects: deque[int] = deque()
        self._losses: dict[int, int] = {}
        #: Places that are not done.
        self.open = set(range(len(requests)))

    def take(self, worker: int, batch: int) -> list[int]:
        """Returns the places that a worker is to be asked next; none if nothing waits.

        Args:
            worker: Its number.
            batch: Questions that it computes at a time.
        """
        if self._suspects:
            return [self._suspects.popleft()]
        waiting = sum(map(len, self._queues.values()))
        elsewhere = (i for i, (lost_by, _) in enumerate(self._again) if lost_by != worker)
        # A worker takes back what was lost with it only when there is nothing else for it to do.
        which = next(elsewhere, None if waiting or not self._again else 0)
        if which is not None:
            return self._again.pop(which)[1]
        size = min(_MANY * batch, max(_FEW * batch, ceil(waiting / (2 * len(self._queues)))))
        own = self._queues.setdefault(worker, deque())
        if own:
            return [own.popleft() for _ in range(min(size, len(own)))]
        longest = max(self._queues.values(), key=len)
        return [longest.pop() for _ in range(min(size, ceil(len(longest) / 2)))][::-1]

    def done(self, places: Iterable[int]) -> None:
        """Takes note that questions are answered, or given up."""
        self.open.difference_update(places)

    def lost(self, worker: int, places: Sequence[int]) -> list[int]:
        """Takes note that a worker was lost with questions; returns those of them to give up."""
        for place in places:
            self._losses[place] = self._losses.get(place, 0) + 1
        if len(places) == 1 and self._losses[places[0]] >= MOST_LOSSES:
            return list(places)
        if max(self._losses[place] for place in places) >= MOST_LOSSES - 1:
            self._suspects.extend(places)
        else:
            self._again.append((worker, list(places)))
        return []
