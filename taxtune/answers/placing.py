"""Placing answers by the million: in order, in one or several processes, each distinct text once, in bounded memory.

What comes out does not depend on the number of processes. Each process has a mapper of its own, so that the memory is
that of as many mappers; the index of a large tree is read from the disk, where the first of them has left it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait

from taxtune.errors import DataError, MapperError
from taxtune.mapping import Mapper, Placement, Stage
from taxtune.progress import track

__all__ = ["LARGE", "number_of_workers", "place_each"]

#: From this many answers on several processes are worth starting: each takes seconds to begin.
LARGE = 20_000

# Answers are taken in blocks of so many, or of so many characters where they are long.
_BLOCK, _BLOCK_CHARACTERS = 1_000, 1_000_000
# How many blocks a process are under way.
_AHEAD = 4
# Distinct answers are remembered up to so many characters, and each counts for some more than it has.
_REMEMBERED, _EACH = 100_000_000, 500

# What a mapper finds for a text: node, stage, evidence and confidence.
_Found = tuple[int, Stage, str, float | None]
_Send = Callable[[list[str]], "Future[list[_Found]]"]


def number_of_workers(asked: int | None, answers: int, similarity: str = "lexical") -> int:
    """Returns in how many processes to place answers.

    Args:
        asked: How many somebody asked for; None for as many as there are processors where there are many answers
            (`LARGE`), and else for one.
        answers: How many answers there are.
        similarity: The specification of the mapper's similarity; one that a model computes is computed in one process.

    Raises:
        DataError: If the number is below 1, or above 1 and the similarity is a model's.
    """
    if asked is not None and asked < 1:
        raise DataError("There must be at least one worker.", value=asked, remedy="Use --workers 1 or more.")
    if similarity != "lexical":
        if (asked or 1) > 1:
            raise DataError(
                "A similarity that a model computes is computed in one process.",
                value=similarity,
                remedy="Use --workers 1, or the similarity lexical.",
            )
        return 1
    if asked is not None:
        return asked
    if answers < LARGE:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def place_each(mapper: Mapper, answers: Iterable[str], *, total: int, workers: int = 1) -> Iterator[Placement]:
    """Yields one placement for each answer, in order; equal answers share one.

    Args:
        mapper: What places them, by a similarity that does not look at images.
        answers: The answers, which are read some thousands ahead; a blank one is an abstention.
        total: How many there are, to show how far the work is.
        workers: In how many processes to place them. They are spawned, so that a script that asks for several has its
            work below `if __name__ == "__main__":`.

    Raises:
        MapperError: If a process ends before its time.
    """
    batches = _Batches(mapper)
    waiting: deque[list[tuple[_Batch, int]]] = deque()
    with track("placing answers", total) as task, ExitStack() as stack:

        def finished() -> Iterator[Placement]:
            places = waiting.popleft()
            for batch, place in places:
                yield batch.placements[place]
            task.advance(len(places))

        send: _Send = partial(_send_nowhere, mapper)
        ahead = 1
        for number, block in enumerate(_blocks(answers)):
            if number == 1 and workers > 1:
                # The first block was placed here, so that the index of a large tree is on the disk by now.
                send, ahead = stack.enter_context(_processes(mapper, workers)), _AHEAD * workers
            waiting.append(batches.begin(block, send))
            if len(waiting) >= ahead:
                yield from finished()
        while waiting:
            yield from finished()


class _Batch:
    """Distinct texts that are placed together.

    Attributes:
        texts: The texts.
        size: How much they count for in memory.
    """

    def __init__(self, mapper: Mapper, texts: list[str], found: Future[list[_Found]]) -> None:
        self.texts, self.size = texts, sum(map(len, texts)) + _EACH * len(texts)
        self._path, self._found = mapper.taxonomy.path, found

    @cached_property
    def placements(self) -> list[Placement]:
        """Their placements, once they are there."""
        return [
            Placement(text, *found, self._path(found[0]))
            for text, found in zip(self.texts, self._found.result(), strict=True)
        ]


class _Batches:
    """Remembers which texts were sent to be placed, and forgets the oldest when there are too many."""

    def __init__(self, mapper: Mapper) -> None:
        self._mapper = mapper
        self._places: dict[str, tuple[_Batch, int]] = {}
        self._kept: deque[_Batch] = deque()
        self._size = 0

    def begin(self, block: list[str], send: _Send) -> list[tuple[_Batch, int]]:
        """Sends those texts of a block that are new, and returns where the placement of each text will be."""
        fresh = [text for text in dict.fromkeys(block) if text not in self._places]
        if fresh:
            batch = _Batch(self._mapper, fresh, send(fresh))
            self._places.update((text, (batch, place)) for place, text in enumerate(fresh))
            self._kept.append(batch)
            self._size += batch.size
        places = [self._places[text] for text in block]
        while self._size > _REMEMBERED:
            oldest = self._kept.popleft()
            self._size -= oldest.size
            for text in oldest.texts:
                del self._places[text]
        return places


def _blocks(answers: Iterable[str]) -> Iterator[list[str]]:
    block: list[str] = []
    characters = 0
    for answer in answers:
        block.append(answer)
        characters += len(answer)
        if len(block) == _BLOCK or characters > _BLOCK_CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block


def _find(mapper: Mapper, texts: list[str]) -> list[_Found]:
    return [(found.node, found.stage, found.evidence, found.confidence) for found in mapper.place(texts)]


def _send_nowhere(mapper: Mapper, texts: list[str]) -> Future[list[_Found]]:
    done: Future[list[_Found]] = Future()
    done.set_result(_find(mapper, texts))
    return done


# -- processes ---------------------------------------------------------------------------------------------------------

# The mapper of a worker.
_mapper: Mapper


@contextmanager
def _processes(mapper: Mapper, workers: int) -> Iterator[_Send]:
    """Starts processes, and ends them with the block, whatever they are at."""
    # Spawned and not forked: a fork would copy locks that other threads hold, such as that of the progress display.
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _begin, (mapper,))
    try:
        yield lambda texts: pool.submit(_find_here, texts)
    except BrokenProcessPool:
        raise MapperError(
            "A process that places answers has ended before its time.",
            remedy="If the memory was full, use fewer of them with --workers.",
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(mapper: Mapper) -> None:
    global _mapper
    _mapper = mapper
    # Ctrl-C reaches every process of a terminal; the one that started them ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(parent: int) -> None:
    """Ends this process when the one that started it has gone without a word, killed for instance."""
    wait([parent])
    os._exit(1)


def _find_here(texts: list[str]) -> list[_Found]:
    return _find(_mapper, texts)
