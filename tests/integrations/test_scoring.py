"""What other optimisers are told of one answer."""

from __future__ import annotations

import itertools

import pytest

from taxtune.integrations.gepa import feedback, image_value
from taxtune.objective import Constraint, Objective, make_objective
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.leaks import find_labels
from taxtune.tuning.records import SampleResult
from tests.rows import placed_row

TREE = Taxonomy.from_dict({"bird": {"duck": ["mallard", "teal"], "owl": ["tawny owl", "barn owl"]}})
MALLARD, TEAL, DUCK, OWL = (TREE.resolve(name) for name in ("mallard", "teal", "duck", "tawny owl"))


def row(node: int, target: int = MALLARD, **flags: bool) -> SampleResult:
    return placed_row(TREE, node, target, **flags)


def value(objective: Objective, node: int, **flags: bool) -> float:
    return image_value(objective, row(node, **flags))


@pytest.mark.parametrize(
    ("objective", "node", "worth"),
    [
        ("hf", MALLARD, 1.0),
        ("hf", DUCK, 2 * 1 * (2 / 3) / (1 + 2 / 3)),
        ("accuracy", TEAL, 0.0),
        (
            "ihp",
            TREE.root,
            (1 + 0.25 * 1 / 3) / 1.25,
        ),  # of ihP and of plain hR, whose floor it holds
        ("hp", TEAL, (2 / 3 + 0.25 * 2 / 3) / 1.25),
        ("hp", DUCK, (4 * 1 + 2 / 3) / 5),
        ("hr_at_hp", DUCK, (4 * 1 + 2 / 3) / 5),  # the same: hP counts four times hR
        (lambda found: found.hp - found.misinformation, TEAL, 2 / 3 - 1),
        (Objective("bits", lambda found: -found.remaining_uncertainty), DUCK, -1.0),
        (
            Objective("own", lambda found: found.depth, constraints=(Constraint("hr", 0.5, 0.9),)),
            DUCK,
            11 / 15,
        ),
    ],
)
def test_the_value_of_one_answer(objective: object, node: int, worth: float) -> None:
    assert value(make_objective(objective), node) == pytest.approx(worth)  # type: ignore[arg-type]


def test_an_exact_answer_is_worth_most_and_one_off_the_tree_less_than_none() -> None:
    for name in ("hp", "hr_at_hp", "hf", "ihr_at_ihp"):
        objective = make_objective(name)
        values = [value(objective, node) for node in range(len(TREE))]
        off = value(objective, TREE.root, off_tree=True)
        assert max(values) == pytest.approx(values[MALLARD]) == pytest.approx(1.0)
        assert off < value(objective, TREE.root)


@pytest.mark.parametrize(
    ("node", "flags", "said"),
    [
        (
            MALLARD,
            {},
            ["the right level-2 label", "3 of its 3", "hP 1.00", "3 of the 3", "hR 1.00"],
        ),
        (DUCK, {}, ["the right level-1 label", "2 of its 2", "hP 1.00", "2 of the 3", "hR 0.67"]),
        (TEAL, {}, ["a wrong level-2 label of the right level-1 label", "2 of its 3", "hP 0.67"]),
        (
            OWL,
            {},
            ["a wrong level-2 label of a wrong level-1 label", "1 of its 3", "hP 0.33", "hR 0.33"],
        ),
        (TREE.root, {"abstained": True}, ["says nothing", "1 of the 3", "hR 0.33"]),
        (TREE.root, {"off_tree": True}, ["does not have"]),
    ],
)
def test_feedback_says_how_much_is_right(
    node: int, flags: dict[str, bool], said: list[str]
) -> None:
    text = feedback(TREE, TREE.root, row(node, **flags))
    assert [words for words in said if words not in text] == [], text


def test_feedback_names_no_label() -> None:
    labels = [name for node in range(len(TREE)) if node != TREE.root for name in TREE.names(node)]
    for node, target in itertools.product(range(len(TREE)), TREE.leaves):
        assert find_labels(feedback(TREE, TREE.root, row(node, int(target))), labels) == []
