"""A display for tests, which remembers what it was to show."""

from __future__ import annotations

from typing import Any

from taxtune.progress import Display, Task

__all__ = ["Recorder"]


class Recorder(Display):
    """Remembers notes and the progress of tasks.

    Attributes:
        notes: The notes.
        steps: What was done, how much of it and of how much, whenever that changed.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.steps: list[tuple[str, int, int | None]] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def update(self, task: Task) -> None:
        step = (task.what, task.done, task.total)
        if step not in self.steps[-1:]:
            self.steps.append(step)

    def of(self, what: str) -> list[tuple[int, int | None]]:
        """Returns the progress of the tasks of one name, step by step."""
        return [(done, total) for name, done, total in self.steps if name == what]


class NullTracker:
    """Records nothing."""

    whole = True

    def start(self, *arguments: Any, **options: Any) -> str:
        return "run"

    def where(self) -> str:
        return "nowhere"

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **options: None
