from __future__ import annotations

import pytest

from taxtune.cli.recipes import missing_for
from taxtune.recipe import load_recipe
from taxtune.resources import recipes_dir
from tests.cli.commands import run_captured


@pytest.fixture(autouse=True)
def _bare_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    for name in ("PETS", "INAT21", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_all_recipes_are_listed_with_what_is_missing():
    done = run_captured("recipes")
    assert done.code == 0
    *parts, last = done.out.strip().split("\n\n")
    assert last.startswith("To start one of your own: ")
    listed = {part.split(":")[0]: part for part in parts}
    assert list(listed) == sorted(file.stem for file in recipes_dir().glob("*.yaml"))
    assert listed["fieldguide"].endswith("\n  missing  nothing: ready to run")
    assert "3,669 test photos" in listed["pets-oxford"]
    assert "https://www.robots.ox.ac.uk/~vgg/data/pets/" in listed["pets-oxford"]
    missing = " ".join(listed["pets-oxford"].split())
    assert missing.endswith("missing PETS is not set; the model is downloaded on first use")
    assert "INAT21 is not set; OPENAI_API_KEY is not set" in listed["birds-inat21"]
    assert max(map(len, done.out.splitlines())) <= 100


def test_a_recipe_is_printed_as_it_is_and_runs_from_any_folder(tmp_path):
    done = run_captured("recipes", "pets-oxford")
    assert done.out == (recipes_dir() / "pets-oxford.yaml").read_text()
    fieldguide = run_captured("recipes", "fieldguide").out
    (tmp_path / "mine.yaml").write_text(fieldguide.replace("name: fieldguide", "name: mine"))
    assert run_captured("tune", "mine.yaml", "--dry-run", folder=tmp_path).code == 0


def test_a_name_that_is_none_is_told(tmp_path):
    done = run_captured("recipes", "pets", folder=tmp_path)
    assert done.code != 0
    assert "The recipe does not exist" in done.err
    assert "pets-oxford" in done.err


# -- what a recipe needs -----------------------------------------------------------------------------------------------

RECIPE = """\
name: mine
description: Mine.
taxonomy: {path: "${TREES}/tree.csv"}
data: {kind: manifest, path: "${PHOTOS}/list.csv", images: "${PHOTOS}"}
vlm: {kind: local, model: builtin:fieldguide}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where all is that the recipe needs, on a machine without any model of Hugging Face."""
    for name in ("TREES", "PHOTOS"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("tree.csv", "list.csv"):
        (tmp_path / name).touch()
    return tmp_path


def recipe(folder, *overrides):
    (folder / "mine.yaml").write_text(RECIPE)
    return load_recipe(folder / "mine.yaml", overrides)


def test_a_recipe_that_lacks_nothing_and_one_that_lacks_much(folder, monkeypatch):
    assert list(missing_for(recipe(folder))) == []
    monkeypatch.delenv("TREES")
    (folder / "list.csv").unlink()
    assert list(missing_for(recipe(folder))) == [
        "TREES is not set",
        f"{folder / 'list.csv'} does not exist",
    ]


def test_weights_are_here_or_to_be_downloaded(folder):
    name = "org/model"
    assert list(missing_for(recipe(folder, f"vlm.model=local:{name}"))) == [
        "the model is downloaded on first use"
    ]
    snapshot = folder / "hub" / f"models--{name.replace('/', '--')}" / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").write_bytes(b"weights")
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("0" * 40)
    assert list(missing_for(recipe(folder, f"vlm.model=local:{name}"))) == []
    assert list(missing_for(recipe(folder, f"vlm.model=local:{name}", "vlm.revision=v2")))
    (folder / "checkpoint").mkdir()
    assert list(missing_for(recipe(folder, "vlm.model=local:checkpoint"))) == [], (
        "a folder, relative to the recipe"
    )


@pytest.mark.parametrize(
    ("overrides", "keys"),
    [
        (["vlm={kind: api, model: openai/gpt-4o-mini}"], ["OPENAI_API_KEY"]),
        (["vlm={kind: api, model: openai/x, api_base: 'http://localhost:8000/v1'}"], []),
        (
            ["proposer={kind: llm, model: anthropic/x}", "judge={model: openai/y}"],
            ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"],
        ),
        (
            ["proposer={kind: agent, model: openai/x}", "judge={model: openai/y}"],
            ["OPENAI_API_KEY"],
        ),
        (["judge={model: 'local:org/judge'}"], []),
    ],
)
def test_keys(folder, monkeypatch, overrides, keys):
    for key in keys:
        monkeypatch.delenv(key, raising=False)
    assert list(missing_for(recipe(folder, *overrides))) == [f"{key} is not set" for key in keys]
    for key in keys:
        monkeypatch.setenv(key, "secret")
    assert list(missing_for(recipe(folder, *overrides))) == []
