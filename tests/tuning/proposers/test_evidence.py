from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from taxtune.metrics.diagnosis import ErrorType
from taxtune.objective import Objective
from taxtune.recipe import load_recipe
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.build import Setup
from taxtune.tuning.leaks import find_labels
from taxtune.tuning.proposers import Goal, evidence, make_proposer
from taxtune.tuning.proposers.evidence import Hider, hidden_answers, score_columns
from taxtune.tuning.proposers.messages import Messages
from taxtune.tuning.records import IterationRecord
from tests.trees import tree_and_nodes
from tests.tuning.proposers.answered import BIRDS, rows
from tests.tuning.proposers.histories import goal as make_goal
from tests.tuning.proposers.histories import record
from tests.tuning.toy import PARENT, ToyVLM, make_files, tuned


def goal(objective: str = "hp", **more: object) -> Goal:
    given = {"taxonomy": BIRDS, "domain_node": BIRDS.resolve("bird"), **more}
    return make_goal(
        objective, 0.3, 1.0, 0.5, "bird", "What is it?", ["order", "family", "species"], 9, **given
    )


MISSED = record(1, "Which bird?", feasible=False, value=-0.1)
ANSWERS = [
    ("goldfinch", "A: European Goldfinch."),
    ("goldfinch", "It is a chaffinch."),
    ("goldfinch", "A finch."),
    ("goldfinch", "Blue jay"),
    ("snowy owl", "An owl, I think."),
    ("snowy owl", "just a bird"),
    ("snowy owl", "I cannot tell."),
    ("blue jay", "A bicycle"),
    ("blue jay", "a tiger"),
    ("blue jay", None),
]


def test_levels_say_where_answers_stop_and_how_many_are_right():
    found = evidence(rows(BIRDS, ANSWERS), goal())
    assert (found.images, found.failed) == (9, 1)
    levels = {
        level.rank: (level.stop, level.stop_right, level.reach, level.reach_right)
        for level in found.levels
    }
    assert levels == {
        "order": (1, 1, 5, 5),
        "family": (1, 1, 4, 3),
        "species": (4, 1, 4, 1),
    }
    assert (found.domain_only, found.abstained, found.off_tree) == (1, 1, 1)


def test_mistakes_are_listed_by_what_they_cost():
    answered = rows(BIRDS, ANSWERS)
    found = evidence(answered, goal())
    kinds = [(each.kind, each.count) for each in found.mistakes]
    assert kinds[:3] == [
        (ErrorType.WRONG_BRANCH, 2),
        (ErrorType.OFF_TREE, 1),
        (ErrorType.SIBLING, 1),
    ]
    assert set(kinds[3:]) == {(ErrorType.TOO_GENERAL, 3), (ErrorType.ABSTAINED, 1)}
    assert found.mistakes[0].wrong_from == {"family": 1, "class": 1}
    assert all(
        not each.wrong_from
        for each in found.mistakes
        if each.kind not in ("wrong branch", "sibling")
    )
    for measure in ("hp", "hr"):
        missing = 1 - np.mean([getattr(row, measure) for row in answered if row.hp is not None])
        assert sum(each.costs[measure] for each in found.mistakes) == pytest.approx(missing)
    # Where too little is the fault, what says too little comes first.
    met = evidence(answered, goal("hr_at_hp"))
    missed = evidence(replace(MISSED, rows=tuple(answered)), goal("hr_at_hp"))
    assert met.scores[0].measure == "hr"
    assert missed.scores[0].measure == "hp"
    assert missed.mistakes[0].kind == ErrorType.WRONG_BRANCH


