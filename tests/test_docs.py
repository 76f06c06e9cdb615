"""The Python of the README and of the documentation, and the commands of a tutorial, run as their reader would."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from PIL import Image

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
    shade = image.resize((1, 1)).getpixel((0, 0))
    label = min(
        SHADES, key=lambda name: sum((a - b) ** 2 for a, b in zip(SHADES[name], shade, strict=True))
    )
    return "some kind of soup" if "sure" in prompt and label in ("pho", "ramen") else f"A: {label}."


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder with tree.csv and photos/, which is the current one."""
    (tmp_path / "tree.csv").write_text(TREE)
    for label, shade in SHADES.items():
        (tmp_path / "photos" / label).mkdir(parents=True)
        for i in range(6):
            picture = Image.new("RGB", (32, 32), tuple(min(255, part + 3 * i) for part in shade))
            picture.save(tmp_path / "photos" / label / f"{i}.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("README.md", marks=pytest.mark.heavy),
        pytest.param("docs/tutorial/python.md", marks=pytest.mark.heavy),
        pytest.param("docs/how-to/own-function.md", marks=pytest.mark.heavy),
        pytest.param("docs/how-to/gepa-and-dspy.md", marks=pytest.mark.heavy),
    ],
)
def test_the_python_of_a_page_runs(page, photos):
    if "gepa" in page:
        pytest.importorskip("gepa", reason="gepa is not installed: pip install '.[gepa]'")
    names = {
        "my_model": see,
        "my_language_model": lambda prompt: "Only if you are sure, be specific.",
    }
    exec("import taxtune", names)
    found = blocks(page, "python")
    assert found
    for block in found:
        exec(compile(block, page, "exec"), names)
    result = names["result"]
    assert result.best.template
    assert {held.name for held in result.heldout} == {"baseline", "winner"}
    assert Path(result.folder).is_dir()
    assert sorted(
        names["taxtune"]
        .load_run(result.folder)
        .answers("winner")["hp"]
        .dropna()
        .between(0, 1)
        .unique()
    ) == [True]


def blocks(page, language):
    return re.findall(
        rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.M | re.S
    )


@pytest.mark.heavy
def test_five_commands_lead_from_photos_to_labels(tmp_path, monkeypatch):
    """As the page has them, but for one template on few images."""
    monkeypatch.chdir(tmp_path)
    lines = [
        line
        for block in blocks("docs/tutorial/your-photos.md", "bash")
        for line in block.splitlines()
    ]
    (export, *commands, audit) = [shlex.split(line, comments=True) for line in lines]
    assert export[:2] == ["python", "-c"]
    exec(export[2], {})
    assert [command[1] for command in commands] == ["taxonomy", "init", "tune", "tune", "classify"]
    assert audit[1:] == ["audit", "runs/birds"]  # asks a person
    small = (
        "iterations=1",
        "data.tuning=12",
        "data.first_rung=6",
        "data.heldout=30",
        "tracking.mlflow=false",
    )
    for command in commands:
        more = [f"--set={each}" for each in small] if command[1] == "tune" else []
        done = run_captured(*command[1:], *more)
        assert done.code == 0, f"{' '.join(command)}\n{done.err}"
    assert "100 images: " in done.err
    labels, review = (
        (tmp_path / name).read_text().splitlines() for name in ("labels.csv", "labels-review.csv")
    )
    shown = "".join(blocks("docs/tutorial/your-photos.md", "csv")).splitlines()
    assert labels[0] in shown
    assert review[0] == f"why,{labels[0]}"
    assert len(labels) == 101
    for name, photo in (("a.jpg", "00300.png"), ("b.jpg", "00301.png")):
        shutil.copy(tmp_path / "new-photos" / photo, tmp_path / name)
    names = {}
    exec("import taxtune", names)
    for block in blocks("docs/how-to/classify.md", "python"):
        exec(compile(block, "docs/how-to/classify.md", "exec"), names)
    assert names["classifier"].predict(["a.jpg"]).tolist() == [labels[1].split(",")[1]]


@pytest.mark.heavy
def test_the_three_doors_of_a_guarantee(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tree.csv").write_text("path\nbird/duck/mallard\nbird/duck/teal\nbird/gull\n")
    shown = [(f"{i}.jpg", ("mallard", "teal", "gull")[i % 3]) for i in range(90)]
    rows = [f"{image},{label},0.9" for image, label in shown]
    Path("scores.csv").write_text("\n".join(["image,label,score", *rows]) + "\n")
    Path("labels.csv").write_text("\n".join(["image,label", *map(",".join, shown)]) + "\n")
    shutil.copy("scores.csv", "new-scores.csv")
    for block in blocks("docs/how-to/calibrate.md", "bash"):
        for line in block.splitlines():
            more = (
                ["--set=iterations=1", "--set=tracking.mlflow=false"]
                if line.startswith("taxtune tune")
                else []
            )
            done = run_captured(*shlex.split(line, comments=True)[1:], *more)
            assert done.code == 0, f"{line}\n{done.err}"
    assert len(Path("new-labels.csv").read_text().splitlines()) == 91
    names = {}
    exec("import taxtune", names)
    for block in blocks("docs/how-to/calibrate.md", "python"):
        exec(compile(block, "docs/how-to/calibrate.md", "exec"), names)
    X, y = names["X"][1400:], names["y"][1400:]  # noqa: N806
    assert names["careful"].score(X, y) > 0.8


def test_the_reference_follows_the_code(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["reference.py", "--check"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "docs/code/reference.py"), run_name="__main__")
    assert ended.value.code == 0, capsys.readouterr().out
