"""A process of taxtune: how it ends, and what it lets through to a terminal."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout

import pytest

from taxtune.atomic import writing
from tests.cli.commands import run_captured, run_command, run_refused

# A thread is in the middle of an import as the process ends, and garbage has a finalizer that wants that module.
STUCK = """
import gc, signal, sys, threading
from taxtune.cli import start
from taxtune.cli.app import app

class Client:
    def __del__(self):
        import endless

@app.command()
def stuck():
    begun = threading.Event()
    sys.begun = begun
    threading.Thread(target=__import__, args=("endless",), daemon=True).start()
    begun.wait()
    print("half a result")
    signal.raise_signal(signal.SIGINT)

gc.set_threshold(0)  # garbage is collected at the end
client = Client()
client.itself = client
del client
sys.argv = ["taxtune", "stuck"]
start()
"""


def test_a_thread_in_the_middle_of_an_import_does_not_hold_up_the_end(tmp_path):
    (tmp_path / "endless.py").write_text(
        "import sys, threading\nsys.begun.set()\nthreading.Event().wait()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", STUCK], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (130, "half a result\n")
    assert done.stderr.startswith("taxtune: stopped; run the same command again")


@pytest.mark.parametrize(
    "ctrl_c", [signal.default_int_handler, signal.SIG_IGN], ids=["terminal", "background"]
)
def test_sigterm_ends_a_command_as_ctrl_c_does_and_leaves_nothing_half_written(
    tmp_path, monkeypatch, ctrl_c
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def stopped(*_):
        with (
            tempfile.TemporaryDirectory(prefix="taxtune-"),
            writing(tmp_path / "labels.csv") as file,
        ):
            file.write(b"half")
            assert len(list(tmp_path.iterdir())) == 2
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("taxtune.taxonomy.check_taxonomy", stopped)
    before = signal.signal(signal.SIGINT, ctrl_c)
    try:
        done = run_captured("taxonomy", "check", "tree.csv")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (done.code, list(tmp_path.iterdir())) == (143, [])
    assert done.err.startswith("taxtune: stopped; run the same command again")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


class TerminalOutput(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def tree(tmp_path):
    file = tmp_path / "tree.csv"
    file.write_text("path\nthing/c\x1b[31mat\nthing/dog\n", encoding="utf-8")
    return file


def test_a_terminal_is_shown_control_characters_and_does_not_obey_them(tree, tmp_path, monkeypatch):
    answers = tmp_path / "answers.txt"
    answers.write_text("a dog\x1b]0;title\x07\x9b2J\n", encoding="utf-8")
    for arguments in (
        ("place", answers, "-t", tree),
        ("place", answers, "-t", tree, "--json"),
        ("taxonomy", "show", tree),
    ):
        with redirect_stdout(TerminalOutput()) as out:
            run_command(monkeypatch, *arguments)
        assert out.getvalue().endswith("\n")
        assert not {"\x1b", "\x07", "\x9b"} & set(out.getvalue()), arguments


def test_messages_show_control_characters(tree):
    assert "\x1b" not in run_refused("taxonomy", "show", tree, "d\x1b[2Jog")
