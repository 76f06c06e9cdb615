"""What several commands print, and refuse."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from taxtune.errors import DataError

if TYPE_CHECKING:
    from taxtune.mapping import Mapper

__all__ = ["note_arbiter", "print_json", "refuse_existing", "refuse_options", "tell"]


def print_json(value: object) -> None:
    """Prints one JSON object on standard output."""
    print(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def tell(text: str) -> None:
    """Prints the outcome of a command on standard error, since standard output is for results."""
    print(f"taxtune: {text}", file=sys.stderr)


def note_arbiter(mapper: Mapper) -> None:
    """Notes what the chat model that reads the mapper's answers was asked, if it has one."""
    note_spent = getattr(mapper.arbiter, "note_spent", None)
    if note_spent is not None:
        note_spent()


def refuse_existing(out: Path, *, force: bool) -> None:
    """Raises a DataError if a file is there that may not be overwritten."""
    if out.exists() and not force:
        raise DataError(
            "The file already exists.", file=out, remedy="Choose another name, or add --force."
        )


def refuse_options(context: typer.Context, names: Sequence[str], what: str) -> None:
    """Raises a DataError if one of these options is given, which a command has for something else.

    Args:
        context: The call of the command.
        names: The parameters of the options.
        what: What the options are for.
    """
    parameters = {parameter.name: parameter for parameter in context.command.params}
    given = []
    for name in names:
        value = context.params[name]
        if value and value != parameters[name].default:
            given.append(parameters[name].opts[-1])
    if given:
        raise DataError(f"{', '.join(given)}: only for {what}.", remedy="Leave it out.")
