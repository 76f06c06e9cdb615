from __future__ import annotations

import itertools

import pytest

from taxtune.metrics.diagnosis import ErrorType, classify
from taxtune.report.gallery import change
from taxtune.taxonomy.tree import Taxonomy
from taxtune.tuning.records import SampleResult
from tests.rows import placed_row

TREE = Taxonomy(
    ("bird", "owls", "tawny owl", "snowy owl", "crows", "hooded crow", "jay", "blue jay"),
    (-1, 0, 1, 1, 0, 4, 4, 6),
)


def row(placed, target=2, *, off_tree=False, abstained=False):
    """What a run records of an answer that was put on a node."""
    return placed_row(TREE, placed, target, off_tree=off_tree, abstained=abstained)


#: Answers about a tawny owl that are on no node of their own.
ANSWERS = {
    "abstained": row(0, abstained=True),
    "off the tree": row(0, off_tree=True),
    "failed": SampleResult("a", "a.png", 2, "bird/owls/tawny owl", failure="timed out"),
}
STATES = {
    ErrorType.CORRECT: "exact",
    ErrorType.TOO_GENERAL: "right, but general",
    ErrorType.ABSTAINED: "abstained",
    ErrorType.OFF_TREE: "off the tree",
}


def answered(place):
    return row(place) if isinstance(place, int) else ANSWERS[place]


def test_a_records_state_is_the_error_type_that_the_tree_gives():
    pairs = list(itertools.product(range(len(TREE)), range(1, len(TREE))))
    placed, targets = zip(*pairs, strict=True)
    expected = [STATES.get(kind, "wrong") for kind in classify(TREE, placed, targets)]
    assert [one.state for one in map(row, placed, targets)] == expected
    for state in ("off the tree", "abstained"):
        assert ANSWERS[state].state == state
    assert ANSWERS["failed"].state == "missing"


@pytest.mark.parametrize(
    ("before", "after", "direction", "words"),
    [
        (2, 2, "unchanged", "exact, unchanged"),
        (2, 1, "worse", "exact → right, but general"),
        (1, 2, "better", "right, but general → exact"),
        (1, 0, "worse", "right, but general, worse"),
        (1, "abstained", "worse", "right, but general → abstained"),
        (3, "abstained", "better", "wrong → abstained"),
        (3, "off the tree", "different", "wrong → off the tree"),
        ("off the tree", "off the tree", "unchanged", "off the tree, unchanged"),
        (4, 5, "worse", "wrong, worse"),
        (5, 3, "better", "wrong, better"),
        (5, 6, "different", "wrong, different"),
        ("failed", 2, "missing", "missing"),
    ],
)
def test_what_becomes_of_an_answer(before, after, direction, words):
    assert change(answered(before), answered(after)) == (direction, words)


def test_more_than_the_label_says_is_not_known_to_be_true():
    assert change(row(7, 6), row(6, 6)) == ("better", "wrong → exact")
