import contextlib
import signal
import threading
import time

import pytest

from taxtune.cli.interrupts import Interrupts


def test_an_interrupt_that_is_swallowed_comes_again():
    def work():
        with contextlib.suppress(KeyboardInterrupt):  # as a finalizer does it
            signal.raise_signal(signal.SIGINT)
        threading.Event().wait(10)

    with pytest.raises(KeyboardInterrupt), Interrupts(every=0.05):
        work()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_that_is_heard_comes_once():
    interrupts = Interrupts(every=0.02)
    with interrupts:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        interrupts.heard()
        time.sleep(0.2)


def test_who_ignores_interrupts_is_left_alone():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupts():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
