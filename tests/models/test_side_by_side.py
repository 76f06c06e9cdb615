"""How many calls are under way: on a virtual clock, so that nothing depends on the machine."""

from __future__ import annotations

import heapq
import itertools
import queue
import random
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

import pytest

from taxtune.models.side_by_side import ConcurrencyLimit, as_completed


class OverloadError(Exception):
    """A call that is refused; it says for how many seconds none is wanted."""

    def __init__(self, wait: float = 0.0) -> None:
        super().__init__()
        self.wait = wait


class Fixed(ConcurrencyLimit):
    """A limit that stays."""

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        super().__init__(limit, clock)
        self.limit = limit

    def _judge(self, seconds: float) -> None: ...

    def _overloaded(self, begun: float, wait: float) -> None:
        self._resume = max(self._resume, self._clock() + wait)


class Simulation:
    """A server on a virtual clock, kept as busy as the limit allows.

    Args:
        slots: Calls that it works on at a time; the others wait their turn.
        refuses: Whether it refuses those that find no slot, in place of letting them wait.
        slower: Seconds that each call under way adds to the others, as on a GPU that computes them as one batch.
        rate: Calls a second that it allows, and says so with Retry-After; None for any number.
        timeout: Seconds after which a call is given up.
    """

    def __init__(
        self,
        slots: int = 1_000_000,
        *,
        refuses: bool = False,
        slower: float = 0.0,
        rate: float | None = None,
        timeout: float = 1e9,
    ) -> None:
        self.slots, self.refuses, self.slower, self.rate, self.timeout = slots, refuses, slower, rate, timeout
        self.now = 0.0
        self.refused = self.answered = self.most = 0
        self._random = random.Random(1)
        self._recent: deque[float] = deque()
        self._number = itertools.count()

    def clock(self) -> float:
        return self.now

    def _takes(self, busy: int) -> float | OverloadError:
        """Returns the seconds that a call takes which begins while so many are worked on, or why it is refused."""
        if self.rate is not None:
            while self._recent and self._recent[0] <= self.now - 1:
                self._recent.popleft()
            if len(self._recent) >= self.rate:
                return OverloadError(self._recent[0] + 1 - self.now)
            self._recent.append(self.now)
        if self.refuses and busy >= self.slots:
            return OverloadError()
        return (1 + self.slower * busy) * self._random.uniform(0.7, 1.3)

    def run(self, limit: ConcurrencyLimit, calls: int) -> float:
        """Keeps the server busy until so many calls were answered, or five times the seconds that one slot takes.

        Returns:
            Answers a second.
        """
        started, target = self.now, self.answered + calls
        ending: list[tuple[float, int, Any, Exception | None]] = []
        busy: list[float] = []  # when each slot in use becomes free
        while self.answered < target and self.now - started < 5 * calls:
            while len(ending) < limit.limit:
                call = self.call(limit)
                call.__enter__()
                busy = sorted(when for when in busy if when > self.now)
                takes = self._takes(len(busy))
                # In the order of arrival, at the first slot that becomes free.
                begins = self.now if len(busy) < self.slots else busy[len(busy) - self.slots]
                error: Exception | None = None
                if isinstance(takes, OverloadError):
                    ends, error = self.now + 0.5, takes
                else:
                    ends = min(begins + takes, self.now + self.timeout)
                    error = OverloadError() if ends < begins + takes else None
                    if begins < ends:  # a client that has gone is not served
                        busy.append(ends)
                heapq.heappush(ending, (ends, next(self._number), call, error))
                self.most = max(self.most, len(ending))
            self.now, _, call, error = heapq.heappop(ending)
            self.end(call, error)
        answered = calls - target + self.answered
        while ending:
            self.end(ending.pop()[2], None)
        return answered / (self.now - started)

    def end(self, call: AbstractContextManager[None], error: Exception | None) -> None:
        """Ends a call, with an answer or an error."""
        with suppress(OverloadError):
            call.__exit__(error and type(error), error, None)
        self.answered += error is None
        self.refused += error is not None

    def call(self, limit: ConcurrencyLimit) -> AbstractContextManager[None]:
        """Returns a call that is to be entered; what it waits, passes on the virtual clock."""
        simulation = self

        class Stop(threading.Event):
            def wait(self, timeout: float | None = None) -> bool:
                simulation.now += timeout or 0.0
                return False

        return limit.call(Stop(), lambda error: error.wait if isinstance(error, OverloadError) else None)


