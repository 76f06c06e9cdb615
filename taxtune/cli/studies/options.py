"""What the studies' options share: COLUMN=VALUE pairs, choices, and a place for what comes out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from taxtune.errors import DataError

__all__ = ["check_out", "choice", "note", "pairs"]


def pairs(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """Returns NAME=VALUE arguments as a mapping.

    Raises:
        DataError: If one has no "=" or no name, or a name is given twice.
    """
    found: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise DataError(f"{option} takes NAME=VALUE.", value=text)
        if name in found:
            raise DataError(f"{option} names {name!r} twice.", value=text)
        found[name] = value
    return found


def choice(value: str, allowed: Sequence[str], option: str) -> str:
    """Returns the value of an option that has few.

    Raises:
        DataError: If it is none of them.
    """
    if value not in allowed:
        raise DataError(f"{option} cannot be that.", value=value, remedy=f"Use {', '.join(allowed)}.")
    return value


def check_out(out: Path | None) -> None:
    """Checks that --out can be written to before anything long is done; nothing is left there.

    Raises:
        TaxtuneError: If it cannot.
    """
    if out is not None:
        from taxtune.atomic import check_folder

        check_folder(out)


def note(text: str) -> None:
    """Prints on standard error what the user should know but need not mend."""
    print(f"taxtune: note: {text}", file=sys.stderr)
