import pytest
from typer.testing import CliRunner

from taxtune.cli.app import app
from taxtune.errors import RecipeError
from taxtune.recipe import load_recipe
from taxtune.tuning.from_recipe import Parts
from taxtune.tuning.plan import make_plan
from tests.tuning.toy import ToyVLM, make_files

runner = CliRunner()


def arguments(folder, file="birds of mine.yaml", data="manifest.csv"):
    return ["init", str(folder / file), "--data", str(folder / data), "--taxonomy", str(folder / "tree.csv")]


def test_a_new_recipe_is_valid_and_can_be_planned(tmp_path):
    make_files(tmp_path)
    result = runner.invoke(app, [*arguments(tmp_path), "--domain", "colour", "--model", "builtin:fieldguide"])
    assert result.exit_code == 0, result.output
    recipe = load_recipe(tmp_path / "birds of mine.yaml", ["data.tuning=4", "data.heldout=8"])
    assert (recipe.name, recipe.data.kind, recipe.prompt.question) == (
        "birds-of-mine",
        "manifest",
        "What colour is this?",
    )
    assert recipe.taxonomy.path == "tree.csv", "relative, so that the folder can be moved"
    session = Parts(recipe, tmp_path / "out")
    session.vlm = ToyVLM()
    assert make_plan(session).problems == ()


@pytest.mark.parametrize(
    ("images", "tuning", "heldout", "block"),
    [(20, 10, 10, False), (60, 30, 30, False), (300, 150, 150, True), (900, 200, 200, True)],
)
def test_the_splits_fit_the_data_and_say_what_they_can_show(tmp_path, images, tuning, heldout, block):
    make_files(tmp_path)
    rows = [f"navy0.png,navy,{i}" for i in range(images)]
    (tmp_path / "manifest.csv").write_text("\n".join(["image,label,row", *rows]) + "\n")
    runner.invoke(app, arguments(tmp_path))
    recipe, text = load_recipe(tmp_path / "birds of mine.yaml"), (tmp_path / "birds of mine.yaml").read_text()
    assert (recipe.data.tuning, recipe.data.heldout) == (tuning, heldout)
    assert recipe.data.block == (20 if block else None)
    assert f"of {images}; differences in hP below 0." in text
    assert ("more than there are" in text) is (tuning < 47)
    assert (recipe.objective.kind, recipe.objective.hp_target, recipe.objective.confidence) == ("hr_at_hp", 0.98, 0.9)


def test_a_folder_and_an_api_are_told_from_a_file_and_a_checkpoint(tmp_path):
    make_files(tmp_path)
    (tmp_path / "photos").mkdir()
    runner.invoke(app, [*arguments(tmp_path, data="photos"), "--model", "api:openai/gpt-4o"])
    recipe = load_recipe(tmp_path / "birds of mine.yaml")
    assert (recipe.data.kind, recipe.vlm.kind, recipe.vlm.model) == ("folder", "api", "openai/gpt-4o")


def test_nothing_is_overwritten_unasked(tmp_path):
    path = make_files(tmp_path)
    before = path.read_text()
    with pytest.raises(RecipeError, match="--force"):
        runner.invoke(app, arguments(tmp_path, file="recipe.yaml"), catch_exceptions=False)
    assert path.read_text() == before
    assert runner.invoke(app, [*arguments(tmp_path, file="recipe.yaml"), "--force"]).exit_code == 0
    assert path.read_text() != before


@pytest.mark.parametrize("file", ["ü.yaml", "a'b\nc: d.yaml", ".-.yaml", "x" * 200 + ".yaml"])
def test_files_of_any_name_hold_a_valid_recipe(tmp_path, file):
    make_files(tmp_path)
    result = runner.invoke(app, arguments(tmp_path, file=file))
    assert result.exit_code == 0, result.output
    assert load_recipe(tmp_path / file).taxonomy.path == "tree.csv"


def test_what_is_no_data_is_refused_before_anything_is_written(tmp_path):
    make_files(tmp_path)
    with pytest.raises(RecipeError, match="not a manifest"):
        runner.invoke(app, arguments(tmp_path, data="navy0.png"), catch_exceptions=False)
    assert not (tmp_path / "birds of mine.yaml").exists()


def test_what_is_not_there_is_named(tmp_path):
    make_files(tmp_path)
    with pytest.raises(RecipeError, match="nothing"):
        runner.invoke(app, arguments(tmp_path, data="nothing"), catch_exceptions=False)
