"""`taxtune audit` as a user runs it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from taxtune.audit.population import place_answers
from taxtune.audit.verdicts import Finding, Verdict, VerdictLog
from taxtune.mapping import Mapper
from taxtune.taxonomy import read_taxonomy
from tests.cli.commands import run_command
from tests.servers import OpenAIServer, status
from tests.tuning.toy import make_parts, tuned

TREE = """path,aliases
food/dessert/cake,gateau
food/dessert/ice cream,
food/soup/pho,pho bo
"""
ANSWERS = ["pho", "A: cake.", "pho", "chocolate dessert", "ice cream", "a dessert", "pho"]
Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "dishes.csv").write_text(TREE)
    return tmp_path / "dishes.csv"


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    (tmp_path / "answers.txt").write_text("\n".join(ANSWERS) + "\n")
    return tmp_path / "answers.txt"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    session = make_parts(tmp_path / "recipe", tmp_path / "run", overrides=("iterations=1",))
    tuned(session, tmp_path / "run")
    return tmp_path / "run"


def judge_all(folder: Path, tree: Path, answers: list[str], chosen: dict[str, str] | None = None) -> None:
    """Gives verdicts as a person would have: right, but for answers that belong elsewhere."""
    taxonomy = read_taxonomy(tree)
    folder.mkdir(exist_ok=True)
    log = VerdictLog(folder / "audit.jsonl")
    people = place_answers("x", answers, Mapper(taxonomy))
    for item in people.items:
        node = (chosen or {}).get(item.answer)
        finding = Finding(Verdict.RIGHT) if node is None else Finding(Verdict.TOO_GENERAL, taxonomy.resolve(node))
        log.add(people, item, finding)


def judged_by(said: dict[str, Any]) -> Any:
    def reply(body: dict[str, Any]) -> Any:
        answer = body["messages"][-1]["content"].split('Text of the answer: "')[1].split('"\n')[0]
        return said.get(answer, "Verdict: right")

    return reply


# -- judged by a model -------------------------------------------------------------------------------------------------


def test_a_model_judges_a_file(monkeypatch: Patch, capsys: Capture, tmp_path: Path, tree: Path, answers: Path) -> None:
    said = {
        "chocolate dessert": "Verdict: too general\nNode: cake\nWords: chocolate dessert",
        "ice cream": "Hard to tell.",
        "a dessert": status(400, "bad"),
    }
    arguments = ("audit", answers, "-t", tree, "--llm", "openai/judge", "--cache-dir", tmp_path / "cache", "--json")
    with OpenAIServer(judged_by(said)) as server:
        assert run_command(monkeypatch, *arguments, "--api-base", server.api_base) == 0
        assert len(server.chats) == 5  # distinct answers
        out = capsys.readouterr().out
        assert run_command(monkeypatch, *arguments, "--api-base", server.api_base) == 0
        assert len(server.chats) == 6  # what failed is asked again, what could not be read is on disk
    found = json.loads(out)
    assert (found["answers"], found["distinct"], found["drawn"], found["judged"]) == (7, 5, 5, 3)
    assert (found["replies"]["unread"], found["replies"]["failed"]) == (1, 1)
    assert found["replies"]["identity"]["model"] == "openai/judge"
    # Of what is judged, 4 answers are right and 1 is not; the others of a drawn-whole file stand for the rest.
    assert found["shares"]["right"]["share"] == pytest.approx(4 / 5)
    assert found["shares"]["too_general"]["share"] == pytest.approx(1 / 5)
    assert any("unscored: the judge's reply contains no verdict" in text for text in found["notes"])
    folder = tmp_path / "answers-audit"
    assert json.loads((folder / "audit-llm.json").read_text())["shares"] == found["shares"]
    assert (folder / "audit-llm-aliases.csv").read_text() == (
        'node,alias,source\nfood/dessert/cake,chocolate dessert,"audit, openai/judge"\n'
    )
    placed = [json.loads(line) for line in (folder / "audit-llm-placed.jsonl").read_text().splitlines()]
    assert {row["answer"]: row["node"] for row in placed} == {
        "pho": "food/soup/pho",
        "A: cake.": "food/dessert/cake",
        "chocolate dessert": "food/dessert/cake",
    }
    # What is left is what taxtune study mapping reads.
    assert run_command(monkeypatch, "study", "mapping", folder / "audit-llm-placed.jsonl", "-t", tree, "-m", "lexical",
                       "--json") == 0  # fmt: skip


def test_a_refused_key_ends_it(monkeypatch: Patch, capsys: Capture, tree: Path, answers: Path, tmp_path: Path) -> None:
    with OpenAIServer(then=status(401)) as server:
        code = run_command(
            monkeypatch, "audit", answers, "-t", tree, "--llm", "openai/judge", "--api-base", server.api_base,
            "--cache-dir", tmp_path / "cache",
        )  # fmt: skip
    assert code == 2
    assert "taxtune: error: " in capsys.readouterr().err


def test_a_model_is_held_against_a_person(
    monkeypatch: Patch, capsys: Capture, tmp_path: Path, tree: Path, answers: Path
) -> None:
    judge_all(tmp_path / "answers-audit", tree, ["pho", "chocolate dessert"], {"chocolate dessert": "cake"})
    arguments = ("audit", answers, "-t", tree, "--llm", "openai/judge", "--cache-dir", tmp_path / "cache", "--json")
    with OpenAIServer(then="Verdict: right") as server:
        assert run_command(monkeypatch, *arguments, "--api-base", server.api_base) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert "Of 2 placements that a person also judged, the model agrees on 1." in notes


# -- judged by a person ------------------------------------------------------------------------------------------------


def test_what_was_judged_whole_needs_no_terminal(
    monkeypatch: Patch, capsys: Capture, tmp_path: Path, tree: Path, answers: Path
) -> None:
    judge_all(tmp_path / "answers-audit", tree, ANSWERS, {"chocolate dessert": "cake"})
    assert run_command(monkeypatch, "audit", answers, "-t", tree) == 0
    out, err = capsys.readouterr()
    assert "right (acceptable)" in out
    assert "5 judged of 5 distinct answers drawn from 7, 5 of them distinct" in out
    assert "there are only 5 distinct answers" in err
    assert "audit-placed.jsonl" in err


def test_changed_placements_are_said_and_asked_anew(
    monkeypatch: Patch, capsys: Capture, tmp_path: Path, tree: Path, answers: Path
) -> None:
    judge_all(tmp_path / "answers-audit", tree, ANSWERS, {"chocolate dessert": "cake"})
    assert run_command(monkeypatch, "audit", answers, "-t", tree) == 0
    capsys.readouterr()
    # One answer goes elsewhere now, another where it was said to belong.
    tree.write_text(TREE.replace("gateau", "gateau;chocolate dessert").replace("dessert/ice cream", "frozen/ice cream"))
    assert run_command(monkeypatch, "audit", answers, "-t", tree) == 2
    err = capsys.readouterr().err
    assert (
        "1 verdict is for a placement that has changed, because the mapper or the tree is different; you will be "
        "asked about these again"
    ) in err
    assert "--llm" in err


def test_a_run_is_audited_on_record_and_its_report_says_so(
    monkeypatch: Patch, capsys: Capture, tmp_path: Path, run: Path
) -> None:
    assert "Not audited: run taxtune audit" in (run / "report.html").read_text("utf-8")
    rows = json.loads((run / "result.json").read_text())["heldout"][1]["rows"]
    judge_all(run, tmp_path / "recipe" / "tree.csv", [row["answer"] for row in rows])
    assert run_command(monkeypatch, "audit", run, "--json") == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["answers"], found["shares"]["right"]["share"]) == (12, 1.0)
    assert found["mapper"]["similarity"] == "lexical"
    assert "otherwise than in the run" not in err
    page = (run / "report.html").read_text("utf-8")
    assert "Audited by a person: of the 12 held-out answers to the winner template" in page
    assert "Not audited" not in page
    # Another evaluation has files of its own, and the same verdicts.
    rows = json.loads((run / "history.jsonl").read_text().splitlines()[0])["rows"]
    judge_all(run, tmp_path / "recipe" / "tree.csv", [row["answer"] for row in rows])
    for named in ((run, "--evaluation", "0"), (f"{run}:0",)):
        assert run_command(monkeypatch, "audit", *named, "--json") == 0
        assert json.loads(capsys.readouterr().out)["answers"] == 8
    assert json.loads((run / "audit-iteration-0.json").read_text())["answers"] == 8
    assert (run / "report.html").read_text("utf-8") == page


def test_a_runs_answers_on_another_tree_are_no_audit_of_the_run(
    monkeypatch: Patch, capsys: Capture, tmp_path: Path, run: Path
) -> None:
    other = tmp_path / "other.csv"
    other.write_text("path\ncolour/red/scarlet\ncolour/red/crimson\ncolour/blue/navy\ncolour/blue/azure\n")
    rows = json.loads((run / "result.json").read_text())["heldout"][1]["rows"]
    judge_all(run, other, [row["answer"] for row in rows])
    assert run_command(monkeypatch, "audit", run, "-t", other) == 0
    assert "answers are placed otherwise than in the run" in capsys.readouterr().err
    assert "The audit is of other answers or placements" in (run / "report.html").read_text("utf-8")


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone"], "There is no such run or file of answers. Check the path."),
        (["empty"], "The folder does not contain a taxtune run."),
        (["answers.txt"], "A file of answers needs a taxonomy to place them on. Give it with -t TREE."),
        (["answers.txt", "-t", "gone.csv"], "The taxonomy file does not exist."),
        (["nothing.txt", "-t", "dishes.csv"], "The file contains no answers."),
        (["answers.txt", "-t", "dishes.csv", "--evaluation", "winner"], "Only runs have evaluations."),
        (["empty:0", "--evaluation", "1"], "The run and --evaluation both name an evaluation."),
        (["answers.txt", "-t", "dishes.csv", "--preset", "best"], "The mapper has no such preset."),
        (["answers.txt", "-t", "dishes.csv", "--similarity", "magic"], "magic"),
        (["answers.txt", "-t", "dishes.csv", "--input", "xml"], "Unknown input format."),
        (["answers.txt", "-t", "dishes.csv", "--root", "cheese"], "'cheese' is not on the taxonomy."),
        (["answers.txt", "-t", "dishes.csv", "--llm", " "], "The model's name is empty."),
        (["answers.txt", "-t", "dishes.csv"], "but input or messages are redirected. Run it in a terminal, "),
        (["answers.txt", "-t", "dishes.csv", "--n", "900"], "let a chat model judge: --llm"),
    ],
)
def test_bad_input(
    monkeypatch: Patch, capsys: Capture, tmp_path: Path, tree: Path, answers: Path, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "nothing.txt").write_text("")
    assert run_command(monkeypatch, "audit", *arguments) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "answers-audit").exists()


@pytest.mark.parametrize("n", ["0", "-3", "many"])
def test_a_sample_of_none(monkeypatch: Patch, tree: Path, answers: Path, n: str) -> None:
    assert run_command(monkeypatch, "audit", answers, "-t", tree, "--n", n) == 2


def test_a_run_whose_tree_is_gone(monkeypatch: Patch, capsys: Capture, tmp_path: Path, run: Path) -> None:
    (tmp_path / "recipe" / "tree.csv").unlink()
    assert run_command(monkeypatch, "audit", run) == 2
    assert "The run's taxonomy has been moved" in capsys.readouterr().err
    assert run_command(monkeypatch, "audit", run, "--preset", "best", "-t", "x") == 2
    assert "The mapper has no such preset" in capsys.readouterr().err


# -- in a terminal -----------------------------------------------------------------------------------------------------


class Terminal:
    """A process with a terminal of its own."""

    def __init__(self, *arguments: object, folder: Path) -> None:
        self._here, there = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "taxtune", *map(str, arguments)],
            stdin=there, stdout=subprocess.PIPE, stderr=there, cwd=folder, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # or Ctrl-C would be nobody's signal
            env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
        )  # fmt: skip
        os.close(there)
        self.shown = ""
        self._read = 0

    def wait_for(self, *texts: str) -> str:
        """Waits until one of the texts is shown after the last that was waited for; returns it."""
        end = time.monotonic() + 60
        while True:
            found = [(self.shown.find(text, self._read), text) for text in texts if text in self.shown[self._read :]]
            if found:
                place, text = min(found)
                self._read = place + len(text)
                return text
            assert time.monotonic() < end, self.shown
            assert self._more() or self._process.poll() is None, self.shown

    def press(self, keys: str) -> None:
        os.write(self._here, keys.encode())

    def end(self) -> tuple[int, str]:
        """Returns the exit code and standard output."""
        while self._process.poll() is None:
            self._more()
        out = self._process.communicate(timeout=60)[0].decode()
        while self._more():
            pass
        os.close(self._here)
        return self._process.returncode, out

    def _more(self) -> bool:
        if not select.select([self._here], [], [], 0.1)[0]:
            return False
        try:
            text = os.read(self._here, 65536).decode("utf-8", "replace")
        except OSError:  # the other end is closed
            return False
        self.shown += text
        return bool(text)


@pytest.mark.heavy
def test_ctrl_c_keeps_what_was_judged(tmp_path: Path, tree: Path, answers: Path) -> None:
    terminal = Terminal("audit", answers.name, "-t", tree.name, folder=tmp_path)
    terminal.wait_for("1 of 5")
    terminal.wait_for("quit")
    terminal.press("r")
    terminal.wait_for("2 of 5")
    terminal.wait_for("quit")
    terminal.press("\x03")
    code, _ = terminal.end()
    assert code == 130
    assert "stopped; your verdicts so far are saved in answers-audit/audit.jsonl" in terminal.shown
    assert json.loads((tmp_path / "answers-audit" / "audit.json").read_text())["judged"] == 1


@pytest.mark.heavy
def test_from_a_wrong_placement_to_the_alias_that_mends_it(tmp_path: Path, tree: Path, answers: Path) -> None:
    judge_all(tmp_path / "answers-audit", tree, [answer for answer in ANSWERS if answer != "chocolate dessert"])
    terminal = Terminal("audit", answers.name, "-t", tree.name, "--json", folder=tmp_path)
    terminal.wait_for("chocolate dessert")
    terminal.wait_for("quit")
    terminal.press("c")
    terminal.wait_for("It should be on: ")
    terminal.press("cak")  # at once, as fast typing comes
    terminal.wait_for("cak")
    terminal.press("\r")
    terminal.wait_for("fixes it and breaks nothing else")
    terminal.press("t")
    code, out = terminal.end()
    assert code == 0
    assert json.loads(out)["shares"]["too_general"]["share"] == pytest.approx(1 / 7)
    text = (tmp_path / "answers-audit" / "audit-aliases.csv").read_text()
    assert text == "node,alias,source\nfood/dessert/cake,chocolate dessert,audit\n"
