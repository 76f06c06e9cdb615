import pytest

from taxtune.data import split_sizes
from taxtune.errors import RecipeError
from taxtune.recipe import load_recipe
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


def write(folder, text):
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


SIZE = "must be a number of images, such as 40, or a share of them, such as 0.4"

SHIPPED = sorted(recipes_dir().glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_recipes_are_valid_and_found_by_name(path):
    assert load_recipe(path.stem).name == path.stem
    assert load_recipe(f"recipes/{path.name}").source == path


def test_what_a_recipe_leaves_out(tmp_path):
    recipe = load_recipe(write(tmp_path, GOOD))
    assert recipe.data.tuning is None
    assert recipe.data.heldout is None
    assert recipe.data.first_rung == 20
    assert recipe.seed == 0
    assert recipe.objective.kind == "hr_at_hp"
    assert recipe.objective.hp_target == 0.98
    assert recipe.objective.confidence_level == 0.9
    assert recipe.prompt.baseline == "What is this an image of? Answer in the format 'A: <answer>.'"


def refusal(path, *overrides):
    with pytest.raises(RecipeError) as error:
        load_recipe(path, overrides)
    message = str(error.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("iteratons: 3", "iteratons: unknown key; did you mean 'iterations'?"),
        ("tuning: 3", "tuning: unknown key; did you mean 'data.tuning'?"),
        ("colour: 3", "colour: unknown key; the keys here are name, description,"),
        ("objective: hp", "objective: must be a group of keys, such as objective.kind"),
        ("prompt: {ranks: family}", "prompt.ranks: must be a list (got 'family')"),
        ("iterations: -1", "iterations: Input should be greater than or equal to 1 (got -1)"),
        ("mapper: {similarity: cilp}", "(got 'cilp')"),
        ("iterations: yes", "iterations: Input should be a valid integer (got True)"),
        ("max_missing: yes", "max_missing: must be a number (got True)"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, said):
    path = write(tmp_path, GOOD.replace("name: mine", f"name: mine\n{line}"))
    message = refusal(path)
    assert message.startswith(f"{path}:2: ")
    assert said in message


MODEL = "  kind: local\n  model: builtin:fieldguide"
KINDS = "data.kind: must be one of 'manifest'"
OWN_KEY = "unknown key; a key is taken from the provider's own variable, such as OPENAI_API_KEY"


@pytest.mark.parametrize(
    ("old", "new", "row", "said"),
    [
        ("  path: photos", "  path: photos\n  tunning: 3", 6, "data.tunning: unknown key; did you"),
        ("  path: photos", "  path: photos\n  count: 3", 6, "data.count: unknown key"),
        ("kind: folder", "kind: foldr", 4, f"{KINDS}, 'folder', 'inat21', 'fieldguide'"),
        ("  kind: folder\n", "", 3, KINDS),
        (MODEL, "  device: cpu", 6, "vlm.model: must be the name of a model"),
        ("name: mine", "name: mine\nsource: x", None, "source: unknown key"),
        (MODEL, "  model: openai/x\n  zzz: 1", 8, "kind, model, api_base, concurrency,"),
        (MODEL, "  model: openai/x\n  api_key_env: MINE", 8, f"vlm.api_key_env: {OWN_KEY}"),
        (MODEL, "  model: local:x\n  zzz: 1", 8, "the keys here are kind, model, revision,"),
        ("  path: photos\n", "", 3, "data.path: Field required"),
        ("name: mine", "name: 2024", 1, "name: Input should be a valid string (got 2024)"),
        ("name: mine", "name: a\nseed: 1\nseed: 2", 3, "the key 'seed' is repeated here; it is"),
        ("name: mine", "name: ../mine", 1, "it is the name of a folder"),
    ],
)
def test_a_wrong_key_or_value_is_named_with_its_line(tmp_path, old, new, row, said):
    path = write(tmp_path, GOOD.replace(old, new))
    message = refusal(path)
    assert said in message
    assert message.startswith(f"{path}:{row}: " if row else str(path))


def test_settings_on_the_command_line_are_yaml_and_checked(tmp_path):
    path = write(tmp_path, GOOD)
    settings = ["data.tuning = 5", "prompt.ranks=[order, family]", "objective.kind=accuracy"]
    recipe = load_recipe(path, settings)
    assert recipe.data.tuning == 5
    assert recipe.prompt.ranks == ("order", "family")
    assert recipe.objective.kind == "accuracy"
    assert "did you mean 'tuning'" in refusal(path, "data.tunin=5")
    assert "KEY=VALUE" in refusal(path, "data.tuning")
    assert "'seed' is a value" in refusal(path, "seed=1", "seed.x=1")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("data.tuning=-1", f"data.tuning: {SIZE} (got -1)"),
        ("data.tuning=0", f"data.tuning: {SIZE} (got 0)"),
        ("data.heldout=1.0", f"data.heldout: {SIZE} (got 1.0)"),
        ("data.heldout=1.5", f"data.heldout: {SIZE} (got 1.5)"),
        ("data.heldout=True", f"data.heldout: {SIZE} (got True)"),
        ("data.kind=foldr", "data.kind: must be one of 'manifest',"),
        ("policy.samples=0", "policy.samples: Input should be greater than or equal to 1 (got 0)"),
        ("vlmm.model=x", "vlmm: unknown key; did you mean 'vlm'?"),
        ("proposer=5", "proposer: must be a group of keys, such as proposer.kind (got 5)"),
        ("data=5", "data: must be a group of keys, such as data.context (got 5)"),
    ],
)
def test_a_wrong_setting_on_the_command_line_is_named_and_no_line(tmp_path, setting, said):
    message = refusal(write(tmp_path, GOOD), setting)
    assert message.startswith(f"--set {setting}: {said}")