SERVERS: dict[str, dict[str, Any]] = {
    "12 slots and a queue": {"slots": 12},
    "40 slots and a queue": {"slots": 40},
    "one slot": {"slots": 1},
    "12 slots, no queue": {"slots": 12, "refuses": True},
    "40 slots, no queue": {"slots": 40, "refuses": True},
    "a GPU": {"slower": 0.05},
    "12 slots and time-outs": {"slots": 12, "timeout": 3.0},
    "20 calls a second": {"rate": 20},
}
NUMBERS = (1, 4, 12, 40)


@pytest.mark.parametrize("kind", SERVERS)
def test_the_limit_comes_near_the_best_fixed_number_without_knowing_it(kind: str) -> None:
    calls = 1000
    fixed = {}
    for number in NUMBERS:
        server = Simulation(**SERVERS[kind])
        fixed[number] = (server.run(Fixed(number, server.clock), calls), server.refused)
    server = Simulation(**SERVERS[kind])
    speed = server.run(ConcurrencyLimit(128, server.clock), calls)
    assert speed > 0.8 * max(answered for answered, _ in fixed.values())
    assert server.refused <= min(0.06 * calls, max(refused for _, refused in fixed.values()) or 0.06 * calls)


@pytest.mark.parametrize("refuses", [False, True])
def test_the_limit_follows_a_server_that_others_come_to_and_leave(refuses: bool) -> None:
    server = Simulation(24, refuses=refuses)
    limit = ConcurrencyLimit(128, server.clock)
    found = []
    for slots in (24, 3, 24):
        server.slots = slots
        server.run(limit, 3000)
        found.append(limit.limit)
    assert found[1] <= 16 < min(found[0], found[2])


def test_the_highest_limit_is_kept() -> None:
    server = Simulation()
    limit = ConcurrencyLimit(5, server.clock)
    server.run(limit, 500)
    assert server.most == 5
    assert server.refused == 0


def test_where_the_server_wants_no_calls_for_a_while_none_is_made() -> None:
    server = Simulation()
    limit = ConcurrencyLimit(8, server.clock)
    others = [server.call(limit) for _ in range(2)]
    for call in others:
        call.__enter__()
    server.now = 1.0
    server.end(others[0], OverloadError(7.0))
    assert limit.limit == 5, "three tenths less"
    server.end(others[1], OverloadError(4.0))
    assert limit.limit == 5, "once for calls that met the same overload"
    with server.call(limit):
        assert server.now == 8.0
    with server.call(limit):
        assert server.now == 8.0


def test_a_call_that_is_not_wanted_any_more_is_not_made() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(InterruptedError), ConcurrencyLimit(1).call(stop, lambda _: None):
        raise AssertionError("it was made")


def test_items_are_begun_in_order_and_come_as_they_are_done() -> None:
    begun: list[int] = []
    go_on = threading.Event()

    def work(item: int, _: object) -> int:
        begun.append(item)
        assert item or go_on.wait(30)
        return 10 * item

    stream = as_completed(range(6), work, ConcurrencyLimit(2))
    first = [next(stream) for _ in range(5)]
    go_on.set()
    assert first == [(i, 10 * i) for i in range(1, 6)]
    assert list(stream) == [(0, 0)]
    assert begun == list(range(6))


