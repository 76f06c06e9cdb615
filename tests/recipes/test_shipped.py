"""The recipes that come with taxtune: each runs on files as its data set has them, and its tree has every class."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from taxtune.cli.recipes import missing_for
from taxtune.data.labels import label_references
from taxtune.errors import TaxtuneError
from taxtune.mapping import Mapper
from taxtune.recipe import load_recipe
from taxtune.resources import builtin_trees, recipes_dir
from taxtune.settings import LocalVLMSettings
from taxtune.taxonomy import check_taxonomy, read_taxonomy
from taxtune.tuning.build import Setup, make_vlm
from taxtune.tuning.plan import make_plan
from tests.cli.commands import run_captured
from tests.recipes.layouts import LAYOUTS, Painter, classes

NAMES = sorted(file.stem for file in recipes_dir().glob("*.yaml"))
OF_DOMAINS = [name for name in NAMES if name != "fieldguide"]
TREES = [name for name in builtin_trees() if name != "fieldguide"]

#: The models of a recipe: the line that counts, and those behind a "#".
VLM = re.compile(r"^(?:# )?vlm: (\{.*?\})(?: # (.*))?$", re.MULTILINE)


#: What a machine without a hub can do in place of the paper's models.
OFFLINE = {"birds-inat21": ["mapper.similarity=lexical", "proposer.kind=fragments"]}
SMALL = ["data.tuning=5", "data.heldout=12"]


@pytest.fixture(params=OF_DOMAINS)
def laid_out(request, tmp_path, monkeypatch):
    """The name of a recipe, whose images are there."""
    layout, _ = LAYOUTS[request.param]
    for name, folder in layout(tmp_path / "data", Painter()).items():
        monkeypatch.setenv(name, str(folder))
    return request.param


def test_a_recipe_runs_on_files_as_its_data_set_has_them(laid_out, tmp_path):
    settings = [*SMALL, "vlm={kind: local, model: builtin:fieldguide}", *OFFLINE.get(laid_out, [])]
    options = [word for setting in settings for word in ("--set", setting)]
    done = run_captured("tune", laid_out, "--dry-run", "--json", *options, folder=tmp_path)
    assert done.code == 0, done.out + done.err
    plan = json.loads(done.out)
    assert plan["problems"] == []
    assert plan["images"] == LAYOUTS[laid_out][1]
    assert plan["goals"][0]["measure"] == "hr"


def test_only_the_model_is_missing_then(laid_out, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    recipe = load_recipe(laid_out, [*SMALL, *OFFLINE.get(laid_out, [])])
    (problem,) = make_plan(Setup(recipe, tmp_path / "run")).problems
    assert recipe.vlm.model in problem
    monkeypatch.setattr("huggingface_hub.get_token", lambda: "token")
    (download,) = missing_for(recipe)
    assert "downloaded on first use" in download


# -- the trees ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=TREES)
def tree(request):
    return request.param, read_taxonomy(f"builtin:{request.param}")


def test_a_tree_has_every_class_of_its_data_set_as_a_leaf_and_no_other(
    tree,
):
    name, taxonomy = tree
    found = {}
    for label in classes(name):
        names = [text for text in label_references(label) if taxonomy.find(text)]
        assert names, label
        node = taxonomy.resolve(names[0])
        assert node not in found, (label, found[node])
        found[node] = label
    assert sorted(found) == taxonomy.leaves.tolist()


def test_a_tree_has_no_defect_and_no_step_without_a_choice(tree):
    name, taxonomy = tree
    # The makes of cars, and models with several bodies, are names of several nodes on purpose.
    found = {defect.kind for defect in check_taxonomy(f"builtin:{name}").defects}
    assert found == ({"shared label", "shared alias"} if name == "cars" else set())
    assert all(taxonomy.ranks)
    if name != "cars":  # a body may have one model of a make
        for node in range(len(taxonomy)):
            assert len(taxonomy.children(node)) != 1, taxonomy.labels[node]


@pytest.mark.parametrize(
    ("name", "answer", "node"),
    [
        ("aircraft", "A large commercial airliner.", "airliner"),
        ("aircraft", "Boeing 747-400", "747-400"),
        ("aircraft", "Cessna", "aircraft"),  # light aircraft and business jets
        ("cars", "A BMW sedan", "sedan/BMW"),
        ("cars", "BMW", "car"),
        ("cars", "Ferrari 458 Italia", "car"),  # a coupe and a convertible
        ("cars", "2012 Ford Mustang convertible", "convertible/Ford/Ford Mustang Convertible 2007"),
        ("dishes", "a dessert", "dessert"),
        ("dishes", "A bowl of noodle soup", "noodle soup"),
        ("objects", "a piece of furniture", "furniture"),
        ("objects", "a kitchen utensil", "kitchenware"),
        ("pets", "German Shorthaired Pointer", "German Shorthaired"),
        ("pets", "golden retriever", "gun dog"),  # not among the breeds
    ],
)
def test_what_models_say_is_placed_where_it_belongs(name, answer, node):
    placed = Mapper(read_taxonomy(f"builtin:{name}")).place_one(answer)
    path = "/".join(["", *placed.path])
    assert path.endswith(f"/{node}"), placed


# -- the model in one line ---------------------------------------------------------------------------------------------


def models(name):
    """The settings of each model that a recipe offers, and what it says of it."""
    return VLM.findall((recipes_dir() / f"{name}.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", OF_DOMAINS)
def test_all_recipes_offer_the_same_models_one_of_them_in_force(name):
    assert models(name) == models(OF_DOMAINS[0])
    text = (recipes_dir() / f"{name}.yaml").read_text()
    assert len(re.findall("^vlm:", text, re.MULTILINE)) == 1


@pytest.mark.parametrize(("settings", "said"), models(OF_DOMAINS[0]))
def test_a_line_is_a_model_that_needs_what_is_said(settings, said, tmp_path, monkeypatch):
    monkeypatch.setenv("PETS", str(tmp_path))
    recipe = load_recipe("pets-oxford", [f"vlm={settings}"])
    model = make_vlm(recipe)
    assert recipe.vlm.model == yaml.safe_load(settings)["model"].removeprefix("local:")
    if isinstance(recipe.vlm, LocalVLMSettings):
        assert "GB" in said
    elif recipe.vlm.api_base is not None:
        assert model.check() == []
    else:
        key = f"{recipe.vlm.model.partition('/')[0].upper()}_API_KEY"
        assert key in said
        monkeypatch.delenv(key, raising=False)
        with pytest.raises(TaxtuneError, match=key):
            model.check()
        monkeypatch.setenv(key, "secret")
        assert model.check() == [], "litellm knows it as a model that takes images"
