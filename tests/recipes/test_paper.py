"""The recipe of paper 1's experiment (§7.2, §15 with Table 6) does what the paper says, as far as the paper says it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import taxtune
from taxtune.objective import Aims, make_objective
from taxtune.recipe import load_recipe
from taxtune.tuning.records import IterationRecord
from taxtune.tuning.selection import choose
from tests.recipes.layouts import LAYOUTS, Painter
from tests.rows import sample_row, scores_of
from tests.servers import OpenAIServer, text

RECIPE = "birds-inat21"
OBJECTIVES = ("hr_at_hp", "accuracy")
ITERATIONS, TUNING, HELDOUT = 4, 5, 12


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("prompt.baseline", "What is this an image of? Answer in the format 'A: <answer>.'"),
        ("data.tuning", 20),
        ("data.first_rung", None),
        ("data.heldout", 200),
        ("iterations", 30),
        ("vlm.model", "meta-llama/Llama-3.2-11B-Vision-Instruct"),
        # §6, and Algorithm 1 (§11) with its thresholds
        ("mapper.similarity", "clip:hf-hub:apple/DFN5B-CLIP-ViT-H-14"),
        ("mapper.preset", "paper-listing"),
        ("proposer.kind", "llm"),
        ("proposer.evidence", False),
    ],
)
def test_the_constants_are_the_papers(key, value):
    assert load_recipe(RECIPE).flat()[key] == value


@pytest.fixture
def objective():
    settings = load_recipe(RECIPE).objective
    aims = Aims(hp_target=settings.hp_target, confidence=settings.confidence_level)
    return make_objective(settings.kind, aims=aims)


def record(iteration, *groups):
    """Returns a template's record; a group is a number of images with their hP and hR."""
    rows = []
    for n, hp, hr in groups:
        rows += [sample_row(node=1, hp=hp, hr=hr)] * n
    numbered = tuple(replace(row, example=str(i)) for i, row in enumerate(rows))
    scores = scores_of(numbered)
    return IterationRecord(iteration, "complete", "x", scores=scores, value=0.0, rows=numbered)


BOLD = record(0, (15, 1.0, 1.0), (4, 1.0, 0.75), (1, 0.75, 0.75))
BIRD = record(1, (20, 1.0, 0.5))
CAREFUL = record(2, (10, 1.0, 0.5), (10, 1.0, 0.875))
WORSE = record(3, (18, 1.0, 1.0), (2, 0.75, 1.0))


def test_the_winner_is_never_wrong_and_of_those_says_most(objective):
    """Table 6: hP = 1 first, then hR; by the means, so that 20 images decide as they did in the paper."""
    chosen = choose([BOLD, BIRD, CAREFUL, WORSE], objective)
    assert chosen.winner == CAREFUL.iteration
    assert chosen.reached


def test_where_every_template_is_wrong_the_winner_is_so_least(objective):
    chosen = choose([BOLD, WORSE], objective)
    assert chosen.winner == BOLD.iteration
    assert not chosen.reached


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the proposer was told in each iteration of the experiment from Python, by objective."""
    folder = tmp_path_factory.mktemp("paper")
    layout, _ = LAYOUTS[RECIPE]
    count = 0

    def reply(request):
        nonlocal count
        count += 1
        manner = " with care" if count % 2 else ""
        return text(f"```\nName the {{{{ domain }}}}{manner}. Way {count}.\n```")

    def answer(image, prompt):
        return "A: some thrush" if "care" in prompt else "A: Turdus merula"

    with OpenAIServer(reply) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-test")
        for name, where in layout(folder / "data", Painter()).items():
            patch.setenv(name, str(where))
        changes = [
            f"data.tuning={TUNING}",
            f"data.heldout={HELDOUT}",
            f"iterations={ITERATIONS}",
            "mapper.similarity=lexical",
            f"proposer.api_base={server.api_base}",
        ]
        result = taxtune.compare(
            OBJECTIVES,
            recipe=load_recipe(RECIPE, changes),
            vlm=answer,
            out=folder / "out",
            settings={"tracking.mlflow": False},
        )
        asked = [request.messages for request in server.chats]
    assert [run.objective for run in result.runs] == list(OBJECTIVES)
    assert [each.name for each in result.heldout] == ["baseline", *OBJECTIVES]
    for heldout in result.heldout:
        assert heldout.scores.n == HELDOUT
        for row in heldout.rows:
            assert row.stage in ("verbatim", "ngram", "vote", "similarity")
    assert len(asked) == len(OBJECTIVES) * ITERATIONS
    first, second = OBJECTIVES
    return {first: asked[:ITERATIONS], second: asked[ITERATIONS:]}


@pytest.mark.parametrize(
    ("objective", "scores"),
    [("hr_at_hp", r"hR \d\.\d{3}, hP \d\.\d{3}"), ("accuracy", r"accuracy \d\.\d{3}")],
)
def test_the_proposer_reads_every_past_template_with_its_scores_and_nothing_else(
    told, objective, scores
):
    for iteration, (_, user) in enumerate(told[objective], 1):
        entries = re.split(r"\nIteration ", "\n" + user["content"])[1:]
        assert len(entries) == iteration
        for entry in entries:
            head, fence, *_ = entry.splitlines()
            assert re.fullmatch(rf"\d+: {scores}( \(does not count: hP is too low\))?", head)
            assert fence == "```"
        for evidence in ("Standard errors", "Where the answers stop", "thrush", "Turdus"):
            assert evidence not in user["content"]


def test_the_proposer_is_told_what_hp_and_hr_mean_or_of_accuracy_alone(
    told,
):
    system = {name: messages[0][0]["content"] for name, messages in told.items()}
    for words in (
        "Every image is of this domain:\nbird.",
        "hierarchical precision (hP)",
        "hierarchical recall (hR)",
        "A template counts only if its hP is at least 1.000.",
        "back off",
        'Always answering just "bird" gives hP 1.000 and hR 0.500',
        "Learn from the\nscores: keep",
    ):
        assert words in system["hr_at_hp"]
    assert "accuracy" in system["accuracy"]
    for name in ("hP", "hR", "hierarchical"):
        assert name not in system["accuracy"]
