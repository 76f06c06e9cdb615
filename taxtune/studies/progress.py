"""A progress bar on standard error for long work; silent where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

__all__ = ["late_progress", "progress"]


@contextmanager
def progress(total: int, what: str) -> Iterator[Callable[..., None]]:
    """Shows a bar while the block runs, if standard error is a terminal; yields `advance(n=1)`.

    Args:
        total: How many steps there are.
        what: What is done, such as "pairs".
    """
    if not sys.stderr.isatty():
        yield lambda n=1: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=total)
        yield lambda n=1: bars.advance(task, n)


@contextmanager
def late_progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Shows a bar for work whose size is known once it has begun; yields `show(done, total)`, called a step at a time.

    Args:
        what: What is done.
    """
    with ExitStack() as stack:
        advance: Callable[..., None] | None = None

        def show(done: int, total: int) -> None:
            nonlocal advance
            if advance is None:
                advance = stack.enter_context(progress(total, what))
            advance()

        yield show
