from __future__ import annotations

import itertools

import pytest

from taxtune.metrics.diagnosis import ErrorType, classify
from taxtune.report.gallery import change
from taxtune.report.summary import state_of
from taxtune.taxonomy.tree import Taxonomy
from taxtune.tuning.records import SampleResult
from tests.rows import placed_row

TREE = Taxonomy(
    ("bird", "owls", "tawny owl", "snowy owl", "crows", "hooded crow", "jay", "blue jay"),
    (-1, 0, 1, 1, 0, 4, 4, 6),
)


def row(
    placed: int, target: int = 2, *, off_tree: bool = False, abstained: bool = False
) -> SampleResult:
    """What a run records of an answer that was put on a node."""
    return placed_row(TREE, placed, target, off_tree=off_tree, abstained=abstained)


FAILED = SampleResult(
    example="a", image="a.png", target=2, truth="bird/owls/tawny owl", failure="timed out"
)


STATES = {
    ErrorType.CORRECT: "exact",
    ErrorType.TOO_GENERAL: "right, but general",
    ErrorType.ABSTAINED: "abstained",
    ErrorType.OFF_TREE: "off the tree",
}


def test_a_records_state_is_the_error_type_that_the_tree_gives() -> None:
    pairs = list(itertools.product(range(len(TREE)), range(1, len(TREE))))
    kinds = classify(TREE, [a for a, _ in pairs], [b for _, b in pairs])
    assert [state_of(row(a, b)) for a, b in pairs] == [STATES.get(kind, "wrong") for kind in kinds]
    assert state_of(row(0, off_tree=True)) == "off the tree"
    assert state_of(row(0, abstained=True)) == "abstained"
    assert state_of(FAILED) == "missing"


@pytest.mark.parametrize(
    ("before", "after", "direction", "words"),
    [
        (row(2), row(2), "unchanged", "exact, unchanged"),
        (row(2), row(1), "worse", "exact → right, but general"),
        (row(1), row(2), "better", "right, but general → exact"),
        (row(1), row(0), "worse", "right, but general, worse"),
        (row(1), row(0, abstained=True), "worse", "right, but general → abstained"),
        (row(3), row(0, abstained=True), "better", "wrong → abstained"),
        (row(3), row(0, off_tree=True), "different", "wrong → off the tree"),
        (row(0, off_tree=True), row(0, off_tree=True), "unchanged", "off the tree, unchanged"),
        (row(4), row(5), "worse", "wrong, worse"),
        (row(5), row(3), "better", "wrong, better"),
        (row(5), row(6), "different", "wrong, different"),
        # More than the label says counts as wrong: it is not known to be true.
        (row(7, 6), row(6, 6), "better", "wrong → exact"),
        (FAILED, row(2), "missing", "missing"),
    ],
)
def test_what_becomes_of_an_answer(
    before: SampleResult, after: SampleResult, direction: str, words: str
) -> None:
    assert change(before, after) == (direction, words)
