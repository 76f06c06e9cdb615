import contextlib
import signal
import tempfile
import threading
import time

import pytest
import typer

from taxtune.atomic import writing
from taxtune.cli.interrupts import Interrupts, stoppable


def test_an_interrupt_that_is_swallowed_comes_again():
    def work():
        with contextlib.suppress(KeyboardInterrupt):  # as a finalizer does it
            signal.raise_signal(signal.SIGINT)
        threading.Event().wait(10)

    with pytest.raises(KeyboardInterrupt), Interrupts(every=0.05):
        work()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_sigterm_ends_a_command_as_ctrl_c_does_and_leaves_nothing_half_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def command():
        with tempfile.TemporaryDirectory(prefix="taxtune-"), writing(tmp_path / "labels.csv") as file:
            file.write(b"half")
            assert len(list(tmp_path.iterdir())) == 2
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(typer.Exit) as ended:
        stoppable(command)()
    assert (ended.value.exit_code, list(tmp_path.iterdir())) == (143, [])
    assert capsys.readouterr().err == "taxtune: stopped; nothing was saved.\n"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_an_interrupt_that_is_heard_comes_once():
    interrupts = Interrupts(every=0.02)
    with interrupts:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        interrupts.heard()
        time.sleep(0.2)


def test_who_ignores_interrupts_is_left_alone_but_can_be_terminated():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupts():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)