def test_how_sure_scores_are():
    right = rows(BIRDS, [("goldfinch", "goldfinch")] * 20)
    found = evidence(right, goal())
    hp = found.scores[0]
    assert (hp.measure, hp.mean, hp.ceiling) == ("hp", 1.0, True)
    # Twenty right answers are no proof that all will be.
    assert 0.01 < hp.standard_error < 0.05
    half = rows(BIRDS, [("goldfinch", "goldfinch"), ("goldfinch", "chaffinch")] * 100)
    found = evidence(half, goal("accuracy"))
    assert found.scores[0].standard_error == pytest.approx(np.sqrt(0.25 / 200), rel=0.01)


def test_a_ceiling_is_that_of_what_is_aimed_at():
    cautious = rows(BIRDS, [("goldfinch", "finch"), ("blue jay", "blue jay")])
    for objective, ceiling in (
        ("hp", True),
        ("hr_at_hp", False),
        ("accuracy", False),
        ("hf", False),
    ):
        found = evidence(cautious, goal(objective))
        assert found.ceiling is ceiling, objective
    perfect = rows(BIRDS, [("goldfinch", "goldfinch"), ("blue jay", "blue jay")])
    for objective in ("hp", "hr_at_hp", "accuracy", "hf", "ihf"):
        found = evidence(perfect, goal(objective))
        assert found.ceiling, objective
    # One that does not count has something left to win.
    found = evidence(replace(MISSED, rows=tuple(cautious)), goal("hp"))
    assert not found.ceiling


def test_an_objective_that_rows_do_not_tell_of_is_explained_with_hp_and_hr():
    for objective in (
        Objective("own", lambda scores: 0.0),
        Objective("said", lambda scores: 0.0, shown=("words",)),
    ):
        found = evidence(rows(BIRDS, ANSWERS), replace(goal(), objective=objective))
        assert [score.measure for score in found.scores] == ["hp", "hr"]
        assert not found.ceiling


def test_without_a_taxonomy_or_answers_there_is_no_evidence():
    answered = rows(BIRDS, ANSWERS)
    assert evidence(answered, goal(taxonomy=None)) is None
    assert evidence([], goal()) is None
    assert evidence(answered[-1:], goal()) is None
    assert Messages().evidence([], goal()) == ""


def test_values_of_rows_average_to_the_score():
    answered = rows(BIRDS, ANSWERS[:-1])
    hp, hr = (np.mean([getattr(row, key) for row in answered]) for key in ("hp", "hr"))
    hf = score_columns(answered, ["hf"])["hf"]
    assert hf.mean() == pytest.approx(2 * hp * hr / (hp + hr))
    assert score_columns(answered, ["rouge-1"]) == {}
    rated = [replace(row, measures={"rouge-1": 0.5}) for row in answered]
    assert score_columns(rated, ["rouge-1"])["rouge-1"] == pytest.approx([0.5] * 9)


def said(text: str, label: str = "goldfinch", template: str = "What is it?") -> str:
    (hidden,) = hidden_answers(rows(BIRDS, [(label, text)]), goal(), template=template)
    return hidden.text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("A: Goldfinch.", "A: [the right species]."),
        ("a CHAFFINCH", "[a wrong species of the right family]"),
        ("Blue jays", "[a wrong species of the right order]"),
        ("Bubo scandiacus", "[a wrong species of a wrong order]"),
        ("owl", "[a wrong order]"),
        ("It's a finch, maybe a goldfinch.", "It's [the right family], maybe [the right species]."),
        ("tiger", "[a wrong species outside the domain]"),
        ("A small blue bird", "A […] bird"),
        ("This is an animal", "This is an animal"),
        (
            "I cannot tell the exact species of this bird.",
            "I cannot tell the exact species of this bird.",
        ),
        ("A red-capped warbler or a finch", "A […] or [the right family]"),
        ("gold\u200bfinch", "[the right species]"),
        ("", ""),
    ],
)
def test_names_are_replaced_by_what_they_are(text: str, shown: str):
    assert said(text) == shown


def test_words_of_the_prompt_may_stay():
    assert said("Probably wildlife", template="Which wildlife is this?") == "Probably wildlife"
    assert said("Probably wildlife") == "Probably […]"


