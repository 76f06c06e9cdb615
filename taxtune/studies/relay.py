"""What leads the progress that a measure reports to a bar on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from taxtune.studies.progress import progress

__all__ = ["ProgressRelay"]


class ProgressRelay:
    """Leads a measure's progress to a bar: give it to the measure as `on_progress`."""

    def __init__(self) -> None:
        self._advance: Callable[[int], object] | None = None
        self._done = 0

    def __call__(self, done: int, total: int) -> None:
        """Takes a measure's report."""
        if self._advance is not None and done > self._done:
            self._advance(done - self._done)
            self._done = done

    @contextmanager
    def shown(self, total: int, what: str) -> Iterator[None]:
        """Shows a bar while the block runs."""
        with progress(total, what) as advance:
            self._advance, self._done = advance, 0
            try:
                yield
            finally:
                self._advance = None
