from __future__ import annotations

import pytest
import yaml
from PIL import Image

from taxtune.recipe import load_recipe
from taxtune.tuning.build import Setup, build
from taxtune.tuning.run_folder import describe


@pytest.fixture
def session(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "the-secret-key")
    (tmp_path / "tree.csv").write_text("child,parent,label\n1,,bird\n2,1,owl\n3,1,duck\n")
    lines = ["image,label"]
    for i in range(6):
        Image.new("RGB", (8, 8), (40 * i, 90, 20)).save(tmp_path / f"{i}.png")
        lines.append(f"{i}.png,{'owl' if i % 2 else 'duck'}")
    (tmp_path / "manifest.csv").write_text("\n".join(lines) + "\n")
    recipe = {
        "name": "owls",
        "seed": 7,
        "taxonomy": {"path": "tree.csv"},
        "data": {"kind": "manifest", "path": "manifest.csv", "tuning": 2, "heldout": 4},
        "vlm": {
            "kind": "api",
            "model": "openai/some-model",
            "api_base": "http://me:password@127.0.0.1:9/v1",
        },
    }
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    return build(Setup(load_recipe(tmp_path / "recipe.yaml"), tmp_path / "out"))


def test_it_names_model_data_and_software_and_no_secret(session):
    command = "taxtune compare recipe.yaml --objective hp --objective accuracy"
    found = describe(session, command)
    assert found.facts["Model"]["model"] == "openai/some-model"
    assert found.facts["Data"]["images"] == "2 tuning, 4 held-out, disjoint by content"
    assert found.facts["Data"]["domain"] == "bird"
    assert "numpy" in found.facts["Software"]
    assert found.command == command
    assert len(found.images) == 6
    everything = str(found)
    assert "password" not in everything
    assert "the-secret-key" not in everything


def test_the_recipe_can_be_read_back(session, tmp_path):
    found = describe(session, None)
    assert found.recipe is not None
    (tmp_path / "again.yaml").write_text(found.recipe)
    again = load_recipe(tmp_path / "again.yaml")
    assert again.settings()["seed"] == 7
    assert again.taxonomy == session.recipe.taxonomy
    assert again.proposer == session.recipe.proposer