def test_shares_that_are_more_than_everything_are_refused(tmp_path):
    message = refusal(write(tmp_path, GOOD), "data.tuning=0.7", "data.heldout=0.4")
    assert "data: the shares tuning (0.7) and heldout (0.4) are more than 1 in all" in message
    assert load_recipe(write(tmp_path, GOOD), ["data.tuning=0.7", "data.heldout=0.3"])


def test_text_with_braces_on_the_command_line_needs_quotes(tmp_path):
    message = refusal(write(tmp_path, GOOD), "prompt.baseline={{ domain }}")
    assert "in quotes of its own" in message


def test_another_kind_takes_the_former_kinds_keys_along(tmp_path):
    path = write(tmp_path, GOOD + "proposer: {kind: llm, model: openai/x, max_tokens: 9}\n")
    fragments = load_recipe(path, ["proposer.kind=fragments"]).proposer
    assert fragments.fragments == "default"
    random = load_recipe(path, ["proposer.kind=random", "proposer.fragments=x"]).proposer
    assert random.fragments == "x"
    assert load_recipe(path, ["proposer.kind=llm"]).proposer.max_tokens == 9
    with pytest.raises(RecipeError, match=r"proposer\.model: unknown key"):
        load_recipe(path, ["proposer.model=openai/y", "proposer.kind=fragments"])


def test_another_objective_leaves_the_other_keys_of_its_group(tmp_path):
    path = write(tmp_path, GOOD + "objective: {kind: hr_at_hp, hp_target: 0.9}\n")
    objective = load_recipe(path, ["objective.kind=accuracy"]).objective
    assert (objective.kind, objective.hp_target) == ("accuracy", 0.9)


def test_numbers_may_be_written_as_people_write_them(tmp_path):
    recipe = load_recipe(write(tmp_path, GOOD + "objective: {hp_target: 9e-1}\nmax_missing: 0\n"))
    assert recipe.objective.hp_target == 0.9
    assert recipe.max_missing == 0.0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", r"mine\.yaml: The recipe file is empty"),
        (b"name: \xff", r"mine\.yaml:1: The recipe file is not UTF-8"),
        (b"name: a\x00b", r"mine\.yaml:1: The recipe file contains a NUL character"),
        (b"[" * 5000, r"mine\.yaml: The recipe is not valid YAML: it is nested too deeply"),
    ],
)
def test_what_is_no_yaml_text_is_told(tmp_path, content, said):
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)
    with pytest.raises(RecipeError, match=said):
        load_recipe(path)


def test_paths_are_relative_to_the_recipe_and_name_missing_variables(tmp_path, monkeypatch):
    recipe = load_recipe(write(tmp_path, GOOD))
    assert recipe.path("photos") == tmp_path / "photos"
    monkeypatch.setenv("PHOTOS", "elsewhere")
    assert recipe.path("${PHOTOS}/a") == tmp_path / "elsewhere/a"
    monkeypatch.delenv("PHOTOS")
    with pytest.raises(RecipeError, match="PHOTOS, which is not set"):
        recipe.path("${PHOTOS}/a")


@pytest.mark.parametrize(
    ("stated", "answers", "templates", "calls"),
    [
        ("", 1, 20, 1600),
        ("effort=light", 1, 10, 800),
        ("effort=heavy", 8, 40, 8 * 3200),
        ("iterations=5", 1, 5, None),
        ("iterations=5 effort=heavy", 1, 5, 3200),
        ("budget.vlm_calls=300", 1, 300, 300),
        ("budget.vlm_calls=300 iterations=7", 8, 7, 300),
    ],
)
def test_an_effort_is_templates_and_calls(tmp_path, stated, answers, templates, calls):
    recipe = load_recipe(write(tmp_path, GOOD), stated.split())
    most, budget = recipe.limits(answers)
    assert most == templates
    assert budget.vlm_calls == calls


def test_splits_that_nobody_sizes_are_half_of_the_images_each():
    assert split_sizes(1) == (1, 1)
    assert split_sizes(2) == (1, 1)
    assert split_sizes(61) == (36, 25)
    assert split_sizes(300) == (120, 105)
    assert split_sizes(2000) == (400, 200)
    assert split_sizes(100, tuning=30) == (30, 70)
    assert split_sizes(1000, tuning=30) == (30, 200)
    assert split_sizes(100, heldout=30) == (70, 30)
    assert split_sizes(1000, heldout=30) == (400, 30)
    assert split_sizes(10, 12) == (12, 1)  # too few, which is told where they are drawn


def test_shares_follow_the_images_and_are_rounded_down_exactly():
    assert split_sizes(180, 0.4, 0.35) == (72, 63)  # 180 · 0.35 is 62.99… in floats
    assert split_sizes(228, 0.4, 0.35) == (91, 79)
    assert split_sizes(101, 0.6, 0.4) == (60, 41)  # a whole leaves nothing over
    assert split_sizes(3, 0.1, 0.1) == (1, 1)
    assert split_sizes(100, 0.5, 20) == (50, 20)
    assert split_sizes(100, heldout=0.3) == (70, 30)


def test_a_share_is_read_as_one_and_a_count_as_one(tmp_path):
    recipe = load_recipe(write(tmp_path, GOOD), ["data.tuning=0.4", "data.heldout=35"])
    assert (recipe.data.tuning, recipe.data.heldout) == (0.4, 35)
    assert isinstance(recipe.data.heldout, int)
