"""What a recipe needs, and what of it is here."""

from __future__ import annotations

from pathlib import Path

import pytest

from taxtune.drafting.offer import Machine
from taxtune.models.weights import KNOWN_MODELS
from taxtune.recipe import Recipe, load_recipe
from taxtune.recipe_needs import find_needs

MACHINE = Machine("cpu", 16.0)

RECIPE = """\
name: mine
description: Mine.
taxonomy: {path: "${TREES}/tree.csv"}
data: {kind: manifest, path: "${PHOTOS}/list.csv", images: "${PHOTOS}", page: "https://example.org", size: 60 photos}
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


def test_a_recipe_whose_all_is_here_is_ready(folder: Path) -> None:
    needs = find_needs(recipe(folder), MACHINE)
    assert (needs.missing, needs.here, needs.local) == ((), True, True)
    assert (needs.variables, needs.page, needs.size) == (("TREES", "PHOTOS"), "https://example.org", "60 photos")
    assert needs.as_dict()["ready"] is True


def test_variables_that_are_not_set_and_files_that_are_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TREES")
    (folder / "list.csv").unlink()
    needs = find_needs(recipe(folder), MACHINE)
    assert needs.missing == ("TREES is not set", f"{folder / 'list.csv'} does not exist")
    assert needs.as_dict()["ready"] is False


def test_weights_are_here_or_to_be_downloaded(folder: Path) -> None:
    name = next(name for name, known in KNOWN_MODELS.items() if not known.gated)
    absent = find_needs(recipe(folder, f"vlm.model=local:{name}"), MACHINE)
    assert (absent.here, absent.missing, absent.download_gb) == (False, (), KNOWN_MODELS[name].download_gb)
    snapshot = folder / "hub" / f"models--{name.replace('/', '--')}" / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").write_bytes(b"weights")
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("0" * 40)
    assert find_needs(recipe(folder, f"vlm.model=local:{name}"), MACHINE).here
    assert not find_needs(recipe(folder, f"vlm.model=local:{name}", "vlm.revision=v2"), MACHINE).here
    (folder / "checkpoint").mkdir()
    assert find_needs(recipe(folder, "vlm.model=local:checkpoint"), MACHINE).here, "a folder, relative to the recipe"
    other = find_needs(recipe(folder, "vlm.model=local:org/other"), MACHINE)
    assert (other.here, other.download_gb, other.gpu_gb, other.gated) == (False, None, None, False)


@pytest.mark.parametrize(
    ("machine", "model", "fits"),
    [
        (Machine("cpu", 16.0), "HuggingFaceTB/SmolVLM2-2.2B-Instruct", False),
        (Machine("cpu", 32.0), "HuggingFaceTB/SmolVLM2-2.2B-Instruct", True),
        (Machine("cuda", 8.0), "HuggingFaceTB/SmolVLM2-2.2B-Instruct", True),
        (Machine("cuda", 8.0), "Qwen/Qwen2.5-VL-7B-Instruct", False),
        (Machine("cuda", 24.0), "Qwen/Qwen2.5-VL-7B-Instruct", True),
        (Machine("cuda", 24.0), "org/other", None),
    ],
)
def test_a_model_fits_or_not(folder: Path, machine: Machine, model: str, fits: bool | None) -> None:
    assert find_needs(recipe(folder, f"vlm.model=local:{model}"), machine).fits is fits


def test_gated_weights_want_a_login(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = next(name for name, known in KNOWN_MODELS.items() if known.gated)
    (problem,) = find_needs(recipe(folder, f"vlm.model=local:{name}"), MACHINE).missing
    assert "licence" in problem
    assert problem.endswith("hf auth login")
    monkeypatch.setattr("huggingface_hub.get_token", lambda: "token")
    assert find_needs(recipe(folder, f"vlm.model=local:{name}"), MACHINE).missing == ()


@pytest.mark.parametrize(
    ("overrides", "keys"),
    [
        (["vlm={kind: api, model: openai/gpt-4o-mini}"], ["OPENAI_API_KEY"]),
        (["vlm={kind: api, model: openai/x, api_key_env: MY_KEY}"], ["MY_KEY"]),
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
    needs = find_needs(recipe(folder, *overrides), MACHINE)
    assert needs.keys == tuple(keys)
    assert needs.missing == tuple(f"{key} is not set" for key in keys)
    for key in keys:
        monkeypatch.setenv(key, "secret")
    assert find_needs(recipe(folder, *overrides), MACHINE).missing == ()
