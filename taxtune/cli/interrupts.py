"""Ctrl-C that is not lost.

Python raises `KeyboardInterrupt` wherever the main thread happens to be. Where that is a finalizer or a callback of the
garbage collector, of which there are many while large packages are imported, the interrupt is printed and swallowed,
and the run would go on as if nothing had been pressed.
"""

from __future__ import annotations

import _thread
import signal
import threading
from contextlib import suppress
from typing import Any

__all__ = ["Interrupts", "interrupts"]


class Interrupts:
    """Repeats an interrupt until it is heard. Use it as a context manager around what can be interrupted.

    Args:
        every: Seconds after which an interrupt that was not heard is repeated.
    """

    def __init__(self, every: float = 1.5) -> None:
        self._every = every
        self._before: Any = None
        self._heard = threading.Event()
        self._repeating = False

    def __enter__(self) -> None:
        self._heard.clear()
        self._repeating = False
        # Not where interrupts are ignored (nohup) or somebody else's, nor outside the main thread, which has none.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            with suppress(ValueError):
                self._before = signal.signal(signal.SIGINT, self._interrupt)

    def __exit__(self, *_: object) -> None:
        self.heard()
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def heard(self) -> None:
        """Ends the repetition: the interrupt, if there was one, has come to where it is dealt with."""
        self._heard.set()

    def _interrupt(self, *_: object) -> None:
        if not self._repeating:
            self._repeating = True
            threading.Thread(target=self._repeat, name="taxtune-interrupt", daemon=True).start()
        raise KeyboardInterrupt

    def _repeat(self) -> None:
        while not self._heard.wait(self._every):
            if hasattr(signal, "pthread_kill"):
                # To the main thread itself, so that it also wakes from a wait for a lock.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            else:
                _thread.interrupt_main()


#: Those of the command that runs.
interrupts = Interrupts()