def test_names_that_are_spelt_with_the_words_of_the_prompt_are_hidden():
    alphabet = "Spell the name with these letters: " + " ".join("abcdefghijklmnopqrstuvwxyz")
    assert said("f i n c h", template=alphabet) == "[…]"
    assert said("[f i n c h]", template=alphabet) == "[…]"
    assert said("[o w l s]", template=alphabet) == "(o w l s)"


@given(tree_and_nodes(rows=3))
def test_no_name_below_the_domain_remains(drawn: tuple[Taxonomy, list[list[int]]]):
    tree, (targets, nodes, domains) = drawn
    for target, node, other in zip(targets, nodes, domains, strict=True):
        domain = tree.lca(target, other)
        hider = Hider(tree, domain)
        secret = {tree.labels[v] for v in range(len(tree)) if not tree.is_ancestor(v, domain)}
        secret -= {tree.labels[v] for v in tree.ancestors(domain)}
        answer = (
            f"It is {tree.labels[node]} or {tree.labels[target]} ({' '.join(tree.path(node))})."
        )
        assert not find_labels(hider.hide(answer, target, node), secret)


def test_names_of_unequal_nodes_are_told_by_the_placement():
    tree = Taxonomy.from_paths(["root/a/robin", "root/b/robin"])
    first, second = (v for v in range(len(tree)) if tree.labels[v] == "robin")
    hider = Hider(tree, 0)
    assert hider.hide("robin", first, second) == "[a wrong level-2 label of a wrong level-1 label]"
    assert hider.hide("robin", first, first) == "[the right level-2 label]"
    assert hider.hide("robin", first) == "[the right level-2 label]"


def test_in_words():
    text = Messages().evidence(rows(BIRDS, ANSWERS), goal(), template="Which bird?")
    for words in (
        "Standard errors on 9 images: hP ± ",
        "change a score by at most 0.111",
        "species: 4 answers, 1 right",
        "family: 1 answer, 1 right",
        'just "bird": 1 answer.',
        "no answer, the call failed: 1 answer.",
        "sibling: 1 answer (wrong from species on: 1), hP −",
        '"It is [a wrong species of the right family]."',
    ):
        assert words in text
    assert "as high as it can be" not in text
    names = [name for v in range(2, len(BIRDS)) for name in BIRDS.names(v)]
    assert not find_labels(text, names)
    perfect = Messages().evidence(rows(BIRDS, [("goldfinch", "goldfinch")] * 3), goal())
    assert "hP is as high as it can be" in perfect
    assert "nothing left to win" in perfect
    assert "What costs most" not in perfect


def test_a_run_tells_its_proposer_and_gives_nothing_away(tmp_path: Path):
    """What a function proposer can ask for in a run, and what a chat model would be sent in its place."""
    seen: list[tuple[list[IterationRecord], Goal]] = []

    def propose(history: list[IterationRecord], goal: Goal) -> str:
        seen.append((history, goal))
        return f"Which {{{{ domain }}}} is it, be careful? ({len(history)})"

    recipe = load_recipe(make_files(tmp_path), ("iterations=2",))
    tuned(Setup(recipe, tmp_path / "out", vlm=ToyVLM(), proposer=make_proposer(propose)))
    history, goal = seen[-1]
    assert [record.iteration for record in history] == [0, 1]
    baseline, careful = (evidence(record, goal) for record in history)
    assert baseline.mistakes[0].kind == ErrorType.SIBLING
    assert careful.mistakes[0].kind == ErrorType.TOO_GENERAL
    assert careful.mistakes[0].costs["hp"] == 0
    sent = " ".join(
        message["content"] for message in Messages().first(history, goal, budget=10_000, count=len)
    )
    assert "[the right level-1 label]" in sent
    assert not find_labels(sent, [*PARENT, *PARENT.values()])
