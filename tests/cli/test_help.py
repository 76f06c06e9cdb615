import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from taxtune.cli.app import app
from tests.cli.commands import run_command

HEAVY = {
    "torch",
    "transformers",
    "mlflow",
    "litellm",
    "optuna",
    "open_clip",
    "sklearn",
    "scipy",
    "pandas",
    "PIL",
}


def test_help_loads_nothing_heavy():
    """`taxtune --help` answers at once because of what it does not import."""
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from taxtune.cli.app import app\n"
        "result = CliRunner().invoke(app, ['--help'])\n"
        "assert result.exit_code == 0, result.output\n"
        "assert 'compare' in result.output\n"
        f"print(sorted(set(sys.modules) & {HEAVY | {'numpy', 'pydantic', 'taxtune.taxonomy'}!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_errors_exit_with_two_and_one_message(tmp_path):
    command = [sys.executable, "-m", "taxtune", "tune", "fieldgide"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Did you mean 'fieldguide'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "option"), [("measure", "--reference-column"), ("diagnose", "--inclusion")]
)
def test_score_has_subcommands(monkeypatch, capsys, command, option):
    monkeypatch.setenv("COLUMNS", "200")
    assert run_command(monkeypatch, "score", command, "--help") == 0
    shown = capsys.readouterr().out
    assert f"taxtune score {command} " in shown
    assert option in shown
    assert run_command(monkeypatch, command) == 2


def every(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Returns all commands and groups of commands with the words that call them."""
    yield name, command
    for child in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from every(command.get_command(None, child), f"{name} {child}")


COMMANDS = [
    name.removeprefix("taxtune").split()
    for name, _ in every(typer.main.get_command(app), "taxtune")
]
#: The first line of a parameter: in a list of two columns, or in a panel.
FIRST = re.compile(r"(?:  |│ )(-[-\w]+|\[?[A-Z][-A-Z:=|.\]]+)(?=,? |$)")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_terminal_of_80_columns_shows_each_parameter_in_three_lines(command, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)
    assert run_command(monkeypatch, *command, "--help") == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    found = parameters(shown)
    assert "--help" in found
    assert {name: lines for name, lines in found.items() if len(lines) > 3} == {}
    # A twin is worth its place only where it undoes a default.
    assert not re.search(r"--no-(?!names)", shown)


def parameters(shown: str) -> dict[str, list[str]]:
    """Returns the lines that each option or argument has in a help."""
    found: dict[str, list[str]] = {}
    inside, name = False, ""
    for line in shown.splitlines():
        heading = re.match(r"(?:╭─ )?(Arguments|Options)\b", line)
        if heading or not line.strip() or line.startswith(("╰", "╭")):
            inside = bool(heading)
        elif inside:
            name = first[1] if (first := FIRST.match(line)) else name
            found.setdefault(name, []).append(line)
    return found