def test_a_stream_that_is_closed_lets_go_of_the_rest_and_of_its_places() -> None:
    limit = ConcurrencyLimit(2)
    begun: list[int] = []
    closed = threading.Event()

    def work(item: int, _: object) -> None:
        begun.append(item)
        assert item == 0 or closed.wait(30)

    stream = as_completed(range(100), work, limit)
    assert next(stream) == (0, None)
    stream.close()
    closed.set()
    assert len(list(as_completed(range(3), lambda item, _: item, limit))) == 3
    assert len(begun) <= 3


class _Results(queue.Queue[Any]):
    """Results that are seen late, and Ctrl-C at the second look."""

    interrupted = False
    looks = 0

    def get(self, *arguments: Any, **options: Any) -> Any:
        type(self).looks += 1
        if self.interrupted and self.looks == 2:
            while self.qsize() < 2:
                time.sleep(0.001)
            raise KeyboardInterrupt
        got = super().get(*arguments, **options)
        if not self.interrupted:
            time.sleep(0.05)  # time for another call to be begun, where nothing keeps it
        return got


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> type[_Results]:
    class Results(_Results):
        pass

    monkeypatch.setattr("taxtune.models.side_by_side.queue.SimpleQueue", Results)
    return Results


def test_after_an_error_no_other_call_is_begun(late: type[_Results]) -> None:
    begun = []

    def work(item: int, _: object) -> int:
        begun.append(item)
        raise ValueError("no such key")

    with pytest.raises(ValueError, match="no such key"):
        list(as_completed(range(20), work, ConcurrencyLimit(1)))
    assert begun == [0]


def test_ctrl_c_gives_what_was_answered_by_then(late: type[_Results]) -> None:
    late.interrupted = True
    given: list[int] = []
    stream = as_completed(range(20), lambda item, _: item, ConcurrencyLimit(1))
    with pytest.raises(KeyboardInterrupt):
        given.extend(result for _, result in stream)
    assert given[:3] == [0, 1, 2]


@pytest.mark.parametrize("at", [0, 3])
def test_ctrl_c_waits_until_a_reply_is_kept_and_gives_the_others(at: int) -> None:
    kept: list[int] = []

    def keep_all() -> None:
        for _, reply in as_completed(range(4), lambda item, _: item, ConcurrencyLimit(4)):
            for thread in threading.enumerate():
                if thread.name == "taxtune-model":
                    thread.join()  # all have answered
            if len(kept) == at:
                signal.raise_signal(signal.SIGINT)
            kept.append(reply)

    with pytest.raises(KeyboardInterrupt):
        keep_all()
    assert sorted(kept) == list(range(4))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_twice_does_not_wait() -> None:
    stream = as_completed(range(2), lambda item, _: item, ConcurrencyLimit(1))
    next(stream)
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        stream.close()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_whoever_else_handles_ctrl_c_is_asked_and_the_stream_goes_on() -> None:
    asked: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: asked.append(number))
    try:
        stream = as_completed(range(3), lambda item, _: item, ConcurrencyLimit(1))
        given = [next(stream)]
        signal.raise_signal(signal.SIGINT)
        assert not asked
        given += stream
        assert (given, asked) == ([(0, 0), (1, 1), (2, 2)], [signal.SIGINT])
        ignored = signal.signal(signal.SIGINT, signal.SIG_IGN)
        stream = as_completed(range(2), lambda item, _: item, ConcurrencyLimit(1))
        next(stream)
        signal.raise_signal(signal.SIGINT)
        assert len(list(stream)) == 1
        signal.signal(signal.SIGINT, ignored)
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_ctrl_c_alone() -> None:
    seen = []

    def go() -> None:
        stream = as_completed(range(2), lambda item, _: item, ConcurrencyLimit(1))
        next(stream)
        seen.append(signal.getsignal(signal.SIGINT))
        seen.append(len(list(stream)))

    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT), 1]
