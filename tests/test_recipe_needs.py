"""What a recipe needs, and what of it is here."""

from __future__ import annotations

from pathlib import Path

import pytest

from taxtune.models.weights import KNOWN_MODELS, smallest_that_suits
from taxtune.recipe import Recipe, load_recipe
from taxtune.recipe_needs import missing_for

RECIPE = """\
name: mine
description: Mine.
taxonomy: {path: "${TREES}/tree.csv"}
data: {kind: manifest, path: "${PHOTOS}/list.csv", images: "${PHOTOS}"}
vlm: {kind: local, model: builtin:fieldguide}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where all is that the recipe needs, on a machine without any model of Hugging Face."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    for name in ("TREES", "PHOTOS"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("tree.csv", "list.csv"):
        (tmp_path / name).touch()
    return tmp_path


def recipe(folder: Path, *overrides: str) -> Recipe:
    (folder / "mine.yaml").write_text(RECIPE)
    return load_recipe(folder / "mine.yaml", overrides)


def test_a_recipe_that_lacks_nothing_and_one_that_lacks_much(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_for(recipe(folder)) == []
    monkeypatch.delenv("TREES")
    (folder / "list.csv").unlink()
    assert missing_for(recipe(folder)) == ["TREES is not set", f"{folder / 'list.csv'} does not exist"]


def test_weights_are_here_or_to_be_downloaded(folder: Path) -> None:
    name = next(name for name, known in KNOWN_MODELS.items() if not known.gated)
    size = f"{KNOWN_MODELS[name].download_gb:.1f} GB"
    (problem,) = missing_for(recipe(folder, f"vlm.model=local:{name}"))
    assert "downloaded on first use" in problem
    assert size in problem
    snapshot = folder / "hub" / f"models--{name.replace('/', '--')}" / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").write_bytes(b"weights")
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("0" * 40)
    assert missing_for(recipe(folder, f"vlm.model=local:{name}")) == []
    assert missing_for(recipe(folder, f"vlm.model=local:{name}", "vlm.revision=v2"))
    (folder / "checkpoint").mkdir()
    assert missing_for(recipe(folder, "vlm.model=local:checkpoint")) == [], "a folder, relative to the recipe"


@pytest.mark.parametrize(
    ("device", "gigabytes", "name"),
    [
        ("cpu", 16, "HuggingFaceTB/SmolVLM-256M-Instruct"),
        ("cuda", 4, "HuggingFaceTB/SmolVLM-500M-Instruct"),
        ("cuda", 24, "HuggingFaceTB/SmolVLM-Instruct"),
        ("cpu", 1, None),
    ],
)
def test_the_model_to_begin_with(device: str, gigabytes: float, name: str | None) -> None:
    model = smallest_that_suits(device, gigabytes)
    assert (None if model is None else model.name) == name


@pytest.mark.parametrize(
    ("overrides", "keys"),
    [
        (["vlm={kind: api, model: openai/gpt-4o-mini}"], ["OPENAI_API_KEY"]),
        (["vlm={kind: api, model: openai/x, api_base: 'http://localhost:8000/v1'}"], []),
        (
            ["proposer={kind: llm, model: anthropic/x}", "judge={model: openai/y}"],
            ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"],
        ),
        (["proposer={kind: agent, model: openai/x}", "judge={model: openai/y}"], ["OPENAI_API_KEY"]),
        (["judge={model: 'local:org/judge'}"], []),
    ],
)
def test_keys(folder: Path, monkeypatch: pytest.MonkeyPatch, overrides: list[str], keys: list[str]) -> None:
    for key in keys:
        monkeypatch.delenv(key, raising=False)
    assert missing_for(recipe(folder, *overrides)) == [f"{key} is not set" for key in keys]
    for key in keys:
        monkeypatch.setenv(key, "secret")
    assert missing_for(recipe(folder, *overrides)) == []
