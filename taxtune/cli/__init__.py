"""The command line: `taxtune COMMAND`.

Each command lives in a module of its own and imports what is heavy inside the function that runs, so that
`taxtune --help` answers at once.
"""

from __future__ import annotations

import sys

from taxtune.cli.app import app
from taxtune.errors import TaxtuneError

__all__ = ["app", "main"]


def main() -> None:
    """Runs the command line; an error that the user can mend is one message and exit code 2."""
    try:
        app()
    except TaxtuneError as error:
        print(f"taxtune: error: {error}", file=sys.stderr)
        sys.exit(2)
