"""What is counted on the paths of the rows, on a tree that fits on a hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taxtune.metrics.ranks import OFF_TREE_RANK, RankIntervals, RankScores
from taxtune.report.clades import Clade, alike, answered, grow, level_names
from tests.report import samples

TRUTHS = ["a/b/c", "a/b/c", "a/b/d", "a/e", "a/e"]


def counted(clade: Clade) -> dict[str, tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    found = {"/".join(clade.path): (clade.images, clade.right, clade.wrong, clade.said)}
    for child in clade.children:
        found |= counted(child)
    return found


def test_images_and_answers_are_counted_down_to_each_node() -> None:
    run = samples.answered(
        TRUTHS,
        baseline=["a/b/c", "a/b/d", "a/b/d", "a/b/c", "a/x/y"],
        winner=["a/b/c", "a/b", "a/b", "a", "a/e"],
    )
    root = grow(answered(run.heldout))
    assert root is not None
    assert counted(root) == {
        # images, right with each template, wrong with each, said with each
        "a": (5, (5, 5), (0, 0), (5, 5)),
        "a/b": (3, (3, 3), (0, 0), (4, 3)),
        "a/b/c": (2, (1, 1), (1, 0), (2, 1)),
        "a/b/d": (1, (1, 0), (0, 0), (2, 0)),
        "a/e": (2, (0, 1), (2, 0), (0, 1)),
        "a/x": (0, (0, 0), (0, 0), (1, 0)),
        "a/x/y": (0, (0, 0), (0, 0), (1, 0)),
    }


def test_an_answer_below_the_truth_is_right_down_to_it() -> None:
    root = grow(answered(samples.answered(["a/b"], winner=["a/b/c"]).heldout))
    assert root is not None
    assert counted(root)["a/b"] == (1, (1,), (0,), (1,))
    assert counted(root)["a/b/c"] == (0, (0,), (0,), (1,))


def test_an_answer_off_the_tree_is_wrong_at_every_level_and_one_that_says_nothing_at_none() -> None:
    run = samples.answered(["a/b", "a/b"], winner=["a", "a"])
    rows = (replace(run.heldout[0].rows[0], off_tree=True), replace(run.heldout[0].rows[1], abstained=True))
    root = grow(answered([replace(run.heldout[0], rows=rows)]))
    assert root is not None
    assert counted(root) == {"a": (2, (2,), (0,), (2,)), "a/b": (2, (0,), (1,), (0,))}


def test_only_images_that_all_templates_have_an_answer_and_a_rating_for_count() -> None:
    run = samples.answered(TRUTHS, baseline=["a", None, "a", "a", "a"], winner=["a", "a", "a", None, "a"])
    baseline, winner = run.heldout
    winner = replace(winner, rows=(replace(winner.rows[0], unrated="no rating"), *winner.rows[1:]))
    assert [rows[0].example for rows in answered([baseline, winner])] == ["i2", "i4"]
    assert answered([]) == []
    assert grow([]) is None


def test_templates_that_were_asked_about_other_images_are_another_group() -> None:
    first, second = (samples.answered(truths, winner=truths).heldout[0] for truths in (["a/b"], ["a/c"]))
    assert [[held.rows[0].truth for held in group] for group in alike([first, second, first])] == [
        ["a/b", "a/b"],
        ["a/c"],
    ]


def ranked(rank: str, said: int, due: int) -> RankIntervals:
    return RankIntervals(RankScores(rank, said, due, 0), None, None)


@pytest.mark.parametrize(
    ("ranks", "names"),
    [
        ((ranked("order", 2, 2), ranked("species", 1, 2), ranked(OFF_TREE_RANK, 0, 0)), ["order", "species"]),
        # A rank too many, one too few, and counts that are no level's: which level has which rank cannot be told.
        ((ranked("order", 2, 2), ranked("genus", 1, 2), ranked("species", 1, 2)), ["level 1", "level 2"]),
        ((ranked("order", 2, 2),), ["level 1", "level 2"]),
        ((ranked("order", 2, 2), ranked("species", 1, 1)), ["level 1", "level 2"]),
        ((), ["level 1", "level 2"]),
    ],
)
def test_a_level_has_a_ranks_name_where_that_is_certain(ranks: tuple[RankIntervals, ...], names: list[str]) -> None:
    run = samples.answered(["a/b/c", "a/b/d"], winner=["a/b/c", "a/b"])
    heldout = [replace(run.heldout[0], ranks=ranks)]
    assert level_names(heldout, answered(heldout)) == names
