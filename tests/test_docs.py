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
import yaml
from PIL import Image, ImageEnhance

import taxtune
from taxtune import fieldguide
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


def make_products(labelled=120, new=30):
    """Writes the soft toys of a shop, each photographed five times, as its page has them.

    They are the field guide's birds, in a tree of plain names.
    """
    birds = pd.read_csv(fieldguide.MANIFEST_FILE)
    birds = birds[birds["severity"] < 0.8].iloc[: labelled + new]
    tree = pd.read_csv(fieldguide.TAXONOMY_FILE, keep_default_na=False)
    tree["name"] = tree["aliases"].str.split(";").str[0]
    tree["label"] = tree["path"].str.split("/").str[-1]
    names = dict(zip(tree["label"], tree["name"], strict=True))
    paths = [[names[part] for part in path.split("/")] for path in tree["path"]]
    tree["path"] = ["/".join(filter(None, path)) for path in paths]
    tree.drop_duplicates("path").to_csv("toys.csv", columns=["path"], index=False)
    rng = np.random.default_rng(5)
    rows = []
    for number, bird in enumerate(birds.itertuples()):
        picture = Image.open(fieldguide.MANIFEST_FILE.parent / bird.image).convert("RGB")
        product = f"T{number:04d}"
        for view in range(1, 6):
            left, top = rng.integers(0, 10, 2).tolist()
            photo = picture.crop((left, top, left + 182, top + 182))
            photo = ImageEnhance.Brightness(photo).enhance(rng.uniform(0.9, 1.1))
            Path("toys").mkdir(exist_ok=True)
            file = f"toys/{product}-{view}.jpg"
            photo.save(file)
            rows.append({"photo": file, "product": product, "category": names[bird.label]})
    table = pd.DataFrame(rows)
    table.iloc[: 5 * labelled].to_csv("toys-labelled.csv", index=False)
    table.iloc[5 * labelled :].drop(columns="category").to_csv("toys-new.csv", index=False)


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


def change_recipe(file, page):
    """Writes the keys of a recipe's data that a page adds into the recipe."""
    [block] = blocks(page, "yaml")
    recipe = yaml.safe_load(file.read_text())
    recipe["data"] |= yaml.safe_load(block)["data"]
    file.write_text(yaml.safe_dump(recipe))


def label_drawn(file):
    """Writes what the drawn images show, which made data knows."""
    drawn = pd.read_csv(file)
    truths = pd.read_csv("june/truth.csv").set_index("file")["label"]
    drawn["truth"] = drawn["photo"].map(truths)
    drawn.to_csv(file, index=False)


@pytest.mark.heavy
def test_a_camera_trap_has_labels_with_a_promise(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = "docs/how-to/camera-traps.md"
    make, init, *commands, audit = commands_of(page)
    make_photos = runpy.run_path(str(ROOT / make[1]))["main"]
    make_photos(bursts=160, new=40)
    run_command(init)
    change_recipe(Path("birds.yaml"), page)
    small = "iterations=1 data.tuning=60 data.first_rung=20 data.heldout=60 tracking.mlflow=false"
    sets = [f"--set={setting}" for setting in small.split()]
    ended = []
    for command in commands:
        more = sets if command[1] == "tune" else ()
        ended.append(run_command(command, *more))
    assert " sequences prove hP " in ended[0].out
    assert "precision hP per sequence" in ended[1].out
    assert "per sequence is at most 0.05 with 90 % confidence" in ended[3].out

    photos = pd.read_csv("june/photos.csv")
    labels = pd.read_csv("labels.csv")
    empty = labels["box"].isna()
    assert set(labels["photo"]) == set(photos["file"])
    assert set(labels.loc[empty, "placement"]) == {"Aves"}
    assert f"{(~empty).sum()} boxes in {len(photos)} photos" in ended[-1].err
    for name, column in (("photos", "file"), ("groups", "sequence")):
        joined = pd.read_csv(f"labels-{name}.csv")
        assert joined.iloc[:, 0].tolist() == list(dict.fromkeys(photos[column]))
        assert joined["labels"].sum() == len(labels)
        assert joined["answered"].sum() == (~empty).sum()

    run_command(audit)
    label_drawn("labels-audit.csv")
    watched = run_command(audit).out
    assert re.search(r"^  all +\d+ .*(holds|broken|not known yet)", watched, re.M)
    names = run_python(page)
    assert names["observations"]["observationID"].is_unique
    assert set(names["observations"]["observationType"]) == {"animal", "blank", "unknown"}
    assert len(names["occurrences"]) == len(pd.read_csv("occurrence.csv"))


@pytest.mark.heavy
def test_a_model_is_asked_only_where_a_classifier_does_not_say_enough(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = "docs/how-to/cheap-first.md"
    make, tune, *commands = commands_of(page)
    runpy.run_path(str(ROOT / make[1]))["main"](learnt=400, labelled=300, new=60)
    small = "iterations=1 data.tuning=60 data.first_rung=20 data.heldout=60 tracking.mlflow=false"
    run_command(tune, *[f"--set={setting}" for setting in small.split()])
    dry, prices, labelled = [run_command(command) for command in commands]
    assert "0 of them in the store" in dry.err
    assert "Costs for 10,000 images" in dry.out
    assert "0 of them in the store" in prices.err  # the dry run has asked nothing
    assert len(re.findall(r"^  (scores|both|model) ", prices.out, re.M)) == 8
    assert "at most 0.02 with 90 % confidence" in prices.out
    assert Path("calibration.png").stat().st_size > 10_000

    labels = pd.read_csv("labels.csv")
    assert set(labels["source"]) <= {"scores", "model", "both"}
    asked = labels["answer"].notna()
    assert 0 < asked.sum() < len(labels) == 60
    assert f"{asked.sum()} of 60 images are asked about" in labelled.err
    assert set(labels.loc[~asked, "source"]) == {"scores"}
    assert set(labels.loc[~asked, "rank"]) == {"species"}
    assert "so that the risk of 0.02 is " in labelled.err


@pytest.mark.heavy
def test_products_with_several_photos_have_one_label_each(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_products(60, 8)
    init, *commands = commands_of("docs/how-to/products.md")
    run_command(init, "--model=builtin:fieldguide")
    assert yaml.safe_load(Path("toys.yaml").read_text())["data"]["group"] == "product"
    small = "iterations=1 data.tuning=60 data.first_rung=20 data.heldout=60 tracking.mlflow=false"
    sets = [f"--set={setting}" for setting in small.split()]
    for command in commands:
        done = run_command(command, *(sets if command[1] == "tune" else ()))
    assert "per product is at most 0.05 in expectation" in done.err
    products = pd.read_csv("new-groups.csv")
    assert len(products) == 8
    assert set(products["labels"]) == {5}


def test_the_reference_follows_the_code(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["reference.py", "--check"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "docs/code/reference.py"), run_name="__main__")
    assert ended.value.code == 0, capsys.readouterr().out
