"""Bad input to the studies, as a user meets it: an error with file, row, value and remedy, or a counted exclusion.

Every command runs in this process with NumPy's warnings as errors: nothing is divided by zero on the way.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taxtune.cli import main

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

TREE = """path,aliases
life/bird,birds
life/bird/duck/mallard,
life/bird/duck/teal,
life/bird/thrush/Turdus merula,blackbird
life/fish/cod,
life/fish/eel,
"""
LABELS = ("life", "bird", "fish", "duck", "thrush", "mallard", "teal", "Turdus merula", "cod", "eel")
SHOWN = ("mallard", "teal", "cod", "eel", "cod", "blackbird")
KINDS = ("caption", "single", "random", "altered")

Run = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in a folder with input of all kinds; returns its exit code, output and messages."""
    monkeypatch.chdir(folder)

    def started(command: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["taxtune", *command.split()])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out, said.err

    return started


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    good = "id,answer,target\n1,thrush,blackbird\n2,a bird,mallard\n3,cod,cod\n4,eel,cod\n"
    mega = "a mallard or a teal " * 50_000
    texts = {
        "tree.csv": TREE,
        "flat.csv": "path\nr/a\nr/b\nr/c\n",
        "good.csv": good,
        "same.csv": good,
        "mega.csv": f'id,answer,target\n1,"{mega}",mallard\n2,cod,cod\n3,{"x" * 1_000_000},eel\n',
        "twice.csv": "id,answer,target\n1,cod,cod\n1,eel,eel\n",
        "other.csv": "id,answer,target\n7,cod,cod\n8,eel,eel\n",
        "identical.csv": "id,answer,target\n" + "".join(f"{i},some duck,mallard\n" for i in range(10_000)),
        "signs.csv": "id,answer,target\n1,\u200fבַּרְוָז,mallard\n2,🦆🦆,mallard\n3,\u202ecod\u202c [bold]x[/],teal\n",
        "perfect.csv": "id,answer,target\n1,blackbird,blackbird\n2,mallard,mallard\n3,cod,cod\n4,cod,cod\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    records: dict[str, list[dict[str, Any]]] = {
        "nothing.jsonl": [{"id": i, "answer": "", "target": "cod"} for i in range(4)],
        "failed.jsonl": [{"id": i, "answer": None, "target": "cod"} for i in range(4)],
        "nan.jsonl": [{"id": 1, "answer": float("nan"), "target": "cod"}],
        "halves.jsonl": [
            {"id": 1, "answer": "\ud800 cod", "target": "cod"},
            {"id": 2, "answer": "eel", "target": "eel"},
        ],
    }
    pairs = [
        {"image": "1", "kind": kind, "text": f"{kind} {i}", "score": (7 * i + len(kind)) % 5 / 5}
        for kind in KINDS
        for i in range(3)
    ]
    records |= {
        "pairs.jsonl": pairs,
        "true.jsonl": [{**pair, "score": True} for pair in pairs],
        "huge.jsonl": [{**pair, "score": 1e308} for pair in pairs],
        # No image has both right and wrong texts of any kinds; and one image alone has captions.
        "apart.jsonl": [pair | {"image": "2" if pair["kind"] in ("random", "altered") else "1"} for pair in pairs],
        "rare.jsonl": pairs + [pair | {"image": "2"} for pair in pairs if pair["kind"] in ("single", "random")],
    }
    for name, rows in records.items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    with (folder / "long-pairs.csv").open("w") as file:
        file.write("image,kind,text,score\n1,caption,a, b,0.5\n")
    scores = np.random.default_rng(0).random((6, 10))
    arrays: dict[str, dict[str, Any]] = {
        "good": {},
        "huge": {"scores": scores * 1e300},
        "flat": {"scores": scores[:4, :4], "labels": np.array(list("rabc")), "targets": np.array(list("abca"))},
        "zeros": {"image_embeddings": np.zeros((6, 3)), "label_embeddings": np.ones((10, 3))},
    }
    for name, changed in arrays.items():
        values = {"scores": scores, "labels": np.array(LABELS), "targets": np.array(SHOWN)} | changed
        np.savez_compressed(folder / f"{name}.npz", **values)
    whole = (folder / "good.npz").read_bytes()
    (folder / "part.npz").write_bytes(whole[: len(whole) // 2])
    (folder / "flipped.npz").write_bytes(whole[:90] + bytes(255 - byte for byte in whole[90:140]) + whole[140:])
    rows = "".join(f"i{i},{SHOWN[i]},{','.join(map(str, scores[i]))}\n" for i in range(6))
    (folder / "scores-long.csv").write_text(f"image,label,{','.join(LABELS)}\n{rows.strip()},9\n")
    (folder / "scores-unnamed.csv").write_text(f"image,label,{','.join(LABELS)},\n{rows}")
    return folder


RANKING = "study ranking -t tree.csv --resamples 5 -m exact-match"
GRANULARITY = "study granularity -t tree.csv --resamples 5"
SPECIFICITY = "study specificity --resamples 5"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            f"{RANKING} a=good.csv b=twice.csv",
            ["twice.csv", "row 3", "'1' is already in row 2", "or remove these rows"],
        ),
        (f"{RANKING} a=good.csv b=other.csv", ["do not have the same rows", "'7'", "--rows common"]),
        (f"{RANKING} a=good.csv b=same.csv --id-column image", ["good.csv", "no column 'image'"]),
        (f"{RANKING} a=failed.jsonl b=failed.jsonl", ["No model has answers"]),
        (f"{RANKING} a=nan.jsonl b=nan.jsonl", ["row 1", "is not text: nan"]),
        (f"{RANKING} a=good.csv b=same.csv --out good.csv", ["good.csv", "nothing was written"]),
        (f"{RANKING} a=good.csv b=same.csv --cache-dir good.csv", ["--cache-dir"]),
        (f"{RANKING} a=good.csv b=same.csv --similarity sentence:x --device abacus", ["abacus", "cpu"]),
        (f"{RANKING} a=good.csv b=missing.csv -m sentence:x", ["missing.csv", "does not exist"]),
        ("study prompts -t tree.csv good.csv --guess 1 --guess 2", ["guess 2", "no such guess"]),
        ("score diagnose good.csv -t tree.csv --inclusion contained --concept rouge-1 --high nan", ["--high"]),
        ("score diagnose good.csv -t tree.csv --similarity sentence:x --device abacus", ["abacus"]),
        ("score diagnose good.csv -t tree.csv --inclusion lave --concept rouge-1", ["--question-column"]),
        (f"{GRANULARITY} --scores part.npz", ["part.npz", "cannot be read"]),
        (f"{GRANULARITY} --scores flipped.npz", ["flipped.npz", "cannot be read"]),
        (f"{GRANULARITY} --scores zeros.npz", ["`image_embeddings` and `label_embeddings` must hold a finite vector"]),
        (f"{GRANULARITY} --scores scores-long.csv", ["scores-long.csv: The score file cannot be read as CSV"]),
        (f"{GRANULARITY} --scores scores-unnamed.csv", ["scores-unnamed.csv", "Unnamed: 12"]),
        (f"{GRANULARITY} --scores good.npz --root cod", ["nothing below this node"]),
        (
            "study granularity -t flat.csv --scores flat.npz --form two-level --coarse-level 1",
            ["at least two coarse classes"],
        ),
        (f"{SPECIFICITY} --scored true.jsonl", ["true.jsonl:1", "12 such rows", "True"]),
        (f"{SPECIFICITY} --scored huge.jsonl", ["huge.jsonl:1", "too large"]),
        (f"{SPECIFICITY} --scored long-pairs.csv", ["long-pairs.csv:2", "5 cells, the header 4"]),
    ],
)
def test_it_is_refused(run: Run, folder: Path, command: str, words: list[str]) -> None:
    before = {path.name for path in folder.iterdir()}
    code, out, err = run(command)
    assert code == 2
    assert out == ""
    assert [word for word in words if word not in " ".join(err.split())] == []
    assert {path.name for path in folder.iterdir()} == before
