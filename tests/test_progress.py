from __future__ import annotations

import asyncio
import logging

import pytest

from taxtune.models.calls import as_completed
from taxtune.progress import Display, loading, note, showing, track, track_each


def test_without_a_display_notes_are_logged_and_nothing_is_printed(caplog, capsys):
    with track("reading", 3) as task:
        task.advance()
        note("100 % of 3 images are left out")
    assert caplog.record_tuples == [("taxtune", logging.WARNING, "100 % of 3 images are left out")]
    assert capsys.readouterr() == ("", "")


def test_a_display_hears_of_tasks_and_notes(recorder):
    assert list(track_each("ab", "letters")) == ["a", "b"]
    with track("pairs", 5, done=2, stored=2) as task:
        task.advance(3, stored=1)
    assert (task.done, task.stored, task.ended) == (5, 3, True)
    with loading("weights") as task:
        assert (task.what, task.total) == ("loading weights", None)
    note("one is missing")
    assert recorder.of("letters") == [(0, 2), (1, 2), (2, 2)]
    assert recorder.of("pairs") == [(2, 5), (5, 5)]
    assert recorder.notes == ["one is missing"]


def test_a_task_ends_with_an_error_and_with_a_loop_that_is_left(recorder):
    ended = []

    class Ends(Display):
        def update(self, task):
            ended.append(task.ended)

    with showing(Ends()):
        with pytest.raises(ZeroDivisionError), track("dividing", 1):
            raise ZeroDivisionError
        for _ in track_each(range(9), "looping"):
            break
    assert ended == [False, True] * 2


def test_threads_and_coroutines_report_to_the_display_of_those_who_started_them(
    recorder,
):
    def work(item, _):
        note(f"thread {item}")
        return item

    async def say(item):
        note(f"coroutine {item}")

    async def both():
        await asyncio.gather(say(0), say(1))

    assert sorted(as_completed([0, 1], work, 2)) == [(0, 0), (1, 1)]
    asyncio.run(both())
    assert sorted(recorder.notes) == ["coroutine 0", "coroutine 1", "thread 0", "thread 1"]
