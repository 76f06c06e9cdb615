from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from PIL import Image

TAXONOMY = """path,aliases
thing/animal/cat,
thing/animal/dog,
thing/food/apple,
thing/food/bread,
"""
SCORES = """image,label,animal,food,cat,dog,apple,bread
a.png,cat,0.1,0.3,0.9,0.2,0.1,0.1
b.png,dog,0.5,0.2,0.8,0.7,0.1,0.1
c.png,apple,0.4,0.1,0.1,0.1,0.6,0.2
d.png,bread,0.1,0.6,0.1,0.9,0.1,0.3
"""


STUDY = "granularity"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tree.csv").write_text(TAXONOMY, encoding="utf-8")
    (tmp_path / "scores.csv").write_text(SCORES, encoding="utf-8")
    return tmp_path


def test_a_clip_model_on_images(study, folder, tiny_clip):
    colours = {"cat": "red", "dog": "blue", "apple": "green", "bread": "brown"}
    for label, colour in colours.items():
        images = folder / "images" / label
        images.mkdir(parents=True)
        for i in range(2):
            noise = Image.effect_noise((40, 40), 60 + 10 * i).convert("RGB")
            noise.save(images / f"n{i}.png")
            Image.new("RGB", (40 + i, 40), colour).save(images / f"c{i}.png")
    options = "-t tree.csv --resamples 0 --device cpu --cache-dir cache --data images --model"
    common = (*options.split(), tiny_clip)
    (row,) = study.json(*common)["tables"]["granularity"]
    assert row["scores"] == f"clip:local-dir:{'/'.join(Path(tiny_clip).parts[-2:])}"
    assert 0 < row["Leaves"] <= 100
    two = shlex.split("--form two-level --coarse animal --coarse food")
    assert study.json(*common, *two)["tables"]["two-level"][0]["CG FG-emb"] is not None
    # Images outside the root are left out, and said.
    out, err = study.said(*common, "--root", "food", "--json")
    assert json.loads(out)["tables"]["granularity"][0]["images"] == 8
    assert "8 of 16 images are outside 'food'" in err


ANSWERS = "--model no-such-model --answers good.csv"
CAPTIONS = (
    "two cats\nan animal\na dog; dogs\n\nbread\na loaf of bread\nDogs, cats and apples\na house\n"
)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("--form frequency", "No captions were given"),
        ("--form frequency --captions c.txt --scores scores.csv", "does not use --scores"),
        # What is wrong with the captions is said before the scores are looked at.
        (
            "--scores none.npz --captions words.txt",
            "words.txt: None of 1 captions names a label",
        ),
        ("--scores scores.csv --coarse-level 1", "does not use --coarse-level"),
        ("", "No scores were given"),
        ("--scores scores.csv --form two-level", "by a level or by their labels"),
        ("--scores scores.csv --root animals", "Did you mean 'animal'"),
        ("--form language", "needs a --model"),
        ("--model llm:openai/x --answers a.csv", "does not give scores"),
        (f"{ANSWERS} --form two-level --coarse-level 9", "at least two coarse classes"),
        (
            "--model x --answers one-class.csv",
            "one-class.csv: The images do not show two leaves",
        ),
    ],
)
def test_errors(study, folder, command, said):
    files = {
        "c.txt": CAPTIONS,
        "words.txt": "a house",
        "good.csv": "answer,target\na cat,cat\na dog,dog\n",
        "one-class.csv": "answer,target\na cat,cat\na dog,cat\n",
    }
    for name, text in files.items():
        Path(name).write_text(text)
    assert said in study.refused("-t", "tree.csv", *command.split())
