"""Bad input to the studies, as a user meets it: an error with file, row, value and remedy, or a counted exclusion.

Every command runs in this process with NumPy's warnings as errors: nothing is divided by zero on the way.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
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
LABELS = ("life", "bird", "fish", "duck", "thrush", "mallard", "teal", "Turdus merula", "cod", "eel")
SHOWN = ("mallard", "teal", "cod", "eel", "cod", "blackbird")
KINDS = ("caption", "single", "random", "altered")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    good = "id,answer,target\n1,thrush,blackbird\n2,a bird,mallard\n3,cod,cod\n4,eel,cod\n"
    texts = {
        "tree.csv": TREE,
        "flat.csv": "path\nr/a\nr/b\nr/c\n",
        "good.csv": good,
        "same.csv": good,
        "twice.csv": "id,answer,target\n1,cod,cod\n1,eel,eel\n",
        "other.csv": "id,answer,target\n7,cod,cod\n8,eel,eel\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    records: dict[str, list[dict[str, Any]]] = {
        "failed.jsonl": [{"id": i, "answer": None, "target": "cod"} for i in range(4)],
        "nan.jsonl": [{"id": 1, "answer": float("nan"), "target": "cod"}],
    }
    pairs = [
        {"image": "1", "kind": kind, "text": f"{kind} {i}", "score": (7 * i + len(kind)) % 5 / 5}
        for kind in KINDS
        for i in range(3)
    ]
    records |= {
        "pairs.jsonl": pairs,
        "true.jsonl": [{**pair, "score": True} for pair in pairs],
    }
    for name, rows in records.items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    with (folder / "long-pairs.csv").open("w") as file:
        file.write("image,kind,text,score\n1,caption,a, b,0.5\n")
    scores = np.random.default_rng(0).random((6, 10))
    arrays: dict[str, dict[str, Any]] = {
        "good": {},
        "flat": {"scores": scores[:4, :4], "labels": np.array(list("rabc")), "targets": np.array(list("abca"))},
        "zeros": {"image_embeddings": np.zeros((6, 3)), "label_embeddings": np.ones((10, 3))},
    }
    for name, changed in arrays.items():
        values = {"scores": scores, "labels": np.array(LABELS), "targets": np.array(SHOWN)} | changed
        np.savez_compressed(folder / f"{name}.npz", **values)
    whole = (folder / "good.npz").read_bytes()
    (folder / "part.npz").write_bytes(whole[: len(whole) // 2])
    rows = "".join(f"i{i},{SHOWN[i]},{','.join(map(str, scores[i]))}\n" for i in range(6))
    (folder / "scores-long.csv").write_text(f"image,label,{','.join(LABELS)}\n{rows.strip()},9\n")
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
        (f"{RANKING} a=failed.jsonl b=failed.jsonl", ["No model has answers"]),
        (f"{RANKING} a=nan.jsonl b=nan.jsonl", ["row 1", "is not text: nan"]),
        (f"{RANKING} a=good.csv b=same.csv --out good.csv", ["good.csv", "nothing was written"]),
        ("score diagnose good.csv -t tree.csv --inclusion contained --concept rouge-1 --high nan", ["--high"]),
        (f"{GRANULARITY} --scores part.npz", ["part.npz", "cannot be read"]),
        (f"{GRANULARITY} --scores zeros.npz", ["`image_embeddings` and `label_embeddings` must hold a finite vector"]),
        (f"{GRANULARITY} --scores scores-long.csv", ["scores-long.csv: The score file cannot be read as CSV"]),
        (f"{GRANULARITY} --scores good.npz --root cod", ["nothing below this node"]),
        (
            "study granularity -t flat.csv --scores flat.npz --form two-level --coarse-level 1",
            ["at least two coarse classes"],
        ),
        (f"{SPECIFICITY} --scored true.jsonl", ["true.jsonl:1", "12 such rows", "True"]),
        (f"{SPECIFICITY} --scored long-pairs.csv", ["long-pairs.csv:2", "5 cells, the header 4"]),
    ],
)
def test_it_is_refused(folder: Path, command: str, words: list[str]) -> None:
    before = {path.name for path in folder.iterdir()}
    done = run_captured(*command.split(), folder=folder)
    assert (done.code, done.out) == (2, "")
    assert "Traceback" not in done.err
    assert [word for word in words if word not in " ".join(done.err.split())] == []
    assert {path.name for path in folder.iterdir()} == before
