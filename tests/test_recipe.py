from pathlib import Path

import pytest

from taxtune.errors import RecipeError
from taxtune.recipe import Recipe, load_recipe
from taxtune.resources import recipes_dir

GOOD = """\
name: mine
taxonomy: {path: tree.csv}
data:
  kind: folder
  path: photos
vlm:
  kind: local
  model: builtin:fieldguide
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("path", sorted(recipes_dir().glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_recipes_are_valid_and_found_by_name(path):
    assert load_recipe(path.stem).name == path.stem
    assert load_recipe(f"recipes/{path.name}").source == path


def test_defaults_are_those_of_the_paper(tmp_path):
    recipe = load_recipe(write(tmp_path, GOOD))
    assert (recipe.iterations, recipe.data.tuning, recipe.data.heldout, recipe.mapper.k) == (30, 20, 200, 10)
    assert recipe.prompt.baseline == "What is this an image of? Answer in the format 'A: <answer>.'"


@pytest.mark.parametrize(
    ("old", "new", "row", "said"),
    [
        ("name: mine", "name: mine\niteratons: 3", 2, "unknown key 'iteratons'; did you mean 'iterations'?"),
        ("  path: photos", "  path: photos\n  tunning: 3", 6, "unknown key 'data.tunning'; did you mean 'tuning'?"),
        ("  path: photos", "  path: photos\n  count: 3", 6, "unknown key 'data.count'"),
        ("kind: folder", "kind: foldr", 3, "unknown data.kind 'foldr'; did you mean 'folder'?"),
        ("  kind: folder\n", "", 3, "'data.kind' is missing"),
        ("  path: photos\n", "", 3, "the key 'data.path' is missing"),
        ("name: mine", "name: mine\niterations: -1", 2, "greater than or equal to 1 (got -1)"),
        ("name: mine", "name: mine\nmapper: {similarity: cilp}", 2, "(got 'cilp')"),
        ("name: mine", "name: ../mine", 1, "name"),
        ("name: mine", "name: mine\nmapper: {use_images: true}", None, "mapper.use_images needs"),
    ],
)
def test_a_wrong_key_or_value_is_named_with_its_line(tmp_path, old, new, row, said):
    path = write(tmp_path, GOOD.replace(old, new))
    with pytest.raises(RecipeError) as error:
        load_recipe(path)
    assert said in str(error.value)
    assert f"{path}:{row}:" in str(error.value) if row else str(path) in str(error.value)


def test_all_problems_are_told_at_once(tmp_path):
    path = write(tmp_path, GOOD.replace("model:", "modl:").replace("name: mine", "name: mine\nseed: x"))
    with pytest.raises(RecipeError) as error:
        load_recipe(path)
    assert all(word in str(error.value) for word in ("vlm.modl", "vlm.model", "seed"))


def test_no_mapping_no_yaml_no_file(tmp_path):
    with pytest.raises(RecipeError, match="must be a mapping"):
        load_recipe(write(tmp_path, "- a"))
    with pytest.raises(RecipeError, match=r"mine\.yaml:2.*no valid YAML"):
        load_recipe(write(tmp_path, "name: x\n  a: b: c"))
    with pytest.raises(RecipeError, match="Did you mean 'fieldguide'"):
        load_recipe("fieldgude")


def test_settings_on_the_command_line_are_yaml_and_checked(tmp_path):
    path = write(tmp_path, GOOD)
    recipe = load_recipe(path, ["data.tuning=5", "prompt.ranks=[order, family]", "objective.kind=accuracy"])
    assert (recipe.data.tuning, recipe.prompt.ranks, recipe.objective.kind) == (5, ("order", "family"), "accuracy")
    with pytest.raises(RecipeError, match="did you mean 'tuning'"):
        load_recipe(path, ["data.tunin=5"])
    with pytest.raises(RecipeError, match="KEY=VALUE"):
        load_recipe(path, ["data.tuning"])
    with pytest.raises(RecipeError, match="'seed' is a value"):
        load_recipe(path, ["seed=1", "seed.x=1"])


def test_paths_are_relative_to_the_recipe_and_name_missing_variables(tmp_path, monkeypatch):
    recipe: Recipe = load_recipe(write(tmp_path, GOOD))
    assert recipe.path("photos") == tmp_path / "photos"
    monkeypatch.setenv("PHOTOS", "elsewhere")
    assert recipe.path("${PHOTOS}/a") == tmp_path / "elsewhere/a"
    monkeypatch.delenv("PHOTOS")
    with pytest.raises(RecipeError, match="PHOTOS, which is not set"):
        recipe.path("${PHOTOS}/a")
