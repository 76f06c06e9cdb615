"""The layout of a command's `--help`."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

__all__ = ["Command"]


class Command(TyperCommand):
    """A command whose help has two columns: names, and what an option does, with its default behind that.

    The panels of rich give types and twins columns of their own, which leave 18 characters of 80 for the text.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.rich_markup_mode = None
