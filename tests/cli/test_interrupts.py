import signal
import tempfile

import pytest
import typer

from taxtune.atomic import writing
from taxtune.cli.interrupts import interrupts, stoppable


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


def test_who_ignores_interrupts_is_left_alone_but_can_be_terminated():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts:
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)
