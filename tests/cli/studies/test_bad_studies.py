"""Bad input to the studies, as a user meets it: an error with file, row, value and remedy, or a counted exclusion.

Every command runs in this process with NumPy's warnings as errors: nothing is divided by zero on the way.
"""

from __future__ import annotations

import json

import pytest

from tests.cli.commands import run_captured

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

TREE = """path,aliases
life/bird,birds
life/bird/duck/mallard,
life/bird/duck/teal,
life/bird/thrush/Turdus merula,blackbird
life/fish/cod,
life/fish/eel,
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    good = "id,answer,target\n1,thrush,blackbird\n2,a bird,mallard\n3,cod,cod\n4,eel,cod\n"
    texts = {
        "tree.csv": TREE,
        "good.csv": good,
        "same.csv": good,
        "twice.csv": "id,answer,target\n1,cod,cod\n1,eel,eel\n",
        "other.csv": "id,answer,target\n7,cod,cod\n8,eel,eel\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    records = {
        "failed.jsonl": [{"id": i, "answer": None, "target": "cod"} for i in range(4)],
        "nan.jsonl": [{"id": 1, "answer": float("nan"), "target": "cod"}],
    }
    for name, rows in records.items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


RANKING = "study ranking -t tree.csv --resamples 5 -m exact-match"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            f"{RANKING} a=good.csv b=twice.csv",
            ["twice.csv", "row 3", "'1' is already in row 2", "or remove these rows"],
        ),
        (
            f"{RANKING} a=good.csv b=other.csv",
            ["do not have the same rows", "'7'", "--rows common"],
        ),
        (f"{RANKING} a=failed.jsonl b=failed.jsonl", ["No model has answers"]),
        (f"{RANKING} a=nan.jsonl b=nan.jsonl", ["row 1", "is not text: nan"]),
        (f"{RANKING} a=good.csv b=same.csv --out good.csv", ["good.csv", "nothing was written"]),
        (
            "score diagnose good.csv -t tree.csv --inclusion contained --concept rouge-1 --high nan",
            ["--high"],
        ),
    ],
)
def test_it_is_refused(folder, command, words):
    before = {path.name for path in folder.iterdir()}
    done = run_captured(*command.split(), folder=folder)
    assert (done.code, done.out) == (2, "")
    assert "Traceback" not in done.err
    assert [word for word in words if word not in " ".join(done.err.split())] == []
    assert {path.name for path in folder.iterdir()} == before
