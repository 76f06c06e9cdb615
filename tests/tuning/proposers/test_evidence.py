from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from taxtune.metrics.diagnosis import ErrorType
from taxtune.objective import Objective
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.leaks import find_labels
from taxtune.tuning.proposers import evidence, make_proposer
from taxtune.tuning.proposers.evidence import Hider, hidden_answers, score_columns
from taxtune.tuning.proposers.messages import Messages
from tests.trees import tree_and_nodes
from tests.tuning.proposers.answered import BIRDS, bird_rows
from tests.tuning.proposers.histories import bird_goal, record
from tests.tuning.toy import PARENT, toy, tuned

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
    found = evidence(bird_rows(ANSWERS), bird_goal())
    assert found.images == 9
    assert found.failed == 1
    levels = found.levels
    assert [level.rank for level in levels] == ["order", "family", "species"]
    assert [level.stop for level in levels] == [1, 1, 4]
    assert [level.stop_right for level in levels] == [1, 1, 1]
    assert [level.reach for level in levels] == [5, 4, 4]
    assert [level.reach_right for level in levels] == [5, 3, 1]
    assert found.domain_only == 1
    assert found.abstained == 1
    assert found.off_tree == 1


def test_mistakes_are_listed_by_what_they_cost():
    answered = bird_rows(ANSWERS)
    found = evidence(answered, bird_goal())
    kinds = [(each.kind, each.count) for each in found.mistakes]
    assert kinds[:3] == [
        (ErrorType.WRONG_BRANCH, 2),
        (ErrorType.OFF_TREE, 1),
        (ErrorType.SIBLING, 1),
    ]
    assert set(kinds[3:]) == {(ErrorType.TOO_GENERAL, 3), (ErrorType.ABSTAINED, 1)}
    assert found.mistakes[0].wrong_from == {"family": 1, "class": 1}
    for mistake in found.mistakes:
        assert not mistake.wrong_from or mistake.kind in ("wrong branch", "sibling")
    for measure in ("hp", "hr"):
        missing = 1 - np.mean([getattr(row, measure) for row in answered if row.hp is not None])
        assert sum(each.costs[measure] for each in found.mistakes) == pytest.approx(missing)
    # Where too little is the fault, what says too little comes first.
    met = evidence(answered, bird_goal("hr_at_hp"))
    missed = evidence(replace(MISSED, rows=answered), bird_goal("hr_at_hp"))
    assert met.scores[0].measure == "hr"
    assert missed.scores[0].measure == "hp"
    assert missed.mistakes[0].kind == ErrorType.WRONG_BRANCH


def test_how_sure_scores_are():
    right = bird_rows([("goldfinch", "goldfinch")] * 20)
    found = evidence(right, bird_goal())
    hp = found.scores[0]
    assert hp.measure == "hp"
    assert hp.mean == 1.0
    assert hp.ceiling
    # Twenty right answers are no proof that all will be.
    assert 0.01 < hp.standard_error < 0.05
    half = bird_rows([("goldfinch", "goldfinch"), ("goldfinch", "chaffinch")] * 100)
    found = evidence(half, bird_goal("accuracy"))
    assert found.scores[0].standard_error == pytest.approx(np.sqrt(0.25 / 200), rel=0.01)


@pytest.mark.parametrize("objective", ["hp", "hr_at_hp", "accuracy", "hf", "ihf"])
def test_a_ceiling_is_that_of_what_is_aimed_at(objective):
    cautious = bird_rows([("goldfinch", "finch"), ("blue jay", "blue jay")])
    assert evidence(cautious, bird_goal(objective)).ceiling is (objective == "hp")
    perfect = bird_rows([("goldfinch", "goldfinch"), ("blue jay", "blue jay")])
    assert evidence(perfect, bird_goal(objective)).ceiling


def test_a_template_that_does_not_count_has_something_left_to_win():
    cautious = bird_rows([("goldfinch", "finch"), ("blue jay", "blue jay")])
    found = evidence(replace(MISSED, rows=cautious), bird_goal("hp"))
    assert not found.ceiling


@pytest.mark.parametrize("shown", [(), ("words",)])
def test_an_objective_that_rows_do_not_tell_of_is_explained_with_hp_and_hr(shown):
    objective = Objective("own", lambda scores: 0.0, shown=shown)
    found = evidence(bird_rows(ANSWERS), replace(bird_goal(), objective=objective))
    assert [score.measure for score in found.scores] == ["hp", "hr"]
    assert not found.ceiling


