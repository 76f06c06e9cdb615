"""How long a run takes for a question, and for an iteration besides its questions: what is left is reckoned from it."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Pace", "duration"]


class Pace:
    """Measures a run as it goes.

    Args:
        clock: Seconds of work so far, without those that something was loaded in: that is waited for once.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._asked, self._asking = 0, 0.0  # images asked about in what is finished, and the seconds of it
        self._new, self._since, self._until = 0, clock(), clock()  # the images of what is under way, and when
        self._iteration, self._asking_before = clock(), 0.0
        self._besides: list[float] = []

    @property
    def asked(self) -> int:
        """Images that were asked about and not out of the store."""
        return self._asked + self._new

    def answered(self, done: int, stored: int) -> None:
        """Takes note of how many images of a template are answered, `stored` of them from the store."""
        new = done - stored
        if new <= 0 or new < self._new:
            self._settle()
            self._since = self._clock()
        self._new, self._until = new, self._clock()

    def begin(self) -> None:
        """Takes note that an iteration begins."""
        self._settle()
        self._iteration, self._asking_before = self._clock(), self._asking

    def end(self) -> None:
        """Takes note that it has ended."""
        self._settle()
        self._besides.append(self._clock() - self._iteration - (self._asking - self._asking_before))

    def left(self, images: int, iterations: int = 0) -> float | None:
        """Returns the seconds that so many images and iterations take; None as long as nothing was asked."""
        if not self.asked:
            return None if images else 0.0
        # The first iteration proposes nothing, and so is like the others only where there are none.
        known = self._besides[1:] or self._besides
        besides = sum(known) / len(known) if known else 0.0
        return images * (self._asking + self._until - self._since) / self.asked + iterations * besides

    def _settle(self) -> None:
        self._asked, self._asking = self.asked, self._asking + self._until - self._since
        self._new, self._since = 0, self._until


def duration(seconds: float) -> str:
    """Returns a time in its largest unit: "12 s", "3 min", "2.5 h"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
