"""Calls of a server side by side: how many at a time, when none, and when it is not worth trying again."""

from __future__ import annotations

import math
import queue
import signal
import statistics
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from types import FrameType
from typing import TypeVar

__all__ = ["ConcurrencyLimit", "Effort", "as_completed"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_START = 8
# Calls that a limit is judged by, at least: of fewer, the mean time says little.
_FEWEST = 12
# A limit that is doubled must make the calls in sum 2^(1 - 0.85) = 11 % faster, or it only fills the server's queue.
_EXPONENT = 0.85
_FINE_STEP = 1.25
_CUT = 0.7
_LONGEST_HOLD = 8
# Seconds after which who waits for a reply looks up: a signal that comes as the wait begins does not end it, and on
# Windows none does.
_WAKE = 0.5


class ConcurrencyLimit:
    """How many calls of a server may be under way, told from how it answers.

    The server's capacity is not known, and may change. As in perturb and observe, the limit climbs the throughput,
    which by Little's law is the calls under way over their mean time: another limit is tried, kept if it pays, and
    taken back if it does not. It doubles until the first that does not pay, and then moves by a quarter, up and down in
    turn, ever more rarely. A call that is refused for overload, or times out, ends the trial, or takes away three
    tenths where none was under way (multiplicative decrease, once for all calls that met the same overload). Where the
    server says how long to wait, all calls wait.

    It is safe to use from several threads.

    Args:
        most: The highest limit, at least 1.
        clock: Tells the time in seconds.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        #: Calls that may be under way now.
        self.limit = min(_START, most)
        self._clock = clock
        self._changed = threading.Condition()
        self._places = 0
        self._calls = 0
        self._resume = 0.0
        self._since = 0.0
        self._judged = 0
        self._seconds: list[float | None] = []
        self._score: float | None = None
        self._before: tuple[int, float] | None = None
        self._step = 2.0
        self._direction = 1
        self._patience = 1
        self._hold = 1

    def enter(self, stop: threading.Event) -> bool:
        """Waits for a place below the limit; tells whether there is one, or `stop` was set."""
        with self._changed:
            while not stop.is_set() and self._places >= self.limit:
                self._changed.wait()
            if stop.is_set():
                self._changed.notify()  # the place is another's
                return False
            self._places += 1
            return True

    def leave(self) -> None:
        """Gives a place back."""
        with self._changed:
            self._places -= 1
            self._changed.notify()

    def wake(self) -> None:
        """Lets those who wait for a place see that `stop` was set."""
        with self._changed:
            self._changed.notify_all()

    @contextmanager
    def call(self, stop: threading.Event, overload: Callable[[BaseException], float | None]) -> Iterator[None]:
        """Watches one call, which begins when the server wants calls again.

        Args:
            stop: Set where no call is wanted any more.
            overload: For an error, the seconds that no call is wanted; None if it is no sign of overload.

        Raises:
            InterruptedError: If `stop` was set.
        """
        self._rest(stop)
        if stop.is_set():
            raise InterruptedError("The call is not wanted any more.")
        with self._changed:
            begun = self._clock()
            self._calls += 1
            # With fewer calls under way, as at the end of a list, the time says nothing of the limit. And all that are
            # begun are waited for: those that end first are the fast ones.
            judged = self._calls == self.limit and self._judged < max(_FEWEST, self.limit)
            self._judged += judged
        wait = seconds = None
        try:
            yield
            seconds = self._clock() - begun
        except BaseException as error:
            wait = overload(error)
            raise
        finally:
            with self._changed:
                self._calls -= 1
                if wait is not None:
                    self._overloaded(begun, wait)
                if judged and begun >= self._since:
                    self._ended(seconds)

    def _rest(self, stop: threading.Event) -> None:
        while (wait := self._resume - self._clock()) > 0 and not stop.wait(wait):
            pass

    def _ended(self, seconds: float | None) -> None:
        self._seconds.append(seconds)
        if len(self._seconds) < max(_FEWEST, self.limit):
            return
        answered = [each for each in self._seconds if each is not None]
        self._judged = 0
        self._seconds.clear()
        if answered:
            self._judge(statistics.fmean(answered))

    def _judge(self, seconds: float) -> None:
        score = _EXPONENT * math.log(self.limit) - math.log(seconds)
        if self._before is None:
            self._score = score if self._score is None else (self._score + score) / 2
            self._hold -= 1
        elif score > self._before[1]:
            self._score, self._before = score, None
            self._patience, self._hold = 1, 0
        else:
            limit, self._score = self._before
            self._turn(-self._direction)
            self._set(limit)
        if self._hold <= 0:
            self._try(self._score)

    def _try(self, score: float) -> None:
        for _ in range(2):
            other = self.limit * self._step**self._direction
            other = min(max(int(other), self.limit + 1) if self._direction > 0 else int(other), self.most)
            if 2 <= other != self.limit:  # with one alone, a call that hangs would hold up all
                before = (self.limit, score)
                self._set(other)
                self._before = before
                return
            self._turn(-self._direction)

    def _turn(self, direction: int) -> None:
        self._direction, self._step = direction, _FINE_STEP
        self._hold = self._patience = min(2 * self._patience, _LONGEST_HOLD)

    def _overloaded(self, begun: float, wait: float) -> None:
        self._resume = max(self._resume, self._clock() + wait)
        if begun < self._since:
            return
        tried = self._before is not None and self._before[0] < self.limit
        if not tried:
            self._patience = 1
        limit = self._before[0] if self._before is not None and tried else max(1, int(_CUT * self.limit))
        self._turn(1)
        self._score = None
        self._set(limit)

    def _set(self, limit: int) -> None:
        self.limit = limit
        self._before = None
        self._judged = 0
        self._seconds.clear()
        self._since = self._clock()
        self._changed.notify_all()


class Effort:
    """Whether it is worth trying calls again, told from those made side by side.

    Where a call has failed to its last attempt and none has succeeded, the server is down for all of them, and to wait
    as long for each would only keep the user waiting. (Whether more is asked at all is for `ask` to say.)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answered = False
        self.stop = threading.Event()
        self.vain = threading.Event()

    def failed(self) -> None:
        """Takes note of a call that failed to its last attempt."""
        with self._lock:
            if not self._answered:
                self.vain.set()

    def succeeded(self) -> None:
        """Takes note of a call that was answered."""
        with self._lock:
            self._answered = True
            self.vain.clear()


def as_completed(
    items: Sequence[Item], work: Callable[[Item, Effort], Result], limit: ConcurrencyLimit
) -> Generator[tuple[int, Result]]:
    """Gives (place, what `work` makes of the item) as it comes; the items are begun in order.

    The first error ends everything, and so does closing the generator. Unlike a pool of `concurrent.futures`, it does
    not wait at Ctrl-C for a server that does not answer. At both, what was answered, and paid for, is given first.

    Args:
        items: What to work on.
        work: Called with an item and what the calls side by side share.
        limit: Items under way at a time.
    """
    effort = Effort()
    places = iter(range(len(items)))
    finished: queue.SimpleQueue[tuple[int, Result] | BaseException | Callable[[], object]] = queue.SimpleQueue()

    def run() -> None:
        while limit.enter(effort.stop):
            try:
                place = next(places, None)
                if place is None:
                    return
                finished.put((place, work(items[place], effort)))
            except BaseException as error:
                effort.stop.set()  # before another call is begun
                finished.put(error)
            finally:
                limit.leave()

    for _ in range(min(limit.most, len(items))):
        # Each thread in a context of its own, so that its notes go to the display in force here.
        threading.Thread(target=copy_context().run, args=(run,), name="taxtune-model", daemon=True).start()
    given = 0
    try:
        with _interrupted_in_turn(finished.put):
            while given < len(items):
                try:
                    got = _wait_for(finished)
                    if isinstance(got, BaseException):
                        raise got
                    if not isinstance(got, tuple):
                        got()
                        continue
                except BaseException:
                    effort.stop.set()
                    while not finished.empty():
                        if isinstance(more := finished.get(), tuple):
                            yield more
                    raise
                given += 1
                yield got
    finally:
        effort.stop.set()
        limit.wake()


def _wait_for(finished: queue.SimpleQueue[Item]) -> Item:
    while True:
        with suppress(queue.Empty):
            return finished.get(timeout=_WAKE)


@contextmanager
def _interrupted_in_turn(put: Callable[[Callable[[], object]], object]) -> Iterator[None]:
    """Has Ctrl-C wait its turn among the replies.

    An interrupt raised wherever the main thread happens to be can hit it with a reply in its hands, neither among those
    that wait nor kept yet. (SimpleQueue.put may be called by a signal handler, and wakes whoever waits for a reply.)

    Args:
        put: Called at Ctrl-C with what it would have done. Pressed again before that is called, it does so at once.
    """
    before = signal.getsignal(signal.SIGINT)
    # In other threads no interrupt is raised, and one that is ignored stays so.
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    pending = False

    def interrupt() -> None:
        nonlocal pending
        pending = False
        before(signal.SIGINT, None)

    def handler(number: int, frame: FrameType | None) -> None:
        nonlocal pending
        if pending:
            before(number, frame)
        else:
            pending = True
            put(interrupt)

    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pending:
            interrupt()