def test_without_a_taxonomy_or_answers_there_is_no_evidence():
    answered = bird_rows(ANSWERS)
    assert evidence(answered, bird_goal(taxonomy=None)) is None
    assert evidence([], bird_goal()) is None
    assert evidence(answered[-1:], bird_goal()) is None
    assert Messages().evidence([], bird_goal()) == ""


def test_values_of_rows_average_to_the_score():
    answered = bird_rows(ANSWERS[:-1])
    hp = np.mean([row.hp for row in answered])
    hr = np.mean([row.hr for row in answered])
    hf = score_columns(answered, ["hf"])["hf"]
    assert hf.mean() == pytest.approx(2 * hp * hr / (hp + hr))
    assert score_columns(answered, ["rouge-1"]) == {}
    rated = [replace(row, measures={"rouge-1": 0.5}) for row in answered]
    assert score_columns(rated, ["rouge-1"])["rouge-1"] == pytest.approx([0.5] * 9)


def said(text, label="goldfinch", template="What is it?"):
    (hidden,) = hidden_answers(bird_rows([(label, text)]), bird_goal(), template=template)
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
def test_names_are_replaced_by_what_they_are(text, shown):
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
def test_no_name_below_the_domain_remains(drawn):
    tree, (targets, nodes, domains) = drawn
    for target, node, other in zip(targets, nodes, domains, strict=True):
        domain = tree.lca(target, other)
        hider = Hider(tree, domain)
        known = {tree.labels[v] for v in tree.ancestors(domain)}
        secret = set(tree.labels) - known
        path = " ".join(tree.path(node))
        answer = f"It is {tree.labels[node]} or {tree.labels[target]} ({path})."
        assert not find_labels(hider.hide(answer, target, node), secret)


def test_names_of_unequal_nodes_are_told_by_the_placement():
    tree = Taxonomy.from_paths(["root/a/robin", "root/b/robin"])
    first, second = (v for v in range(len(tree)) if tree.labels[v] == "robin")
    hider = Hider(tree, 0)
    assert hider.hide("robin", first, second) == "[a wrong level-2 label of a wrong level-1 label]"
    assert hider.hide("robin", first, first) == "[the right level-2 label]"
    assert hider.hide("robin", first) == "[the right level-2 label]"


def test_in_words():
    text = Messages().evidence(bird_rows(ANSWERS), bird_goal(), template="Which bird?")
    assert "Standard errors on 9 images: hP ± " in text
    assert "change a score by at most 0.111" in text
    assert "species: 4 answers, 1 right" in text
    assert "family: 1 answer, 1 right" in text
    assert 'just "bird": 1 answer.' in text
    assert "no answer, the call failed: 1 answer." in text
    assert "sibling: 1 answer (wrong from species on: 1), hP −" in text
    assert '"It is [a wrong species of the right family]."' in text
    assert "as high as it can be" not in text
    names = [name for v in range(2, len(BIRDS)) for name in BIRDS.names(v)]
    assert not find_labels(text, names)
    perfect = Messages().evidence(bird_rows([("goldfinch", "goldfinch")] * 3), bird_goal())
    assert "hP is as high as it can be" in perfect
    assert "nothing left to win" in perfect
    assert "What costs most" not in perfect


def test_a_run_tells_its_proposer_and_gives_nothing_away(tmp_path):
    """What a function proposer can ask for in a run, and what a chat model would be sent in its place."""
    seen = []

    def propose(history, goal):
        seen.append((history, goal))
        return f"Which {{{{ domain }}}} is it, be careful? ({len(history)})"

    tuned(toy(tmp_path, "iterations=2", proposer=make_proposer(propose)))
    history, goal = seen[-1]
    assert [record.iteration for record in history] == [0, 1]
    baseline = evidence(history[0], goal)
    careful = evidence(history[1], goal)
    assert baseline.mistakes[0].kind == ErrorType.SIBLING
    assert careful.mistakes[0].kind == ErrorType.TOO_GENERAL
    assert careful.mistakes[0].costs["hp"] == 0
    messages = Messages().first(history, goal, budget=10_000, count=len)
    sent = " ".join(message["content"] for message in messages)
    assert "[the right level-1 label]" in sent
    assert not find_labels(sent, [*PARENT, *PARENT.values()])
