import signal
import tempfile

import pytest
import typer

from taxtune.atomic import writing
from taxtune.cli.interrupts import stoppable


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
    assert capsys.readouterr().err.startswith("taxtune: stopped; run the same command again")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
