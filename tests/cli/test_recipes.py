from __future__ import annotations

from pathlib import Path

import pytest

from taxtune.resources import recipes_dir
from tests.cli.commands import run_captured


@pytest.fixture(autouse=True)
def _bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    for name in ("PETS", "INAT21", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_all_recipes_are_listed_with_what_is_missing() -> None:
    done = run_captured("recipes")
    assert done.code == 0
    *parts, last = done.out.strip().split("\n\n")
    assert last.startswith("To start one of your own: ")
    listed = {part.split(":")[0]: part for part in parts}
    assert sorted(listed) == sorted(file.stem for file in recipes_dir().glob("*.yaml"))
    assert listed["fieldguide"].endswith("\n  missing  nothing: ready to run")
    assert "3,669 test photos" in listed["pets-oxford"]
    assert "https://www.robots.ox.ac.uk/~vgg/data/pets/" in listed["pets-oxford"]
    missing = " ".join(listed["pets-oxford"].split())
    assert missing.endswith("missing PETS is not set; the model is downloaded on first use")
    assert "INAT21 is not set; OPENAI_API_KEY is not set" in listed["birds-inat21"]
    assert max(map(len, done.out.splitlines())) <= 100


def test_a_recipe_is_printed_as_it_is_and_runs_from_any_folder(tmp_path: Path) -> None:
    done = run_captured("recipes", "pets-oxford")
    assert done.out == (recipes_dir() / "pets-oxford.yaml").read_text()
    fieldguide = run_captured("recipes", "fieldguide").out
    (tmp_path / "mine.yaml").write_text(fieldguide.replace("name: fieldguide", "name: mine"))
    assert run_captured("tune", "mine.yaml", "--dry-run", folder=tmp_path).code == 0


def test_a_name_that_is_none_is_told(tmp_path: Path) -> None:
    done = run_captured("recipes", "pets", folder=tmp_path)
    assert done.code != 0
    assert "The recipe does not exist" in done.err
    assert "pets-oxford" in done.err
