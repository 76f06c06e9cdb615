"""The command line: `taxtune COMMAND`.

Each command lives in a module of its own and imports heavy packages inside the function that runs, so
that `taxtune --help` answers at once. Nothing of them is imported here: the settings of the studies
are declared with `taxtune.options`.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import sys
from typing import Any

from taxtune.errors import BatchPendingError, TaxtuneError
from taxtune.untrusted import visible

__all__ = ["main", "start"]

_TRY_LATER = 75  # EX_TEMPFAIL


def start() -> None:
    """Runs the command line as a process of its own: what fails, or is stopped, ends at once.

    Python would wait for the locks of threads that ask a model, for ever if a finalizer wants one.
    """
    try:
        main()
    except SystemExit as end:
        if not isinstance(end.code, int) or end.code == 0:
            raise
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(end.code)


def main() -> None:
    """Runs the command line, and ends with `SystemExit` where that is not with success.

    An error that the user can fix is one message and exit code 2, and so is output that cannot be
    written; a reader that has had enough (`taxtune place ... | head -1`) ends the command without a
    word.
    """
    from taxtune.cli.app import app

    codecs.register_error("taxtune.escape", _escaped)
    with contextlib.suppress(AttributeError, ValueError):  # a stream of a test, or none at all
        sys.stdout.reconfigure(errors="taxtune.escape")  # type: ignore[union-attr]
    try:
        with contextlib.ExitStack() as stack:
            # Elsewhere output is data, and left as it is.
            if sys.stdout is not None and sys.stdout.isatty():
                stack.enter_context(contextlib.redirect_stdout(_Harmless(sys.stdout)))
            try:
                app(prog_name="taxtune")
            finally:
                # Here, where an error can still be told.
                if sys.stdout is not None:
                    sys.stdout.flush()
    except BatchPendingError as pending:
        _fail(str(pending), *getattr(pending, "__notes__", ()), code=_TRY_LATER)
    except TaxtuneError as error:
        _fail(f"error: {error}", *getattr(error, "__notes__", ()))
    except BrokenPipeError:
        _drop_output()
        sys.exit(1)
    except OSError as error:
        what = error.strerror or str(error)
        if error.filename is None:
            _drop_output()
        _fail(f"error: {error.filename or 'Cannot write the output'}: {what}.")


def _fail(*lines: str, code: int = 2) -> None:
    for line in lines:
        print(f"taxtune: {visible(line)}", file=sys.stderr)
    sys.exit(code)


class _Harmless:
    """A terminal in which text from outside is shown and not obeyed. rich writes its styles past it."""

    def __init__(self, stream: Any) -> None:
        self.rich_proxied_file = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(visible(text))
        return len(text)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Writes half a surrogate pair, or any letter on an ASCII terminal, as JSON does."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def _drop_output() -> None:
    """Sends the rest of the buffer nowhere, so that it is not tried once more at the interpreter's end."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
