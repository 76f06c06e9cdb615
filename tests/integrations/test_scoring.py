"""What other optimisers are told of one answer."""

from __future__ import annotations

import itertools

import pytest

from taxtune.integrations.gepa import feedback, image_value
from taxtune.objective import Constraint, Objective, make_objective
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.leaks import find_labels
from tests.rows import placed_row

TREE = Taxonomy.from_dict({"bird": {"duck": ["mallard", "teal"], "owl": ["tawny owl", "barn owl"]}})


def row(label, **flags):
    """An answer about a mallard that was put on a node."""
    mallard = TREE.resolve("mallard")
    return placed_row(TREE, TREE.resolve(label), mallard, **flags)


def value(objective, label, **flags):
    return image_value(objective, row(label, **flags))


@pytest.mark.parametrize(
    ("objective", "label", "worth"),
    [
        ("hf", "mallard", 1.0),
        ("hf", "duck", 2 * 1 * (2 / 3) / (1 + 2 / 3)),
        ("accuracy", "teal", 0.0),
        # Of ihP and of plain hR, whose floor it holds.
        ("ihp", "bird", (1 + 0.25 * 1 / 3) / 1.25),
        ("hp", "teal", (2 / 3 + 0.25 * 2 / 3) / 1.25),
        ("hp", "duck", (4 * 1 + 2 / 3) / 5),
        # The same: hP counts four times hR.
        ("hr_at_hp", "duck", (4 * 1 + 2 / 3) / 5),
    ],
)
def test_the_value_of_one_answer(objective, label, worth):
    assert value(make_objective(objective), label) == pytest.approx(worth)


def test_the_value_of_one_answer_by_a_function_of_the_scores():
    informed = make_objective(lambda scores: scores.hp - scores.misinformation)
    assert value(informed, "teal") == pytest.approx(2 / 3 - 1)
    bits = Objective("bits", lambda scores: -scores.remaining_uncertainty)
    assert value(bits, "duck") == pytest.approx(-1.0)
    floor = Constraint("hr", 0.5, 0.9)
    deep = Objective("own", lambda scores: scores.depth, constraints=(floor,))
    assert value(deep, "duck") == pytest.approx(11 / 15)


@pytest.mark.parametrize("name", ["hp", "hr_at_hp", "hf", "ihr_at_ihp"])
def test_an_exact_answer_is_worth_most_and_one_off_the_tree_less_than_none(name):
    objective = make_objective(name)
    values = [value(objective, label) for label in TREE.labels]
    assert max(values) == pytest.approx(1.0)
    assert value(objective, "mallard") == pytest.approx(1.0)
    assert value(objective, "bird", off_tree=True) < value(objective, "bird")


@pytest.mark.parametrize(
    ("label", "flags", "said"),
    [
        ("mallard", {}, "the right level-2 label: 3 of its 3|hP 1.00|3 of the 3|hR 1.00"),
        ("duck", {}, "the right level-1 label: 2 of its 2|hP 1.00|2 of the 3|hR 0.67"),
        ("teal", {}, "a wrong level-2 label of the right level-1 label: 2 of its 3|hP 0.67"),
        ("tawny owl", {}, "a wrong level-2 label of a wrong level-1 label: 1 of its 3|hP 0.33"),
        ("tawny owl", {}, "hR 0.33"),
        ("bird", {"abstained": True}, "says nothing|1 of the 3|hR 0.33"),
        ("bird", {"off_tree": True}, "does not have"),
    ],
)
def test_feedback_says_how_much_is_right(label, flags, said):
    text = feedback(TREE, TREE.root, row(label, **flags))
    for words in said.split("|"):
        assert words in text


def test_feedback_names_no_label():
    below_root = range(1, len(TREE))
    labels = list(itertools.chain.from_iterable(map(TREE.names, below_root)))
    assert "tawny owl" in labels
    for node, target in itertools.product(range(len(TREE)), TREE.leaves.tolist()):
        text = feedback(TREE, TREE.root, placed_row(TREE, node, target))
        assert find_labels(text, labels) == []
