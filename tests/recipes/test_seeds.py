"""The templates that come with taxtune: those of paper 1 are the paper's, and each does in every recipe."""

from __future__ import annotations

import pytest

from taxtune.errors import TemplateError
from taxtune.recipe import load_recipe
from taxtune.resources import prompts_dir, recipes_dir, template_path
from taxtune.settings import BASELINE
from taxtune.taxonomy import read_taxonomy
from tests.tuning.templates import check, render

FILES = sorted((prompts_dir() / "seeds").iterdir())
SEEDS = {file.stem: file.read_text(encoding="utf-8") for file in FILES}
RECIPES = sorted(file.stem for file in recipes_dir().glob("*.yaml"))


@pytest.mark.parametrize("name", RECIPES)
def test_a_seed_does_in_every_recipe_and_names_no_label(name):
    recipe = load_recipe(name)
    labels = []
    if recipe.taxonomy.path.startswith("builtin:"):
        tree = read_taxonomy(recipe.taxonomy.path)
        for leaf in tree.leaves:
            labels += tree.names(int(leaf))
    for seed in SEEDS.values():
        check(seed, forbidden=labels, samples=[recipe.prompt.variables])


@pytest.mark.parametrize(
    ("ranks", "asked"),
    [
        ([], "the exact object, even"),
        (["species"], "the exact species, even"),
        (["a", "b"], "the exact b, even"),
    ],
)
def test_our_specific_seed_asks_for_the_last_rank_or_else_for_the_domain(ranks, asked):
    variables = {"question": "What is it?", "domain": "object", "ranks": ranks, "examples": []}
    assert asked in render(SEEDS["specific"], variables)


@pytest.mark.parametrize(
    ("seed", "prompt"),
    [
        # Paper 1, §7.2.
        ("baseline", "What is this an image of? Answer in the format 'A: <answer>.'"),
        # Tables 7 and 8, with the question that §7 asks about iNaturalist 2021.
        ("paper1-minimal", "What species is this? Answer in the format A: <answer>."),
        (
            "paper1-specific",
            "What species is this? Do not give any extra text. Do not answer in a full sentence. Do not specify your "
            "certainty about the answer. Give your best guess if you are not sure. Be as specific as possible. Answer "
            "in the format A: <answer>.",
        ),
        ("paper1-question-answer", "Q: What species is this? A:"),
    ],
)
def test_the_prompts_of_the_paper_are_the_papers(seed, prompt):
    assert render(SEEDS[seed], {"question": "What species is this?"}) == prompt


def test_the_baseline_of_a_recipe_that_names_none_is_the_seed():
    assert SEEDS["baseline"].strip() == BASELINE


def test_a_seed_is_found_by_its_name_and_a_file_by_its_path(tmp_path):
    assert template_path("builtin:paper1-minimal").read_text() == SEEDS["paper1-minimal"]
    assert template_path(tmp_path / "mine.j2") == tmp_path / "mine.j2"
    with pytest.raises(
        TemplateError, match=r"builtin:minimal.*baseline, paper1-minimal, .*, specific"
    ):
        template_path("builtin:minimal")
