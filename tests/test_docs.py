"""The Python of the README and of the documentation, and the commands of a tutorial, run as their reader would."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import taxtune
from tests.cli.commands import run_captured

ROOT = Path(__file__).parents[1]
SHADES = {
    "cake": (120, 60, 20),
    "ice cream": (250, 220, 230),
    "pho": (150, 160, 70),
    "ramen": (220, 160, 40),
}
TREE = "path,aliases\nfood/dessert/cake,\nfood/dessert/ice cream,gelato\nfood/soup/pho,\nfood/soup/ramen,\n"


def see(image, prompt):
    """Names the dish of a shade that it was asked for, or its group where the prompt asks for care."""
    shade = np.array(image.resize((1, 1)).getpixel((0, 0)))
    distances = {label: np.square(shade - SHADES[label]).sum() for label in SHADES}
    label = min(distances, key=distances.get)
    if "sure" in prompt and label in ("pho", "ramen"):
        return "some kind of soup"
    return f"A: {label}."


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder with tree.csv and photos/, which is the current one."""
    (tmp_path / "tree.csv").write_text(TREE)
    for label, shade in SHADES.items():
        folder = tmp_path / "photos" / label
        folder.mkdir(parents=True)
        for i in range(6):
            lighter = np.minimum(255, np.add(shade, 3 * i))
            picture = Image.new("RGB", (32, 32), tuple(lighter.tolist()))
            picture.save(folder / f"{i}.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blocks(page, language):
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def commands_of(page):
    """Returns the words of each command that a page shows."""
    lines = "".join(blocks(page, "bash")).splitlines()
    return [shlex.split(line, comments=True) for line in lines]


def run_python(page, **names):
    """Runs the Python of a page, with some names that the page takes for granted; returns all names."""
    exec("import taxtune", names)
    found = blocks(page, "python")
    assert found
    for block in found:
        exec(compile(block, page, "exec"), names)
    return names


def run_command(words, *more):
    """Runs a command that a page shows and returns how it ended."""
    done = run_captured(*words[1:], *more)
    assert done.code == 0, f"{shlex.join(words)}\n{done.err}"
    return done


@pytest.mark.heavy
@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/tutorial/python.md",
        "docs/how-to/own-function.md",
        "docs/how-to/gepa-and-dspy.md",
    ],
)
@pytest.mark.usefixtures("photos")
def test_the_python_of_a_page_runs(page):
    if "gepa" in page:
        pytest.importorskip("gepa", reason="gepa is not installed: pip install '.[gepa]'")
    names = run_python(
        page,
        my_model=see,
        my_language_model=lambda prompt: "Only if you are sure, be specific.",
    )
    result = names["result"]
    assert result.best.template
    assert {held.name for held in result.heldout} == {"baseline", "winner"}
    assert Path(result.folder).is_dir()
    hp = taxtune.load_run(result.folder).answers("winner")["hp"].dropna()
    assert len(hp)
    assert hp.between(0, 1).all()


@pytest.mark.heavy
def test_five_commands_lead_from_photos_to_labels(tmp_path, monkeypatch):
    """As the page has them, but for one template on few images."""
    monkeypatch.chdir(tmp_path)
    export, *commands, audit = commands_of("docs/tutorial/your-photos.md")
    assert export[:2] == ["python", "-c"]
    exec(export[2], {})
    assert [command[1] for command in commands] == ["taxonomy", "init", "tune", "tune", "classify"]
    assert audit[1:] == ["audit", "runs/birds"]  # asks a person
    small = "iterations=1 data.tuning=12 data.first_rung=6 data.heldout=30 tracking.mlflow=false"
    sets = [f"--set={setting}" for setting in small.split()]
    for command in commands:
        done = run_command(command, *(sets if command[1] == "tune" else ()))
    assert "100 images: " in done.err
    labels = (tmp_path / "labels.csv").read_text().splitlines()
    assert len(labels) == 101
    shown = "".join(blocks("docs/tutorial/your-photos.md", "csv")).splitlines()
    assert labels[0] in shown
    review = (tmp_path / "labels-review.csv").read_text().splitlines()
    assert review[0] == f"why,{labels[0]}"
    shutil.copy("new-photos/00300.png", "a.jpg")
    shutil.copy("new-photos/00301.png", "b.jpg")
    names = run_python("docs/how-to/classify.md")
    _, label, *_ = labels[1].split(",")
    assert names["classifier"].predict(["a.jpg"]).tolist() == [label]


@pytest.mark.heavy
def test_the_three_doors_of_a_guarantee(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tree.csv").write_text("path\nbird/duck/mallard\nbird/duck/teal\nbird/gull\n")
    images = [f"site {i % 30}/{i}.jpg" for i in range(90)]
    frame = pd.DataFrame({"image": images, "label": ["mallard", "teal", "gull"] * 30})
    frame["burst"] = np.arange(90) // 3
    frame.to_csv("labels.csv", index=False)
    for name in ("scores.csv", "new-scores.csv"):
        frame.assign(score=0.9).to_csv(name, index=False)
    page = "docs/how-to/calibrate.md"
    sets = ["--set=iterations=1", "--set=tracking.mlflow=false"]
    for command in commands_of(page):
        run_command(command, *(sets if command[1] == "tune" else ()))
    assert len(Path("new-labels.csv").read_text().splitlines()) == 91
    names = run_python(page)
    heldout = slice(1400, None)
    assert names["careful"].score(names["X"][heldout], names["y"][heldout]) > 0.8


def test_the_reference_follows_the_code(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["reference.py", "--check"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "docs/code/reference.py"), run_name="__main__")
    assert ended.value.code == 0, capsys.readouterr().out
